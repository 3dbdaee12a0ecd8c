"""What is found out at the points of a sweep: names, units and meanings."""

from __future__ import annotations

from collections.abc import Mapping

from studies.sweeps.layout import Variable

OUTCOMES: Mapping[str, Variable] = {
    "cosine": Variable((), "1", "cosine to the exact gradient"),
    "norm_ratio": Variable((), "1", "norm over that of the exact gradient"),
    "error": Variable((), "1", "relative error of the gradient"),
    "snr": Variable((), "1", "signal to noise of the gradient"),
    "loss": Variable((), "1", "loss before training"),
    "final_loss": Variable((), "1", "lowest loss in training"),
    "improvement": Variable((), "1", "loss before training over the lowest"),
    "gamma": Variable((), "1", "loss scale γ"),
    "saturated": Variable((), "samples", "values beyond a converter's range"),
    "passes": Variable((), "passes", "passes per gradient"),
    "device_seconds": Variable((), "s", "time on the device per gradient"),
    "adc_energy": Variable((), "J", "energy of reading per gradient"),
    "dac_energy": Variable((), "J", "energy of playing per gradient"),
    "dissipated_energy": Variable((), "J", "energy lost per gradient"),
    "energy": Variable((), "J", "energy per gradient"),
    "bptt_energy": Variable((), "J", "energy of backpropagation on a digital machine"),
    "gradient": Variable(("parameter",), "1", "gradient, in the design's own units"),
    "exact": Variable(("parameter",), "1", "exact gradient, in the design's own units"),
    "cosine_by_kind": Variable(("kind",), "1", "cosine to the exact gradient, by kind of parameter"),
}

AXES: Mapping[str, tuple[str, str]] = {
    "seed": ("", "seed"),
    "chip": ("", "chip"),
    "design": ("", "design"),
    "learning.gamma": ("1", "loss scale γ"),
    "learning.epsilon": ("1", "nudging strength ε"),
    "learning.shots": ("", "shots"),
    "learning.protocol": ("", "protocol"),
    "time.steps": ("steps", "steps"),
    "profile.readout.bits": ("bits", "readout resolution"),
    "profile.drive.bits": ("bits", "drive resolution"),
    "profile.nudge.bits": ("bits", "nudge resolution"),
    "profile.fabrication.bits": ("bits", "resolution of parameters"),
    "profile.readout.noise": ("full scales", "readout noise"),
    "profile.drive.noise": ("full scales", "drive noise"),
    "profile.dynamics.quality": ("", "quality factor Q"),
    "profile.dynamics.linewidth": ("Hz", "linewidth"),
    "profile.dynamics.drift": ("per pass", "drift of parameters"),
    "profile.dynamics.temperature": ("K", "temperature"),
    "profile.fabrication.mismatch": ("relative", "mismatch of parameters"),
    "profile.echo.gain": ("1", "gain of the echo"),
    "profile.echo.angle": ("rad", "angle of the echo"),
    "profile.echo.noise": ("nominal peaks", "noise of the echo"),
    "profile.echo.latency": ("s", "latency of the echo"),
}
"""Units and words of axes that are often used."""


def words(path: str) -> tuple[str, str]:
    """Unit and name of an axis, for people."""
    if path in AXES:
        return AXES[path]
    from rhel_hw.profile import settings

    section, _, rest = path.partition(".")
    if section == "profile":
        unit = {s.path: s.unit for s in settings()}.get(rest, "")
        return unit, rest.replace(".", " ").replace("_", " ")
    return "", path

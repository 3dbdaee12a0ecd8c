"""What the stages found, as plain data for files and reports; arrays are lists, with chips last, NaN is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibration.model import CURVE

if TYPE_CHECKING:
    from calibration.converters import Readout
    from calibration.drift import Drift
    from calibration.drives import Drives
    from calibration.echo import EchoQuality
    from calibration.identify import Identified
    from calibration.loss import Loss
    from calibration.nudges import Nudges
    from calibration.ranging import Ranging
    from calibration.turn import Turn
    from rhel_hw.pilots import Strengths

Plain = dict[str, Any]


def of_ranges(found: Ranging) -> Plain:
    """Full scales that amplifiers are set to, and the peaks they follow from."""
    return {"full_scales": dict(found.ranges), "peaks": dict(found.peaks)}


def of_readout(readout: Readout, found: Identified) -> Plain:
    """Curves, noise and effective bits by channel."""
    names = [c.name for c in found.model.channels]
    own: Plain = {
        "names": names,
        "full_scales": plain(found.model.full_scales),
        **_curves(found, "readout", len(names)),
    }
    own |= {"noise": plain(found.fit.noise), "effective_bits": plain(readout.effective_bits)}
    return own | {"nonlinearity": plain(readout.nonlinearity)}


def of_drives(driven: Drives | None, found: Identified) -> Plain:
    """The same of drives; where the readout hides their noise, it is a bound."""
    names = list(found.model.drives)
    own: Plain = {
        "names": names,
        "full_scales": plain(found.model.drive_scales),
        **_curves(found, "drives", len(names)),
    }
    if driven is not None:
        own |= {"noise": plain(np.where(driven.hidden, driven.most, driven.noise)), "hidden": plain(driven.hidden)}
        own |= {"effective_bits": plain(driven.effective_bits)}
    return own


def _curves(found: Identified, part: str, count: int) -> Plain:
    own = found.model.parts[part]
    values, deviations = (x[own].reshape(3, count, -1) for x in (found.fit.x, found.fit.deviations))
    curves = {what: plain(v) for what, v in zip(CURVE, values, strict=True)}
    return curves | {f"{what}_deviation": plain(v) for what, v in zip(CURVE, deviations, strict=True)}


def of_values(found: Identified) -> Plain:
    """Element values over what is drawn."""
    entries, theta = found.model.values, found.model.lossy.assembly.theta
    drawn = [float(theta[e.key][e.index]) * e.scale for e in entries]
    own = found.model.parts["values"]
    return {
        "names": [e.name for e in entries],
        "drawn": drawn,
        "units": [e.unit for e in entries],
        "values": plain(found.values / found.drawn),
        "deviations": plain(found.deviations),
        "identified": plain(found.told[own]),
        "excess": plain(found.fit.excess),
    }


def of_turn(turned: Turn) -> Plain:
    """Clock and turn."""
    when = turned.timing
    return {
        "step_s": when.step_s,
        "latency_s": when.latency_s,
        "latency_deviation_s": plain(when.latency_deviation_s),
        "skew_s": when.skew_s,
        "skew_deviation_s": plain(when.skew_deviation_s),
        "nodes": list(turned.nodes),
        "gain": plain(turned.gain),
        "gain_deviation": plain(turned.gain_deviation),
        "angle": plain(turned.angle),
        "angle_deviation": plain(turned.angle_deviation),
        "both_quadratures": turned.both,
        "scatter": {name: plain(getattr(turned.scatter, name)) for name in ("gain", "angle", "noise")},
    }


def of_nudges(nudged: Nudges | None) -> Plain:
    """Gain and offset of what nudges."""
    if nudged is None:
        return {"names": []}
    names = ("gain", "gain_deviation", "offset", "offset_deviation")
    return {"names": list(nudged.targets), **{name: plain(getattr(nudged, name)) for name in names}}


def of_echoes(quality: EchoQuality) -> Plain:
    """How far echoes miss their start, by their length."""
    return {
        "times_s": plain(quality.times_s),
        "measured": plain(quality.measured),
        "deviations": plain(quality.deviations),
        "trimmed": None if quality.trimmed is None else plain(quality.trimmed),
        "expected": plain(quality.expected),
        "contributions": {name: plain(v) for name, v in quality.contributions.items()},
    }


def of_loss(found: Loss) -> Plain:
    """Rates, and what was tried against them."""
    return {
        "rates": plain(found.rates),
        "lost": plain(found.lost),
        "unevenness": plain(found.unevenness),
        "missed": {way: plain(v) for way, v in found.missed.items()},
        "best": found.best,
    }


def of_strengths(found: Strengths, epsilon: float) -> Plain:
    """γ, and what is to be expected of the gradient by every stencil."""
    return {
        "epsilon": epsilon,
        "gamma": plain(found.gammas),
        "noise": plain(found.expected.noise),
        "bias": plain(found.expected.bias),
        "by_stencil": {
            name: {part: plain(getattr(e, part)) for part in ("strengths", "noise", "bias")}
            for name, e in found.by_stencil.items()
        },
    }


def of_drift(found: Drift, tolerance: float) -> Plain:
    """Rates, scatter, and how long values stay within a tolerance."""
    soon = found.interval(tolerance)
    arrays = ("passes", "seconds", "track", "rates", "deviations", "scatter")
    return {
        "names": list(found.names),
        **{name: plain(getattr(found, name)) for name in arrays},
        "tolerance": tolerance,
        "interval": {"seen": soon.seen, "passes": plain(soon.passes), "seconds": plain(soon.seconds)},
    }


def plain(value: Any) -> Any:
    """Arrays as lists; what is no number is None."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return array.tolist()
    found = array.astype(object)
    found[~np.isfinite(array)] = None
    return found.tolist() if array.ndim else (None if not np.isfinite(array) else float(array))

"""Records of light at the ports of a linear design, from what a network analyser measured: docs/physics.md, 11.5.

Light on a bus leaves as s_out = s_in − √κ_e·a, so that S tells the amplitude in every resonator that has a port, per
unit of what drives another: G = (1 − S)/√(κ_e·κ_e′). A drive that is constant over each step then makes
a = Σ_n F_n·h(t − t_n), where h is the answer to a pulse of one step. At high frequencies G falls as slowly as that of
one resonator, which is transformed in closed form with the design's own numbers; what was measured beside that is
transformed as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import czt, fftconvolve

from circuits import Design
from circuits.formats import touchstone
from circuits.formats.touchstone import NONLINEAR, Network
from devices import ArgumentError, CoherentDrive, EvanescentCoupler, nearest
from devices.photonic import HBAR
from rhel_hw.bench import Channel, Description, Kind, Record, Samples, Shot, sample_count, sample_times
from rhel_hw.emulated import EmulatedBench
from rhel_hw.replay import Recording

Waves = NDArray[np.complex128]

TOLERANCE = 0.01
"""Of the pulse: how much light may be beyond the band, by a bound that is some three times too high, or left when the
answer begins anew."""
SUFFIX = re.compile(r"\.s(\d+)p", re.IGNORECASE)


def is_touchstone(path: Path) -> bool:
    """Whether a file is named as one of S-parameters is."""
    return SUFFIX.fullmatch(path.suffix) is not None


def load(path: Path) -> Network:
    """S-parameters of a file, such as ``chip.s2p``."""
    match = SUFFIX.fullmatch(path.suffix)
    if match is None:
        raise ArgumentError(f"Argument `{path}` must be named by its number of ports, as in chip.s2p")
    try:
        return touchstone.read(path.read_text(encoding="utf-8", errors="replace"), int(match[1]))
    except OSError as problem:
        raise ArgumentError(f"Argument `{path}` must be a file, but {problem.strerror}") from None
    except ArgumentError as problem:
        raise ArgumentError(f"{problem} ({path})") from None


def pulse(design: Design, drive: str) -> Shot:
    """A pass whose drive is on for one step, so strongly that it brings one photon."""
    wave = np.zeros(design.steps)
    wave[0] = 1 / design.step_s
    return Shot(design.steps, {drive: wave})


def recording(design: Design, network: Network) -> Recording:
    """What every driven port answers to a pulse of one step; channels are those that the ports show."""
    seen = Ports.of(design, network)
    ideal = EmulatedBench(design).describe()
    shown = {name: channel for name, channel in ideal.channels.items() if channel.node in seen.places}
    found = Recording(replace(ideal, channels=shown, holds=False, trims=False))
    for drive in seen.drives:
        shot = pulse(design, drive)
        found.add(shot, seen.record(shot, found.description))
    return found


@dataclass(frozen=True, eq=False)
class Ports:
    """What S-parameters say of a design."""

    design: Design
    frequencies_hz: Samples
    """Relative to the carrier, evenly spaced."""
    beside: Waves
    """G without that of single resonators, (frequencies, ports, ports): light in i per drive of j, e^(−iωt)."""
    places: dict[str, int]
    """Of nodes among the ports."""
    poles: dict[str, complex]
    """κ/2 + iK of single resonators, as the design has them."""

    @staticmethod
    def of(design: Design, network: Network) -> Ports:
        """Check that the network is of this design, and that its band is wide and its grid fine enough."""
        netlist = design.netlist
        for part in netlist.elements:
            if part.type in NONLINEAR:
                raise ArgumentError(f"Argument `design` must be linear for S-parameters, but {part.name} is not")
            if isinstance(part, EvanescentCoupler) and part.phase:
                raise ArgumentError(
                    f"Argument `design` must have couplings without phases for S-parameters, but {part.name} has one: "
                    "it turns the quadratures of its nodes"
                )
        nominal = touchstone.response(netlist)
        names = network.ports or nominal.ports
        if len(names) != network.scattering.shape[1]:
            raise ArgumentError(
                f"Argument `network` must name its ports, as in `! Port[1] = {nominal.ports[0]}`, or have those of the "
                f"design, {', '.join(nominal.ports)}, but has {network.scattering.shape[1]} without names"
            )
        for name in names:
            if name not in nominal.ports:
                raise ArgumentError(
                    f"Argument `network` must have ports of the design, but has {name!r}{nearest(name, nominal.ports)}"
                )
        at = [nominal.nodes.index(name) for name in names]
        entry = np.sqrt(nominal.outer[at])
        inside = (np.eye(len(at)) - network.scattering) / np.outer(entry, entry)
        own = (nominal.inner + nominal.outer)[at] / 2 + 1j * nominal.coupling.diagonal()[at]
        hertz = _even(network.frequencies_hz) - nominal.reference_hz
        beside = inside - np.eye(len(at)) / (own - 2j * np.pi * hertz[:, None])[:, None]
        places, poles = {name: i for i, name in enumerate(names)}, dict(zip(names, own, strict=True))
        found = Ports(design, hertz, beside, places, poles)
        lit = [places[netlist.terminals_of(d)[0]] for d in netlist.drives if d.name in found.drives]
        if not lit:
            raise ArgumentError(
                "Argument `network` must have a port that is driven, but the design drives none of them"
            )
        told = [f"from {names[j]} to {name}" for name in names for j in lit]
        _refuse_narrow(beside[:, :, lit].reshape(len(hertz), -1), hertz, told)
        _refuse_coarse(found.spectrum[:, :, lit].reshape(len(hertz), -1), hertz, design.step_s, told)
        return found

    @cached_property
    def spectrum(self) -> Waves:
        """What `beside` makes of a pulse of one step."""
        omega, step = 2 * np.pi * self.frequencies_hz, self.design.step_s
        pulse = step * np.exp(0.5j * omega * step) * np.sinc(omega * step / (2 * np.pi))
        return np.asarray(self.beside * pulse[:, None, None])

    @property
    def drives(self) -> tuple[str, ...]:
        """Those that come through a port."""
        return tuple(
            d.name for d in self.design.netlist.drives if isinstance(d, CoherentDrive) and d.node in self.places
        )

    def record(self, shot: Shot, bench: Description) -> Record:
        """What a free pass from rest gives: one drive's light after the other's, added up."""
        if shot.echo or shot.nudge or shot.start is not None:
            raise ArgumentError("Argument `shot` must be a free pass from rest: S-parameters tell of no other")
        times: dict[str, Samples] = {}
        samples: dict[str, Samples] = {}
        for name in bench.channels if shot.channels is None else shot.channels:
            channel = bench.channels[name]
            if channel.node not in self.places:
                raise ArgumentError(
                    f"Argument `shot` must read nodes that have a port, but {name!r} has none"
                    f"{nearest(channel.node, self.places)}"
                )
            times[name] = sample_times(channel.kind, sample_count(channel.kind, shot.steps, 1), 1, bench.step_s)
            light = np.zeros((len(times[name]), shot.runs, 1), complex)
            for drive, wave in shot.drive.items():
                answer = self._answer(drive, channel.node, times[name], shot.steps * bench.step_s)
                light += fftconvolve(answer[:, None, None], np.broadcast_to(wave, (shot.steps, shot.runs, 1)), axes=0)[
                    : len(light)
                ]
            samples[name] = _quadrature(channel, light)
        return Record(times, samples, {name: bench.channels[name].unit for name in samples}, {})

    def _answer(self, drive: str, node: str, times: Samples, length_s: float) -> Waves:
        """Light in a resonator at some evenly spaced times after a drive was 1 for one step."""
        part = next(d for d in self.design.netlist.drives if d.name == drive)
        if drive not in self.drives:
            raise ArgumentError(f"Argument `shot` must drive nodes that have a port, but {drive!r} drives none")
        assert isinstance(part, CoherentDrive)
        i, j = self.places[node], self.places[part.node]
        step, spacing = self.design.step_s, self.frequencies_hz[1] - self.frequencies_hz[0]
        if length_s * spacing > 1:
            raise ArgumentError(
                f"Argument `network` must have frequencies at most {1 / length_s:.3g} Hz apart for a pass of "
                f"{length_s:.3g} s, but they are {spacing:.3g} Hz apart"
            )
        found = _transformed(self.spectrum[:, i, j], self.frequencies_hz, times)
        if i == j:
            pole = self.poles[node]
            found += (np.exp(-pole * np.maximum(times - step, 0)) - np.exp(-pole * times)) / pole
        return np.asarray(found * np.exp(1j * part.angle))


def _transformed(spectrum: Waves, hertz: Samples, times: Samples) -> Waves:
    """Inverse Fourier transform with e^(−iωt) of a spectrum (frequencies, …) at evenly spaced times, (times, …)."""
    apart, step = hertz[1] - hertz[0], times[1] - times[0] if len(times) > 1 else 1.0
    others = (1,) * (spectrum.ndim - 1)
    turned = spectrum * np.exp(-2j * np.pi * (hertz - hertz[0]) * times[0]).reshape(-1, *others)
    summed = czt(turned, m=len(times), w=np.exp(-2j * np.pi * apart * step), axis=0)
    return np.asarray(apart * summed * np.exp(-2j * np.pi * hertz[0] * times).reshape(-1, *others))


def _even(hertz: Samples) -> Samples:
    """The same frequencies, exactly evenly spaced."""
    if len(hertz) < 4:
        raise ArgumentError(f"Argument `network` must have at least 4 frequencies, but has {len(hertz)}")
    even = np.linspace(hertz[0], hertz[-1], len(hertz))
    spacing = even[1] - even[0]
    if np.max(np.abs(hertz - even)) > 1e-3 * spacing:
        raise ArgumentError(
            "Argument `network` must have evenly spaced frequencies, but has not: measure a linear sweep, such as one "
            f"of {len(hertz)} points every {spacing:.6g} Hz"
        )
    return even


def _refuse_narrow(beside: Waves, hertz: Samples, told: list[str]) -> None:
    """Beyond the band what is left falls as 1/ω² or faster: so much light is there per photon of a short pulse."""
    half, middle = (hertz[-1] - hertz[0]) / 2, (hertz[-1] + hertz[0]) / 2
    few = max(len(hertz) // 50, 1)
    missing = half * (np.abs(beside[:few]).mean(axis=0) + np.abs(beside[-few:]).mean(axis=0))
    worst = int(np.argmax(missing))
    times = float(missing[worst]) / TOLERANCE
    if times > 1:
        raise ArgumentError(
            f"Argument `network` must reach so far that at most {TOLERANCE:.0%} of a pulse is beyond its band, but "
            f"{told[worst]} {missing[worst]:.1%} is: measure over {2 * times * half:.2g} Hz around {middle:+.3g} Hz "
            f"from the carrier, {times:.2g} times as much"
        )


def _refuse_coarse(spectrum: Waves, hertz: Samples, step: float, told: list[str]) -> None:
    """A spectrum of lines answers anew after one over their distance: by then its light must be gone."""
    period = 1 / (hertz[1] - hertz[0])
    count = max(int(period / step), 20)
    course = np.abs(_transformed(spectrum, hertz, np.linspace(0, period, count, endpoint=False)))
    left = course[int(0.8 * count) : int(0.95 * count)].max(axis=0) / step  # the last is next to the following pulse
    worst = int(np.argmax(left))
    if left[worst] > TOLERANCE:
        raise ArgumentError(
            f"Argument `network` must have frequencies so close that light is gone after one over their distance, "
            f"{period:.3g} s, but {told[worst]} {left[worst]:.1%} of a pulse is still there: measure every "
            f"{0.5 / period:.3g} Hz or closer"
        )


def _quadrature(channel: Channel, light: Waves) -> Samples:
    """The position √2·Re a, or the momentum ħ·√2·Im a."""
    part = HBAR * light.imag if channel.kind is Kind.MOMENTUM else light.real
    return np.asarray(np.sqrt(2) * part)

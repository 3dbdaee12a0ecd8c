"""Photonic designs for the tests of their formats, and a reader's own evaluation of a sax netlist."""

import math

import numpy as np

from circuits import Netlist
from devices import CoherentDrive, EvanescentCoupler, Homodyne, Kerr, PhaseShifter, Ring

CARRIER = 193.4e12
GALLERY = ("kerr-chain", "ring-lattice")


def fancy():
    """Names that are no identifiers, a square of rings with flux π, phases, losses, heaters and Kerr."""
    rng = np.random.default_rng(3)
    nodes = ["p/0", "p-1", "p.2", "p 3".replace(" ", "+")]
    parts = [
        Ring(f"R-{i}", n, rng.uniform(-1e9, 1e9), CARRIER, 3e6, (math.inf, 4e5)[i % 2], tolerance=0.01)
        for i, n in enumerate(nodes)
    ]
    parts += [
        EvanescentCoupler(f"J:{i}", nodes[i], nodes[(i + 1) % 4], rng.uniform(0.5e9, 1e9), phase, trainable=["rate"])
        for i, phase in enumerate((0.3, 1.1, 0.0, math.pi - 1.4))
    ]
    parts += [Kerr("K", nodes[2], 1.7, bounds={"shift": (0.1, 9.0)}), PhaseShifter("H", nodes[0], 0.21e9)]
    light = [CoherentDrive("u", nodes[0], 0.4)]
    return Netlist("a ring, of rings", parts, drives=light, detectors=[Homodyne("y", nodes[2], 0.2)], targets=["p.2"])


def by_hand(data, frequencies_hz):
    """Transmission (frequencies,) from the first port of a sax netlist to the last, solved as one linear system."""
    f, fields, equations = np.asarray(frequencies_hz), {}, []
    joined = {sink: source for source, sink in data["connections"].items()}

    def index(port):
        """What comes out of a port is what goes into the one that it is connected with."""
        return fields.setdefault(joined.get(port, port), len(fields))

    for name, instance in data["instances"].items():
        given = instance["settings"]
        if instance["component"] == "straight":
            wavelength = 299792458e6 / f
            neff = given["neff"] - (wavelength - given["wl0"]) * (given["ng"] - given["neff"]) / given["wl0"]
            loss = 10 ** (-given["loss_dB_cm"] * given["length"] * 1e-4 / 20)
            gain = loss * np.exp(2j * math.pi * neff * given["length"] / wavelength)
            equations.append((index(f"{name},out0"), {index(f"{name},in0"): gain}))
        else:
            t, k = math.sqrt(1 - given["coupling"]), 1j * math.sqrt(given["coupling"])
            ends = index(f"{name},in0"), index(f"{name},in1")
            equations.append((index(f"{name},out0"), dict(zip(ends, (t, k), strict=True))))
            equations.append((index(f"{name},out1"), dict(zip(ends, (k, t), strict=True))))
    first, *_, last = (index(p) for p in data["ports"].values())
    matrix = np.tile(np.eye(len(fields), dtype=complex), (len(f), 1, 1))
    for sink, sources in equations:
        for source, gain in sources.items():
            matrix[:, sink, source] = -gain
    light = np.zeros((len(f), len(fields), 1), complex)
    light[:, first] = 1
    return np.linalg.solve(matrix, light)[:, last, 0]

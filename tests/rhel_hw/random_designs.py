"""Small circuits of three families with random values, tasks and converters, and their gradient's error by strength."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import networkx as nx
import numpy as np

from circuits import Netlist
from circuits.generators import circuit, mesh, recurrent_units, ring_lattice, spin_wave_chain
from devices import (
    Capacitor,
    CoherentDrive,
    CoreForceDrive,
    CurrentDrive,
    EvanescentCoupler,
    ForceDrive,
    Inductor,
    JosephsonJunction,
    Kerr,
    Mass,
    PillarCoupler,
    Ring,
    Spring,
    Vortex,
)
from rhel_hw import EchoLearner, EmulatedBench, Profile, Teacher
from rhel_hw.excitation import AMPLITUDE
from rhel_hw.session import Session
from rhel_hw.truth import gradients_as_made
from tests.calibration.chips import trained

CHIPS, REPEATS = 8, 5
DISPLACEMENTS = np.geomspace(1e-3, 10.0, 25)
"""Of the exhaustive sweep, over the spread of the state, as far as echoes are linear."""
APART = 0.05
"""Relative standard deviation of what is programmed, from chip to chip."""


def lc(rng, n):
    """Any connected graph of LC oscillators."""
    graph = nx.gnp_random_graph(n, 0.5, seed=int(rng.integers(1 << 30)))
    graph.add_edges_from(pairwise(range(n)))
    return circuit(graph, spread=0.4, seed=int(rng.integers(1 << 30)))


def junctions(rng, n):
    """Junctions to ground, joined by inductors."""
    nodes = [f"n{i}" for i in range(n)]
    parts = [Capacitor(f"C{x}", x, "gnd", rng.uniform(3e-13, 1e-12)) for x in nodes]
    parts += [JosephsonJunction(f"J{x}", x, "gnd", rng.uniform(1e-7, 6e-7), trainable=True) for x in nodes]
    parts += [Inductor(f"L{a}", a, b, rng.uniform(1e-9, 4e-9), trainable=True) for a, b in pairwise(nodes)]
    return Netlist("junctions", parts, drives=[CurrentDrive("u", "n0")], targets=[nodes[-1]])


def springs(rng, n):
    """Masses in a row."""
    nodes = [f"x{i}" for i in range(n)]
    parts = [Mass(f"m{x}", x, rng.uniform(0.6, 1.6), trainable=True) for x in nodes]
    parts += [Spring(f"k{x}", x, "gnd", rng.uniform(0.5, 1.5), trainable=True) for x in nodes]
    parts += [Spring(f"k{a}{b}", a, b, rng.uniform(0.2, 0.8), trainable=True) for a, b in pairwise(nodes)]
    return Netlist("springs", parts, drives=[ForceDrive("u", "x0")], targets=[nodes[-1]])


def saturable(rng, n):
    """Recurrent units with saturable inductors."""
    return recurrent_units(n, linear=False, seed=int(rng.integers(1 << 30)))


def rings(rng, n):
    """A ladder of coupled rings."""
    return ring_lattice(nx.path_graph(n), rate="1 GHz", detuning="0.3 GHz", spread=0.5, seed=int(rng.integers(1 << 30)))


def kerr(rng, n):
    """Rings in a row that shift with their light."""
    nodes = [f"a{i}" for i in range(n)]
    parts = [Ring(f"R{x}", x, rng.uniform(2e8, 1e9), trainable=True) for x in nodes]
    parts += [Kerr(f"K{x}", x, rng.uniform(1.0, 4.0), trainable=True) for x in nodes]
    parts += [EvanescentCoupler(f"E{a}", a, b, rng.uniform(6e8, 1.5e9), trainable=True) for a, b in pairwise(nodes)]
    return Netlist("Kerr chain", parts, drives=[CoherentDrive("u", "a0")], targets=[nodes[-1]])


def interferometers(rng, n):
    """A static mesh of interferometers."""
    return mesh(n, seed=int(rng.integers(1 << 30)))


def spins(rng, n):
    """Macrospins joined by exchange."""
    return spin_wave_chain(n, field=rng.uniform(0.01, 0.05), exchange=rng.uniform(2e-19, 8e-19))


def vortices(rng, n):
    """Vortex pillars in a row."""
    nodes = [f"v{i}" for i in range(n)]
    parts = [
        Vortex(
            f"V{x}", x, 8e5, rng.uniform(1.9e-7, 2.1e-7), 2e-8, polarity=(-1.0) ** i, stiffening=0.25,
            trainable=["stiffening"],
        )
        for i, x in enumerate(nodes)
    ]  # fmt: skip
    parts += [
        PillarCoupler(f"P{a}", a, b, rng.uniform(4.5e-7, 6e-7), trainable=["distance"]) for a, b in pairwise(nodes)
    ]
    return Netlist("vortices", parts, drives=[CoreForceDrive("u", "v0")], targets=[nodes[-1]])


KINDS = (lc, kerr, spins, junctions, rings, vortices, springs, interferometers, saturable)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A random design on a bench of several chips, which differ a little in what is programmed."""

    number: int
    changes: tuple = ()

    @cached_property
    def _drawn(self):
        rng = np.random.default_rng([self.number, 20])
        kind = KINDS[self.number % len(KINDS)]
        netlist = kind(rng, int(rng.integers(2, 7)))
        design = netlist.compile(steps=int(rng.integers(100, 401)))
        weak = 0.02 if kind is vortices else 1.0  # a core must stay in its pillar
        task = Teacher(
            spread=rng.uniform(0.05, 0.4), amplitude=AMPLITUDE * weak * rng.uniform(0.5, 2.0),
            batch=int(rng.integers(1, 3)), seed=int(rng.integers(1 << 30)),
        )  # fmt: skip
        profile = Profile().set("readout.bits", int(rng.integers(6, 13)))
        return kind.__name__, design, task, profile.set("readout.noise", float(10 ** rng.uniform(-4, -2)))

    @property
    def name(self):
        return f"{self.number} {self._drawn[0]}"

    @property
    def design(self):
        return self._drawn[1]

    @cached_property
    def lesson(self):
        return self._drawn[2].lesson(self.design)

    @cached_property
    def profile(self):
        profile = self._drawn[3]
        for path, value in self.changes:
            profile = profile.set(path, value)
        return profile

    @cached_property
    def bench(self):
        return EmulatedBench(self.design, self.profile, chips=CHIPS, reference=self.lesson.drive)

    @cached_property
    def theta(self):
        """Chips are programmed a little apart: where a coarse converter rounds well is luck of one, not of all."""
        rng, drawn = np.random.default_rng([self.number, 21]), self.design.theta()
        theta = {k: np.repeat(np.asarray(v, float)[:, None], CHIPS, axis=1) for k, v in drawn.items()}
        for e in self.design.assembly.entries:
            if e.trainable:
                theta[e.key][e.index] *= np.exp(APART * rng.normal(size=CHIPS))
        return theta

    @cached_property
    def exact(self):
        """(parameters, chips)."""
        _, found = gradients_as_made(self.design, Profile(), self.lesson, chips=range(CHIPS), theta=self.theta)
        return trained(self.design, found)

    def pilots(self):
        return EchoLearner(gamma="auto").pilots(self.bench, self.design, self.lesson, self.theta)

    @cached_property
    def unit(self):
        """Strengths with which ideal echoes would stray by the spread of the state, were they linear, (chips,)."""
        bench = EmulatedBench(self.design, chips=CHIPS, reference=self.lesson.drive)
        session = Session.begin(EchoLearner(), bench, self.design, self.lesson, self.theta)
        echoes = session.echoes(session.free(2), (1.0, -1.0), 1e-6)
        ratios = np.zeros(CHIPS)
        for block in (echoes.positions, echoes.momenta):
            one, other = np.split(np.asarray(block), 2, axis=2)
            apart = np.sqrt(np.mean((one - other) ** 2, axis=(0, 1, 2))) / 2
            ratios = np.maximum(ratios, apart / np.sqrt(np.mean(np.var((one + other) / 2, axis=0), axis=(0, 1))))
        return 1e-6 / ratios

    def errors(self, strengths):
        """Root mean square error of the gradient over chips and repeats, relative to the exact one."""
        learner, found = EchoLearner(), []
        for _ in range(REPEATS):
            gammas = np.asarray(strengths) / learner.epsilon
            ours = learner.gradient(self.bench, self.design, self.lesson, self.theta, gammas=gammas)
            found.append(np.sum((trained(self.design, ours.theta) - self.exact) ** 2))
        return float(np.sqrt(np.mean(found) / np.sum(self.exact**2)))

    def sweep(self):
        """The exhaustive one: displacements and errors."""
        return DISPLACEMENTS, np.array([self.errors(self.unit * x) for x in DISPLACEMENTS])

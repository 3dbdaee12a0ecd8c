"""What the tests of imperfections share: two small circuits with lessons and exact gradients, and fits of slopes."""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Netlist
from circuits.state import encode
from devices import Capacitor, CurrentDrive, ForceDrive, Inductor, JosephsonJunction, Mass, Spring
from rhel_hw import BPTT, Teacher
from rhel_hw.dissipation import bath_of
from rhel_hw.emulated import EmulatedBench
from rhel_hw.integrators import Leapfrog
from rhel_hw.learner import EchoLearner
from rhel_hw.losses import targets_of
from rhel_hw.profile import Profile

STEPS, CHIPS = 128, 32
UNLIKE = ("fabrication.mismatch", 0.1)


def springs():
    """Three masses in a row, two of them driven: no ε is too large for a quadratic energy."""
    nodes, values = ("x1", "x2", "x3"), (1.0, 1.3, 0.8)
    parts = [Mass(f"m{n}", n, m, trainable=True) for n, m in zip(nodes, values, strict=True)]
    parts += [Spring(f"k{n}", n, "gnd", k, trainable=True) for n, k in zip(nodes, (0.7, 1.0, 1.2), strict=True)]
    parts += [Spring("k12", "x1", "x2", 0.4, trainable=True), Spring("k23", "x2", "x3", 0.5, trainable=True)]
    drives = [ForceDrive("u1", "x1"), ForceDrive("u2", "x2")]
    return Netlist("springs", parts, drives=drives, targets=["x3"])


def junctions():
    """Four LC nodes joined by Josephson junctions."""
    nodes = ("n1", "n2", "n3", "n4")
    parts = [
        Capacitor(f"C{n}", n, "gnd", c, trainable=True)
        for n, c in zip(nodes, (1e-12, 1.2e-12, 9e-13, 1.1e-12), strict=True)
    ]
    parts += [Inductor(f"L{n}", n, "gnd", "1 nH", trainable=True) for n in nodes]
    parts += [JosephsonJunction(f"J{a}{b}", a, b, "0.3 uA", trainable=True) for a, b in pairwise(nodes)]
    return Netlist("junctions", parts, drives=[CurrentDrive("u1", "n1")], targets=["n4"])


@dataclass(frozen=True, eq=False)
class Case:
    """A circuit, what it shall learn, and the exact gradient."""

    design: object
    teacher: Teacher

    @cached_property
    def lesson(self):
        return self.teacher.lesson(self.design)

    @cached_property
    def problem(self):
        return self.teacher.problem(self.design)

    @cached_property
    def exact(self):
        return flat(BPTT().gradient(self.problem).theta)

    def driven(self, waves):
        """The exact gradient with other waveforms on the drives, (steps,) each; the wanted answer stays."""
        inputs = encode(self.design, {k: jnp.asarray(v) for k, v in waves.items()})
        return flat(BPTT().gradient(replace(self.problem, inputs=inputs[..., None])).theta)

    def waves(self):
        return {k: v[:, 0] for k, v in self.lesson.drive.items()}

    def bench(self, *settings, chips=1, seed=0):
        return EmulatedBench(self.design, profile(*settings), chips=chips, seed=seed, reference=self.lesson.drive)

    def gradient(self, *settings, epsilon=0.1, chips=1, seed=0, theta=None, **choices):
        """(parameters, chips) as measured."""
        bench = self.bench(*settings, chips=chips, seed=seed)
        learner = EchoLearner(epsilon=epsilon, **choices)
        return flat(learner.gradient(bench, self.design, self.lesson, theta).theta)

    @cached_property
    def _unlike(self):
        """Ideal gradients of chips that are not alike; of a quadratic energy only, which has no bias."""
        return self.gradient(UNLIKE, epsilon=1.0, chips=CHIPS)

    def rounding(self, *settings, epsilon):
        """Relative error over chips that are not alike, each against its own ideal gradient: rounding is no noise."""
        return distance(self.gradient(*settings, UNLIKE, epsilon=epsilon, chips=CHIPS), self._unlike)

    def error(self, *settings, exact=None, **choices):
        """Relative error, root mean square over chips."""
        return distance(self.gradient(*settings, **choices), self.exact if exact is None else exact)


def flat(theta):
    """(parameters, chips) of a gradient by parameter, whose keys are sorted."""
    return np.concatenate([np.asarray(theta[k]).reshape(len(theta[k]), -1) for k in sorted(theta)])


def distance(found, exact):
    """Relative error, root mean square over chips."""
    return float(np.sqrt(np.mean(np.sum((found - exact) ** 2, axis=0)) / np.mean(np.sum(exact**2, axis=0))))


def profile(*settings):
    """Profile of (path, value) pairs."""
    found = Profile()
    for path, value in settings:
        found = found.set(path, value)
    return found


def slope(x, y):
    """Exponent of the power law y(x)."""
    found = float(np.polyfit(np.log(x), np.log(y), 1)[0])
    print(f"slope {found:.3f} of", *(f"{a:.3g}:{b:.3g}" for a, b in zip(x, y, strict=True)))
    return found


def by_value(case, path, values, *others, **choices):
    """Exponent of the error with the value of one knob."""
    return slope(values, [case.error((path, float(v)), *others, **choices) for v in values])


def by_strength(case, sizes, *settings, **choices):
    """Exponent of the error with ε."""
    return slope(sizes, [case.error(*settings, epsilon=e, **choices) for e in sizes])


def through_time(design, case, *, substeps=1, waves=None):
    """Exact gradient of a circuit with losses, or with several steps per sample, by differentiation through time.

    The circuit may be another than that of the case, which it is told in the units of; what it lacks counts zero.
    """
    energy, reader, step = design.hamiltonian, targets_of(design), design.step / substeps
    inputs = encode(design, {k: jnp.asarray(v) for k, v in (waves or case.waves()).items()})
    size = design.assembly.units.position(design.netlist.domains[design.netlist.targets[0].node])
    wanted = jnp.asarray(np.stack([v[:, 0] for v in case.lesson.targets.values()], axis=1)) / size
    theta = design.theta()

    def loss(theta):
        prepared = energy.prepare(theta)
        bath = bath_of(energy, prepared, step / 2) if energy.lossy else lambda state: state

        def advance(state, u):
            for _ in range(substeps):
                q, p, _ = Leapfrog().step(energy, *bath(state), prepared, u, step)
                state = bath((q, p))
            return state, reader(state[0])

        _, seen = jax.lax.scan(advance, design.initial_state(), inputs)
        return jnp.mean((seen - wanted) ** 2) / 2

    found = jax.jit(jax.grad(loss))(theta)
    same = case.design.assembly.units.position(case.design.netlist.domains[case.design.netlist.targets[0].node])
    there, by_theta = design.parameters.entries, {}
    for e in case.design.assembly.entries:
        own = there.get(e.name)
        value = 0.0 if own is None else float(found[own.key][own.index]) * e.scale / own.scale * (size / same) ** 2
        if case.design.parameters.trainable[e.key].any():
            by_theta.setdefault(e.key, np.zeros(len(case.design.theta()[e.key])))[e.index] = value
    return flat(by_theta)


@cache
def linear_case():
    return Case(springs().compile(steps=STEPS), Teacher(amplitude=0.3))


@cache
def nonlinear_case():
    return Case(junctions().compile(steps=STEPS), Teacher(amplitude=0.3))

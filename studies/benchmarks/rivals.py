"""The same oscillations by other people's solvers and by ours.

Left to itself from some state, a linear circuit has an exact one at the end, and every method is made as coarse as an
error there allows: the largest of a momentum (a charge, at electrical nodes) over the largest momentum. Driven by
samples, a circuit takes a step for each of them anyway, and diffrax is told to make the same steps as ours.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from importlib.util import find_spec
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import eigh

from circuits import Design
from circuits.assemble import inertia_matrix
from circuits.formats.spice_write import Writer
from circuits.generators import ladder, six_oscillators
from circuits.linear import stiffness_matrix
from circuits.netlist import Initial
from devices import ArgumentError
from rhel_hw.exact import Exact
from rhel_hw.integrators import Integrator, Leapfrog, Yoshida4, Yoshida6
from rhel_hw.ngspice_run import run_deck
from rhel_hw.propagation import Keep, propagate
from rhel_hw.simulation import simulate
from rhel_hw.tasks import Teacher
from studies.benchmarks import interleaved

Report = Callable[[int, int], None]
Floats = NDArray[np.float64]

SECTIONS, LANES = 50, 256
DURATION = 1000.0
"""In 1/ω of the fastest mode: some 160 of its periods."""
STEPS = 2000
"""Of the driven task."""
TRIES, NEAR = 12, 0.8
"""How often a setting is mended, and how near to the error that is wanted is near enough."""
WITHOUT = {
    "diffrax": "diffrax is not installed: pip install 'rhel-hw[benchmark]'",
    "ngspice": "ngspice is not installed: apt-get install ngspice",
}


@dataclass(frozen=True)
class Row:
    """A rival and ours on one task."""

    rival: str
    task: str
    wanted: float | None
    """Error at the end; None where both make the same steps, and errors are distances between them."""
    own_method: str
    """Normal modes, or the fastest of our integrators."""
    own_steps: int
    own_error: float
    own_seconds: float
    rival_method: str
    """The fastest of the rival's."""
    rival_error: float
    rival_seconds: float
    over_own: float
    """Time of the rival over ours."""


@dataclass(frozen=True, eq=False)
class Task:
    """A linear circuit, left to itself from a state of momenta (n, lanes)."""

    name: str
    design: Design
    start: Floats
    duration: float
    """In the design's unit of time."""

    @cached_property
    def matrices(self) -> tuple[Floats, Floats]:
        """Stiffness and inertia."""
        assembly = self.design.assembly
        return stiffness_matrix(assembly).toarray(), inertia_matrix(assembly).toarray()

    @cached_property
    def exact(self) -> Floats:
        """Momenta at the end, by normal modes."""
        stiffness, inertia = self.matrices
        squares, modes = eigh(stiffness, inertia)
        turned: Floats = np.cos(np.sqrt(squares) * self.duration)[:, None] * (modes.T @ self.start)
        found: Floats = inertia @ modes @ turned
        return found

    @cached_property
    def generator(self) -> Floats:
        """Of d(q, p)/dt."""
        stiffness, inertia = self.matrices
        none = np.zeros_like(stiffness)
        return np.block([[none, np.linalg.inv(inertia)], [-stiffness, none]])

    def error(self, momenta: Any) -> float:
        """Of momenta at the end."""
        return float(np.max(np.abs(np.asarray(momenta) - self.exact)) / np.max(np.abs(self.exact)))


@dataclass(frozen=True)
class Method:
    """A solver with one setting, of which its error goes as a power; gives the momenta at the end."""

    name: str
    solve: Callable[[float], Any]
    start: float
    power: float
    """0 where the error is that of rounding, whatever the setting."""
    whole: bool = False
    """Whether the setting is a whole number."""

    def settled(self, task: Task, wanted: float) -> tuple[float, float]:
        """The setting that just meets an error, and the error that it makes."""
        setting, best = self.start, None
        for _ in range(TRIES if self.power else 1):
            error = task.error(self.solve(setting))
            if error <= wanted and (best is None or error > best[1]):
                best = setting, error
            if best is not None and (best[1] >= NEAR * wanted or not self.power):
                break
            change = (wanted * (1 + NEAR) / 2 / error) ** (1 / self.power) if np.isfinite(error) else 0.1
            setting *= min(max(change, 0.1), 10.0)
            setting = ceil(setting) if self.whole else setting
        if best is None:
            raise ArgumentError(f"Argument `wanted` must be an error that {self.name} can meet, but is {wanted:g}")
        return best


def run(
    *, duration: float = DURATION, wanted: tuple[float, ...] = (1e-3, 1e-6), rounds: int = 9,
    report: Report | None = None,
) -> tuple[list[Row], list[str]]:  # fmt: skip
    """Measure every rival that is here, ngspice at the first error only; also what to do about those that are not."""
    there = {"SciPy": True, "ngspice": shutil.which("ngspice") is not None, "diffrax": find_spec("diffrax") is not None}
    tasks = {"SciPy": chain, "ngspice": chain, "diffrax": toy}
    cases: list[Callable[[], list[Row]]] = []
    for rival in (name for name, found in there.items() if found):
        errors = wanted[:1] if rival == "ngspice" else wanted
        cases += [partial(measure, rival, tasks[rival](duration), error, rounds) for error in errors]
    if there["diffrax"]:
        cases.append(lambda: [driven(rounds)])
    rows = []
    for done, case in enumerate(cases):
        if report:
            report(done, len(cases))
        rows += case()
    return rows, [WITHOUT[name] for name, found in there.items() if not found]


def versions() -> dict[str, str]:
    """Versions of the rivals that are here, as far as they tell."""
    found = {name: version(name) for name in ("scipy", "diffrax") if find_spec(name)}
    if path := shutil.which("ngspice"):
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        found["ngspice"] = told.partition("ngspice-")[2].partition(" ")[0] or "unknown"
    return found


def measure(rival: str, task: Task, wanted: float, rounds: int) -> list[Row]:
    """One rival at one error: the fastest of its methods against ours by normal modes and by steps, in turns."""
    others = {"SciPy": scipy_methods, "ngspice": ngspice_methods, "diffrax": diffrax_methods}[rival]
    kinds = [[m for m in own_methods(task) if bool(m.power) is steps] for steps in (False, True)]
    settled = {m: m.settled(task, wanted) for m in (*kinds[0], *kinds[1], *others(task))}
    seconds = interleaved(
        {m.name: partial(m.solve, setting) for m, (setting, _) in settled.items()}, rounds, settled=True
    )
    other = min((m for m in settled if m not in (*kinds[0], *kinds[1])), key=lambda m: seconds[m.name])
    bests = [min(own, key=lambda m: seconds[m.name]) for own in kinds]
    return [
        Row(
            rival, task.name, wanted, best.name, int(settled[best][0]), settled[best][1], seconds[best.name],
            other.name, settled[other][1], seconds[other.name], seconds[other.name] / seconds[best.name],
        )
        for best in bests
    ]  # fmt: skip


def driven(rounds: int, *, steps: int = STEPS, lanes: int = LANES) -> Row:
    """The toy of the paper under forces that are samples, its whole trajectory kept, by the same steps.

    diffrax has no leapfrog, but symplectic Euler is the same with half a drift before it and half of one less after it.
    """
    import diffrax

    problem = Teacher(batch=lanes).problem(six_oscillators().compile(steps=steps))
    energy, (theta, inputs, start, step) = problem.hamiltonian, problem.run
    prepared = energy.prepare(theta)
    push, mobility = (
        jax.jacobian(law)(jnp.zeros(energy.size), prepared, jnp.zeros(1)) for law in (energy.force, energy.velocity)
    )
    inject = jax.jacobian(energy.force, argnums=2)(jnp.zeros(energy.size), prepared, jnp.zeros(1))

    @jax.jit
    def rival(inputs: Any, start: Any) -> Any:
        terms = (
            diffrax.ODETerm(lambda t, q, _: push @ q + inject @ inputs[jnp.round(t / step).astype(int)]),
            diffrax.ODETerm(lambda t, p, _: mobility @ p),
        )
        begun = (start[1], start[0] + step / 2 * mobility @ start[1])
        found = diffrax.diffeqsolve(
            terms, diffrax.SemiImplicitEuler(), 0.0, steps * step, step, begun, saveat=diffrax.SaveAt(steps=True),
            max_steps=steps, adjoint=diffrax.ForwardMode(),
        )  # fmt: skip
        p, q = found.ys
        return q - step / 2 * mobility @ p, p

    def own() -> Any:
        return propagate(energy, Leapfrog(), Keep.ENDS, theta, inputs, start, step)[1][:2]

    apart = max(
        float(jnp.max(jnp.abs(a - b)) / jnp.max(jnp.abs(b))) for a, b in zip(own(), rival(inputs, start), strict=True)
    )
    seconds = interleaved({"own": own, "rival": lambda: rival(inputs, start)}, rounds, settled=True)
    return Row(
        "diffrax", f"toy, {lanes} lanes, driven", None, "Leapfrog", steps, apart, seconds["own"], "SemiImplicitEuler",
        apart, seconds["rival"], seconds["rival"] / seconds["own"],
    )  # fmt: skip


# Tasks ------------------------------------------------------------------------------------------------------------


def chain(duration: float, sections: int = SECTIONS) -> Task:
    """A ladder whose first node is charged."""
    design = ladder(sections).compile()
    return Task(f"ladder of {sections}", design, np.eye(sections, 1), duration / design.highest)


def toy(duration: float, lanes: int = LANES) -> Task:
    """The six oscillators of the paper, pushed in many ways at once."""
    design = six_oscillators().compile()
    return Task(
        f"toy, {lanes} lanes", design, np.random.default_rng(0).normal(size=(6, lanes)), duration / design.highest
    )


# Methods ----------------------------------------------------------------------------------------------------------


def own_methods(task: Task) -> Iterator[Method]:
    """`simulate` by normal modes and by integrators of higher order: leapfrog needs far more steps for such errors."""

    def solve(integrator: Integrator | Exact, steps: float) -> Any:
        count, state = int(steps), (np.zeros_like(task.start), task.start)
        found = simulate(
            task.design.hamiltonian, task.design.theta(), None, count, task.duration / count, state=state,
            integrator=integrator, keep=Keep.FINAL,
        )  # fmt: skip
        return found.final[1]

    radians = task.duration * task.design.highest
    yield Method("Exact", partial(solve, Exact()), ceil(radians), 0.0, whole=True)
    for integrator, length in ((Yoshida4(), 0.3), (Yoshida6(), 0.5)):
        name = type(integrator).__name__
        yield Method(name, partial(solve, integrator), ceil(radians / length), -integrator.order, whole=True)


def scipy_methods(task: Task) -> Iterator[Method]:
    """DOP853 with a matrix, the absolute tolerance a tenth of the relative one."""
    start, generator = np.concatenate([np.zeros_like(task.start), task.start]), task.generator
    lanes = start.shape[1]

    def rate(t: float, z: Floats) -> Any:
        return (generator @ z.reshape(-1, lanes)).ravel()

    def solve(tolerance: float) -> Any:
        settings = {"rtol": tolerance, "atol": tolerance * float(np.max(np.abs(start))) / 10}
        end = solve_ivp(rate, (0.0, task.duration), start.ravel(), "DOP853", **settings).y[:, -1]
        return end.reshape(-1, lanes)[len(task.start) :]

    yield Method("DOP853", solve, 1e-6, 1.0)


def ngspice_methods(task: Task) -> Iterator[Method]:
    """The trapezoidal rule in steps of one length; nothing is written but node voltages at the end."""
    design, units = task.design, task.design.assembly.units
    names, inertia = design.hamiltonian.names, task.matrices[1]
    speeds = np.linalg.solve(inertia, task.start)[:, 0]
    scale = {
        n: units.scale(design.netlist.domains[n].velocity_unit) * f
        for n, f in zip(names, design.assembly.factors, strict=True)
    }
    volts = {n: float(v) * scale[n] for n, v in zip(names, speeds, strict=True) if v}
    writer = Writer(design.netlist.replace(initial=Initial(velocities=volts)))
    cards = [line for line in writer.lines() if line != ".end" and not line.startswith(".tran")]
    probes = [f"v({writer.nodes[n]})" for n in names]
    stop = task.duration * units.time

    def solve(step: float) -> Any:
        longest = step * units.time
        # Steps of one length: a tolerance of truncation errors that none exceeds.
        last = [".options reltol=1e-6 abstol=1e-15 vntol=1e-12 trtol=1e6", f".save {' '.join(probes)}"]
        last += [f".tran {stop!r} {stop!r} {stop * (1 - 1e-9)!r} {longest!r} uic", ".end"]
        waves = run_deck("\n".join([*cards, *last]) + "\n", timeout_s=600.0)
        speeds = np.array([waves[probe.lower()][-1] / scale[n] for probe, n in zip(probes, names, strict=True)])
        return inertia @ speeds[:, None]

    yield Method("trapezoidal", solve, 0.02, 2.0)


def diffrax_methods(task: Task) -> Iterator[Method]:
    """Explicit solvers with adaptive steps, all lanes in one state."""
    import diffrax

    stiffness, inertia = task.matrices
    K, mobility = jnp.asarray(stiffness), jnp.asarray(np.linalg.inv(inertia))
    state = (jnp.zeros_like(task.start), jnp.asarray(task.start))
    scale = float(np.max(np.abs(task.start)))

    def rate(t: Any, state: Any, _: None) -> Any:
        q, p = state
        return mobility @ p, -K @ q

    @partial(jax.jit, static_argnums=0)
    def solve(solver: Any, tolerance: Any) -> Any:
        steps = diffrax.PIDController(rtol=tolerance, atol=tolerance * scale / 10)
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(rate), solver, 0.0, task.duration, 0.1, state, stepsize_controller=steps, max_steps=None,
            adjoint=diffrax.ForwardMode(),
        )  # fmt: skip
        return found.ys[1][0]

    for solver in (diffrax.Tsit5(), diffrax.Dopri8()):
        yield Method(type(solver).__name__, partial(solve, solver), 1e-6, 1.0)

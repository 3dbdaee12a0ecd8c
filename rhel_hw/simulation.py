"""Forward simulation, exact reversal, and the energy audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from circuits.hamiltonian import Hamiltonian, Prepared, Theta
from circuits.operators import lanes
from circuits.state import encode, sample_drives
from devices import ArgumentError, DivergedError, Domain, refuse_unless_positive
from rhel_hw import exact
from rhel_hw.dissipation import BOLTZMANN, bath_of
from rhel_hw.exact import Exact
from rhel_hw.integrators import Energy, Integrator, Leapfrog
from rhel_hw.propagation import Keep, Kept, run
from rhel_hw.validity import Validity, validity_of

Array = Any
State = tuple[Array, Array]
Report = Callable[[int, int], None]

INVERSE_TOLERANCE = 1e-4
"""Residual of the inverse inertia matrix of a large circuit beyond which its parameters have moved too far."""
LARGEST_RECORD = 4 * 1024**3
"""Bytes of trajectory beyond which a run is refused unless only its final state is kept."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A run: what went in, and what came out. Arrays are dimensionless, time first, batch last."""

    hamiltonian: Hamiltonian
    theta: Theta
    step: Array
    inputs: Array
    """(steps, channels, batch…)"""
    integrator: Integrator | Exact
    start: State
    final: State
    positions: Array | None
    """(steps, n, batch…) at the end of every step."""
    momenta: Array | None
    """(steps, n, batch…) at the end of every step."""
    kicks: Array | None
    """(steps, kicks, n, batch…): positions where the force acted."""
    temperature: float = 0.0
    """In kelvin, if noise was simulated with the losses."""

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.inputs.shape[0])

    @cached_property
    def times_s(self) -> NDArray[np.float64]:
        """Ends of the steps in seconds."""
        return np.asarray(np.arange(1, self.steps + 1) * float(self.step) * self.hamiltonian.assembly.units.time)

    def positions_si(self) -> dict[str, NDArray[np.float64]]:
        """Position of every node at the end of every step, by name, in SI: (steps, batch…)."""
        values = _node_positions(self.hamiltonian, self.theta, self._kept(self.positions), self.inputs)
        return self._by_node(values, self.hamiltonian.assembly.units.position)

    def momenta_si(self) -> dict[str, NDArray[np.float64]]:
        """Momentum of every node at the end of every step, by name, in SI: (steps, batch…)."""
        values = jax.vmap(self.hamiltonian.node_momenta)(self._kept(self.momenta))
        return self._by_node(values, self.hamiltonian.assembly.units.momentum)

    def signals_si(self) -> dict[str, NDArray[np.float64]]:
        """What every detector reads at the end of every step, by name, in SI: (steps, batch…)."""
        netlist = self.hamiltonian.assembly.netlist
        if not netlist.detectors:
            return {}
        x, p = self.positions_si(), self.momenta_si()
        nodes = {d.name: netlist.terminals_of(d)[0] for d in netlist.detectors}
        return {d.name: np.asarray(d.read(x[nodes[d.name]], p[nodes[d.name]])) for d in netlist.detectors}

    @cached_property
    def validity(self) -> tuple[Validity, ...]:
        """How much of its range every element used that has one, the worst first."""
        return validity_of(
            self.hamiltonian,
            self.theta,
            self.times_s,
            self._kept(self.positions),
            self._kept(self.momenta),
            self.inputs,
        )

    @cached_property
    def audit(self) -> Audit:
        """Energy over time, and what of its change neither drives nor losses explain."""
        q, p = self._kept(self.positions), self._kept(self.momenta)
        before = tuple(jnp.concatenate([s[None], x[:-1]]) for s, x in zip(self.start, (q, p), strict=True))
        starts = _energies(self.hamiltonian, self.theta, *before, self.inputs)
        ends = _energies(self.hamiltonian, self.theta, q, p, self.inputs)
        lost = jnp.zeros_like(ends)
        if self.hamiltonian.lossy and isinstance(self.integrator, Integrator):
            if self.temperature > 0:
                raise ArgumentError("The audit knows no noise: simulate without `temperature`")
            lost = _lost(self.hamiltonian, self.integrator, self.theta, self.inputs, before, self.step)
        if not all(bool(jnp.all(jnp.isfinite(x))) for x in (starts, ends, lost)):
            raise DivergedError(
                "The energy left the range of floating point: use weaker inputs or a smaller initial state"
            )
        unit = self.hamiltonian.assembly.units.energy
        return Audit(*(np.asarray(x, float) * unit for x in (starts, ends, lost)))

    def _kept(self, values: Array | None) -> Array:
        if values is None:
            raise ArgumentError("The trajectory was not kept: simulate with keep=Keep.ENDS")
        return values

    def _by_node(self, values: Array, unit: Callable[[Domain], float]) -> dict[str, NDArray[np.float64]]:
        assembly = self.hamiltonian.assembly
        host = np.asarray(values, float)
        return {
            node: host[:, i] * unit(assembly.netlist.domains[node]) for i, node in enumerate(assembly.coordinates.nodes)
        }


@dataclass(frozen=True, eq=False)
class Audit:
    """Energies in J: (steps, batch…)."""

    starts: NDArray[np.float64]
    """At the start of every step, with that step's input."""
    ends: NDArray[np.float64]
    """At the end of every step, with that step's input."""
    lost: NDArray[np.float64]
    """Dissipated within every step."""

    @property
    def work(self) -> NDArray[np.float64]:
        """Work done by the drives so far: the jumps of the energy where the inputs change."""
        jumps = np.concatenate([np.zeros_like(self.starts[:1]), self.starts[1:] - self.ends[:-1]])
        return np.asarray(np.cumsum(jumps, axis=0))

    @property
    def error(self) -> NDArray[np.float64]:
        """Change so far that neither drives nor losses explain: the integrator's own."""
        return np.asarray(np.cumsum(self.ends - self.starts + self.lost, axis=0))

    @property
    def relative_error(self) -> float:
        """Largest error over the largest energy of the run."""
        largest = np.max(np.abs(self.ends))
        return float(np.max(np.abs(self.error)) / largest) if largest > 0 else 0.0


def simulate(
    hamiltonian: Hamiltonian,
    theta: Theta,
    inputs: Array | None,
    steps: int,
    step: float,
    *,
    state: State | None = None,
    integrator: Integrator | Exact | None = None,
    keep: Keep = Keep.ENDS,
    temperature: float = 0.0,
    seed: int = 0,
    report: Report | None = None,
) -> Trajectory:
    """Run the circuit forward. Everything but the temperature is dimensionless; `simulate_design` takes SI.

    Arguments:
        hamiltonian: the compiled circuit, with n coordinates and m input channels.
        theta: parameters, each (count,) or (count, batch).
        inputs: (steps, m) or (steps, m, batch), constant over each step; None for silence.
        steps: number of steps.
        step: length of a step; step·ω must stay below 2 for leapfrog to be stable.
        state: positions and momenta, each (n,) or (n, batch); None for zero.
        integrator: Leapfrog (default), Yoshida4 or Yoshida6; of linear circuits without loss also Exact.
        keep: how much of the run to keep.
        temperature: of the losses, in kelvin; above zero they come with thermal noise.
        seed: of that noise.
        report: called with (steps done, steps in all) some twenty times on the way.
    """
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
        raise ArgumentError(f"Argument `steps` must be a whole number of at least 1, but is {steps}")
    refuse_unless_positive(step=step)
    if not (np.isfinite(temperature) and temperature >= 0):
        raise ArgumentError(f"Argument `temperature` must be at least 0, but is {temperature!r}")
    theta = {k: jnp.asarray(v) for k, v in theta.items()}
    theta, inputs, (q, p) = conform(hamiltonian, theta, inputs, int(steps), state)
    method = _runs_by(integrator)
    refuse_too_large(q.size, int(steps), method, keep, q.dtype.itemsize)
    length = jnp.asarray(step, q.dtype)
    noise = None
    if temperature > 0 and hamiltonian.lossy:
        noise = (
            jnp.asarray(BOLTZMANN * temperature / hamiltonian.assembly.units.energy, q.dtype),
            jax.random.key(seed),
        )
    go = _runner(hamiltonian, method, keep, theta, length)
    if report is None:
        final, kept = go(inputs, (q, p), noise)
    else:
        final, pieces, chunk = (q, p), [], -(-int(steps) // 20)
        for begin in range(0, int(steps), chunk):
            own = None if noise is None else (noise[0], jax.random.fold_in(noise[1], begin))
            final, piece = go(inputs[begin : begin + chunk], final, own)
            final[0].block_until_ready()
            pieces.append(piece)
            report(min(begin + chunk, int(steps)), int(steps))
        kept = jax.tree.map(lambda *parts: jnp.concatenate(parts), *pieces)
    if not all(bool(jnp.all(jnp.isfinite(x))) for x in final):
        raise DivergedError(
            "The run left the range of floating point: the step is too large for the amplitude or for the parameters. "
            "Use a smaller step, weaker inputs, a smaller initial state, or compile again with the new parameters"
        )
    x, y, kicks = kept
    return Trajectory(hamiltonian, theta, length, inputs, method, (q, p), final, x, y, kicks, float(temperature))


def simulate_design(
    design: Design,
    waveforms: Mapping[str, Any] | None = None,
    *,
    theta: Theta | None = None,
    state: State | None = None,
    integrator: Integrator | Exact | None = None,
    keep: Keep = Keep.ENDS,
    dtype: Any = None,
    temperature: float = 0.0,
    seed: int = 0,
    report: Report | None = None,
) -> Trajectory:
    """Run a compiled design with its own clock and initial state; waveforms in SI by drive replace its own.

    A waveform has one value per step, at mid-step; its length then is the number of steps.
    """
    method = _runs_by(integrator)
    if waveforms is not None and not isinstance(waveforms, Mapping):
        raise ArgumentError("Argument `waveforms` must map drive names to arrays, but is " + type(waveforms).__name__)
    refuse_unstable(design, method)
    refuse_too_large(design.hamiltonian.size, design.steps, method, keep)
    theta = design.theta(dtype) if theta is None else theta
    waves = sample_drives(design) | dict(waveforms or {})
    inputs = encode(design, waves) if waves else None
    inputs = None if inputs is None else inputs.astype(next(iter(theta.values())).dtype)
    steps = design.steps if inputs is None else int(inputs.shape[0])
    start = design.initial_state(dtype) if state is None else state
    return simulate(
        design.hamiltonian,
        theta,
        inputs,
        steps,
        design.step,
        state=start,
        integrator=method,
        keep=keep,
        temperature=temperature,
        seed=seed,
        report=report,
    )


def _runner(
    hamiltonian: Hamiltonian, method: Integrator | Exact, keep: Keep, theta: Theta, step: Array
) -> Callable[[Array, State, tuple[Array, Array] | None], tuple[State, Kept]]:
    """What runs from a state by inputs, perhaps with noise."""
    if isinstance(method, Exact):
        turned = exact.runner(hamiltonian, keep, theta, step)
        return lambda inputs, start, noise: turned(inputs, start)
    return lambda inputs, start, noise: run(hamiltonian, method, keep, theta, inputs, start, step, noise)


def refuse_unstable(design: Design, method: Integrator | Exact) -> None:
    """Refuse an integrator that the design's step is too large for."""
    if design.step * design.highest >= method.limit:
        raise ArgumentError(
            f"Argument `integrator` must be stable at this step, but {method} needs step·ω < {method.limit} and "
            f"it is {design.step * design.highest:.3g}: use a step below "
            f"{method.limit / design.highest * design.assembly.units.time:.3g} s"
        )


def _runs_by(integrator: Integrator | Exact | None) -> Integrator | Exact:
    """What a run goes by, leapfrog if nothing is said."""
    return integrator if isinstance(integrator, Exact) else method_of(integrator)


def method_of(integrator: Integrator | None) -> Integrator:
    """The integrator that learning goes by, leapfrog if there is none."""
    if integrator is None:
        return Leapfrog()
    if not isinstance(integrator, Integrator):
        raise ArgumentError(f"Argument `integrator` must be an integrator such as Yoshida4(), but is {integrator!r}")
    return integrator


def reverse(trajectory: Trajectory, *, keep: Keep = Keep.ENDS) -> Trajectory:
    """The echo without a nudge: momenta flipped, inputs played backwards. It retraces the run to its start.

    Inputs that are odd under time reversal are sign-inverted too.
    """
    q, p = trajectory.final
    parity = jnp.asarray(trajectory.hamiltonian.input_parity, trajectory.inputs.dtype)
    return simulate(
        trajectory.hamiltonian,
        trajectory.theta,
        lanes(parity, trajectory.inputs[0]) * trajectory.inputs[::-1],
        trajectory.steps,
        float(trajectory.step),
        state=(q, -p),
        integrator=trajectory.integrator,
        keep=keep,
    )


def return_error(forward: Trajectory, backward: Trajectory) -> float:
    """Distance from where the run began to where its echo ended, relative to the largest state on the way."""
    pairs = ((forward.start[0], backward.final[0]), (forward.start[1], -backward.final[1]))
    distance = max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs)
    size = max(float(jnp.max(jnp.abs(x))) for x in (*forward.start, *forward.final))
    for kept in (forward.positions, forward.momenta):
        size = size if kept is None else max(size, float(jnp.max(jnp.abs(kept))))
    return distance / size if size > 0 else distance


def refuse_too_large(size: int, steps: int, method: Integrator | Exact, keep: Keep, itemsize: int = 8) -> None:
    """Refuse a run of `size` numbers a step whose record would not fit, before anything is allocated for it."""
    kicks = len(method.lengths) if isinstance(method, Integrator) else 0
    arrays = {Keep.FINAL: 0, Keep.POSITIONS: 1, Keep.ENDS: 2, Keep.ALL: 2 + kicks}[keep]
    refuse_bytes(arrays * steps * size * itemsize, "steps", "the trajectory", "keep only the final state")


def refuse_bytes(total: int, argument: str, what: str, remedy: str) -> None:
    """Refuse what would take more memory than a record may."""
    if total > LARGEST_RECORD:
        raise ArgumentError(
            f"Argument `{argument}` must be smaller: {what} would take {total / 2**30:.1f} GiB, and "
            f"{LARGEST_RECORD / 2**30:.0f} GiB is the limit; or {remedy}"
        )


def conform(
    hamiltonian: Energy, theta: Theta, inputs: Array | None, steps: int, state: State | None
) -> tuple[Theta, Array, State]:
    """Parameters, inputs and state with one dtype and one batch, or an error that names the argument."""
    nominal = hamiltonian.theta()
    if set(theta) != set(nominal):
        odd = sorted(set(theta) ^ set(nominal))
        raise ArgumentError(f"Argument `theta` must have the keys of the Hamiltonian, but differs in {odd}")
    dtype = jnp.result_type(*theta.values())
    n, m = hamiltonian.size, hamiltonian.inputs
    if state is not None and not (isinstance(state, (tuple, list)) and len(state) == 2):
        raise ArgumentError("Argument `state` must be a pair of positions and momenta")
    q, p = (jnp.zeros((n,), dtype),) * 2 if state is None else tuple(jnp.asarray(x, dtype) for x in state)
    u = jnp.zeros((steps, m), dtype) if inputs is None else jnp.asarray(inputs, dtype)
    if u.ndim not in (2, 3) or u.shape[:2] != (steps, m):
        raise ArgumentError(
            f"Argument `inputs` must have shape ({steps}, {m}) or ({steps}, {m}, batch), but has {u.shape}"
        )
    for name, x in (("positions", q), ("momenta", p)):
        if x.ndim not in (1, 2) or x.shape[0] != n:
            raise ArgumentError(
                f"Argument `state` must have {name} of shape ({n},) or ({n}, batch), but they have {x.shape}"
            )
    for key, value in theta.items():
        if value.shape[:1] != nominal[key].shape or value.ndim > 2:
            count = nominal[key].shape[0]
            raise ArgumentError(
                f"Argument `theta` must have `{key}` of shape ({count},) or ({count}, batch), but it has {value.shape}"
            )
    lossless = {k for k, v in nominal.items() if not np.all(np.isfinite(v))}  # an infinite Q is no loss
    known = [v for k, v in theta.items() if k not in lossless]
    for name, values in (("inputs", (u,)), ("state", (q, p)), ("theta", known)):
        if not all(_is_finite(v) for v in values):
            raise ArgumentError(f"Argument `{name}` must be finite, but holds NaN or infinity")
    batched = ((u, 2), (q, 1), (p, 1), *((v, 1) for v in theta.values()))
    sizes = {x.shape[-1] for x, base in batched if x.ndim > base}
    sizes = sizes - {1} or sizes
    if len(sizes) > 1:
        raise ArgumentError(f"Arguments must share one batch size, but have {sorted(sizes)}")
    if sizes:
        batch = sizes.pop()
        q, p = (jnp.broadcast_to(x if x.ndim == 2 else x[:, None], (n, batch)) for x in (q, p))
        u = jnp.broadcast_to(u if u.ndim == 3 else u[:, :, None], (steps, m, batch))
        theta = {k: v if v.ndim == 1 else jnp.broadcast_to(v, (v.shape[0], batch)) for k, v in theta.items()}
    if (error := hamiltonian.inverse_error(theta)) > INVERSE_TOLERANCE:
        raise ArgumentError(
            f"Argument `theta` must stay near the compiled values, but a matrix is inverted with an error of "
            f"{error:.1e}: compile again with the new values"
        )
    return theta, u, (q, p)


def _is_finite(value: Array) -> bool:
    return bool(np.all(np.isfinite(np.asarray(value))))


@partial(jax.jit, static_argnums=0)
def _energies(hamiltonian: Hamiltonian, theta: Theta, q: Array, p: Array, u: Array) -> Array:
    prepared = hamiltonian.prepare(theta)
    return jax.vmap(partial(_energy, hamiltonian, prepared))(q, p, u)


def _energy(hamiltonian: Hamiltonian, prepared: Prepared, q: Array, p: Array, u: Array) -> Array:
    total = hamiltonian.kinetic(p, prepared, u) + hamiltonian.potential(q, prepared, u)
    return total + hamiltonian.rotation(q, p, prepared) if hamiltonian.turning else total


@partial(jax.jit, static_argnums=(0, 1))
def _lost(
    hamiltonian: Hamiltonian, integrator: Integrator, theta: Theta, inputs: Array, before: State, step: Array
) -> Array:
    """Energy that the two decays of every step take away."""
    prepared: Prepared = hamiltonian.prepare(theta)
    bath = bath_of(hamiltonian, prepared, step / 2)

    def of_step(q: Array, p: Array, u: Array) -> Array:
        first = bath((q, p))
        *last, _ = integrator.step(hamiltonian, *first, prepared, u, step)
        pairs = (((q, p), first), (last, bath((last[0], last[1]))))
        energy = partial(_energy, hamiltonian, prepared, u=u)
        return sum(energy(*a) - energy(*b) for a, b in pairs)

    return jax.vmap(of_step)(*before, inputs)


@partial(jax.jit, static_argnums=0)
def _node_positions(hamiltonian: Hamiltonian, theta: Theta, q: Array, u: Array) -> Array:
    prepared = hamiltonian.prepare(theta)
    return jax.vmap(lambda a, c: hamiltonian.node_positions(a, prepared, c))(q, u)

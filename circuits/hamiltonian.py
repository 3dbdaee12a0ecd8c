"""The compiled energy H(q, p; theta, u) = T(p; theta, u) + V(q; theta, u) + R, batch last, dimensionless.

R is a sum over coordinates of functions of the action alone: it is not separable, but its flow is a rotation in the
plane of each (q, p), which is done exactly. Few circuits have it.

`prepare` computes once what depends on theta alone (inverse matrices); the energies and their derivatives take the
result. Positions q and momenta p are (n, batch…), inputs u (m, batch…); theta maps "type.parameter" to (count,) or
(count, batch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from circuits.assemble import Assembly, Group, inertias
from circuits.branches import Branches, slices_of
from circuits.linear_elements import Linear, Lines, Pulled
from circuits.operators import Inverse, Inverted, Reader, lanes, matrix_of, times
from circuits.turns import Turn, action
from devices import Values
from devices.maths import sinc

Array = Any
Theta = Mapping[str, Array]

INERTIA, COMPLIANCE, CURVATURE, ORIGIN = "inertia", "compliance", "curvature", "origin"
"""Names of weights beside those of the parameters: of the two matrices that are inverted, and of linear branches."""


class Prepared(NamedTuple):
    """Theta with everything that is computed from it once per pass."""

    theta: Theta
    inertia: Inverted
    compliance: Inverted | None
    massless: Array | None
    pulled: Pulled | None

    def using(self, weights: Mapping[str, Array]) -> Prepared:
        """The same inverses with other weights, as far as the energy and its derivatives by them go."""
        theta = {k: weights.get(k, v) for k, v in self.theta.items()}
        inertia = self.inertia._replace(weights=weights.get(INERTIA, self.inertia.weights))
        compliance = self.compliance
        if compliance is not None:
            compliance = compliance._replace(weights=weights.get(COMPLIANCE, compliance.weights))
        pulled = self.pulled
        if pulled is not None:
            curvatures, origins, level = pulled.lines
            lines = Lines(weights.get(CURVATURE, curvatures), weights.get(ORIGIN, origins), level)
            pulled = pulled._replace(lines=lines)
        return self._replace(theta=theta, inertia=inertia, compliance=compliance, pulled=pulled)


@dataclass(frozen=True, eq=False)
class Hamiltonian:
    """Separable energy of a circuit. Build with `Netlist.compile`."""

    assembly: Assembly
    linear: Linear | None
    """Elements whose forces need no branches."""
    branches: Branches
    """Of all others."""
    injection: Reader | None
    inverse: Inverse
    """Of the inertia matrix, over the quadratic coordinates and the cyclic ones."""
    quadratic: NDArray[np.intp]
    compliance: Inverse | None
    """Of the inductance matrix, where inductors are coupled."""
    mutual: tuple[NDArray[np.intp], NDArray[np.intp]]
    momenta: Reader | None
    """From momenta to the branches of kinetic energies that are not by inertia."""
    momentum_slices: Mapping[str, tuple[slice, ...]]
    momentum_injection: Reader | None
    lifts: Mapping[str, tuple[Reader, Reader]]

    @classmethod
    def of(cls, assembly: Assembly) -> Hamiltonian:
        """Hamiltonian of assembled arrays."""
        dynamic, massless, _ = assembly.coordinates.counts
        moving = slice(0, dynamic + massless)
        linear = Linear.of(assembly)
        bent = [k for k in assembly.branch if linear is None or k not in linear.branches.slices]
        momenta = list(assembly.momentum.values())
        quadratic = assembly.quadratic
        massive = np.concatenate([quadratic, np.arange(dynamic + massless, len(assembly.factors))])
        rows = sp.vstack([m[:, massive] for m in assembly.inertia.values()]).tocsr() if assembly.inertia else None
        if rows is None:  # every coordinate has a kinetic energy of its own
            rows, weights = sp.csr_array((0, 0)), np.zeros(0)
        else:
            weights = np.concatenate([inertias(assembly.groups[k], assembly.theta) for k in assembly.inertia])
            rows = _without_empty(rows)
        compliance, mutual = _compliance(assembly)
        return cls(
            assembly,
            linear=linear,
            branches=Branches.of(assembly, bent),
            injection=Reader.of(assembly.injection[moving]) if assembly.injection.nnz else None,
            inverse=Inverse.of(rows, weights),
            quadratic=quadratic,
            compliance=compliance,
            mutual=mutual,
            momenta=Reader.of(sp.vstack(momenta).tocsr()) if momenta else None,
            momentum_slices=slices_of(assembly, assembly.momentum),
            momentum_injection=Reader.of(assembly.momentum_injection) if assembly.momentum_injection.nnz else None,
            lifts={
                k: (Reader.of(assembly.inertia[k][:, moving]), Reader.of(m)) for k, m in assembly.lift.items() if m.nnz
            },
        )

    # Shape -------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.assembly.coordinates.dynamic)

    @property
    def inputs(self) -> int:
        """Number of input channels."""
        return len(self.assembly.inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates: the nodes they belong to."""
        return self.assembly.coordinates.dynamic

    @property
    def lossy(self) -> tuple[str, ...]:
        """Names of its elements that dissipate."""
        return tuple(e.name for e in self.assembly.netlist.elements if e.lossy)

    @property
    def nonlinear(self) -> tuple[str, ...]:
        """Names of its elements whose forces or velocities are not proportional to anything."""
        assembly = self.assembly
        kinds = dict.fromkeys((*assembly.branch, *assembly.momentum, *assembly.turning))
        odd = [k for k in kinds if k in assembly.turning or not assembly.groups[k].kind.linear]
        return tuple(name for k in odd for name in assembly.groups[k].names)

    @property
    def turning(self) -> bool:
        """Whether part of the energy is a rotation."""
        return bool(self.assembly.turning)

    @cached_property
    def input_parity(self) -> NDArray[np.float64]:
        """±1 by input channel: see `devices.drives`."""
        return np.array([item.parity for item in self.assembly.inputs], float)

    @property
    def theta_parity(self) -> Mapping[str, float]:
        """−1 by name for parameters that are odd under time reversal: elements with such are refused."""
        return {}

    def theta(self, dtype: Any = None) -> dict[str, Array]:
        """Nominal parameters, dimensionless."""
        return {k: jnp.asarray(v, dtype) for k, v in self.assembly.theta.items()}

    # Energy ------------------------------------------------------------------------------------------------------

    def weights(self, theta: Theta) -> dict[str, Array]:
        """What the energy at given q and p depends on: theta, the entries of the matrices that are inverted, and lines.

        If any parameter is batched, all are.
        """
        return self._weighed(theta)[0]

    def _weighed(self, theta: Theta) -> tuple[dict[str, Array], Lines | None]:
        """Weights, and the potentials of linear branches that some of them come from."""
        batch = next((v.shape[1:] for v in theta.values() if jnp.ndim(v) == 2), ())
        if batch:
            theta = {k: jnp.broadcast_to(lanes(v, jnp.zeros((1, 1))), (v.shape[0], *batch)) for k, v in theta.items()}
        weights = {**theta, INERTIA: _inertia_weights(self.assembly.groups, self.assembly.inertia, theta)}
        if self.compliance is not None:
            weights[COMPLIANCE] = self._inductances(theta)
        if self.linear is None:
            return weights, None
        lines = self.linear.lines(theta)
        return weights | {CURVATURE: lines.curvatures, ORIGIN: lines.origins}, lines

    def moved_by(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Names of the weights that depend on these parameters."""
        keys = tuple(keys)
        types = {key.split(".")[0] for key in keys}
        matrices = [INERTIA] if types & set(self.assembly.inertia) else []
        if self.compliance is not None and types & {"inductor", "mutual"}:
            matrices.append(COMPLIANCE)
        if self.linear is not None:
            moved = ((CURVATURE, self.linear.bending), (ORIGIN, self.linear.moving))
            matrices += [name for name, by in moved if by.intersection(keys)]
        return (*(k for k in keys if k.split(".")[0] not in self._only_linear), *matrices)

    @cached_property
    def _only_linear(self) -> frozenset[str]:
        """Types whose parameters count through the curvatures and slopes of linear branches alone."""
        if self.linear is None:
            return frozenset()
        assembly = self.assembly
        elsewhere = {*assembly.inertia, *assembly.momentum, *assembly.turning, *assembly.lift}
        only = set(self.linear.branches.slices) - elsewhere
        others = [group for name, group in assembly.groups.items() if name not in only]
        return frozenset(only - {loan.lender.kind.type for group in others for loan in group.loans.values()})

    def prepare(self, theta: Theta) -> Prepared:
        """Inverse matrices for these parameters."""
        weights, lines = self._weighed(theta)
        inertia = self.inverse.prepare(weights[INERTIA])
        compliance = None if self.compliance is None else self.compliance.prepare(weights[COMPLIANCE])
        pulled = None if self.linear is None or lines is None else self.linear.prepare(lines)
        prepared = Prepared({k: weights[k] for k in theta}, inertia, compliance, None, pulled)
        if self.assembly.coordinates.massless:
            prepared = prepared._replace(massless=self._massless_inverse(prepared))
        return prepared

    def kinetic(self, p: Array, prepared: Prepared, u: Array | None = None) -> Array:
        """T(p, u), shape (batch…); without u, that of silence."""
        total = jnp.zeros(p.shape[1:], p.dtype)
        if len(self.quadratic):
            total = self.inverse.energy(prepared.inertia, self._massive(p))
        total = total + self._of_momenta(p, prepared)
        if self.momentum_injection is not None and u is not None:
            total = total + jnp.sum(p * lanes(self.momentum_injection(u), p), axis=0)
        return total

    def velocity(self, p: Array, prepared: Prepared, u: Array | None = None) -> Array:
        """∂T/∂p, shape (n, batch…)."""
        result = jnp.zeros_like(p)
        if len(self.quadratic):
            speeds = self.inverse.solve(prepared.inertia, self._massive(p))[: len(self.quadratic)]
            result = speeds if len(self.quadratic) == self.size else result.at[self.quadratic].set(speeds)
        if self.momenta is not None:
            result = result + jax.grad(lambda x: jnp.sum(self._of_momenta(x, prepared)))(p)
        if self.momentum_injection is not None and u is not None:
            result = result + lanes(self.momentum_injection(u), p)
        return result

    def potential(self, q: Array, prepared: Prepared, u: Array) -> Array:
        """V(q, u), shape (batch…)."""
        c = self.positions(q, prepared, u)
        total = self._potential(c, prepared, u)
        if self.linear is not None and prepared.pulled is not None:
            total = total + self.linear.potential(prepared.pulled, c, u)
        return total

    def force(self, q: Array, prepared: Prepared, u: Array) -> Array:
        """−∂V/∂q, shape (n, batch…): at massless coordinates, which lie where it is level, V has no slope."""
        return -self.slope(self.positions(q, prepared, u), prepared, u)[: self.size]

    def slope(self, c: Array, prepared: Prepared, u: Array) -> Array:
        """∂V/∂c at dynamic and massless coordinates."""
        total = jax.grad(lambda x: jnp.sum(self._potential(x, prepared, u)))(c)
        if self.linear is not None and prepared.pulled is not None:
            total = total + self.linear.slope(prepared.pulled, c, u)
        return total

    def energy(self, q: Array, p: Array, theta: Theta, u: Array) -> Array:
        """H(q, p; theta, u), shape (batch…)."""
        prepared = self.prepare(theta)
        total = self.kinetic(p, prepared, u) + self.potential(q, prepared, u)
        return total + self.rotation(q, p, prepared) if self.turning else total

    # Rotations ---------------------------------------------------------------------------------------------------

    def rotation(self, q: Array, p: Array, prepared: Prepared) -> Array:
        """R(q, p), shape (batch…)."""
        total = jnp.zeros(q.shape[1:], q.dtype)
        for turn in self._turns(q, p, prepared):
            total = total + jnp.sum(turn.energy(turn.action), axis=0)
        return total

    def turn(self, q: Array, p: Array, prepared: Prepared, time: Array) -> tuple[Array, Array]:
        """State after the rotations of R have gone on for `time`."""
        for turn in self._turns(q, p, prepared):
            x, y = turn.after(time)
            q, p = q.at[turn.place].set(x), p.at[turn.place].set(y)
        return q, p

    def mean_rotation(self, q: Array, p: Array, prepared: Prepared, values: Prepared, time: Array) -> Array:
        """R as a function of `values`, averaged over a turn from (q, p) that goes on with `prepared` for `time`.

        Both hold the same numbers. The derivative by `values` is then the mean of ∂R/∂θ along the turn, which is what
        echo learning sums. R itself is constant, but the aspect of the circle may depend on θ: its share turns twice as
        fast, and its mean is that at half time, times sinc.
        """
        total = jnp.zeros(q.shape[1:], q.dtype)
        for held, moved in zip(self._turns(q, p, prepared), self._turns(q, p, values), strict=True):
            x, y = held.after(time / 2)
            share = sinc(held.rate * time)
            change = action(moved.aspect, x, y) - action(held.aspect, x, y)
            total = total + jnp.sum(moved.energy(held.action + share * change), axis=0)
        return total

    def _turns(self, q: Array, p: Array, prepared: Prepared) -> Iterator[Turn]:
        for name, place in self.assembly.turning.items():
            group, x, y = self.assembly.groups[name], q[place], p[place]
            values = _values(group, prepared.theta, x)
            factors = lanes(jnp.asarray(self.assembly.factors[place] ** 2, q.dtype), x)
            yield Turn(group, values, place, group.kind.aspect(values) * factors, x, y)

    def positions(self, q: Array, prepared: Prepared, u: Array) -> Array:
        """Dynamic and massless coordinates: the latter lie where the forces on them vanish."""
        if prepared.massless is None:
            return q
        count = len(self.assembly.coordinates.massless)
        at_zero = jnp.zeros((count, *q.shape[1:]), q.dtype)
        # V is quadratic in the massless coordinates, so one Newton step from zero is exact.
        slope = self.slope(jnp.concatenate([q, at_zero]), prepared, u)[self.size :]
        return jnp.concatenate([q, -times(prepared.massless, slope)])

    def inverse_error(self, theta: Theta) -> float:
        """Largest relative residual of the inverse matrices on a trial vector: training may move them off range."""
        pairs = ((INERTIA, self.inverse), (COMPLIANCE, self.compliance))
        iterated = [(name, inverse) for name, inverse in pairs if inverse is not None and inverse.sweeps]
        weights = self.weights(theta) if iterated else {}
        return max((_residual(inverse, weights[name]) for name, inverse in iterated), default=0.0)

    # Readout -----------------------------------------------------------------------------------------------------

    def node_positions(self, q: Array, prepared: Prepared, u: Array) -> Array:
        """Positions of all nodes in the order of `assembly.coordinates.nodes`, in units of their domain."""
        c = self.positions(q, prepared, u)
        if self.assembly.coordinates.cyclic:
            c = jnp.concatenate([c, self._cyclic(q, prepared.theta)])
        return self._read_positions(c)

    def node_momenta(self, p: Array) -> Array:
        """Momenta of all nodes, in units of their domain: W⁻ᵀp, zero along what was eliminated.

        At a node with a capacitor to a voltage source it is the canonical one, ΣC·φ̇, not the charge on the plates.
        """
        return self._read_momenta(p)

    def branches_of(
        self, kind: str, q: Array, p: Array, prepared: Prepared, u: Array
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Branch coordinates and branch momenta of all elements of a type; what turns a node has both from there."""
        b: tuple[Array, ...] = ()
        m: tuple[Array, ...] = ()
        if kind in self._branches.slices:
            read = self._branches(self.positions(q, prepared, u), u)
            b = tuple(read[rows] for rows in self._branches.slices[kind])
        if kind in self.momentum_slices and self.momenta is not None:
            read = self.momenta(p)
            m = tuple(read[rows] for rows in self.momentum_slices[kind])
        if kind in self.assembly.turning or (b and not m and len(self.assembly.groups[kind].kind.terminals) == 1):
            place = self._places(kind)
            factors = lanes(jnp.asarray(self.assembly.factors[place], q.dtype), q)
            b, m = (q[place] * factors,), (p[place] / factors,)
        return b, m

    def _places(self, kind: str) -> NDArray[np.intp]:
        """Dynamic coordinate of the node of every element of a type with one terminal."""
        netlist, column = self.assembly.netlist, {n: i for i, n in enumerate(self.names)}
        parts = (netlist.by_name[name] for name in self.assembly.groups[kind].names)
        return np.array([column[netlist.terminals_of(part)[0]] for part in parts], np.intp)

    @cached_property
    def _branches(self) -> Branches:
        """Of all elements that have a potential."""
        return Branches.of(self.assembly, tuple(self.assembly.branch))

    @cached_property
    def _read_positions(self) -> Reader:
        return Reader.of(self.assembly.readout)

    @cached_property
    def _read_momenta(self) -> Reader:
        return Reader.of(self.assembly.momentum_readout)

    # Parts -------------------------------------------------------------------------------------------------------

    def _massive(self, p: Array) -> Array:
        cyclic = len(self.assembly.coordinates.cyclic)
        chosen = p if len(self.quadratic) == self.size else p[self.quadratic]
        if cyclic:
            chosen = jnp.concatenate([chosen, jnp.zeros((cyclic, *p.shape[1:]), p.dtype)])
        return chosen

    def _of_momenta(self, p: Array, prepared: Prepared) -> Array:
        total = jnp.zeros(p.shape[1:], p.dtype)
        if self.momenta is None:
            return total
        m = self.momenta(p)
        for name, rows in self.momentum_slices.items():
            group = self.assembly.groups[name]
            parts = tuple(m[rows_of] for rows_of in rows)
            total = total + jnp.sum(group.kind.kinetic(parts, _values(group, prepared.theta, m)), axis=0)
        return total

    def _potential(self, c: Array, prepared: Prepared, u: Array) -> Array:
        """V of all but the linear elements, and of what the inputs do to coordinates."""
        total, b = jnp.zeros(c.shape[1:], c.dtype), self.branches(c, u)
        for name, rows in self.branches.slices.items():
            group = self.assembly.groups[name]
            parts = tuple(b[rows_of] for rows_of in rows)
            values = _values(group, prepared.theta, b)
            if name == "inductor" and self.compliance is not None and prepared.compliance is not None:
                flux = parts[0] - values.flux
                total = total + self.compliance.energy(prepared.compliance, flux)
            else:
                total = total + jnp.sum(group.kind.potential(parts, values), axis=0)
        if self.injection is not None:
            total = total - jnp.sum(c * lanes(self.injection(u), c), axis=0)
        for name, (reader, inputs) in self.lifts.items():
            # A capacitor on a held node: T's cross term, moved to V by a canonical shift of the charge.
            group = self.assembly.groups[name]
            weights = group.kind.inertia(_values(group, prepared.theta, c))
            total = total + jnp.sum(weights * reader(c) * lanes(inputs(u), c), axis=0)
        return total

    def _inductances(self, theta: Theta) -> Array:
        """Weights of the inductance matrix: the diagonal, then ±M/2 for every coupled pair."""
        group, coupling = self.assembly.groups["inductor"], self.assembly.groups["mutual"]
        own = group.values(theta)
        first, second = ({k: theta[group.key(k)][rows] for k in group.kind.parameters} for rows in self.mutual)
        shared = coupling.kind.coupling(coupling.values(theta), Values(**first), Values(**second))  # type: ignore[attr-defined]
        return jnp.concatenate([own.inductance, shared / 2, -shared / 2])

    def _massless_inverse(self, prepared: Prepared) -> Array:
        dynamic, massless, _ = self.assembly.coordinates.counts
        example = next(iter(prepared.theta.values()))
        batch, dtype = example.shape[1:], example.dtype
        q, u = jnp.zeros((dynamic, *batch), dtype), jnp.zeros((self.inputs, *batch), dtype)
        at_zero = jnp.zeros((massless, *batch), dtype)

        def slope(x: Array) -> Array:
            return self.slope(jnp.concatenate([q, x]), prepared, u)[dynamic:]

        return jnp.linalg.inv(matrix_of(lambda d: jax.jvp(slope, (at_zero,), (d,))[1], massless, batch, dtype))

    def _cyclic(self, q: Array, theta: Theta) -> Array:
        """Cyclic positions z from (M·[y, z])_z = 0, which zero momentum implies."""
        weights = _inertia_weights(self.assembly.groups, self.assembly.inertia, theta)
        cyclic, split = len(self.assembly.coordinates.cyclic), len(self.quadratic)

        def momentum(y: Array, z: Array) -> Array:
            return self.inverse.apply(weights, jnp.concatenate([y, z]))[split:]

        y = q if split == self.size else q[self.quadratic]
        still = jnp.zeros((cyclic, *q.shape[1:]), q.dtype)
        own = matrix_of(lambda z: momentum(jnp.zeros_like(y), z), cyclic, q.shape[1:], q.dtype)
        return -times(jnp.linalg.inv(own), momentum(y, still))


def _values(group: Group, theta: Theta, like: Array) -> Values:
    return group.values(theta, lambda x: lanes(x, like))


def _inertia_weights(groups: Mapping[str, Group], inertia: Mapping[str, Any], theta: Theta) -> Array:
    weights = []
    for name in inertia:
        kind = groups[name].kind
        weights.append(kind.inertia(groups[name].values(theta)))
    example = next(iter(theta.values()))
    return jnp.concatenate(weights) if weights else jnp.zeros((0, *example.shape[1:]), example.dtype)


def _residual(inverse: Inverse, weights: Array) -> float:
    trial = jnp.asarray(np.random.default_rng(0).normal(size=inverse.size), weights.dtype)
    x = jnp.broadcast_to(lanes(trial, weights), (inverse.size, *weights.shape[1:]))
    residual = inverse.apply(weights, inverse.solve(inverse.prepare(weights), x)) - x
    return float(jnp.linalg.norm(residual) / jnp.linalg.norm(x))


def _without_empty(rows: sp.csr_array) -> sp.csr_array:
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def _compliance(assembly: Assembly) -> tuple[Inverse | None, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Inductance matrix as Aᵀ·diag(w)·A: own inductances, and (a+b)², (a−b)² for each coupled pair."""
    none = np.zeros(0, np.intp)
    if "mutual" not in assembly.groups:
        return None, (none, none)
    index = {name: i for i, name in enumerate(assembly.groups["inductor"].names)}
    pairs = [(e.first, e.second) for e in assembly.netlist.elements if e.type == "mutual"]  # type: ignore[attr-defined]
    first, second = (np.array([index[pair[k]] for pair in pairs], np.intp) for k in (0, 1))
    eye = sp.eye_array(len(index)).tocsr()
    rows = sp.vstack([eye, eye[first] + eye[second], eye[first] - eye[second]]).tocsr()
    L = assembly.theta["inductor.inductance"]
    shared = assembly.theta["mutual.coefficient"] * np.sqrt(L[first] * L[second])
    return Inverse.of(rows, np.concatenate([L, shared / 2, -shared / 2])), (first, second)

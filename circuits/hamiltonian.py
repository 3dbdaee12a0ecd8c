"""The compiled energy H(q, p; theta, u) = T(p; theta) + V(q; theta, u), batch last, dimensionless.

`prepare` computes once what depends on theta alone (inverse matrices); the energies and their derivatives take the
result. Positions q and momenta p are (n, batch…), inputs u (m, batch…); theta maps "type.parameter" to (count,) or
(count, batch).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from circuits.assemble import Assembly, Group, inertias
from circuits.operators import Inverse, Inverted, Reader, lanes, matrix_of, times
from devices import Values

Array = Any
Theta = Mapping[str, Array]

INERTIA, COMPLIANCE = "inertia", "compliance"
"""Names of the weights of the two matrices, beside those of the parameters."""


class Prepared(NamedTuple):
    """Theta with everything that is computed from it once per pass."""

    theta: Theta
    inertia: Inverted
    compliance: Inverted | None
    massless: Array | None

    def using(self, weights: Mapping[str, Array]) -> Prepared:
        """The same inverses with other weights, as far as the energy and its derivatives by them go."""
        theta = {k: weights.get(k, v) for k, v in self.theta.items()}
        inertia = self.inertia._replace(weights=weights.get(INERTIA, self.inertia.weights))
        compliance = self.compliance
        if compliance is not None:
            compliance = compliance._replace(weights=weights.get(COMPLIANCE, compliance.weights))
        return self._replace(theta=theta, inertia=inertia, compliance=compliance)


@dataclass(frozen=True, eq=False)
class Hamiltonian:
    """Separable energy of a circuit. Build with `Netlist.compile`."""

    assembly: Assembly
    branches: Reader
    slices: Mapping[str, tuple[slice, ...]]
    """Rows of `branches` per type, one slice per branch of the element."""
    branch_inputs: Reader | None
    injection: Reader | None
    inverse: Inverse
    """Of the inertia matrix, over the quadratic coordinates and the cyclic ones."""
    quadratic: NDArray[np.intp]
    compliance: Inverse | None
    """Of the inductance matrix, where inductors are coupled."""
    mutual: tuple[NDArray[np.intp], NDArray[np.intp]]
    momenta: Mapping[str, Reader]
    lifts: Mapping[str, tuple[Reader, Reader]]

    @classmethod
    def of(cls, assembly: Assembly) -> Hamiltonian:
        """Hamiltonian of assembled arrays."""
        dynamic, massless, _ = assembly.coordinates.counts
        moving = slice(0, dynamic + massless)
        stacked, slices, start = [], {}, 0
        for name, rows in assembly.branch.items():
            count = len(assembly.groups[name].names)
            slices[name] = tuple(slice(s, s + count) for s in range(start, start + rows.shape[0], count))
            start += rows.shape[0]
            stacked.append(rows[:, moving])
        inputs = sp.vstack(list(assembly.branch_inputs.values())).tocsr() if stacked else sp.csr_array((0, 0))
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
            branches=Reader.of(sp.vstack(stacked).tocsr()),
            slices=slices,
            branch_inputs=Reader.of(inputs) if inputs.nnz else None,
            injection=Reader.of(assembly.injection[moving]) if assembly.injection.nnz else None,
            inverse=Inverse.of(rows, weights),
            quadratic=quadratic,
            compliance=compliance,
            mutual=mutual,
            momenta={k: Reader.of(m) for k, m in assembly.momentum.items()},
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
        return tuple(name for kind in self.assembly.loss for name in self.assembly.groups[kind].names)

    @property
    def input_parity(self) -> NDArray[np.float64]:
        """±1 by input channel: all even, see `devices.drives`."""
        return np.ones(self.inputs)

    @property
    def theta_parity(self) -> Mapping[str, float]:
        """−1 by name for parameters that are odd under time reversal: elements with such are refused."""
        return {}

    def theta(self, dtype: Any = None) -> dict[str, Array]:
        """Nominal parameters, dimensionless."""
        return {k: jnp.asarray(v, dtype) for k, v in self.assembly.theta.items()}

    # Energy ------------------------------------------------------------------------------------------------------

    def weights(self, theta: Theta) -> dict[str, Array]:
        """What the energy at given q and p depends on: theta, and the entries of the matrices that are inverted.

        If any parameter is batched, all are.
        """
        batch = next((v.shape[1:] for v in theta.values() if jnp.ndim(v) == 2), ())
        if batch:
            theta = {k: jnp.broadcast_to(lanes(v, jnp.zeros((1, 1))), (v.shape[0], *batch)) for k, v in theta.items()}
        weights = {**theta, INERTIA: _inertia_weights(self.assembly.groups, self.assembly.inertia, theta)}
        if self.compliance is not None:
            weights[COMPLIANCE] = self._inductances(theta)
        return weights

    def moved_by(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Names of the weights that depend on these parameters."""
        types = {key.split(".")[0] for key in keys}
        matrices = [INERTIA] if types & set(self.assembly.inertia) else []
        if self.compliance is not None and types & {"inductor", "mutual"}:
            matrices.append(COMPLIANCE)
        return (*keys, *matrices)

    def prepare(self, theta: Theta) -> Prepared:
        """Inverse matrices for these parameters."""
        weights = self.weights(theta)
        inertia = self.inverse.prepare(weights[INERTIA])
        compliance = None if self.compliance is None else self.compliance.prepare(weights[COMPLIANCE])
        prepared = Prepared({k: weights[k] for k in theta}, inertia, compliance, None)
        if self.assembly.coordinates.massless:
            prepared = prepared._replace(massless=self._massless_inverse(prepared))
        return prepared

    def kinetic(self, p: Array, prepared: Prepared, u: Array | None = None) -> Array:
        """T(p), shape (batch…); no drive of a circuit enters it."""
        total = jnp.zeros(p.shape[1:], p.dtype)
        if len(self.quadratic):
            total = self.inverse.energy(prepared.inertia, self._massive(p))
        return total + self._nonquadratic(p, prepared)

    def velocity(self, p: Array, prepared: Prepared, u: Array | None = None) -> Array:
        """∂T/∂p, shape (n, batch…)."""
        result = jnp.zeros_like(p)
        if len(self.quadratic):
            speeds = self.inverse.solve(prepared.inertia, self._massive(p))[: len(self.quadratic)]
            result = speeds if len(self.quadratic) == self.size else result.at[self.quadratic].set(speeds)
        if self.momenta:
            result = result + jax.grad(lambda x: jnp.sum(self._nonquadratic(x, prepared)))(p)
        return result

    def potential(self, q: Array, prepared: Prepared, u: Array) -> Array:
        """V(q, u), shape (batch…)."""
        return self._potential(self.positions(q, prepared, u), prepared, u)

    def force(self, q: Array, prepared: Prepared, u: Array) -> Array:
        """−∂V/∂q, shape (n, batch…)."""
        return -jax.grad(lambda x: jnp.sum(self.potential(x, prepared, u)))(q)

    def energy(self, q: Array, p: Array, theta: Theta, u: Array) -> Array:
        """H(q, p; theta, u), shape (batch…)."""
        prepared = self.prepare(theta)
        return self.kinetic(p, prepared) + self.potential(q, prepared, u)

    def positions(self, q: Array, prepared: Prepared, u: Array) -> Array:
        """Dynamic and massless coordinates: the latter lie where the forces on them vanish."""
        if prepared.massless is None:
            return q
        count = len(self.assembly.coordinates.massless)
        at_zero = jnp.zeros((count, *q.shape[1:]), q.dtype)
        # V is quadratic in the massless coordinates, so one Newton step from zero is exact.
        slope = jax.grad(lambda x: jnp.sum(self._potential(jnp.concatenate([q, x]), prepared, u)))(at_zero)
        return jnp.concatenate([q, -times(prepared.massless, slope)])

    def inverse_error(self, theta: Theta) -> float:
        """Largest relative residual of the inverse matrices on a trial vector: training may move them off range."""
        weights, pairs = self.weights(theta), ((INERTIA, self.inverse), (COMPLIANCE, self.compliance))
        return max(_residual(inverse, weights[name]) for name, inverse in pairs if inverse is not None)

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

    @cached_property
    def _read_positions(self) -> Reader:
        return Reader.of((self.assembly.coordinates.W @ sp.diags_array(self.assembly.factors)).tocsr())

    @cached_property
    def _read_momenta(self) -> Reader:
        momenta = self.assembly.coordinates.momenta @ sp.diags_array(1 / self.assembly.factors[: self.size])
        return Reader.of(momenta.tocsr())

    # Parts -------------------------------------------------------------------------------------------------------

    def _massive(self, p: Array) -> Array:
        cyclic = len(self.assembly.coordinates.cyclic)
        chosen = p if len(self.quadratic) == self.size else p[self.quadratic]
        if cyclic:
            chosen = jnp.concatenate([chosen, jnp.zeros((cyclic, *p.shape[1:]), p.dtype)])
        return chosen

    def _nonquadratic(self, p: Array, prepared: Prepared) -> Array:
        total = jnp.zeros(p.shape[1:], p.dtype)
        for name, reader in self.momenta.items():
            group = self.assembly.groups[name]
            read = reader(p)
            total = total + jnp.sum(group.kind.kinetic(read, _values(group, prepared.theta, read)), axis=0)
        return total

    def _potential(self, c: Array, prepared: Prepared, u: Array) -> Array:
        b = self.branches(c)
        if self.branch_inputs is not None:
            b = b + lanes(self.branch_inputs(u), b)
        total = jnp.zeros(c.shape[1:], c.dtype)
        for name, rows in self.slices.items():
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
            return jax.grad(lambda y: jnp.sum(self._potential(jnp.concatenate([q, y]), prepared, u)))(x)

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
    return Values(**{k: lanes(theta[group.key(k)], like) for k in group.kind.parameters}, **group.constants)


def _inertia_weights(groups: Mapping[str, Group], inertia: Mapping[str, Any], theta: Theta) -> Array:
    weights = []
    for name in inertia:
        kind = groups[name].kind
        weights.append(kind.inertia(groups[name].values(theta)))
    example = next(iter(theta.values()))
    return jnp.concatenate(weights) if weights else jnp.zeros((0, *example.shape[1:]), example.dtype)


def _residual(inverse: Inverse, weights: Array) -> float:
    if inverse.sweeps == 0:
        return 0.0
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

"""Loss and thermal noise, exact over half a step at either end of it: docs/physics.md, sections 5 and 10.4.

Two kinds of loss. Resistors, dampers and Gilbert damping are forces against the velocity, ṗ = −G·∂T/∂p. Open cavities,
magnons and cores of vortices lose both quadratures alike, at a rate of their own. Either comes with noise at a finite
temperature, such that the energy per quadrature settles at k_BT/2 (fluctuation and dissipation).

A pump may turn all of it into gain (docs/physics.md, section 11.4). What loses is still there, and shakes as before;
that noise is amplified along with the state, and the pump is taken to add none of its own, which is the least there can
be. With gain equal to the loss it is the exact solution of ṗ = +γp + ξ, and noise that is replayed is undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from circuits.assemble import Group
from circuits.hamiltonian import Hamiltonian, Prepared
from circuits.operators import lanes, matrix_of, times

Array = Any
State = tuple[Array, Array]
Noise = tuple[Array | None, Array | None, Array | None]
"""Standard normal numbers: of momenta that friction acts on, and of positions and momenta that decay alike."""

BOLTZMANN = 1.380649e-23
"""Boltzmann constant in J/K, exact."""


class Bath(NamedTuple):
    """What half a step of loss does to a state; None for what does not happen."""

    friction: Array | None = None
    """Factors (n, batch…) or a matrix (batch…, n, n) on the momenta, from forces against the velocity."""
    matrix: bool = False
    both: Array | None = None
    """Factors (n, batch…) on positions and momenta."""
    push: Array | None = None
    """Noise of the momenta that belongs to friction, per standard normal: as `friction`."""
    shake: State | None = None
    """Noise of positions and momenta that belongs to `both`, (n, batch…) each."""

    def __call__(self, state: State, noise: Noise | None = None) -> State:
        """State (n, batch…) after the loss, shaken by standard normal numbers if there are any."""
        q, p = state
        push, *shakes = (None,) * 3 if noise is None else noise
        if self.friction is not None:
            p = self._applied(self.friction, p)
            if self.push is not None and push is not None:
                p = p + self._applied(self.push, push)
        if self.both is not None:
            q, p = lanes(self.both, q) * q, lanes(self.both, p) * p
            if self.shake is not None and noise is not None:
                q, p = (x + lanes(s, x) * n for x, s, n in zip((q, p), self.shake, shakes, strict=True))
        return q, p

    def drawn(self, draw: Callable[[int], Array]) -> Noise | None:
        """Standard normal numbers for one application, as far as it needs them; `draw` makes stream 0, 1 or 2."""
        if self.push is None and self.shake is None:
            return None
        push = None if self.push is None else draw(0)
        return push, *((None, None) if self.shake is None else (draw(1), draw(2)))

    def _applied(self, factor: Array, p: Array) -> Array:
        return times(factor, p) if self.matrix else lanes(factor, p) * p


def bath_of(
    hamiltonian: Hamiltonian, prepared: Prepared, time: Array, energy: Array | None = None, gain: Array | None = None
) -> Bath:
    """Loss over `time`; with a thermal energy k_BT, dimensionless, one or (batch,), also its noise.

    With a `gain`, one or (batch,), the device gains so many times what it would lose.
    """
    bath = _loss(hamiltonian, prepared, time, energy)
    if gain is None:
        return bath
    grown = _loss(hamiltonian, prepared, -time * gain, None)
    push, shake = bath.push, bath.shake
    if push is not None and grown.friction is not None:
        push = grown.friction @ push if grown.matrix else grown.friction * push
    if shake is not None:
        shake = tuple(grown.both * s for s in shake)
    return grown._replace(push=push, shake=shake)


def _loss(hamiltonian: Hamiltonian, prepared: Prepared, time: Array, energy: Array | None) -> Bath:
    bath = _friction(hamiltonian, prepared, time, energy)
    rates = _rates(hamiltonian, prepared)
    if rates is None:
        return bath
    rate, frequency, aspect = rates
    factors = jnp.exp(-time * rate)
    if energy is None:
        return bath._replace(both=factors)
    # On a circular orbit of action n the energy is ω·n: either quadrature settles at k_BT/2.
    action = jnp.where(frequency > 0, energy / jnp.where(frequency > 0, frequency, 1), 0) * (1 - factors**2)
    return bath._replace(both=factors, shake=(jnp.sqrt(action / aspect), jnp.sqrt(action * aspect)))


def _friction(hamiltonian: Hamiltonian, prepared: Prepared, time: Array, energy: Array | None) -> Bath:
    assembly, n = hamiltonian.assembly, hamiltonian.size
    if not assembly.loss:
        return Bath()
    # A loss acts along the first branch of its element.
    rows = sp.vstack([m[: len(assembly.groups[name].names), :n] for name, m in assembly.loss.items()]).tocsr()
    conductance = jnp.concatenate([_law(assembly.groups[name], "conductance", prepared) for name in assembly.loss])
    batch, dtype = conductance.shape[1:], conductance.dtype
    alone = np.all(np.diff(rows.indptr) == 1) and hamiltonian.inverse.diagonal
    if alone and len(hamiltonian.quadratic) == n:
        entries = lanes(jnp.asarray(rows.data**2, dtype), conductance) * conductance
        rates = jnp.zeros((n, *batch), dtype).at[rows.indices].add(entries)
        mobility = prepared.inertia.solver[:n]
        factors = jnp.exp(-time * rates * mobility)
        push = None if energy is None else jnp.sqrt(energy / mobility * (1 - factors**2))
        return Bath(factors, push=push)
    A = jnp.asarray(rows.toarray(), dtype)
    G = jnp.einsum("ei,e...,ej->...ij", A, conductance, A)
    speeds = matrix_of(lambda p: hamiltonian.velocity(p, prepared), n, batch, dtype)
    time = time[..., None, None] if jnp.ndim(time) else time
    factors = jax.scipy.linalg.expm(-time * G @ speeds)
    if energy is None:
        return Bath(factors, matrix=True)
    inertia = jnp.linalg.inv(speeds)
    energy = energy[..., None, None] if jnp.ndim(energy) else energy
    settled = energy * (inertia - factors @ inertia @ jnp.swapaxes(factors, -1, -2))
    values, vectors = jnp.linalg.eigh(settled)  # which may have zeros, where nothing is lost
    return Bath(factors, matrix=True, push=vectors * jnp.sqrt(jnp.maximum(values, 0))[..., None, :])


def _rates(hamiltonian: Hamiltonian, prepared: Prepared) -> tuple[Array, Array, Array] | None:
    """Decay rate, angular frequency and aspect of every coordinate, (n, batch…); None if nothing decays so."""
    assembly, n = hamiltonian.assembly, hamiltonian.size
    groups = [g for g in assembly.groups.values() if g.kind.decay is not None]
    if not any(assembly.netlist.by_name[name].lossy for g in groups for name in g.names):
        return None
    column = {node: i for i, node in enumerate(assembly.coordinates.dynamic)}
    example = next(iter(prepared.theta.values()))
    rate = frequency = jnp.zeros((n, *example.shape[1:]), example.dtype)
    aspect = jnp.ones_like(rate)
    for group in groups:
        parts = (assembly.netlist.by_name[name] for name in group.names)
        places = np.array([column[assembly.netlist.terminals_of(part)[0]] for part in parts])
        own_rate, own_frequency = group.kind.decay(group.values(prepared.theta))
        factors = lanes(jnp.asarray(assembly.factors[places] ** 2, rate.dtype), own_rate)
        rate = rate.at[places].set(own_rate)
        frequency = frequency.at[places].set(own_frequency)
        aspect = aspect.at[places].set(_law(group, "aspect", prepared) * factors)
    return rate, frequency, aspect


def _law(group: Group, name: str, prepared: Prepared) -> Array:
    """A law of every element, (count, batch…)."""
    example = next(iter(prepared.theta.values()))
    shape = (len(group.names), *example.shape[1:])
    return jnp.broadcast_to(getattr(group.kind, name)(group.values(prepared.theta)), shape)


def energy_rates(hamiltonian: Hamiltonian) -> Array:
    """Rates at which coordinates lose energy at nominal parameters, (n,), dimensionless.

    Friction takes momenta at its rate, so that the energy of an oscillation falls at the same; of friction between
    coordinates the diagonal counts.
    """
    prepared = hamiltonian.prepare(hamiltonian.theta())
    total = jnp.zeros(hamiltonian.size)
    if hamiltonian.assembly.loss:
        slope = jax.jacfwd(lambda time: _friction(hamiltonian, prepared, time, None).friction)(jnp.zeros(()))
        total = total - (jnp.diagonal(slope) if slope.ndim == 2 else slope)
    rates = _rates(hamiltonian, prepared)
    return total if rates is None else total + 2 * rates[0]

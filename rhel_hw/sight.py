"""What the channels of a bench show of a design: coordinates from channels, and parameters that stay in the dark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from circuits import Design
from circuits.operators import Reader
from rhel_hw.bench import Kind
from rhel_hw.credit import Samples, View, credit, input_slopes
from rhel_hw.losses import targets_of
from rhel_hw.operations import MomentumFlip

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sight:
    """What of a design's state the channels of a bench show."""

    design: Design
    channels: frozenset[str]

    @staticmethod
    @lru_cache(maxsize=64)
    def of(design: Design, channels: frozenset[str]) -> Sight:
        """The same for every gradient on a bench."""
        return Sight(design, channels)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, in the order of the design."""
        return tuple(self.design.assembly.coordinates.nodes)

    @cached_property
    def _to_positions(self) -> sp.csr_array:
        """(coordinate, node): dynamic coordinates from positions in units of their domain."""
        readout = self.design.assembly.readout.tocsc()
        count = len(self.design.hamiltonian.names)
        if readout.nnz == readout.shape[0] and np.all(readout.indices == np.arange(readout.shape[0])):
            return sp.diags_array(1 / readout.data).tocsr()[:count]
        inverse = sla.splu(readout).solve(np.eye(readout.shape[0]))
        inverse[np.abs(inverse) < 1e-12 * np.abs(inverse).max()] = 0
        return sp.csr_array(inverse[:count])

    @cached_property
    def _to_momenta(self) -> sp.csr_array:
        """(coordinate, node): the same of momenta. Positions are x = R·c, so momenta are Rᵀ times those of nodes."""
        return self.design.assembly.readout[:, : len(self.design.hamiltonian.names)].T.tocsr()

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Channels of a kind, in the order of the design."""
        return tuple(name for name in (f"{kind}.{n}" for n in self.nodes) if name in self.channels)

    @cached_property
    def view(self) -> View:
        """Dimensionless coordinates and momenta (n, …) from channels (channels, …) in SI; unseen ones are zero."""
        return View(self._reader(Kind.POSITION), self._reader(Kind.MOMENTUM))

    def _reader(self, kind: Kind) -> Reader:
        assembly = self.design.assembly
        unit = assembly.units.momentum if kind is Kind.MOMENTUM else assembly.units.position
        matrix = self._to_momenta if kind is Kind.MOMENTUM else self._to_positions
        names = self.names(kind)
        wired = [i for i, n in enumerate(self.nodes) if f"{kind}.{n}" in names]
        sizes = np.array([unit(assembly.netlist.domains[self.nodes[i]]) for i in wired])
        return Reader.of((matrix.tocsc()[:, wired] @ sp.diags_array(1 / sizes)).tocsr())

    def coordinates(self, block: Any, kind: Kind) -> Floats | None:
        """Coordinates or momenta (samples, n, runs, chips) from channels of a kind; None if there are none."""
        if not self.names(kind):
            return None
        reader = self.view.momenta if kind is Kind.MOMENTUM else self.view.positions
        return np.asarray(_through(reader, block))

    def seen(self, kind: Kind) -> NDArray[np.bool_]:
        """Which coordinates, or momenta, follow from the channels."""
        matrix = self._to_momenta if kind is Kind.MOMENTUM else self._to_positions
        blind = np.array([f"{kind}.{n}" not in self.channels for n in self.nodes], float)
        return np.asarray(abs(matrix) @ blind == 0)

    @cached_property
    def frozen(self) -> tuple[str, ...]:
        """Trainable parameters whose gradient depends on something that is not seen."""
        entries = [e for e in self.design.assembly.entries if e.trainable]
        energy, theta, targets = self.design.hamiltonian, self.design.theta(), targets_of(self.design)
        keys = tuple(dict.fromkeys(e.key for e in entries))

        def slopes(samples: Samples) -> Floats:
            found = credit(energy, MomentumFlip(), keys, theta, targets, self._clear, samples, 0.0, jnp.ones((1, 1)))
            return np.array([float(found[e.key][e.index]) for e in entries])

        return tuple(e.name for e, hurt in zip(entries, self._hurt(slopes, len(entries)), strict=True) if hurt)

    @cached_property
    def dark_drives(self) -> tuple[str, ...]:
        """Drives of which it cannot be seen what they do to a loss."""
        energy, theta, targets = self.design.hamiltonian, self.design.theta(), targets_of(self.design)
        items = self.design.assembly.inputs

        def slopes(samples: Samples) -> Floats:
            return input_slopes(energy, MomentumFlip(), theta, targets, self._clear, samples, 0.0)[0, :, 0]

        hurt = self._hurt(slopes, len(items))
        return tuple(dict.fromkeys(item.drive.name for item, dark in zip(items, hurt, strict=True) if dark))

    @cached_property
    def _clear(self) -> View:
        """Coordinates as they are."""
        same = Reader.of(sp.eye_array(self.design.hamiltonian.size).tocsr())
        return View(same, same)

    def _hurt(self, slopes: Callable[[Samples], Floats], count: int) -> NDArray[np.bool_]:
        """Which of some derivatives of h, at a trial state of one step, depend on something that is not seen."""
        hidden = [np.flatnonzero(~self.seen(kind)) for kind in (Kind.POSITION, Kind.MOMENTUM)]
        hurt = np.zeros(count, bool)
        if not any(len(h) for h in hidden):
            return hurt
        rng = np.random.default_rng(0)
        u = np.full((1, self.design.hamiltonian.inputs, 1, 1), 0.3)
        still = np.zeros((1, targets_of(self.design).rows, 1, 1))

        def at(q: Floats, p: Floats) -> Floats:
            return slopes(Samples(q[None, :, None, None], np.stack([p, p])[:, :, None, None], still, u))

        q, p = rng.normal(size=(2, self.design.hamiltonian.size))
        here = at(q, p)
        for which, places in enumerate(hidden):
            if len(places):
                moved = [q.copy(), p.copy()]
                moved[which][places] += rng.normal(size=len(places))
                hurt |= np.abs(at(*moved) - here) > 1e-9 * np.abs(here).max()
        return hurt


@partial(jax.jit, static_argnums=0)
def _through(reader: Reader, block: Any) -> Any:
    return jnp.moveaxis(reader(jnp.moveaxis(jnp.asarray(block), 1, 0)), 0, 1)

"""Case studies: a question of a hardware team, answered by sweeps, ending in a contract and a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from studies.cases.case import Case


def cases() -> Mapping[str, Case]:
    """The cases by name."""
    from studies.cases import board, lattice, vortices

    return {"lc-ring": board.CASE, "nitride-lattice": lattice.CASE, "vortex-echo": vortices.CASE}

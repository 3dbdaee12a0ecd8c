"""What a bench shall learn: waveforms to play, and what the targets should do. All of it SI, none of it a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError

Samples = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lesson:
    """Stimuli and wanted answers; the loss is half the mean square of the distance, in the design's own units."""

    drive: Mapping[str, Samples]
    """(steps, stimuli) by drive."""
    targets: Mapping[str, Samples]
    """Wanted positions by target at the end of every step, (steps, stimuli); of a final loss, (1, stimuli)."""
    steps: int
    start: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    """Positions and momenta by node; None: as the design has them."""

    def __post_init__(self) -> None:
        lengths = {np.shape(v)[0] for v in self.targets.values()}
        if not self.targets or len(lengths) != 1 or not lengths <= {1, self.steps}:
            raise ArgumentError(
                f"Argument `targets` must have {self.steps} values each, or one for a final loss, but has {lengths}"
            )
        for what, length, arrays in (("targets", max(lengths), self.targets), ("drive", self.steps, self.drive)):
            for name, array in arrays.items():
                if np.shape(array) != (length, self.stimuli):
                    raise ArgumentError(
                        f"Argument `{what}` must have shape ({length}, {self.stimuli}), one column a stimulus, for "
                        f"{name!r}, but has {np.shape(array)}"
                    )

    @property
    def final(self) -> bool:
        """Whether only the last state counts."""
        return self.steps > 1 and next(iter(self.targets.values())).shape[0] == 1

    @property
    def stimuli(self) -> int:
        """Number of stimuli."""
        shape = np.shape(next(iter(self.targets.values())))
        return int(shape[1]) if len(shape) == 2 else 1

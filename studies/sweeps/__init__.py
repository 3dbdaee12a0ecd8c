"""Sweeps over any setting of a design: which bits, noise, quality and nudging strength a circuit needs."""

from typing import TYPE_CHECKING

from devices.lazy import lazy

if TYPE_CHECKING:
    from studies.sweeps.axes import Sweep
    from studies.sweeps.engine import outcomes, run
    from studies.sweeps.store import Store, StoreError

__getattr__ = lazy(
    __name__,
    {
        "studies.sweeps.axes": ("Sweep",),
        "studies.sweeps.engine": ("outcomes", "run"),
        "studies.sweeps.store": ("Store", "StoreError"),
    },
)

__all__ = ["Store", "StoreError", "Sweep", "outcomes", "run"]

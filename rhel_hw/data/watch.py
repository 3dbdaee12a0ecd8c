"""Gestures of the shoulder, recorded by a watch: a real set that comes with a package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from devices import ArgumentError
from rhel_hw.data.series import Series


def watch_gestures() -> Series:
    """Seven shoulder exercises of ten subjects: 140 series of acceleration and rotation of the wrist at 50 Hz.

    Burns et al., arXiv:1802.01489, as the package `seglearn` has it. Only its file is read: the package itself needs
    more than it installs.
    """
    spec = find_spec("seglearn")
    places = [Path(p) / "data" / "watch_dataset.npy" for p in (spec.submodule_search_locations or ())] if spec else []
    file = next((p for p in places if p.is_file()), None)
    if file is None:
        raise ArgumentError(
            "Argument `name` must be a set that is installed, but watch-gestures is not: pip install 'rhel-hw[data]'"
        )
    # The file is pickled, and is trusted as the code of the package is that brings it.
    data = np.load(file, allow_pickle=True).item()
    lengths = np.array([len(series) for series in data["X"]])
    x = np.zeros((len(lengths), lengths.max(), len(data["X_labels"])), np.float32)
    for i, series in enumerate(data["X"]):
        x[i, : lengths[i]] = series
    return Series(
        "watch-gestures",
        x,
        np.asarray(data["y"]),
        tuple(data["y_labels"]),
        tuple(data["X_labels"]),
        lengths,
        np.asarray(data["subject"]),
        "subject",
    )

"""Windows of long recordings, with an output every so many steps."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from devices import ArgumentError, refuse_unless_positive
from rhel_hw.data.npz import arrays_of
from rhel_hw.data.series import Series

NEEDLE = 16
"""Number of samples by which a stretch is looked for."""
LOOKED_AT = 64
"""Number of neighbours that vote on how windows overlap."""


def sliding_windows(
    signal: ArrayLike,
    values: ArrayLike,
    *,
    window: int,
    stride: int,
    every: int,
    rate: float = 125.0,
    first: float = 8.0,
    spacing: float = 2.0,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Windows (count, window, channels) of a signal (steps, channels), and outputs (count, window/every, values).

    Value i of `values` (k,) or (k, m) is due at second `first` + i·`spacing` of the signal, which has `rate` samples a
    second: as they stand, the defaults are those of a heart rate of the seconds 2i to 2i + 8, due when they are over.
    Output o of a window is due after its (o + 1)·`every` steps; between two values it is on the straight line that
    joins them. The first window begins where its first output can be had, the next ones `stride` steps on; samples
    after the last whole window are left out.
    """
    there, known = np.asarray(signal), np.asarray(values)
    _check(there, known, window, stride, every, rate, first, spacing)
    known = known.reshape(len(known), -1)
    due = (first + spacing * np.arange(len(known))) * rate
    begin = max(0, ceil(due[0] - every))
    end = min(len(there), floor(due[-1]))
    if end - begin < window:
        raise ArgumentError(
            f"Argument `window` must be at most the {max(0, end - begin)} steps that have outputs, but is {window}: "
            f"the signal has {len(there)} steps and values from step {due[0]:g} to {due[-1]:g}"
        )
    begins = np.arange(begin, end - window + 1, stride)
    x = np.stack([there[b : b + window] for b in begins]).astype(np.float32)
    at = begins[:, None] + every * np.arange(1, window // every + 1)
    y = np.stack([np.interp(at, due, column) for column in known.T], axis=-1)
    return x, y.astype(np.float32)


def windowed(
    name: str,
    recorded: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    window: int,
    stride: int,
    every: int,
    channels: tuple[str, ...] = (),
    **options: float,
) -> Series:
    """Windows of several recordings, each a signal (steps, channels) and its values, as one set.

    `options` are those of `sliding_windows`.
    """
    if not recorded:
        raise ArgumentError("Argument `recorded` must hold at least one recording, but is empty")
    parts = []
    for key, (signal, values) in recorded.items():
        try:
            parts.append(sliding_windows(signal, values, window=window, stride=stride, every=every, **options))
        except ArgumentError as problem:
            raise ArgumentError(f"{problem} (recording {key})") from None
    widths = {x.shape[2:] + y.shape[2:] for x, y in parts}
    if len(widths) > 1:
        raise ArgumentError("Argument `recorded` must have as many channels and values in all recordings, but has not")
    return Series(
        name,
        np.concatenate([x for x, _ in parts]),
        np.concatenate([y for _, y in parts]),
        channels=channels,
        groups=np.repeat(np.arange(len(parts)), [len(x) for x, _ in parts]),
        group_kind="recording",
        overlap=max(0.0, 1 - stride / window),
    )


def recordings(
    path: str | Path,
    *,
    window: int,
    stride: int,
    every: int,
    channels: Mapping[str, int] | None = None,
    signal: str = "sig_",
    values: str = "bpm_",
    **options: float,
) -> Series:
    """Windows of the recordings of an .npz file, arrays `sig_NAME` (channels, samples) and `bpm_NAME` (k,).

    `channels` are the rows to use, by the names they shall have; None: all. Leave out any row that the values were
    taken from, as heart rates are from an electrocardiogram (row 0 of the TROIKA recordings). `options` are those of
    `sliding_windows`. Groups are recordings in the order of the file: one subject may have made several.
    """
    source = Path(path)
    if not source.is_file():
        raise ArgumentError(f"Argument `path` must be a file, but {source} is not there")
    arrays = arrays_of(source)
    names = [key.removeprefix(signal) for key in arrays if key.startswith(signal)]
    if not names:
        raise ArgumentError(f"Argument `path` must hold recordings {signal}NAME, but {source.name} holds none")
    recorded = {}
    for name in names:
        rows = arrays[signal + name]
        if values + name not in arrays or rows.ndim != 2:
            raise ArgumentError(
                f"Argument `path` must hold {signal}{name} of shape (channels, samples) and {values}{name}, but "
                f"{source.name} does not"
            )
        wanted = list(range(len(rows))) if channels is None else list(channels.values())
        if not wanted or min(wanted) < 0 or max(wanted) >= len(rows):
            raise ArgumentError(
                f"Argument `channels` must be rows from 0 to {len(rows) - 1} of {signal}{name}, but is {wanted}"
            )
        recorded[name] = (rows[wanted].T, arrays[values + name])
    return windowed(
        source.stem,
        recorded,
        channels=tuple(channels or ()),
        window=window,
        stride=stride,
        every=every,
        **options,
    )


def overlap_of(series: Series) -> float:
    """Fraction of its samples that a series shares with the one before it, found by comparing them exactly.

    0 unless the same overlap, of at least a twentieth, is found in more than half of all neighbours.
    """
    x, steps = series.x, series.steps
    least = max(NEEDLE, steps // 20)
    if series.count < 2 or steps <= least or series.lengths.min() < steps:
        return 0.0
    votes = np.zeros(steps, int)
    for before, after in pairwise(x[:LOOKED_AT]):
        channel = int(np.argmax(np.ptp(after, axis=0)))
        votes[lags(before[:, channel], after[:, channel])] += 1
    votes[steps - least + 1 :] = 0
    stride = int(np.argmax(votes))
    if not votes[stride]:
        return 0.0
    same = sum(np.array_equal(b[stride:], a[:-stride]) for b, a in pairwise(x))
    return 1 - stride / steps if 2 * same > series.count - 1 else 0.0


def lags(before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.int64]:
    """By how many steps a signal may run ahead of another: where the first samples that change occur in it, exactly."""
    start = max(0, int(np.argmax(after != after[0])) - 1)
    needle = after[start : start + NEEDLE]
    if len(needle) < NEEDLE or not np.ptp(needle):
        return np.zeros(0, np.int64)
    # Most places are ruled out by the first sample.
    places = np.flatnonzero(before[: len(before) - NEEDLE + 1] == needle[0])
    alike = (sliding_window_view(before, NEEDLE)[places] == needle).all(axis=1)
    found = places[alike].astype(np.int64) - start
    return np.asarray(found[found > 0])


def _check(
    there: NDArray[Any],
    known: NDArray[Any],
    window: int,
    stride: int,
    every: int,
    rate: float,
    first: float,
    spacing: float,
) -> None:
    """Refuse what makes no windows."""
    refuse_unless_positive(window=window, stride=stride, every=every, rate=rate, spacing=spacing)
    for name, value in (("window", window), ("stride", stride), ("every", every)):
        if value != int(value):
            raise ArgumentError(f"Argument `{name}` must be a whole number of steps, but is {value}")
    if window % every:
        raise ArgumentError(
            f"Argument `window` must be a multiple of `every`, {every} steps from output to output, but is {window}"
        )
    if not np.isfinite(first) or first < 0:
        raise ArgumentError(f"Argument `first` must be at least 0 seconds, but is {first}")
    if there.ndim != 2 or not there.size:
        raise ArgumentError(f"Argument `signal` must have shape (steps, channels), but has {there.shape}")
    if known.ndim not in (1, 2) or not known.size:
        raise ArgumentError(f"Argument `values` must have shape (k,) or (k, m), but has {known.shape}")
    for name, array in (("signal", there), ("values", known)):
        if not np.isfinite(array).all():
            raise ArgumentError(f"Argument `{name}` must be finite, but holds NaN or infinity")

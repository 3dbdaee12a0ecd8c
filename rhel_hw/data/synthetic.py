"""Sets that are made up, with a known answer: memory, arithmetic over long spans, and a needle in noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError
from rhel_hw.data.series import Series


def delayed_recall(
    count: int = 1000, steps: int = 200, *, delay: int | None = None, classes: int = 4, seed: int = 0
) -> Series:
    """The task to say which symbol was shown `delay` steps before the last one.

    At every step one of `classes` symbols is shown, drawn independently and uniformly: its channel is 1, the others 0.
    The label is the symbol of step steps − 1 − delay; None: half of the steps. Labels are equally frequent, as far as
    `count` allows, so whoever has not seen that step is right in 1/classes of all cases.
    """
    _refuse_below(count=(count, 1), steps=(steps, 2), classes=(classes, 2))
    back = steps // 2 if delay is None else delay
    _refuse_below(delay=(back, 0))
    if back >= steps:
        raise ArgumentError(f"Argument `delay` must be less than the {steps} steps, but is {back}")
    rng = _generator(seed)
    symbols = rng.integers(0, classes, (count, steps))
    y = _balanced(rng, count, classes)
    symbols[:, steps - 1 - back] = y
    x = (symbols[..., None] == np.arange(classes)).astype(np.float32)
    names = tuple(f"symbol {i}" for i in range(classes))
    return Series("delayed-recall", x, y, names, names)


def adding_problem(count: int = 1000, steps: int = 200, *, seed: int = 0) -> Series:
    """The task to add the two marked values.

    Channel 0 is drawn independently and uniformly from 0 to 1. Channel 1 is 1 at one step of the first half and at one
    of the second, drawn uniformly, else 0. The value to be learnt is the sum of channel 0 at these two steps. Its mean
    is 1 and its variance 2/12: whoever always says 1 has a mean square error of 1/6. (Hochreiter and Schmidhuber 1997)
    """
    _refuse_below(count=(count, 1), steps=(steps, 2))
    rng = _generator(seed)
    x = np.zeros((count, steps, 2), np.float32)
    x[:, :, 0] = rng.random((count, steps), np.float32)
    half, every = steps // 2, np.arange(count)
    marks = rng.integers(0, half, count), rng.integers(half, steps, count)
    for mark in marks:
        x[every, mark, 1] = 1
    y = x[every, marks[0], 0] + x[every, marks[1], 0]
    return Series("adding", x, y, channels=("value", "marker"))


def pulse_detection(
    count: int = 1000,
    steps: int = 1000,
    *,
    noise: float = 0.15,
    classes: int = 2,
    width: int = 32,
    seed: int = 0,
) -> Series:
    """The task to say whether a pulse is hidden in noise, and which.

    One channel of white Gaussian noise of deviation `noise`. Label 0: nothing else. Label k: `width` steps of a sine
    of k half waves and of energy (sum of squares) 1 begin at a step drawn uniformly. Labels are equally frequent, as
    far as `count` allows: chance is 1/classes. With two classes nobody is right more often than Φ(1/(2·noise)), which
    a matched filter reaches where the place is known, that is for steps = width.
    """
    _refuse_below(count=(count, 1), width=(width, 2), classes=(classes, 2), steps=(steps, width))
    if not np.isfinite(noise) or noise < 0:
        raise ArgumentError(f"Argument `noise` must be at least 0, but is {noise}")
    if classes > width + 1:
        raise ArgumentError(
            f"Argument `classes` must be at most {width + 1}, the shapes of {width} steps and none, but is {classes}"
        )
    rng = _generator(seed)
    y = _balanced(rng, count, classes)
    x = noise * rng.standard_normal((count, steps))
    begins = rng.integers(0, steps - width + 1, count)
    shapes = np.concatenate([np.zeros((1, width)), pulses(classes - 1, width)])
    for i, begin in enumerate(begins):
        x[i, begin : begin + width] += shapes[y[i]]
    names = ("none", *(f"{k} half waves" if k > 1 else "1 half wave" for k in range(1, classes)))
    return Series("pulse-detection", x[..., None].astype(np.float32), y, names, ("signal",))


def pulses(count: int, width: int) -> NDArray[np.float64]:
    """Sines of 1, 2… half waves over `width` steps, (count, width), each of energy 1 and orthogonal to the others."""
    k, t = np.arange(1, count + 1)[:, None], np.arange(1, width + 1)
    return np.asarray(np.sqrt(2 / (width + 1)) * np.sin(np.pi * k * t / (width + 1)))


def _balanced(rng: np.random.Generator, count: int, classes: int) -> NDArray[np.int64]:
    """Labels in random order, each as often as any other or once more."""
    return rng.permutation(np.arange(count) % classes)


def _generator(seed: int) -> np.random.Generator:
    _refuse_below(seed=(seed, 0))
    return np.random.default_rng(seed)


def _refuse_below(**values: tuple[int, int]) -> None:
    """Refuse arguments, given by name with the least they may be, that are no whole numbers of at least that."""
    for name, (value, least) in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ArgumentError(f"Argument `{name}` must be a whole number of at least {least}, but is {value!r}")

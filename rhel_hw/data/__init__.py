"""Sets of time series: files, made-up tasks, parts to train and to test on, and what is wrong with some of them."""

from rhel_hw.data.formats import read
from rhel_hw.data.prepare import Scaling, cropped, decimated, with_time
from rhel_hw.data.series import Series
from rhel_hw.data.sets import BUILT_IN, load
from rhel_hw.data.shifted import Shift, shifted_copies, unshifted
from rhel_hw.data.splits import Split, leaks, split
from rhel_hw.data.synthetic import adding_problem, delayed_recall, pulse_detection
from rhel_hw.data.watch import watch_gestures
from rhel_hw.data.windows import recordings, sliding_windows, windowed

__all__ = [
    "BUILT_IN",
    "Scaling",
    "Series",
    "Shift",
    "Split",
    "adding_problem",
    "cropped",
    "decimated",
    "delayed_recall",
    "leaks",
    "load",
    "pulse_detection",
    "read",
    "recordings",
    "shifted_copies",
    "sliding_windows",
    "split",
    "unshifted",
    "watch_gestures",
    "windowed",
    "with_time",
]

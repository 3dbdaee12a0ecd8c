"""The calibration file: what was found on a bench, with uncertainties, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from calibration.calibrated import CalibratedBench
from calibration.corrections import Corrections
from calibration.findings import Finding
from circuits import Netlist
from devices import ArgumentError
from rhel_hw.bench import Bench
from rhel_hw.files import write_text

FORMAT, VERSION = "rhel-hw calibration", 1
LARGEST_FILE = 1 << 28
"""Bytes."""


def digest(netlist: Netlist) -> str:
    """What tells designs apart: all but the sections that do not change the circuit."""
    return sha256(netlist.replace(settings={}).to_toml().encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Calibration:
    """Everything that is kept of a calibration."""

    design: str
    """Name."""
    digest: str
    numbers: tuple[int, ...]
    """Of the chips."""
    seed: int | None
    """That an emulated bench has drawn them from; None of a real one."""
    profile: Mapping[str, Any] | None
    """Of an emulated bench."""
    task: Mapping[str, Any]
    """Whose passes were the pilots for ranges, loss and nudging strength."""
    passes: int
    """That it took on every chip."""
    seconds: float
    """Physical time of those."""
    shots: tuple[Mapping[str, Any], ...]
    """By purpose."""
    results: Mapping[str, Any]
    """What was found, by stage, with standard deviations."""
    findings: tuple[Finding, ...]
    corrections: Corrections
    versions: Mapping[str, str]

    # Use -------------------------------------------------------------------------------------------------------------

    def around(
        self, bench: Bench, netlist: Netlist, *, seed: int | None = None, numbers: Sequence[int] | None = None,
        task: Mapping[str, Any] | None = None,
    ) -> CalibratedBench:  # fmt: skip
        """The bench, put right.

        Arguments:
            bench: the one that was calibrated, or some of its chips.
            netlist: of its design.
            seed: from which an emulated bench has drawn its chips.
            numbers: of its chips; those of the file by default.
            task: that is learnt; for another than the pilots had, the nudging strength must be found anew.
        """
        return CalibratedBench(bench, self.chosen(netlist, seed=seed, numbers=numbers, task=task))

    def chosen(
        self, netlist: Netlist, *, seed: int | None = None, numbers: Sequence[int] | None = None,
        task: Mapping[str, Any] | None = None,
    ) -> Corrections:  # fmt: skip
        """Corrections for some chips of the design, by their numbers."""
        if digest(netlist) != self.digest:
            raise ArgumentError(
                f"Argument `calibration` must be that of {netlist.name!r} as it is, but is that of {self.design!r} as "
                "it was then: calibrate this design"
            )
        if seed is not None and self.seed is not None and seed != self.seed:
            raise ArgumentError(
                f"Argument `calibration` must be of chips drawn from seed {seed}, but its are from seed {self.seed}"
            )
        wanted = self.numbers if numbers is None else tuple(numbers)
        missing = sorted(set(wanted) - set(self.numbers))
        if missing:
            raise ArgumentError(
                f"Argument `calibration` must have chip {missing[0]}, but has {_listed(self.numbers)}: calibrate it, "
                "or leave it out"
            )
        found = self.corrections.chosen([self.numbers.index(n) for n in wanted])
        same = task is None or dict(task) == dict(self.task)
        return found if same else replace(found, strengths=())

    # Files -----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        found["findings"] = [asdict(f) for f in self.findings]
        found["corrections"] = self.corrections.to_dict()
        return {"format": FORMAT, "version": VERSION, **found}

    def save(self, path: str | Path) -> Path:
        """Write it to a JSON file, whole or not at all."""
        return write_text(Path(path), json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @staticmethod
    def load(path: str | Path) -> Calibration:
        """Read it from a file."""
        path = Path(path)
        try:
            if path.stat().st_size > LARGEST_FILE:
                raise ArgumentError(
                    f"Argument `calibration` must be a small file, but {path} is over {LARGEST_FILE} bytes"
                )
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise ArgumentError(f"Argument `calibration` cannot be read: {path}: {problem.strerror}") from None
        except (ValueError, RecursionError) as problem:
            if isinstance(problem, ArgumentError):
                raise
            raise ArgumentError(f"Argument `calibration` must be JSON, but {path} is not: {problem}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ArgumentError(f"Argument `calibration` must be a file of `rhel-hw calibrate`, but {path} is none")
        if data.get("version") != VERSION:
            raise ArgumentError(
                f"Argument `calibration` must be of version {VERSION}, but {path} is of {data.get('version')}: "
                "calibrate again"
            )
        try:
            return Calibration.of(data)
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            raise ArgumentError(f"Argument `calibration` must be whole, but {path} is damaged: {problem}") from None

    def brief(self) -> str:
        """A text with what is needed to put a bench right, for `parsed`."""
        found = replace(self, results={}, shots=(), findings=(), profile=None)
        return json.dumps(found.to_dict(), allow_nan=False)

    @staticmethod
    @lru_cache(maxsize=8)
    def parsed(text: str) -> Calibration:
        """Calibration of such a text."""
        return Calibration.of(json.loads(text))

    @staticmethod
    def of(data: Mapping[str, Any]) -> Calibration:
        """Calibration of plain data."""
        given = {f.name: data[f.name] for f in fields(Calibration)}
        given["numbers"], given["shots"] = tuple(map(int, given["numbers"])), tuple(given["shots"])
        given["findings"] = tuple(Finding(**f) for f in given["findings"])
        given["corrections"] = Corrections.of(given["corrections"])
        found = Calibration(**given)
        if found.corrections.chips != len(found.numbers):
            raise ValueError(f"{len(found.numbers)} chips have corrections for {found.corrections.chips}")
        return found


def _listed(numbers: Sequence[int]) -> str:
    """Numbers of chips for people."""
    if len(numbers) == 1:
        return f"chip {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"chips {numbers[0]} to {numbers[-1]}"
    return f"chips {', '.join(map(str, numbers))}"

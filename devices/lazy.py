"""What is loaded on first use, so that light commands do not pay for it: modules, and folders of TOML files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def lazy(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__` that finds each name in the module given as its home."""

    def find(name: str) -> Any:
        for home, names in homes.items():
            if name in names:
                return getattr(import_module(home), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


class Folder(Mapping[str, T]):
    """What the TOML files of a folder stand for, by their names; each is read when it is first asked for."""

    def __init__(self, folder: Path, read: Callable[[str, str], T]) -> None:
        self._names = cache(lambda: tuple(sorted(path.stem for path in folder.glob("*.toml"))))
        self._load = cache(lambda name: read(name, (folder / f"{name}.toml").read_text(encoding="utf-8")))

    def __getitem__(self, name: str) -> T:
        if name not in self._names():
            raise KeyError(name)
        return self._load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._names()

"""Results of a sweep on disk: a file per chunk while it runs, one Zarr group when it is complete.

A folder has two states, told apart by its root `zarr.json`, which is always replaced whole:

- unfinished: the root is an empty group that says whose sweep this is, and every finished chunk is a file
  `.chunks/000017.chunk`, which begins with the SHA-256 of its content;
- complete: the root lists all arrays, and has the digests of all chunks as an attribute; there are no other files.

Everything is written below `.chunks/*.part`, flushed, and moved into place file by file, the root last. The same
results give the same bytes, so it does not matter who moves a file, how often, or where a process is killed. What a
killed process leaves in `.chunks` goes when the sweep is finished, or when it is taken up again after `STALE_S`.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.util import find_spec
from math import prod
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from time import time
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

from devices import ArgumentError
from rhel_hw.files import refuse_unwritable, write_atomically
from studies.sweeps.layout import OWN, Layout

CHUNKS, ROOT = ".chunks", "zarr.json"
STALE_S = 600.0
"""Nobody takes longer to write: what is older was left by a process that is gone."""

Numbers = NDArray[np.float64]


class StoreError(ArgumentError):
    """A folder or file that cannot be written to the end; what was finished is kept."""


class Store:
    """A folder with the results of one sweep. Copies of it in other processes may write to it at the same time.

    Within, results are a table: a row for every point, with the numbers of all variables one after another.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout, self.folder = path, layout, path / CHUNKS
        self.corrupt: list[int] = []
        """Chunks that were found damaged; they count as missing."""
        ends = np.cumsum([0, *(prod(layout.shape(name)) for name in layout.variables)]).tolist()
        self._columns = {name: slice(*ends[i : i + 2]) for i, name in enumerate(layout.variables)}
        self._width = ends[-1]

    @classmethod
    def open(cls, path: Path | str, layout: Layout) -> Store:
        """Begin in a new or empty folder, or go on in one of the same sweep. Results that are there are verified."""
        store = cls(Path(path), layout)
        with _told("out", store.path), store._unless_complete():
            store._take_up()
        return store

    @property
    def complete(self) -> bool:
        """Whether all results are in place."""
        return "digests" in (self._root() or {})

    def missing(self) -> list[int]:
        """Numbers of chunks that are not there. Those that are there are verified, and removed if damaged."""
        with _told("out", self.path):
            return [] if self.complete else [n for n in self._numbers if self._load(n, clean=True) is None]

    def write(self, number: int, results: Mapping[str, Any]) -> None:
        """Keep the results of a chunk: for every variable an array, whose first axis is the point in the chunk."""
        if number not in self._numbers:
            raise ArgumentError(f"Argument `number` must be one of {len(self._numbers)} chunks, but is {number}")
        if set(results) != set(self._columns):
            raise ArgumentError(f"Argument `results` must have {sorted(self._columns)}, but has {sorted(results)}")
        table = self._blank(len(self.layout.chunks[number]))
        for name, columns in self._columns.items():
            array, shape = np.asarray(results[name]), (len(table), *self.layout.shape(name))
            if array.shape != shape or array.dtype.kind not in "biuf":
                raise ArgumentError(
                    f"Argument `results` must have real numbers of shape {shape} as `{name}` of chunk {number}, "
                    f"but has {array.dtype} of shape {array.shape}"
                )
            # NaN has many bit patterns, of which Zarr keeps one.
            table[:, columns] = np.where(np.isnan(array), np.nan, array).reshape(len(table), -1)
        with _told("out", self.path), self._unless_complete():
            self._keep(number, table)

    def finish(self) -> xr.Dataset:
        """Put all chunks together as one Zarr group, and remove their files. Done already, it does nothing."""
        with _told("out", self.path):
            with self._unless_complete():
                table, found = self._gather()
                if not self.complete:
                    if lacking := len(self._numbers) - len(found):
                        raise ArgumentError(f"A sweep must have all chunks to be finished, but {lacking} are missing")
                    self._publish(self._labelled(table, digests=self._digests(table)))
            self._discard()
        return self.dataset()

    def dataset(self) -> xr.Dataset:
        """What there is so far, NaN elsewhere; the attribute `complete` counts the points that are there."""
        with _told("out", self.path):
            table, found = (self._read(), list(self._numbers)) if self.complete else self._gather()
        return self._labelled(table, complete=sum(len(self.layout.chunks[n]) for n in found))

    def to_netcdf(self, path: Path | str) -> Path:
        """Write what there is so far as one netCDF file; attributes that it has no types for become JSON."""
        path = Path(path)
        refuse_netcdf(path)
        dataset = self.dataset()
        plain = {k: v if type(v) in (str, int, float) else json.dumps(v) for k, v in dataset.attrs.items()}
        # Made in memory first: HDF5 brings the whole process down if a disk is full when it closes a file.
        content = dataset.assign_attrs(plain).to_netcdf(engine="h5netcdf")
        with _told("netcdf", path):
            return write_atomically(path, lambda stream: stream.write(content))

    # Chunks ---------------------------------------------------------------------------------------------------------

    @property
    def _numbers(self) -> range:
        return range(len(self.layout.chunks))

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06}.chunk"

    def _blank(self, rows: int) -> Numbers:
        return np.full((rows, self._width), np.nan, dtype="<f8")

    def _digest(self, number: int, rows: bytes) -> bytes:
        """Of a chunk's results, and of what they are results of."""
        layout = self.layout
        shapes = [(name, layout.shape(name)) for name in layout.variables]
        what = json.dumps([layout.fingerprint, shapes, layout.chunks[number].tolist()])
        return sha256(what.encode() + rows).digest()

    def _digests(self, table: Numbers) -> list[str]:
        return [self._digest(n, table[points].tobytes()).hex() for n, points in enumerate(self.layout.chunks)]

    def _keep(self, number: int, table: Numbers) -> None:
        self._place(self._file(number), self._digest(number, table.tobytes()) + table.tobytes())

    def _load(self, number: int, *, clean: bool = False) -> Numbers | None:
        """Rows of a chunk, if its file is there and as it was written; with `clean` it is removed if it is not."""
        try:
            whole = self._file(number).read_bytes()
        except FileNotFoundError:
            return None
        digest, rows = whole[:32], whole[32:]
        if digest == self._digest(number, rows):
            return np.frombuffer(rows, "<f8").reshape(-1, self._width)
        if clean:
            self._file(number).unlink(missing_ok=True)
            self.corrupt.append(number)
        return None

    def _gather(self) -> tuple[Numbers, list[int]]:
        """The table as far as there are chunks, and which there are."""
        table, found = self._blank(self.layout.points), []
        for number, points in enumerate(self.layout.chunks):
            if (rows := self._load(number)) is not None:
                table[points] = rows
                found.append(number)
        return table, found

    # The folder -----------------------------------------------------------------------------------------------------

    def _root(self) -> dict[str, Any] | None:
        """Attributes of the root: none where it is not a group, nothing where there is no root."""
        try:
            return dict(json.loads((self.path / ROOT).read_bytes())["attributes"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            return {}

    def _take_up(self) -> None:
        """Refuse what is not ours, mend what is damaged, and make sure that it can be written."""
        if self.path.exists() and not self.path.is_dir():
            raise ArgumentError(f"Argument `out` must be a folder, but {self.path} is a file")
        root = self._known()
        if root and "digests" in root:
            table = self._read()
            damaged = [n for n, d in enumerate(self._digests(table)) if [d] != root["digests"][n : n + 1]]
            if not damaged and self._shows(table):
                self._discard()
                return
            self.folder.mkdir(exist_ok=True)
            for number in set(self._numbers) - set(damaged):
                self._keep(number, table[self.layout.chunks[number]])
            self.corrupt += damaged
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in self.folder.glob("*.part"):
            with suppress(FileNotFoundError):
                if time() - part.stat().st_mtime > STALE_S:
                    rmtree(part, ignore_errors=True)
        if root is None or "digests" in root:
            self._publish(xr.Dataset(attrs=self._attrs(complete=0)), new=root is None)
        with _part(self.folder):
            pass  # where nothing can be written, nothing is computed

    def _known(self) -> dict[str, Any] | None:
        """Attributes of the root, nothing in a new folder; one with anything in it but this sweep is refused."""
        refused = f"Argument `out` must be a new folder or one of the same sweep, but {self.path} holds"
        # Looked for before the root is, since other processes that begin the same sweep write theirs after the root.
        others = [p for p in self.path.glob("*") if p != self.folder and not p.match(f"{CHUNKS}*.part")]
        others += [p for p in self.folder.glob("*") if p.suffix != ".part"]
        if (root := self._root()) is None:
            if others:
                raise ArgumentError(f"{refused} something else: {min(others).name}")
        elif not set(OWN) <= {*root, "digests"}:
            raise ArgumentError(f"{refused} another Zarr group, or one whose {ROOT} is damaged")
        elif root["fingerprint"] != self.layout.fingerprint:
            ours = self.layout.attrs
            keys = sorted(k for k in {*ours, *root} - {*OWN} if ours.get(k, ours) != root.get(k, root))
            what = f"{', '.join(keys) or 'the fingerprint'} {'differ' if len(keys) > 1 else 'differs'}"
            raise ArgumentError(
                f"{refused} results of another design or other settings: {what}. Name another folder, or remove this "
                "one"
            )
        return root

    def _place(self, path: Path, content: bytes, *, new: bool = False) -> None:
        """Write a file, whole or not at all; with `new` only if nobody else has written it meanwhile."""
        with _part(self.folder) as part:
            (part / "file").write_bytes(content)
            _flush(part / "file")
            try:
                (os.link if new else os.replace)(part / "file", path)
            except FileExistsError:
                pass
            except OSError:
                os.replace(part / "file", path)  # a disk without links, or a reason that comes again

    @contextmanager
    def _unless_complete(self) -> Iterator[None]:
        """Fail only if no other process has finished the sweep meanwhile."""
        try:
            yield
        except FileNotFoundError:
            if not self.complete:
                raise

    def _discard(self) -> None:
        """Remove the chunks; out of the way first, so that nobody adds to them meanwhile."""
        if self.folder.exists():
            with suppress(FileNotFoundError):
                os.replace(self.folder, mkdtemp(dir=self.path, prefix=CHUNKS, suffix=".part"))
        for part in self.path.glob(f"{CHUNKS}*.part"):
            rmtree(part, ignore_errors=True)

    # The group ------------------------------------------------------------------------------------------------------

    def _attrs(self, **own: Any) -> dict[str, Any]:
        points = self.layout.points
        given = {"fingerprint": self.layout.fingerprint, "points": points, "complete": points}
        return {**self.layout.attrs, **given, **own}

    def _labelled(self, table: Numbers, **own: Any) -> xr.Dataset:
        """The table as named arrays."""
        layout = self.layout
        grid = [layout.sizes[d] for d in layout.dims]
        variables = {
            name: (
                (*layout.dims, *v.extra),
                table[:, self._columns[name]].reshape(*grid, *layout.shape(name)),
                {"units": v.units, "long_name": v.long_name or name},
            )
            for name, v in layout.variables.items()
        }
        coords = {name: (c.dims, c.array, dict(c.attrs)) for name, c in layout.labels.items()}
        return xr.Dataset(variables, coords, self._attrs(**own))

    def _publish(self, dataset: xr.Dataset, *, new: bool = False) -> None:
        """Write a group, uncompressed and with one file for every array, the root last."""
        texts = {"dtype": object}  # those of fixed length are not yet in the specification of Zarr 3
        encoding = {
            name: {"chunks": v.shape, "compressors": None, **(texts if v.dtype.kind == "U" else {})}
            for name, v in dataset.variables.items()
        }
        files: dict[str, Buffer] = {}
        with warnings.catch_warnings():  # nor are lists of all arrays in the root, which readers look for
            warnings.simplefilter("ignore")
            dataset.to_zarr(MemoryStore(files), zarr_format=3, consolidated=True, encoding=encoding)
        root = files.pop(ROOT)
        for name, content in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            self._place(self.path / name, content.to_bytes())
        for folder in {self.path / f for name in files for f in Path(name).parents}:
            _flush(folder)
        self._place(self.path / ROOT, root.to_bytes(), new=new)
        _flush(self.path)

    def _read(self) -> Numbers:
        """The table from the files of the group, NaN where they end early: no damage takes more than it must."""
        table = self._blank(self.layout.points)
        for name, columns in self._columns.items():
            dims = len(self.layout.dims) + len(self.layout.variables[name].extra)
            file, rows = self.path.joinpath(name, "c", *["0"] * dims), table[:, columns].ravel()
            numbers = np.fromfile(file, "<f8", rows.size) if file.is_file() else rows
            rows[: numbers.size] = numbers
            table[:, columns] = rows.reshape(len(table), -1)
        return table

    def _shows(self, table: Numbers) -> bool:
        """Whether readers see this table with its labels, by the list in the root and by that of each array."""
        wanted = self._labelled(table, digests=self._digests(table))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = [xr.open_dataset(self.path, engine="zarr", consolidated=c).load() for c in (True, False)]
            except Exception:  # Zarr raises many kinds for files that are damaged
                return False
        return all(f.drop_vars(set(f.variables) - set(wanted.variables)).identical(wanted) for f in found)


def refuse_netcdf(path: Path) -> None:
    """Refuse a netCDF file that could not be written."""
    if absent := [name for name in ("h5netcdf", "h5py") if find_spec(name) is None]:
        raise ArgumentError(
            f"Argument `netcdf` must be written by h5netcdf and h5py, but {' and '.join(absent)} cannot be found: "
            "pip install 'rhel-hw[netcdf]'"
        )
    refuse_unwritable(path, "netcdf")


@contextmanager
def _told(argument: str, path: Path) -> Iterator[None]:
    """Say what is wrong with a disk, and how to go on."""
    try:
        yield
    except OSError as problem:
        raise StoreError(
            f"Argument `{argument}` must be where results can be written, but {path} cannot be: "
            f"{problem.strerror or problem}. Finished chunks are kept, and the same command goes on from there"
        ) from problem


@contextmanager
def _part(folder: Path) -> Iterator[Path]:
    """A folder to write in before files are moved; it is gone afterwards."""
    with TemporaryDirectory(dir=folder, suffix=".part", ignore_cleanup_errors=True) as part:
        yield Path(part)


def _flush(path: Path) -> None:
    """Make a file or a folder last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

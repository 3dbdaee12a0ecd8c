"""Stores of sweeps: what comes back, what is refused, and what is left after kills, damage and full disks."""

import errno
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from devices import ArgumentError
from studies.sweeps import store as module
from studies.sweeps.layout import Coord, Layout, Variable
from studies.sweeps.store import CHUNKS, Store, StoreError

BITS = "profile.readout.bits"
ATTRS = {"design": '[design]\nname = "a"\n', "versions": {"numpy": "2"}, "axes": [1, 2.5, None, True], "seed": 3}


def scattered(points, chunks):
    """Points in chunks that are no ranges of them."""
    return tuple(np.random.default_rng(0).permutation(points)[i::chunks] for i in range(chunks))


def grid(chunks=5):
    return Layout(
        dims=(BITS, "precision", "seed"),
        coords={
            BITS: Coord((BITS,), [4, 6, 8], {"units": "bit", "long_name": "bits of the readout"}),
            "precision": Coord(("precision",), ["float64", "Q3.12, ü"]),
            "seed": Coord(("seed",), [0, 1]),
            "noise": Coord((BITS,), [0.1, np.inf, 0.3], {"units": "V"}),
        },
        variables={
            "error": Variable((), "1", "relative error"),
            "gradient": Variable(("parameter",), "J"),
            "pair": Variable(("parameter", "side")),
        },
        extra={"parameter": ["L1", "L2.inductance"], "side": ["a", "b", "c"]},
        chunks=scattered(12, chunks),
        attrs=ATTRS,
        fingerprint="abc",
    )


def listed():
    coords = {
        BITS: Coord(("point",), [4, 5, 6, 7, 8, 9, 10]),
        "kind": Coord(("point",), ["a", "b", "c", "d", "e", "f", "g"]),
        "on": Coord(("point",), [True, False, True, False, True, False, True]),
    }
    return Layout(("point",), coords, {"loss": Variable((), "J")}, {}, scattered(7, 3), ATTRS, "def")


def values(layout, name):
    """All values of a variable: made up, with zeros of both signs, infinities and NaN of both signs among them."""
    shape = (layout.points, *layout.shape(name))
    found = np.random.default_rng(len(name)).normal(size=shape)
    found.flat[:4] = (-0.0, np.inf, np.nan, -np.nan)
    return found


def results(layout, number):
    return {name: values(layout, name)[layout.chunks[number]] for name in layout.variables}


def write_all(store):
    for number in store.missing():
        store.write(number, results(store.layout, number))


def compute(path, layout, *, backwards=False, pause_s=0.0):
    """What a command does: all chunks that are missing, then all in one."""
    store = Store.open(path, layout)
    for number in sorted(store.missing(), reverse=backwards):
        store.write(number, results(layout, number))
        time.sleep(pause_s)
    store.finish()
    return store


def tree(path):
    """All files and folders below, with their contents."""
    return {p.relative_to(path).as_posix(): p.read_bytes() if p.is_file() else None for p in path.rglob("*")}


def parts(path):
    return [p for p in path.rglob("*") if ".part" in p.name]


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


# What comes back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [grid(), listed()], ids=["grid", "list"])
def test_readers_of_zarr_see_what_was_written(tmp_path, layout):
    store = compute(tmp_path / "out", layout)
    assert store.complete
    assert store.missing() == store.corrupt == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xr.open_zarr(tmp_path / "out", chunks=None).load()
        again = xr.open_zarr(tmp_path / "out", chunks=None, consolidated=False).load()
    assert again.identical(found)
    sizes = [layout.sizes[d] for d in layout.dims]
    for name, variable in layout.variables.items():
        assert found[name].dims == (*layout.dims, *variable.extra)
        expected = values(layout, name).reshape(*sizes, *layout.shape(name))
        np.testing.assert_array_equal(found[name].values, expected, strict=True)
        np.testing.assert_array_equal(
            np.signbit(found[name].values), np.signbit(np.where(np.isnan(expected), 1, expected))
        )
        assert found[name].attrs == {"units": variable.units, "long_name": variable.long_name or name}
    assert set(found.coords) == {*layout.coords, *layout.extra}
    for name, coord in layout.coords.items():
        assert (found[name].dims, found[name].attrs) == (coord.dims, coord.attrs)
        assert found[name].values.tolist() == list(coord.values)
        kind = json.loads((tmp_path / "out" / name / "zarr.json").read_text())["data_type"]
        assert (kind == "string") == isinstance(coord.values[0], str)  # texts of fixed length are not in Zarr 3
    for name, labels in layout.extra.items():
        assert found[name].values.tolist() == labels
    digests = found.attrs.pop("digests")
    assert len(set(digests)) == len(layout.chunks)
    assert found.attrs == {
        **ATTRS,
        "fingerprint": layout.fingerprint,
        "points": layout.points,
        "complete": layout.points,
    }
    assert store.finish().identical(found)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"zarr.json", *found.variables}


def test_a_list_needs_no_coordinates(tmp_path):
    layout = Layout(("point",), {}, {"loss": Variable()}, {}, (np.array([2, 0]), np.array([1])), {}, "x")
    found = compute(tmp_path, layout).dataset()
    np.testing.assert_array_equal(found["loss"], values(layout, "loss"))


def test_an_unfinished_sweep_shows_what_there_is(tmp_path):
    layout = grid()
    store = Store.open(tmp_path / "a" / "out", layout)
    assert store.missing() == [0, 1, 2, 3, 4]
    assert not store.complete
    store.write(1, results(layout, 1))
    store.write(3, results(layout, 3))
    taken_up = Store.open(tmp_path / "a" / "out", layout)
    assert taken_up.missing() == [0, 2, 4]
    found = taken_up.dataset()
    there = np.concatenate([layout.chunks[1], layout.chunks[3]])
    assert found.attrs["complete"] == there.size < found.attrs["points"]
    gradient = found["gradient"].values.reshape(layout.points, -1)
    np.testing.assert_array_equal(gradient[there], values(layout, "gradient")[there])
    assert np.isnan(np.delete(gradient, there, axis=0)).all()
    with pytest.raises(ArgumentError, match="all chunks to be finished, but 3 are missing"):
        taken_up.finish()
    seen = xr.open_zarr(tmp_path / "a" / "out", chunks=None)  # readers see whose it is, and no numbers
    assert seen.attrs["complete"] == 0
    assert not seen.variables


def test_chunks_are_written_in_any_order_and_again(tmp_path):
    layout = grid()
    compute(tmp_path / "a", layout)
    store = Store.open(tmp_path / "b", layout)
    other = pickle.loads(pickle.dumps(store))
    for number in (4, 2, 2, 0, 1, 3, 3):
        other.write(number, results(layout, number))
    store.finish()
    other.write(2, results(layout, 2))  # by a straggler
    store.finish()
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_results_that_do_not_fit_are_refused(tmp_path):
    layout = grid()
    store, good = Store.open(tmp_path, layout), results(grid(), 0)
    before = tree(tmp_path)
    for bad, match in (
        ({k: v for k, v in good.items() if k != "error"}, "must have .*error.*, but has"),
        ({**good, "more": good["error"]}, "but has .*more"),
        (
            {**good, "error": good["error"][1:]},
            r"of shape \(3,\) as `error` of chunk 0, but has float64 of shape \(2,\)",
        ),
        ({**good, "gradient": good["gradient"].T}, "`gradient`"),
        ({**good, "error": good["error"] * 1j}, "complex128"),
    ):
        with pytest.raises(ArgumentError, match=match):
            store.write(0, bad)
    for number in (-1, 5):
        with pytest.raises(ArgumentError, match=f"one of 5 chunks, but is {number}"):
            store.write(number, good)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"chunks": (np.arange(11),)}, "each of 12 points once"),
        ({"chunks": (np.arange(12), np.array([3]))}, "each of 12 points once"),
        ({"chunks": ()}, "each of 12 points once"),
        ({"chunks": (np.arange(12), np.arange(0))}, "each of 12 points once"),
        ({"dims": (BITS, "precision", "seed", "chip")}, "none along .*chip"),
        ({"variables": {"a b": Variable()}}, "'a b'"),
        ({"variables": {"a/b": Variable()}}, "'a/b'"),
        ({"variables": {".chunks": Variable()}}, "'.chunks'"),
        ({"variables": {"zarr.json": Variable()}}, "'zarr.json'"),
        ({"variables": {"seed": Variable()}}, "different names.*'seed'"),
        ({"variables": {"x": Variable(("mode",))}}, "none along .*mode"),
        ({"extra": {"parameter": [], "side": ["a"]}}, "none along .*parameter"),
        ({"attrs": {"complete": 1}}, "complete"),
        ({"attrs": {"x": np.float32(1)}}, "plain data"),
        ({"attrs": {"x": float("nan")}}, "plain data"),
    ],
)
def test_layouts_that_make_no_sense_are_refused(change, match):
    with pytest.raises(ArgumentError, match=match):
        replace(grid(), **change)


def test_coordinates_that_make_no_sense_are_refused():
    good = grid()
    for bad in (Coord((BITS,), [1, "a", 2]), Coord((BITS,), [1, None, 2])):
        with pytest.raises(ArgumentError, match="numbers or texts"):
            replace(good, coords={**good.coords, "more": bad})
    for bad in (Coord((BITS,), [1, 2]), Coord(("chip",), []), Coord((BITS, "seed"), [1, 2, 3])):
        with pytest.raises(ArgumentError, match="must fit the dimensions, but `more`"):
            replace(good, coords={**good.coords, "more": bad})


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finished", [False, True])
def test_another_sweep_is_refused_and_says_what_differs(tmp_path, finished):
    layout = grid()
    if finished:
        compute(tmp_path, layout)
    else:
        Store.open(tmp_path, layout).write(0, results(layout, 0))
    before = tree(tmp_path)
    other = {**ATTRS, "versions": {"numpy": "3"}, "profile": "bench-8bit"}
    with pytest.raises(
        ArgumentError, match=r"Argument `out` .* other settings: profile, versions differ\. Name another folder"
    ):
        Store.open(tmp_path, replace(layout, attrs=other, fingerprint="abd"))
    with pytest.raises(ArgumentError, match="the fingerprint differs"):
        Store.open(tmp_path, replace(layout, fingerprint="abd"))
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "a.part", ".chunks/000000.chunk", "zarr.json", "a/zarr.json"])
def test_a_folder_with_something_else_is_refused_and_untouched(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"zarr_format": 3, "node_type": "group", "attributes": {"fingerprint": "abc"}}')
    before = tree(tmp_path)
    with pytest.raises(ArgumentError, match=r"but .* holds (something else|another Zarr group)"):
        Store.open(tmp_path, grid())
    assert tree(tmp_path) == before


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ArgumentError, match=r"must be a folder, but .*out is a file"):
        Store.open(tmp_path / "out", grid())
    with pytest.raises(StoreError, match="Not a directory"):
        Store.open(tmp_path / "out" / "more", grid())
    assert (tmp_path / "out").read_text() == "mine"


# Damage -------------------------------------------------------------------------------------------------------------


def truncate(path):
    path.write_bytes(path.read_bytes()[:-9])


def swap(path):
    """A sound file in the wrong place."""
    path.write_bytes(path.with_name("000003.chunk").read_bytes())


@pytest.mark.parametrize(
    "damage", [lambda p: flip(p, -1), lambda p: flip(p, 0), truncate, swap, lambda p: p.write_bytes(b"")]
)
def test_a_damaged_chunk_is_computed_again(tmp_path, damage):
    layout = grid(4)
    compute(tmp_path / "a", layout)
    store = Store.open(tmp_path / "b", layout)
    write_all(store)
    damage(tmp_path / "b" / CHUNKS / "000002.chunk")
    assert store.dataset().attrs["complete"] == 9
    store = Store.open(tmp_path / "b", layout)
    assert store.missing() == store.corrupt == [2]
    assert not (tmp_path / "b" / CHUNKS / "000002.chunk").exists()
    store.write(2, results(layout, 2))
    assert (store.missing(), store.corrupt) == ([], [2])
    store.finish()
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize(
    ("file", "damage", "lost"),
    [
        ("error/c/0/0/0", lambda p: flip(p, 8 * 5), [5]),
        ("pair/c/0/0/0/0/0", lambda p: flip(p, 8 * 6 * 7 + 3), [7]),
        ("error/c/0/0/0", truncate, [10, 11]),
        ("gradient/c/0/0/0/0", Path.unlink, range(12)),
        ("error/zarr.json", lambda p: flip(p, 0), []),
        ("error/zarr.json", Path.unlink, []),
        ("error/zarr.json", lambda p: p.write_text(p.read_text().replace("relative", "absolute")), []),
        (f"{BITS}/c/0", lambda p: flip(p, 0), []),
        ("precision/c/0", truncate, []),
        ("zarr.json", lambda p: p.write_text(p.read_text().replace("relative", "absolute")), []),
        ("zarr.json", lambda p: p.write_text(p.read_text().replace("[design]", "[resign]")), []),
    ],
)
def test_a_damaged_result_is_mended(tmp_path, file, damage, lost):
    layout = grid(6)
    compute(tmp_path, layout)
    good = tree(tmp_path)
    damage(tmp_path / file)
    assert tree(tmp_path) != good
    store = Store.open(tmp_path, layout)
    assert store.corrupt == store.missing() == [n for n, c in enumerate(layout.chunks) if set(c) & set(lost)]
    assert not store.complete
    assert (tmp_path / CHUNKS).exists()
    write_all(store)
    store.finish()
    assert tree(tmp_path) == good


def test_a_sound_result_is_left_alone(tmp_path):
    compute(tmp_path, grid())
    (tmp_path / "notes.txt").write_text("mine")
    shutil.copytree(tmp_path / "error", tmp_path / "my error")
    (tmp_path / CHUNKS / "left.part").mkdir(parents=True)  # by a process killed between the last two moves
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    store = Store.open(tmp_path, grid())
    assert store.complete
    assert store.missing() == store.corrupt == []
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before
    assert not (tmp_path / CHUNKS).exists()


def test_a_root_that_cannot_be_read_is_not_taken_for_a_new_folder(tmp_path):
    compute(tmp_path, grid())
    flip(tmp_path / "zarr.json", 0)
    before = tree(tmp_path)
    with pytest.raises(ArgumentError, match=r"zarr\.json is damaged"):
        Store.open(tmp_path, grid())
    assert tree(tmp_path) == before


# Kills --------------------------------------------------------------------------------------------------------------


def warm():
    """Import now what xarray imports when it is first needed."""
    xr.backends.list_engines()
    xr.Dataset({"a": ("x", [1.0])}, {"x": [2.0]})


@pytest.fixture(scope="module")
def apart():
    """A process of one thread: it can be forked."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=warm) as pool:
        yield lambda *job: pool.submit(*job).result()


def forked(function, *arguments, **options):
    """A process that calls a function, and has status 0 if it succeeds."""
    process = os.fork()
    if process == 0:
        try:
            function(*arguments, **options)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    return process


def ended(process):
    """Whether a process came to its end; False if it was killed."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code == 0


def resume(path, layout):
    """Kills leave nothing that looks damaged."""
    assert compute(path, layout).corrupt == []


def killed_at(event, path, layout):
    """Be killed at the n-th time that anything in the folder is opened, made, moved or removed."""
    left = [event]

    def hook(name, arguments):
        if name in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir") and str(path) in str(arguments[0]):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    compute(path, layout)


def kill_everywhere(folder, start, step):
    layout = grid(3)
    for kills in count():
        path, event = folder / str(kills), start + step * kills
        if ended(forked(killed_at, event, path, layout)):
            return kills
        assert ended(forked(resume, path, layout))
    raise AssertionError


def kill_at_random(folder, kills, seed, workers):
    layout, moments = grid(), random.Random(seed)
    start = time.perf_counter()
    assert ended(forked(compute, folder / "first", layout))
    longest, number, done = time.perf_counter() - start, 0, 0
    while done < kills:
        path = folder / str(number)
        processes = [forked(compute, path, layout, backwards=i % 2 == 1) for i in range(workers)]
        time.sleep(moments.uniform(0, longest))
        for process in processes:
            os.kill(process, signal.SIGKILL)
        killed = [not ended(process) for process in processes]
        done += any(killed)
        number += not all(killed)
    assert ended(forked(resume, folder / str(number), layout))
    return done


def late(wait_s, *arguments, **options):
    time.sleep(wait_s)
    compute(*arguments, **options)


def together(folder, stores, workers):
    """Sweeps of three chunks, by processes that begin within the time that one takes."""
    moments = random.Random(0)
    for number in range(stores):
        path, waits = folder / str(number), [moments.uniform(0, 0.2) for _ in range(workers)]
        processes = [
            forked(late, wait_s, path, grid(3), backwards=i % 2 == 1, pause_s=moments.uniform(0, 0.01))
            for i, wait_s in enumerate(waits)
        ]
        for process in processes:
            assert ended(process)


def same(folder, layout):
    """All stores in a folder are as they are without interruption."""
    compute(folder / "reference", layout)
    good, found = tree(folder / "reference"), [tree(p) for p in folder.iterdir()]
    assert not [name for name in good if name.startswith(".") or ".part" in name]
    return len(found) > 1 and all(f == good for f in found)


@pytest.mark.slow
def test_killed_at_any_step_it_goes_on_to_the_same_bytes(tmp_path, apart):
    assert apart(kill_everywhere, tmp_path, 5, 23) >= 5
    assert same(tmp_path, grid(3))


def test_killed_at_random_moments_it_goes_on_to_the_same_bytes(tmp_path, apart):
    assert apart(kill_at_random, tmp_path, 10, 0, 1) == 10
    assert same(tmp_path, grid())


@pytest.mark.slow
def test_killed_at_every_single_step(tmp_path, apart):
    assert apart(kill_everywhere, tmp_path, 1, 1) >= 100
    assert same(tmp_path, grid(3))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_many_times(tmp_path, apart, workers):
    assert apart(kill_at_random, tmp_path, 50, workers, workers) == 50
    assert same(tmp_path, grid())


def test_processes_write_and_finish_at_once(tmp_path, apart):
    apart(together, tmp_path, 6, 2)
    assert same(tmp_path, grid(3))


@pytest.mark.slow
def test_processes_write_and_finish_at_once_often(tmp_path, apart):
    apart(together, tmp_path, 200, 3)
    assert same(tmp_path, grid(3))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("moment", ["_root", "_known", "_load", "_publish", "_place", "_discard"])
def test_another_process_does_everything_meanwhile(tmp_path, monkeypatch, moment, after):
    layout = grid(3)
    compute(tmp_path / "reference", layout)
    original, begun = getattr(Store, moment), []

    def slow(self, *arguments, **options):
        first = not begun
        begun.append(moment)
        found = original(self, *arguments, **options) if after else None
        if first:
            compute(self.path, layout)
        return found if after else original(self, *arguments, **options)

    monkeypatch.setattr(Store, moment, slow)
    store = Store.open(tmp_path / "out", layout)
    assert store.complete == bool(begun)  # what the other one did is not undone
    write_all(store)
    store.finish()
    assert begun
    assert tree(tmp_path / "out") == tree(tmp_path / "reference")


def test_a_chunk_that_comes_while_others_are_looked_for_is_kept(tmp_path, monkeypatch):
    layout = grid(3)
    store = Store.open(tmp_path, layout)
    original = Path.read_bytes

    def late_by_one(path):
        try:
            return original(path)
        finally:
            if path.suffix == ".chunk":
                Store(tmp_path, layout).write(int(path.stem), results(layout, int(path.stem)))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", late_by_one)
        assert store.missing() == [0, 1, 2]
    assert (store.missing(), store.corrupt) == ([], [])


def test_what_killed_processes_left_goes_when_it_is_old(tmp_path):
    store = Store.open(tmp_path, grid())
    old, young = (tmp_path / CHUNKS / f"{name}.part" for name in ("old", "young"))
    for part in (old, young):
        part.mkdir()
        (part / "chunk").write_text("x")
    os.utime(old, (time.time() - 2 * module.STALE_S,) * 2)
    Store.open(tmp_path, grid())
    assert young.exists()  # it may be somebody's who is at work
    assert not old.exists()
    write_all(store)
    store.finish()
    assert not parts(tmp_path)
    assert not (tmp_path / CHUNKS).exists()


# Disks --------------------------------------------------------------------------------------------------------------


def big():
    """Chunks of 32 kB."""
    chunks = tuple(np.arange(16).reshape(4, 4).T)
    extra = {"parameter": [f"p{i}" for i in range(1024)]}
    return Layout(("point",), {}, {"gradient": Variable(("parameter",))}, extra, chunks, ATTRS, "big")


@pytest.fixture
def disk(tmp_path):
    """A disk of its own, and a function that changes it."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True).returncode

    try:
        if mount("size=128k"):
            pytest.skip("needs the right to mount a disk")
    except FileNotFoundError:
        pytest.skip("there is no command `mount`")
    yield folder, mount
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_keeps_what_was_finished(tmp_path, disk):
    (folder, mount), layout = disk, big()
    compute(tmp_path / "reference", layout)
    store = Store.open(folder / "out", layout)
    with pytest.raises(StoreError, match=r"No space left on device\. Finished chunks are kept, and the same command"):
        write_all(store)
    assert not parts(folder)
    assert mount("remount,size=240k") == 0  # room for all chunks, not for the group beside them
    store = Store.open(folder / "out", layout)
    missing = store.missing()
    assert 1 <= len(missing) <= 3
    assert store.corrupt == []
    write_all(store)
    with pytest.raises(StoreError, match="No space left on device"):
        store.finish()
    assert not parts(folder)
    assert store.missing() == store.corrupt == []
    assert mount("remount,size=2m") == 0
    Store.open(folder / "out", layout).finish()
    assert tree(folder / "out") == tree(tmp_path / "reference")


def test_a_disk_that_cannot_be_written(disk):
    (folder, mount), layout = disk, listed()
    compute(folder / "complete", layout)
    store = Store.open(folder / "unfinished", layout)
    store.write(0, results(layout, 0))
    assert mount("remount,ro") == 0
    for refused in (
        lambda: Store.open(folder / "new", layout),
        lambda: Store.open(folder / "unfinished", layout),
        lambda: store.write(1, results(layout, 1)),
    ):
        with pytest.raises(StoreError, match=r"Argument `out` must be where .* Read-only file system"):
            refused()
    assert store.dataset().attrs["complete"] == 3
    assert Store.open(folder / "complete", layout).dataset().attrs["complete"] == 7


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_fails_is_told_in_plain_words(tmp_path, monkeypatch, number):
    layout = listed()
    store = Store.open(tmp_path / "out", layout)
    store.write(0, results(layout, 0))
    before = tree(tmp_path)

    def failing(_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", failing)
        with pytest.raises(StoreError, match=os.strerror(number)):
            store.write(1, results(layout, 1))
        with pytest.raises(StoreError, match=os.strerror(number)):
            Store.open(tmp_path / "new", layout)
        assert not parts(tmp_path)
        assert tree(tmp_path / "out") == {k[4:]: v for k, v in before.items() if k.startswith("out/")}
    assert compute(tmp_path / "out", layout).complete
    assert compute(tmp_path / "new", layout).complete


# netCDF -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [grid(), listed()], ids=["grid", "list"])
def test_readers_of_netcdf_see_the_same(tmp_path, layout):
    pytest.importorskip("h5netcdf")
    pytest.importorskip("h5py")
    store = compute(tmp_path / "out", layout)
    (tmp_path / "a.nc").write_text("older")
    assert store.to_netcdf(tmp_path / "a.nc") == tmp_path / "a.nc"
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as found:
        wanted = store.dataset()
        assert found.attrs.pop("versions") == '{"numpy": "2"}'
        assert found.attrs.pop("axes") == "[1, 2.5, null, true]"
        del wanted.attrs["versions"], wanted.attrs["axes"]
        assert found.load().identical(wanted)
    assert {p.name for p in tmp_path.iterdir()} == {"out", "a.nc"}
    with pytest.raises(ArgumentError, match="must be a file in a folder"):
        store.to_netcdf(tmp_path / "none" / "a.nc")


def test_netcdf_on_a_full_disk(tmp_path, disk):
    pytest.importorskip("h5netcdf")
    pytest.importorskip("h5py")
    store, (folder, mount) = compute(tmp_path / "out", big()), disk
    (folder / "a.nc").write_text("older")
    assert mount("remount,size=64k") == 0
    with pytest.raises(StoreError, match=r"Argument `netcdf` .* No space left on device"):
        store.to_netcdf(folder / "a.nc")
    assert tree(folder) == {"a.nc": b"older"}


def test_netcdf_needs_its_extra(tmp_path, monkeypatch):
    store = compute(tmp_path / "out", listed())
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "h5netcdf" else name)
    with pytest.raises(ArgumentError, match=r"but h5netcdf cannot be found: pip install 'rhel-hw\[netcdf\]'"):
        store.to_netcdf(tmp_path / "a.nc")
    assert not (tmp_path / "a.nc").exists()

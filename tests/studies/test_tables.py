"""Tables: which cells there are, runs that are kept, rows that are computed from them, and figures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from devices import ArgumentError
from rhel_hw.recipes import SMALL, Recipe
from studies import stack_figures, tables
from studies.tables import Cell

DATA = Path(__file__).parents[3] / "shared" / "data"
TINY = Recipe(hidden=4, state=4, blocks=1, moves=4, evaluate=2, batch=8)


def test_quick_needs_no_files_and_full_says_which():
    quick = tables.cells("classification", "quick", None)
    assert {c.name for c in quick} == {"delayed-recall", "pulse-detection"}
    assert {c.units for c in quick} == {"linear", "nonlinear"}
    with pytest.raises(ArgumentError, match="must be a folder"):
        tables.cells("regression", "full", None)


def test_full_has_every_set_split_in_both_ways():
    if not (DATA / "TROIKA_PPG_HR.npz").exists():
        pytest.skip("there is no folder shared/data beside the repository")
    found = tables.cells("classification", "full", DATA) + tables.cells("regression", "full", DATA)
    assert {(c.name, c.by) for c in found} == {
        ("watch-gestures", "random"), ("watch-gestures", "groups"), ("MotorImagery", "random"),
        ("MotorImagery", "given"), ("TROIKA_PPG_HR", "random"), ("TROIKA_PPG_HR", "groups"),
    }  # fmt: skip
    assert all(len(c.seeds) == 5 for c in found)


def test_paper_takes_what_is_there(tmp_path):
    (tmp_path / "Heartbeat_TRAIN.ts").write_text("")
    found = tables.cells("classification", "paper", tmp_path)
    assert {c.name for c in found} == {"Heartbeat"}
    assert found[0].recipe.rate == 1e-5
    with pytest.raises(ArgumentError, match="PPG-DaLiA"):
        tables.cells("regression", "paper", tmp_path)


def run(scores, cosines=(), **more):
    return {
        "seed": 0,
        "scores": scores,
        "seconds": 1.0,
        "moves": 4,
        "ended": "",
        "cosines": list(cosines),
        "date": "",
        "code": "a",
        **more,
    }


def test_a_row_pairs_runs_by_their_seeds():
    """Means and deviations by hand; a mean distance of pairs is not the distance of means."""
    cell = Cell("adding", "adding", "random", "linear", SMALL["adding"], (0, 1))
    told = {"baselines": {"mean predictor": {"mse_normalised": 1.0}}, "leaks": [], "counts": [], "series": "s"}
    bptt = [run({"loss": x, "rms": 1.0}, **told) for x in (0.1, 0.3)]
    rhel = [run({"loss": x, "rms": 1.0}, (0.9, 1.0)) for x in (0.3, 0.1)]
    row = tables.row(cell, {"bptt": bptt, "rhel": rhel, "moved": bptt})
    assert row["control"] == 0
    assert row["bptt"] == pytest.approx((0.2, 0.02**0.5))
    assert row["apart"] == pytest.approx(0.2)
    assert not row["within_one_deviation"]
    assert "versions of the code" not in "\n".join(tables.lines({"rows": [row]}))
    assert "2 versions of the code" in "\n".join(tables.lines({"rows": [{**row, "codes": ["a", "b"]}]}))
    assert row["cosine_least"] == 0.9
    assert row["baselines"]["mean predictor"] == (1.0, 0.0)


@pytest.mark.slow
def test_runs_are_kept_and_not_made_again(tmp_path, monkeypatch):
    """Two seeds by both methods in processes of their own; then the table from files alone."""
    chosen = [Cell("delayed-recall", "delayed-recall", "random", "linear", TINY, (0, 1))]
    first = tables.run(chosen, tmp_path, workers=1)
    files = sorted((tmp_path / "runs").iterdir())
    assert len(files) == 6
    stamps = [f.stat().st_mtime_ns for f in files]
    files[0].unlink()
    again = tables.run(chosen, tmp_path, workers=1)
    assert [f.stat().st_mtime_ns for f in files[1:]] == stamps[1:]
    (a,), (b,) = first["rows"], again["rows"]
    assert a["values"] == b["values"]  # what was made again came out the same
    assert a["cosine_least"] > 0.999
    text = "\n".join(tables.lines(first))
    assert "| delayed-recall | random | linear |" in text
    assert "logistic, flat series" in text
    picture = stack_figures.save_table(first, tmp_path, "table")
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert replace(chosen[0], seeds=(5,)).key == chosen[0].key
    assert replace(chosen[0], recipe=replace(TINY, rate=1.0)).key != chosen[0].key
    assert json.loads(files[1].read_text())["seed"] in (0, 1)

"""Benchmarks: both sides of each compute the same, errors are equal where they shall be, and memory is what it is."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest

from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw.cli.benchmarks import RUNS
from rhel_hw.kernels import compiler as compilers
from studies.benchmarks import forward, gradient, graph, kernel, machine, rivals, startup, sweep
from studies.sweeps import Sweep

FORWARD = forward.Row("linear ladder", 6, 256, 10, True, 2.0, 1.0, 2.0, 1e-6)
RIVAL = rivals.Row("SciPy", "ladder of 50", 1e-3, "Yoshida6", 10, 9e-4, 1e-3, "DOP853", 9e-4, 3e-2, 30.0)
GRADIENT = gradient.Row("ladder of 16", 16, 4, 100, "final", 1e-3, None, 4.0, 5.0, 0.8, 7000, 9000, 3200)
GRAPH = graph.Row("ladder", 10, 19, 4, 100, 0.5, 6.6, 0.1)


@pytest.fixture
def compiler():
    """The kernel, or a visible skip."""
    if compilers.compiler() is None:
        pytest.skip(kernel.MISSING)
    return kernel.built(forward.FEATURES)


# C by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [forward.units, forward.chain])
@pytest.mark.parametrize(
    "size", [forward.Size(3, 1, 60), forward.Size(2, 300, 20), forward.Size(5, 4, 60)], ids=["lane", "tiles", "few"]
)
def test_the_kernel_and_the_library_go_the_same_way(compiler, make, size):
    """Every position of every step, by single precision; 300 lanes are more than the kernel takes at a time."""
    case = make(size)
    (own_end, own), (end, path) = case.own(size.steps, True), case.by_hand(compiler, size.steps, True)
    own, path = (own, path) if make is forward.units else (own[0], path[0])
    scale = np.max(np.abs(path))
    assert scale > 0
    assert np.max(np.abs(np.asarray(own) - path)) < 1e-5 * scale
    np.testing.assert_array_equal(end, path[-1])
    np.testing.assert_array_equal(case.by_hand(compiler, size.steps, False)[0], end)
    assert np.max(np.abs(np.asarray(own_end) - end)) < 1e-5 * scale


def test_the_kernel_knows_momenta_of_a_ladder(compiler):
    case = forward.chain(forward.Size(4, 3, 50))
    (_, own), (_, path) = case.own(50, True), case.by_hand(compiler, 50, True)
    assert np.max(np.abs(np.asarray(own[1]) - path[1])) < 1e-5 * np.max(np.abs(path[1]))


def test_the_kernel_has_the_tanh_of_single_precision(compiler):
    """One step of units at rest gives p = −tanh u."""
    u = np.concatenate([np.linspace(-12, 12, 100_001), np.geomspace(1e-30, 1, 1000)]).astype(np.float32)
    x = np.zeros((1, forward.FEATURES, len(u)), np.float32)
    x[0, 0] = u
    B, (q, p) = np.eye(1, forward.FEATURES, dtype=np.float32), np.zeros((2, 1, len(u)), np.float32)
    one = np.ones(1, np.float32)
    compiler.units({"delta": one, "gain": one, "stiffness": one}, B, x, q, p)
    exact = -np.tanh(u.astype(float))
    assert np.max(np.abs(p[0] - exact) / np.where(exact == 0, 1, np.abs(exact))) < 6e-7  # five ulp


def test_without_a_compiler_there_is_no_other_side(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    row = forward.measure(forward.chain(forward.Size(2, 1, 10)), forward.Size(2, 1, 10), False, 1)
    assert (row.c_ns, row.over_c, row.apart) == (None, None, None)
    assert row.own_ns > 0


def test_a_compiler_that_fails_is_named(monkeypatch):
    monkeypatch.setenv("CC", shutil.which("false"))
    with pytest.raises(ArgumentError, match="`CC` must be a C compiler"):
        kernel.built(forward.FEATURES)


# Rivals at equal error ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    """Six sections, sixteen radians of the fastest."""
    return rivals.chain(16.0, sections=6)


def test_exact_states_are_those_of_the_simulator(small):
    (*_, method) = rivals.own_methods(small)
    assert method.name == "Yoshida6"
    assert small.error(method.solve(400)) < 1e-9  # (ωh)⁶ is 4e-9
    assert small.error(small.start) > 0.1


@pytest.mark.parametrize("rival", ["SciPy", "ngspice", "diffrax"])
def test_errors_are_equal(rival, small, request):
    if rival == "ngspice":
        request.getfixturevalue("ngspice")
    elif rival == "diffrax":
        pytest.importorskip("diffrax", reason=rivals.WITHOUT["diffrax"])
    modes, row = rivals.measure(rival, small, 1e-3, 1)
    assert (modes.own_method, modes.rival_method) == ("Exact", row.rival_method)
    assert modes.own_error < 1e-12  # round-off
    assert 1e-4 < row.rival_error <= 1e-3
    assert rivals.NEAR * 1e-3 < row.own_error <= 1e-3 or row.own_steps < 40  # where whole steps are coarse
    assert row.over_own == row.rival_seconds / row.own_seconds > 0


def test_an_error_that_cannot_be_met_is_refused(small):
    never = rivals.Method("never", lambda setting: small.exact + 1, 1.0, 1.0)
    with pytest.raises(ArgumentError, match="an error that never can meet"):
        never.settled(small, 1e-3)


def test_diffrax_makes_the_same_steps_when_driven():
    pytest.importorskip("diffrax", reason=rivals.WITHOUT["diffrax"])
    row = rivals.driven(1, steps=100, lanes=2)
    assert row.own_error < 1e-12  # round-off


# Gradients, sweeps, graphs, processes ---------------------------------------------------------------------------------


def test_memory_of_echoes_grows_by_no_more_than_the_inputs():
    """A final loss needs nothing of the way; a running one its errors, one number a step where a drive has one."""
    for loss, share in (("final", 0), ("trajectory", 1)):
        short, long = (gradient.measure(gradient.Size(lambda: ladder(3), 2, k), loss, 1) for k in (50, 500))
        inputs = long.input_bytes - short.input_bytes
        assert inputs == 450 * 2 * 8
        assert long.rhel_bytes - short.rhel_bytes <= share * inputs
        assert long.bptt_bytes - short.bptt_bytes > 3 * inputs  # at least a position of every oscillator


def test_layers_are_differentiated_alike():
    """By echoes in single precision, within a thousandth of backpropagation."""
    found = gradient.layer_programs(gradient.Units(3, 4, 60))
    by_echoes, exact = (
        np.concatenate([np.ravel(x) for x in jax.tree.leaves(found[k].run())]) for k in ("rhel", "bptt")
    )
    assert np.linalg.norm(by_echoes - exact) < 1e-3 * np.linalg.norm(exact)
    row = gradient.measure_layer(gradient.Units(3, 4, 60), 1)
    assert row.input_bytes == 60 * 3 * 4 * 4


@pytest.mark.parametrize("points", sweep.POINTS)
def test_sweeps_have_as_many_points_as_they_say(points):
    assert Sweep(sweep.axes(points, 3)).count == points


def test_a_sweep_is_timed():
    (row,) = sweep.measure(10, (1,), 40, 1)
    assert (row.points, row.workers, row.steps) == (10, 1, 40)
    assert row.over_loop == pytest.approx(10 / row.seconds / row.loop_points_per_second)


def test_exponents_are_of_edges_where_they_are_many():
    def row(edges):
        return replace(GRAPH, edges=edges, batch=4, step_us=edges**1.5 if edges >= 250 else 1.0)

    assert graph.exponent([row(e) for e in (10, 100, 250, 1000, 4000)]) == pytest.approx(1.5)
    assert graph.exponent([row(10), row(1000)]) is None


@pytest.mark.parametrize(("topology", "nodes", "edges"), [("ladder", 10, 19), ("grid", 9, 21), ("all-to-all", 5, 15)])
def test_edges_are_inductors(topology, nodes, edges):
    assert graph.measure(topology, nodes, 1).edges == edges


def test_importing_compiles_nothing():
    (row,) = startup.run(commands=("import rhel_hw",), rounds=1)
    assert row.second_seconds is None
    assert row.kept_programs == 0
    assert row.first_seconds > 0


# The command line -----------------------------------------------------------------------------------------------------


def test_the_machine_has_a_name():
    assert machine()["processor"].strip("() ") not in ("", "unknown")


def test_benchmarks_are_listed(call):
    listed = json.loads(call("benchmark", "--json"))["benchmarks"]
    assert listed.keys() == RUNS.keys() >= {"forward", "gradient", "sweep", "graph", "startup"}
    assert all(name in call("benchmark") for name in listed)
    assert "did you mean `startup`" in call("benchmark", "startpu", code=2)


@pytest.mark.parametrize(
    ("name", "found", "shown"),
    [
        ("forward", {forward: [FORWARD], rivals: ([RIVAL], ["no diffrax"])}, ["2.00×", "30.00×", "skipped: no"]),
        ("gradient", {gradient: [GRADIENT]}, ["4.00×", "3.1 KiB"]),
        ("sweep", {sweep: [sweep.Row(10, 1, 1000, 0.1, 100.0, 50.0, 2.0)]}, ["2.0×", "1000 steps"]),
        ("graph", {graph: ([GRAPH], {"ladder": 1.02})}, ["ladder 1.02", "6.60 ns"]),
        ("startup", {startup: [startup.Row("rhel-hw --help", 0.5, None, 0)]}, ["0.50 s"]),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_what_was_measured_is_told(call, monkeypatch, name, found, shown):
    for module, rows in found.items():
        monkeypatch.setattr(module, "run", lambda rows=rows, **_: rows)
    document = json.loads(call("benchmark", name, "--json"))
    assert document["machine"]["jax"]
    first = next(iter(found.values()))
    own = first[0][0] if isinstance(first, tuple) else first[0]
    assert document["rows"][0] == json.loads(json.dumps(own.__dict__))
    printed = call("benchmark", name)
    assert [text for text in shown if text not in printed] == []


# Speed ----------------------------------------------------------------------------------------------------------------


@pytest.mark.speed
def test_a_step_costs_what_its_edges_do():
    """Ten times the edges cost from five to twenty times as much; a loaded machine gets three tries."""
    for _ in range(3):
        few, many = (graph.measure("ladder", nodes, 5).step_us for nodes in (300, 3000))
        if 5 < many / few < 20:
            return
    pytest.fail(f"{many / few}")


@pytest.mark.speed
def test_ngspice_takes_far_longer(ngspice):
    """By a factor of 60 and more, measured at this length; a loaded machine costs some of it."""
    assert min(row.over_own for row in rivals.measure("ngspice", rivals.chain(100.0), 1e-3, 5)) > 10

"""Averaging under thermal noise, at 32 steps of the linear circuit: what is derived, and what a bench measures."""

import json
import sys

import numpy as np
import pytest

from rhel_hw.cli import main
from rhel_hw.dissipation import BOLTZMANN
from studies import noisy, thermal

STEPS, SHOTS, HOT_K = 32, 2048, 16.0


@pytest.fixture(scope="module")
def rig():
    return noisy.rig("linear", STEPS)


@pytest.fixture(scope="module")
def theory(rig):
    return rig.per_kelvin()


@pytest.fixture(scope="module")
def still(rig):
    """What echoes measure without noise."""
    return rig.echoes(0.0, "common", "hold", 1)[0]


def along(shots, direction):
    """Mean component of shots, in units of `direction`, and its standard error."""
    parts = shots @ direction / (direction @ direction)
    return parts.mean(), parts.std(ddof=1) / len(parts) ** 0.5


def by_covariances(rig):
    """Noiseless and thermal part (per kelvin) of the gradient by relative change, in SI.

    From the values of the netlist alone: matrices of one step, the covariance carried along, central differences.
    """
    parts = {e.name: e.numbers for e in rig.design.netlist.elements}
    nodes = [f"n{i}" for i in range(noisy.NODES)]
    mass = np.array([parts[f"C{i}"].capacitance for i in range(noisy.NODES)])
    losses = [e for e in rig.made.netlist.elements if e.name.startswith("loss/")]
    conductance = np.array([1 / e.numbers.resistance for e in losses])
    step, drive = rig.design.step_s, rig.lesson.drive["u0"][:, 0]
    wanted = rig.lesson.targets[rig.design.netlist.targets[0].name][:, 0]
    entries = [e for e in rig.design.assembly.entries if e.trainable]
    n, last = len(nodes), len(nodes) - 1
    decay = np.exp(-step / 2 * conductance / mass)
    half = np.diag(np.concatenate([np.ones(n), decay]))
    shake = np.diag(np.concatenate([np.zeros(n), BOLTZMANN * mass * (1 - decay**2)]))

    def losses_of(scales):
        stiffness = np.zeros((n, n))
        for entry, scale in zip(entries, scales, strict=True):
            name = entry.name.split(".")[0]
            a = np.zeros(n)
            places = [int(c) for c in name[1:]]
            a[places] = (1, -1)[: len(places)]
            stiffness += np.outer(a, a) / (parts[name].inductance * scale)
        drift = np.block([[np.eye(n), np.diag(step / 2 / mass)], [np.zeros((n, n)), np.eye(n)]])
        kick = np.block([[np.eye(n), np.zeros((n, n))], [-step * stiffness, np.eye(n)]])
        state, spread = np.zeros(2 * n), np.zeros((2 * n, 2 * n))
        cold = warm = 0.0
        for u, y in zip(drive, wanted, strict=True):
            pushed = kick @ drift @ half @ state
            pushed[n] += step * u
            state = half @ drift @ pushed
            spread = half @ spread @ half + shake
            middle = drift @ kick @ drift
            spread = half @ middle @ spread @ middle.T @ half + shake
            cold += (state[last] - y) ** 2 / (2 * STEPS)
            warm += spread[last, last] / (2 * STEPS)
        return np.array([cold, warm])

    moves = 1e-4 * np.eye(len(entries))
    return np.array([(losses_of(1 + m) - losses_of(1 - m)) / 2e-4 for m in moves]).T


@pytest.mark.slow
def test_target_is_the_gradient_of_the_expected_loss(rig, theory):
    cold, warm = by_covariances(rig)
    unit = np.linalg.norm(cold) / np.linalg.norm(theory["noiseless"])  # of the loss
    # Second-order differences over 1e-4 of each inductance, and of the noise over 1e-3.
    np.testing.assert_allclose(theory["noiseless"] * unit, cold, atol=1e-6 * np.abs(cold).max())
    np.testing.assert_allclose(theory["of"] * unit, warm, atol=1e-5 * np.abs(warm).max())
    found = rig.expected(HOT_K, 4096)
    value, error = along(found - theory["noiseless"], HOT_K * theory["of"])
    assert abs(value - 1) < 4 * error < 0.2


def test_which_terms_survive_in_a_linear_circuit(theory):
    size = np.linalg.norm(theory["of"])
    # A run loses ωT/Q = 5e-4 of itself; the rest is round-off of second differences.
    assert np.linalg.norm(theory["replayed"] - theory["of"]) < 1e-3 * size
    for alone in ("held", "recorded", "echo"):  # so that crossed nudges are unbiased
        assert np.linalg.norm(theory[alone]) < 1e-5 * size
    assert np.linalg.norm(theory["pass"]) > 0.1 * size
    assert np.linalg.norm(theory["pass"] - theory["of"]) > 0.5 * size


@pytest.mark.slow
def test_bench_measures_what_is_derived(rig, theory, still):
    """In units of the thermal gradient: replayed 1, crossed 0, hold in between."""
    hold = theory["pass"] + theory["echo"]
    for way, mean in zip(thermal.WAYS, (hold, theory["replayed"], 0 * hold), strict=True):
        shots = rig.echoes(HOT_K, *way, SHOTS) - still
        predicted = mean @ theory["of"] / (theory["of"] @ theory["of"])
        value, error = along(shots, HOT_K * theory["of"])
        assert abs(value - predicted) < 4 * error < 0.4, way
        if way == ("common", "hold"):  # biased: less than the target that it is often taken for
            assert value + 4 * error < 0.6
    # All of the gradient, not only a component of it: norm of the deviation against its standard error.
    shots = rig.echoes(HOT_K, "replayed", "hold", SHOTS) - still - HOT_K * theory["of"]
    assert np.linalg.norm(shots.mean(axis=0)) < 4 * np.sqrt(np.sum(shots.var(axis=0)) / SHOTS)


@pytest.mark.slow
def test_bias_is_proportional_to_temperature(rig, theory, still):
    """Of replayed noise to the noiseless gradient, over a factor of 16."""
    values = [along(rig.echoes(t, "replayed", "hold", SHOTS) - still, theory["of"]) for t in (2.0, 32.0)]
    (low, low_error), (high, high_error) = values
    slope = np.log(high / low) / np.log(16)
    assert low > 4 * low_error
    assert high > 4 * high_error
    assert abs(slope - 1) < 4 * np.hypot(low_error / low, high_error / high) / np.log(16) < 0.15


@pytest.mark.slow
def test_noise_falls_with_shots_and_nudging(rig):
    shots = {k: rig.echoes(HOT_K, k, "hold", 1024) for k in ("independent", "common")}
    weak = rig.echoes(HOT_K, "independent", "hold", 1024, 0.1)
    noise = {k: np.sqrt(np.sum(v.var(axis=0))) for k, v in shots.items()}
    means = shots["independent"].reshape(64, 16, -1).mean(axis=1)
    # 64 means of about four independent components: their spread is known to 7 %.
    assert np.sqrt(np.sum(means.var(axis=0, ddof=1))) * 4 / noise["independent"] == pytest.approx(1, abs=0.25)
    assert np.sqrt(np.sum(weak.var(axis=0))) / noise["independent"] == pytest.approx(10, rel=0.1)
    assert noise["common"] < noise["independent"] / 2


@pytest.mark.slow
def test_nonlinear_circuits_need_replayed_noise():
    rig = noisy.rig("nonlinear", 64)
    theory = rig.per_kelvin()
    size = np.linalg.norm(theory["of"])
    crossed = theory["held"] + theory["recorded"] + theory["echo"]
    assert np.linalg.norm(theory["replayed"] - theory["of"]) < 1e-3 * size
    assert np.linalg.norm(crossed) > 0.05 * size


@pytest.mark.slow
def test_study_runs_and_writes(monkeypatch, capsys, tmp_path):
    small = thermal.Size(16, 512, 512, 512, (4.0, 16.0), (16, STEPS), ())
    for name, value in (("CIRCUITS", ("linear",)), ("STEPS", STEPS), ("QUICK", small)):
        monkeypatch.setattr(thermal, name, value)
    found = _call(monkeypatch, capsys, "study", "thermal", "--quick", "--out", str(tmp_path), "--json")
    document = json.loads(found)
    assert [r["noise"] for r in document["averages"][::3]] == list(thermal.KINDS)
    assert document["shots"] == [1, 16]
    assert "0.28" in document["verdict"]
    assert {f.name for f in tmp_path.iterdir()} == {"thermal.npz", "thermal.png"}
    with np.load(tmp_path / "thermal.npz") as stored:
        saved = dict(stored)
    assert saved["cosines"].shape == (1, 3, 3, 2, 3)
    for row, exponent in zip(document["scans"], saved["long_slopes"].swapaxes(1, 2).ravel(), strict=True):
        assert row["exponent_of_steps"] == (pytest.approx(exponent) if np.isfinite(exponent) else None)
    crossed = next(r for r in document["scans"] if (r["protocol"], r["target"]) == ("crossed", "noiseless"))
    assert crossed["bias_per_kelvin"] < 1e-5
    assert "must be left out" in _call(monkeypatch, capsys, "study", "toy", "--full", code=2)


def _call(monkeypatch, capsys, *arguments, code=0):
    monkeypatch.setattr(sys, "argv", ["rhel-hw", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed, complaint = capsys.readouterr()
    assert (ended.value.code or 0) == code, complaint
    return complaint if code else printed

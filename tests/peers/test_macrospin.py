"""Macrospins against two solvers of the Landau–Lifshitz–Gilbert equation, each in a process of its own.

cmtj (GPL) integrates magnetic layers, Spirit atomistic spins. Both keep m_z whole, so the rotor differs from them as it
does from the equation itself: docs/physics.md, 10.1. The two have gyromagnetic ratios of their own, that of cmtj 0.18 %
low, which the element takes as a parameter: the same as rescaling time.
"""

import json
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from circuits import Initial, Netlist
from devices import Exchange, Macrospin
from rhel_hw import Yoshida4, simulate_design

pytestmark = pytest.mark.peers

MU_0, M, AREA, THICK, EASY = 1.25663706212e-6, 8e5, 5e-15, 5e-9, 0.9
VOLUME, B_HARD = AREA * THICK, MU_0 * M * EASY
CMTJ_GAMMA = 220880 / MU_0
"""Its γμ₀ is 220880 m/(A·s). Its μ₀ is 12.57e-7, so everything is given to it such that it does not need one."""
SPIRIT_GAMMA = 0.1760859644e12

# Logged states are those after the step whose start the log calls their time.
CMTJ = """
import json, sys
from cmtj import AxialDriver, CVector, Junction, Layer, SolverMode, constantDriver
given = json.load(sys.stdin)
none = [CVector(0, 0, 0)] * 3
layers = [
    Layer(f"m{i}", CVector(*m), CVector(0, 0, 1), given["saturation"], given["thickness"], given["area"], none,
          given["damping"])
    for i, m in enumerate(given["start"])
]
stack = Junction(layers)
for i in range(len(layers)):
    stack.setLayerAnisotropyDriver(f"m{i}", constantDriver(given["anisotropy"]))
    stack.setLayerExternalFieldDriver(
        f"m{i}", AxialDriver(constantDriver(given["field"]), constantDriver(0), constantDriver(0)))
if given["exchange"]:
    stack.setIECDriver("m0", "m1", constantDriver(given["exchange"]))
stack.runSimulation(given["time"], given["step"], given["step"], solverMode=SolverMode.RK4)
log = stack.getLog()
print(json.dumps([[log[f"m{i}_m{c}"] for c in "xyz"] for i in range(len(layers))]))
"""

SPIRIT = """
import json, sys
from spirit import constants, hamiltonian, simulation, state, system
from spirit.parameters import llg
given = json.load(sys.stdin)
count = len(given["start"])
with open("ring.cfg", "w") as file:
    file.write(f"output_any 0\\nllg_output_any 0\\nn_basis_cells {count} 1 1\\nmu_s 1.0\\n")
found = []
with state.State("ring.cfg", quiet=True) as p:
    hamiltonian.set_boundary_conditions(p, [True, False, False])
    hamiltonian.set_field(p, given["field"], [1, 0, 0])
    hamiltonian.set_anisotropy(p, -given["hard"] / 2 * constants.mu_B, [0, 0, 1])
    hamiltonian.set_exchange(p, 1, [given["exchange"] * constants.mu_B])
    hamiltonian.set_dmi(p, 0, [])
    hamiltonian.set_ddi(p, 0)
    llg.set_damping(p, 0.0)
    llg.set_temperature(p, 0.0)
    llg.set_convergence(p, 0.0)
    llg.set_timestep(p, given["step"])
    llg.set_iterations(p, 10**8, 10**8)
    system.get_spin_directions(p)[:] = given["start"]
    simulation.start(p, simulation.METHOD_LLG, simulation.SOLVER_RK4, single_shot=True)
    for _ in range(given["samples"]):
        simulation.n_shot(p, given["between"])
        found.append(system.get_spin_directions(p).tolist())
    simulation.stop(p)
with open("ring.json", "w") as file:
    json.dump(found, file)
"""


def run(tool, script, given, folder):
    if find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed: make test-peers")
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_plane(angles):
    return [[float(np.cos(a)), float(np.sin(a)), 0.0] for a in angles]


def cmtj(folder, swings, field, time, *, exchange=0.0, damping=0.0, step=1e-13):
    """Times and components (layers, 3, times) by RK4; its default solver is 0.75 % off."""
    given = {
        "start": in_plane(swings), "saturation": MU_0 * M, "thickness": THICK, "area": AREA, "damping": damping,
        "anisotropy": -MU_0 * M**2 * EASY / 2, "field": field / MU_0, "exchange": exchange / AREA,
        "time": time, "step": step,
    }  # fmt: skip
    m = np.array(json.loads(run("cmtj", CMTJ, given, folder)))
    return (np.arange(m.shape[-1]) + 1) * step, m


def rotors(swings, times, *, gamma, field, pairs=(), exchange=0.0, **options):
    """Azimuths and tilts (spins, times) of ours, by Yoshida4 in steps of a picosecond's half: off by 1e-6 at most."""
    step = times[0] / max(1, round(times[0] / 5e-13))
    every = round(times[0] / step)
    given = {"demagnetisation": EASY, "field": field, "gyromagnetic_ratio": gamma} | options
    parts = [Macrospin(f"M{i}", f"s{i}", M, VOLUME, **given) for i in range(len(swings))]
    parts += [Exchange(f"J{i}", f"s{a}", f"s{b}", exchange) for i, (a, b) in enumerate(pairs)]
    start = Initial(positions={f"s{i}": float(a) for i, a in enumerate(swings)})
    design = Netlist("peer", parts, initial=start).compile(step=step, steps=every * len(times))
    done = simulate_design(design, integrator=Yoshida4())
    x, p = done.positions_si(), done.momenta_si()
    take = slice(every - 1, None, every)
    spins = range(len(swings))
    return np.array([x[f"s{i}"][take] for i in spins]), np.array(
        [-p[f"s{i}"][take] * gamma / (M * VOLUME) for i in spins]
    )


def frequency(times, signal):
    roots = CubicSpline(times, signal).roots(extrapolate=False)
    return (len(roots) - 1) / (roots[-1] - roots[0]) / 2


@pytest.mark.parametrize("swing", [0.05, 0.3])
def test_macrospin_swings_as_in_cmtj(tmp_path, swing):
    """Frequency off by c·m_z², c = 1/8 − 3B/(16(B + μ₀M_eff)), and the trajectory by the phase of that."""
    field, time = 20e-3, 2e-9
    times, m = cmtj(tmp_path, [swing], field, time)
    chosen = slice(4, None, 5)  # of every half picosecond
    top = np.max(np.abs(m[0, 2]))
    c = 1 / 8 - 3 * field / (16 * (field + B_HARD))
    x, z = rotors([swing], times[chosen], gamma=CMTJ_GAMMA, field=field)
    ratio = frequency(times[chosen], x[0]) / frequency(times, m[0, 1])
    assert ratio - 1 == pytest.approx(c * top**2, rel=0.05, abs=2e-7)  # RK4 and splines
    phase = 2 * np.pi * frequency(times, m[0, 1]) * time * c * top**2
    np.testing.assert_allclose(x[0], np.arctan2(m[0, 1], m[0, 0])[chosen], atol=swing * (1.2 * phase + 1e-4))
    np.testing.assert_allclose(z[0], m[0, 2][chosen], atol=top * (1.2 * phase + 0.3 * top**2 + 1e-4))
    bare, _ = rotors([swing], times[chosen], gamma=CMTJ_GAMMA, field=field, renormalisation=0.0)
    slow = frequency(times[chosen], bare[0]) / frequency(times, m[0, 1]) - 1
    assert slow == pytest.approx((1 + field / B_HARD) ** -0.5 - 1 + c * top**2, abs=1e-4)


def test_exchange_pair_swings_as_in_cmtj(tmp_path):
    """4 ns with interlayer coupling, up to m_z = 0.018: half a per cent of the swing; bare loses the phase.

    cmtj holds the other layer still within a step, which is an error of first order, 6.6 % of the swing at 0.1 ps. Two
    steps extrapolated leave 0.14 %.
    """
    field, J, swings = 10e-3, 2e4 * VOLUME, [0.1, 0.0]
    found = []
    for step, every in ((1e-13, 10), (5e-14, 20)):
        times, m = cmtj(tmp_path, swings, field, 4e-9, exchange=J, step=step)
        found.append(np.arctan2(m[:, 1], m[:, 0])[:, every - 1 :: every])
        times = times[every - 1 :: every]
    azimuth = 2 * found[1] - found[0]
    options = {"gamma": CMTJ_GAMMA, "field": field, "pairs": [(0, 1)], "exchange": J}
    bare, renormalised = (
        np.max(np.abs(rotors(swings, times, **options, renormalisation=r)[0] - azimuth)) / 0.1 for r in (0.0, 1.0)
    )
    assert renormalised < 0.007
    assert bare > 1


def test_damping_is_that_of_cmtj_up_to_the_field(tmp_path):
    """α·γ·(μ₀M_eff + B)/2 against α·γ·(μ₀M_eff + 2B)/2."""
    field, alpha = 10e-3, 8e-3
    times, m = cmtj(tmp_path, [0.02], field, 3e-9, damping=alpha)
    chosen = slice(4, None, 5)
    x, _ = rotors([0.02], times[chosen], gamma=CMTJ_GAMMA, field=field, damping=alpha)
    rates = []
    for t, signal in ((times, m[0, 1]), (times[chosen], x[0])):
        spline = CubicSpline(t, signal)
        peaks = spline.derivative().roots(extrapolate=False)
        rates.append(-np.polyfit(peaks, np.log(np.abs(spline(peaks))), 1)[0])
    assert rates[0] == pytest.approx(alpha * CMTJ_GAMMA * (B_HARD + 2 * field) / 2, rel=2e-4)
    assert rates[1] / rates[0] == pytest.approx((B_HARD + field) / (B_HARD + 2 * field), rel=3e-4)


def test_ring_of_four_swings_as_in_spirit(tmp_path):
    """A closed chain with exchange, 2 ns: tilts up to 0.024, so phases of up to 90 rad are off by some 7e-5 of that."""
    field, J, swings = 20e-3, 4e-19, [0.1, 0.0, -0.05, 0.0]
    step, between, samples = 0.05, 20, 2000
    given = {
        "start": in_plane(swings), "field": field, "hard": B_HARD, "exchange": J / (M * VOLUME),
        "step": step, "between": between, "samples": samples,
    }  # fmt: skip
    run("spirit", SPIRIT, given, tmp_path)
    m = np.moveaxis(np.array(json.loads((tmp_path / "ring.json").read_text())), 0, -1)
    times = (np.arange(samples) + 1) * between * step * 1e-12
    options = {"gamma": SPIRIT_GAMMA, "field": field, "pairs": [(0, 1), (1, 2), (2, 3), (3, 0)], "exchange": J}
    x, z = rotors(swings, times, **options)
    azimuth, top = np.arctan2(m[:, 1], m[:, 0]), np.max(np.abs(m[:, 2]))
    assert top == pytest.approx(0.0242, rel=0.01)
    np.testing.assert_allclose(x, azimuth, atol=0.005 * 0.1)
    np.testing.assert_allclose(z, m[:, 2], atol=0.005 * top)
    bare, _ = rotors(swings, times, **options, renormalisation=0.0)
    assert np.max(np.abs(bare - azimuth)) > 0.3 * 0.1

"""A coupled-resonator filter in the time domain against its scattering matrix by sax, in a process of its own.

sax knows no modes: it composes couplers and lengths of waveguide. A coupler of small power coupling κ² at a loop with
a round-trip time t opens a mode at the rate κ²/t, or joins two loops at the amplitude rate κ/t.
"""

import json
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from circuits import Netlist
from devices import CoherentDrive, EvanescentCoupler, Ring
from devices.photonic import HBAR, drive_rate
from rhel_hw import simulate_design

pytestmark = pytest.mark.peers

SCRIPT = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import sax
given = json.load(sys.stdin)
guide = {"component": "straight", "settings": given["guide"]}
circuit, _ = sax.circuit(
    netlist={
        "instances": {
            "A": {"component": "coupler_ideal", "settings": {"coupling": given["bus"]}},
            "M": {"component": "coupler_ideal", "settings": {"coupling": given["middle"]}},
            "B": {"component": "coupler_ideal", "settings": {"coupling": given["bus"]}},
            "w1": guide, "w2": guide, "w3": guide, "w4": guide,
        },
        "connections": {
            "A,out1": "w1,in0", "w1,out0": "M,in0", "M,out0": "w2,in0", "w2,out0": "A,in1",
            "M,out1": "w3,in0", "w3,out0": "B,in1", "B,out1": "w4,in0", "w4,out0": "M,in1",
        },
        "ports": {"input": "A,in0", "through": "A,out0", "add": "B,in0", "drop": "B,out0"},
    },
    models={"straight": sax.models.straight, "coupler_ideal": sax.models.coupler_ideal},
)
S = sax.sdict(circuit(wl=np.array(given["wavelengths"])))
print(json.dumps({k: np.abs(S["input", k]).tolist() for k in ("drop", "through")}))
"""

SPEED = 299792458.0
INDEX, GROUP, WAVELENGTH = 2.4, 4.2, 1.55e-6
LENGTH = 620 * WAVELENGTH / INDEX
"""Of a loop: a whole number of wavelengths, so that it resonates at the carrier."""
BUS, MIDDLE, LOSS_DB_CM = 0.004, 1.2e-5, 0.05
"""Power coupling of the couplers, and loss of the loops."""


def test_add_drop_filter_equals_sax():
    if find_spec("sax") is None:
        pytest.skip("sax is not installed: make test-peers")
    carrier, round_trips = SPEED / WAVELENGTH, SPEED / (GROUP * LENGTH)
    external, hop = BUS * round_trips, MIDDLE**0.5 * round_trips
    intrinsic = (1 - 10 ** (-LOSS_DB_CM * LENGTH * 100 / 10)) * round_trips
    detuning = np.linspace(-4, 4, 41) * external / (2 * np.pi)

    quality = {"external_q": 2 * np.pi * carrier / external, "intrinsic_q": 2 * np.pi * carrier / intrinsic}
    parts = [Ring(f"R{n}", n, 0.0, carrier, **quality) for n in "ab"]
    parts.append(EvanescentCoupler("J", "a", "b", hop / (2 * np.pi)))
    netlist = Netlist("filter", parts, drives=[CoherentDrive("u", "a")])
    steps, step = 1000, 0.02 / external  # e^(−κt/2) is 5e-5 at the end, step·ω at most 0.1
    design = netlist.compile(step=step, steps=steps)
    entry = design.parameters.entries["Ra.detuning"]
    theta = design.theta() | {entry.key: np.tile(detuning / entry.scale, (2, 1))}
    power = 1e-3
    drive = drive_rate(power, carrier, quality["external_q"])
    run = simulate_design(design, {"u": np.full(steps, drive)}, theta=theta)
    x, m = run.positions_si(), run.momenta_si()
    a, b = ((x[n][-1] + 1j * m[n][-1] / HBAR) / np.sqrt(2) for n in "ab")
    light = np.sqrt(power / (HBAR * 2 * np.pi * carrier))
    found = {"drop": np.sqrt(external) * b / light, "through": 1 - np.sqrt(external) * a / light}

    given = {
        "bus": BUS,
        "middle": MIDDLE,
        "guide": {
            "wl0": WAVELENGTH * 1e6,
            "neff": INDEX,
            "ng": GROUP,
            "length": LENGTH * 1e6 / 2,
            "loss_dB_cm": LOSS_DB_CM,
        },
        # Rings detuned by +Δ from the light are as light detuned by −Δ from the rings.
        "wavelengths": (1e6 * SPEED / (carrier - detuning)).tolist(),
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = {k: np.square(v) for k, v in json.loads(done.stdout).items()}
    peak = expected["drop"].max()
    assert peak > 0.7
    assert expected["drop"][[0, -1]].max() < 0.05 * peak
    # A coupler of 0.4 % is a rate only to 0.2 %; the rest is the step.
    np.testing.assert_allclose(np.abs(found["drop"]) ** 2, expected["drop"], atol=0.01 * peak)
    np.testing.assert_allclose(np.abs(found["through"]) ** 2, expected["through"], atol=0.01)

"""Normal modes against qucat, in a process of its own."""

import json
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from circuits.generators import ladder, ring

pytestmark = pytest.mark.peers

SCRIPT = """
import json, sys
from qucat import C, L, Network
parts = [dict(C=C, L=L)[kind](a, b, value) for kind, a, b, value in json.load(sys.stdin)]
print(json.dumps(list(map(float, Network(parts).eigenfrequencies()))))
"""


@pytest.mark.parametrize(
    "netlist",
    [ladder(4, spread=0.3, coupling_capacitance="0.2 pF"), ring(5, spread=0.3, seed=2)],
    ids=["ladder", "ring"],
)
def test_modes_equal_qucat(netlist):
    if find_spec("qucat") is None:
        pytest.skip("qucat is not installed: make test-peers")
    letters = {"capacitor": "C", "inductor": "L"}
    parts = [
        (letters[e.type], e.a, e.b, e.capacitance if e.type == "capacitor" else e.inductance) for e in netlist.elements
    ]
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=json.dumps(parts), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # qucat finds the roots of a determinant polynomial, which loses digits as modes crowd.
    np.testing.assert_allclose(netlist.compile().frequencies_hz, sorted(json.loads(done.stdout)), rtol=1e-7)

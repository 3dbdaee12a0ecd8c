"""Photonic exports: sax evaluates netlists, scikit-rf reads responses, gdstk reads layouts."""

import json
import math
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from circuits.formats import sax_yaml, touchstone
from circuits.formats.photonic_layout import lay_out
from circuits.formats.waveguide import Waveguide
from devices import EvanescentCoupler, Ring
from tests.circuits.electrical import assert_same_hamiltonian
from tests.circuits.photonic_designs import by_hand

# sax ----------------------------------------------------------------------------------------------------------------

SCRIPT = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import sax, yaml
given = json.load(sys.stdin)
netlist = yaml.safe_load(given["yaml"])
circuit, _ = sax.circuit(
    netlist=netlist, models={"straight": sax.models.straight, "coupler_ideal": sax.models.coupler_ideal}
)
first, *_, last = netlist["ports"]
S = sax.sdict(circuit(wl=299792458e6 / np.array(given["frequencies"])))[first, last]
print(json.dumps([S.real.tolist(), S.imag.tolist()]))
"""


def by_sax(text, frequencies):
    if find_spec("sax") is None:
        pytest.skip("sax is not installed: make test-peers")
    given = json.dumps({"yaml": text, "frequencies": frequencies.tolist()})
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    real, imaginary = json.loads(done.stdout)
    return np.array(real) + 1j * np.array(imaginary)


def _near_modes(net):
    """Frequencies about all modes."""
    at, width = touchstone.response(net).resonances
    return np.unique(np.concatenate([a + w * np.linspace(-3, 3, 21) for a, w in zip(at, width, strict=True)]))


def check_sax(net, files, folder):
    """sax's schema, ports that are joined once, a passive transmission, and the circuit back with its Hamiltonian."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
    text = files["netlist.yml"].decode()
    data = yaml.safe_load(text)
    assert {"instances", "connections", "ports"} <= set(data)
    ends = {"straight": ("in0", "out0"), "coupler_ideal": ("in0", "in1", "out0", "out1")}
    known = {f"{name},{end}" for name, item in data["instances"].items() for end in ends[item["component"]]}
    joined = [*data["connections"], *data["connections"].values(), *data["ports"].values()]
    assert len(joined) == len(set(joined))
    assert set(joined) <= known
    light = np.abs(by_hand(data, _near_modes(net))) ** 2
    assert 0.01 < light.max() <= 1
    read = sax_yaml.read(text)
    assert read == net
    assert_same_hamiltonian(net, read)


def check_by_sax(net, files, folder):
    """sax computes the transmission that the netlist means."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
    text, frequencies = files["netlist.yml"].decode(), _near_modes(net)
    wanted = np.abs(by_hand(yaml.safe_load(text), frequencies))
    np.testing.assert_allclose(np.abs(by_sax(text, frequencies)), wanted, atol=1e-6)


# Touchstone ---------------------------------------------------------------------------------------------------------


def check_touchstone(net, files, folder):
    """scikit-rf reads the response of the design; it is passive."""
    if find_spec("skrf") is None:
        pytest.skip("scikit-rf is not installed: pip install 'rhel-hw[dev]'")
    import skrf

    ((name, data),) = files.items()
    (folder / name).write_bytes(data)
    read, found = skrf.Network(str(folder / name)), touchstone.response(net)
    assert read.nports == len(found.ports)
    np.testing.assert_array_equal(read.s, found.scattering(read.f).conj())
    assert np.all(np.linalg.svd(read.s, compute_uv=False) <= 1 + 1e-12)


# GDS ----------------------------------------------------------------------------------------------------------------


def check_gds(net, files, folder):
    """gdstk reads every ring and bus where the layout has it, of its size, and nothing overlaps."""
    if find_spec("gdstk") is None:
        pytest.skip("gdstk is not installed: pip install 'rhel-hw[hardware]'")
    import gdstk

    path = folder / "layout.gds"
    path.write_bytes(files["layout.gds"])
    (top,) = gdstk.read_gds(path).top_level()
    layout = lay_out(net, Waveguide())
    rings = [r for r in top.references if r.cell.name.startswith("ring_")]
    buses = [r for r in top.references if r.cell.name.startswith("bus_")]
    assert len(rings) == sum(isinstance(e, Ring) for e in net.elements)
    assert len(buses) == len(layout.buses)
    texts = {label.text: label.origin for label in top.labels}
    assert set(texts) >= {e.name for e in net.elements if isinstance(e, (Ring, EvanescentCoupler))}
    for ring in layout.rings.values():
        (found,) = (r for r in rings if math.dist(r.origin, (ring.x * 1e6, ring.y * 1e6)) < 2e-3)
        (low, high), width = found.bounding_box(), layout.guide.width * 1e6
        for i in (0, 1):
            # A grid of 1 nm and circles of polygons whose sagitta is 1 nm.
            assert high[i] - low[i] == pytest.approx(2 * ring.radius * 1e6 + width, abs=6e-3)
        area = sum(p.area() for p in found.cell.polygons)
        assert area == pytest.approx(2 * math.pi * ring.radius * 1e6 * width, rel=2e-3)
    # Guides are drawn apart: what couples is separated by a gap, and nothing overlaps.
    polygons = [r.get_polygons() for r in (*rings, *buses)]
    for i, one in enumerate(polygons):
        for other in polygons[i + 1 :]:
            assert not gdstk.boolean(one, other, "and")

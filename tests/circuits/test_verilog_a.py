"""Verilog-A: every module is compiled, and what the compiled code computes is the slope of the element's energy."""

import math
import re
from functools import partial

import jax
import pytest

from circuits import DesignError, Netlist
from circuits.formats import verilog_a
from circuits.gallery import GALLERY
from devices import (
    FLUX_QUANTUM,
    Capacitor,
    Inductor,
    JosephsonJunction,
    Mass,
    SaturableInductor,
    Squid,
    SymmetricVaractor,
)
from tests.exports.electrical import openvaf

ELEMENTS = [
    JosephsonJunction("J", "a", "b", 3e-7),
    Squid("S", "a", "b", 1.2e-6, 0.3 * FLUX_QUANTUM, -0.2),
    SaturableInductor("N", "a", "b", 2e-9, 4e-7, -3e-16),
    Inductor("F", "a", "b", 2e-9, 1e-16),
]
SCALES = {
    "josephson": lambda v: FLUX_QUANTUM / (2 * math.pi),
    "squid": lambda v: FLUX_QUANTUM / (2 * math.pi),
    "saturable": lambda v: v["inductance"] * v["saturation_current"],
    "inductor": lambda v: v["inductance"],
}
"""Flux for which the inner node stands at one volt."""


@pytest.fixture
def compiled(tmp_path):
    """Compiler of Verilog-A text: modules by name."""
    return partial(openvaf, folder=tmp_path)


def evaluated(module, given):
    """Static and dynamic parts of what leaves every node, and the static slopes by row and column."""
    residuals, jacobian = module.run_init_eval({"mfactor": 1.0, "I(a,b)": 0.0, **given})
    return residuals, {(row, column): (static, dynamic) for row, column, static, dynamic in jacobian}


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda e: e.type)
def test_the_compiled_current_is_the_slope_of_the_energy(element, compiled):
    """Charge leaves node a at dV/dφ, and the inner node integrates the voltage: scale·d/dt of it is V(a,b)."""
    text = verilog_a.write(Netlist("n", [Capacitor("C", "a", "b", 1e-12), Capacitor("D", "b", "0", 1e-12), element]))
    found = compiled(text)
    assert set(found) == {f"rhel_{element.type}"}
    module = found[f"rhel_{element.type}"]
    scale, values = SCALES[element.type](element.values), element.values
    slope = jax.grad(lambda flux: type(element).potential((flux,), element.numbers))
    curvature = jax.grad(slope)
    (inner,) = [n[2:-1] for n in module.param_names if n.startswith("V(") and n != "V(a,b)"]
    largest = max(abs(float(slope(x * scale))) for x in (-2.1, -0.3, 0.0, 0.7, 1.9))
    for x in (-2.1, -0.3, 0.0, 0.7, 1.9):
        (out, back, inside), jacobian = evaluated(module, {f"V({inner})": x, "V(a,b)": 3e-6, **values})
        assert out[0] == pytest.approx(float(slope(x * scale)), abs=1e-14 * largest, rel=1e-12)
        assert back[0] == -out[0]
        assert inside[0] == pytest.approx(-3e-6, rel=1e-15)
        assert inside[1] == pytest.approx(x * scale, rel=1e-12, abs=1e-40)
        stiffness = float(curvature(x * scale)) * scale
        assert jacobian[0, 2][0] == pytest.approx(stiffness, rel=1e-10, abs=1e-10 * largest)


def test_the_compiled_varactor_holds_its_charge(compiled):
    """At charge q the voltage is dT/dq, and the inner equation balances; what flows is dq/dt."""
    element = SymmetricVaractor("V", "a", 1e-12, 5e-15)
    module = compiled(verilog_a.write(Netlist("n", [element, Inductor("L", "a", "gnd", 1e-9)])))["rhel_varactor"]
    voltage = jax.grad(lambda q: type(element).kinetic((q,), element.numbers))
    for x in (-1.3, -0.2, 0.0, 0.4, 2.0):
        volts = float(voltage(x * 5e-15))
        (out, _, inside), _ = evaluated(module, {"V(load)": x, "V(a,b)": volts, **element.values})
        assert inside[0] == pytest.approx(0, abs=1e-13)
        assert out == (0.0, pytest.approx(x * 5e-15, rel=1e-14))
        (_, _, inside), _ = evaluated(module, {"V(load)": x, "V(a,b)": volts + 1e-3, **element.values})
        assert inside[0] == pytest.approx(-1e-3 * 1e-12 / 5e-15, rel=1e-9)


def test_defaults_and_limits_are_those_of_the_elements(compiled):
    module = compiled('`include "disciplines.vams"\n' + verilog_a.module("squid"))["rhel_squid"]
    assert module.get_param_defaults() == {"critical_current": 1e-7, "flux": 0.0, "asymmetry": 0.0}
    assert "from (-1:1)" in verilog_a.module("squid")
    assert "critical_current = 1e-07 from (0:inf)" in verilog_a.module("josephson")


def test_every_gallery_design_is_written_or_refused_by_name(compiled):
    written = []
    for name in GALLERY:
        net = Netlist.load(name)
        try:
            found = compiled(verilog_a.write(net))
        except DesignError as problem:
            named = {f.element for f in problem.legality.errors}
            assert named <= {"elements", *(e.name for e in net.elements)}
            continue
        written.append(name)
        assert set(found) == {"rhel_josephson"}
    assert written == ["josephson-ladder"]


def test_places_are_listed_and_the_rest_is_refused():
    parts = [
        Capacitor("C1", "a", "gnd", 1e-12),
        JosephsonJunction("J-1", "a", "gnd", 3e-7),
        Inductor("L", "a", "gnd", 1e-9),
    ]
    text = verilog_a.write(Netlist("„n“", parts))
    assert re.search(r"^// NJ-1 a 0 m_J_1\n// \.model m_J_1 rhel_josephson critical_current=3e-07$", text, re.MULTILINE)
    assert text.isascii()
    assert "rhel_inductor" not in text
    with pytest.raises(DesignError, match="elements: all are linear"):
        verilog_a.write(Netlist("n", parts[:1]))
    with pytest.raises(DesignError, match="m1: a mass"):
        verilog_a.write(Netlist("n", [*parts, Mass("m1", "x", 1e-12)]))
    with pytest.raises(DesignError, match="kerr"):
        verilog_a.module("kerr")

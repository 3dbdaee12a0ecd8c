"""What a format cannot express is refused by name, and nothing is written: every registered element, every format."""

import re

import pytest

from circuits import Clock, DesignError
from devices import ELEMENTS, ArgumentError
from studies.export import FORMATS, bundle
from tests.systems import host

BOUGHT = {"capacitor", "inductor", "resistor", "tank", "saturable"}
LINEAR = {"capacitor", "inductor", "mutual", "tank"}
SPICE = BOUGHT | LINEAR | {"josephson", "squid", "varactor"}
RINGS = {"ring", "phase-shifter", "evanescent", "kerr", "kerr-rotation"}
OPTICS = {"cavity", "beam-splitter", "mach-zehnder"}
EXPRESSIBLE = {
    "spice": SPICE,
    "verilog-a": SPICE,
    "kicad": BOUGHT,
    "bom": BOUGHT,
    "schematic": set(ELEMENTS) - {"gyrator"},
    "vectors": {"ring", "phase-shifter", "evanescent", "mass", "spring", "bilinear", "magnon", "field-line", "pillar"}
    | LINEAR
    | OPTICS,
    "josim": LINEAR | {"resistor", "josephson"},
    "wrspice": LINEAR | {"resistor", "josephson"},
    "sax": RINGS,
    "gds": RINGS,
    "touchstone": RINGS | OPTICS | {"kerr-field"},
    "mumax3": {"macrospin", "exchange", "field-line", "magnon", "vortex", "pillar"},
}
"""Types of elements by format; what else there is must be refused."""
EVERYTHING = {"datasheet"}
"""Formats that have words for all."""
FORMS = [form for form in FORMATS if form not in EVERYTHING]
FOREIGN = [(kind, form) for form in FORMS for kind in ELEMENTS if kind not in EXPRESSIBLE[form]]


@pytest.mark.parametrize("case", FOREIGN, ids="-".join)
def test_foreign_elements_are_refused_by_name(case, tmp_path, monkeypatch):
    kind, form = case
    monkeypatch.chdir(tmp_path)
    net = host(ELEMENTS[kind]).replace(clock=Clock(None, 20))
    with pytest.raises((DesignError, ArgumentError)) as caught:
        bundle(net, [form]).save(tmp_path / "out")
    if isinstance(caught.value, DesignError):
        assert "dut" in {f.element for f in caught.value.legality.errors}
        assert all(f.reason and f.remedy for f in caught.value.legality.errors)
    else:
        assert re.search(r"\bdut\b", str(caught.value))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMS)
def test_the_command_line_writes_nothing_of_what_it_refuses(form, call, tmp_path):
    """A gyrator is in no format's words, nor are the capacitors about it in some."""
    (tmp_path / "g.toml").write_text(host(ELEMENTS["gyrator"]).to_toml())
    assert re.match(r"rhel-hw: (dut|m_n1): ", call("export", "g.toml", "--to", form, "--out", "out", code=2))
    assert [path.name for path in tmp_path.iterdir()] == ["g.toml"]

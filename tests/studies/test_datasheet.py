"""Data sheets say what the design, its budget and its costs say; they are whole on paper, and fetch nothing."""

import re
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import numpy as np
import pytest

from circuits import Clock, Netlist
from circuits.gallery import GALLERY
from circuits.generators import ladder
from devices import Capacitor, CoherentDrive, Constant, CurrentDrive, Inductor, Ring
from rhel_hw import Profile, settings
from studies import datasheet
from studies.cost import gradient_cost
from studies.datasheet import _Sheet, write
from studies.handed import Handed
from studies.report import Paragraph, Table
from studies.sweeps.budget import echo_axes, usual_axes
from studies.sweeps.limits import Requirement


class Reader(HTMLParser):
    """Tables by section, and whatever else is text."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.sections, self.text, self._inside = {}, [], "", None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._inside = tag if tag in ("h2", "td", "th") else self._inside
        if tag == "table":
            self.tables.setdefault(self.sections[-1], []).append([])
        elif tag == "tr":
            self.tables[self.sections[-1]][-1].append([])
        elif tag in ("td", "th"):
            self.tables[self.sections[-1]][-1][-1].append("")

    def handle_endtag(self, tag):
        self._inside = None if tag == self._inside else self._inside

    def handle_data(self, data):
        self.text += data
        if self._inside == "h2":
            self.sections.append(data)
        elif self._inside:
            self.tables[self.sections[-1]][-1][-1][-1] += data


def number(text):
    """What a quantity with a prefix is in SI."""
    digits, unit = text.split()
    return float(digits) * {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}.get(unit[0], 1.0)


@pytest.fixture(scope="module")
def handed():
    circuit = ladder(2).replace(clock=Clock(None, 30))
    parts = tuple(replace(e, tolerance=0.05) if e.name == "Cn1" else e for e in circuit.elements)
    return Handed(
        circuit.replace(elements=parts), {"Ln0_n1.inductance": 1.06e-8}, "E24", 3, Requirement("cosine", 0.9), 1
    )


@pytest.fixture(scope="module")
def sheet(handed):
    """With the first axes of every budget, which are enough to see how they are told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasheet, "usual_axes", lambda netlist: usual_axes(netlist)[:2])
        patch.setattr(datasheet, "echo_axes", lambda netlist: echo_axes(netlist)[:1])
        return write(handed)


def test_it_says_what_the_design_says(handed, sheet):
    read, design = Reader(sheet), handed.design
    assert read.sections == [
        "Schematic", "Elements", "Ports and ranges", "Modes", "Bit budget", "Echo", "Costs of a gradient",
        "How to reproduce",
    ]  # fmt: skip
    (elements,) = read.tables["Elements"]
    assert [row[0] for row in elements[1:]] == [e.name for e in handed.netlist.elements]
    trained = next(dict(zip(elements[0], row, strict=True)) for row in elements if row[0] == "Ln0_n1")
    assert trained["values"] == "11 nH"  # of 10.6 nH the nearest of E24
    assert next(row for row in elements if row[0] == "Cn1")[elements[0].index("tolerance")] == "±5 %"
    flux = handed.run.positions_si()
    current = np.max(np.abs(flux["n0"] - flux["n1"])) / 11e-9
    assert number(trained["peaks"].split(", ")[1]) == pytest.approx(current, rel=1e-3)  # four digits
    (modes,) = read.tables["Modes"]
    assert [number(row[1]) for row in modes[1:]] == pytest.approx(design.frequencies_hz.tolist(), rel=1e-3)
    assert sha256(handed.netlist.to_toml().encode()).hexdigest() in read.text
    assert "Training found 1 of the values" in read.text
    assert "moved to E24 values, by up to 3.77%" in read.text


def test_limits_are_told_of_every_axis(handed, sheet):
    read = Reader(sheet)
    (budget,) = read.tables["Bit budget"]
    limits = read.tables["Echo"][1]
    for table, axes in ((budget, usual_axes(handed.netlist)[:2]), (limits, echo_axes(handed.netlist)[:1])):
        assert {row[0] for row in table[1:]} == {axis.path.removeprefix("profile.") for axis in axes}
    assert all(row[2] for row in budget[1:])
    assert "cosine=0.9 --seeds 1 --seed 3" in read.text


def test_costs_are_those_of_the_contract(handed, sheet):
    costs = Reader(sheet).tables["Costs of a gradient"][0]
    lesson = handed.task.lesson(handed.design)
    learner = settings.bench_learning(handed.netlist, Profile(), {"gamma": "auto"})
    plain = gradient_cost(handed.design, Profile(), learner, lesson=lesson)
    rows = {row[0]: row[1] for row in costs}
    assert rows["passes"].split()[0] == str(plain.passes)
    assert rows["samples read"] == f"{plain.samples_read:,}"
    assert rows["energy of reading"].endswith("J")
    assert "nudge without limit" in Reader(sheet).text  # of what the budget did not ask for


def test_nothing_is_fetched(sheet):
    assert not re.search(r"""(src|href)=["'](?!data:)|url\(|@import""", sheet)


def test_what_cannot_learn_has_a_sheet_without_a_contract():
    still = Netlist("still", [Capacitor("C", "a", "gnd", 1e-9), Inductor("L", "a", "gnd", 1e-6)])
    read = Reader(write(Handed(still.replace(clock=Clock(None, 30)))))
    assert "There is none: " in read.text
    assert "Bit budget" not in read.tables
    assert "There are none: " in read.text


def test_paper_has_all_of_it(sheet, browser, tmp_path):
    """Nothing is wider than a page of A4, on which the figures of this circuit take four at most."""
    path = tmp_path / "sheet.html"
    path.write_text(sheet)
    tab = browser.new_page(viewport={"width": 690, "height": 900})
    tab.goto(path.as_uri())
    tab.emulate_media(media="print")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 690
    assert tab.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    pages = len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True)))
    assert 2 <= pages <= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", GALLERY)
def test_every_design_has_a_sheet(name):
    read = Reader(write(Handed(Netlist.load(name).replace(clock=Clock(None, 60)), seeds=1)))
    budget, limits = read.tables["Bit budget"][0], read.tables["Echo"][1]
    assert len(budget) == 1 + len(usual_axes(Netlist.load(name)))
    assert len(limits) == 1 + len(echo_axes(Netlist.load(name)))
    assert "Costs of a gradient" in read.tables


def test_a_node_without_capacitance_has_no_charge():
    """Its channel has a range none the less, which is no peak."""
    sides = [Capacitor("C", "a", "gnd", 1e-9), Inductor("L", "a", "gnd", 25e-6)]
    middle = [Inductor("La", "a", "m", 50e-6), Inductor("Lb", "m", "gnd", 50e-6)]
    net = Netlist("divider", sides + middle, [CurrentDrive("u", "a")], targets=["a"], clock=Clock(None, 60))
    tables = [block for block in _Sheet(Handed(net))._ports() if isinstance(block, Table)]
    rows = {row[0]: row for table in tables for row in table.rows}
    assert rows["m"][2] == "0.0 C"
    assert rows["a"][2] != "0.0 C"


def test_light_is_told_in_photons_and_watts():
    """A ring at its carrier fills as a = F·(1 − e^(−κt/2))/(κ/2), beside one that it is not coupled to; P = ħ·Q·F²."""
    rate, steps, step = 2e9, 40, 1e-11
    half = np.pi * 193.4e12 / 2e6
    drive = CoherentDrive("u", "a", waveform=Constant(rate))
    parts = [Ring("R1", "a", external_q=2e6), Ring("R2", "b", "1 GHz", trainable=True)]
    netlist = Netlist("rings", parts, drives=[drive], clock=Clock(step, steps))
    handed = Handed(netlist)
    handed.__dict__["waves"] = {"u": np.full(steps, rate)}
    light, words = _Sheet(handed)._light()
    (elements,) = [t for t in _Sheet(handed)._elements() if isinstance(t, Table)]
    assert [row[3] for row in elements.rows] == ["external q 2e+06", "1 GHz"]
    first, second = light.rows
    assert first[1:3] == ("193.4 THz", "1.55 µm")
    assert float(first[3]) == pytest.approx((rate * (1 - np.exp(-half * steps * step)) / half) ** 2, rel=5e-3)
    assert second[3] == "0"
    watts = 1.054571817e-34 * 2e6 * rate**2
    assert f"The peak of u is {1e12 * watts:.4g} pW of light through the coupling of R1." in words.text


def test_names_of_code_stand_out_of_words():
    assert Paragraph("write `trainable = true` <here>").html() == (
        "<p>write <code>trainable = true</code> &lt;here&gt;</p>"
    )

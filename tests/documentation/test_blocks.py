"""What README and documentation show is run as it stands."""

from dataclasses import replace

import numpy as np
import pytest

from circuits.formats import toml
from circuits.gallery import GALLERY
from rhel_hw import RHEL, EchoLearner, Profile, Teacher, Training, settings, simulate_design
from studies.sweeps import Sweep
from tests.documentation.blocks import ELSEWHERE, PAGES, ROOT, RUN, Page, blocks

LONG = ("sweeps.md", "calibration.md", "cluster.md")
"""Pages that `make test` leaves to continuous integration; what they are about has tests of its own there."""
FILE = ROOT / "docs/reference/design-file.md"


def runnable():
    for path in PAGES:
        if path.name in ELSEWHERE:
            continue
        if any(block.kind in RUN and not block.skip for block in blocks(path)):
            marks = pytest.mark.slow if path.name in LONG else ()
            yield pytest.param(path, id=str(path.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("path", list(runnable()))
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of Dask's processes
def test_every_block_runs(path, call):
    names = Page(path, call).run()
    if path.name in CLAIMS:
        CLAIMS[path.name](names)


def readme(names):
    """Echoes of the ideal circuit are backpropagation; eight bits come close."""
    key, design = "inductor.inductance", names["design"]
    exact, ideal, measured = (np.asarray(names[name].theta[key]) for name in ("exact", "ideal", "measured"))
    assert design.legality.legal
    np.testing.assert_allclose(ideal, exact, rtol=1e-6)
    assert measured @ exact / np.linalg.norm(measured) / np.linalg.norm(exact) > 0.9


def python(names):
    """The circuit is turned round exactly; the bench within its converters' reach."""
    assert names["return_error"](names["run"], names["reverse"](names["run"])) < 1e-12
    apart = np.abs(names["there"]["position.n3"] - names["back"]["position.n3"][::-1])
    assert np.max(apart) < 0.05 * names["told"].channels["position.n3"].full_scale  # eight bits, and noise
    assert names["trained"].improvement > 2


CLAIMS = {"README.md": readme, "python.md": python}


def test_pages_are_many_and_skips_are_few():
    """Every block that is not run says why, and those are one in five at most."""
    found = [block for path in PAGES if path.name not in ELSEWHERE for block in blocks(path) if block.kind in RUN]
    skipped = [block for block in found if block.skip]
    assert len(skipped) <= len(found) / 5
    assert all(len(block.skip) > 10 for block in skipped)


def test_readme_is_as_short_as_it_says():
    design, program = (next(b for b in blocks(ROOT / "README.md") if b.kind == kind) for kind in ("toml", "python"))
    assert len(design.text.splitlines()) <= 10
    assert len(program.text.splitlines()) <= 22


# The page of the design file -----------------------------------------------------------------------------------------


def design_file():
    return [block.text for block in blocks(FILE) if block.kind == "toml"]


def test_design_file_example():
    design = toml.read(design_file()[0]).compile()
    # Two equal tanks: the even mode at 1/√(LC), the odd one stiffer by the coupling inductor.
    even = 1 / (2 * np.pi * np.sqrt(1e-9 * 25e-6))
    odd = np.sqrt((1 / 25e-6 + 2 / 100e-6) / 1e-9) / (2 * np.pi)
    np.testing.assert_allclose(design.frequencies_hz, [even, odd], rtol=1e-12)
    assert np.max(np.abs(simulate_design(design).positions_si()["b"])) > 0


def test_sections_of_the_design_file_are_the_defaults():
    circuit, time, sections, _ = design_file()
    netlist = toml.read(circuit + time + sections)
    assert netlist.clock == toml.read(circuit).clock
    assert settings.profile(netlist) == Profile()
    assert settings.task(netlist) == Teacher()
    assert settings.training(netlist) == Training()
    assert replace(settings.learning(netlist), epsilon=1e-3, gamma=1.0) == RHEL()
    assert replace(settings.bench_learning(netlist, Profile()), epsilon=1e-3, gamma=1.0) == EchoLearner()


def test_section_of_a_sweep():
    sweep = Sweep.of(toml.read(design_file()[0] + design_file()[-1]).settings["sweep"])
    assert sweep.count == 3 * 5 * 2 * 2
    assert replace(sweep, axes={"seed": [0]}) == Sweep({"seed": [0]})


@pytest.mark.parametrize("name", GALLERY)
def test_every_built_in_design_is_named(name):
    assert f"`{name}`" in FILE.read_text(encoding="utf-8")

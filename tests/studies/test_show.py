"""The page of a design in a browser: it draws what a bench reads, sliders measure anew, and nobody else is asked."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from functools import cache
from threading import Thread

import numpy as np
import pytest

from circuits import Netlist, examine
from circuits.gallery import GALLERY
from circuits.netlist import Clock
from devices import ArgumentError
from rhel_hw import EchoLearner, EmulatedBench, Profile, settings
from rhel_hw.compare import cosine, trained
from rhel_hw.device import run_pass
from rhel_hw.truth import gradients_as_made
from studies.show import Dials, Server, Stage, render
from studies.show.server import asked

STEPS = 150
TANK = """[elements.C1]
type = "capacitor"
nodes = ["a", "gnd"]
capacitance = "1 pF"
[elements.L1]
type = "inductor"
nodes = ["a", "gnd"]
inductance = "1 nH"
[time]
steps = 20
"""
GYRATOR = '[elements.G1]\ntype = "gyrator"\nnodes = ["a", "gnd", "b", "gnd"]\nconductance_ratio = "1 mA/V"\n'


def compiled(name, steps=STEPS):
    return examine(Netlist.load(name).replace(clock=Clock(None, steps)))


@cache
def staged(name, profile="bench-8bit", **changes):
    legality, design = compiled(name)
    used = Profile.load(profile)
    for path, value in changes.items():
        used = used.set(path.replace("__", "."), value)
    return legality, Stage(design, used)


@pytest.fixture(scope="module")
def toy():
    return staged("lc-toy")


@pytest.fixture(scope="module")
def served(toy):
    """Where the page is, while tests run."""
    legality, stage = toy
    server = Server(render(stage.design.netlist, legality, stage), stage)
    thread = Thread(target=server.run)
    thread.start()
    yield server.address
    server.end()
    thread.join(10)
    assert not thread.is_alive()


# What is measured -------------------------------------------------------------------------------------------------


def test_a_gradient_is_that_of_a_learner_on_the_same_bench(toy):
    _, stage = toy
    found = stage.measure(Dials(6, 2e-3, 5e4)).gradient
    design, lesson = stage.design, settings.task(stage.design.netlist).lesson(stage.design)
    profile = stage.profile.set("readout.bits", 6).set("readout.noise", 2e-3)
    bench = EmulatedBench(design, profile, reference=lesson.drive)
    alone = EchoLearner(gamma=5e4, epsilon=stage.epsilon).gradient(bench, design, lesson)
    np.testing.assert_array_equal(found.measured, trained(design, alone.theta))
    _, true = gradients_as_made(design, profile, lesson)
    assert found.cosine == cosine(found.measured, trained(design, {k: v[:, 0] for k, v in true.items()}))
    assert 0.9 < found.cosine < 1 - 1e-9


def test_without_rounding_and_noise_the_echo_is_the_pass(toy):
    _, stage = toy
    assert stage.missed(stage.measure(Dials(None, 0.0, 1.0))) < 1e-12  # rounding at 1e-16, over 300 steps
    assert stage.missed(stage.measure(Dials(9, 0.0, 1.0))) == 0  # converters round twice what is the same
    noisy, more = (stage.missed(stage.measure(Dials(None, noise, 1.0))) for noise in (1e-3, 4e-3))
    assert more / noisy == pytest.approx(4, rel=1e-3)  # the same draws, larger


def test_no_program_is_compiled_for_a_move(toy):
    _, stage = toy
    stage.measure(Dials(8, 1e-3, 100.0))
    known = run_pass._cache_size()
    for bits, noise, gamma in MOVES:
        stage.measure(Dials(bits, noise, gamma))
    assert run_pass._cache_size() == known


MOVES = [(7, 1e-3, 100.0), (6, 3e-3, 1e4), (12, 1e-2, 10.0), (2, 1e-5, 1e6)]


@pytest.mark.slow
def test_a_lossy_echo_misses_whatever_reads_it():
    _, stage = staged("lc-toy", "ideal", dynamics__quality=50)
    heard = stage.measure(stage.first)
    assert stage.missed(heard) > 0.01
    assert heard.gradient.cosine < 1


# The server ---------------------------------------------------------------------------------------------------------


def get(address, path, **headers):
    request = urllib.request.Request(address + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("bits=8.5&noise=0&gamma=1&node=n1", "`bits` must be a whole number, but is '8.5'"),
        ("bits=0&noise=0&gamma=1&node=n1", "`bits` must be from 1 to 64"),
        ("bits=8&noise=nan&gamma=1&node=n1", "`noise` must be from 0 to 1"),
        ("bits=8&noise=0&gamma=inf&node=n1", "`gamma` must be greater than 0 and finite"),
        ("bits=8&noise=0&gamma=1&node=n11", "did you mean `n1`?"),
        ("bits=8&noise=0&gama=1&node=n1", "`gama` must be one of bits, noise, gamma, node; did you mean `gamma`?"),
        ("bits=8&noise=0&node=n1", "`gamma` must be given"),
        ("", "`bits` must be given"),
    ],
)
def test_wrong_questions_are_refused_with_what_to_mend(served, query, words):
    status, body = get(served, f"measure?{query}")
    assert status == 400
    assert words in json.loads(body)["error"]


def test_other_names_and_places_are_refused(served, toy):
    assert get(served, "", Host="example.com")[0] == 403
    assert get(served, "etc/passwd")[0] == 404
    with pytest.raises(ArgumentError, match="`port` must be free"):
        Server("", toy[1], int(served.rstrip("/").rpartition(":")[2]))


def test_words_for_no_limit_and_for_pilots(toy):
    assert asked("bits=none&noise=0&gamma=auto&node=n2", toy[1]) == (Dials(None, 0.0, None), "n2")


# The page -----------------------------------------------------------------------------------------------------------


def visit(browser, address):
    """An open page, and what went wrong or was asked of anybody else on the way."""
    tab, trouble = browser.new_page(viewport={"width": 1280, "height": 1200}), []
    tab.on("console", lambda m: trouble.append(m.text))
    tab.on("pageerror", lambda e: trouble.append(str(e)))
    tab.on("request", lambda r: trouble.append(r.url) if not r.url.startswith(address) else None)
    tab.goto(address)
    return tab, trouble


def settled(tab, state="ready"):
    tab.wait_for_selector(f"body[data-state={state}]", timeout=60_000)


def turn(tab, **sliders):
    """Move sliders, and wait for what is measured then."""
    for name, value in sliders.items():
        tab.evaluate(
            "([id, v]) => { const e = document.getElementById(id); e.value = v; e.dispatchEvent(new Event('input')); }",
            [name, value],
        )
    settled(tab)


def drawn(tab, line):
    """Heights of a line's points."""
    return [float(y) for y in re.findall(r"[ML]\S+ (-?[\d.]+)", tab.get_attribute(f"#{line}", "d"))]


def test_sliders_measure_anew(served, browser, toy):
    tab, trouble = visit(browser, served)
    settled(tab)
    assert tab.inner_text("#bits-told") == "8 bits"
    assert float(tab.inner_text("#gamma-told")) > 1  # found by pilots
    assert len(drawn(tab, "echo-line")) == len(drawn(tab, "pass-line")) == len(drawn(tab, "nudged-line")) == STEPS
    first, before = tab.inner_text("#cosine"), drawn(tab, "missed-line")
    turn(tab, bits=3)
    assert tab.inner_text("#bits-told") == "3 bits"
    coarse = tab.inner_text("#missed")
    assert float(coarse.removesuffix(" %")) > 1
    assert tab.inner_text("#cosine") != first
    assert drawn(tab, "missed-line") != before
    turn(tab, bits=17, noise=0)
    assert [tab.inner_text(f"#{name}-told") for name in ("bits", "noise")] == ["no limit", "none"]
    assert float(tab.inner_text("#missed")) < 1e-12
    turn(tab, noise=21, gamma=0)  # 0.01: lost in the noise
    lost = tab.inner_text("#cosine")
    turn(tab, gamma=40)  # 100
    assert float(tab.inner_text("#cosine")) > float(lost) + 0.1
    own = toy[1].measure(Dials(None, 1e-3, 100.0)).gradient
    assert float(tab.inner_text("#ratio")) == pytest.approx(own.ratio, rel=5e-3)  # three digits
    tab.click("#auto")
    settled(tab)
    assert float(tab.inner_text("#gamma-told")) != 100
    tab.close()
    assert trouble == []


def test_the_player_runs_there_and_back(served, browser):
    tab, trouble = visit(browser, served)
    settled(tab)
    width = "name => Number(document.querySelector(`#${name}-clip rect`).getAttribute('width'))"
    for place, shown in ((500, "pass"), (1500, "echo")):
        tab.evaluate(
            "v => { const e = document.getElementById('scrub'); e.value = v; e.dispatchEvent(new Event('input')); }",
            place,
        )
        assert tab.inner_text("#clock").startswith(shown)
        assert (tab.evaluate(width, "echo") > 0) == (shown == "echo")
    whole = tab.evaluate(width, "pass")
    assert tab.evaluate(width, "echo") == pytest.approx(whole / 2, rel=0.02)  # half of the way back
    tab.click("#play")
    tab.wait_for_timeout(400)
    tab.click("#play")
    assert int(tab.input_value("#scrub")) > 1520
    rest = tab.input_value("#scrub")
    tab.wait_for_timeout(100)
    assert tab.input_value("#scrub") == rest
    tab.select_option("#kind", "momentum")
    assert "momentum of n4" in tab.text_content("#motion")
    tab.close()
    assert trouble == []


def test_what_the_bench_refuses_is_said_on_the_page(served, browser):
    tab, trouble = visit(browser, served)
    settled(tab)
    tab.route("**/measure*", lambda route: route.fulfill(status=400, json={"error": "Argument `bits` must be mended"}))
    tab.evaluate("() => document.getElementById('bits').dispatchEvent(new Event('input'))")
    settled(tab, "refused")
    assert tab.inner_text("#told.bad") == "Argument `bits` must be mended"
    tab.unroute("**/measure*")
    turn(tab, bits=9)
    assert not tab.locator("#told.bad").count()
    tab.close()
    assert all("400" in words for words in trouble)  # which Chromium says by itself


@pytest.mark.parametrize("name", [n if n == "lc-toy" else pytest.param(n, marks=pytest.mark.slow) for n in GALLERY])
def test_every_design_of_the_gallery_has_a_page(name, browser, tmp_path):
    legality, stage = staged(name)
    page = tmp_path / "page.html"
    page.write_text(render(stage.design.netlist, legality, stage, stage.measure(stage.first)), encoding="utf-8")
    tab, trouble = visit(browser, page.as_uri())
    said = tab.inner_text("body")
    for e in stage.design.netlist.elements:
        assert e.name in said
    assert stage.measure(stage.first).gradient.cosine > 0.9
    assert tab.locator("#gradient rect.measured").count() == min(len(stage.design.parameters.trainable_names), 40)
    assert tab.locator("#node option").count() == len(stage.nodes)
    for node in stage.nodes:
        tab.select_option("#node", node)
        assert node in tab.text_content("#motion")
        assert len(drawn(tab, "echo-line")) > 10
    assert tab.locator("img.wide").count() == 1
    assert tab.is_disabled("#bits")
    tab.close()
    assert trouble == []


def shown(browser, folder, text):
    """An open page of a design that is written out."""
    path = folder / "design.toml"
    path.write_text(text, encoding="utf-8")
    netlist = Netlist.load(path)
    legality, design = examine(netlist)
    stage = None if design is None else Stage(design, Profile())
    page = path.with_suffix(".html")
    page.write_text(render(netlist, legality, stage, stage and stage.measure(stage.first)), encoding="utf-8")
    return visit(browser, page.as_uri())


def test_a_design_that_has_nothing_to_learn_is_played_too(browser, tmp_path):
    tab, trouble = shown(browser, tmp_path, TANK)
    assert "There is no gradient: " in tab.inner_text("body")
    assert not tab.is_visible("#gradient")
    assert len(drawn(tab, "echo-line")) == 20
    tab.close()
    assert trouble == []


def test_a_design_that_is_not_legal_is_told_why(browser, tmp_path):
    tab, trouble = shown(browser, tmp_path, TANK + GYRATOR)
    said = tab.inner_text("body")
    assert "Not legal: 1 error" in said
    assert "time reversal" in said
    assert not tab.locator("#motion").count()
    tab.close()
    assert trouble == []


# The command --------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_page_to_send_on(call, tmp_path):
    (tmp_path / "tank.toml").write_text(TANK, encoding="utf-8")
    assert call("show", "tank.toml", "--out", "tank.html") == "wrote tank.html\n"
    page = (tmp_path / "tank.html").read_text(encoding="utf-8")
    assert "<h1>tank</h1>" in page
    assert "readout.gain_spread" in page  # of the usual bench
    assert "connect-src" not in page
    for wrong, words in ((("--set", "readout.bitz=3"), "did you mean `bits`?"), (("--out", "."), "`--out`")):
        assert words in call("show", "tank.toml", *wrong, code=2)


def test_the_command_serves_until_it_is_told_to_end(tmp_path):
    (tmp_path / "gyrator.toml").write_text(TANK + GYRATOR, encoding="utf-8")
    command = [sys.executable, "-m", "rhel_hw.cli", "show", "gyrator.toml", "--json", "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(4)]
        address = json.loads("".join(lines))["address"]
        assert address.startswith("http://127.0.0.1:")
        status, page = get(address, "")
        assert status == 200
        assert b"Not legal: 1 error" in page
        assert get(address, "measure?bits=8")[0] == 404  # there is no bench
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


@pytest.mark.slow
@pytest.mark.parametrize("wait_s", [0.0, 1.5])  # programs are compiled in the background, one after the other
def test_control_c_waits_for_what_is_being_measured(wait_s, tmp_path):
    command = [sys.executable, "-m", "rhel_hw.cli", "show", "lc-toy", "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        told = [process.stdout.readline() for _ in range(2)]
        time.sleep(wait_s)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() in ("", "rhel-hw: waiting for what is being compiled\n")
    assert told[1].split()[2].endswith("/")  # an address that can be copied

"""Scripts of mumax3 by their statements and by Go's parser, states by the schema of OVF, tables."""

import math
import re
import shutil
import subprocess
import tomllib

import numpy as np
import pytest

from circuits.formats import mumax

SETTINGS = {"msat", "ku1", "b1", "alpha", "b_ext", "aex"}
"""Quantities of mumax3 that have values by region, in small letters: it takes any."""


def parsed(script):
    """Settings of a script: by (quantity, region), plain ones by name, and calls with whole-number arguments."""
    found = {(k.lower(), int(i)): v for k, i, v in re.findall(r"^(\w+)\.SetRegion\((\d+), (.*)\)$", script, re.M)}
    plain = dict(re.findall(r"^(\w+) = (.*)$", script, re.M))
    calls = {}
    for name, arguments in re.findall(r"^(\w+)\((.*)\)$", script, re.M):
        calls.setdefault(name, []).append(arguments)
    return found, plain, calls


def numbers(text):
    return [float(x) for x in text.split(",")]


def vector(text, t):
    """Value of a mumax3 vector expression at time t."""
    names = {"vector": lambda *v: v, "t": t, "sin": math.sin, "max": max}
    return np.array(eval(text, {"__builtins__": {}}, names))


def ovf(text):
    """Header and vectors of an OVF 2.0 text file, checked as a reader would."""
    lines = text.splitlines()
    assert lines[0] == "# OOMMF OVF 2.0"
    assert lines[1] == "# Segment count: 1"
    begin, end = lines.index("# Begin: Data Text"), lines.index("# End: Data Text")
    marks = [line for line in lines if line.startswith(("# Begin", "# End"))]
    assert marks == [f"# {m}" for m in (
        "Begin: Segment", "Begin: Header", "End: Header", "Begin: Data Text", "End: Data Text", "End: Segment",
    )]  # fmt: skip
    header = dict(line[2:].split(": ", 1) for line in lines[2:begin] if ": " in line and "gin: " not in line)
    assert header["meshtype"] == "rectangular"
    assert header["valuedim"] == "3"
    assert len(header["valueunits"].split()) == len(header["valuelabels"].split()) == 3
    counts = [int(header[f"{a}nodes"]) for a in "xyz"]
    for a, n in zip("xyz", counts, strict=True):
        step, low, high = (float(header[f"{a}{k}"]) for k in ("stepsize", "min", "max"))
        assert high - low == pytest.approx(n * step)
        assert float(header[f"{a}base"]) == pytest.approx(low + step / 2)
    m = np.array([line.split() for line in lines[begin + 1 : end]], float)
    assert m.shape == (math.prod(counts), 3)
    length = np.linalg.norm(m, axis=1)
    assert np.all((np.abs(length - 1) < 1e-8) | (length == 0))  # nine digits
    return header, m.reshape(*counts[::-1], 3)


def gofmt(script):
    """mumax3 reads a subset of Go: its parser must take the script."""
    if shutil.which("gofmt") is None:
        pytest.skip("gofmt is not installed: apt-get install golang-go")
    text = f"package p\nfunc f() {{\n{script}}}\n"
    done = subprocess.run(["gofmt", "-e"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_mumax3(net, files, folder):
    """Statements of known names, all regions set, a state that fits the mesh, every element in the table.

    Where gofmt is missing, tests/circuits/test_mumax.py says so.
    """
    script = files[mumax.SCRIPT].decode()
    found, plain, calls = parsed(script)
    for line in script.splitlines():
        assert re.fullmatch(r"//.*|\w+(\.\w+)?\(.*\)|\w+ :?= .+|", line), line
    assert {name for name, _ in found} <= SETTINGS
    assert set(plain) <= {"EnableDemag", "Aex", "anisU", "exx", "GammaLL"}
    header, m = ovf(files[mumax.STATE].decode())
    counts = [int(header[f"{axis}nodes"]) for axis in "xyz"]
    assert numbers(calls["SetGridSize"][0]) == counts
    assert numbers(calls["SetCellSize"][0]) == [float(header[f"{axis}stepsize"]) for axis in "xyz"]
    assert np.any(m)
    regions = {i for name, i in found if name == "msat"}
    assert regions == {i for name, i in found if name == "alpha"} == set(range(1, len(regions) + 1))
    for (name, _), text in found.items():
        assert np.all(np.isfinite(vector(text, 1e-10) if name == "b_ext" else float(text)))
    moving = [text for (name, _), text in found.items() if name == "b_ext" and "max(t" in text]
    assert len(moving) == len(net.drives)  # the script plays the stimulus of the task
    assert np.any(vector(moving[0], 1e-10) != vector(moving[0], 2e-10))
    assert len(calls["Run"]) == 1
    assert float(calls["Run"][0]) > 0
    assert f'm.LoadFile("{mumax.STATE}")' in script
    table = tomllib.loads(files[mumax.TABLE].decode())
    assert set(table) == {e.name for e in net.elements}
    assert all(table[e.name]["type"] == e.type for e in net.elements)
    if shutil.which("gofmt") is not None:
        gofmt(script)

"""Hypothesis strategies for netlists: mostly sensible, sometimes not."""

from __future__ import annotations

from hypothesis import strategies as st

from circuits import ALL, Clock, DesignError, Initial, Netlist, Probes, Target
from devices import DRIVES, ELEMENTS, GROUND, MECHANICAL, Constant, ElementError, Points, Pulse, Sine

NODES = ("a", "b", "c", "d")
MECHANICAL_NODES = ("x", "y")


@st.composite
def elements(draw, name: str, kinds=tuple(ELEMENTS), coils: tuple[str, ...] = ()):
    kind = ELEMENTS[draw(st.sampled_from(kinds))]
    nodes = (*(MECHANICAL_NODES if kind.domain is MECHANICAL else NODES), "gnd")
    if kind.domain is None:
        nodes = (*NODES, *MECHANICAL_NODES)
    ends = draw(
        st.lists(st.sampled_from(nodes), min_size=len(kind.terminals), max_size=len(kind.terminals), unique=True)
    )
    if kind.references:
        ends = draw(st.lists(st.sampled_from(coils or ("L0", "L1")), min_size=2, max_size=2))
    values = {}
    for key, info in kind.parameters.items():
        nominal = info.read(info.example)
        if nominal == 0:
            values[key] = draw(st.sampled_from([0.0, 1e-16]))
        elif key in ("coefficient", "asymmetry"):
            values[key] = draw(st.floats(-0.9, 0.9))
        else:
            values[key] = nominal * draw(st.floats(0.1, 10))
    knobs = [k for k, info in kind.parameters.items() if info.knob]
    settings = {}
    if draw(st.booleans()):
        settings["trainable"] = draw(st.sampled_from([True, tuple(knobs)]))
    if knobs and draw(st.integers(0, 3)) == 0:
        settings["tolerance"] = {knobs[0]: draw(st.sampled_from([0.01, 0.05]))}
        if values[knobs[0]] > 0:
            most = 0.95 if knobs[0] == "coefficient" else values[knobs[0]] * 2
            settings["bounds"] = {knobs[0]: (values[knobs[0]] * 0.5, most)}
    return kind(name, *ends, **values, **settings)


def waveforms():
    return st.one_of(
        st.none(),
        st.builds(Constant, st.floats(-1, 1)),
        st.builds(Sine, st.floats(-1, 1), st.floats(1e6, 1e9), st.floats(-1, 1), st.floats(0, 1e-6)),
        st.builds(Pulse, st.floats(-1, 1), st.floats(1e-9, 1e-6), delay=st.floats(0, 1e-6)),
        st.lists(st.floats(-1, 1), min_size=1, max_size=5).map(lambda v: Points([1e-9 * i for i in range(len(v))], v)),
    )


@st.composite
def netlists(draw, kinds=tuple(ELEMENTS)):
    """A netlist, or None where the draw made none that can be wired."""
    parts = [ELEMENTS["capacitor"](f"C{n}", n, "gnd", 1e-12) for n in NODES if draw(st.integers(0, 4))]
    parts += [ELEMENTS["inductor"](f"L{i}", n, "gnd", 1e-8) for i, n in enumerate(NODES[:2])]
    if any(ELEMENTS[k].domain is MECHANICAL for k in kinds):
        parts += [ELEMENTS["mass"](f"m{n}", n, 1e-14) for n in MECHANICAL_NODES if draw(st.integers(0, 3))]
        parts += [ELEMENTS["spring"](f"k{n}", n, "gnd", 10.0) for n in MECHANICAL_NODES if draw(st.integers(0, 3))]
    try:
        parts += [draw(elements(f"e{i}", kinds)) for i in range(draw(st.integers(0, 6)))]
        drives = []
        for i in range(draw(st.integers(0, 2))):
            kind = DRIVES[draw(st.sampled_from(list(DRIVES)))]
            nodes = MECHANICAL_NODES if kind.domain is MECHANICAL else NODES
            ends = [draw(st.sampled_from(nodes)) for _ in range(len(kind.terminals) - len(kind.optional_terminals))]
            ends += [draw(st.sampled_from([*nodes, GROUND])) for _ in kind.optional_terminals]
            ends += [draw(st.sampled_from(["L0", "L1"])) for _ in kind.references]
            drives.append(kind(f"u{i}", *ends, waveform=draw(waveforms())))
        present = sorted({n for p in parts for n in p.nodes} - {"gnd"})
        some = st.lists(st.sampled_from(present), max_size=3, unique=True).map(tuple)
        return Netlist(
            draw(st.sampled_from(["design", "a “quoted” name\\", "x = [1]"])),
            parts,
            drives=drives,
            probes=Probes(draw(st.one_of(st.just(ALL), some)), draw(st.one_of(st.just(ALL), some))),
            targets=[Target(f"y{i}", n) for i, n in enumerate(draw(some))],
            initial=Initial(positions={n: draw(st.floats(-1e-15, 1e-15)) for n in draw(some)}),
            clock=Clock(draw(st.sampled_from([None, 1e-12])), draw(st.integers(1, 1000))),
        )
    except (DesignError, ElementError):
        return None

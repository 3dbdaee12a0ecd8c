"""mumax3 exports: the script's numbers against the energies and modes of the model, OVF by its schema, refusals."""

import itertools
import math
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from circuits import DesignError, Initial, Netlist
from circuits.formats import mumax
from circuits.formats.magnets import Material
from devices import (
    ArgumentError,
    Capacitor,
    Constant,
    CoreForceDrive,
    DipoleCoupler,
    Exchange,
    FieldDrive,
    FieldLine,
    Inductor,
    Macrospin,
    MagnonMode,
    PillarCoupler,
    Points,
    Pulse,
    Sine,
    Skyrmion,
    TorqueDrive,
    Vortex,
)
from devices.spintronic import GAMMA, MU_0
from tests.exports.magnetic import gofmt, numbers, ovf, parsed, vector

SPIN = {"magnetisation": 8e5, "volume": 2.5e-23}
DISC = {"magnetisation": 8e5, "radius": 200e-9, "thickness": 20e-9}


def energy_of_script(script):
    """mumax3's energy (J) of unit vectors m (regions, 3) at time t, as its documentation has the terms."""
    found, plain, calls = parsed(script)
    volume = math.prod(numbers(calls["SetCellSize"][0]))
    axis, strain = vector(plain["anisU"], 0.0), float(plain["exx"])
    cells = {int(n): tuple(map(int, cell)) for n, *cell in (numbers(c) for c in calls["DefRegionCell"])}
    bonds = [numbers(c) for c in calls.get("ext_InterExchange", ())]
    edge = numbers(calls["SetCellSize"][0])[0]
    for i, j, _ in bonds:
        assert np.abs(np.subtract(cells[i], cells[j])).sum() == 1  # neighbours, or mumax3 would not couple them
    assert plain["EnableDemag"] == "false"
    assert float(plain["Aex"]) == 0

    def value(name, i):
        return float(found[name, i])

    def energy(m, t=0.0):
        total = 0.0
        for i in cells:
            along = m[i - 1] @ axis
            total += volume * (-value("ku1", i) * along**2 + value("b1", i) * strain * m[i - 1][0] ** 2)
            if ("b_ext", i) in found:
                total -= volume * value("msat", i) * m[i - 1] @ vector(found["b_ext", i], t)
        for i, j, stiffness in bonds:
            total += volume * stiffness / edge**2 * np.sum((m[int(i) - 1] - m[int(j) - 1]) ** 2)
        return total

    return energy, [volume * value("msat", i) for i in cells]


def test_script_of_macrospins_has_the_exact_energy():
    """Different volumes, angles, out-of-plane anisotropies: all terms of docs/physics.md 10.1, at random directions."""
    rng = np.random.default_rng(0)
    spins = [
        Macrospin(
            f"M{i}", f"s{i}", 8e5 * (1 + i / 10), 2.5e-23 * (1 + i / 3), 0.9, 5e4, 0.02, 0.3 * i, 2e3 + i, damping=0.01
        )
        for i in range(4)
    ]
    bonds = [Exchange(f"J{i}", f"s{i}", f"s{(i + 1) % 4}", (2 + i) * 2e-20 * (-1) ** i) for i in range(4)]
    line = FieldLine("F", "s1", 0.7)
    drives = [FieldDrive("u", "F", waveform=Sine(3e-3, 2e9, 1e-3, 1e-10))]
    net = Netlist("square", [*spins, *bonds, line], drives)
    energy, moments = energy_of_script(mumax.write(net)[mumax.SCRIPT])
    np.testing.assert_allclose(moments, [s.magnetisation * s.volume for s in spins], rtol=1e-12)

    def exact(m, t):
        total = 0.0
        for s, (x, y, z) in zip(spins, m, strict=True):
            easy = MU_0 * s.magnetisation**2 * s.demagnetisation / 2 - s.perpendicular_anisotropy
            pull = s.magnetisation * s.field * (x * math.cos(s.field_angle) + y * math.sin(s.field_angle))
            total += s.volume * (easy * z**2 - pull - s.anisotropy * x**2)
        total -= sum(b.energy * m[i] @ m[(i + 1) % 4] for i, b in enumerate(bonds))
        b = drives[0].waveform.sample(np.array([t]))[0]
        return total - spins[1].magnetisation * spins[1].volume * b * m[1] @ [math.cos(0.7), math.sin(0.7), 0]

    # Equal but for a constant, at any time.
    states = [[v / np.linalg.norm(v) for v in rng.normal(size=(4, 3))] for _ in range(6)]
    for t in (0.0, 0.5e-10, 3.3e-10):
        differences = [energy(m, t) - exact(m, t) for m in states]
        np.testing.assert_allclose(differences, differences[0], atol=1e-12 * abs(exact(states[0], t)))


def frequencies(energy, moments, m, step=1e-4):
    """Small oscillations (Hz) about m of Landau and Lifshitz' equation, S·dm_z/dt = ∂E/∂φ and S·dφ/dt = −∂E/∂m_z."""
    count = len(moments)

    def at(x):
        phi, z = x[:count] + np.arctan2(m[:, 1], m[:, 0]), x[count:]
        flat = np.sqrt(1 - z**2)
        return energy(np.column_stack([flat * np.cos(phi), flat * np.sin(phi), z]))

    hessian = np.empty((2 * count, 2 * count))
    unit = step * np.eye(2 * count)
    for i, j in itertools.product(range(2 * count), repeat=2):
        signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
        hessian[i, j] = sum(a * b * at(a * unit[i] + b * unit[j]) for a, b in signs) / (4 * step**2)
    spin = np.array(moments) / GAMMA
    turn = np.block([[np.zeros((count, count)), -np.diag(1 / spin)], [np.diag(1 / spin), np.zeros((count, count))]])
    return np.sort(np.abs(np.linalg.eigvals(turn @ hessian).imag))[::2] / (2 * math.pi)


@pytest.mark.parametrize("name", ["spin-chain", "square"])
def test_script_has_the_modes_of_the_model(name):
    """The renormalised rotor is exact for small swings, so modes agree but for the finite differences."""
    square = [Macrospin(f"M{i}", f"s{i}", **SPIN, field=0.03, anisotropy=1e3 * i) for i in range(4)]
    square += [Exchange(f"J{i}", f"s{i}", f"s{(i + 1) % 4}", 3e-19) for i in range(4)]
    net = Netlist.load(name) if name != "square" else Netlist(name, square)
    files = mumax.write(net)
    energy, moments = energy_of_script(files[mumax.SCRIPT])
    _, m = ovf(files[mumax.STATE])
    _, _, calls = parsed(files[mumax.SCRIPT])
    places = [tuple(map(int, c.split(",")))[1:] for c in calls["DefRegionCell"]]
    state = np.array([m[z, y, x] for x, y, z in places])
    np.testing.assert_allclose(frequencies(energy, moments, state), net.compile().frequencies_hz, rtol=1e-5)


@pytest.mark.parametrize("name", ["spin-chain", "vortex-array"])
def test_scripts_with_waveforms_are_in_the_syntax_of_go(name):
    wave = Points((0.0, 1e-9), (0.0, -1.0))
    net = Netlist.load(name)
    net = net.replace(drives=[replace(net.drives[0], waveform=wave)])
    gofmt(mumax.write(net)[mumax.SCRIPT])


def test_initial_state_is_the_netlists():
    spins = [Macrospin(f"M{i}", f"s{i}", **SPIN, field=0.03) for i in range(2)]
    spin = 8e5 * 2.5e-23 / GAMMA
    start = Initial(positions={"s0": 0.2, "s1": -0.1}, momenta={"s0": -0.05 * spin})
    files = mumax.write(Netlist("two", [*spins, Exchange("J", "s0", "s1", 1e-19)], initial=start))
    _, m = ovf(files[mumax.STATE])
    flat = math.sqrt(1 - 0.05**2)
    np.testing.assert_allclose(m[0, 0, 0], [flat * math.cos(0.2), flat * math.sin(0.2), 0.05], atol=1e-9)
    np.testing.assert_allclose(m[0, 0, 1], [math.cos(0.1), -math.sin(0.1), 0], atol=1e-9)
    with pytest.raises(DesignError, match="s0"):
        mumax.write(Netlist("wild", spins, initial=Initial(momenta={"s0": 2 * spin})))


def test_magnons_are_spins_in_their_field():
    magnon = MagnonMode("Y", "m", 1.4e5, 1e-19, 0.1)
    energy, moments = energy_of_script(mumax.write(Netlist("one", [magnon]))[mumax.SCRIPT])
    slow, fast = MagnonMode.rates(magnon.numbers)
    found = frequencies(energy, moments, np.array([[1.0, 0, 0]]))
    assert found[0] == pytest.approx(math.sqrt(slow * fast) / (2 * math.pi), rel=1e-6)


@pytest.mark.parametrize(
    "wave", [Constant(2e-3), Sine(1e-3, 3e9, 0.5e-3, 2e-10), Points((1e-10, 3e-10, 4e-10), (1e-3, -2e-3, 5e-4))]
)
def test_waveforms_play_as_the_netlist_says(wave):
    net = Netlist(
        "one",
        [Macrospin("M", "s", **SPIN, field=0.01), FieldLine("F", "s", 0.4)],
        [FieldDrive("u", "F", waveform=wave)],
    )
    found, _, _ = parsed(mumax.write(net)[mumax.SCRIPT])
    times = np.linspace(0, 8e-10, 41)
    given = np.array([vector(found["b_ext", 1], float(t)) for t in times])
    b = net.drives[0].waveform.sample(times)
    np.testing.assert_allclose(given[:, 0], 0.01 + b * math.cos(0.4), atol=1e-15)
    np.testing.assert_allclose(given[:, 1], b * math.sin(0.4), atol=1e-15)


def test_vortex_array_has_its_discs():
    net = Netlist.load("vortex-array")
    files = mumax.write(net)
    found, plain, calls = parsed(files[mumax.SCRIPT])
    discs = re.findall(r"^disc(\d+) := Circle\((.*)\)\.Transl\((.*), (.*), 0\)$", files[mumax.SCRIPT], re.M)
    vortices = [e for e in net.elements if isinstance(e, Vortex)]
    assert [float(d[1]) / 2 for d in discs] == pytest.approx([v.radius for v in vortices])
    x = [float(d[2]) for d in discs]
    pillars = [e.distance for e in net.elements if isinstance(e, PillarCoupler)]
    np.testing.assert_allclose(np.diff(x), pillars, rtol=1e-9)
    assert {float(d[3]) for d in discs} == {0.0}
    assert [float(found["msat", i]) for i in range(1, 7)] == [v.magnetisation for v in vortices]
    assert float(plain["GammaLL"]) == GAMMA
    table = tomllib.loads(files[mumax.TABLE])
    assert set(table) == {e.name for e in net.elements}
    for v in vortices:
        given = {k: table[v.name][k] for k in v.values}
        assert given == v.values
        # Thin disc: (5/9π)·γ·μ₀·M_s·L/R is the angular frequency.
        due = 5 / (9 * math.pi) * GAMMA * MU_0 * v.magnetisation * v.thickness / v.radius / (2 * math.pi)
        assert table[v.name]["expected"]["frequency"] == pytest.approx(due, rel=1e-9)

    header, m = ovf(files[mumax.STATE])
    assert numbers(calls["SetGridSize"][0]) == [int(header[f"{a}nodes"]) for a in "xyz"]
    assert numbers(calls["SetCellSize"][0]) == [float(header[f"{a}stepsize"]) for a in "xyz"]
    cell = 5e-9
    axes = [(np.arange(n) - (n - 1) / 2) * cell for n in m.shape[2:0:-1]]
    px, py = np.meshgrid(*axes)
    for v, centre in zip(vortices, x, strict=True):
        inside = np.hypot(px - centre, py) <= v.radius
        assert np.all(np.linalg.norm(m[0][inside], axis=-1) > 0.99)
        core = m[0][inside][np.abs(m[0][inside][:, 2]).argmax()]
        assert core[2] * v.polarity > 0.8
        # Flux closes: no moment, and one turn counterclockwise.
        assert np.abs(m[0][inside].mean(axis=0)[:2]).max() < 1e-2
        circulation = ((px - centre)[inside] * m[0][inside][:, 1] - py[inside] * m[0][inside][:, 0]).mean()
        assert circulation == pytest.approx(2 / 3 * v.radius, rel=0.02)
    assert not m[0][np.min([np.hypot(px - c, py) for c in x], axis=0) > 203e-9 + 2 * cell].any()


def test_displaced_vortices_have_the_moment_of_the_model():
    """A core at X carries −σX along y for a counterclockwise disc, the sign by which fields are written."""
    discs = [Vortex(f"V{i}", f"v{i}", **DISC, polarity=p) for i, p in enumerate((1, -1))]
    pillar = PillarCoupler("D", "v0", "v1", 600e-9, chirality=-1)
    force = CoreForceDrive("u", "v1", waveform=Constant(1e-12))
    shift, gyro = 12e-9, float(Vortex.gyrovector(discs[1].numbers))
    start = Initial(positions={"v0": shift}, momenta={"v1": gyro * shift})
    files = mumax.write(Netlist("two", [*discs, pillar], [force], initial=start), Material(cell=4e-9))
    _, m = ovf(files[mumax.STATE])
    middle = m.shape[2] // 2
    sigma = float(Vortex.moment(discs[0].numbers))
    unit = 8e5 * 4e-9**2 * 20e-9
    left, right = m[0, :, :middle].sum(axis=(0, 1)) * unit, m[0, :, middle:].sum(axis=(0, 1)) * unit
    # A rigid vortex has 3/2 of the moment of one whose charges avoid the rim, of which σ is; the ring of cells beyond
    # the rim adds a little.
    np.testing.assert_allclose(left[:2] / (1.5 * sigma * shift), [0, -1], atol=0.08)
    np.testing.assert_allclose(right[:2] / (1.5 * sigma * shift), [-1, 0], atol=0.08)  # clockwise, displaced along y
    found, _, _ = parsed(files[mumax.SCRIPT])
    field = vector(found["b_ext", 2], 0.0)
    np.testing.assert_allclose(field, [0, 1e-12 / sigma, 0], rtol=1e-12)  # −(+σX)·B_y = −X·F for the clockwise one


def test_refusals_name_what_they_are_about():
    def names(*parts, **given):
        with pytest.raises(DesignError) as caught:
            mumax.write(Netlist("x", parts, **given))
        return [f.element for f in caught.value.legality.errors]

    spins = [Macrospin(f"M{i}", f"s{i}", **SPIN, field=0.02) for i in range(5)]
    discs = [Vortex(f"V{i}", f"v{i}", **DISC) for i in range(4)]
    lc = [Capacitor("C1", "n", "gnd", "1 pF"), Inductor("L1", "n", "gnd", "1 nH")]
    assert names(*lc) == ["C1", "L1"]
    assert names(*spins[:2], DipoleCoupler("D", "s0", "s1", 2e-7)) == ["D"]
    assert names(Skyrmion("K", "k", 5.8e5, 1e-9, 1e-4)) == ["K"]
    assert names(spins[0], drives=[TorqueDrive("u", "s0")]) == ["u"]
    line = FieldLine("F", "s0")
    assert names(spins[0], line, drives=[FieldDrive("u", "F", waveform=Pulse(1e-3, 1e-10))]) == ["u"]
    assert names(spins[0], discs[0]) == ["V0"]
    assert names(discs[0], Vortex("V9", "v9", 8e5, 2e-7, 30e-9)) == ["V9"]
    assert names(spins[0], Macrospin("M9", "s9", **SPIN, gyromagnetic_ratio=1.7e11)) == ["M9"]
    triangle = [Exchange(f"J{i}", f"s{i}", f"s{(i + 1) % 3}", 1e-19) for i in range(3)]
    assert names(*spins[:3], *triangle)[0].startswith("J")
    assert names(*spins[:2], Exchange("Ja", "s0", "s1", 1e-19), Exchange("Jb", "s1", "s0", 1e-19)) == ["Jb"]
    star = [PillarCoupler(f"D{i}", "v0", f"v{i}", 6e-7) for i in (1, 2, 3)]
    assert names(*discs, *star) == ["D3"]
    assert names(*discs[:2], PillarCoupler("D", "v0", "v1", 4.02e-7)) == ["D"]
    ring = [PillarCoupler(f"D{i}", f"v{i}", f"v{(i + 1) % 4}", 6e-7) for i in range(4)]
    assert names(*discs, *ring) == ["D0"]
    with pytest.raises(ArgumentError, match="cell"):
        Material(cell=2e-8)
    with pytest.raises(DesignError, match="cell"):
        mumax.write(Netlist("fine", discs[:1]), Material(cell=1e-10))


def test_gallery_designs_that_are_not_spintronic_are_refused():
    for name in ("kerr-chain", "lc-toy", "mixed"):
        with pytest.raises(DesignError):
            mumax.write(Netlist.load(name))

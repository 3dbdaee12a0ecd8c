"""The interface of a bench, on the emulated one and on one that plays back: what is asked, answered and refused."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from circuits import Netlist
from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import (
    EchoLearner,
    EmulatedBench,
    Lesson,
    Profile,
    RecordingBench,
    ReplayBench,
    Reprepare,
    Shot,
    Teacher,
    band_limited,
)
from rhel_hw.converters import play, read
from rhel_hw.likeness import difference
from tests.systems import driven

STEPS = 80


@pytest.fixture(scope="module")
def design():
    return ladder(3).compile(steps=STEPS)


@pytest.fixture(scope="module")
def lesson(design):
    return Teacher(batch=2).lesson(design)


def bench(design, seed=0, chips=1, **settings):
    profile = Profile()
    for path, value in settings.items():
        profile = profile.set(path.replace("__", "."), value)
    return EmulatedBench(design, profile, seed=seed, chips=chips)


# Asking and answering -----------------------------------------------------------------------------------------------


def test_a_bench_says_what_it_is(design):
    told = bench(design, readout__bits=8, chips=2).describe()
    assert set(told.channels) == {
        *(f"{kind}.n{i}" for kind in ("position", "momentum") for i in range(3)),
        *(f"target.{t.name}" for t in design.netlist.targets),
    }
    assert told.channels["position.n0"].unit == "Wb"
    assert told.channels["momentum.n0"].unit == "C"
    assert all(c.full_scale > 0 for c in told.channels.values())
    assert told.step_s == design.step_s
    assert told.drives == {"u0": "A"}
    assert (told.chips, told.passes, told.seconds) == (2, 0, 0.0)
    name = design.parameters.trainable_names[0]
    assert told.parameters[name].low < design.parameters.to_si(design.theta())[name][0] < told.parameters[name].high


@pytest.mark.parametrize("name", ["mixed", "kerr-chain", "vortex-array"])
def test_a_pass_starts_where_it_is_told_in_every_domain(name):
    """What is given in SI is read in SI, whatever the design's own units; momenta are read before anything moves."""
    design = Netlist.load(name).compile(steps=2)
    units, domains = design.assembly.units, design.netlist.domains
    wanted = {n: 0.1 * units.scale(domains[n].momentum_unit) for n in design.hamiltonian.names}
    record = EmulatedBench(design).run(Shot(1, start=({}, wanted)))
    seen = [n for n in wanted if f"momentum.{n}" in record.samples]
    assert seen
    for node in seen:
        assert record[f"momentum.{node}"][0, 0, 0] == pytest.approx(wanted[node], rel=1e-12)


def test_chips_with_profiles_of_their_own(design):
    """Each reads as a bench of that profile does; what is on must be the same, and there is one for every chip."""
    profiles = [Profile().set("readout.bits", b).set("readout.noise", x) for b, x in ((4, 1e-3), (9, 1e-2), (12, 1e-4))]
    wave = band_limited(design)
    both = EmulatedBench(design, profiles, seed=2, chips=[0, 1, 0]).run(Shot(STEPS, wave))
    for i, (profile, chip) in enumerate(zip(profiles, (0, 1, 0), strict=True)):
        alone = EmulatedBench(design, profile, seed=2, chips=[chip]).run(Shot(STEPS, wave))
        for name in alone.samples:
            np.testing.assert_array_equal(both[name][:, :, i], alone[name][:, :, 0])
    with pytest.raises(ArgumentError, match=r"readout\.noise` must be alike"):
        EmulatedBench(design, [profiles[0], Profile().set("readout.bits", 4)], chips=[0, 1])
    with pytest.raises(ArgumentError, match=r"readout\.digitise` must be alike"):
        EmulatedBench(design, [profiles[0], profiles[0].set("readout.digitise", "sum-difference")], chips=[0, 1])
    with pytest.raises(ArgumentError, match="one for each of 2 chips"):
        EmulatedBench(design, profiles, chips=[0, 1])


def test_records_are_staggered_and_counted(design):
    device = bench(design, chips=3)
    record = device.run(Shot(STEPS, {"u0": np.zeros((STEPS, 2))}))
    assert record["position.n0"].shape == (STEPS, 2, 3)
    assert record["momentum.n0"].shape == (STEPS + 1, 2, 3)
    target = design.netlist.targets[0].name
    assert record[f"target.{target}"].shape == (STEPS, 2, 3)
    np.testing.assert_allclose(record.times_s["position.n0"] / design.step_s, np.arange(STEPS) + 0.5)
    np.testing.assert_allclose(record.times_s["momentum.n0"] / design.step_s, np.arange(STEPS + 1))
    np.testing.assert_allclose(record.times_s[f"target.{target}"] / design.step_s, np.arange(STEPS) + 1)
    told = device.describe()
    assert told.passes == 2
    assert told.seconds == pytest.approx(2 * STEPS * design.step_s)


def test_a_given_state_is_where_a_pass_begins(design):
    momentum = 1e-15
    record = bench(design).run(Shot(STEPS, start=({}, {"n1": f"{momentum} C"})))
    assert record["momentum.n1"][0, 0, 0] == pytest.approx(momentum, rel=1e-12)
    assert record["momentum.n0"][0, 0, 0] == 0


OTHERS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("current", "flux", "force", "field", "core-force")]


@pytest.mark.parametrize("kind", ["voltage", "coherent", *OTHERS])
def test_echoes_retrace_whatever_drives(kind):
    """The bench plays every drive backwards and conjugated; voltages need the flux they have come to."""
    design = driven(kind).replace(targets=["n2"]).compile(steps=200)
    waves = band_limited(design, seed=1, amplitude=0.03)
    device = EmulatedBench(design, reference=waves)
    there = device.run(Shot(200, waves, hold=True))
    back = device.run(Shot(200, waves, echo=True))
    for name in there.samples:
        there_, back_ = there[name][:, 0, 0], back[name][::-1, 0, 0]
        if name.startswith("target"):  # the end of a step is the start of its echo
            there_, back_ = there_[:-1], back_[1:]
        sign = -1 if name.startswith("momentum") else 1
        assert np.max(np.abs(there_ - sign * back_)) < 1e-11 * np.max(np.abs(there_)), name


def test_chips_are_the_same_in_any_company(design, lesson):
    """Chip 5 alone, or among others: mismatch, noise and gradient are its own."""
    profile = Profile().set("fabrication.mismatch", 0.05).set("readout.noise", 1e-3).set("echo.gain_noise", 1e-3)
    learner = EchoLearner(epsilon=0.1)
    many = learner.gradient(EmulatedBench(design, profile, seed=2, chips=8), design, lesson).theta
    alone = learner.gradient(EmulatedBench(design, profile, seed=2, chips=[5]), design, lesson).theta
    for key in alone:
        np.testing.assert_allclose(np.asarray(many[key])[:, 5], alone[key], rtol=1e-9)


def test_the_same_seed_gives_the_same_numbers(design, lesson):
    profile = Profile().set("readout.noise", 1e-3).set("dynamics.drift", 1e-4).set("fabrication.mismatch", 0.02)
    first, again, other = (
        EchoLearner(epsilon=0.1).gradient(EmulatedBench(design, profile, seed=s), design, lesson).theta
        for s in (1, 1, 2)
    )
    for key in first:
        np.testing.assert_array_equal(first[key], again[key])
        assert np.max(np.abs(np.asarray(first[key]) - np.asarray(other[key]))) > 0


def test_a_bench_goes_on_where_it_was_told_to(design, lesson):
    profile = Profile().set("readout.noise", 1e-3).set("dynamics.drift", 1e-4)
    learner, device = EchoLearner(epsilon=0.1), EmulatedBench(design, profile, seed=1)
    learner.gradient(device, design, lesson)
    later = EmulatedBench(design, profile, seed=1)
    later.resume(device.progress())
    ours, theirs = (learner.gradient(b, design, lesson).theta for b in (device, later))
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key])


def test_saturated_samples_are_flagged_and_counted(design, lesson):
    device = bench(design, readout__bits=8, readout__full_scale=0.5)
    found = EchoLearner(epsilon=0.1).gradient(device, design, lesson)
    assert sum(found.saturated.values()) > 0
    record = device.run(Shot(STEPS, lesson.drive))
    name = max(record.clipped, key=record.clipped.get)
    limit = device.describe().channels[name].full_scale
    assert np.all(np.abs(record[name][record.saturated[name]]) >= limit * (1 - 2**-6))
    assert not bench(design, readout__bits=8).run(Shot(STEPS, band_limited(design))).clipped


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("readout.bits", 0, r"profile.readout.bits. must be a whole number from 1 to 64, but is 0"),
        ("readout.bits", 65, r"profile.readout.bits. must be a whole number from 1 to 64"),
        ("readout.full_scale", 0, r"profile.readout.full_scale. must be greater than 0"),
        ("readout.noise", -1, r"profile.readout.noise. must be at least 0"),
        ("readout.bit", 8, r"profile.readout.bit. is no setting of \[readout\]; did you mean `bits`"),
        ("readot.bits", 8, r"profile.readot. is no section of a profile; did you mean `readout`"),
        ("echo.latency", "3 m", r"profile.echo.latency. must be a time"),
        ("dynamics.precision", "float8", r"profile.dynamics.precision. must be"),
        ("dynamics.substeps", 4, r"must be an odd whole number"),
        ("echo.operation", "mirror", r"must be momentum-flip or sign-flip"),
        ("drive.crosstalk", [[0, 1]], r"must be a number or a square matrix"),
    ],
    ids=str,
)
def test_settings_are_refused_by_name(path, value, message):
    with pytest.raises(ArgumentError, match=message):
        Profile().set(path, value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fabrication__dead": ["Lx"]}, "fabrication.dead. must name elements, but has 'Lx'"),
        ({"fabrication__stuck": ["Lx"]}, "fabrication.stuck. must name elements or parameters"),
        ({"fabrication__mismatch": {"Lx": 0.1}}, "fabrication.mismatch. must name elements or parameters"),
        ({"readout__unwired": ["position.n9"]}, "readout.unwired. must name channels"),
        ({"readout__full_scale": {"momentum.n9": 1.0}}, "readout.full_scale. must name channels"),
        ({"dynamics__damping": 0.1}, "the design has no element that it could apply to"),
        ({"dynamics__quality": {"u0": 10}}, "dynamics.quality. must name elements or types"),
        ({"echo__operation": "polarity-switch"}, "has no polarity to switch"),
        ({"drive__crosstalk": [[0, 0.1], [0.1, 0]]}, "must have a row for each of 1 drives"),
    ],
    ids=str,
)
def test_profiles_that_do_not_fit_are_refused(design, settings, message):
    with pytest.raises(ArgumentError, match=message):
        bench(design, **settings).run(Shot(STEPS))


def test_fixed_point_has_no_rotations():
    kerr = Netlist.load("kerr-chain").compile(steps=10)
    with pytest.raises(ArgumentError, match="must be floating point for this design"):
        bench(kerr, dynamics__precision="Q4.20")


@pytest.mark.parametrize(
    ("shot", "message"),
    [
        (lambda: Shot(0), "`steps` must be a whole number of at least 1"),
        (lambda: Shot(STEPS, {"u1": np.zeros(STEPS)}), "must name what there is, but has 'u1'; known are u0"),
        (lambda: Shot(STEPS, {"u0": np.zeros(STEPS + 1)}), "must have shape"),
        (lambda: Shot(STEPS, {"u0": np.full(STEPS, np.nan)}), "must be finite"),
        (lambda: Shot(STEPS, nudge={"y9": np.zeros(STEPS)}), "`nudge` must name what there is"),
        (lambda: Shot(STEPS, echo=True), "must follow a pass that was held"),
        (lambda: Shot(STEPS, echo=True, start=({}, {})), "`start` must be left out of an echo"),
        (lambda: Shot(STEPS, {"u0": np.zeros((STEPS, 3))}, paired=True), "even number of runs"),
        (lambda: Shot(STEPS, start=({"n9": 1.0}, {})), "`start` must name what there is"),
        (lambda: Shot(STEPS, start=({"n1": "1 V"}, {})), "must be a magnetic flux"),
        (lambda: Shot(1001, {"u0": np.zeros(1001)}), "must fit into the memory of 1000 samples"),
        (lambda: Shot(STEPS, trim={"n1": (0.1, 1.0)}), "`trim` must be left out of a pass that is no echo"),
        (lambda: Shot(STEPS, echo=True, trim={"n1": 0.1}), "`trim.n1` must be a pair of an angle and a factor"),
        (lambda: Shot(STEPS, echo=True, trim={"n1": ("1 rad", 1.0)}), "`trim.n1` must hold numbers"),
        (lambda: Shot(STEPS, echo=True, trim={"n1": (np.zeros((1, 1)), 1.0)}), "`trim.n1` must hold numbers"),
        (lambda: Shot(STEPS, echo=True, trim={"n1": (np.nan, 1.0)}), "`trim.n1` must be finite"),
        (lambda: Shot(STEPS, echo=True, trim={"n1": (0.0, 0.0)}), "`trim.n1` must have factors greater than 0"),
        (lambda: Shot(STEPS, echo=True, trim={"n9": (0.0, 1.0)}), "`trim` must name what there is, but has 'n9'"),
        (lambda: Shot(STEPS, echo=True, trim={"n1": ([0.0, 1.0], 1.0)}), "one for each of 1 chips, but has 2"),
        (lambda: Shot(STEPS, amplify=True), "`amplify` must be left out of a pass that is no echo"),
        (lambda: Shot(STEPS, echo=True, amplify=True), "this bench cannot turn its losses into gains"),
        (lambda: Shot(STEPS, ranges=[1.0]), "`ranges` must map channels to numbers, but is list"),
        (lambda: Shot(STEPS, ranges={"position.n1": 0.0}), "`ranges.position.n1` must be one number greater than 0"),
        (lambda: Shot(STEPS, ranges={"position.n1": [1.0, 1.0]}), "`ranges.position.n1` must be one number"),
        (lambda: Shot(STEPS, ranges={"position.n1": np.inf}), "`ranges.position.n1` must be finite"),
        (lambda: Shot(STEPS, ranges={"position.n9": 1.0}), "`ranges` must name what there is, but has 'position.n9'"),
        (lambda: Shot(STEPS, ranges={"position.n1": 1e3}), r"`ranges.position.n1` must be between .* Wb, but is 1000"),
    ],
)
def test_shots_are_refused_by_name(design, shot, message):
    device = bench(design, readout__memory=1000, readout__zoom=10.0)
    with pytest.raises(ArgumentError, match=message):
        device.run(shot())


def test_ranges_are_kept_within_what_the_bench_can(design):
    """Down to the full scale over the zoom, rounding forgiven; a bench without amplifiers takes none."""
    device = bench(design, readout__bits=8, readout__zoom=10.0)
    name, channel = next(iter(device.describe().channels.items()))
    step = 2 * 0.1 * channel.full_scale / 256
    codes = device.run(Shot(STEPS, ranges={name: 0.1 * channel.full_scale * (1 - 1e-12)}))[name] / step
    np.testing.assert_allclose(codes, np.round(codes), atol=1e-6)
    with pytest.raises(ArgumentError, match="must be between"):
        device.run(Shot(STEPS, ranges={name: 0.099 * channel.full_scale}))
    with pytest.raises(ArgumentError, match="the ranges of this bench are fixed"):
        bench(design, readout__bits=8).run(Shot(STEPS, ranges={name: channel.full_scale}))


def test_parameters_are_refused_by_name(design):
    device, name = bench(design), design.parameters.trainable_names[0]
    with pytest.raises(ArgumentError, match=r"must name what there is, but has 'Lx\.inductance'"):
        device.program({"Lx.inductance": 1e-9})
    with pytest.raises(ArgumentError, match="the range of the bench"):
        device.program({name: 1.0})
    with pytest.raises(ArgumentError, match="one for each of 1 chips"):
        device.program({name: [1e-9, 1e-9]})


def test_channels_that_do_not_exist_are_refused(design):
    record = bench(design, readout__unwired=["momentum.n1"]).run(Shot(STEPS))
    with pytest.raises(ArgumentError, match=r"must be one that is wired, but is 'momentum\.n1'; did you mean"):
        record["momentum.n1"]


def test_single_precision_is_refused():
    """The bench computes in doubles, and says how to get them."""
    import subprocess
    import sys

    program = (
        "from circuits.generators import ladder; from rhel_hw import EmulatedBench\n"
        "try: EmulatedBench(ladder(3).compile())\n"
        "except ValueError as problem: print(problem)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "jax_enable_x64" in out


# Playing back -------------------------------------------------------------------------------------------------------


def test_a_recorded_bench_plays_back_bit_for_bit(design, lesson, tmp_path):
    profile = Profile().set("readout.noise", 1e-3).set("readout.bits", 10)
    profile = profile.set("dynamics.quality", 30.0).set("echo.pump", True)
    learner = EchoLearner(epsilon=0.1, protocol=Reprepare(), decay=1 / (STEPS * design.step_s))
    device = RecordingBench(EmulatedBench(design, profile, seed=4))
    there = [learner.gradient(device, design, lesson) for _ in range(2)]
    file = device.save(tmp_path / "bench.npz")
    again = ReplayBench(file)
    back = [learner.gradient(again, design, lesson) for _ in range(2)]
    for one, two in zip(there, back, strict=True):
        assert (one.passes, one.seconds, one.loss) == (two.passes, two.seconds, two.loss)
        for key in one.theta:
            np.testing.assert_array_equal(one.theta[key], two.theta[key])
    with pytest.raises(ArgumentError, match="played as often as it was recorded"):
        learner.gradient(again, design, lesson)
    with pytest.raises(ArgumentError, match="was not recorded"):
        replace(learner, epsilon=0.2).gradient(ReplayBench(file), design, lesson)
    moved = {k: 1.01 * v for k, v in design.theta().items()}
    with pytest.raises(ArgumentError, match="was not recorded"):
        learner.gradient(ReplayBench(file), design, lesson, moved)


def test_only_recordings_are_played(tmp_path):
    file = tmp_path / "bench.npz"
    file.write_bytes(b"something else")
    with pytest.raises(ArgumentError, match="must be a recorded bench"):
        ReplayBench(file)


# Converters and names -------------------------------------------------------------------------------------------------


def test_a_drive_is_coded_before_it_is_amplified_and_a_reading_after():
    """Offset and noise of a generator are finer than its code; those of a digitiser are coded with the signal."""
    knobs = {"levels": jnp.asarray(16.0), "offset": jnp.asarray(0.03), "noise": jnp.asarray(0.01)}
    normals = jnp.asarray(np.random.default_rng(0).normal(size=(1000, 1, 1, 1)))
    silence = jnp.zeros((1000, 1, 1, 1))
    played, _ = play(silence, jnp.ones(()), knobs, normals)
    assert float(played.mean()) == pytest.approx(0.03, abs=0.002)
    assert float(played.std()) == pytest.approx(0.01, rel=0.1)
    seen, _ = read(silence, jnp.ones(()), knobs, normals)
    assert set(np.unique(seen)) <= {0.0, 0.125}


def test_the_narrower_name_counts(design):
    """A single parameter before its element, that before its type, whatever their order in the alphabet."""
    capacitor = next(e.name for e in design.netlist.elements if e.type == "capacitor")
    for table in ({"capacitor": 0.05, capacitor: 0.0}, {capacitor: 0.0, "capacitor": 0.05}):
        chips = bench(design, fabrication__mismatch=table)._chips
        spread = dict(zip(chips._by_name, chips._spread, strict=True))
        assert spread[f"{capacitor}.capacitance"] == 0
        assert sum(s == 0.05 for s in spread.values()) == 2
        made = bench(design, dynamics__quality={k: 10 if k == capacitor else 1000 for k in table})._made
        losses = {e.name: e.numbers.resistance for e in made.netlist.elements if e.type == "resistor"}
        values = {e.name: e.numbers.capacitance for e in made.netlist.elements if e.type == "capacitor"}
        lost = {name: losses[f"loss/{name}"] * value for name, value in values.items()}
        assert min(lost, key=lost.get) == capacitor
        assert sorted(lost.values())[1] == pytest.approx(100 * lost[capacitor])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nudge__full_scale": {"nope": 1e-9, "n2": 1e-9}}, "must name channels, but has 'nope'"),
        ({"nudge__full_scale": {"nope": 1e-9}}, "must name all targets"),
        ({"fabrication__mismatch": {"Cn9": 0.1}}, "must name elements or parameters, but has 'Cn9'"),
        ({"drive__shared_noise": "off"}, "must be true or false"),
    ],
)
def test_names_and_switches_are_checked_at_once(design, settings, message):
    with pytest.raises(ArgumentError, match=message):
        bench(design, **settings)


def test_long_records_of_few_channels_are_no_trouble():
    """What is not read takes no memory."""
    design = ladder(100).compile(steps=STEPS)
    bench(design)._checked(Shot(4_000_000, channels=("position.n0",)))
    with pytest.raises(ArgumentError, match="run fewer at once"):
        bench(design)._checked(Shot(4_000_000))


def test_shots_that_are_the_same_are_known_as_such():
    def apart(shot, other, parameters=(), others=()):
        return difference(shot, dict(parameters), other, dict(others))

    played = Shot(5, {"u": np.arange(5.0)})
    echo = Shot(5, echo=True)
    for one, two in (
        (Shot(5), Shot(np.int64(5))),
        (Shot(5, start=({"a": 0.5}, {})), Shot(5, start=({"a": np.float64(0.5)}, {}))),
        (played, Shot(5, {"u": np.arange(5.0) * (1 + 1e-15), "v": np.zeros(5)})),  # silence need not be told
        (replace(echo, trim={"a": (0, 1)}), replace(echo, trim={"a": (np.zeros(1), 1.0)})),
    ):
        assert apart(one, two) is None
    others = (replace(echo, amplify=True), replace(echo, trim={"a": (0, 1)}), replace(echo, trim={"a": (0, 2)}))
    others += (replace(echo, ranges={"position.a": 1.0}), replace(echo, ranges={"position.a": 2.0}))
    others += (replace(echo, channels=()), Shot(5), Shot(6), Shot(5, start=({}, {})), Shot(5, start=({"a": "1 V"}, {})))
    others += (played, Shot(5, {"u": np.arange(5.0) * (1 + 1e-8)}), Shot(5, {"u": np.zeros((5, 2))}))
    for i, one in enumerate((echo, *others)):
        for two in others[i:]:
            assert apart(one, two) is not None
    assert apart(echo, others[0]) == "`amplify`"
    assert apart(played, Shot(5)) == "`drive.u`"
    assert apart(echo, echo, {"x": 1.0}, {"x": 1.1}) == apart(echo, echo, {"x": 1.0}) == "`parameters.x`"
    assert apart(echo, echo, {"x": 1.0}, {"x": np.ones(1)}) is None


@pytest.mark.parametrize("targets", [np.zeros(5), np.zeros((5, 3)), np.zeros((4, 2))])
def test_lessons_have_as_many_stimuli_as_answers(targets):
    with pytest.raises(ArgumentError, match=r"`(targets|drive)` must have"):
        Lesson({"u": np.zeros((5, 2))}, {"y": targets}, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: EmulatedBench(d, "bench-8bit"), "`profile` must be a Profile, as Profile.load"),
        (lambda d: EmulatedBench(d.netlist), "must be compiled, .* but is a Netlist"),
        (lambda d: Shot(5, start={"a": 1.0}), "`start` must be a pair of positions and momenta"),
        (lambda d: Shot(5, {"u0": "1 mA"}), "`drive.u0` must be real numbers in SI"),
        (lambda d: Shot(5, {"u0": np.zeros(5, complex)}), "`drive.u0` must be real numbers in SI"),
        (lambda d: Shot(5, channels="position.n0"), "`channels` must be several names"),
        (lambda d: EmulatedBench(d).program({d.parameters.trainable_names[0]: "1 uH"}), "must be numbers in SI"),
    ],
)
def test_mistakes_of_a_first_user(design, make, message):
    with pytest.raises(ArgumentError, match=message):
        make(design)


def test_ranges_of_drives_are_told(design):
    told = bench(design, drive__bits=8).describe()
    assert told.ranges["drive.u0"] > 0
    assert not bench(design).describe().ranges

"""The model that calibration fits, against benches whose chips are known."""

import jax.numpy as jnp
import numpy as np
import pytest

from calibration.model import QUALITY, Model
from calibration.probe import Probe
from circuits import Netlist
from rhel_hw.lossy import typical_rate
from tests.calibration.chips import bench_of, true_unknowns
from tests.systems import quick_or_slow

GALLERY = ("lc-toy", "josephson-ladder", "kerr-chain", "ring-lattice", "spin-chain", "vortex-array", "mixed")


@pytest.mark.parametrize("name", quick_or_slow(GALLERY, {"lc-toy"}))
def test_with_the_true_values_it_reads_what_the_bench_reads(name):
    """Mismatch, losses, gain and offset of drives; without converters of the readout, to rounding."""
    design = Netlist.load(name).compile(steps=40)
    light = any("intrinsic_q" in e.parameters for e in design.netlist.elements)
    loss = {"linewidth": typical_rate(design) / (2 * np.pi * 300)} if light else {"quality": 300.0}
    drive = {"bits": 8, "full_scale": 2.0, "gain": 1.02, "offset": 0.01}
    bench = bench_of(design, dynamics=loss, readout={}, drive=drive)
    model = Model.of(design, bench.describe())
    x, count = true_unknowns(bench, model, QUALITY / 300, (1.02, 0.01, 0.0)), len(model.drives)
    channels, rng = bench.describe().channels, np.random.default_rng(0)
    waves = rng.integers(-10, 11, (40, count, 2)) / 32 * model.drive_scales[:, None]  # codes of eight bits
    start = tuple(
        {n: 0.3 * channels[f"{kind}.{n}"].full_scale for n in bench.describe().nodes if f"{kind}.{n}" in channels}
        for kind in ("position", "momentum")
    )
    found = Probe(bench, model).records("truth", waves, [start])
    expected = np.asarray(model.simulated(jnp.asarray(x), found.given))
    assert np.max(np.abs(found.read)) > 0.1
    np.testing.assert_allclose(np.where(found.used, expected, 0.0), np.where(found.used, found.read, 0.0), atol=1e-11)

"""Data sets of sweeps that never ran, made from known laws.

The error of a gradient is noise(bits, readout noise) / γ + bias · γ²; its cosine that of an error at a right angle.
"""

import numpy as np
import xarray as xr

BITS, NOISE, GAMMA, SEED = "profile.readout.bits", "profile.readout.noise", "learning.gamma", "seed"
BIAS = 2e-6
GAMMAS = tuple(float(x) for x in np.logspace(0, 3, 7))
AXES = {
    BITS: ("resolution of the readout", "bits"),
    NOISE: ("noise of the readout", "full scales"),
    GAMMA: ("nudging strength γ", ""),
    SEED: ("seed", ""),
}
OUTCOMES = {
    "cosine": ("cosine to the exact gradient", ""),
    "norm_ratio": ("norm over that of the exact gradient", ""),
    "error": ("relative error of the gradient", ""),
    "energy": ("energy per gradient", "J"),
    "device_seconds": ("time on the device", "s"),
}
DESIGN = """[design]
name = "six coupled LC oscillators"

[profile.readout]
full_scale = 2.0

[learning]
epsilon = 0.01

[sweep.axes]
"profile.readout.bits" = [4, 6, 8, 10, 12]
"""


def noise_of(bits, noise):
    """Factor of 1/γ in the error."""
    return 40.0 * np.hypot(2.0**-bits / 12**0.5, noise)


def outcomes(bits, noise, gamma, spread):
    """What a point gives, by the law; `spread` is the logarithm of its luck."""
    error = (noise_of(bits, noise) / gamma + BIAS * gamma**2) * np.exp(spread)
    energy = 1e-12 * 2.0**bits * (1 + 1e-3 / np.maximum(noise, 1e-5))
    return {
        "cosine": 1 / np.hypot(1, error),
        "norm_ratio": np.hypot(1, error),
        "error": error,
        "energy": energy + 0 * error,
        "device_seconds": 4e-6 + 0 * error,
    }


def grid(bits=(4, 6, 8, 10, 12), noise=(1e-4, 1e-3, 1e-2), gamma=GAMMAS, seeds=5, spread=0.2):
    """A grid; all axes are dimensions."""
    values = dict(zip(AXES, (bits, noise, gamma, range(seeds)), strict=True))
    shape = tuple(len(v) for v in values.values())
    luck = spread * np.random.default_rng(1).normal(size=shape)
    mesh = np.meshgrid(*[np.asarray(v, float) for v in list(values.values())[:3]], range(seeds), indexing="ij")
    return _labelled(
        xr.Dataset(
            {n: (tuple(AXES), v) for n, v in outcomes(*mesh[:3], luck).items()}, {n: list(v) for n, v in values.items()}
        )
    )


def sampled(count=300):
    """Settings at random; one dimension, `point`."""
    rng = np.random.default_rng(2)
    bits, noise, gamma = (
        rng.integers(4, 13, count).astype(float),
        10 ** rng.uniform(-4, -2, count),
        10 ** rng.uniform(0, 3, count),
    )
    found = outcomes(bits, noise, gamma, 0.1 * rng.normal(size=count))
    coordinates = {BITS: ("point", bits), NOISE: ("point", noise), GAMMA: ("point", gamma)}
    return _labelled(xr.Dataset({n: ("point", v) for n, v in found.items()}, coordinates))


def _labelled(ds):
    for name, (words, unit) in {**AXES, **OUTCOMES}.items():
        if name in ds:
            ds[name].attrs.update(long_name=words, units=unit)
    versions = '{"rhel-hw": "0.1.0", "jax": "0.6.0"}'
    return ds.assign_attrs(name="six coupled LC oscillators", design=DESIGN, versions=versions)

"""Emulation and learning. Names load on first use, so that the command line starts without JAX."""

from typing import TYPE_CHECKING

from devices.lazy import lazy

if TYPE_CHECKING:
    from rhel_hw.baselines import BPTT
    from rhel_hw.excitation import band_limited
    from rhel_hw.integrators import Integrator, Leapfrog, Yoshida4, Yoshida6
    from rhel_hw.losses import FinalMSE, TrajectoryMSE, target_rows
    from rhel_hw.rhel import RHEL, Centred, Gradient, MomentumFlip, OneSided, Problem, RHELLimit, Richardson, SignFlip
    from rhel_hw.simulation import (
        Audit,
        DivergedError,
        Keep,
        Trajectory,
        return_error,
        reverse,
        simulate,
        simulate_design,
    )

__getattr__ = lazy(
    __name__,
    {
        "rhel_hw.baselines": ("BPTT",),
        "rhel_hw.excitation": ("band_limited",),
        "rhel_hw.integrators": ("Integrator", "Leapfrog", "Yoshida4", "Yoshida6"),
        "rhel_hw.losses": ("FinalMSE", "TrajectoryMSE", "target_rows"),
        "rhel_hw.rhel": (
            "RHEL",
            "Centred",
            "Gradient",
            "MomentumFlip",
            "OneSided",
            "Problem",
            "RHELLimit",
            "Richardson",
            "SignFlip",
        ),
        "rhel_hw.simulation": (
            "Audit",
            "DivergedError",
            "Keep",
            "Trajectory",
            "return_error",
            "reverse",
            "simulate",
            "simulate_design",
        ),
    },
)

__all__ = [
    "BPTT",
    "RHEL",
    "Audit",
    "Centred",
    "DivergedError",
    "FinalMSE",
    "Gradient",
    "Integrator",
    "Keep",
    "Leapfrog",
    "MomentumFlip",
    "OneSided",
    "Problem",
    "RHELLimit",
    "Richardson",
    "SignFlip",
    "Trajectory",
    "TrajectoryMSE",
    "Yoshida4",
    "Yoshida6",
    "band_limited",
    "return_error",
    "reverse",
    "simulate",
    "simulate_design",
    "target_rows",
]

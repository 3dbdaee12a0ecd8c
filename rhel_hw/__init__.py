"""Emulation and learning. Names load on first use, so that the command line starts without JAX."""

from typing import TYPE_CHECKING

from devices.lazy import lazy

if TYPE_CHECKING:
    from devices import DivergedError
    from rhel_hw.baselines import BPTT, SPSA, Adjoint, FiniteDifferences, RHELLimit, ShuffledCredit, ThroughTime
    from rhel_hw.bench import Bench, Record, Shot
    from rhel_hw.bench_recurrence import BenchCircuit
    from rhel_hw.blackbox import BlackBox, FreeFlight, KnobMomentum
    from rhel_hw.continuous import ContinuousAdjoint, ContinuousProblem, ContinuousRHEL
    from rhel_hw.emulated import EmulatedBench
    from rhel_hw.exact import Exact
    from rhel_hw.excitation import band_limited
    from rhel_hw.fitting import EchoChaining, Fitted, Fitting, Parts
    from rhel_hw.heb import HEB
    from rhel_hw.hssm import HSSM
    from rhel_hw.instrument.remote import RemoteBench
    from rhel_hw.integrators import Integrator, Leapfrog, Yoshida4, Yoshida6
    from rhel_hw.layers import Echoes
    from rhel_hw.learner import EchoLearner, Measured, OnBench
    from rhel_hw.lessons import Lesson
    from rhel_hw.losses import FinalMSE, Loss, PooledCrossEntropy, TrajectoryMSE, targets_of
    from rhel_hw.ngspice import NgspiceBench
    from rhel_hw.nudging import Recorded, SelfConsistent
    from rhel_hw.operations import Centred, Hold, MomentumFlip, OneSided, Reprepare, Richardson, SignFlip
    from rhel_hw.problem import Gradient, OnProblem, Problem
    from rhel_hw.profile import Profile
    from rhel_hw.propagation import Keep
    from rhel_hw.recipes import Recipe
    from rhel_hw.records.folder import FolderBench
    from rhel_hw.recurrences import Circuit, LinearRow, NonlinearRow
    from rhel_hw.replay import Recording, RecordingBench, ReplayBench
    from rhel_hw.rhel import RHEL
    from rhel_hw.runtime import configure
    from rhel_hw.simulation import Audit, Trajectory, return_error, reverse, simulate, simulate_design
    from rhel_hw.tasks import Teacher
    from rhel_hw.training import Trained, Training
    from rhel_hw.validity import Validity

__getattr__ = lazy(
    __name__,
    {
        "rhel_hw.baselines": (
            "BPTT",
            "SPSA",
            "Adjoint",
            "FiniteDifferences",
            "RHELLimit",
            "ShuffledCredit",
            "ThroughTime",
        ),
        "rhel_hw.bench": ("Bench", "Record", "Shot"),
        "rhel_hw.bench_recurrence": ("BenchCircuit",),
        "rhel_hw.blackbox": ("BlackBox", "FreeFlight", "KnobMomentum"),
        "rhel_hw.continuous": ("ContinuousAdjoint", "ContinuousProblem", "ContinuousRHEL"),
        "rhel_hw.emulated": ("EmulatedBench",),
        "rhel_hw.exact": ("Exact",),
        "rhel_hw.excitation": ("band_limited",),
        "rhel_hw.fitting": ("EchoChaining", "Fitted", "Fitting", "Parts"),
        "rhel_hw.heb": ("HEB",),
        "rhel_hw.hssm": ("HSSM",),
        "rhel_hw.instrument.remote": ("RemoteBench",),
        "rhel_hw.integrators": ("Integrator", "Leapfrog", "Yoshida4", "Yoshida6"),
        "rhel_hw.layers": ("Echoes",),
        "rhel_hw.learner": ("EchoLearner", "Measured", "OnBench"),
        "rhel_hw.lessons": ("Lesson",),
        "rhel_hw.losses": ("FinalMSE", "Loss", "PooledCrossEntropy", "TrajectoryMSE", "targets_of"),
        "rhel_hw.nudging": ("Recorded", "SelfConsistent"),
        "rhel_hw.operations": ("Centred", "Hold", "MomentumFlip", "OneSided", "Reprepare", "Richardson", "SignFlip"),
        "rhel_hw.problem": ("Gradient", "OnProblem", "Problem"),
        "rhel_hw.profile": ("Profile",),
        "rhel_hw.recipes": ("Recipe",),
        "rhel_hw.ngspice": ("NgspiceBench",),
        "rhel_hw.recurrences": ("Circuit", "LinearRow", "NonlinearRow"),
        "rhel_hw.records.folder": ("FolderBench",),
        "rhel_hw.replay": ("Recording", "RecordingBench", "ReplayBench"),
        "rhel_hw.rhel": ("RHEL",),
        "rhel_hw.runtime": ("configure",),
        "devices": ("DivergedError",),
        "rhel_hw.propagation": ("Keep",),
        "rhel_hw.simulation": (
            "Audit",
            "Trajectory",
            "return_error",
            "reverse",
            "simulate",
            "simulate_design",
        ),
        "rhel_hw.tasks": ("Teacher",),
        "rhel_hw.training": ("Trained", "Training"),
        "rhel_hw.validity": ("Validity",),
    },
)

__all__ = [
    "BPTT",
    "HEB",
    "HSSM",
    "RHEL",
    "SPSA",
    "Adjoint",
    "Audit",
    "Bench",
    "BenchCircuit",
    "BlackBox",
    "Centred",
    "Circuit",
    "ContinuousAdjoint",
    "ContinuousProblem",
    "ContinuousRHEL",
    "DivergedError",
    "EchoChaining",
    "EchoLearner",
    "Echoes",
    "EmulatedBench",
    "Exact",
    "FinalMSE",
    "FiniteDifferences",
    "Fitted",
    "Fitting",
    "FolderBench",
    "FreeFlight",
    "Gradient",
    "Hold",
    "Integrator",
    "Keep",
    "KnobMomentum",
    "Leapfrog",
    "Lesson",
    "LinearRow",
    "Loss",
    "Measured",
    "MomentumFlip",
    "NgspiceBench",
    "NonlinearRow",
    "OnBench",
    "OnProblem",
    "OneSided",
    "Parts",
    "PooledCrossEntropy",
    "Problem",
    "Profile",
    "RHELLimit",
    "Recipe",
    "Record",
    "Recorded",
    "Recording",
    "RecordingBench",
    "RemoteBench",
    "ReplayBench",
    "Reprepare",
    "Richardson",
    "SelfConsistent",
    "Shot",
    "ShuffledCredit",
    "SignFlip",
    "Teacher",
    "ThroughTime",
    "Trained",
    "Training",
    "Trajectory",
    "TrajectoryMSE",
    "Validity",
    "Yoshida4",
    "Yoshida6",
    "band_limited",
    "configure",
    "return_error",
    "reverse",
    "simulate",
    "simulate_design",
    "targets_of",
]


def __dir__() -> list[str]:
    return __all__

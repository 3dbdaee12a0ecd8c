"""The sections `learning`, `task` and `training` of a design file, read into the objects they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from circuits import DesignError, Netlist
from circuits.findings import Finding, error
from devices import ArgumentError, nearest
from rhel_hw.bench import Description
from rhel_hw.choices import Choices
from rhel_hw.learner import EchoLearner
from rhel_hw.nudging import Recorded, SelfConsistent
from rhel_hw.operations import Centred, Hold, MomentumFlip, OneSided, Reprepare, Richardson, SignFlip
from rhel_hw.profile import Profile, ProfileError
from rhel_hw.rhel import RHEL
from rhel_hw.tasks import Teacher
from rhel_hw.training import Training

CHOICES: Mapping[str, Mapping[str, Any]] = {
    "stencil": {"centred": Centred(), "one-sided": OneSided(), "richardson": Richardson()},
    "operation": {"momentum-flip": MomentumFlip(), "sign-flip": SignFlip()},
    "nudging": {"recorded": Recorded(), "self-consistent": SelfConsistent()},
    "protocol": {"hold": Hold(), "re-prepare": Reprepare()},
}
"""Names of the choices of echo learning in files and on the command line."""

TASKS = {"teacher": Teacher}


BENCH_ONLY = ("shots", "decay")
"""Settings that mean something on a bench only: an ideal circuit loses nothing, and all its shots are alike."""
IDEAL_ONLY = ("operation", "nudging")
"""Settings of the ideal circuit: a bench makes its echo as its profile says, and nudges are recorded."""


def learning(netlist: Netlist, changes: Mapping[str, Any] | None = None) -> RHEL:
    """The learner that a design asks for, with some settings changed by name."""
    keys = [f.name for f in fields(RHEL)]
    learner: RHEL = _read("learning", netlist, changes, [*keys, *BENCH_ONLY], _learner)
    return learner


def bench_learning(
    netlist: Netlist, bench: Profile | Description, changes: Mapping[str, Any] | None = None
) -> EchoLearner:
    """The same for a bench: what it recommends counts where neither design nor changes say otherwise."""
    own = netlist.settings.get("learning", {})
    operation = bench.echo.operation if isinstance(bench, Profile) else bench.operation
    given = {**dict(bench.learning), **own, **{k: v for k, v in (changes or {}).items() if v is not None}}
    for key, default in (("operation", "momentum-flip"), ("nudging", "recorded")):
        if given.get(key, default) != default and not (key == "operation" and given[key] == operation):
            reason = f"{given[key]!r} is for the ideal circuit: on a bench echoes are made as its profile says"
            raise DesignError([error(f"learning.{key}", reason, "remove it, or set profile.echo.operation")])
    kept = {k: v for k, v in given.items() if k not in IDEAL_ONLY}
    keys = [f.name for f in fields(EchoLearner)]
    learner: EchoLearner = _read("learning", netlist.replace(settings={}), kept, keys, _bench_learner)
    return learner


def profile(netlist: Netlist, source: str | None = None, changes: Mapping[str, str] | None = None) -> Profile:
    """The profile that a design asks for, or the one of a file or preset, with some settings changed by path."""
    try:
        found = Profile.load(source) if source is not None else Profile.of(netlist.settings.get("profile", {}))
        for path, value in (changes or {}).items():
            found = found.set(path, value)
    except ProfileError as problem:
        raise DesignError(
            [error(f"profile.{problem.key}", problem.reason, "see `rhel-hw profiles --settings`")]
        ) from None
    return found


def task(netlist: Netlist, changes: Mapping[str, Any] | None = None) -> Teacher:
    """The task that a design asks for, with some settings changed by name."""
    found: Teacher = _read("task", netlist, changes, ["type", *(f.name for f in fields(Teacher))], _task)
    return found


def training(netlist: Netlist, changes: Mapping[str, Any] | None = None) -> Training:
    """The training that a design asks for, with some settings changed by name."""
    found: Training = _read(
        "training", netlist, changes, [f.name for f in fields(Training)], lambda given: Training(**given)
    )
    return found


def described(learner: Choices) -> dict[str, Any]:
    """A learner as a design file would have it."""
    given = {f.name: getattr(learner, f.name) for f in fields(learner)}
    names = {key: {v: k for k, v in choices.items()} for key, choices in CHOICES.items()}
    return {k: names[k][v] if k in names else v for k, v in given.items()}


def _read(
    section: str, netlist: Netlist, changes: Mapping[str, Any] | None, keys: list[str], build: Callable[..., Any]
) -> Any:
    given = {**netlist.settings.get(section, {}), **{k: v for k, v in (changes or {}).items() if v is not None}}
    findings: list[Finding] = [
        error(f"{section}.{k}", f"is no key of [{section}]{nearest(k, keys)}", "remove or rename it")
        for k in given
        if k not in keys
    ]
    if findings:
        raise DesignError(findings)
    try:
        return build(given)
    except DesignError:
        raise
    except ArgumentError as problem:
        about = re.match(r"Argument `(\w+)` (.*)", str(problem), re.DOTALL)
        path, reason = (f"{section}.{about[1]}", about[2]) if about else (section, str(problem))
        raise DesignError([error(path, reason, f"see [{section}] in docs/reference/design-file.md")]) from None


def _learner(given: dict[str, Any]) -> RHEL:
    _bench_learner({k: v for k, v in given.items() if k in BENCH_ONLY})
    return RHEL(**_chosen({k: v for k, v in given.items() if k not in BENCH_ONLY}))


def _bench_learner(given: dict[str, Any]) -> EchoLearner:
    return EchoLearner(**_chosen(given))


def _chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _choice("learning", k, v) if k in CHOICES else v for k, v in given.items()}


def _choice(section: str, key: str, name: Any) -> Any:
    choices = CHOICES[key]
    if not isinstance(name, str) or name not in choices:
        raise DesignError(
            [
                error(
                    f"{section}.{key}",
                    f"{name!r} is none of {', '.join(choices)}{nearest(str(name), choices, listed=True)}",
                    "choose one",
                )
            ]
        )
    return choices[name]


def _task(given: dict[str, Any]) -> Teacher:
    kind = given.pop("type", "teacher")
    if not isinstance(kind, str) or kind not in TASKS:
        raise DesignError([error("task.type", f"{kind!r} is no task{nearest(str(kind), TASKS)}", "choose teacher")])
    return TASKS[kind](**given)

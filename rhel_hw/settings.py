"""The sections `learning`, `task` and `training` of a design file, read into the objects they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from circuits import DesignError, Netlist
from circuits.findings import Finding, error
from devices import ArgumentError, nearest
from rhel_hw.nudging import Recorded, SelfConsistent
from rhel_hw.operations import Centred, Hold, MomentumFlip, OneSided, Reprepare, Richardson, SignFlip
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


def learning(netlist: Netlist, changes: Mapping[str, Any] | None = None) -> RHEL:
    """The learner that a design asks for, with some settings changed by name."""
    learner: RHEL = _read("learning", netlist, changes, [f.name for f in fields(RHEL)], _learner)
    return learner


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


def described(learner: RHEL) -> dict[str, Any]:
    """A learner as a design file would have it."""
    given = {f.name: getattr(learner, f.name) for f in fields(RHEL)}
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
        text = re.sub(r"^Argument `(\w+)`", r"\1:", str(problem))
        key, _, reason = text.partition(": ")
        raise DesignError([error(f"{section}.{key}", reason, f"see [{section}] in the README")]) from None


def _learner(given: dict[str, Any]) -> RHEL:
    chosen = {k: _choice("learning", k, v) if k in CHOICES else v for k, v in given.items()}
    return RHEL(**chosen)


def _choice(section: str, key: str, name: Any) -> Any:
    choices = CHOICES[key]
    if not isinstance(name, str) or name not in choices:
        raise DesignError(
            [
                error(
                    f"{section}.{key}",
                    f"{name!r} is none of {', '.join(choices)}{nearest(str(name), choices)}",
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

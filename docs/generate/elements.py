"""The element reference: every kind of element, drive and detector, as the registry has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from devices import DETECTORS, DRIVES, ELEMENTS
from devices.catalogue import CATALOGUE
from docs.generate.formulas import html
from rhel_hw.cli.elements import describe, snippet

BEGIN = """# Elements

Written from the registry of `devices`; `rhel-hw elements TYPE` prints the same. How the formulas follow is in
[Physics](../physics.md); a new element takes one class ([how](../guides/element.md)).

Parameters are written with their units, `"40 nH"`; other units of the same dimension are converted. Those in **bold**
are what `trainable = true` means. "Order of magnitude" marks typical values that nobody looked up.
"""
TOLD = {"loss": "Loss", "limits": "Limits", "watched": "Watched", "reversal": "Echo", "refused": "Refused"}


def page() -> str:
    """The page."""
    parts = [BEGIN]
    for domain in dict.fromkeys(_domain(cls) for cls in ELEMENTS.values()):
        kinds = {name: cls for name, cls in ELEMENTS.items() if _domain(cls) == domain}
        parts += [f"## {domain.capitalize()}", *(_entry(name, cls) for name, cls in kinds.items())]
    others: dict[str, Mapping[str, Any]] = {"drive": DRIVES, "detector": DETECTORS}
    for what, classes in others.items():
        parts += [f"## {what.capitalize()}s", *(_entry(f"{name} {what}", cls) for name, cls in classes.items())]
    return "\n\n".join(parts) + "\n"


def _domain(cls: Any) -> str:
    return cls.domain.name if cls.domain else "any domain"


def _entry(name: str, cls: Any) -> str:
    item = describe(cls)
    parts = [f"### {name}", item["summary"]]
    formulas = item["energy"] or item["signal"]
    if formulas:
        lines = "<br>".join(html(line) for line in formulas.split("; "))
        parts.append(f'<p class="formula">{lines}</p>')
    if item["parameters"]:
        parts.append(_parameters(item["parameters"], {n for n, p in cls.parameters.items() if p.knob}))
    told = [f"{words}: {item[key]}" for key, words in TOLD.items() if item[key]]
    if getattr(cls, "refusal", None) is not None:
        told.append(f"Instead: {cls.refusal.remedy}")
    presets = [f"`{key}` ({preset.summary})" for key, preset in CATALOGUE.items() if preset.type == cls.type]
    if presets and "drive" not in name and "detector" not in name:
        told.append(f"Presets: {', '.join(presets)}")
    parts.append("\n".join(f"- {_plain(line)}" for line in told))
    if not item["refused"]:
        parts.append(f"```toml\n{snippet(name, cls)}\n```")
    return "\n\n".join(part for part in parts if part)


def _parameters(parameters: Mapping[str, Mapping[str, Any]], knobs: set[str]) -> str:
    rows = ["| parameter | unit | meaning | must be | default | typical |", "|---|---|---|---|---|---|"]
    for name, p in parameters.items():
        label = f"**`{name}`**" if name in knobs else f"`{name}`"
        default = "–" if p["default"] is None else f"{p['default']:g}" if p["default"] != "inf" else "∞"
        cells = (label, _unit(p["unit"] or ""), p["meaning"], p["range"], default, p["typical"])
        rows.append("| " + " | ".join(_plain(str(c)).replace("|", "\\|") for c in cells) + " |")
    return "\n".join(rows)


def _unit(unit: str) -> str:
    """A unit as people write it; files have `**3` for a power."""
    return re.sub(r"\*\*(\d)", lambda power: "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(power[1])], unit)


def _plain(text: str) -> str:
    """Text in which Markdown finds no emphasis where the code has products and indices."""
    return text if "`" in text else text.replace("*", "\\*").replace("_", "\\_")

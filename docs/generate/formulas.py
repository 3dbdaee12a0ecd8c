"""Formulas as HTML: the code has them in plain Unicode, such as E_J(1 − cos 2πφ/Φ₀)."""

from __future__ import annotations

import re
from html import escape

TOKEN = re.compile(
    r"_(?P<below>\(.*?\)|eff|\w|∥)"
    r"|\^(?P<above>\{.*?\}|\w)"
    r"|(?P<word>[a-z]{2,}|[A-Z][a-z]{2,}|Re)"
    r"|(?P<symbol>[A-Za-zα-ωΑ-Ωϕħℏ𝓛]′?)"
)
"""An index, a power, a word (also sin, cos, log), or a symbol that stands for a quantity."""


def html(text: str) -> str:
    """One formula, with quantities in italics, indices below and powers above the line."""
    return TOKEN.sub(_set, escape(text, quote=False))


def _set(match: re.Match[str]) -> str:
    kind, text = match.lastgroup, match[match.lastgroup or 0]
    match kind:
        case "below":
            return f"<sub>{text.strip('()')}</sub>"
        case "above":
            return f"<sup>{html(text.strip('{}'))}</sup>"
        case "symbol":
            return f"<i>{text}</i>"
        case _:
            return text

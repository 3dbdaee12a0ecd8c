"""The picture that explains the whole flow: drawn by hand, but for the curves, which are those of the concepts page."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, HEIGHT = 1000, 560
INK, MUTED, LINE, LEARNS = "#1a1a1a", "#57606a", "#8c959f", "#c04000"
FREE, ECHO, PLUS, MINUS, WANTED = "#0072B2", "#777777", "#D55E00", "#009E73", "#b0b0b0"
BOX = "#f6f8fa"
BOLD = 'font-weight="bold"'
FORMULA = 'font-family="Georgia, \'DejaVu Serif\', serif" font-style="italic"'


def draw(names: dict[str, Any]) -> str:
    """The picture as SVG, on a light card, so that it can be read on any background."""
    body = "\n".join([_panels(), _netlist(), _energy(), _bench(), _curves(names), _gradient(), _ends()])
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"
 font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="14" fill="{INK}">
<title>From a drawn circuit to its energy, a bench, echoes, the gradient, and the hand-over</title>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8Z" fill="{LINE}"/></marker></defs>
<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10" fill="#ffffff" stroke="#d0d7de"/>
{body}
</svg>
"""


def _text(
    x: float, y: float, words: str, size: int = 14, fill: str = INK, *, anchor: str = "middle", extra: str = ""
) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" {extra}>{words}</text>'


def _left(x: float, y: float, words: str, size: int = 13, fill: str = MUTED, extra: str = "") -> str:
    return _text(x, y, words, size, fill, anchor="start", extra=extra)


def _panel(x: float, y: float, width: float, height: float, number: int, title: str) -> str:
    return "\n".join((
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{BOX}" stroke="#d0d7de"/>',
        f'<circle cx="{x + 20}" cy="{y + 20}" r="11" fill="{INK}"/>',
        _text(x + 20, y + 25, str(number), 13, "#ffffff", extra=BOLD),
        _left(x + 38, y + 25, title, 15, INK, BOLD),
    ))  # fmt: skip


def _arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="2" marker-end="url(#arrow)"/>'


def _panels() -> str:
    return "\n".join((
        _panel(20, 20, 270, 160, 1, "draw a circuit"),
        _panel(330, 20, 300, 160, 2, "it becomes an energy"),
        _panel(670, 20, 310, 160, 3, "and a device on a bench"),
        _panel(370, 215, 610, 215, 4, "which runs, is turned round, and echoes"),
        _panel(20, 215, 310, 215, 5, "echoes differ by the gradient"),
        _panel(20, 465, 460, 78, 6, "what does it need?"),
        _panel(520, 465, 460, 78, 7, "hand it over"),
        _arrow("M292 100H326"), _arrow("M632 100H666"), _arrow("M825 182V211"), _arrow("M368 322H334"),
        _arrow("M250 432V461"), _arrow("M482 504H516"),
        f'<path d="M155 213V190" fill="none" stroke="{LEARNS}" stroke-width="2.5" stroke-dasharray="5 4"/>',
        f'<path d="M155 182L149 193H161Z" fill="{LEARNS}"/>',
    ))  # fmt: skip


def _wires(path: str, colour: str = INK, width: float = 1.7) -> str:
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def _tank(x: float, y: float) -> str:
    """A coil and a capacitor side by side, from a node down to ground."""
    coil = "a5 5 0 0 1 0 10" * 4
    left, right = x - 14, x + 14
    return "\n".join((
        _wires(f"M{left} {y}H{right}M{left} {y}V{y + 6}{coil}V{y + 52}H{right}"),
        _wires(f"M{right} {y}V{y + 22}M{right - 10} {y + 22}h20M{right - 10} {y + 29}h20M{right} {y + 29}V{y + 52}"),
        _wires(f"M{x} {y + 52}v8m-9 0h18m-14 4h10"),
    ))  # fmt: skip


def _netlist() -> str:
    coil = "a6 6 0 0 1 12 0" * 4
    return "\n".join((
        _tank(100, 92), _tank(210, 92),
        _wires(f"M100 92V82H131{coil}H210V92", LEARNS, 2.4),
        f'<circle cx="50" cy="122" r="12" fill="none" stroke="{INK}" stroke-width="1.7"/>',
        _wires("M50 110V82H100M50 134V152m-9 0h18m-14 4h10M50 128V117M46 121L50 116L54 121"),
        _text(155, 66, "θ, may be trained", 12, LEARNS),
        _text(36, 104, "u", extra='font-style="italic"'),
        _text(256, 96, "target", 12, MUTED),
        _wires("M214 92H232", MUTED), '<circle cx="210" cy="92" r="3.5"/>',
    ))  # fmt: skip


def _energy() -> str:
    return "\n".join((
        _text(480, 82, "H = T(p; θ) + V(q; θ, u)", 19, extra=FORMULA),
        _text(480, 112, "separable? even in p? stable? seen by its probes?", 12, MUTED),
        _text(480, 138, "If not: which element, why,", 13),
        _text(480, 156, "and what to use instead.", 13),
    ))  # fmt: skip


def _bench() -> str:
    parts = [_arrow("M761 92H779"), _arrow("M869 92H885")]
    for x, width, words, below in (
        (690, 70, "DAC", "bits, jitter"), (782, 86, "device", "loss, mismatch"), (888, 70, "ADC", "bits, noise"),
    ):  # fmt: skip
        parts += [
            f'<rect x="{x}" y="72" width="{width}" height="40" rx="5" fill="#ffffff" stroke="{INK}"/>',
            _text(x + width / 2, 97, words),
            _text(x + width / 2, 130, below, 11, MUTED),
        ]
    parts.append(_text(825, 160, "emulated, over SCPI, in ngspice, or from files", 12, MUTED))
    return "\n".join(parts)


def _curves(names: dict[str, Any]) -> str:
    """The free pass, what was wanted, and the two echoes; nudges are those of the concepts page."""
    left, middle, right, base, height = 390.0, 675.0, 960.0, 332.0, 52.0
    scale = height / max(np.max(np.abs(names[n])) for n in ("free", "wanted", "plus", "minus"))
    there = np.linspace(left, middle, names["steps"])
    back = there + (right - left) / 2

    def line(x: Any, y: Any, colour: str, width: float, dash: str = "") -> str:
        points = " ".join(f"{a:.1f},{base - scale * b:.1f}" for a, b in zip(x[::2], y[::2], strict=True))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'

    return "\n".join((
        line(there, names["wanted"], WANTED, 4), line(there, names["free"], FREE, 2),
        line(back, names["plus"], PLUS, 2), line(back, names["minus"], MINUS, 2),
        line(back, names["echo"], ECHO, 1.4, "3 3"),
        f'<path d="M{middle} 268V400" stroke="{INK}" stroke-width="1.3" stroke-dasharray="4 3"/>',
        _text(middle, 262, "flip p", 12),
        _left(410, 280, "free pass", fill=FREE), _left(490, 280, "wanted", fill="#777777"),
        _left(755, 262, "echo nudged by +ε times the error,", fill=PLUS), _left(755, 279, "and by −ε", fill=MINUS),
        _left(395, 416, "drives played forwards", 12),
        _left(690, 416, "drives played backwards; dotted: without nudges", 12),
    ))  # fmt: skip


def _gradient() -> str:
    return "\n".join((
        _text(175, 282, "dL/dθ = −δ Σ (∂H/∂θ₊ − ∂H/∂θ₋) / 2ε", 15, extra=FORMULA),
        _text(175, 318, "Three passes for all parameters at once,", 13),
        _text(175, 336, "from what the converters read;", 13),
        _text(175, 354, "no backward pass, no model of the dynamics.", 13),
        _text(175, 400, "move θ against it, program, and again", 14, LEARNS, extra=BOLD),
    ))  # fmt: skip


def _ends() -> str:
    """What comes of it."""
    return "\n".join((
        _left(58, 522, "how many bits, how much noise and drift, which Q, which γ"),
        _left(558, 522, "SPICE, KiCad, GDS, Touchstone, Verilog, mumax3, data sheet"),
    ))  # fmt: skip

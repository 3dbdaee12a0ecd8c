"""Reports: one self-contained HTML page with tables and figures, no external resources."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhel_hw.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #5b6570; --line: #d6dbe1; --page: #ffffff; --good: #00795a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --dim: #9aa4ae; --line: #3a424b; --page: #15191e; --good: #3fc79f; }
  img { background: #ffffff; border-radius: 6px; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2.5rem 1.25rem 4rem; background: var(--page); color: var(--ink);
       font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line); }
p.lead { color: var(--dim); margin: 0 0 1.2rem; }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem 2.4rem; margin: 1.2rem 0; }
.numbers div { min-width: 8rem; }
.numbers b { display: block; font-size: 1.6rem; font-weight: 600; color: var(--good); }
.numbers span { color: var(--dim); font-size: .9rem; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; }
td.n, th.n { text-align: right; }
img { max-width: 100%; height: auto; display: block; }
figure { margin: 1rem 0; }
figcaption { color: var(--dim); font-size: .9rem; margin-top: .3rem; }
footer { margin-top: 3rem; color: var(--dim); font-size: .85rem; }
pre { margin: .6rem 0; padding: .7rem .9rem; border: 1px solid var(--line); border-radius: 6px; overflow-x: auto;
      font: .85rem/1.5 "DejaVu Sans Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
img.wide { width: 100%; }
@page { size: A4; margin: 14mm; }
@media print {
  :root { color-scheme: light; --ink: #1b1f24; --dim: #5b6570; --line: #d6dbe1; --page: #ffffff; --good: #00795a; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h1, h2 { break-after: avoid; }
  figure, tr, .numbers, pre { break-inside: avoid; }
  thead { display: table-header-group; }
  .wide { overflow: visible; }
  img { max-height: 165mm; width: auto; }
  table { font-size: 8pt; line-height: 1.35; }
  th, td { padding: .12rem .7rem .12rem 0; }
}
"""


@dataclass(frozen=True)
class Paragraph:
    """Some words; those between backticks are names of the code."""

    text: str

    def html(self) -> str:
        """As HTML."""
        return "<p>" + re.sub("`([^`]+)`", r"<code>\1</code>", escape(self.text)) + "</p>"


@dataclass(frozen=True)
class Numbers:
    """A few figures that matter, each with what it is."""

    items: Sequence[tuple[str, str]]

    def html(self) -> str:
        """As HTML."""
        cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in self.items)
        return f'<div class="numbers">{cells}</div>'


@dataclass(frozen=True)
class Table:
    """Rows of texts; numbers stand to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    """Places of columns of numbers."""

    def html(self) -> str:
        """As HTML."""
        head = "".join(self._cell("th", i, text) for i, text in enumerate(self.columns))
        body = "".join(
            "<tr>" + "".join(self._cell("td", i, text) for i, text in enumerate(row)) + "</tr>" for row in self.rows
        )
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

    def _cell(self, tag: str, place: int, text: str) -> str:
        return f"<{tag}{' class=n' if place in self.numeric else ''}>{escape(text)}</{tag}>"


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with a caption."""

    figure: Figure
    caption: str

    def html(self) -> str:
        """As HTML, the picture inside."""
        stream = BytesIO()
        self.figure.savefig(stream, format="png")
        data = base64.b64encode(stream.getvalue()).decode()
        alt = escape(self.caption, quote=True)
        source = f"data:image/png;base64,{data}"
        return f'<figure><img src="{source}" alt="{alt}"><figcaption>{escape(self.caption)}</figcaption></figure>'


@dataclass(frozen=True)
class Drawing:
    """A drawing in SVG with a caption, as wide as the page."""

    svg: str
    caption: str

    def html(self) -> str:
        """As HTML, the drawing inside and apart from everything else."""
        source = f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"
        alt = escape(self.caption, quote=True)
        return (
            f'<figure><img class="wide" src="{source}" alt="{alt}"><figcaption>{escape(self.caption)}</figcaption>'
            "</figure>"
        )


@dataclass(frozen=True)
class Listing:
    """Lines to be typed or compared, as they are."""

    text: str

    def html(self) -> str:
        """As HTML."""
        return f"<pre>{escape(self.text)}</pre>"


@dataclass(frozen=True)
class Markup:
    """Elements as they are, for a script to fill."""

    source: str

    def html(self) -> str:
        """As HTML."""
        return self.source


Block = Paragraph | Numbers | Table | Picture | Drawing | Listing | Markup


@dataclass(frozen=True)
class Section:
    """A heading with what belongs to it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Live:
    """What makes a page move: numbers, and scripts that draw them. Nothing is fetched but from where it was served."""

    data: Mapping[str, Any]
    """As JSON in the element `data`."""
    scripts: Sequence[str]
    style: str = ""
    """Beside that of all pages."""
    served: bool = False
    """Whether scripts may ask the server of the page."""


def page(title: str, lead: str, sections: Iterable[Section], footer: str = "", live: Live | None = None) -> str:
    """A page as HTML, for screens and for A4 paper."""
    body = "".join(
        (f"<h2>{escape(section.title)}</h2>" if section.title else "") + "".join(b.html() for b in section.blocks)
        for section in sections
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_policy(live)}'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}{live.style if live else ''}</style></head><body>"
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{body}'
        + (f"<footer>{escape(footer)}</footer>" if footer else "")
        + (_scripts(live) if live else "")
        + "</body></html>\n"
    )


def _policy(live: Live | None) -> str:
    """What a browser is told to refuse of a page with scripts."""
    if live is None:
        return ""
    policy = _POLICY + ("; connect-src 'self'" if live.served else "")
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _scripts(live: Live) -> str:
    text = json.dumps(live.data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    data = f'<script type="application/json" id="data">{text}</script>'
    return data + "".join(f"<script>{script}</script>" for script in live.scripts)


def write(path: Path, title: str, lead: str, sections: Iterable[Section], footer: str) -> Path:
    """Write a page, whole or not at all."""
    text = page(title, lead, sections, footer)
    return write_atomically(path, lambda stream: stream.write(text.encode()))

"""The profile reference: every setting of a bench as its field states it, and the profiles that ship."""

from __future__ import annotations

from itertools import groupby

from rhel_hw.profile import SECTIONS, settings, shown
from rhel_hw.profiles import PROFILES

BEGIN = """# Profiles

A profile is everything that is not ideal about a device and its bench, as data. Written from the fields of
`rhel_hw.profile`; `rhel-hw profiles --settings` prints the same. Everything is off by default, and what is off is ideal
bit for bit. Laws are in [Physics](../physics.md#112-imperfections).

```toml title="noisy.toml" skip="a part of a design file"
[profile]
preset = "bench-8bit"

[profile.readout]
bits = 6

[profile.fabrication]
mismatch = 0.05
```

The same on the command line: `--profile bench-8bit --set readout.bits=6 --set fabrication.mismatch=0.05`. In sweeps a
setting is an axis: `--axis readout.bits=4,6,8`.
"""


def page() -> str:
    """The page."""
    lines = [BEGIN]
    for section, group in groupby(settings(), key=lambda s: s.path.partition(".")[0]):
        lines += [f"## {section}", (SECTIONS[section].__doc__ or "").strip().splitlines()[0], ""]
        lines += ["| setting | unit | default | drawn | what it is |", "|---|---|---|---|---|"]
        for s in group:
            default = "–" if s.value is None else "∞" if s.value == float("inf") else shown(s.value)
            cells = (f"`{s.path}`", s.unit, default, s.scope.value, s.doc)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    lines += ["## Profiles that ship", ""]
    for name, preset in PROFILES.items():
        origins = {**preset.assumptions, **preset.sources}
        lines += [f"### {name}", "", preset.summary, "", "| setting | value | drawn | from |", "|---|---|---|---|"]
        lines += [
            f"| `{s.path}` | {shown(s.value)} {s.unit} | {s.scope.value} | {origins.get(s.path, '')} |"
            for s in preset.profile.describe()
        ]
        lines.append("")
    return "\n".join(lines)

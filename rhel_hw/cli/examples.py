"""Command lines that help shows, by command."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("demo", "demo --design kerr-chain --profile bench-12bit --out kerr"),
    "gallery": ("gallery", "gallery --json"),
    "new": ("new my-ring", "new my-rings --family photonic"),
    "elements": ("elements", "elements josephson     # limits, loss, echo, a snippet"),
    "presets": ("presets", "presets yig-disc"),
    "profiles": ("profiles", "profiles bench-8bit", "profiles --settings     # every imperfection there is"),
    "check": ("check my-ring.toml", "check lc-toy --json", "check board.cir     # SPICE is read as well"),
    "simulate": ("simulate lc-toy --plot", 'simulate my-ring.toml --steps 5000 --step "10 ns" --json'),
    "show": (
        "show my-ring.toml",
        "show lc-toy --profile bench-12bit --set dynamics.quality=1e3",
        "show kerr-chain --out kerr.html     # a page to send on",
    ),
    "gradient": (
        "gradient lc-toy --gamma auto",
        "gradient lc-toy --methods rhel,rhel-richardson,finite-differences",
        "gradient my-ring.toml --set fabrication.mismatch=0.05 --chips 100",
    ),
    "train": (
        "train my-ring.toml --plot",
        "train lc-toy --profile bench-8bit --set readout.bits=6 --steps 50",
        "train lc-toy --checkpoint toy.npz     # goes on after a kill",
        "train --bench TCPIP::127.0.0.1::5025::SOCKET",
    ),
    "fit": ("fit pulse-detection", "fit watch-gestures --split groups --compare --out gestures"),
    "calibrate": (
        "calibrate lc-toy --profile bench-8bit --set echo.gain=1.03",
        "calibrate --bench TCPIP::127.0.0.1::5025::SOCKET",
    ),
    "record": ("record my-ring.toml lab --out bench.npz", "record chip.toml chip.s9p --out chip.npz"),
    "export": (
        "export my-ring.toml",
        "export lc-toy --trained toy.npz --series E24 --out handover",
        "export kerr-chain --to sax --to gds --out chip",
    ),
    "serve": ("serve lc-toy --profile bench-8bit", "serve my-ring.toml --port 0 --json"),
    "sweep": (
        "sweep lc-toy --axis readout.bits=4,6,8 --axis learning.gamma=auto",
        "sweep lc-toy --require cosine=0.99     # the bit budget",
        "sweep my-ring.toml --axis chip=0..99 --set fabrication.mismatch=0.02",
    ),
    "study": ("study toy", "study precision --full --out precision"),
    "benchmark": ("benchmark", "benchmark forward", "benchmark gradient --rounds 3 --json"),
}
"""Without `rhel-hw` before them."""


def epilog(name: str) -> str:
    """What the help of a command ends with."""
    return "\n".join(["[bold]Examples[/bold]", *(f"  rhel-hw {line}" for line in EXAMPLES[name])])

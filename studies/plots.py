"""Figures. Every function returns a matplotlib figure; nothing is shown, and nothing is saved here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from devices import to_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from circuits import Design
    from rhel_hw import Problem, Trajectory
    from rhel_hw.training import Trained

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
MOST_LINES = 6


def trajectory(design: Design, run: Trajectory) -> Figure:
    """Positions, momenta and energies of one run."""
    figure, axes = _figure(3)
    time, unit = _engineering(run.times_s, "s")
    for axis, values, what in zip(axes, (run.positions_si(), run.momenta_si()), ("position", "momentum"), strict=False):
        _nodes(axis, time, values, design, what)
    _energies(axes[2], time, run)
    axes[2].set_xlabel(f"time ({unit})")
    figure.suptitle(design.netlist.name, fontsize=11)
    return figure


def reversal(design: Design, forward: Trajectory, backward: Trajectory) -> Figure:
    """A run and its echo drawn backwards in time over it, the energy, and the distance between the two."""
    figure, axes = _figure(3)
    time, unit = _engineering(forward.times_s, "s")
    there, back = forward.positions_si(), backward.positions_si()
    shown = _telling(design, there) or list(there)[:2]
    _nodes(axes[0], time, {n: there[n] for n in shown}, design, "position")
    scale, every = _scale_of({n: there[n] for n in shown}), max(1, len(time) // 80)
    for node, colour in zip(shown, COLOURS, strict=False):
        retraced = back[node][-2::-1] * scale
        axes[0].plot(time[:-1][::every], retraced[::every], "o", ms=3.5, mfc="none", mec=colour, label=f"{node}, echo")
    _legend(axes[0])
    _energies(axes[1], time, forward)
    span = max(float(np.max(np.abs(x))) for x in there.values())
    gap = np.max(np.abs(np.array([there[n][:-1] - back[n][-2::-1] for n in there])), axis=0) / span
    axes[2].semilogy(time[:-1], np.maximum(gap, 1e-17), color=COLOURS[1], lw=1.2)
    axes[2].set_ylabel("echo − run\n(relative)")
    axes[2].set_ylim(1e-17, max(1e-10, 2 * float(np.max(gap, initial=0.0))))
    axes[2].set_xlabel(f"time ({unit})")
    figure.suptitle(f"{design.netlist.name}: run forward, flip the momenta, come back", fontsize=11)
    return figure


def learning(design: Design, problem: Problem, trained: Trained) -> Figure:
    """What the targets should do, did before training and do after it; and the loss on the way."""
    from rhel_hw.simulation import simulate

    loss: Any = problem.loss
    reader, wanted = loss.reader, np.asarray(loss.targets, np.float64)
    count = reader.rows
    figure, axes = _figure(count + 1, shared=False)
    runs = [
        simulate(design.hamiltonian, theta, problem.inputs, len(problem.inputs), problem.step, state=problem.state)
        for theta in (problem.theta, trained.theta)
    ]
    before, after = (np.stack([np.asarray(reader(q)) for q in np.asarray(run.positions)]) for run in runs)
    time, unit = _engineering(runs[0].times_s, "s")
    for i, (axis, target) in enumerate(zip(axes, design.netlist.targets, strict=False)):
        domain = design.netlist.domains[target.node]
        size = design.assembly.units.position(domain)
        lines = {"wanted": wanted[:, i, 0] * size, "before": before[:, i, 0] * size, "after": after[:, i, 0] * size}
        scale = _scale_of(lines)
        axis.plot(time, lines["wanted"] * scale, color="#bbbbbb", lw=3.5, label="hidden circuit")
        axis.plot(time, lines["before"] * scale, color=COLOURS[1], lw=0.9, label="before")
        axis.plot(time, lines["after"] * scale, color=COLOURS[0], lw=1.1, label="after")
        axis.set_ylabel(f"{target.node}: {domain.position}{_in_brackets(_prefixed(scale, domain.position_unit))}")
        axis.set_xlabel(f"time ({unit})")
        _legend(axis)
    axes[-1].semilogy(np.arange(len(trained.losses)), trained.losses, color=COLOURS[2], lw=1.4)
    axes[-1].set_ylabel("loss")
    axes[-1].set_xlabel("moves of the parameters, each by one gradient from echoes")
    figure.suptitle(f"{design.netlist.name}: loss {trained.improvement:.3g} times lower", fontsize=11)
    return figure


def losses(curves: Mapping[str, Sequence[float]]) -> Figure:
    """Losses of several ways to train, over the moves."""
    figure, (axis,) = _figure(1)
    for colour, (name, values) in zip((COLOURS[0], "#777777", COLOURS[1], *COLOURS[2:]), curves.items(), strict=False):
        axis.semilogy(np.arange(len(values)), values, color=colour, lw=1.5, label=name)
    axis.set_ylabel("loss")
    axis.set_xlabel("moves of the parameters")
    _legend(axis)
    return figure


def _in_brackets(unit: str) -> str:
    return f"\n({unit})" if unit else ""


def _figure(rows: int, *, shared: bool = True) -> tuple[Figure, Any]:
    figure, axes = canvas(rows, 1, (7.2, 1.1 + 2.1 * rows), sharex=shared)
    return figure, axes[:, 0]


def canvas(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure with a grid of panels, (rows, columns), drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _nodes(
    axis: Axes, time: NDArray[np.float64], values: dict[str, NDArray[np.float64]], design: Design, what: str
) -> None:
    """Lines of up to six nodes, targets and driven ones first."""
    domains = {design.netlist.domains[n].name for n in values}
    domain = design.netlist.domains[next(iter(values))]
    unit = getattr(domain, f"{what}_unit")
    own = [n for n in values if design.netlist.domains[n] is domain]
    shown = list(dict.fromkeys([n for n in _telling(design, values) if n in own] + own))[:MOST_LINES]
    scale = _scale_of({n: values[n] for n in shown})
    for colour, node in zip(COLOURS, shown, strict=False):
        axis.plot(time, values[node] * scale, color=colour, lw=1.1, label=_role(design, node))
    more = len(values) - len(shown)
    if more:
        axis.plot(
            [],
            [],
            " ",
            label=f"and {more} more" + (f" ({', '.join(domains - {domain.name})})" if len(domains) > 1 else ""),
        )
    axis.set_ylabel(f"{getattr(domain, what)}{_in_brackets(_prefixed(scale, unit))}")
    _legend(axis)


def _telling(design: Design, values: dict[str, NDArray[np.float64]]) -> list[str]:
    """Driven nodes and targets."""
    nodes = [n for d in design.netlist.drives for n in d.nodes[:1]] + [t.node for t in design.netlist.targets]
    return [n for n in dict.fromkeys(nodes) if n in values]


def _role(design: Design, node: str) -> str:
    """The node's name, and whether it is driven or a target."""
    roles = ["drive"] * any(node in d.nodes[:1] for d in design.netlist.drives)
    roles += ["target"] * any(node == t.node for t in design.netlist.targets)
    return f"{node} ({', '.join(roles)})" if roles else node


def _energies(axis: Axes, time: NDArray[np.float64], run: Trajectory) -> None:
    audit = run.audit
    energies, unit = _engineering(audit.ends, "J")
    scale = energies[-1] / audit.ends[-1] if audit.ends[-1] else 1.0
    axis.plot(time, energies, color=COLOURS[0], lw=1.2, label="energy H(q, p, u)")
    if np.any(audit.work):
        axis.plot(
            time,
            (audit.starts[0] + audit.work) * scale,
            "--",
            color=COLOURS[1],
            lw=1,
            label="start + work of the drives",
        )
    if np.any(audit.lost):
        axis.plot(time, np.cumsum(audit.lost) * scale, ":", color=COLOURS[2], lw=1.2, label="lost")
    axis.set_ylabel(f"energy ({unit})")
    axis.set_ylim(bottom=min(0.0, float(np.min(energies)) * 1.05))
    _legend(axis)


def _legend(axis: Axes) -> None:
    axis.legend(loc="center left", bbox_to_anchor=(1.005, 0.5), frameon=False, fontsize=8, handlelength=1.4)


def _scale_of(values: dict[str, NDArray[np.float64]]) -> float:
    """Factor that brings the values into the range of an SI prefix."""
    largest = max((float(np.max(np.abs(v))) for v in values.values()), default=0.0)
    return 1.0 if largest == 0 else float(10.0 ** (-3 * np.floor(np.log10(largest) / 3)))


def _engineering(values: NDArray[np.float64], unit: str) -> tuple[NDArray[np.float64], str]:
    scale = _scale_of({"": values})
    return values * scale, _prefixed(scale, unit)


def _prefixed(scale: float, unit: str) -> str:
    """The unit of values that were multiplied by `scale`, a power of a thousand."""
    if not unit.isalpha():
        factor = "" if scale == 1 else f"{1 / scale:.0e} "
        return (factor + unit.replace("*", "·")).strip()
    number, prefixed = to_text(float(f"{1 / scale:.0e}"), unit).split(" ", 1)
    prefixed = prefixed.replace("u", "µ") if prefixed.startswith("u") else prefixed
    return prefixed if number == "1" else f"{number} {prefixed}"

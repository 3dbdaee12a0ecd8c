"""Averaging echo gradients under thermal noise: what falls with the number of shots, and what stays for good.

Two circuits that differ in one thing, inductors or junctions of the same inductance to ground, imitate a hidden one.
Let z be the free pass, with noise ξ. The echo goes back along e = z − χ + ζ and not along z: ζ is noise of its own, and
χ_i, the noise that hit the free pass *after* step i, is not undone unless it is replayed. If V is quadratic, the
displacement w is linear in the nudges, which carry ξ too, and a gradient is Σ⟨w, A·e⟩. Of its mean,

- ⟨w, A·ζ⟩ and (ζ₊ − ζ₋)/2ε give nothing. They make the variance, the latter over ε² unless both echoes share ζ.
- ⟨w, A·z⟩ is the gradient of the loss of this very run, on average d/dθ E[L]. Less the noiseless gradient it is the
  gradient of the thermal variance of the targets, proportional to T.
- −⟨w, A·χ⟩ stays, for nudges and path know the same noise. It is proportional to T, too.

So replayed noise is unbiased for d/dθ E[L], in any circuit, as it retraces. *Crossed* nudges, recorded in another free
pass than that which is echoed, are unbiased for the noiseless gradient if V is quadratic, for nothing correlated is
multiplied then. Hold and re-prepare, independent and common noise differ in what the two echoes share and not in the
law of either: means are the same, variances are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhel_hw.files import folder, write_atomically
from studies.noisy import EPSILON, LANES, PROTOCOLS, QUALITY, Floats, Rig, rig
from studies.plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CIRCUITS = ("linear", "nonlinear")
KINDS = ("independent", "common", "replayed")
TARGETS = {"noiseless": "dL/dθ at T = 0", "expected": "d/dθ of the expected loss"}
"""Both of the circuit with its loss."""
WAYS = (("common", "hold"), ("replayed", "hold"), ("common", "crossed"))
"""Those with different means that are scanned, each as it has the least variance."""

STEPS, TEMPERATURE_K = 128, 4.0
REPORTED, REPORTED_SHOTS = 0.28, 1024
"""Cosine that a public project reports after so many shots."""
MORE_SHOTS: Floats = 2.0 ** np.arange(19, dtype=np.float64)

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Size:
    """How much is computed."""

    shots: int
    """Most that are averaged."""
    scanned: int
    """Shots of each point of the scans."""
    repeated: int
    """Shots at the nudging strength of the reported cosine."""
    draws: int
    """Noisy runs for d/dθ E[L]."""
    temperatures_k: tuple[float, ...]
    steps: tuple[int, ...]
    """To first order in the temperature."""
    measured: tuple[int, ...]
    """Numbers of steps that are measured as well."""


QUICK = Size(1024, 1024, 32768, 2048, (1.0, 4.0, 16.0), (16, 32, 64, 96, 128), ())
FULL = Size(4096, 16384, 65536, 16384, (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), (16, 24, 32, 48, 64, 96, 128), (32, 64, 128))


# What is found ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ThermalResult:
    """Axes are named by CIRCUITS, KINDS, PROTOCOLS, WAYS and TARGETS. Biases are over the noiseless gradient.

    A bias is the thermal part alone: what an echo without noise errs by, for loss and finite ε, is subtracted. From
    its square that of its standard error is subtracted, too.
    """

    shots: Floats
    cosines: Floats
    """Of the mean over shots, averaged over disjoint sets, (circuits, kinds, protocols, targets, shots)."""
    spreads: Floats
    """Standard deviation of these over the sets; NaN if there is one."""
    ratios: Floats
    """Norm of the mean over that of the target, likewise."""
    noises: Floats
    """Standard deviation of one shot over the noiseless gradient, (circuits, kinds, protocols)."""
    biases: Floats
    """After averaging all shots, (circuits, kinds, protocols, targets)."""
    errors: Floats
    """Their standard errors."""
    losses: Floats
    """What an echo without noise errs by, (circuits,)."""
    temperatures_k: Floats
    warm_biases: Floats
    """At these temperatures, (circuits, ways, targets, temperatures)."""
    warm_errors: Floats
    warm_cosines: Floats
    warm_slopes: Floats
    """Exponents of the temperature, (circuits, ways, targets); NaN where no bias is seen."""
    per_kelvin: Floats
    """First order of the biases in the temperature at the usual steps, (circuits, ways, targets)."""
    steps: Floats
    long_biases: Floats
    """Per kelvin, over the noiseless gradient at the usual steps, (circuits, ways, targets, steps)."""
    long_gradients: Floats
    """Noiseless gradient by the same measure, (circuits, steps)."""
    long_slopes: Floats
    """Exponents of the number of steps in its upper half, (circuits, ways, targets); NaN where there is no bias."""
    measured_steps: Floats
    measured_biases: Floats
    """The same, measured with common noise and hold, (circuits, targets, steps)."""
    measured_errors: Floats
    reported_epsilons: Floats
    """Chosen such that the variance of independent noise predicts the reported cosine, (circuits,)."""
    reported_noises: Floats
    """Of one shot at that ε, (circuits,)."""
    reported_cosines: Floats
    """To the noiseless gradient at that ε, with independent and with common noise, (circuits, 2, shots)."""
    reported_errors: Floats
    """Their standard errors."""
    more_shots: Floats
    more_cosines: Floats
    """Mean cosine by the covariance of single shots at that ε, with nothing but variance, (circuits, more_shots)."""

    @property
    def verdict(self) -> str:
        """One sentence on the reported cosine."""
        last = np.flatnonzero(self.shots <= REPORTED_SHOTS)[-1]
        own = zip(self.reported_cosines[:, 0, last], self.reported_errors[:, 0, last], strict=True)
        alone, shared = " and ".join(f"{x:.2f} ± {e:.2f}" for x, e in own), _both(self.reported_cosines[:, 1, last])
        ahead = _both(self.more_cosines[:, -1])
        return (
            f"A cosine of {REPORTED} after {REPORTED_SHOTS} shots takes no bias and is no limit: with ε set to "
            f"{_both(self.reported_epsilons)}, so that the variance of independent noise "
            f"({_both(self.reported_noises, 0)} gradients a shot) predicts it, sets of {self.shots[last]:.0f} have "
            f"{alone} on average, and {self.more_shots[-1]:.0f} shots should have {ahead}; with noise common to both "
            f"echoes as many shots have "
            f"{shared}, and at ε = {EPSILON:g} independent noise has {_both(self.cosines[:, 0, 0, 0, last])}. What no "
            f"averaging removes is a bias proportional to T that turns the gradient little: cosines of the mean are at "
            f"least {np.min(self.warm_cosines):.2f} up to {np.max(self.temperatures_k):g} K."
        )


def _both(values: Floats, digits: int = 3) -> str:
    """Numbers of all circuits."""
    return " and ".join(f"{x:.{digits}f}" for x in values)


def run(size: Size = QUICK, report: Report | None = None) -> ThermalResult:
    """All of the study. JAX must be in double precision."""
    ways = len(WAYS) * len(size.temperatures_k)
    total = len(CIRCUITS) * (len(KINDS) * len(PROTOCOLS) + 2 + ways + len(size.steps) + len(size.measured))
    done = iter(range(1, total + 1))

    def tick() -> None:
        if report is not None:
            report(next(done), total)

    with ThreadPoolExecutor(len(CIRCUITS)) as pool:  # most of the time goes into compiling, which threads can share
        parts = list(pool.map(lambda circuit: _of_circuit(circuit, size, tick), CIRCUITS))
    stacked = {k: np.stack([p[k] for p in parts]) for k in parts[0]}
    return ThermalResult(
        shots=_sizes(size.shots),
        temperatures_k=np.array(size.temperatures_k),
        steps=np.array(size.steps, float),
        measured_steps=np.array(size.measured, float),
        more_shots=MORE_SHOTS,
        **stacked,
    )


def _sizes(shots: int) -> Floats:
    return 4.0 ** np.arange(np.log(shots) / np.log(4) + 1e-9)


def _of_circuit(circuit: str, size: Size, tick: Callable[[], None]) -> dict[str, Floats]:
    """All that is found of one circuit, without its axis."""
    own = rig(circuit, STEPS)
    exact = own.noiseless()
    scale = float(np.linalg.norm(exact))
    still = own.echoes(0.0, "common", "hold", LANES)[0]
    found: dict[str, Any] = {"losses": np.linalg.norm(still - exact) / scale}

    goals = {t: _Goals.of(own, exact, still, t, size.draws) for t in {*size.temperatures_k, TEMPERATURE_K}}
    cases = []
    for kind, protocol in product(KINDS, PROTOCOLS):
        shots = own.echoes(TEMPERATURE_K, kind, protocol, size.shots)
        cases.append(_averaged(shots, goals[TEMPERATURE_K], _sizes(size.shots)))
        if (kind, protocol) == ("independent", "hold"):
            epsilon = EPSILON * _strength_for(exact, np.cov(shots.T))
        tick()
    for name in cases[0]:
        values = np.stack([c[name] for c in cases])
        found[name] = values.reshape(len(KINDS), len(PROTOCOLS), *values.shape[1:])

    again = []
    for kind in ("independent", "common"):
        count = size.repeated if kind == "independent" else size.shots
        again.append(own.echoes(TEMPERATURE_K, kind, "hold", count, epsilon))
        tick()
    means = [_averaged(x, goals[TEMPERATURE_K], _sizes(size.shots)) for x in again]
    found["reported_cosines"] = np.stack([m["cosines"][0] for m in means])
    counts = [len(x) // _sizes(size.shots) for x in again]
    found["reported_errors"] = np.stack([m["spreads"][0] / c**0.5 for m, c in zip(means, counts, strict=True)])
    found |= {"reported_epsilons": np.array(epsilon), "reported_noises": means[0]["noises"]}
    found["more_cosines"] = _law(exact, np.cov(again[0].T), MORE_SHOTS)

    warm = np.empty((3, len(WAYS), len(TARGETS), len(size.temperatures_k)))
    for (i, way), (j, t) in product(enumerate(WAYS), enumerate(size.temperatures_k)):
        shots = own.echoes(t, *way, size.scanned)
        warm[:2, i, :, j] = goals[t].biases(shots)
        warm[2, i, :, j] = goals[t].cosines(shots.mean(axis=0))
        tick()
    found |= {"warm_biases": warm[0], "warm_errors": warm[1], "warm_cosines": warm[2]}
    seen = np.where(warm[0] > 3 * warm[1], warm[0], np.nan)
    found["warm_slopes"] = _slopes(np.array(size.temperatures_k), seen, warm[1] / seen)
    return found | _over_steps(circuit, size, scale, tick)


def _over_steps(circuit: str, size: Size, scale: float, tick: Callable[[], None]) -> dict[str, Floats]:
    """Biases per kelvin over the number of steps."""
    longest = rig(circuit, max(*size.steps, STEPS))
    long = np.empty((len(WAYS), len(TARGETS), len(size.steps)))
    gradients = np.empty(len(size.steps))
    found = {steps: longest.per_kelvin(steps) for steps in {*size.steps, STEPS}}
    for k, steps in enumerate(size.steps):
        parts = found[steps]
        long[:, :, k] = _first_order(parts) / scale
        gradients[k] = np.linalg.norm(parts["noiseless"]) / scale
        tick()
    measured = np.empty((2, len(TARGETS), len(size.measured)))
    for k, steps in enumerate(size.measured):
        shorter = rig(circuit, steps)
        still = shorter.echoes(0.0, *WAYS[0], LANES)[0]
        goals = _Goals.of(shorter, shorter.noiseless(), still, TEMPERATURE_K, size.draws)
        own = goals.biases(shorter.echoes(TEMPERATURE_K, *WAYS[0], size.scanned))
        measured[:, :, k] = np.array(own) * np.linalg.norm(goals.exact) / scale / TEMPERATURE_K
        tick()
    # Less than a hundredth of the thermal gradient is loss, or round-off.
    seen = np.where(long > 0.01 * long[1, 0], long, np.nan)
    seen[:, :, : len(size.steps) // 2] = np.nan  # before the first periods are over
    return {
        "per_kelvin": _first_order(found[STEPS]) / scale,
        "long_biases": long,
        "long_gradients": gradients,
        "long_slopes": _slopes(np.array(size.steps, float), seen),
        "measured_biases": measured[0],
        "measured_errors": measured[1],
    }


def _first_order(parts: Mapping[str, Floats]) -> Floats:
    """Norms of the biases per kelvin, (ways, targets)."""
    hold, crossed = parts["pass"] + parts["echo"], parts["held"] + parts["recorded"] + parts["echo"]
    rows = [[np.linalg.norm(x), np.linalg.norm(x - parts["of"])] for x in (hold, parts["replayed"], crossed)]
    return np.array(rows)


@dataclass(frozen=True, eq=False)
class _Goals:
    """What a mean over shots is compared with."""

    exact: Floats
    """The noiseless gradient."""
    still: Floats
    """What echoes measure without noise."""
    expected: Floats
    variance: float
    """Of the latter, summed over parameters."""

    @classmethod
    def of(cls, rig: Rig, exact: Floats, still: Floats, temperature_k: float, draws: int) -> _Goals:
        """By differentiation of noisy runs."""
        found = rig.expected(temperature_k, draws)
        return cls(exact, still, found.mean(axis=0), float(np.sum(np.var(found, axis=0)) / len(found)))

    def cosines(self, mean: Floats) -> Floats:
        """(targets, …) of means (…, parameters)."""
        return np.stack([_cosine(mean, goal) for goal in (self.exact, self.expected)])

    def biases(self, shots: Floats) -> tuple[Floats, Floats]:
        """Thermal bias of the mean and its standard error, (targets,) each."""
        moved = np.mean(shots, axis=0) - self.still
        errors = np.sum(np.var(shots, axis=0)) / len(shots) + np.array([0.0, self.variance])
        squares = np.array([np.sum((moved - (goal - self.exact)) ** 2) for goal in (self.exact, self.expected)])
        size = np.linalg.norm(self.exact)
        return np.sqrt(np.maximum(squares - errors, 0.0)) / size, np.sqrt(errors) / size


def _averaged(shots: Floats, goals: _Goals, sizes: Floats) -> dict[str, Floats]:
    """Cosines and norms of means over sets of these sizes."""
    cosines, spreads, ratios = [], [], []
    for count in sizes.astype(int):
        means = shots[: len(shots) // count * count].reshape(-1, count, shots.shape[1]).mean(axis=1)
        found = goals.cosines(means)
        cosines.append(found.mean(axis=1))
        spreads.append(found.std(axis=1, ddof=1) if len(means) > 1 else np.full(len(TARGETS), np.nan))
        norm = np.linalg.norm(means, axis=1).mean()
        ratios.append([norm / np.linalg.norm(goal) for goal in (goals.exact, goals.expected)])
    biases, errors = goals.biases(shots)
    noise = np.sqrt(np.sum(np.var(shots, axis=0))) / np.linalg.norm(goals.exact)
    return {
        "cosines": np.stack(cosines, axis=1),
        "spreads": np.stack(spreads, axis=1),
        "ratios": np.array(ratios).T,
        "noises": np.asarray(noise),
        "biases": biases,
        "errors": errors,
    }


def _law(exact: Floats, covariance: Floats, counts: Floats) -> Floats:
    """Mean cosine of means over so many shots that have nothing but variance."""
    values, vectors = np.linalg.eigh(covariance)
    noise = np.random.default_rng(0).normal(size=(4000, len(exact))) * np.sqrt(np.maximum(values, 0)) @ vectors.T
    noise = np.concatenate([noise, -noise])
    return np.array([_cosine(exact + noise / np.sqrt(n), exact).mean() for n in counts])


def _strength_for(exact: Floats, covariance: Floats) -> float:
    """Nudging strength, over that of this covariance, at which the reported cosine is to be expected."""
    low, high = -12.0, 6.0
    for _ in range(40):
        middle = (low + high) / 2
        found = _law(exact, covariance * np.exp(-2 * middle), np.array([REPORTED_SHOTS]))[0]
        low, high = (middle, high) if found < REPORTED else (low, middle)
    return float(np.exp(low))


def _cosine(a: Floats, b: Floats) -> Floats:
    return np.asarray(a @ b / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b)))


def _slopes(x: Floats, y: Floats, errors: Floats | None = None) -> Floats:
    """Exponents of x in y (…, x), from the first few values that are there; NaN of fewer than two."""
    found = np.full(y.shape[:-1], np.nan)
    for place in np.ndindex(found.shape):
        there = np.flatnonzero(np.isfinite(y[place]))[: None if errors is None else 3]
        if len(there) > 1:
            weights = None if errors is None else 1 / errors[place][there]
            found[place] = np.polyfit(np.log(x[there]), np.log(y[place][there]), 1, w=weights)[0]
    return found


# Telling ----------------------------------------------------------------------------------------------------------


def document(result: ThermalResult) -> dict[str, Any]:
    """What there is to tell, by name."""
    listed = [i for i, n in enumerate(result.shots) if n in (1, 16, 256, 1024, 4096)]
    averages = []
    for (c, circuit), (k, kind), (p, protocol) in product(enumerate(CIRCUITS), enumerate(KINDS), enumerate(PROTOCOLS)):
        at = c, k, p
        row: dict[str, Any] = {"circuit": circuit, "noise": kind, "protocol": protocol}
        row["noise_of_one_shot"] = float(result.noises[at])
        for t, target in enumerate(TARGETS):
            row[target] = {
                "cosines": [float(result.cosines[*at, t, i]) for i in listed],
                "norm_ratios": [float(result.ratios[*at, t, i]) for i in listed],
                "bias": float(result.biases[*at, t]),
                "error": float(result.errors[*at, t]),
            }
        averages.append(row)
    scans = []
    for (c, circuit), (t, target), (w, way) in product(enumerate(CIRCUITS), enumerate(TARGETS), enumerate(WAYS)):
        exponents = {"temperature": result.warm_slopes[c, w, t], "steps": result.long_slopes[c, w, t]}
        row = {"circuit": circuit, "noise": way[0], "protocol": way[1], "target": target}
        row["bias_per_kelvin"] = float(result.per_kelvin[c, w, t])
        row |= {f"exponent_of_{k}": float(v) if np.isfinite(v) else None for k, v in exponents.items()}
        scans.append(row)
    return {
        "temperature_k": TEMPERATURE_K,
        "quality": QUALITY,
        "steps": STEPS,
        "epsilon": EPSILON,
        "shots": [int(result.shots[i]) for i in listed],
        "bias_without_noise": dict(zip(CIRCUITS, map(float, result.losses), strict=True)),
        "averages": averages,
        "scans": scans,
        "reported": {
            "cosine": REPORTED,
            "shots": REPORTED_SHOTS,
            "epsilons": [float(x) for x in result.reported_epsilons],
            "noise_of_one_shot": [float(x) for x in result.reported_noises],
            "cosines": [[float(x) for x in row[0, listed]] for row in result.reported_cosines],
            "cosines_with_common_noise": [[float(x) for x in row[1, listed]] for row in result.reported_cosines],
        },
        "verdict": result.verdict,
    }


SHOWN = (
    (0, 1, "hold, to d/dθ E[L]", "o", "-", 1.0),
    (2, 0, "crossed, to noiseless", "s", "--", 1.07),
    (1, 1, "replayed, to d/dθ E[L]", "^", ":", 0.93),
)
"""Way, target, label, marker, line and shift of the biases that are drawn."""


def figure(result: ThermalResult) -> Figure:
    """Cosines over shots of either circuit; biases over temperature and number of steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator, ScalarFormatter

    drawing = Figure(figsize=(7.6, 8.2), dpi=150, layout="constrained")
    FigureCanvasAgg(drawing)
    parts: Any = drawing.subfigures(2, 1)
    upper, lower = parts
    cosines, biases = upper.subplots(1, 2, sharey=True), lower.subplots(1, 2)
    for c, (circuit, axis) in enumerate(zip(CIRCUITS, cosines, strict=False)):
        _draw_cosines(axis, result, c)
        axis.set_title(f"{'AB'[c]}   {circuit}, {TEMPERATURE_K:g} K, K = {STEPS}", loc="left", fontsize=10)
    _draw_warm(biases[0], result)
    _draw_long(biases[1], result)
    for axis, ticks in zip(biases, (result.temperatures_k, result.steps[np.log2(result.steps) % 1 == 0]), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(ticks)
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_locator(NullLocator())
    for axis in (*cosines, *biases):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    for part, axis in ((upper, cosines[0]), (lower, biases[0])):
        part.legend(
            *axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8.5,
            handlelength=2.4,
        )  # fmt: skip
    return drawing


def _draw_cosines(axis: Axes, result: ThermalResult, circuit: int) -> None:
    shown = (("independent", "hold"), ("independent", "re-prepare"), ("common", "hold"), ("replayed", "hold"))
    for colour, marker, (kind, protocol) in zip(COLOURS, "osD^", shown, strict=False):
        values = result.cosines[circuit, KINDS.index(kind), list(PROTOCOLS).index(protocol), 0]
        label = f"{kind} noise, {protocol}, ε = {EPSILON:g}"
        axis.plot(result.shots, values, color=colour, marker=marker, ms=4.5, lw=1.4, label=label)
    epsilons = " or ".join(f"{x:.2g}" for x in result.reported_epsilons)
    axis.plot(
        result.shots, result.reported_cosines[circuit, 0], "x", color="black", ms=6,
        label=f"independent noise, hold, ε = {epsilons}",
    )  # fmt: skip
    axis.plot(result.more_shots, result.more_cosines[circuit], ":", color="black", lw=1.2, label="its variance alone")
    axis.plot(REPORTED_SHOTS, REPORTED, "*", color="black", ms=12, mfc="white", label=f"reported: {REPORTED}")
    axis.set_xscale("log")
    axis.set_ylim(-0.08, 1.04)
    axis.set_xlabel("shots averaged, N")
    if circuit == 0:
        axis.set_ylabel("cosine to the noiseless gradient")


def _draw_warm(axis: Axes, result: ThermalResult) -> None:
    """Points are measured, lines are of first order; hollow where no bias is seen, at two standard errors."""
    x = result.temperatures_k
    for c, (way, target, label, marker, line, shift) in product(range(len(CIRCUITS)), SHOWN):
        bias, error = result.warm_biases[c, way, target], result.warm_errors[c, way, target]
        seen, colour, limit = bias > 2 * error, COLOURS[c], 2 * error
        axis.errorbar(x[seen], bias[seen], error[seen], fmt=marker, color=colour, ms=5, lw=1, capsize=2)
        axis.plot(shift * x[~seen], limit[~seen], marker, color=colour, ms=5, mfc="none")
        axis.vlines(shift * x[~seen], limit[~seen] / 1.6, limit[~seen], color=colour, lw=1)
        if result.per_kelvin[c, way, target] > 1e-3:
            axis.plot(x, x * result.per_kelvin[c, way, target], line, color=colour, lw=1.2)
        axis.plot([], [], marker + line, color=colour, ms=5, lw=1.2, label=f"{CIRCUITS[c]}: {label}")
    axis.plot([], [], "o", color="0.4", mfc="none", label="hollow: none seen, two standard errors")
    axis.set_title(f"C   bias that stays, K = {STEPS}", loc="left", fontsize=10)
    axis.set_xlabel("temperature (K)")
    axis.set_ylabel("bias / |noiseless gradient|")


def _draw_long(axis: Axes, result: ThermalResult) -> None:
    """To first order in the temperature, and measured."""
    for c, (way, target, _, marker, line, _) in product(range(len(CIRCUITS)), SHOWN):
        bias = result.long_biases[c, way, target]
        axis.plot(result.steps, np.where(bias > 1e-4, bias, np.nan), line, color=COLOURS[c], lw=1.4)
        if way == 0 and len(result.measured_steps):
            bias, error = result.measured_biases[c, target], result.measured_errors[c, target]
            axis.errorbar(result.measured_steps, bias, error, fmt=marker, color=COLOURS[c], ms=5, lw=1, capsize=2)
    axis.set_title("D   bias per kelvin over run length", loc="left", fontsize=10)
    axis.set_xlabel("steps, K")
    axis.set_ylabel(f"bias per kelvin / |gradient, K = {STEPS}|")


def save(result: ThermalResult, out: Path) -> list[Path]:
    """Write ``thermal.npz`` and ``thermal.png`` to a folder."""
    place = folder(out)
    names = {"circuits": CIRCUITS, "kinds": KINDS, "protocols": tuple(PROTOCOLS), "targets": tuple(TARGETS)}
    names |= {"ways": tuple(" ".join(way) for way in WAYS)}
    arrays: dict[str, Any] = {k: np.asarray(v) for k, v in (names | vars(result)).items()}
    return [
        write_atomically(place / "thermal.npz", lambda stream: np.savez_compressed(stream, **arrays)),
        write_atomically(place / "thermal.png", lambda stream: figure(result).savefig(stream, format="png")),
    ]

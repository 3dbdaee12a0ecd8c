"""Figures of sweeps against the laws that the data were made from, and against numpy."""

from io import BytesIO

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection, QuadMesh

from devices import ArgumentError
from studies.sweeps.drawing import cosine_text, edges, in_cells, short_text
from studies.sweeps.figures import BEST, MOST_CELLS, fit_u, heat, lines, overview, pareto, u_curve
from studies.sweeps.reading import front, number_text, read, words
from tests.studies.sweep_data import BIAS, BITS, GAMMA, GAMMAS, NOISE, SEED, grid, noise_of, sampled


@pytest.fixture(scope="module")
def ds():
    return grid()


def texts(figure):
    """All that a figure says."""
    axis = figure.axes[0]
    legends = [*figure.legends, *([axis.get_legend()] if axis.get_legend() else [])]
    said = [figure.get_suptitle(), *(t.get_text() for t in axis.texts)]
    return "\n".join(said + [t.get_text() for legend in legends for t in (legend.get_title(), *legend.get_texts())])


def border_of(figure):
    """Segments of the border of what is required, drawn in its colour; None if there is none."""
    found = [c for c in figure.axes[0].collections if isinstance(c, LineCollection) and c.get_label()[0] != "_"]
    return [np.asarray(s) for s in found[0].get_segments()] if found else None


def dashed(figure):
    """Heights of dashed lines."""
    return [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_linestyle() == "--"]


# The fit ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "bias", "order"), [(0.3, 2e-6, 2), (5.0, 1e-3, 1), (1e-4, 1e-9, 2), (2.0, 1e-9, 4)])
def test_fit_finds_a_law_and_its_closed_form(noise, bias, order):
    best = (noise / (order * bias)) ** (1 / (order + 1))
    x = best * np.logspace(-2, 1.5, 9)
    fit = fit_u(x, noise / x + bias * x**order, order)
    # The data are exact: what is left is where the solver stops.
    np.testing.assert_allclose([fit.noise, fit.bias, fit.best], [noise, bias, best], rtol=1e-6)
    assert fit.error == pytest.approx(noise / best + bias * best**order, rel=1e-6)
    assert fit.floor == 0
    around = fit(best * np.array([0.98, 1.02]))
    assert np.all(around > fit.error)


def test_fit_stands_scatter_outliers_saturation_and_gaps():
    rng = np.random.default_rng(0)
    x = np.repeat(np.logspace(-2, 4, 13), 4)
    error = np.minimum(0.3 / x + 2e-6 * x**2, 1.0) * np.exp(0.2 * rng.normal(size=x.size))
    error[[22, 31]] *= 30
    error[[5, 40]] = np.nan
    fit = fit_u(x, error)
    # The optimum goes with the third root of the factors, each known to about 20 % / sqrt(20).
    assert fit.best == pytest.approx((0.3 / 4e-6) ** (1 / 3), rel=0.1)


def test_fit_finds_a_floor_that_does_not_move_the_optimum():
    x = np.logspace(0, 4, 13)
    fit = fit_u(x, 0.3 / x + 0.02 + 2e-8 * x**2)
    np.testing.assert_allclose([fit.noise, fit.floor, fit.bias], [0.3, 0.02, 2e-8], rtol=1e-5)
    assert fit.best == pytest.approx((0.3 / 4e-8) ** (1 / 3), rel=1e-5)


@pytest.mark.parametrize(
    ("law", "said"),
    [
        (lambda x: 0.3 / x, "noise branch only"),
        (lambda x: 2e-6 * x**2, "bias branch only"),
        (lambda x: 0.3 / x + 0.01, "noise branch only"),
        (lambda x: 0.1 + 0 * x, "no branch"),
    ],
)
def test_fit_of_one_branch_claims_no_optimum(law, said):
    rng = np.random.default_rng(3)
    x = np.repeat(np.logspace(-1, 3, 9), 3)
    for luck in (np.zeros(x.size), 0.2 * rng.normal(size=x.size)):
        fit = fit_u(x, law(x) * np.exp(luck))
        assert (fit.best, fit.error) == (None, None)
        assert said in fit.verdict


def test_fit_refuses():
    with pytest.raises(ArgumentError, match="three strengths with an error, but has 2"):
        fit_u([1, 2, 3, 4], [0.1, 0.2, np.nan, -1])
    with pytest.raises(ArgumentError, match="shape"):
        fit_u([1, 2, 3], [1, 2])
    with pytest.raises(ArgumentError, match="`order` must be positive"):
        fit_u([1, 2, 3], [1, 2, 3], 0)


# Maps -------------------------------------------------------------------------------------------------------------


def test_map_has_medians_words_and_the_border_of_what_is_required(ds):
    figure = heat(ds, "cosine", GAMMA, BITS, {"cosine": 0.99})
    axis = figure.axes[0]
    median = np.median(ds.cosine.sel({NOISE: 1e-3}), axis=-1)
    (mesh,) = [c for c in axis.collections if isinstance(c, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), 1 - median, rtol=0, atol=1e-15)
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("nudging strength γ", "resolution of the readout (bits)")
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "linear")
    assert figure.axes[1].get_ylabel() == "cosine to the exact gradient"
    said = texts(figure)
    assert "at readout noise 0.001; median of 5 repetitions" in said
    assert "cosine ≥ 0.99, on the bright side" in said
    assert len(axis.texts) == median.size + 1

    met = median >= 0.99
    pieces = border_of(figure)
    assert len(pieces) == np.sum(met[:, 1:] != met[:, :-1]) + np.sum(met[1:] != met[:-1]) > 0
    bits, gammas = ds[BITS].to_numpy(), ds[GAMMA].to_numpy()
    for (x1, y1), (x2, y2) in pieces:  # every piece stands between a cell that is good and one that is not
        middle = np.sqrt(x1 * x2), (y1 + y2) / 2
        sides = ((0, 0.5), (0, -0.5)) if y1 == y2 else ((0.2, 0), (-0.2, 0))
        near = [
            met[np.argmin(abs(bits - middle[1] - dy)), np.argmin(abs(np.log(gammas / middle[0]) - dx))]
            for dx, dy in sides
        ]
        assert sorted(near) == [False, True]


def test_map_without_a_border_says_so(ds):
    assert border_of(heat(ds, "cosine", GAMMA, BITS)) is None
    for limit, where in ((-1.0, "everywhere"), (1.0, "nowhere")):
        figure = heat(ds, "cosine", GAMMA, BITS, {"cosine": limit})
        assert border_of(figure) is None
        assert f"is met {where}" in texts(figure)


def test_map_at_a_value_and_at_the_best(ds):
    median = np.median(ds.cosine, axis=-1)
    for at, wanted in (
        ({GAMMA: 10.0}, median[:, :, 2]),
        ({GAMMA: BEST}, median.max(axis=2)),
        ({GAMMA: 10.0, SEED: 3}, ds.cosine.to_numpy()[:, :, 2, 3]),
    ):
        mesh = heat(ds, "cosine", NOISE, BITS, at=at).axes[0].collections[0]
        np.testing.assert_allclose(mesh.get_array(), 1 - wanted, rtol=0, atol=1e-15)
    assert "at best γ" in texts(heat(ds, "error", NOISE, BITS, at={GAMMA: BEST}))
    mesh = heat(ds, "error", NOISE, BITS, at={GAMMA: BEST}).axes[0].collections[0]
    np.testing.assert_allclose(mesh.get_array(), np.median(ds.error, axis=-1).min(axis=2), rtol=1e-15)


def test_failed_cells_are_hatched_and_counted():
    ds = grid()
    ds.cosine[0, 1, -1] = ds.error[0, 1, -1] = np.nan  # all repetitions of one cell
    ds.cosine[1, 1, 0, 2] = ds.error[1, 1, 0, 2] = np.nan  # one of another
    figure = heat(ds, "cosine", GAMMA, BITS, {"cosine": 0.99})
    mesh = figure.axes[0].collections[0]
    assert np.ma.getmaskarray(mesh.get_array()).sum() == 1
    assert mesh.get_array()[1, 0] == pytest.approx(1 - np.nanmedian(ds.cosine[1, 1, 0]), abs=1e-15)
    said = texts(figure)
    assert "6 of 175 points failed" in said
    assert "failed" in said.splitlines()[-2:]
    ds.error[0, 1, -1] = 1.0  # a gradient of nothing has an error, but no direction
    assert "6 of 175 points have no cosine" in texts(heat(ds, "cosine", GAMMA, BITS))


def test_many_cells_are_not_annotated_and_ratios_diverge_about_one():
    ds = grid(bits=range(4, 16), noise=(1e-3,), gamma=tuple(np.logspace(0, 3, 12)), seeds=2)
    assert ds[BITS].size * ds[GAMMA].size > MOST_CELLS
    figure = heat(ds, "norm_ratio", GAMMA, BITS)
    assert len(figure.axes[0].texts) == 1
    norm = figure.axes[0].collections[0].norm
    assert norm.vmin * norm.vmax == pytest.approx(1)


def test_axes_with_a_zero_infinity_or_words_go_by_place():
    for values in ((0.0, 1e-4, 1e-2), (1e2, 1e4, np.inf), ("low", "high", "none")):
        ds = grid(noise=(1e-4, 1e-3, 1e-2), seeds=2).assign_coords({NOISE: list(values)})
        axis = heat(ds, "cosine", NOISE, BITS).axes[0]
        assert list(axis.get_xticks()) == [0, 1, 2]
        assert [t.get_text() for t in axis.get_xticklabels()] == [number_text(v) for v in values]
        assert axis.get_xlabel() == "readout noise"  # without attributes, the path


# Lines ------------------------------------------------------------------------------------------------------------


def test_lines_are_medians_with_quantiles_and_the_requirement(ds):
    figure = lines(ds, "cosine", GAMMA, BITS, {"cosine": 0.99}, at={NOISE: 1e-2})
    axis = figure.axes[0]
    part = ds.cosine.sel({NOISE: 1e-2}).to_numpy()
    for i, line in enumerate(axis.lines[:5]):
        np.testing.assert_allclose(line.get_ydata(), 1 - np.median(part[i], axis=-1), rtol=0, atol=1e-15)
        np.testing.assert_allclose(line.get_xdata(), GAMMAS)
        low, high = np.quantile(part[i], (0.16, 0.84), axis=-1)
        corners = axis.collections[i].get_paths()[0].vertices[:, 1]
        for wanted in np.concatenate([1 - low, 1 - high]):
            assert np.min(abs(corners - wanted)) < 1e-15
    assert dashed(figure) == [pytest.approx(0.01)]
    assert axis.yaxis_inverted()
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    said = texts(figure)
    for word in (
        "resolution of the readout (bits)",
        "\n10\n",
        "16–84 % of repetitions",
        "cosine ≥ 0.99",
        "at readout noise",
    ):
        assert word in said


def test_lines_without_repetitions_have_no_band(ds):
    figure = lines(ds.isel(seed=[0]), "error", BITS, at={GAMMA: 1.0})
    assert not figure.axes[0].collections
    assert "16–84" not in texts(figure)
    assert figure.axes[0].get_ylabel() == "relative error of the gradient"
    assert not dashed(lines(ds, "error", BITS, require={"cosine": 0.99}))


def test_of_many_lines_some_are_drawn_and_said_to_be():
    ds = grid(bits=range(1, 25), noise=(1e-3,), gamma=(1.0, 10.0), seeds=2)
    figure = lines(ds, "error", GAMMA, BITS)
    assert "10 of 24 values of readout bits drawn" in texts(figure)


# U curves ---------------------------------------------------------------------------------------------------------


def stars(figure):
    return [line for line in figure.axes[0].lines if line.get_marker() == "*" and len(line.get_xdata())]


def circles(figure):
    return [
        line for line in figure.axes[0].lines if line.get_markersize() == 9 and line.get_markerfacecolor() == "none"
    ]


def test_u_curve_marks_the_optimum_of_the_law():
    ds = grid(spread=0.0)
    figure = u_curve(ds, BITS, at={NOISE: 1e-3})
    wanted = (noise_of(ds[BITS].to_numpy(), 1e-3) / (2 * BIAS)) ** (1 / 3)
    found = [star.get_xdata()[0] for star in stars(figure)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)  # exact data; the solver's stop
    heights = [star.get_ydata()[0] for star in stars(figure)]
    np.testing.assert_allclose(heights, 3 * BIAS * wanted**2, rtol=1e-5)
    lowest = ds.error.sel({NOISE: 1e-3}).median(SEED).argmin(GAMMA)
    np.testing.assert_allclose([c.get_xdata()[0] for c in circles(figure)], ds[GAMMA][lowest])
    assert f"4: γ* = {wanted[0]:.3g}" in texts(figure)
    assert "noise ∝ 1/γ, bias ∝ γ²" in texts(figure)
    dotted = [line for line in figure.axes[0].lines if line.get_linestyle() == ":" and len(line.get_xdata())]
    assert len(dotted) == 2 * len(wanted)


@pytest.mark.parametrize(
    ("gamma", "said"), [((0.1, 0.3, 1.0), "noise branch only"), ((1e4, 3e4, 1e5), "bias branch only")]
)
def test_u_curve_of_one_branch_draws_no_optimum(gamma, said):
    figure = u_curve(grid(gamma=gamma, spread=0.0))
    assert not stars(figure)
    assert said in texts(figure)
    assert "no optimum in this range" in " ".join(texts(figure).split())
    assert "no optimum" not in texts(u_curve(grid()))


def test_u_curve_over_another_axis_and_with_too_few_points(ds):
    figure = u_curve(ds, x=BITS, order=1)
    assert figure.axes[0].get_xlabel() == "resolution of the readout (bits)"
    assert "too few points for a fit" in texts(u_curve(grid(gamma=(1.0, 10.0))))
    with pytest.raises(ArgumentError, match="positive numbers"):
        u_curve(ds, x=SEED)
    with pytest.raises(ArgumentError, match="must give values for a U curve, but has best"):
        u_curve(ds, at={NOISE: BEST})


# Fronts -----------------------------------------------------------------------------------------------------------


def unbeaten(cost, badness):
    """A front by comparing all with all."""
    return np.array(
        [
            not any(
                c <= a and d <= b and (c < a or d < b)
                for c, d in zip(cost, badness, strict=True)
            )
            for a, b in zip(cost, badness, strict=True)
        ]
    )  # fmt: skip


def test_front_is_what_comparing_all_with_all_gives():
    rng = np.random.default_rng(5)
    for size in (1, 2, 60):
        for _ in range(20):
            cost, badness = rng.integers(0, 12, (2, size)).astype(float)  # with many ties
            np.testing.assert_array_equal(front(cost, badness), unbeaten(cost, badness))
    assert not front(np.array([np.nan, np.inf]), np.array([0.0, 0.0])).any()


def test_pareto_draws_all_settings_their_front_and_its_list(ds):
    figure = pareto(ds, require={"cosine": 0.99})
    axis = figure.axes[0]
    cost, cosine = (ds[n].median(SEED).to_numpy().ravel() for n in ("energy", "cosine"))
    wanted = unbeaten(cost, -cosine)
    points = {line.get_label(): line for line in axis.lines if len(line.get_xdata()) and line.get_marker() == "o"}
    drawn = points["front: none is both\ncheaper and better"]
    order = np.argsort(cost[wanted], kind="stable")
    np.testing.assert_allclose(drawn.get_xdata(), cost[wanted][order], rtol=1e-15)
    np.testing.assert_allclose(drawn.get_ydata(), 1 - cosine[wanted][order], rtol=0, atol=1e-15)
    assert len(points["a setting"].get_xdata()) == cost.size - wanted.sum()
    assert axis.get_xscale() == "log"
    assert axis.get_xlabel() == "energy per gradient (J)"
    assert dashed(figure) == [pytest.approx(0.01)]
    best = np.unravel_index(np.argmax(cosine), ds.cosine.shape[:3])
    setting = [float(ds[n][i]) for n, i in zip((BITS, NOISE, GAMMA), best, strict=True)]
    assert " · ".join(number_text(v) for v in setting) in texts(figure)
    fixed = pareto(ds, at={GAMMA: 10.0}).axes[0].lines
    assert sum(len(line.get_xdata()) for line in fixed if line.get_marker() == "o") == 15


# What fits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "kind"), [(grid, "png"), (sampled, "svg")])
def test_overview_has_what_the_axes_allow_and_all_can_be_saved(make, kind):
    found = overview(make(), {"cosine": 0.99})
    wanted = {"cosine-map", "cosine-over-readout-bits", "cosine-over-readout-noise", "cosine-over-gamma"}
    wanted |= {"cosine-against-energy"} | ({"u-curve"} if make is grid else set())
    assert set(found) == wanted
    for figure in found.values():
        figure.savefig(BytesIO(), format=kind, dpi=40)


def test_overview_of_few_axes(ds):
    assert set(overview(ds.isel({BITS: [2], NOISE: [1]}))) == {"cosine-over-gamma", "u-curve"}
    assert set(overview(ds.isel({BITS: [2], NOISE: [1], GAMMA: [3]}))) == set()
    loss = ds.cosine.rename("final_loss").assign_attrs(long_name="loss after training")
    assert "final-loss-map" in overview(ds.assign(final_loss=loss))


def test_of_one_parameter_errors_are_drawn_as_a_cosine_is_only_a_sign(ds):
    one = ds.assign_coords(parameter=["L1.inductance"])
    assert read(ds).quality == "cosine"
    assert {"error-map", "error-over-gamma", "error-against-energy"} <= set(overview(one))
    assert any("only its sign" in w for w in read(one).warnings)


def test_axes_that_do_nothing_are_named(ds):
    assert read(ds).idle == []
    still = ds.isel({SEED: [0, 0, 0]}).assign_coords({SEED: [0, 1, 2]})
    assert read(still).warnings == ["no outcome depends on seed"]
    chips = still.rename({SEED: "chip"})
    assert "fabrication.mismatch" in read(chips).warnings[0]


def test_files_are_named_without_patterns(ds):
    found = overview(ds.rename({NOISE: "elements.L*.tolerance"}))
    assert "cosine-over-L-tolerance" in found


def test_samples_are_put_into_bins():
    ds = sampled(300)
    axis = read(ds).axes[NOISE]
    assert (axis.binned, axis.scale, len(axis.values)) == (True, "log", 10)
    figure = heat(ds, "cosine", BITS, NOISE, {"cosine": 0.99})
    assert figure.axes[0].get_ylabel() == "noise of the readout (full scales), in bins"
    edges = np.exp(np.linspace(*np.log([ds[NOISE].min(), ds[NOISE].max()]), 11))
    inside = (ds[NOISE] >= edges[4]) & (ds[NOISE] < edges[5]) & (ds[BITS] == 7)
    mesh = figure.axes[0].collections[0].get_array()
    assert mesh[4, 3] == pytest.approx(float(1 - ds.cosine[inside].median()), abs=1e-15)


def test_zipped_axes_stay_as_they_are():
    bits = np.arange(2.0, 18.0)
    ds = xr.Dataset({"error": ("point", 2**-bits)}, {BITS: ("point", bits), NOISE: ("point", 2**-bits)})
    figure = lines(ds, "error", NOISE)
    assert len(figure.axes[0].lines[0].get_xdata()) == 16
    assert figure.axes[0].get_xscale() == "log"


def test_more_dimensions_are_left_aside(ds):
    kinds = xr.DataArray(np.zeros((*ds.cosine.shape, 2)), dims=(*ds.cosine.dims, "kind"), coords={"kind": ["L", "C"]})
    points = read(ds.assign(cosine_by_kind=kinds))
    assert "cosine_by_kind" not in points.outcomes
    assert list(points.axes) == [BITS, NOISE, GAMMA, SEED]


def test_refusals_name_what_is_there(ds):
    with pytest.raises(ArgumentError, match=r"did you mean `profile\.readout\.bits`"):
        heat(ds, "cosine", "profile.readout.bit", NOISE)
    with pytest.raises(ArgumentError, match="did you mean `cosine`"):
        lines(ds, "cosin", GAMMA)
    with pytest.raises(ArgumentError, match="differ from the other axis"):
        heat(ds, "cosine", BITS, BITS)
    with pytest.raises(ArgumentError, match=r"a value of learning.gamma, but 7.0 is none: 1, 3.16"):
        heat(ds, "cosine", BITS, NOISE, at={GAMMA: 7.0})
    with pytest.raises(ArgumentError, match="of which more or less is better, but norm_ratio"):
        lines(ds, "cosine", BITS, require={"norm_ratio": 1.0})
    with pytest.raises(ArgumentError, match="asks for the best norm_ratio"):
        heat(ds, "norm_ratio", BITS, NOISE, at={GAMMA: BEST})
    with pytest.raises(ArgumentError, match=r"axes that are not drawn, but has learning\.gamma"):
        lines(ds, "cosine", GAMMA, at={GAMMA: 1.0})
    with pytest.raises(ArgumentError, match="must give values for a front, but has best"):
        pareto(ds, at={GAMMA: BEST})
    with pytest.raises(ArgumentError, match="`require` must name an outcome, but 'cosin'"):
        heat(ds, "cosine", BITS, NOISE, {"cosin": 0.9})
    with pytest.raises(ArgumentError, match="finite limits"):
        heat(ds, "cosine", BITS, NOISE, {"cosine": np.nan})
    with pytest.raises(ArgumentError, match="`cost` must be better when lower"):
        pareto(ds, "cosine", "energy")
    with pytest.raises(ArgumentError, match="must hold outcomes"):
        read(xr.Dataset())


def test_a_sweep_that_failed_throughout_can_still_be_drawn(ds):
    lost = ds * np.nan
    for figure in overview(lost, {"cosine": 0.99}).values():
        figure.savefig(BytesIO(), dpi=40)
    assert "is met nowhere" in texts(heat(lost, "cosine", BITS, NOISE, {"cosine": 0.99}))
    assert read(lost).failed.all()


def test_words_and_numbers():
    assert words("profile.readout.bits") == "readout bits"
    assert words("learning.gamma") == "γ"
    assert [number_text(v) for v in (4, 0.0316228, 1e-4, 2154.4, 46416.1, 123456.0, np.inf)] == [
        "4", "0.0316", "1e-4", "2154", "4.64e4", "1.23e5", "∞",
    ]  # fmt: skip
    distances = (1.0, 0.55, 0.1, 0.0123, 0.01, 7.1e-5, 2.1e-7, 1e-9)
    shown = ["0", "0.45", "0.9", "0.98", "0.99", "0.99992", "1−3·10⁻⁷", "1−10⁻⁹"]  # never rounded up
    assert [cosine_text(d) for d in distances] == shown


def test_cells_of_uneven_axes_are_equally_large():
    axes = {"profile.echo.gain": [0.7, 0.997, 1.003, 1.3], "learning.gamma": [1.0, 10.0, 100.0]}
    dims = tuple(axes)
    values = xr.DataArray(1 - np.geomspace(1e-7, 1e-1, 12).reshape(4, 3), dims=dims, attrs={"units": "1"})
    points = read(xr.Dataset({"cosine": values}, {k: (k, v) for k, v in axes.items()}))
    gain, gamma = (in_cells(points.axes[name]) for name in dims)
    assert (gain.scale, gamma.scale) == ("index", "log")
    assert list(edges(gain)) == [-0.5, 0.5, 1.5, 2.5, 3.5]
    assert gain.texts == ["0.7", "0.997", "1.003", "1.3"]  # 1 would be told of what is not 1


@pytest.mark.parametrize("ends", [(1e-300, 1e300), (1e-300, 1e-150), (1.0, 1e250)])
def test_cells_beyond_what_numbers_reach_stand_side_by_side(ends):
    values = xr.DataArray([0.5, 0.9], dims="learning.gamma", attrs={"units": "1"})
    points = read(xr.Dataset({"cosine": values}, {"learning.gamma": ("learning.gamma", list(ends))}))
    axis = in_cells(points.axes["learning.gamma"])
    assert np.all(np.isfinite(edges(axis)))
    assert np.all(np.diff(edges(axis)) > 0)


@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (0.31, "0.69"),
        (7e-4, "0.9993"),
        (2.1e-5, "1−3e-5"),
        (1e-5, "1−1e-5"),
        (2e-7, "1−2e-7"),
        (9.6e-8, "1−1e-7"),
        (1e-16, "1"),
    ],
)
def test_cosines_in_few_characters(distance, text):
    assert short_text(distance) == text
    assert len(text) <= 6


def test_a_fit_may_change_its_mind_about_a_branch():
    """Errors of a circuit whose echoes break off at the last strength: the first fit has an optimum beyond it."""
    strengths = np.geomspace(1, 1e5, 11)
    errors = np.array([0.49, 0.56, 0.31, 0.15, 0.058, 0.0095, 0.0018, 0.00095, 0.00044, 0.00019, 0.49])
    fit = fit_u(np.repeat(strengths, 5), np.repeat(errors, 5), 2)
    assert fit.best is None or strengths[0] < fit.best < strengths[-1]
    assert np.all(np.isfinite(fit(strengths)))

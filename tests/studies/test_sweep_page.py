"""The page of a sweep in a browser without a network: what it draws is what numpy says, and nothing is fetched."""

import csv
import json
import re
import sys
from html import unescape

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from devices import ArgumentError
from studies.sweeps import page
from studies.sweeps.reading import BAND, front
from tests.studies.sweep_data import BITS, DESIGN, GAMMA, NOISE, SEED, grid, sampled

LIMIT = 0.99


@pytest.fixture(scope="module")
def ds():
    found = grid(bits=(4, 6, 8), noise=(1e-4, 1e-2), gamma=(1.0, 10.0, 100.0, 1000.0), seeds=5)
    found.cosine[0, 1, -1] = found.error[0, 1, -1] = np.nan
    return found


def visit(browser, path):
    """An open page, and what went wrong or was asked for on the way."""
    tab, trouble = browser.new_page(viewport={"width": 1280, "height": 900}), []
    tab.on("console", lambda m: trouble.append(m.text))
    tab.on("pageerror", lambda e: trouble.append(str(e)))
    tab.on("request", lambda r: trouble.append(r.url) if r.url != path.as_uri() else None)
    tab.goto(path.as_uri())
    return tab, trouble


@pytest.fixture(scope="module")
def opened(ds, browser, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "sweep.html"
    page.write(ds, path, require={"cosine": LIMIT}, notes=["Made <up>."])
    return visit(browser, path)


@pytest.fixture
def tab(opened):
    """The page with all choices as they were at first."""
    tab, trouble = opened
    choose(tab, outcome="cosine", kind="heat", x=BITS, by=NOISE, **{GAMMA: "best", NOISE: "best", SEED: "median"})
    yield tab
    assert trouble == []


def choose(tab, **values):
    """Set controls, and filters by the names of their axes, all at once."""
    wanted = {f"filter-{n}" if n in (BITS, NOISE, GAMMA, SEED) else n: v for n, v in values.items()}
    tab.evaluate(
        "wanted => { const all = Object.entries(wanted).map(([id, v]) => [document.getElementById(id), v]);"
        " for (const [e, v] of all) e.value = v; all[0][0].dispatchEvent(new Event('change')); }",
        wanted,
    )


def drawn(tab, chart="chart"):
    """Traces of a chart; typed arrays come as lists."""
    text = tab.evaluate(
        "id => JSON.stringify(document.getElementById(id).data.map(({type, mode, name, x, y, z, text}) =>"
        " ({type, mode, name, x, y, z, text})))",
        chart,
    )
    return json.loads(text)


def nines(cosine):
    return -np.log10(1 - cosine)


def test_the_page_has_its_parts_and_asks_for_nothing(tab, ds):
    assert tab.title() == "six coupled LC oscillators"
    said = tab.inner_text("body")
    good = int((ds.cosine >= LIMIT).sum())
    for text in (
        "120\npoints",
        "115\ncomputed",
        "5\nfailed",
        f"{good} of 120\npoints meet cosine ≥ 0.99",
        "Made <up>.",
    ):
        assert text in said
    assert [tab.locator(f"#{i} .main-svg").count() > 0 for i in ("chart", "pareto")] == [True, True]
    assert tab.locator("#points tbody tr").count() == 50
    assert not tab.locator("details[open]").count()
    tab.click("summary")
    made = tab.inner_text("details")
    tab.click("summary")
    for text in (*DESIGN.split("\n"), "0, 1, 2, 3, 4", "readout.full_scale", "0.6.0"):
        assert text in made


def test_the_cheapest_setting_that_will_do_is_named(tab, ds):
    cost, cosine = (ds[n].median(SEED) for n in ("energy", "cosine"))
    good = cosine.where(cosine >= LIMIT)
    place = good.where(cost == cost.where(good > 0).min()).argmax(...)  # of equally cheap ones, the best
    wanted = [f"{float(ds[n][place[n]]):g}" for n in (BITS, NOISE, GAMMA)]
    found = re.search(r"by medians: readout bits (\S+), readout noise (\S+) and γ (\S+), for", tab.inner_text("body"))
    assert list(found.groups()) == wanted


def test_the_map_is_what_numpy_says_for_every_choice(tab, ds):
    median = ds.cosine.median(SEED)
    first = drawn(tab)[0]
    assert first["type"] == "heatmap"
    np.testing.assert_allclose(first["z"], nines(median.max(GAMMA).to_numpy().T), rtol=1e-9)
    choose(tab, **{GAMMA: "3"})
    found = np.array(drawn(tab)[0]["z"], float)  # with a cell that failed
    np.testing.assert_allclose(found, nines(median[..., 3].to_numpy().T), rtol=1e-9)
    assert np.isnan(found).sum() == 1
    choose(tab, **{SEED: "2"})
    np.testing.assert_allclose(np.array(drawn(tab)[0]["z"], float), nines(ds.cosine[..., 3, 2].to_numpy().T), rtol=1e-9)
    choose(tab, **{GAMMA: "median", SEED: "median"})
    both = np.nanmedian(ds.cosine.to_numpy().reshape(3, 2, -1), axis=-1)
    np.testing.assert_allclose(drawn(tab)[0]["z"], nines(both.T), rtol=1e-9)


def test_the_border_of_the_requirement(tab, ds):
    choose(tab, x=GAMMA, by=BITS, **{NOISE: "1"})
    met = ds.cosine[:, 1].median(SEED).to_numpy() >= LIMIT
    pieces = np.sum(met[:, 1:] != met[:, :-1]) + np.sum(met[1:] != met[:-1])
    border = drawn(tab)[-1]
    assert border["name"] == "cosine ≥ 0.99, on the bright side"
    assert len(border["x"]) == 1 + 3 * pieces > 1
    texts = drawn(tab)[1]
    assert (texts["mode"], len(texts["text"])) == ("text", 11)


def test_lines_are_medians_with_their_band(tab, ds):
    choose(tab, kind="lines", x=GAMMA, by=BITS, **{NOISE: "0"})
    part = ds.cosine[:, 0].to_numpy()
    traces = drawn(tab)
    lines, bands = traces[1::2], traces[::2]
    assert [t["name"] for t in lines] == ["4", "6", "8"]
    for own, line, band in zip(part, lines, bands, strict=True):
        assert line["x"] == [1, 10, 100, 1000]
        np.testing.assert_allclose(line["y"], 1 - np.median(own, axis=-1), rtol=1e-9)
        low, high = np.quantile(own, BAND, axis=-1)
        np.testing.assert_allclose(band["y"], 1 - np.concatenate([high, low[::-1]]), rtol=1e-9)
    choose(tab, by="")
    assert [len(t["y"]) for t in drawn(tab)] == [8, 4]


def test_an_outcome_without_a_better_side_has_medians(tab, ds):
    choose(tab, outcome="norm_ratio")
    assert tab.input_value(f'[id="filter-{GAMMA}"]') == "median"
    whole = np.median(ds.norm_ratio.to_numpy().reshape(3, 2, -1), axis=-1)
    np.testing.assert_allclose(drawn(tab)[0]["z"], np.log10(whole.T), atol=1e-9)
    choose(tab, outcome="error")
    assert tab.input_value(f'[id="filter-{GAMMA}"]') == "best"
    best = ds.error.median(SEED).min(GAMMA).to_numpy()
    np.testing.assert_allclose(drawn(tab)[0]["z"], best.T, rtol=1e-9)  # too even for a logarithm


def test_the_front_is_numpys_and_follows_the_choice(tab, ds):
    for code, part in (("best", ds), ("1", ds.isel({GAMMA: [1]}))):
        choose(tab, **{GAMMA: code})
        cost, cosine = (part[n].median(SEED).to_numpy().ravel() for n in ("energy", "cosine"))
        cost, cosine = cost[~np.isnan(cosine)], cosine[~np.isnan(cosine)]
        wanted = front(cost, -cosine)
        dots, line = drawn(tab, "pareto")
        order = np.argsort(cost[wanted])
        np.testing.assert_allclose(line["x"], cost[wanted][order], rtol=1e-12)
        np.testing.assert_allclose(line["y"], 1 - cosine[wanted][order], rtol=1e-9)
        assert len(dots["x"]) == (~wanted).sum()


def test_the_table_is_sorted_by_a_click(tab, ds):
    first = "#points tbody tr:first-child td"
    assert float(tab.locator(first).nth(3).inner_text()) == int(ds.cosine.argmax(...)[SEED])
    tab.locator("#points th button", has_text="error").click()
    assert tab.locator("#points th[aria-sort=ascending]").inner_text().startswith("error")
    assert float(tab.locator(first).nth(5).inner_text()) == pytest.approx(float(ds.error.min()), rel=5e-3)  # 3 digits
    tab.locator("#points th button", has_text="error").click()
    assert float(tab.locator(first).nth(5).inner_text()) == pytest.approx(float(ds.error.max()), rel=5e-3)


def test_the_download_has_all_points_of_the_choice_exactly(tab, ds):
    choose(tab, **{GAMMA: "3"})
    with tab.expect_download() as coming:
        tab.click("#csv")
    assert coming.value.suggested_filename == "six-coupled-lc-oscillators.csv"
    with open(coming.value.path()) as stream:
        rows = list(csv.DictReader(stream))
    wanted = ds.isel({GAMMA: 3})
    assert len(rows) == wanted.cosine.size == 30
    assert list(rows[0])[:6] == [BITS, NOISE, GAMMA, SEED, "cosine", "error"]
    assert sorted(rows[0]) == sorted([BITS, NOISE, GAMMA, SEED, *ds.data_vars])
    for row in rows:
        own = wanted.sel({n: float(row[n]) for n in (BITS, NOISE, SEED)})
        assert float(row[GAMMA]) == 1000
        for name in ds.data_vars:
            value = float(own[name])
            assert row[name] == "" if np.isnan(value) else float(row[name]) == value
    assert sum(row["cosine"] == "" for row in rows) == 5


def test_samples_and_strange_words_and_a_single_axis(browser, tmp_path):
    odd = sampled(60).assign_attrs(name='</script><b>"x"', design="</script>\u2028<!-- a", versions="none")
    tab, trouble = visit(browser, page.write(odd, tmp_path / "odd.html"))
    assert tab.inner_text("h1") == '</script><b>"x"'
    assert tab.locator("#points tbody tr").count() == 50
    assert np.isfinite(np.array(drawn(tab)[0]["z"], float)).any()
    tab.close()
    single = grid(bits=(8,), noise=(1e-3,), seeds=1)
    single = single.drop_vars(["energy", "device_seconds"])
    other, more = visit(browser, page.write(single, tmp_path / "one.html", title="One"))
    assert [t["mode"] for t in drawn(other)] == ["lines+markers"]
    np.testing.assert_allclose(drawn(other)[0]["y"], 1 - single.cosine.to_numpy().ravel(), rtol=1e-9)
    assert not other.locator("#pareto").count()
    other.close()
    assert trouble + more == []


# Without a browser ------------------------------------------------------------------------------------------------


def embedded(path):
    text = path.read_text("utf-8")
    return text, json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_ten_thousand_points_fit_and_are_exact(tmp_path):
    ds = grid(bits=range(3, 13), noise=np.logspace(-5, -1, 10), gamma=np.logspace(0, 3, 10), seeds=10)
    ds.cosine[0, 0, 0, 0] = np.nan
    path = page.write(ds, tmp_path / "large.html")
    assert path.stat().st_size < 8e6  # of which plotly is nearly five
    text, data = embedded(path)
    column = next(o["column"] for o in data["outcomes"] if o["name"] == "cosine")
    assert column[0] is None
    np.testing.assert_array_equal(column[1:], ds.cosine.to_numpy().ravel()[1:])
    assert not re.search(r'(?:src|href)="(?!data:)|https?://', text.replace(get_plotlyjs(), ""))
    assert "default-src 'none'" in text


def test_what_is_written_is_whole_or_refused(ds, tmp_path, monkeypatch):
    with pytest.raises(ArgumentError, match="folder that can be written"):
        page.write(ds, tmp_path / "nowhere" / "a.html")
    with pytest.raises(ArgumentError, match="did you mean `cosine`"):
        page.write(ds, tmp_path / "a.html", require={"cosin": 0.9})
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ArgumentError, match=r"plotly is not installed: pip install 'rhel-hw\[report\]'"):
        page.write(ds, tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_costs_that_nobody_knows_are_not_asked(ds, tmp_path):
    adc = ds.energy.assign_attrs(long_name="energy of reading", units="J")
    partly = ds.assign(energy=ds.energy * np.nan, adc_energy=adc)
    text, data = embedded(page.write(partly, tmp_path / "a.html", require={"cosine": LIMIT}))
    assert data["costs"] == ["adc_energy"]
    assert re.search(r"The cheapest setting [^<]* pJ \(energy of reading\)", text)
    assert [o["name"] for o in data["outcomes"] if o["empty"]] == ["energy"]
    hopeless, _ = embedded(page.write(ds, tmp_path / "b.html", require={"cosine": 1.0}))
    assert "No setting does what is required" in hopeless


def test_attributes_are_told(ds, tmp_path):
    told = ds.assign_attrs(
        command="rhel-hw sweep ring.toml --out here", versions={"jax": "9"}, axes='["a"]', design="="
    )
    text = unescape(page.write(told, tmp_path / "a.html", title="A & B").read_text("utf-8"))
    head = text[: text.index('<script type="application/json"')]
    for part in (
        "<title>A & B",
        "rhel-hw sweep ring.toml --out here",
        "<td>9</td>",
        "<td>axes</td>",
        "ideal, apart from",
    ):
        assert part in head

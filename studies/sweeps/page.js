// Charts and table of a sweep's page, after words.js. All numbers are in the element `data`; nothing is fetched.
"use strict";
(() => {
  const D = JSON.parse(document.getElementById("data").textContent);
  const AXES = new Map(D.axes.map((a) => [a.name, a]));
  const OUTCOMES = new Map(D.outcomes.map((o) => [o.name, o]));
  const MOST_CELLS = 120, MOST_ROWS = 50, MOST_LINES = 10, MOST_DOTS = 3000, MOST_TICKS = 10;
  const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#a5db36"];
  const SIGNS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
  const DIVERGING = [[0, "#7f3b08"], [0.25, "#e08214"], [0.5, "#f7f7f7"], [0.75, "#8073ac"], [1, "#2d004b"]];
  const RATIOS = [0.01, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 100];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let order = { column: D.first, down: OUTCOMES.get(D.first).better === "higher" };

  // Words -----------------------------------------------------------------------------------------------------------

  const shown = (o, v) => (v !== null && o.name === "cosine" ? cosine(Math.max(1 - v, FLOOR)) : number(v));
  const limited = (o) => o.name in D.require;
  const demand = (o) => `${o.short} ${o.better === "higher" ? "≥" : "≤"} ${number(D.require[o.name], 6)}`;
  const meets = (o, v) => v !== null && (o.better === "higher" ? v >= D.require[o.name] : v <= D.require[o.name]);

  function hover(o, cell, where) {
    const head = where.map(([axis, i]) => `${axis.short} ${axis.texts[i]}`).join(", ");
    if (!cell) return `${head}<br>no value`;
    const band = `<br>median of ${cell.n}, 16–84 %: ${shown(o, cell.low)} to ${shown(o, cell.high)}`;
    return `${head}<br><b>${o.short} ${shown(o, cell.median)} ${o.unit}</b>${cell.n > 1 ? band : ""}`;
  }

  // Numbers ---------------------------------------------------------------------------------------------------------

  /** Of sorted numbers, interpolated as numpy does. */
  function quantile(values, q) {
    const place = (values.length - 1) * q, low = Math.floor(place), high = Math.min(low + 1, values.length - 1);
    return values[low] + (values[high] - values[low]) * (place - low);
  }

  function groupsOf(rows, key) {
    const groups = new Map();
    for (const i of rows) {
      const own = key(i), group = groups.get(own);
      if (group) group.push(i); else groups.set(own, [i]);
    }
    return groups;
  }

  const valuesOf = (column, rows) => rows.map((i) => column[i]).sort((a, b) => a - b);

  /** Median and quantiles of an outcome by the axes `over`, at the best of the axes `best`: a map from "i,j". */
  function cells(o, over, best, rows) {
    const codes = [...over, ...best].map((n) => AXES.get(n).codes), sign = o.better === "higher" ? 1 : -1;
    const found = new Map(), kept = rows.filter((i) => o.column[i] !== null);
    for (const [key, group] of groupsOf(kept, (i) => codes.map((c) => c[i]).join())) {
      const values = valuesOf(o.column, group), [median, low, high] = [0.5, 0.16, 0.84].map((q) => quantile(values, q));
      const place = key.split(",").slice(0, over.length).join(), old = found.get(place);
      if (!old || sign * median > sign * old.median) found.set(place, { median, low, high, n: values.length });
    }
    return found;
  }

  /** How values are drawn: cosines near one by their distance from it, what spans decades by its logarithm. */
  function scaleOf(o, values) {
    const seen = values.filter((v) => v !== null).concat(limited(o) ? [D.require[o.name]] : []);
    const sizes = o.name === "cosine" ? seen.map((v) => Math.max(1 - v, FLOOR)) : seen;
    const least = sizes.reduce((a, b) => Math.min(a, b), Infinity), most = sizes.reduce((a, b) => Math.max(a, b), 0);
    const log = least > 0 && most > 10 * least, nines = log && o.name === "cosine";
    return { log, nines, least, most, drawn: (v) => (nines && v !== null ? Math.max(1 - v, FLOOR) : v) };
  }

  // Charts ----------------------------------------------------------------------------------------------------------

  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 74, r: 16, t: 36, b: 58 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "#8a949e", activecolor: "#0072B2" },
    font: { family: "system-ui, 'DejaVu Sans', sans-serif", size: 13, color: css("--ink") }, hovermode: "closest",
    legend: { orientation: "h", y: -0.2, yanchor: "top", x: 0, font: { size: 12 } }, ...more,
  });

  const side = (title, more) => ({
    title: { text: title, standoff: 12 }, gridcolor: css("--line"), linecolor: css("--dim"), showline: true,
    zeroline: false, automargin: true, ...more,
  });

  /** A side of a chart for a swept axis, by its values or by their places. */
  function sweptSide(axis, byPlace) {
    const places = byPlace || axis.scale === "index", count = axis.texts.length;
    const title = axis.title + (axis.binned ? ", in bins" : ""), type = places ? "linear" : axis.scale;
    const powers = type === "log" && { dtick: 1, exponentformat: "power" };
    if (!places && count > MOST_TICKS) return side(title, { type, ...powers });
    const every = Math.ceil(count / MOST_TICKS), ticks = axis.texts.map((_, i) => i).filter((i) => i % every === 0);
    const tickvals = ticks.map((i) => (places ? i : axis.values[i]));
    return side(title, { type, tickvals, ticktext: ticks.map((i) => axis.texts[i]) });
  }

  /** Ticks of cosines, at powers of ten of their distance from one. */
  function nines(scale) {
    const powers = [];
    for (let e = Math.ceil(Math.log10(scale.most)); e >= Math.floor(Math.log10(scale.least)); e--) powers.push(e);
    const kept = powers.filter((_, i) => i % Math.ceil(powers.length / 9) === 0);
    return { tickvals: kept.map((e) => 10 ** e), ticktext: kept.map((e) => cosine(10 ** e)) };
  }

  function outcomeSide(o, scale) {
    if (scale.nines) return side(o.title, { type: "log", autorange: "reversed", ...nines(scale) });
    const prefixed = /^(J|s|Hz|W|V|A)$/.test(o.unit);
    const ticks = prefixed ? { exponentformat: "SI", ticksuffix: o.unit } : { exponentformat: "power" };
    return side(o.title, { type: scale.log ? "log" : "linear", ...(scale.log && { dtick: 1 }), ...ticks });
  }

  function limitLine(o, scale) {
    if (!limited(o)) return {};
    const y = scale.drawn(D.require[o.name]), line = { color: css("--ink"), width: 1.5, dash: "dash" };
    const text = { text: demand(o), showarrow: false, bgcolor: css("--page"), opacity: 0.85, font: { size: 12 } };
    const place = { xref: "paper", x: 1, xanchor: "right", yanchor: "bottom", y: scale.log ? Math.log10(y) : y };
    return {
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line }],
      annotations: [{ ...place, ...text }],
    };
  }

  function heat(o, x, y, found) {
    const width = x.texts.length, height = y.texts.length;
    const table = (f) => y.texts.map((_, j) => x.texts.map((_, i) => f(found.get(`${i},${j}`), i, j)));
    const median = table((c) => (c ? c.median : null)), scale = scaleOf(o, median.flat());
    const ratio = o.name === "norm_ratio" && scale.least > 0, log = scale.log || ratio;
    const level = (v) => {
      if (v === null || !log) return v;
      return scale.nines ? -Math.log10(scale.drawn(v)) : Math.log10(v);
    };
    const seen = median.flat().filter((v) => v !== null).map(level);
    const far = seen.reduce((a, v) => Math.max(a, Math.abs(v)), 0.02), down = o.better === "lower";
    const zmin = ratio ? -far : seen.reduce((a, b) => Math.min(a, b));
    const zmax = ratio ? far : seen.reduce((a, b) => Math.max(a, b));
    const ticks = scale.nines ? nines(scale) : ratio ? { tickvals: RATIOS, ticktext: RATIOS.map(String) } : null;
    const colorbar = {
      title: { text: o.title, side: "right" }, thickness: 16, outlinewidth: 0,
      ...(ticks && { tickvals: ticks.tickvals.map((v) => (ratio ? 1 : -1) * Math.log10(v)), ticktext: ticks.ticktext }),
      ...(!ticks && log && { tickprefix: "10<sup>", ticksuffix: "</sup>", dtick: 1 }),
    };
    const annotated = width * height <= MOST_CELLS && (byId("chart").clientWidth - 220) / width > 46;
    const traces = [{
      type: "heatmap", z: median.map((r) => r.map(level)), zmin, zmax, colorbar, reversescale: down,
      colorscale: ratio ? DIVERGING : "Viridis", xgap: annotated ? 1 : 0, ygap: annotated ? 1 : 0,
      customdata: table((c, i, j) => hover(o, c, [[x, i], [y, j]])), hovertemplate: "%{customdata}<extra></extra>",
    }];
    if (annotated) {
      const colour = (v) => {
        const share = (level(v) - zmin) / (zmax - zmin || 1);
        return (ratio ? Math.abs(share - 0.5) < 0.3 : (down ? 1 - share : share) > 0.55) ? "#000" : "#fff";
      };
      traces.push(cellTexts(o, table((c, i, j) => [i, j, c]).flat().filter((t) => t[2]), colour, width > 8 ? 10 : 12));
    }
    if (limited(o)) traces.push(...border(o, median));
    const frame = (axis, count) => ({ ...sweptSide(axis, true), showgrid: false, range: [-0.5, count - 0.5] });
    return [traces, layout({ xaxis: frame(x, width), yaxis: frame(y, height) })];
  }

  const cellTexts = (o, texts, colour, size) => ({
    type: "scatter", mode: "text", x: texts.map((t) => t[0]), y: texts.map((t) => t[1]), hoverinfo: "skip",
    text: texts.map((t) => shown(o, t[2].median)), showlegend: false,
    textfont: { size, color: texts.map((t) => colour(t[2].median)) },
  });

  /** The border between cells that meet the requirement and those that do not. */
  function border(o, median) {
    const x = [null], y = [null], known = (v) => v !== undefined && (v !== null || !D.zipped);
    const differ = (a, b) => known(a) && known(b) && meets(o, a) !== meets(o, b);
    const piece = (xs, ys) => { x.push(...xs, null); y.push(...ys, null); };
    median.forEach((r, j) => r.forEach((v, i) => {
      const above = (median[j + 1] || [])[i];
      if (differ(v, r[i + 1])) piece([i + 0.5, i + 0.5], [j - 0.5, j + 0.5]);
      if (differ(v, above)) piece([i - 0.5, i + 0.5], [j + 0.5, j + 0.5]);
    }));
    const all = median.flat().filter(known), met = all.filter((v) => meets(o, v)).length;
    const mixed = met > 0 && met < all.length;
    const name = demand(o) + (mixed ? ", on the bright side" : ` is met ${met ? "everywhere" : "nowhere"}`);
    const trace = (more) => ({ type: "scatter", mode: "lines", x, y, hoverinfo: "skip", ...more });
    return [
      trace({ showlegend: false, line: { color: "#ffffff", width: 6 } }),
      trace({ showlegend: true, name, line: { color: mixed ? "#D55E00" : "rgba(0,0,0,0)", width: 3 } }),
    ];
  }

  function lines(o, x, by, found) {
    const scale = scaleOf(o, [...found.values()].map((c) => c.median)), traces = [];
    const count = by ? by.texts.length : 1, plain = !by || (by.scale === "index" && count <= SIGNS.length);
    const marks = (j) => (plain ? SIGNS[j] : VIRIDIS[Math.round((j / (count - 1)) * (VIRIDIS.length - 1))]);
    for (let j = 0; j < count; j += Math.ceil(count / MOST_LINES)) {
      const seen = x.texts.map((_, i) => [i, found.get(by ? `${i},${j}` : `${i}`)]).filter(([, c]) => c);
      const xs = seen.map(([i]) => (x.scale === "index" ? i : x.values[i]));
      const ys = (f) => seen.map(([, c]) => scale.drawn(c[f]));
      if (seen.some(([, c]) => c.n > 1)) traces.push({
        type: "scatter", mode: "lines", name: "band", x: xs.concat(xs.slice().reverse()),
        y: ys("high").concat(ys("low").reverse()), fill: "toself", fillcolor: `${marks(j)}2e`,
        line: { width: 0 }, hoverinfo: "skip", showlegend: false,
      });
      traces.push({
        type: "scatter", mode: "lines+markers", name: by ? by.texts[j] : "median", x: xs, y: ys("median"),
        line: { color: marks(j), width: 2 }, marker: { size: 6 }, showlegend: Boolean(by),
        customdata: seen.map(([i, c]) => hover(o, c, by ? [[x, i], [by, j]] : [[x, i]])),
        hovertemplate: "%{customdata}<extra></extra>",
      });
    }
    const more = layout({ xaxis: sweptSide(x), yaxis: outcomeSide(o, scale), ...limitLine(o, scale) });
    if (by) more.legend.title = { text: `${by.title}  ` };
    return [traces, more];
  }

  function pareto(o, cost, rows) {
    const kept = rows.filter((i) => o.column[i] !== null && cost.column[i] !== null);
    const sign = o.better === "higher" ? -1 : 1;
    const middle = (column, group) => quantile(valuesOf(column, group), 0.5);
    const all = [...groupsOf(kept, (i) => D.setting[i]).values()]
      .map((g) => ({ row: g[0], cost: middle(cost.column, g), value: middle(o.column, g) }))
      .sort((p, q) => p.cost - q.cost || sign * (p.value - q.value));
    let best = Infinity, dear = NaN;
    for (const p of all) {
      p.front = sign * p.value < best || (sign * p.value === best && p.cost === dear);
      if (p.front) [best, dear] = [sign * p.value, p.cost];
    }
    const scale = scaleOf(o, all.map((p) => p.value)), costs = scaleOf(cost, all.map((p) => p.cost));
    const told = (p) => [
      ...D.shown.map((n) => `${AXES.get(n).short} ${number(AXES.get(n).cells[p.row])}`),
      `<b>${o.short} ${shown(o, p.value)}</b>`, `${cost.short} ${number(p.cost)} ${cost.unit}`,
    ].join("<br>");
    const trace = (some, more) => ({
      type: "scatter", x: some.map((p) => p.cost), y: some.map((p) => scale.drawn(p.value)),
      customdata: some.map(told), hovertemplate: "%{customdata}<extra></extra>", ...more,
    });
    const rest = all.filter((p) => !p.front), every = Math.ceil(rest.length / MOST_DOTS), blue = css("--front");
    const dots = rest.filter((_, i) => i % every === 0);
    const name = `a setting${every > 1 ? ` (${dots.length} of ${rest.length} drawn)` : ""}`;
    return [[
      trace(dots, { mode: "markers", name, marker: { color: css("--dim"), size: 5, opacity: 0.45 } }),
      trace(all.filter((p) => p.front), {
        mode: "lines+markers", name: "front: none is both cheaper and better",
        line: { color: blue, width: 2, shape: "hv" }, marker: { size: 9, color: blue },
      }),
    ], layout({ xaxis: outcomeSide(cost, costs), yaxis: outcomeSide(o, scale), ...limitLine(o, scale) })];
  }

  // Table -----------------------------------------------------------------------------------------------------------

  const COLUMNS = [
    ...D.axes.map((a) => ({ ...a, text: (v) => number(v, 4) })),
    ...D.outcomes.map((o) => ({ ...o, cells: o.column, text: (v) => shown(o, v) })),
  ];
  const TOLD = COLUMNS.filter((c) => !c.empty || c.name === D.first); // the download has all

  function ordered(rows) {
    const column = COLUMNS.find((c) => c.name === order.column).cells, sign = order.down ? -1 : 1;
    return rows.slice().sort((i, j) => {
      const a = column[i], b = column[j];
      if (a === b) return i - j;
      if (a === null || b === null) return a === null ? 1 : -1; // what failed comes last
      return sign * (a < b ? -1 : 1);
    });
  }

  function table(rows) {
    const sorted = ordered(rows), count = rows.length.toLocaleString("en");
    const unit = (c) => (c.unit && c.short.split(" ").pop() !== c.unit ? ` (${c.unit})` : "");
    const side = (c) => (typeof c.cells[0] === "string" ? "" : "n");
    byId("points").tHead.replaceChildren(element("tr", {}, TOLD.map((c) => {
      const own = c.name === order.column, arrow = own ? (order.down ? "\u00a0↓" : "\u00a0↑") : "";
      const button = element("button", { type: "button", textContent: c.short + unit(c) + arrow, title: c.title });
      button.addEventListener("click", () => {
        order = { column: c.name, down: own && !order.down };
        table(rows);
      });
      const ariaSort = own ? (order.down ? "descending" : "ascending") : "none";
      return element("th", { scope: "col", className: side(c), ariaSort }, [button]);
    })));
    byId("points").tBodies[0].replaceChildren(...sorted.slice(0, MOST_ROWS).map((i) => element("tr", {},
      TOLD.map((c) => element("td", { textContent: c.text(c.cells[i]), className: side(c) })))));
    byId("told").textContent = `${Math.min(MOST_ROWS, rows.length)} of ${count} points; the download has all of them.`;
    byId("csv").onclick = () => download(sorted);
  }

  function download(rows) {
    const quoted = (v) => (v === null ? "" : /[",\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : String(v));
    const lines = [COLUMNS.map((c) => quoted(c.name)), ...rows.map((i) => COLUMNS.map((c) => quoted(c.cells[i])))];
    const blob = new Blob([lines.map((l) => `${l.join()}\n`).join("")], { type: "text/csv" });
    const link = element("a", { href: URL.createObjectURL(blob), download: `${D.file}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Controls --------------------------------------------------------------------------------------------------------

  function element(tag, properties, children = []) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function choice(place, id, label, options, value) {
    const listed = options.map(([v, text]) => element("option", { value: v, textContent: text }));
    const select = element("select", { id }, listed);
    select.value = value;
    select.addEventListener("change", draw);
    byId(place).append(element("label", { id: `${id}-field` }, [element("span", { textContent: label }), select]));
    return select;
  }

  const named = (names, known) => names.map((n) => [n, known.get(n).short]);
  const offered = D.outcomes.filter((o) => !o.empty || o.name === D.first);
  const several = D.shown.length > 1;
  const kinds = [["heat", "map"], ["lines", "lines"]].slice(several ? 0 : 1);
  const ui = {
    outcome: choice("main", "outcome", "Outcome", named(offered.map((o) => o.name), OUTCOMES), D.first),
    kind: choice("main", "kind", "Chart", kinds, kinds[0][0]),
    x: choice("main", "x", "Horizontal axis", named(D.shown, AXES), D.shown[0]),
    by: choice("main", "by", "Vertical axis", [["", "none"], ...named(D.shown, AXES)], D.shown[1] || ""),
    cost: D.costs.length ? choice("prices", "cost", "Cost", named(D.costs, OUTCOMES), D.costs[0]) : null,
  };
  const filters = D.axes.filter((a) => a.texts.length > 1).map((a) => {
    const best = a.repeated || D.zipped ? [] : [["best", "best of all"]];
    const options = [...best, ["median", "all (median)"], ...a.texts.map((t, i) => [String(i), t])];
    return [a.name, choice("others", `filter-${a.name}`, a.short, options, options[0][0])];
  });

  /** Where an outcome has no better side, there is no best: medians are taken until it has one again. */
  function offerBest(offered) {
    for (const [, select] of filters) {
      const option = select.querySelector("[value=best]");
      if (!option || option.disabled === !offered) continue;
      option.disabled = !offered;
      if (!offered) select.wasBest = select.value === "best";
      if (select.wasBest && select.value === (offered ? "median" : "best")) select.value = offered ? "best" : "median";
    }
  }

  function draw() {
    const o = OUTCOMES.get(ui.outcome.value), isHeat = ui.kind.value === "heat", x = ui.x.value;
    if (ui.by.value === x || (isHeat && !ui.by.value)) ui.by.value = D.shown.find((n) => n !== x) || "";
    const by = ui.by.value, active = filters.filter(([n]) => n !== x && n !== by);
    offerBest(Boolean(o.better));
    byId("by-field").firstChild.textContent = isHeat ? "Vertical axis" : "One line per";
    for (const option of ui.by.options) option.disabled = option.value === x || (isHeat && !option.value);
    for (const [n] of filters) byId(`filter-${n}-field`).hidden = n === x || n === by;
    byId("others-part").hidden = active.length === 0;

    const fixed = active.filter(([, s]) => /^\d+$/.test(s.value)).map(([n, s]) => [AXES.get(n).codes, Number(s.value)]);
    const all = Array.from({ length: D.count }, (_, i) => i);
    const rows = all.filter((i) => fixed.every(([codes, code]) => codes[i] === code));
    const best = active.filter(([, s]) => s.value === "best").map(([n]) => n);
    const found = cells(o, by ? [x, by] : [x], best, rows);
    const options = {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      toImageButtonOptions: { format: "svg", filename: D.file },
    };
    byId("chart").hidden = !found.size;
    byId("empty").hidden = found.size > 0;
    if (found.size) {
      const drawn = isHeat ? heat(o, AXES.get(x), AXES.get(by), found) : lines(o, AXES.get(x), AXES.get(by), found);
      Plotly.react("chart", ...drawn, options);
    }
    if (ui.cost) {
      const quality = o.better && !D.costs.includes(o.name) ? o : OUTCOMES.get(D.first);
      Plotly.react("pareto", ...pareto(quality, OUTCOMES.get(ui.cost.value), rows), options);
    }
    table(rows);
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();

// The player of a pass and its echo, after words.js. What it draws is in the element `data`, or asked of the server of
// the page whenever a slider moves: one question at a time, and always the newest.
(() => {
  const D = JSON.parse(byId("data").textContent);
  const LEFT = 72, RIGHT = 12, TOP = 26, BOTTOM = 40, SECONDS = 8;
  const POOR = 0.9; // a cosine below which a gradient is told to be
  const NOISE = [-5, 10], GAMMA = [-2, 10]; // decade of the first notch, notches a decade
  const BITS = Math.max(16, D.dials.bits ?? 0); // one notch more: no limit
  const NAMES = { position: 0, momentum: 1 };
  const PREFIXES = new Map(["a", "f", "p", "n", "µ", "m", "", "k", "M", "G"].map((p, i) => [3 * i - 18, p]));
  const dials = { ...D.dials, gamma: "auto" };
  let heard = D.heard, busy = false, again = false, playing = null;

  // Drawing ---------------------------------------------------------------------------------------------------------

  function add(parent, tag, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  }

  /** A factor and a unit in which numbers up to `largest` are short. */
  function scaled(largest, unit) {
    const power = largest > 0 ? 3 * Math.floor(Math.log10(largest) / 3 + 1e-9) : 0;
    const words = unit.replace("**3", "³").replaceAll("*", "·").replace("ohm", "Ω");
    const plain = /^[A-Za-z]{1,3}$/.test(unit) && unit !== "kg" && PREFIXES.has(power);
    if (plain) return [10 ** power, PREFIXES.get(power) + words];
    return power === 0 ? [1, words] : [10 ** power, `10${superscript(power)}${words ? ` ${words}` : ""}`];
  }

  const superscript = (n) => [...String(n)].map((d) => (d === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[d])).join("");

  function ticks(low, high, count) {
    const raw = (high - low) / count, size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((m) => m * size >= raw) * size, found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    return found;
  }

  /** Empty axes of a chart; gives what turns numbers into places. */
  function axes(id, { x, y, title, bottom = BOTTOM }) {
    const svg = byId(id), width = svg.clientWidth, height = svg.clientHeight;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const px = (v) => LEFT + ((v - x[0]) / (x[1] - x[0])) * (width - LEFT - RIGHT);
    const py = (v) => height - bottom - ((v - y[0]) / (y[1] - y[0])) * (height - bottom - TOP);
    const [factor, unit] = scaled(Math.max(Math.abs(y[0]), Math.abs(y[1])), title.unit);
    for (const v of ticks(y[0], y[1], 5)) {
      add(svg, "path", { class: "axis", d: `M${LEFT} ${py(v)}H${width - RIGHT}` });
      add(svg, "text", { x: LEFT - 8, y: py(v) + 4, "text-anchor": "end" }, number(v / factor));
    }
    add(svg, "text", { x: LEFT, y: 12 }, unit ? `${title.words} (${unit})` : title.words);
    return { svg, px, py, width, height };
  }

  function timeAxis({ svg, px, height }) {
    const [factor, unit] = scaled(D.duration, "s");
    for (const t of ticks(0, D.duration, 8)) {
      add(svg, "text", { x: px(t), y: height - BOTTOM + 18, "text-anchor": "middle" }, number(t / factor));
    }
    add(svg, "text", { x: px(D.duration / 2), y: height - 6, "text-anchor": "middle" }, `time of the pass (${unit})`);
  }

  function line(chart, trace, colour, more = {}) {
    const points = trace.values.map((v, i) => (v === null ? null : [trace.first + i * trace.period, v]));
    let d = "", pen = "M";
    for (const p of points) {
      d += p ? `${pen}${chart.px(p[0]).toFixed(1)} ${chart.py(p[1]).toFixed(1)}` : "";
      pen = p ? "L" : "M";
    }
    return add(chart.svg, "path", { class: "line", d, stroke: `var(${colour})`, ...more });
  }

  function legend({ svg, width }, entries) {
    let x = width - RIGHT;
    for (const [words, colour] of [...entries].reverse()) {
      const text = add(svg, "text", { x, y: 12, "text-anchor": "end" }, words);
      x -= text.getComputedTextLength() + 6;
      add(svg, "path", { d: `M${x - 22} 8H${x}`, stroke: `var(${colour})`, "stroke-width": 3 });
      x -= 40;
    }
  }

  function extent(...traces) {
    let largest = 0;
    for (const t of traces) for (const v of t.values) largest = Math.max(largest, Math.abs(v ?? 0));
    return largest > 0 ? [-1.08 * largest, 1.08 * largest] : [-1, 1];
  }

  const difference = (a, b, factor) => ({
    ...a,
    values: a.values.map((v, i) => (v === null || b.values[i] === null ? null : factor * (v - b.values[i]))),
  });

  // The charts ------------------------------------------------------------------------------------------------------

  const seen = () => heard?.traces[byId("node").value]?.[byId("kind").value] ?? null;
  const unit = () => D.units[byId("node").value][NAMES[byId("kind").value]];
  const titled = (words) => ({ words, unit: unit() });
  let motion = null;

  function drawMotion(own) {
    const title = titled(`${byId("kind").value} of ${byId("node").value}`);
    const chart = axes("motion", { x: [0, D.duration], y: extent(own.forward, own.echo), title });
    timeAxis(chart);
    legend(chart, [["pass", "--front"], ["echo", "--back"]]);
    const clips = ["pass", "echo"].map((name) => {
      const clip = add(chart.svg, "clipPath", { id: `${name}-clip` });
      return add(clip, "rect", { x: LEFT, y: 0, width: 0, height: chart.height });
    });
    line(chart, own.forward, "--front", { id: "pass-line", "clip-path": "url(#pass-clip)", "stroke-width": 5, opacity: 0.5 });
    line(chart, own.echo, "--back", { id: "echo-line", "clip-path": "url(#echo-clip)", "stroke-width": 1.8 });
    const cursor = add(chart.svg, "path", { stroke: "var(--dim)", "stroke-dasharray": "3 3" });
    const dot = add(chart.svg, "circle", { r: 5 });
    motion = { chart, own, clips, cursor, dot };
    seek();
  }

  /** Show the pass up to the time of the scrubber, and the echo from the turn back to it. */
  function seek() {
    if (!motion) return;
    const { chart, own, clips, cursor, dot } = motion;
    const at = (byId("scrub").value / 2000) * 2 * D.duration, back = at > D.duration;
    const t = back ? 2 * D.duration - at : at, trace = back ? own.echo : own.forward;
    const place = Math.round((t - trace.first) / (trace.period || 1));
    const value = trace.values[Math.min(Math.max(place, 0), trace.values.length - 1)] ?? 0;
    clips[0].setAttribute("width", Math.max(chart.px(back ? D.duration : t) - LEFT + 1, 0));
    clips[1].setAttribute("x", chart.px(t) - 1);
    clips[1].setAttribute("width", back ? chart.px(D.duration) - chart.px(t) + 2 : 0);
    cursor.setAttribute("d", `M${chart.px(t)} ${TOP}V${chart.height - BOTTOM}`);
    const spot = { cx: chart.px(t), cy: chart.py(value), fill: back ? "var(--back)" : "var(--front)" };
    for (const [key, v] of Object.entries(spot)) dot.setAttribute(key, v);
    const [factor, words] = scaled(D.duration, "s"), whole = ((2 * D.duration) / factor).toFixed(2);
    byId("clock").textContent = `${back ? "echo" : "pass"}, ${(at / factor).toFixed(2)} of ${whole} ${words}`;
  }

  function drawChange(own) {
    const missed = difference(own.echo, own.forward, 1);
    const nudged = own.one && own.other ? difference(own.one, own.other, 0.5) : null;
    const half = (own.step ?? 0) / 2, reach = extent(missed, nudged ?? missed, { values: [half] });
    const words = nudged ? `change of the ${byId("kind").value}` : `${byId("kind").value}: echo less pass`;
    const chart = axes("change", { x: [0, D.duration], y: reach, title: titled(words) });
    timeAxis(chart);
    const band = { x: LEFT, width: chart.px(D.duration) - LEFT, fill: "var(--dim)", opacity: 0.14 };
    if (half > 0) add(chart.svg, "rect", { ...band, y: chart.py(half), height: chart.py(-half) - chart.py(half) });
    line(chart, missed, "--dim", { id: "missed-line", "stroke-width": 1, opacity: 0.7 });
    if (nudged) line(chart, nudged, "--change", { id: "nudged-line", "stroke-width": 2 });
    legend(chart, [...(nudged ? [["by nudges", "--change"]] : []), ["by what the echo misses", "--dim"]]);
  }

  function drawGradient(found) {
    const values = [...found.true, ...found.measured].filter((v) => v !== null);
    const high = 1.08 * Math.max(0, ...values), low = 1.08 * Math.min(0, ...values), count = found.names.length;
    const longest = Math.max(...found.names.map((n) => n.length)), bottom = Math.min(20 + 5.4 * longest, 150);
    const reach = high > low ? [low, high] : [-1, 1];
    const title = { words: "θ·dL/dθ, in units of the loss", unit: "" };
    const chart = axes("gradient", { x: [0, count], y: reach, bottom, title });
    const bar = (i, from, to, v, more) => {
      const top = chart.py(Math.max(v, 0)), foot = chart.py(Math.min(v, 0));
      const x = chart.px(i + from), width = Math.max(chart.px(i + to) - x, 1);
      add(chart.svg, "rect", { x, y: top, width, height: Math.max(foot - top, 0.5), ...more });
    };
    found.names.forEach((name, i) => {
      bar(i, 0.15, 0.85, found.true[i] ?? 0, { fill: "var(--front)", opacity: 0.35 });
      if (found.measured[i] !== null) bar(i, 0.32, 0.68, found.measured[i], { fill: "var(--back)", class: "measured" });
      const x = chart.px(i + 0.5) + 4, y = chart.height - bottom + 14;
      add(chart.svg, "text", { x, y, "text-anchor": "end", transform: `rotate(-50 ${x} ${y})` }, name);
    });
    add(chart.svg, "path", { d: `M${LEFT} ${chart.py(0)}H${chart.width - RIGHT}`, stroke: "var(--dim)" });
    const more = found.more ? ` (the largest; ${found.more} more)` : "";
    legend(chart, [["true", "--front"], [`by echoes${more}`, "--back"]]);
  }

  function draw() {
    const own = seen();
    for (const id of ["motion", "change"]) byId(id).closest("figure").hidden = !own && Boolean(heard);
    motion = null;
    if (own) {
      drawMotion(own);
      drawChange(own);
    }
    if (!heard) return;
    if (heard.gradient) drawGradient(heard.gradient);
    const large = heard.missed !== null && heard.missed >= 1e-3;
    byId("missed").textContent = large ? `${number(100 * heard.missed, 2)} %` : number(heard.missed, 2);
    const found = heard.gradient;
    for (const id of ["cosine", "relative"]) {
      const known = (found?.[id] ?? null) !== null;
      byId(id).textContent = known ? cosine(Math.max(1 - found[id], FLOOR)) : "–";
      byId(id).classList.toggle("poor", known && found[id] < POOR);
    }
    byId("ratio").textContent = found ? number(found.ratio) : "–";
    byId("saturated").textContent = found ? found.saturated.toLocaleString("en") : "–";
    byId("saturated").classList.toggle("poor", Boolean(found?.saturated));
    tell();
  }

  // Sliders ---------------------------------------------------------------------------------------------------------

  const notch = (value, [first, each]) => Math.round((Math.log10(value) - first) * each);
  const valueAt = (place, [first, each]) => Number((10 ** (first + place / each)).toPrecision(3));

  function place() {
    byId("bits").max = BITS + 1;
    byId("bits").value = dials.bits ?? BITS + 1;
    byId("noise").value = dials.noise > 0 ? notch(dials.noise, NOISE) + 1 : 0;
  }

  function tell() {
    byId("bits-told").textContent = dials.bits === null ? "no limit" : `${dials.bits} bit${dials.bits > 1 ? "s" : ""}`;
    byId("noise-told").textContent = dials.noise === 0 ? "none" : `${number(100 * dials.noise)} %`;
    const known = typeof dials.gamma === "number";
    byId("gamma-told").textContent = known ? number(dials.gamma) : "pilot echoes";
    if (known && document.activeElement !== byId("gamma")) byId("gamma").value = notch(dials.gamma, GAMMA);
  }

  function say(words, bad = false) {
    byId("told").textContent = words;
    byId("told").classList.toggle("bad", bad);
    byId("numbers").classList.toggle("stale", bad);
  }

  async function ask() {
    tell();
    if (D.heard) return draw();
    again = busy;
    if (busy) return;
    busy = true;
    document.body.dataset.state = "busy";
    const slow = setTimeout(() => say("Compiling programs for this kind of readout: some seconds, once…"), 700);
    const wanted = { bits: dials.bits ?? "none", noise: dials.noise, gamma: dials.gamma, node: byId("node").value };
    try {
      const begun = performance.now();
      const answer = await fetch(`/measure?${new URLSearchParams(wanted)}`), found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      heard = found;
      if (wanted.gamma === "auto" && dials.gamma === "auto" && D.learns) dials.gamma = heard.gamma;
      draw();
      const passes = heard.gradient ? `${heard.gradient.passes + 2} passes, ` : "";
      const thinned = heard.every > 1 ? `; one sample in ${heard.every} is drawn` : "";
      const took = (performance.now() - begun).toFixed(0), computing = (1000 * heard.seconds).toFixed(0);
      say(`${passes}${took} ms with drawing, ${computing} ms of computing${thinned}`);
      document.body.dataset.state = "ready";
    } catch (problem) {
      const gone = problem instanceof TypeError; // which is what fetch throws
      say(gone ? "The emulator does not answer: is `rhel-hw show` still running?" : problem.message, true);
      document.body.dataset.state = "refused";
    }
    clearTimeout(slow);
    busy = false;
    if (again) ask();
  }

  function set(id, change) {
    byId(id).addEventListener("input", () => {
      change(Number(byId(id).value));
      ask();
    });
    byId(id).disabled = Boolean(D.heard);
  }

  function play() {
    if (playing !== null) {
      cancelAnimationFrame(playing);
      playing = null;
    } else {
      if (Number(byId("scrub").value) >= 2000) byId("scrub").value = 0;
      let before = null, at = Number(byId("scrub").value);
      const frame = (now) => {
        at += before === null ? 0 : ((now - before) / 1000 / SECONDS) * 2000;
        before = now;
        byId("scrub").value = Math.min(at, 2000);
        seek();
        playing = at < 2000 ? requestAnimationFrame(frame) : null;
        if (playing === null) button();
      };
      playing = requestAnimationFrame(frame);
    }
    button();
  }

  function button() {
    byId("play").textContent = playing === null ? "▶" : "❚❚";
    byId("play").setAttribute("aria-label", playing === null ? "play" : "pause");
  }

  // To begin --------------------------------------------------------------------------------------------------------

  for (const n of D.heard ? Object.keys(D.heard.traces) : D.nodes) byId("node").add(new Option(n));
  if (D.start !== null) byId("node").value = D.start;
  byId("scrub").value = 2000;
  set("bits", (v) => (dials.bits = v > BITS ? null : v));
  set("noise", (v) => (dials.noise = v > 0 ? valueAt(v - 1, NOISE) : 0));
  set("gamma", (v) => (dials.gamma = valueAt(v, GAMMA)));
  byId("auto").addEventListener("click", () => {
    dials.gamma = "auto";
    ask();
  });
  byId("auto").hidden = Boolean(D.heard);
  byId("node").addEventListener("change", ask);
  byId("kind").addEventListener("change", draw);
  byId("play").addEventListener("click", play);
  byId("scrub").addEventListener("input", seek);
  for (const part of document.querySelectorAll(".learnt, #gamma-field")) part.hidden = !D.learns;
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) draw();
    width = innerWidth;
  });
  if (D.heard) Object.assign(dials, { bits: D.heard.bits, noise: D.heard.noise, gamma: D.heard.gamma ?? "auto" });
  place();
  ask();
})();

// Numbers as pages print them.
"use strict";
const FLOOR = 1e-16;
const byId = (id) => document.getElementById(id);

function number(v, digits = 3) {
  if (v === null) return "–";
  if (typeof v !== "number") return v;
  if (v === 0 || (Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5)) return String(Number(v.toPrecision(digits)));
  const [mantissa, exponent] = v.toExponential(digits - 1).split("e");
  return `${Number(mantissa)}e${Number(exponent)}`;
}

/** A cosine by its distance from one, never rounded up. */
function cosine(distance) {
  if (distance <= FLOOR) return "1";
  const exponent = Math.floor(Math.log10(distance) + 1e-9);
  if (exponent >= -5) {
    const scale = 10 ** Math.max(2, -exponent);
    return String(Math.floor((1 - distance) * scale + 1e-6) / scale);
  }
  const steps = Math.ceil(distance / 10 ** exponent - 1e-6);
  const power = [...String(steps === 10 ? -exponent - 1 : -exponent)].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("");
  return `1−${steps === 1 || steps === 10 ? "" : `${steps}·`}10⁻${power}`;
}

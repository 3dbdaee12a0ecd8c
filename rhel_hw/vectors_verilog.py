"""The Verilog of a fixed-point step and of its test bench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Rows = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Widths:
    """Bits of every kind of number, with the sign."""

    state: int
    middle: int
    """Of a position at the kick, which may pass the range of states for half a step."""
    push: int
    """Of the kick of a drive."""
    sum: int
    """Of products and sums."""
    coefficient: int
    """After the point of coefficients and kicks of drives."""
    fraction: int
    """After the point of states."""
    top: int
    """Largest state."""


def step_module(drift: Rows, kick: Rows, widths: Widths, title: str, names: Sequence[str]) -> str:
    """Module `rhel_step`: a clock is a step, or loads a state, or turns the momenta round."""
    n, w = len(drift), widths
    shown = "".join(c if c.isascii() and c.isprintable() else "_" for c in title)
    lines = [
        f"// A leapfrog step a clock: {shown}.",
        f"// Coordinates, the first in the lowest bits: {', '.join(names)}.",
        f"// States have {w.fraction} bits after the point, coefficients and kicks {w.coefficient}.",
        "module rhel_step (",
        "  input wire clk, input wire load, input wire turn, input wire run,",
        f"  input wire [{n * w.state - 1}:0] q_in, input wire [{n * w.state - 1}:0] p_in,",
        f"  input wire [{n * w.push - 1}:0] push,",
        f"  output wire [{n * w.state - 1}:0] q_out, output wire [{n * w.state - 1}:0] p_out,",
        f"  output wire [{n * w.middle - 1}:0] middle_out",
        ");",
        f"  function signed [{w.sum - 1}:0] rounded;  // halves to even",
        f"    input signed [{w.sum - 1}:0] x;",
        f"    reg signed [{w.sum - 1}:0] whole;",
        f"    reg [{w.coefficient - 1}:0] rest;",
        "    begin",
        f"      whole = x >>> {w.coefficient};",
        f"      rest = x[{w.coefficient - 1}:0];",
        f"      rounded = (rest[{w.coefficient - 1}] && ((rest << 1) != 0 || whole[0])) ? whole + 1 : whole;",
        "    end",
        "  endfunction",
        f"  function signed [{w.state - 1}:0] clipped;",
        f"    input signed [{w.sum - 1}:0] x;",
        f"    reg signed [{w.sum - 1}:0] top;",
        "    begin",
        f"      top = {w.sum}'sd{w.top};",
        "      clipped = x > top ? top : x < -top ? -top : x;",
        "    end",
        "  endfunction",
    ]
    for i in range(n):
        lines += [
            f"  reg signed [{w.state - 1}:0] q{i}, p{i};",
            f"  wire signed [{w.push - 1}:0] push{i} = push[{(i + 1) * w.push - 1}:{i * w.push}];",
        ]
        lines += [f"  wire signed [{w.sum - 1}:0] {name}{i};" for name in ("middle", "turned", "ended")]
    for name, before, rows, by, extra in (
        ("middle", "q", drift, "p", False),
        ("turned", "p", kick, "middle", True),
        ("ended", "middle", drift, "turned", False),
    ):
        for i, row in enumerate(rows):
            terms = [f"{_literal(c, w.sum)} * {by}{j}" for j, c in enumerate(row) if c]
            terms += [f"(({w.sum}'sd0 + push{i}) <<< {w.fraction})"] if extra else []
            inner = "\n      + ".join(terms) or f"{w.sum}'sd0"
            lines.append(f"  assign {name}{i} = {before}{i} + rounded({inner});")
    for i in range(n):
        high, low = (i + 1) * w.state - 1, i * w.state
        lines += [
            f"  assign q_out[{high}:{low}] = q{i};",
            f"  assign p_out[{high}:{low}] = p{i};",
            f"  assign middle_out[{(i + 1) * w.middle - 1}:{i * w.middle}] = middle{i}[{w.middle - 1}:0];",
        ]
    lines.append("  always @(posedge clk) begin")
    for what, new_q, new_p in (
        ("if (load)", "q_in[{high}:{low}]", "p_in[{high}:{low}]"),
        ("else if (turn)", "q{i}", "-p{i}"),
        ("else if (run)", "clipped(ended{i})", "clipped(turned{i})"),
    ):
        lines.append(f"    {what} begin")
        for i in range(n):
            place = {"i": i, "high": (i + 1) * w.state - 1, "low": i * w.state}
            lines.append(f"      q{i} <= {new_q.format(**place)}; p{i} <= {new_p.format(**place)};")
        lines.append("    end")
    return "\n".join([*lines, "  end", "endmodule", ""])


def bench_module(n: int, steps: int, widths: Widths) -> str:
    """Module `rhel_step_test`: a pass, the turn, the echo; prints PASS, or FAIL and what differs first."""
    w = widths
    state, push, row = n * w.state, n * w.push, n * w.middle
    return f"""// Checks rhel_step against vectors of the emulator: positions at kicks, momenta at ends, and the echo.
module rhel_step_test;
  reg clk, load, turn, run;
  reg [{state - 1}:0] q_in, p_in;
  reg [{push - 1}:0] push;
  wire [{state - 1}:0] q_out, p_out;
  wire [{row - 1}:0] middle;
  reg [{push - 1}:0] kicks [0:{steps - 1}];
  reg [{2 * row - 1}:0] expected [0:{steps - 1}];
  reg [{2 * state - 1}:0] start [0:0];
  reg [{state - 1}:0] last [0:0];
  reg signed [{w.state - 1}:0] p_one, q_one;
  reg signed [{w.middle - 1}:0] p_due;
  integer k, i, errors;

  rhel_step step (.clk(clk), .load(load), .turn(turn), .run(run), .q_in(q_in), .p_in(p_in), .push(push),
                  .q_out(q_out), .p_out(p_out), .middle_out(middle));

  task tick; begin #5 clk = 1; #5 clk = 0; end endtask

  task differs; input integer at; input integer what; begin
    if (errors == 0) $display("first difference: step %0d, %0s", at, what == 0 ? "position" : "momentum");
    errors = errors + 1;
  end endtask

  initial begin
    $readmemh("kicks.hex", kicks);
    $readmemh("expected.hex", expected);
    $readmemh("start.hex", start);
    $readmemh("last.hex", last);
    errors = 0; clk = 0; turn = 0; run = 0; load = 1; push = 0;
    q_in = start[0][{state - 1}:0];
    p_in = start[0][{2 * state - 1}:{state}];
    tick; load = 0; run = 1;
    for (k = 0; k < {steps}; k = k + 1) begin
      push = kicks[k];
      #1 if (middle !== expected[k][{row - 1}:0]) differs(k, 0);
      tick;
      for (i = 0; i < {n}; i = i + 1) begin
        p_one = p_out[i * {w.state} +: {w.state}];
        p_due = expected[k][{row} + i * {w.middle} +: {w.middle}];
        if (p_one !== p_due) differs(k, 1);
      end
    end
    if (q_out !== last[0]) differs({steps}, 0);
    run = 0; turn = 1; tick; turn = 0; run = 1;
    for (k = {steps - 1}; k >= 0; k = k - 1) begin
      push = kicks[k];
      #1 if (middle !== expected[k][{row - 1}:0]) differs({2 * steps - 1} - k, 0);
      tick;
    end
    for (i = 0; i < {n}; i = i + 1) begin
      q_one = q_out[i * {w.state} +: {w.state}];
      p_one = -p_out[i * {w.state} +: {w.state}];
      if (q_one !== q_in[i * {w.state} +: {w.state}]) differs({2 * steps}, 0);
      if (p_one !== p_in[i * {w.state} +: {w.state}]) differs({2 * steps}, 1);
    end
    if (errors == 0) $display("PASS: %0d steps and their echo", {steps});
    else $display("FAIL: %0d differences", errors);
    $finish;
  end
endmodule
"""


def _literal(value: int, width: int) -> str:
    return f"-{width}'sd{-value}" if value < 0 else f"{width}'sd{value}"

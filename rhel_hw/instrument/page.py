"""The protocol page, docs/instrument.md, written from the table that the parser dispatches on.

`python -m rhel_hw.instrument.page` prints it.
"""

from __future__ import annotations

from rhel_hw.instrument.faults import MEANINGS
from rhel_hw.instrument.interpreter import TABLE

BEGIN = """# The bench as an instrument

<!-- written by `python -m rhel_hw.instrument.page`: change it there -->

`rhel-hw serve` puts a design on an emulated bench that answers as an instrument of a laboratory does, by SCPI over a
socket. A learner that runs against it moves to a real rig by another address, if that rig understands these commands.

```sh
rhel-hw serve lc-toy --profile bench-8bit --port 5025
```

## From Python

```python
from rhel_hw import EchoLearner, RemoteBench, Teacher

with RemoteBench("TCPIP::127.0.0.1::5025::SOCKET") as bench:
    design = bench.netlist.compile()
    print(EchoLearner(gamma="auto").gradient(bench, design, Teacher().lesson(design)).theta)
```

By hand, with PyVISA alone: a free pass that is held, then its echo.

```python
import numpy as np
import pyvisa

bench = pyvisa.ResourceManager("@py").open_resource(
    "TCPIP::127.0.0.1::5025::SOCKET", read_termination="\\n", write_termination="\\n", timeout=20_000
)
bench.write("*RST;:SHOT:STEP 200;HOLD ON")
bench.write_binary_values('DRIV "u0",', 5e-3 * np.sin(0.3 * np.arange(200)), datatype="f")
bench.write("INIT")
there = bench.query_binary_values('FETC? "position.n1"', datatype="f", container=np.array)
bench.write("SHOT:ECHO ON;HOLD OFF;:INIT")
back = bench.query_binary_values('FETC? "position.n1"', datatype="f", container=np.array)
print(np.max(np.abs(there - back[::-1])), bench.query("SYST:ERR?"))
```

`rhel-hw train --bench TCPIP::127.0.0.1::5025::SOCKET` and `rhel-hw gradient --bench …` do the same with the design that
the bench has, or with one that is given. `pip install 'rhel-hw[instrument]'` brings PyVISA.

## An example

Said by a controller (`>`), and what it hears: the first pass, of four steps, on the bench that is served above. Noise
makes later ones differ by a code or two.

<!-- run by tests/instrument -->
```
"""

TRANSCRIPT = """> *CLS;*RST
> SYST:VERS?
1999.0
> DRIV:CAT?;:NUDG:CAT?
"u0";"y0"
> PAR:LIM? "L12.inductance"
2e-05,0.001
> FORM ASC;:SHOT:CLE;STEP 4;HOLD ON
> DRIV "u0",0.005,0.005,0,0
> INIT
> INIT:DONE? 10
1
> FETC:SHAP? "target.y0"
4,1,1
> FETC? "momentum.n1"
0.0,9.692951135280134e-11,1.9385902270560267e-10,1.9385902270560267e-10,1.45394267029202e-10
> SHOT:ECHO ON;HOLD OFF;:INIT;*OPC?
1
> DRIV "u9",1
> SYST:ERR?
-224,"Illegal parameter value;Argument `drive` must name what there is, but has 'u9'; known are u0"
> SYST:ERR?
0,"No error"
"""

RULES = """```

## Rules

- A message ends with a line feed; commands in it are separated by semicolons. Short forms are in capitals below, case
  does not matter, what stands in brackets may be left out. After a semicolon a command begins where the last one was,
  unless it begins with a colon or an asterisk: `SHOT:STEP 4;HOLD ON;:INIT`, `PAR:SET "L12.inductance",1E-4;APPL`.
- A message is read whole before anything is done. One that cannot be read does nothing; one that fails on the way stops
  there. Either way `SYST:ERR?` tells what was wrong, and nothing is answered by the command that failed.
- Numbers are decimal, or `#H`, `#Q`, `#B`; strings stand in single or double quotes, which are doubled inside. Blocks
  are of definite length, `#<n><length><bytes>`; on a socket one of indefinite length has no end, and is refused.
- Waveforms and samples are arrays (steps, runs, chips), the last index fastest. Everything is in SI units.
- `INIT` begins a pass and goes on at once. What is marked "Waits" below is done after it, all else beside it.
- There is one controller at a time. A second one reads error -203 and is sent away, or waits, as `--second` has it.
- What the instrument knows outlives a connection. A message that was not finished is forgotten.
- Where messages begin and end cannot be told after a block that is longer than `--message-mib` allows, or after
  `--message-s` without the end of a message: the connection is closed, and the next controller finds the reason in
  `SYST:ERR?`. Without any message a controller is let go after `--idle-s`.
- The server listens on this machine only, unless `--host` says otherwise. It asks nobody who they are: leave it so, or
  put it behind something that does. Nothing that it reads is executed or used as a path.

## Commands
"""


def page() -> str:
    """The page."""
    lines = [BEGIN + TRANSCRIPT + RULES]
    for section, rows in TABLE.sections().items():
        lines += [f"### {section}", "", "| command | what it does |", "|---|---|"]
        for row in rows:
            usage = row.usage.replace("|", "\\|")
            lines.append(f"| `{usage}` | {row.does}{' Waits.' if row.waits else ''} |")
        lines.append("")
    lines += ["## Errors", "", "| number | meaning |", "|---|---|"]
    lines += [f"| {number} | {text} |" for number, text in MEANINGS.items()]
    lines += [
        "",
        "What comes after a semicolon in an error's text says what exactly was wrong, in at most 255 characters.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")

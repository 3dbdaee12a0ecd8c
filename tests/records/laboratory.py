"""Somebody with a waveform generator and an oscilloscope, as an emulated bench plays them.

A device that moves on between samples: its steps are `FINE` times shorter than those of the bench, and the oscilloscope
takes `SAMPLES` of them in a step, none at its ends or in its middle.
"""

import tomllib

import numpy as np

from circuits.netlist import Target
from devices import to_si
from rhel_hw import EmulatedBench, Shot
from rhel_hw.records import csv
from rhel_hw.records.columns import Column

FINE, SAMPLES = 24, 8
FIRST = 1
"""Fine step of the first sample."""


def device(design, profile=None):
    """The design in fine steps, all of whose positions are read when momenta are."""
    netlist = design.netlist
    own = {t.node for t in netlist.targets}
    more = tuple(Target(f"at_{n}", n) for n in design.hamiltonian.names if n not in own)
    fine = netlist.replace(targets=netlist.targets + more).compile(step=design.step_s / FINE, steps=design.steps * FINE)
    return EmulatedBench(fine, profile)


def measure(bench, folder, *, write=csv.write, samples=SAMPLES, titles=str, late_s=0.0, signs=None):
    """Play the pass in a folder and leave what the oscilloscope saw; `late_s` is when its clock says that it began."""
    sheet = tomllib.loads((folder / "shot.toml").read_text())
    told, design, limits = sheet["shot"], bench.design, bench.describe().parameters
    bench.program({name: to_si(value, limits[name].unit) for name, value in sheet["parameters"].items()})
    for run in range(1, told["runs"] + 1):
        table = csv.read(folder / f"play-{run}.csv")
        times = table["time"].values
        early = int(np.sum(times < 0))
        waves = {name: column.values for name, column in table.columns.items() if name != "time"}

        def fine(what, part, waves=waves):
            spread = np.repeat if what == "drive" else _impulses
            return {k.split(".")[1]: spread(w[part], FINE) for k, w in waves.items() if k.startswith(what)}

        if early:
            part = slice(0, early)
            bench.run(Shot(early * FINE, fine("drive", part), fine("nudge", part), hold=True, channels=()))
        part = slice(early, None)
        drive = fine("drive", part)
        if told["echo"]:  # the emulated bench itself plays it backwards and conjugated
            drive = {k: (signs or {}).get(k, 1) * w[::-1] for k, w in drive.items()}
        seen = bench.run(Shot((len(times) - early) * FINE, drive, fine("nudge", part), echo=told["echo"]))
        write(_file(folder, run, write), _columns(seen, design, samples, titles, late_s))


def _file(folder, run, write):
    return folder / f"measured-{run}.{'csv' if write is csv.write else 'h5'}"


def _impulses(wave, fine):
    found = np.zeros(len(wave) * fine)
    found[::fine] = wave
    return found


def _columns(seen, design, samples, titles, late_s):
    nodes = {t.node: t.name for t in design.netlist.targets}
    found = {}
    for node, name in nodes.items():
        times = seen.times_s[f"target.{name}"]
        take = slice(FIRST - 1, None, FINE // samples)
        found[titles(f"position.{node}")] = Column(seen[f"target.{name}"][take, 0, 0], seen.units[f"target.{name}"])
        found[titles(f"momentum.{node}")] = Column(
            seen[f"momentum.{node}"][1:][take, 0, 0], seen.units[f"momentum.{node}"]
        )
        if not name.startswith("at_"):
            found[titles(f"target.{name}")] = found[titles(f"position.{node}")]
    return {"time": Column((times[take] + late_s) * 1e6, "us"), **found}

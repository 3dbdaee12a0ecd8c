"""Loops over steps as programs in C, for many lanes.

What a step does is traced by JAX (`graph`), its lanes are told from other axes (`lanes`), and it is cut into loops over
rows (`schedule`) in which single numbers are written down (`elements`). The program (`source`) is compiled once
(`compiler`) and called by XLA in the place of a loop of its own (`loops`).
"""

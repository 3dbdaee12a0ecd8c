"""A design shown: one page with its schematic, parts, modes and findings, and a bench that sliders move."""

from studies.show.page import render
from studies.show.server import Server
from studies.show.stage import Dials, Stage

__all__ = ["Dials", "Server", "Stage", "render"]

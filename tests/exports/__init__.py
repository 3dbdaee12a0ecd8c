"""What tells whether an export is what its format's tools take: by the tool itself where it can be had."""

from tests.exports.board import check_bom, check_kicad
from tests.exports.drawing import check_schematic
from tests.exports.electrical import check_josim, check_spice, check_vectors, check_verilog_a, check_wrspice
from tests.exports.magnetic import check_mumax3
from tests.exports.photonic import check_gds, check_sax, check_touchstone

CHECKS = {
    "spice": check_spice,
    "kicad": check_kicad,
    "bom": check_bom,
    "schematic": check_schematic,
    "verilog-a": check_verilog_a,
    "vectors": check_vectors,
    "josim": check_josim,
    "wrspice": check_wrspice,
    "sax": check_sax,
    "touchstone": check_touchstone,
    "gds": check_gds,
    "mumax3": check_mumax3,
}
"""By format: a function of the netlist, the files by name, and a folder to work in; it fails or skips visibly."""

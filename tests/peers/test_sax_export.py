"""Exported netlists evaluated by sax itself, in a process of its own: resonances and transmission."""

import numpy as np
import pytest

from circuits import Netlist
from circuits.formats import sax_yaml, touchstone
from tests.circuits.photonic_designs import CARRIER, GALLERY, fancy
from tests.exports.photonic import by_sax

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("name", GALLERY)
def test_sax_finds_the_modes_of_gallery_designs(name):
    """Every mode is a peak of the transmission; detunings agree to 0.1 %, or to the grid of 10 kHz."""
    net = Netlist.load(name)
    modes = net.compile().frequencies_hz
    fine = np.arange(-150, 151) * 1e4
    coarse = np.linspace(-6e9, 6e9, 6001)
    offsets = np.unique(np.concatenate([coarse, *(m + fine for m in modes)]))
    light = np.abs(by_sax(sax_yaml.write(net), CARRIER + offsets)) ** 2
    for mode in modes:
        near = np.abs(offsets - mode) <= 1.5e6
        found = offsets[near][light[near].argmax()]
        assert abs(found - mode) <= max(1e-3 * abs(mode), 1e4), mode
        assert light[near].max() > light[near][[0, -1]].max()
    far = np.abs(offsets[:, None] - modes).min(axis=1) > 50e6
    assert light[far].max() < light.max() / 10


def test_sax_has_the_scattering_of_touchstone():
    """Losses, external couplings, heaters, coupling phases and a loop of flux π, at all frequencies."""
    net = fancy()
    found = touchstone.response(net)
    frequencies = CARRIER + np.linspace(-3e9, 3e9, 601)
    first, last = 0, len(found.ports) - 1
    expected = np.abs(found.scattering(frequencies)[:, last, first])
    # A loop of unequal detunings feels where on its rings the couplers sit: first order in detuning × round trip.
    np.testing.assert_allclose(np.abs(by_sax(sax_yaml.write(net), frequencies)), expected, atol=1e-3)
    assert expected.max() > 0.1

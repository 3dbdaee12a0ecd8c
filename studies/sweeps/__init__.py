"""Sweeps over any setting of a design: which bits, noise, quality and nudging strength a circuit needs."""

"""Measured records: files of oscilloscopes and network analysers, as what a bench answered."""

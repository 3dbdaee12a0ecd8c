"""Sweeps, paper results, plots and reports on top of everything else."""

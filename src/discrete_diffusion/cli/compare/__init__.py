"""``discrete-diffusion compare``: ``request`` reads what is requested, ``recipes`` and ``cells``
plan the runs, ``running`` trains and measures them in their ``folder``, ``results`` writes what is
found. What is measured of a cell is ``Domain.cell_measurement``."""

from discrete_diffusion.cli.compare.command import CompareRequest, run, run_comparison

__all__ = ["CompareRequest", "run", "run_comparison"]

"""``discrete-diffusion compare``, one concept per file: the request, its cells, their folders, the
launcher that runs them, results and table; ``command`` puts them together. What is measured of a
cell is ``Domain.cell_measurement``."""

from discrete_diffusion.cli.compare.command import compare, run

__all__ = ["compare", "run"]

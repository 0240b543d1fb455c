"""``discrete-diffusion compare``, one concept per file: the request, its cells, their folders, the
launcher that runs them, results and table; ``kinds`` has what is measured of diagrams, images and
summaries, and ``command`` puts them together."""

from discrete_diffusion.cli.compare.command import compare, run

__all__ = ["compare", "run"]

"""Sudoku and graph colouring as a kind of data."""

from __future__ import annotations

from discrete_diffusion.config.plugins import LazyEntry
from discrete_diffusion.domains import commands
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.registry import register_domain

_HERE = LazyEntry.within(__package__)


@register_domain
class Puzzles(Domain):
    """Puzzles that are made here, or read from a file."""

    name, title = "puzzles", "puzzles"
    data_sets = {"sudoku": "tokens", "graph_colouring": "tokens"}
    data_files = ("path",)
    fixed_keys = ("box", "num_nodes", "num_colours")
    sample_files = ("samples.txt",)
    quick = {"num_held_out": 100, "num_samples": 100, "noise_samples": 1, "time_bins": 5}
    given = commands.Option(
        "given", "a file of puzzles, one a line; see docs/puzzles.md", is_file=True
    )
    options = {
        "sample": (given, commands.completions("of each puzzle; null is 4")),
        "evaluate": (commands.DATA, commands.TIME_BINS, commands.LIKELIHOOD, commands.ORDERS),
    }
    remedies = {
        "data": "sample gives the share of clues of training, and evaluate takes another; puzzles "
        "of your own come with given=FILE"
    }
    vocabulary = _HERE("puzzle:vocabulary_of")
    tokens = _HERE("puzzle:encode")
    decode = _HERE("puzzle:decode")
    build = _HERE("data:build_puzzles")
    report = _HERE("data:PuzzleReport")
    sample = _HERE("data:sample_puzzles")

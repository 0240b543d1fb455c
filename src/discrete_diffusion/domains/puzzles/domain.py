"""Sudoku and graph colouring as a kind of data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.plugins import Later, LazyEntry
from discrete_diffusion.domains import commands
from discrete_diffusion.domains.commands import Option
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.registry import register_domain

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.layout.vocab_config import Vocabulary

_HERE = LazyEntry.within(__package__)
_puzzle: Any = Later(f"{__package__}.puzzle")
_torch: Any = Later("torch")


@register_domain
class Puzzles(Domain):
    """Puzzles that are made here, or read from a file."""

    name, title = "puzzles", "puzzles"
    data_sets = {"sudoku": "tokens", "graph_colouring": "tokens"}
    data_files = ("path",)
    fixed_keys = ("box", "num_nodes", "num_colours")
    sample_files = ("samples.txt",)
    given = Option("given", "a file of puzzles, one a line; see docs/puzzles.md", is_file=True)
    options = {
        "sample": (given, commands.completions("of each puzzle; null is 4")),
        "evaluate": (commands.DATA, commands.TIME_BINS, commands.LIKELIHOOD, commands.ORDERS),
    }
    build = _HERE("data:build_puzzles")
    report = _HERE("data:PuzzleReport")
    sample = _HERE("data:sample_puzzles")

    def vocabulary(self, data: Mapping[str, Any]) -> Vocabulary:
        return _puzzle.puzzle_of(data).vocabulary

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        return _torch.stack([*map(_puzzle.puzzle_of(data).encode, samples)])

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[str]:
        return [*map(_puzzle.puzzle_of(data).decode, tokens)]

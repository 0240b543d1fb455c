"""Data sets of puzzles, their report, and their samples."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.config.values import check_whole_number
from discrete_diffusion.data.base import TokenDataset
from discrete_diffusion.data.files import read_text, split_lines
from discrete_diffusion.domains.puzzles.puzzle import Puzzle, puzzle_of
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.measured_data import held_out_split, readable_data
from discrete_diffusion.evaluation.model_evaluation import sample_token_model
from discrete_diffusion.evaluation.report import Samples, TokenReport
from discrete_diffusion.evaluation.trained_model import NUM_SAMPLES, TrainedModel
from discrete_diffusion.runtime.atomic_files import write_text
from discrete_diffusion.runtime.inputs import GivenObjects

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.requests import SampleRequest


class PuzzleDataset(TokenDataset):
    """Solved puzzles; fresh samples are given the clues of held-out ones, by a ``seed``."""

    puzzle: Puzzle
    seed: int

    def clamp(self, split: str, num: int) -> Tensor:
        x0 = self.splits[split].x0
        rows = x0[torch.arange(num) % len(x0)]
        for k, x in enumerate(rows):
            rows[k] = self.puzzle.clues(x, random.Random(f"{self.seed} {k}"))
        return rows


def build_puzzles(data: DictConfig) -> PuzzleDataset:
    """Make puzzles, or read those of ``data.path``; equal ones count once.

    Raises ``ValueError`` with file and line for a puzzle that is not solved or breaks the rules.
    """
    puzzle = puzzle_of(data)
    check_whole_number("data.num_puzzles", data.num_puzzles, least=1)
    if data.path is None:
        made = puzzle.make(data.num_puzzles, random.Random(data.generator_seed))
    else:
        source, made = read_text(data.path, expected="a solved puzzle per line"), []
        for number, line in enumerate(split_lines(source.text), start=1):
            try:
                made.append(puzzle.encode(line).tolist())
                if -1 in made[-1]:
                    raise ValueError("a cell is open, expected solved puzzles")
            except ValueError as error:
                place = f"data.path={source.place(number)}"
                raise ValueError(f"{place}: {error}; mend the line, or leave it out") from error
    rows = torch.tensor([*dict.fromkeys(map(tuple, made))])
    found = PuzzleDataset.from_rows(rows, puzzle.vocabulary.layout(), data.split)
    found.puzzle, found.seed = puzzle, data.generator_seed
    return found


class PuzzleReport(TokenReport):
    """Report on samples: the share that is solved, and the share of cells without a conflict."""

    columns = (
        Column("solved", "solved", 1, up=True, share=True, of_samples=True),
        Column("cells without conflict", "cells_without_conflict", 1, up=True, share=True),
    )

    @cached_property
    def puzzle(self) -> Puzzle:
        """The puzzle of the data, or of the config if the data cannot be read."""
        config: Any = self.config
        return self.data.puzzle if isinstance(self.data, PuzzleDataset) else puzzle_of(config.data)

    def measure(self, samples: Tensor) -> dict[str, float]:
        if len(samples) == 0:
            return {}
        wrong = self.puzzle.conflicts(samples).any(dim=2).double()  # (M, N)
        solved = 1 - float(wrong.amax(dim=1).mean())
        return {"solved": solved, "cells_without_conflict": 1 - float(wrong.mean())}

    def save(self, samples: Tensor, folder: Path) -> None:
        lines = [*map(self.puzzle.decode, samples), ""]
        write_text(folder / "samples.txt", "\n".join(lines))


def sample_puzzles(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Solve the puzzles of ``given``, or, without them, held-out ones."""
    if request.get("given") is None:
        data = readable_data(trained)
        clamp = data.clamp(held_out_split(data), request.num_samples or NUM_SAMPLES)
        given = GivenObjects("held-out puzzles", tuple(map(data.puzzle.decode, clamp)))
        options = {**request.options, "given": given, "num_completions": 1}
        request = replace(request, options=options)
    return sample_token_model(request, trained, PuzzleReport)

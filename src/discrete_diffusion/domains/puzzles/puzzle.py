"""Sudoku and graph colouring: cells, some pairs of which must hold different values."""

from __future__ import annotations

import inspect
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any

import torch
from torch import Tensor

from discrete_diffusion.config.values import Bounds, Checked, Share
from discrete_diffusion.layout.vocab_config import Sequences


def solutions(
    left: Sequence[int],
    peers: Sequence[Sequence[int]],
    rng: random.Random | None = None,
    waiting: Sequence[int] | None = None,
) -> Iterator[list[int]]:
    """Yield all solutions by backtracking: a value for each cell, no two peers alike.

    ``left``: bits of the values that each cell may hold; ``peers``: cells that must differ from
    each cell; ``waiting``: cells to fill, None for all. The cell with the fewest values comes next,
    its values at random if ``rng`` is given.
    """
    waiting = range(len(left)) if waiting is None else waiting
    if not waiting:
        yield [bits.bit_length() - 1 for bits in left]
        return
    cell = min(waiting, key=lambda k: left[k].bit_count())
    values = [value for value in range(left[cell].bit_length()) if left[cell] >> value & 1]
    if rng is not None:
        rng.shuffle(values)
    # each value in turn, which the peers then lack
    for value in values:
        after = list(left)
        for k in peers[cell]:
            after[k] &= ~(1 << value)
        after[cell] = 1 << value
        yield from solutions(after, peers, rng, [k for k in waiting if k != cell])


class Puzzle(Checked, ABC):
    """N cells that hold one of ``num_values`` values, some pairs of which must differ.

    A sample is a row Int[L]: a given id for each of the ``pairs``, 1 if its two cells must differ,
    else 0; then the values of the cells, from 0 on. As text it is ``0-2 1-2: 12.``: the pairs that
    must differ, and the cells, ``.`` for an open one.

    Args:
        num_values: number of values, at most 9.
        rules: Bool[N, N], cells that must differ in every sample.
        pairs: pairs of cells on which the samples decide, the smaller cell first.
    """

    section = "data"

    def __init__(self, num_values: int, rules: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
        self.rules, self.pairs = rules, pairs
        self._names = dict.fromkeys(f"{i}-{j}" for i, j in pairs)
        self._ends = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T
        self.digits, length = "123456789"[:num_values], len(pairs) + len(rules)
        self.vocabulary = Sequences(length, num_values + 1, num_values, num_given=len(pairs))

    @abstractmethod
    def make(self, num: int, rng: random.Random) -> Iterable[list[int]]:
        """Make at most ``num`` solved puzzles, rows of L ids."""

    def clues(self, x: Tensor, rng: random.Random) -> Tensor:
        """Open cells of a solved puzzle Int[L], which become -1; the others are clues."""
        return x.where(torch.arange(len(x)) < len(self.pairs), -1)

    def conflicts(self, x: Tensor) -> Tensor:
        """Pairs of cells of samples Int[M, L] that must differ and are alike, Bool[M, N, N]."""
        differ = self.rules.repeat(len(x), 1, 1)
        one, other = self._ends
        differ[:, one, other] = differ[:, other, one] = x[:, : len(self.pairs)] == 1
        cells = x[:, len(self.pairs) :]
        return differ & (cells.unsqueeze(2) == cells.unsqueeze(1)) & (cells >= 0).unsqueeze(1)

    def encode(self, text: str) -> Tensor:
        """Convert text to a row Int[L], -1 for open cells; ``ValueError`` for text that is not a
        puzzle or breaks the rules."""
        given, _, cells = text.rpartition(":")
        cells = cells.strip().replace("0", ".")
        if len(cells) != len(self.rules) or {*cells} - {*self.digits, "."}:
            raise ValueError(
                f"{cells!r}: expected {len(self.rules)} cells, each of {self.digits}, or . if open"
            )
        named: set[str] = set()
        for pair in given.split():
            # either cell may come first
            names = {pair, "-".join(reversed(pair.split("-")))} & self._names.keys()
            if not names:
                known = f"i-j with 0 <= i < j < {len(self.rules)}" if self.pairs else "cells alone"
                raise ValueError(f"unknown pair {pair!r}: expected {known}")
            named |= names
        x = torch.tensor([*(n in named for n in self._names), *map(self.digits.find, cells)])
        for _, one, other in self.conflicts(x[None]).nonzero()[:1].tolist():
            raise ValueError(
                f"cells {one} and {other}, counted from 0, must differ and are both {cells[one]}"
            )
        return x

    def decode(self, x: Tensor) -> str:
        """Convert a row Int[L] to text."""
        pairs = [name for name, k in zip(self._names, x.tolist(), strict=False) if k == 1]
        cells = "".join("." if k < 0 else self.digits[k] for k in x[len(self.pairs) :].tolist())
        return f"{' '.join(pairs)}: {cells}" if self.pairs else cells


class Sudoku(Puzzle):
    """Grids in which every row, column and box holds each digit once; cells go row by row.

    With ``box=2`` all 288 grids are made, in random order. With ``box=3`` each comes from a random
    search: every grid can come up, but they are not equally likely.

    Args:
        box: side of a box, 2 for 4x4 and 3 for 9x9.
        share_of_clues: share of the cells that are clues, or more where fewer would leave a second
            solution; with 0 there are none.
    """

    def __init__(
        self,
        *,
        box: Annotated[int, Bounds(least=2, most=3)],
        share_of_clues: Annotated[float, Bounds(least=0, most=1)],
    ) -> None:
        side = box**2
        row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
        units = torch.stack([row, column, row // box * side + column // box])  # (3, N)
        rules = (units.unsqueeze(2) == units.unsqueeze(1)).any(dim=0).fill_diagonal_(False)
        super().__init__(side, rules, ())
        self._empty, self._share = [(1 << side) - 1] * side**2, share_of_clues

    @cached_property
    def _peers(self) -> list[list[int]]:
        return [row.nonzero().flatten().tolist() for row in self.rules]

    def make(self, num: int, rng: random.Random) -> Iterable[list[int]]:
        if len(self.digits) == 4:
            grids = [*solutions(self._empty, self._peers)]
            return rng.sample(grids, min(num, len(grids)))
        return (next(solutions(self._empty, self._peers, rng)) for _ in range(num))

    def clues(self, x: Tensor, rng: random.Random) -> Tensor:
        known = [1 << value for value in x.tolist()] if self._share else [*self._empty]
        full, num = self._empty[0], round(self._share * len(x))
        # open a cell if no solution has another value there
        for cell in rng.sample(range(len(x)), len(x)):
            if sum(bits != full for bits in known) <= num:
                break
            kept, known[cell] = known[cell], full & ~known[cell]
            known[cell] = full if next(solutions(known, self._peers), None) is None else kept
        return x.where(torch.tensor(known) != full, -1)


class GraphColouring(Puzzle):
    """Nodes of a graph whose edges are given; the ends of an edge must have different colours.

    The colours of a graph are shuffled, the first ones once more than the others if it takes that.
    Each pair of different colours is an edge with probability ``share_of_edges``: so all colourings
    of a graph with these numbers of colours are equally likely.

    Args:
        num_nodes: number of nodes.
        num_colours: number of colours.
        share_of_edges: share of the pairs of nodes of different colours that are edges.
    """

    def __init__(
        self,
        *,
        num_nodes: Annotated[int, Bounds(least=2, most=100)],
        num_colours: Annotated[int, Bounds(least=2, most=9)],
        share_of_edges: Share,
    ) -> None:
        rules, pairs = torch.zeros(num_nodes, num_nodes), combinations(range(num_nodes), 2)
        super().__init__(num_colours, rules.bool(), [*pairs])
        self._colours = [k % num_colours for k in range(num_nodes)]
        self._share = share_of_edges

    def make(self, num: int, rng: random.Random) -> Iterable[list[int]]:
        for _ in range(num):
            colours = rng.sample(self._colours, len(self._colours))
            differ = [colours[i] != colours[j] for i, j in self.pairs]
            yield [*(int(each and rng.random() < self._share) for each in differ), *colours]


PUZZLES: dict[str, type[Puzzle]] = {"sudoku": Sudoku, "graph_colouring": GraphColouring}


def puzzle_of(data: Mapping[str, Any]) -> Puzzle:
    """Build the puzzle that a ``config.data`` describes; ``ValueError`` names a wrong key."""
    kind = PUZZLES[data["name"]]
    return kind(**{key: data[key] for key in inspect.signature(kind).parameters})


def vocabulary_of(data: Mapping[str, Any]) -> Sequences:
    """Vocabulary of the puzzle that a ``config.data`` describes."""
    return puzzle_of(data).vocabulary


def encode(data: Mapping[str, Any], samples: Iterable[str]) -> Tensor:
    """Convert texts to tokens Int[M, L], see ``Puzzle.encode``."""
    return torch.stack([*map(puzzle_of(data).encode, samples)])


def decode(data: Mapping[str, Any], tokens: Tensor) -> list[str]:
    """Convert tokens Int[M, L] to texts, see ``Puzzle``."""
    return [*map(puzzle_of(data).decode, tokens)]

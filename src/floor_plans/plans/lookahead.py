"""``LookAhead``: while a diagram is sampled, a relation stays only if there is still a plan."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.rooms import INSIDE, NO_EDGE, RELATIONS, SURROUNDING
from floor_plans.plans.box_model import Boxes, boxes_of
from floor_plans.plans.box_rule import BoxRule
from floor_plans.plans.circles import NoCircles

EFFORT = 0.3
"""Effort of the solver for a partial diagram, about a CPU-second."""

Known = Mapping[tuple[int, int], int]
"""Pair of rooms i < j -> code, "no-edge" among them; other pairs are unknown."""


class Found(NamedTuple):
    """Boxes, and the codes Bool[n, n, 11] that a pair i < j with such boxes may have."""

    boxes: Boxes
    codes: NDArray[np.bool_]


@dataclass
class SolverWork:
    """Work of look-ahead. ``num_asked``: relations that were sampled or probed; ``num_solved``:
    those that needed the solver; ``num_refused``: relations after which there was no plan;
    ``num_undecided``: of these, those that it could not decide. ``solver_seconds``: of CPU."""

    num_asked: int = 0
    num_solved: int = 0
    num_refused: int = 0
    num_undecided: int = 0
    solver_seconds: float = 0.0

    @classmethod
    def sum_of(cls, parts: Iterable[SolverWork]) -> SolverWork:
        """Sum the work of several processes."""
        found = [astuple(part) for part in parts]
        return cls(*map(sum, zip(*found, strict=True)))


class LookAhead(NoCircles):
    """Refuses a relation after which no completion of the diagram is buildable.

    Unknown pairs may have any relation, or none, but their boxes overlap only if one lies within
    the other. So there is a plan of the partial diagram if and only if there is one of some
    complete diagram that agrees with it: nothing is lost, and no sample ends in a corner. What the
    solver cannot decide with ``effort`` is refused; the relation that the boxes found last have
    needs no solver and is always there. When all pairs are sampled, there is a plan.

    ``work``: is added to.
    """

    probes = True

    def __init__(
        self,
        vocab: VocabConfig,
        *,
        rule: BoxRule | None = None,
        effort: float = EFFORT,
        threads: int = 1,
        work: SolverWork | None = None,
    ) -> None:
        super().__init__(vocab)
        self._rule, self._effort = rule or BoxRule(), effort
        self._pool = ThreadPoolExecutor(threads)
        self._found: list[list[Found]] = []
        self.work = work or SolverWork()

    def begin(self, x: Tensor) -> None:
        """Raises ``ValueError`` if no completion of the clamped tokens is known to have a plan."""
        known = self._known(x)
        keys = [(num_rooms, tuple(codes.items())) for num_rooms, codes in known]
        distinct = dict(zip(keys, known, strict=True))
        found_of = self._solved([(*problem, None) for problem in distinct.values()])
        first = dict(zip(distinct, found_of, strict=True))
        self._found = []
        for sample, key in enumerate(keys):
            if (found := first[key]) is None:
                raise ValueError(
                    f"sample {sample}: no floor plan is found with the given rooms and relations"
                )
            self._found.append([found])

    def refuses(self, rows: Tensor, x: Tensor, position: Tensor) -> Tensor:
        refused = rows.new_zeros(len(rows)).bool()
        pairs = [
            self._vocab.endpoints[at - self._vocab.n_max] if at >= self._vocab.n_max else None
            for at in position.tolist()
        ]
        asked: list[tuple[int, int]] = []
        problems = []
        for k, (row, pair, (num_rooms, codes)) in enumerate(
            zip(rows.tolist(), pairs, self._known(x), strict=True)
        ):
            if pair is None:
                continue
            before = {other: code for other, code in codes.items() if other != pair}
            self._found[row] = [found for found in self._found[row] if _fit(found, before)]
            self.work.num_asked += 1
            if not any(_fit(found, codes) for found in self._found[row]):
                asked.append((k, row))
                problems.append((num_rooms, codes, self._found[row][0].boxes))
        for (k, row), new in zip(asked, self._solved(problems), strict=True):
            if new is None:
                refused[k] = True
                self.work.num_refused += 1
            else:
                self._found[row].append(new)
        return refused

    def _known(self, x: Tensor) -> list[tuple[int, dict[tuple[int, int], int]]]:
        """Number of rooms, and the pairs of which something is known, of samples Int[R, L]."""
        vocab, known = self._vocab, []
        for row in x.tolist():
            num_rooms = sum(token != vocab.pad_id for token in row[: vocab.n_max])
            codes = zip(vocab.endpoints, row[vocab.n_max :], strict=True)
            seen = {pair: c - vocab.edge_offset for pair, c in codes if c >= vocab.edge_offset}
            known.append((num_rooms, seen))
        return known

    def _solved(self, problems: Sequence[tuple[int, Known, Boxes | None]]) -> list[Found | None]:
        answers = list(self._pool.map(self._solve, problems))
        self.work.num_solved += len(answers)
        self.work.num_undecided += sum(answer is None for answer, _, _ in answers)
        self.work.solver_seconds += sum(seconds for _, _, seconds in answers)
        return [found for _, found, _ in answers]

    def _solve(
        self, problem: tuple[int, Known, Boxes | None]
    ) -> tuple[bool | None, Found | None, float]:
        num_rooms, known, hint = problem
        start = time.thread_time()
        answer, boxes = boxes_of(
            (num_rooms, [(i, j, code) for (i, j), code in known.items() if code != NO_EDGE]),
            rule=self._rule,
            buildable=True,
            effort=self._effort,
            unknown=unknown_pairs(num_rooms, known),
            hint=hint,
        )
        found = None if boxes is None else Found(boxes, codes_of(boxes, self._rule))
        return answer, found, time.thread_time() - start


def unknown_pairs(num_rooms: int, known: Known) -> list[tuple[int, int]]:
    """Pairs of which nothing is known."""
    return [pair for pair in combinations(range(num_rooms), 2) if pair not in known]


def _fit(found: Found, known: Known) -> bool:
    return all(found.codes[i, j, code] for (i, j), code in known.items())


def codes_of(boxes: Boxes, rule: BoxRule) -> NDArray[np.bool_]:
    """Bool[n, n, 11]: the codes that a pair i < j may have of a buildable diagram with such boxes,
    which overlap only where one lies within the other."""
    box = np.array(boxes)
    first = relations_from_boxes(box, rule.threshold)
    second = relations_from_boxes(box[::-1], rule.threshold)[::-1, ::-1].T  # of (j, i)
    second = np.where(second == NO_EDGE, NO_EDGE, NO_EDGE - 1 - second)
    every = np.arange(len(RELATIONS))
    codes = (first[..., None] == every) | (second[..., None] == every)
    low, high = box[:, :2], box[:, 2:]
    within = np.all((low[:, None] >= low) & (high[:, None] <= high), axis=-1)
    apart = np.any((low[:, None] >= high) | (low >= high[:, None]), axis=-1)
    codes &= apart[..., None]
    codes[within], codes[within.T] = every == INSIDE, every == SURROUNDING
    return codes

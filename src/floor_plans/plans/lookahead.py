"""``LookAhead`` and ``NoCircles``: relations that are excluded while a diagram is sampled."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import Narrowing
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.rooms import (
    INSIDE,
    NO_EDGE,
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    SURROUNDING,
)
from floor_plans.plans.box_model import Boxes, BoxRule, boxes_of

_NESTING = [{INSIDE: -1, SURROUNDING: 1}.get(code, 0) for code in range(len(RELATIONS))]

ORDERS = torch.tensor([RELATION_X_ORDER, RELATION_Y_ORDER, _NESTING])
"""Int[3, 11]: order of room i and room j on each axis and by nesting. -1: i is left of, above or
inside j; 1: the inverse; 0: neither."""


class NoCircles(Narrowing):
    """Excludes relations that close a cycle of rooms left of, above or inside each other.

    On each of the three orders the relations sampled so far imply their transitive closure. An id
    of a pair that contradicts it is excluded; "no-edge" never is. No buildable diagram is lost: its
    centres follow left and above, and its boxes lie strictly within each other.
    """

    def __init__(self, vocab: VocabConfig) -> None:
        self._vocab = vocab
        self._ends = torch.tensor(vocab.endpoints).reshape(-1, 2)

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        first, ends = self._vocab.edge_offset, self._ends.to(x.device)
        allowed = torch.ones(len(x), self._vocab.vocab_size, dtype=torch.bool, device=x.device)
        # the pair of rooms at each position
        pair = (position - self._vocab.n_max).clamp(min=0)
        i, j = ends[pair].unbind(dim=1)
        row = torch.arange(len(x), device=x.device)
        signs = ORDERS.to(x.device)
        # exclude codes that oppose an implied order
        for order, before in zip(signs, self._implied(x, signs, ends), strict=True):
            forward, backward = before[row, i, j], before[row, j, i]
            opposed = (forward.unsqueeze(1) & (order > 0)) | (backward.unsqueeze(1) & (order < 0))
            allowed[:, first : first + len(order)] &= ~opposed
        # positions of rooms are free
        allowed[position < self._vocab.n_max] = True
        return allowed

    def _implied(self, x: Tensor, signs: Tensor, ends: Tensor) -> Tensor:
        """Bool[3, R, n, n]: room i precedes room j on each order, in the samples x Int[R, L]."""
        n_max = self._vocab.n_max
        codes = x[:, n_max:] - self._vocab.edge_offset
        # MASK and PAD count as "no-edge"
        codes = torch.where((codes >= 0) & (codes < NO_EDGE), codes, NO_EDGE)
        signs_of = signs[:, codes]  # (3, R, E)
        i, j = ends.unbind(dim=1)
        before = torch.zeros(len(signs), len(x), n_max, n_max, dtype=torch.bool, device=x.device)
        before[..., i, j], before[..., j, i] = signs_of < 0, signs_of > 0
        # transitive closure (Warshall)
        for k in range(n_max):
            before |= before[..., :, k : k + 1] & before[..., k : k + 1, :]
        return before


EFFORT = 0.3  # effort of the solver for a partial diagram, about a CPU-second
Known = Mapping[tuple[int, int], int]  # code of each known pair of rooms i < j, "no-edge" included


class Witness(NamedTuple):
    """Boxes that prove a partial diagram feasible. ``codes`` Bool[n, n, 11]: the codes that a pair
    i < j with such boxes may have."""

    boxes: Boxes
    codes: NDArray[np.bool_]


@dataclass
class SolverWork:
    """Work of the look-ahead. ``num_asked``: relations that were sampled or probed. ``num_solved``:
    relations that needed the solver. ``num_refused``: relations that left no plan.
    ``num_undecided``: refused ones that the solver could not decide. ``solver_seconds``: CPU time.
    """

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
    """Refuses a relation if no completion of the diagram would be buildable.

    Unknown pairs may have any relation, or none, but their boxes overlap only if one lies within
    the other. A partial diagram then has a plan if and only if some completion has one. So no
    buildable diagram is lost, no sample reaches a dead end, and complete samples have a plan.

    The solver refuses what it cannot decide with ``effort``. The relation of the boxes found last
    needs no solver and is always allowed. ``work``: statistics, which are added to.
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
        self._found: list[list[Witness]] = []
        self.work = work or SolverWork()

    def begin(self, x: Tensor) -> None:
        """Find a witness for each sample. Raises ``ValueError`` if no plan is found for the clamped
        tokens."""
        known = self._known(x)
        # solve each distinct start once
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
        """Return True for each row whose new relation leaves no plan."""
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
            # keep the witnesses of the earlier relations
            before = {other: code for other, code in codes.items() if other != pair}
            self._found[row] = [found for found in self._found[row] if _fit(found, before)]
            self.work.num_asked += 1
            # no witness has the new relation: solve
            if not any(_fit(found, codes) for found in self._found[row]):
                asked.append((k, row))
                problems.append((num_rooms, codes, self._found[row][0].boxes))
        # a new witness, or a refusal
        for (k, row), new in zip(asked, self._solved(problems), strict=True):
            if new is None:
                refused[k] = True
                self.work.num_refused += 1
            else:
                self._found[row].append(new)
        return refused

    def _known(self, x: Tensor) -> list[tuple[int, dict[tuple[int, int], int]]]:
        """Number of rooms and known pairs of samples Int[R, L]."""
        vocab, known = self._vocab, []
        for row in x.tolist():
            num_rooms = sum(token != vocab.pad_id for token in row[: vocab.n_max])
            codes = zip(vocab.endpoints, row[vocab.n_max :], strict=True)
            seen = {pair: c - vocab.edge_offset for pair, c in codes if c >= vocab.edge_offset}
            known.append((num_rooms, seen))
        return known

    def _solved(self, problems: Sequence[tuple[int, Known, Boxes | None]]) -> list[Witness | None]:
        """Solve problems in threads. Returns a witness for each, or None, and counts the work."""
        answers = list(self._pool.map(self._solve, problems))
        self.work.num_solved += len(answers)
        self.work.num_undecided += sum(answer is None for answer, _, _ in answers)
        self.work.solver_seconds += sum(seconds for _, _, seconds in answers)
        return [found for _, found, _ in answers]

    def _solve(
        self, problem: tuple[int, Known, Boxes | None]
    ) -> tuple[bool | None, Witness | None, float]:
        """Solve one problem. Returns the answer, a witness and the CPU-seconds."""
        num_rooms, known, hint = problem
        start = time.thread_time()
        # the known relations as constraints, all other pairs open
        answer, boxes = boxes_of(
            (num_rooms, [(i, j, code) for (i, j), code in known.items() if code != NO_EDGE]),
            rule=self._rule,
            buildable=True,
            effort=self._effort,
            unknown=unknown_pairs(num_rooms, known),
            hint=hint,
        )
        found = None if boxes is None else Witness(boxes, codes_of(boxes, self._rule))
        return answer, found, time.thread_time() - start


def unknown_pairs(num_rooms: int, known: Known) -> list[tuple[int, int]]:
    """Pairs of rooms i < j that are not known."""
    return [pair for pair in combinations(range(num_rooms), 2) if pair not in known]


def _fit(found: Witness, known: Known) -> bool:
    """Return True if the witness has all known codes."""
    return all(found.codes[i, j, code] for (i, j), code in known.items())


def codes_of(boxes: Boxes, rule: BoxRule) -> NDArray[np.bool_]:
    """Bool[n, n, 11]: the codes that a pair i < j may have in a buildable diagram with such boxes,
    which overlap only where one lies within the other."""
    box = np.array(boxes)
    first = relations_from_boxes(box, rule.threshold)
    # read from (j, i), then inverted
    second = relations_from_boxes(box[::-1], rule.threshold)[::-1, ::-1].T
    second = np.where(second == NO_EDGE, NO_EDGE, NO_EDGE - 1 - second)
    every = np.arange(len(RELATIONS))
    codes = (first[..., None] == every) | (second[..., None] == every)
    # overlapping boxes have no code unless they are nested
    low, high = box[:, :2], box[:, 2:]
    within = np.all((low[:, None] >= low) & (high[:, None] <= high), axis=-1)
    apart = np.any((low[:, None] >= high) | (low >= high[:, None]), axis=-1)
    codes &= apart[..., None]
    codes[within], codes[within.T] = every == INSIDE, every == SURROUNDING
    return codes

"""Samples that have a floor plan: by rejection, or by a look-ahead while a diagram is sampled."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field
from itertools import combinations
from math import ceil
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.config import counted
from discrete_diffusion.layout import RELATIONS, VocabConfig
from discrete_diffusion.runtime import Shard, Stop, progress
from discrete_diffusion.sampling import Narrowing
from floor_plans.diagrams import vocabulary
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.plans.box_model import Boxes, BoxRule, boxes_of_graph
from floor_plans.plans.verdict import have_plans

logger = logging.getLogger(__name__)

TRIES = 50  # samples taken for each requested one, at most, by default
EFFORT = 0.3  # effort of the solver for a diagram, about a CPU-second, as in ``evaluate``
_MOST_AT_ONCE = 1024  # samples of a round. Accepted ones are written before the next round
Known = Mapping[tuple[int, int], int]  # code of each known pair of rooms i < j, "no-edge" included

ORDERS = torch.tensor([signs[: NO_EDGE + 1] for _, signs in vocabulary.ORDERS])
"""Int[3, 11]: order of room i and room j on each axis and by nesting. -1: i is left of, above or
inside j; 1: the inverse; 0: neither."""


@dataclass(frozen=True)
class DrawnDiagram:
    """Sampled diagram. ``network_calls``: number of network calls for it; ``log_weight``: see
    ``SampleOutput.log_weights``."""

    diagram: BubbleDiagram
    network_calls: int
    log_weight: float = 0.0


@dataclass
class Accepted:
    """Accepted samples, in the order in which they were sampled, and their cost.

    ``asked``: number of samples requested. ``having``: the condition, in words. ``most_calls``:
    number of network calls after which no round begins; too few samples are then no error.
    ``at_once``: samples judged at once, or a whole round if None. Once there are enough, the rest
    of a round is neither judged nor counted, except for its network calls.
    ``num_drawn``: samples judged, of which ``num_fit`` fit, surplus ones included, and
    ``num_undecided`` are undecided; ``rejected_by``: rejected samples by broken rule.
    """

    asked: int
    having: str = "have a plan"
    most_calls: int | None = None
    at_once: int | None = None
    rejected_by: Counter[str] = field(default_factory=Counter)
    samples: list[DrawnDiagram] = field(default_factory=list)
    num_drawn: int = 0
    num_fit: int = 0
    num_undecided: int = 0
    network_calls: int = 0

    @property
    def acceptance(self) -> float:
        return self.num_fit / max(self.num_drawn, 1)

    @property
    def missing(self) -> int:
        return self.asked - len(self.samples)

    @property
    def facts(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        found = {
            "num_drawn": self.num_drawn,
            "acceptance": self.acceptance,
            "num_undecided": self.num_undecided,
            "network_calls_per_sample": self.network_calls / max(len(self.samples), 1),
        }
        return found | ({"rejected_by": dict(self.rejected_by)} if self.rejected_by else {})

    def summary(self) -> str:
        """Return ``97.2 % of 72 drawn samples have a plan (1 undecided, rejected)``."""
        drawn = counted(self.num_drawn, "drawn sample")
        undecided = f" ({self.num_undecided:,} undecided, rejected)" if self.num_undecided else ""
        # two digits for small shares
        percent = 100 * self.acceptance
        shown = f"{percent:.1f}" if percent >= 1 or not percent else f"{percent:.2g}"
        rules = ", ".join(f"{name} {num:,}" for name, num in self.rejected_by.most_common())
        rejected = f"; rejected by {rules}" if rules else ""
        return f"{shown} % of {drawn} {self.having}{undecided}{rejected}"

    def add(
        self, drawn: Sequence[DrawnDiagram], answers: Sequence[bool | None]
    ) -> list[DrawnDiagram]:
        """Count a round. Returns its accepted samples, at most as many as are missing."""
        fit = [each for each, answer in zip(drawn, answers, strict=True) if answer]
        new = fit[: self.missing]
        self.samples += new
        self.num_drawn += len(drawn)
        self.num_fit += len(fit)
        self.num_undecided += sum(answer is None for answer in answers)
        return new

    def next_round(self, max_tries: int) -> int:
        """Number of diagrams to sample next: an estimate of how many are needed, or 0 when done."""
        if not self.num_drawn or not self.missing:
            return min(self.missing, _MOST_AT_ONCE)
        # acceptance so far, never zero
        share = (self.num_fit + 1) / (self.num_drawn + 1)
        left = max_tries * self.asked - self.num_drawn
        # as many as the remaining network calls allow
        if self.most_calls is not None:
            calls_left = max(self.most_calls - self.network_calls, 0)
            left = min(left, calls_left * self.num_drawn // max(self.network_calls, 1))
        return max(0, min(ceil(1.1 * self.missing / share), left, _MOST_AT_ONCE))


T = TypeVar("T")

Draw = Callable[[int, int], Sequence[DrawnDiagram]]
"""Returns samples for (round, number); rounds are numbered 0, 1, ..."""

Judge = Callable[[Sequence[BubbleDiagram]], list[bool | None]]
"""Returns for each diagram whether it fits; None: undecided."""

OnKept = Callable[[Sequence[DrawnDiagram]], None]
"""Callback that receives the accepted samples of each round."""


def keep_buildable(
    draw: Draw,
    num: int,
    *,
    max_tries: int = TRIES,
    effort: float = EFFORT,
    shard: Shard | None = None,
    on_kept: OnKept | None = None,
) -> Accepted:
    """Accept the samples that have a floor plan, see ``have_plans``; undecided ones are rejected.
    The processes of ``shard`` share the verdicts."""
    judge, kept = Buildable(effort, shard or Shard()), Accepted(num)
    remedy = f"max_tries={max_tries}: raise it for more, or take buildable=lookahead"
    return accept_samples(draw, judge, kept, max_tries=max_tries, remedy=remedy, on_kept=on_kept)


def accept_samples(
    draw: Draw,
    judge: Judge,
    kept: Accepted,
    *,
    max_tries: int,
    remedy: str,
    on_kept: OnKept | None = None,
) -> Accepted:
    """Sample until enough diagrams fit, at most ``max_tries`` for each one that is requested, and
    add them to ``kept``. Raises ``ValueError`` with the ``remedy`` if no sample fits, unless
    ``kept`` has ``most_calls``.

    Whole samples are rejected, including their number of rooms: if ``draw`` samples from p, the
    result is distributed as p given that ``judge`` accepts. A round that returns fewer samples than
    requested is the last, and a ``Stop`` returns what was accepted so far.
    """
    ended = False
    with progress.task(f"drawing samples that {kept.having}", kept.asked, "samples") as going:
        for turn in range(max_tries * kept.asked):
            if ended or not (asked := kept.next_round(max_tries)):
                break
            try:
                drawn = draw(turn, asked)
                kept.network_calls += sum(each.network_calls for each in drawn)
                # judge part by part, so that progress is seen and written
                step = kept.at_once or max(len(drawn), 1)
                for start in range(0, len(drawn), step):
                    some = drawn[start : start + step]
                    new = kept.add(some, judge([each.diagram for each in some]))
                    if on_kept is not None:
                        on_kept(new)
                    going.reach(len(kept.samples))
                    if not kept.missing:
                        break
            except Stop:
                if not kept.samples:
                    raise
                ended = True
                break
            # a short round is the last one
            ended = len(drawn) < asked
    # say how many were accepted; too few are an error if there are none
    if kept.missing and kept.most_calls is not None:
        logger.info("stopped at %s network calls: %s", f"{kept.network_calls:,}", kept.summary())
    elif kept.missing and not kept.samples:
        raise ValueError(f"no sample to write: {kept.summary()}; {remedy}")
    elif kept.missing and not ended:
        logger.warning(
            "%d of %d samples: %s; %s", len(kept.samples), kept.asked, kept.summary(), remedy
        )
    else:
        logger.info("%s", kept.summary())
    return kept


class DecidedOnce(ABC, Generic[T]):
    """Judge that decides each diagram once, however its rooms are numbered. The processes of
    ``shard`` share the work, and each knows all answers."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._known: dict[bytes, T] = {}

    @abstractmethod
    def _decide(self, diagrams: list[BubbleDiagram]) -> list[T]:
        """Decide distinct diagrams in this process."""

    def __call__(self, diagrams: Sequence[BubbleDiagram]) -> list[T]:
        if not diagrams:
            return []
        # each process decides its share of the diagrams that nobody has decided
        keys, size = DiagramSet.of(diagrams).canonical_keys.tolist(), self._shard.world_size
        distinct = dict(zip(keys, diagrams, strict=True))
        new = [(key, each) for key, each in distinct.items() if key not in self._known]
        parts = [new[rank::size] for rank in range(size)]
        found = self._shard.map(self._decide, [[each for _, each in part] for part in parts])
        for part, answers in zip(parts, found, strict=True):
            self._known |= zip((key for key, _ in part), answers, strict=True)
        return [self._known[key] for key in keys]


class Buildable(DecidedOnce[bool | None]):
    """Judge of whether diagrams have a floor plan; None if undecided with ``effort``."""

    def __init__(self, effort: float, shard: Shard) -> None:
        super().__init__(shard)
        self._effort = effort

    def _decide(self, diagrams: list[BubbleDiagram]) -> list[bool | None]:
        return have_plans(diagrams, effort=self._effort, threads=torch.get_num_threads())


class NoCircles(Narrowing):
    """Exclude relations that close a cycle of rooms left of, above or inside each other: those that
    contradict the transitive closure of relations sampled so far. No buildable diagram is lost: its
    centres follow left and above, and its boxes lie strictly within each other."""

    def __init__(self, vocab: VocabConfig) -> None:
        self._vocab = vocab
        self._ends = torch.tensor(vocab.endpoints).reshape(-1, 2)

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        first, ends = self._vocab.edge_offset, self._ends.to(x.device)
        allowed = torch.ones(len(x), self._vocab.vocab_size, dtype=torch.bool, device=x.device)
        pair = (position - self._vocab.n_max).clamp(min=0)
        i, j = ends[pair].unbind(dim=1)
        row = torch.arange(len(x), device=x.device)
        signs = ORDERS.to(x.device)
        # exclude codes that oppose an implied order
        for order, before in zip(signs, self._implied(x, signs, ends), strict=True):
            forward, backward = before[row, i, j], before[row, j, i]
            opposed = (forward.unsqueeze(1) & (order > 0)) | (backward.unsqueeze(1) & (order < 0))
            allowed[:, first : first + len(order)] &= ~opposed
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


class Witness(NamedTuple):
    """Boxes that prove a partial diagram feasible. ``codes`` Bool[n, n, 11]: codes that each pair
    i < j may have with these boxes."""

    boxes: Boxes
    codes: NDArray[np.bool_]


@dataclass
class SolverWork:
    """Work of the look-ahead: relations that were sampled or probed, that needed the solver, that
    left no plan, and that the solver could not decide and so refused; CPU time of the solver."""

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
    """Refuse a relation if no completion of the diagram would be buildable.

    Unknown pairs may have any relation, or none, but their boxes overlap only if one lies within
    the other. A partial diagram then has a plan if and only if some completion has one: no
    buildable diagram is lost, no sample reaches a dead end, and complete samples have a plan.

    The solver refuses what it cannot decide with ``effort``. The relation of the boxes found last
    needs no solver and is always allowed. ``work``: statistics to add to.
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
        """Find a witness for each sample. Raises ``ValueError`` if clamped tokens have no plan."""
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
        refused, n_max = rows.new_zeros(len(rows)).bool(), self._vocab.n_max
        asked: list[tuple[int, int]] = []
        problems = []
        every = zip(rows.tolist(), position.tolist(), self._known(x), strict=True)
        for k, (row, at, (num_rooms, codes)) in enumerate(every):
            if at < n_max:
                continue
            # keep the witnesses of the earlier relations
            pair = self._vocab.endpoints[at - n_max]
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
        """Number of rooms and known relations of each sample, Int[R, L]."""
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
        how: dict[str, Any] = {"rule": self._rule, "buildable": True, "effort": self._effort}
        answer, boxes = boxes_of_known(num_rooms, known, hint=hint, **how)
        found = None if boxes is None else Witness(boxes, codes_of_boxes(boxes, self._rule))
        return answer, found, time.thread_time() - start


def boxes_of_known(num_rooms: int, known: Known, **how: Any) -> tuple[bool | None, Boxes | None]:
    """Return ``boxes_of_graph`` of rooms and the known codes of their pairs; other pairs may have
    any relation or none. ``how``: its keywords."""
    relations = [(i, j, code) for (i, j), code in known.items() if code != NO_EDGE]
    unknown = [pair for pair in combinations(range(num_rooms), 2) if pair not in known]
    return boxes_of_graph((num_rooms, relations), unknown=unknown, **how)


def _fit(found: Witness, known: Known) -> bool:
    """Return True if the witness has all known codes."""
    return all(found.codes[i, j, code] for (i, j), code in known.items())


def codes_of_boxes(boxes: Boxes, rule: BoxRule) -> NDArray[np.bool_]:
    """Bool[n, n, 11]: codes that each pair i < j may have in a buildable diagram with such boxes.
    Two boxes overlap only if one lies within the other."""
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

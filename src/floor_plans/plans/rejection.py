"""Rejection sampling: diagrams are sampled until enough of them fit, as by having a floor plan."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil
from typing import Any, Generic, TypeVar

import torch

from discrete_diffusion.config import counted
from discrete_diffusion.runtime import Shard, Stop, progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.plans.verdict import have_plans

logger = logging.getLogger(__name__)

TRIES = 50  # samples taken for each requested one, at most, by default
EFFORT = 0.3  # effort of the solver for a diagram, about a CPU-second, as in ``evaluate``
_MOST_AT_ONCE = 1024  # samples of a round. Accepted ones are written before the next round


@dataclass(frozen=True)
class DrawnDiagram:
    """Sampled diagram. ``network_calls``: those it took; ``log_weight``: see
    ``SampleOutput.log_weights``."""

    diagram: BubbleDiagram
    network_calls: int
    log_weight: float = 0.0


@dataclass
class Accepted:
    """Accepted samples, in the order in which they were sampled, and their cost.

    ``asked``: number of samples requested. ``having``: the condition, in words. ``most_calls``:
    limit of network calls. Once it is reached, no round begins, and too few samples raise no error.
    ``at_once``: samples judged at once, or a whole round if None. Once there are enough, the rest
    of a round is neither judged nor counted, except for its network calls.

    ``num_drawn``: samples judged; ``num_fit``: those that fit, surplus ones included;
    ``num_undecided``: those rejected because the solver could not decide. ``rejected_by``: rejected
    samples by broken rule, if the judge names rules.
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
        """Share of samples that fit."""
        return self.num_fit / max(self.num_drawn, 1)

    @property
    def missing(self) -> int:
        """Number of samples still missing."""
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
        """Count a round. Returns the samples accepted of it, at most as many as are missing."""
        fit = [each for each, answer in zip(drawn, answers, strict=True) if answer]
        new = fit[: self.missing]
        self.samples += new
        self.num_drawn += len(drawn)
        self.num_fit += len(fit)
        self.num_undecided += sum(answer is None for answer in answers)
        return new

    def next_round(self, tries: int) -> int:
        """Number of diagrams to sample next: an estimate of how many are needed, or 0 when done."""
        if not self.num_drawn or not self.missing:
            return min(self.missing, _MOST_AT_ONCE)
        # acceptance so far, never zero
        share = (self.num_fit + 1) / (self.num_drawn + 1)
        left = tries * self.asked - self.num_drawn
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
    tries: int = TRIES,
    effort: float = EFFORT,
    shard: Shard | None = None,
    on_kept: OnKept | None = None,
) -> Accepted:
    """Accept the samples that have a floor plan, see ``have_plans``.

    Samples that the solver cannot decide with ``effort`` are rejected. The processes of ``shard``
    share the verdicts.
    """
    judge = Buildable(effort, shard or Shard())
    remedy = f"tries={tries}: raise it for more, or take buildable=lookahead"
    return accept(draw, judge, Accepted(num), tries=tries, remedy=remedy, on_kept=on_kept)


def accept(
    draw: Draw,
    judge: Judge,
    kept: Accepted,
    *,
    tries: int,
    remedy: str,
    on_kept: OnKept | None = None,
) -> Accepted:
    """Sample until enough diagrams fit, and add them to ``kept``.

    Whole samples are rejected, including their number of rooms. If ``draw`` samples from p, the
    result is distributed as p given that ``judge`` accepts. No round follows one that returned
    fewer samples than requested. ``tries``: samples per requested one, at most. ``remedy``: advice
    if there are too few. A ``Stop`` returns what was accepted so far.

    Raises ``ValueError`` if no sample fits, unless ``kept`` has ``most_calls``.
    """
    ended = False
    with progress.task(f"drawing samples that {kept.having}", kept.asked, "samples") as going:
        for turn in range(tries * kept.asked):
            if ended or not (asked := kept.next_round(tries)):
                break
            try:
                drawn = draw(turn, asked)
                kept.network_calls += sum(each.network_calls for each in drawn)
                # accept part by part, so that progress is seen and written
                for some, answers in _judged(drawn, judge, kept.at_once):
                    new = kept.add(some, answers)
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
    _log(kept, remedy, ended)
    return kept


def _judged(
    drawn: Sequence[DrawnDiagram], judge: Judge, at_once: int | None
) -> Iterator[tuple[Sequence[DrawnDiagram], list[bool | None]]]:
    """Judge the samples of a round in parts of ``at_once``."""
    step = at_once or max(len(drawn), 1)
    for start in range(0, len(drawn), step):
        some = drawn[start : start + step]
        yield some, judge([each.diagram for each in some])


def _log(kept: Accepted, remedy: str, ended: bool) -> None:
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


class DecidedOnce(ABC, Generic[T]):
    """Judge that decides each diagram once, regardless of how its rooms are numbered.

    The processes of ``shard`` share the work and know all answers.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._known: dict[bytes, T] = {}

    @abstractmethod
    def _decide(self, diagrams: list[BubbleDiagram]) -> list[T]:
        """Decide distinct diagrams in this process."""

    def __call__(self, diagrams: Sequence[BubbleDiagram]) -> list[T]:
        if not diagrams:
            return []
        # diagrams that nobody has decided
        keys = DiagramSet.of(diagrams).canonical_keys.tolist()
        new = {
            key: diagram
            for key, diagram in zip(keys, diagrams, strict=True)
            if key not in self._known
        }
        # each process decides its share
        size = self._shard.world_size
        parts = [list(new.values())[rank::size] for rank in range(size)]
        found = self._shard.map(self._decide, parts)
        asked = [list(new)[rank::size] for rank in range(size)]
        self._known |= zip(chain(*asked), chain(*found), strict=True)
        return [self._known[key] for key in keys]


class Buildable(DecidedOnce[bool | None]):
    """Judge whether diagrams have a floor plan; None: undecided with ``effort``."""

    def __init__(self, effort: float, shard: Shard) -> None:
        super().__init__(shard)
        self._effort = effort

    def _decide(self, diagrams: list[BubbleDiagram]) -> list[bool | None]:
        return have_plans(diagrams, effort=self._effort, threads=torch.get_num_threads())

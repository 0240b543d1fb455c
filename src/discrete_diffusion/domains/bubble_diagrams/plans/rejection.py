"""Samples that have what is requested, such as a floor plan: sampled until there are enough."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil
from typing import Any

import torch

from discrete_diffusion.config.naming import counted
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.plans.verdict import have_plans
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.shards import Shard
from discrete_diffusion.runtime.stopping import Stop

logger = logging.getLogger(__name__)

TRIES = 50
"""Samples that are taken for each requested one, at most, if nothing else is requested."""

EFFORT = 0.3
"""Effort of the solver for a diagram, about a CPU-second: as ``evaluate`` counts."""

_MOST_AT_ONCE = 1024
"""Samples of a round: what is kept of it is written before the next one is sampled."""


@dataclass(frozen=True)
class DrawnDiagram:
    """``network_calls`` it took; ``log_weight``: see ``SampleOutput.log_weights``."""

    diagram: BubbleDiagram
    network_calls: int
    log_weight: float = 0.0


@dataclass
class Accepted:
    """The samples that have what is requested, ``having`` in words, in the order in which they were
    sampled, and what they took.

    ``num_drawn``: samples in all, of ``network_calls``. ``num_fit``: those that have it, also
    beyond what was requested. ``num_undecided``: of which the solver could not tell; they are
    rejected. ``most_calls``: there is no round past so many network calls, and too few samples, or
    none, are no error then; None for no such limit.
    """

    asked: int
    having: str = "have a plan"
    most_calls: int | None = None
    samples: list[DrawnDiagram] = field(default_factory=list)
    num_drawn: int = 0
    num_fit: int = 0
    num_undecided: int = 0
    network_calls: int = 0

    @property
    def acceptance(self) -> float:
        """Share of all samples that have what is requested."""
        return self.num_fit / max(self.num_drawn, 1)

    @property
    def missing(self) -> int:
        return self.asked - len(self.samples)

    @property
    def facts(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        return {
            "num_drawn": self.num_drawn,
            "acceptance": self.acceptance,
            "num_undecided": self.num_undecided,
            "network_calls_per_sample": self.network_calls / max(len(self.samples), 1),
        }

    def summary(self) -> str:
        """``97.2 % of 72 drawn samples have a plan (1 undecided, rejected)``."""
        drawn = counted(self.num_drawn, "drawn sample")
        undecided = f" ({self.num_undecided:,} undecided, rejected)" if self.num_undecided else ""
        percent = 100 * self.acceptance
        shown = f"{percent:.1f}" if percent >= 1 or not percent else f"{percent:.2g}"
        return f"{shown} % of {drawn} {self.having}{undecided}"

    def add(
        self, drawn: Sequence[DrawnDiagram], answers: Sequence[bool | None]
    ) -> list[DrawnDiagram]:
        """The samples that have what is requested, as many as are missing."""
        fit = [each for each, answer in zip(drawn, answers, strict=True) if answer]
        new = fit[: self.missing]
        self.samples += new
        self.num_drawn += len(drawn)
        self.num_fit += len(fit)
        self.num_undecided += sum(answer is None for answer in answers)
        self.network_calls += sum(each.network_calls for each in drawn)
        return new

    def next_round(self, tries: int) -> int:
        """Number of diagrams to sample next: as many as should do, 0 at the end."""
        if not self.num_drawn or not self.missing:
            return min(self.missing, _MOST_AT_ONCE)
        share = (self.num_fit + 1) / (self.num_drawn + 1)
        left = tries * self.asked - self.num_drawn
        if self.most_calls is not None:
            calls_left = max(self.most_calls - self.network_calls, 0)
            left = min(left, calls_left * self.num_drawn // max(self.network_calls, 1))
        return max(0, min(ceil(1.1 * self.missing / share), left, _MOST_AT_ONCE))


Draw = Callable[[int, int], Sequence[DrawnDiagram]]
"""Samples, of (round, number), the rounds being 0, 1, ..."""

OnKept = Callable[[Sequence[DrawnDiagram]], None]
"""Callback that is given the samples of each round that are kept."""


def keep_buildable(
    draw: Draw,
    num: int,
    *,
    tries: int = TRIES,
    effort: float = EFFORT,
    shard: Shard | None = None,
    on_kept: OnKept | None = None,
) -> Accepted:
    """``keep`` the samples that have a floor plan, see ``have_plans``.

    What the solver cannot decide with ``effort`` is rejected. Processes of ``shard`` share the
    verdicts."""
    judge = Buildable(effort, shard or Shard())
    remedy = f"tries={tries}: raise it for more, or take buildable=lookahead"
    return accept(draw, judge, Accepted(num), tries=tries, remedy=remedy, on_kept=on_kept)


def accept(
    draw: Draw,
    judge: Callable[[Sequence[BubbleDiagram]], list[bool | None]],
    kept: Accepted,
    *,
    tries: int,
    remedy: str,
    on_kept: OnKept | None = None,
) -> Accepted:
    """The first samples that ``judge`` finds to have what is requested, in ``kept``.

    Whole samples are rejected, their number of rooms too: if ``draw`` samples from p, these are
    samples from p given what is requested. If it returns fewer than the number, there is no further
    round. At most ``tries`` samples are taken for each requested one; ``remedy``: what to do if
    there are too few. A ``Stop`` ends with what is kept.

    Raises ``ValueError`` if none fits, unless ``kept`` has ``most_calls``.
    """
    ended = False
    with progress.task(f"drawing samples that {kept.having}", kept.asked, "samples") as going:
        for turn in range(tries * kept.asked):
            if ended or not (asked := kept.next_round(tries)):
                break
            try:
                drawn = draw(turn, asked)
                found = judge([each.diagram for each in drawn])
            except Stop:
                if not kept.samples:
                    raise
                ended = True
                break
            ended = len(drawn) < asked
            new = kept.add(drawn, found)
            if on_kept is not None:
                on_kept(new)
            going.reach(len(kept.samples))
    _log(kept, remedy, ended)
    return kept


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


class Buildable:
    """Predicate: a diagram has a plan. Each is decided once, however its rooms are numbered."""

    def __init__(self, effort: float, shard: Shard) -> None:
        self._effort, self._shard = effort, shard
        self._known: dict[bytes, bool | None] = {}

    def __call__(self, diagrams: Sequence[BubbleDiagram]) -> list[bool | None]:
        if not diagrams:
            return []
        keys = DiagramSet.of(diagrams).canonical_keys.tolist()
        new = {
            key: diagram
            for key, diagram in zip(keys, diagrams, strict=True)
            if key not in self._known
        }
        size = self._shard.world_size
        parts = [list(new.values())[rank::size] for rank in range(size)]
        found = self._shard.map(self._decide, parts)
        asked = [list(new)[rank::size] for rank in range(size)]
        self._known |= zip(chain(*asked), chain(*found), strict=True)
        return [self._known[key] for key in keys]

    def _decide(self, diagrams: list[BubbleDiagram]) -> list[bool | None]:
        return have_plans(diagrams, effort=self._effort, threads=torch.get_num_threads())

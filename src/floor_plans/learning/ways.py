"""``Way``: the way of sampling diagrams that have a floor plan, by ``buildable`` and
``habitable``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.categorical import effective_number
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.plans.box_model import BoxRule, boxes_of, cp_sat
from floor_plans.plans.buildable import EFFORT, LookAhead, NoCircles, SolverWork, unknown_pairs
from floor_plans.rules.rule_set import RuleSet, read_rules, shipped_sets

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation import SampleRequest
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.runtime import Shard
    from discrete_diffusion.sampling import Model, Narrowing

REJECTING = ("rejection", "narrowing")  # ways that reject samples without a plan and sample again

_ROWS_AHEAD = 32
"""Batch size of the look-ahead, about half a minute's work; finished batches are written and shown
as progress."""


@dataclass
class Way:
    """Way of sampling diagrams that have a floor plan.

    ``name``: "" (plans are not required), "rejection", "narrowing" or "lookahead". ``rules``: rules
    that the plan of every sample has to keep; None for any plan.
    """

    name: str
    vocab: VocabConfig
    rules: RuleSet | None = None
    _work: list[SolverWork] = field(default_factory=list)

    @classmethod
    def requested(cls, request: SampleRequest, vocab: VocabConfig) -> Way:
        """Build the way requested by ``buildable`` and ``habitable``.

        Raises ``ValueError`` for options that do not go together, or without OR-Tools.
        """
        # the name of the way, and the option that messages show
        value = request.buildable
        name = "" if not value else "rejection" if value is True else str(value)
        shown = f"buildable={str(value).lower()}"
        if rules := requested_rules(request.habitable):
            if name == "lookahead":
                raise ValueError(
                    f"buildable=lookahead does not go with habitable={rules.name}, which rejects "
                    "samples; take buildable=narrowing, or leave buildable out"
                )
            name, shown = name or "rejection", f"habitable={rules.name}"
        # options that do not go together
        if name not in REJECTING and request.tries is not None:
            raise ValueError(
                f"tries={request.tries} is for buildable=true or narrowing, and habitable, which "
                "draw again; leave it out"
            )
        for key in ("given", "trajectory") if name in REJECTING else ():
            if request[key]:
                raise ValueError(
                    f"{key}={request[key]} does not go with {shown}, which draws samples that it "
                    "rejects; take buildable=lookahead"
                )
        if name:
            cp_sat()
        return cls(name, vocab, rules)

    @property
    def weighs(self) -> bool:
        """True if samples have weights."""
        return self.name in ("narrowing", "lookahead")

    def narrowing(self) -> Narrowing | None:
        """Narrowing of a batch of samples; None if this way has none."""
        if self.name == "narrowing":
            return NoCircles(self.vocab)
        if self.name != "lookahead":
            return None
        self._work.append(SolverWork())
        return LookAhead(self.vocab, threads=torch.get_num_threads(), work=self._work[-1])

    def apply_to(self, model: Model) -> Model:
        """Return the model with the sampling options of this way."""
        rows = model.batch_size
        if rows is None and self.name == "lookahead":
            rows = _ROWS_AHEAD
        return replace(model, narrowing=self.narrowing, batch_size=rows)

    def work(self, shard: Shard) -> SolverWork:
        """Work of the look-ahead, summed over processes."""
        return SolverWork.sum_of(shard.exchange(SolverWork.sum_of(self._work)))

    def weighted(
        self, diagrams: Sequence[BubbleDiagram], log_weights: Tensor
    ) -> list[BubbleDiagram]:
        """Add their ``log_weight`` to the diagrams, if samples have weights."""
        if not self.weighs:
            return [*diagrams]
        return [
            replace(each, metadata={**each.metadata, "log_weight": w if isfinite(w) else None})
            for each, w in zip(diagrams, log_weights.tolist(), strict=True)
        ]

    def facts(self, log_weights: Tensor, work: SolverWork) -> dict[str, Any]:
        """Facts for ``metrics.json`` on the weights and on the look-ahead."""
        if not self.weighs:
            return {}
        # weights of narrowing and look-ahead, work of the look-ahead
        effective = effective_number(log_weights)
        found = {"mean_weight": float(log_weights.exp().mean()), "effective_samples": effective}
        return found | (vars(work) if self.name == "lookahead" else {})

    def summary(self, facts: dict[str, Any]) -> str:
        """Sentence on the look-ahead, for the log."""
        return (
            f"looking ahead refused {facts['num_refused']:,} of {facts['num_asked']:,} relations "
            f"({facts['num_undecided']:,} undecided) in {facts['solver_seconds']:.1f} CPU-seconds "
            f"of the solver; about {100 * facts['mean_weight']:.1f} % of what the model draws has "
            f"a plan; weighted, these are worth {facts['effective_samples']:.1f} samples"
        )


def requested_rules(habitable: object) -> RuleSet | None:
    """Rules named by ``habitable``, ``default`` if it is true; None if it is false.

    Raises ``ValueError`` for another value, for an empty set of rules and without the packages that
    find plans, and ``FileNotFoundError``.
    """
    if habitable is None or habitable is False:
        return None
    if habitable is True:
        habitable = "default"
    if not isinstance(habitable, str | os.PathLike):
        raise ValueError(
            f"habitable={habitable}: expected false, true, or rules: {', '.join(shipped_sets())}, "
            "or a YAML file"
        )
    # rules, and the packages to apply them
    rules = read_rules(habitable, "habitable")
    if not rules.rules:
        raise ValueError(f"habitable={habitable} requires nothing of a plan; take buildable=true")
    cp_sat()
    check_installed()
    return rules


def check_partial(partial: PartialDiagram, where: str) -> None:
    """Raise ``ValueError`` if no floor plan has the known relations."""
    known = {(i, j): code for i, j, code in partial.relations}
    # unknown pairs may have any relation
    answer, _ = boxes_of(
        (partial.num_rooms, [(*pair, code) for pair, code in known.items() if code != NO_EDGE]),
        rule=BoxRule(),
        buildable=True,
        effort=EFFORT,
        unknown=unknown_pairs(partial.num_rooms, known),
    )
    if not answer:
        found = "has these relations" if answer is False else "was found that has these relations"
        raise ValueError(f"{where}: no floor plan {found}; leave buildable out to complete it")

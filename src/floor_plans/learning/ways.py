"""``Way``: how samples come to have a floor plan, as ``buildable`` and ``habitable`` request."""

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
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.plans.box_model import boxes_of, cp_sat
from floor_plans.plans.box_rule import BoxRule
from floor_plans.plans.lookahead import EFFORT, LookAhead, NoCircles, SolverWork, unknown_pairs
from floor_plans.rules.rule_set import RuleSet, read_rules, shipped_sets
from floor_plans.solver.habitable import Habitable

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation import SampleRequest
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.runtime import Shard
    from discrete_diffusion.sampling import Model, Narrowing

REJECTING = ("rejection", "narrowing")
"""Ways that take samples without a plan, and sample others in their place."""

_ROWS_AHEAD = 32
"""Samples that look ahead at once, about half a minute's work: those that are finished are written,
and progress is shown."""


@dataclass
class Way:
    """``name``: "" (samples may have no plan), "rejection", "narrowing" or "lookahead". ``rules``:
    that a plan of every sample is to keep; None if any plan does."""

    name: str
    vocab: VocabConfig
    rules: RuleSet | None = None
    _work: list[SolverWork] = field(default_factory=list)

    @classmethod
    def requested(cls, request: SampleRequest, vocab: VocabConfig) -> Way:
        """Way that ``buildable`` and ``habitable`` request.

        Raises ``ValueError`` for options that do not go together, or without OR-Tools.
        """
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

    def judge(self, shard: Shard) -> Habitable | None:
        """Rules that plans of samples break; None if no rules are requested."""
        return None if self.rules is None else Habitable(self.rules, shard)

    @property
    def weighs(self) -> bool:
        """True if samples have weights."""
        return self.name in ("narrowing", "lookahead")

    def narrowing(self) -> Narrowing | None:
        """Narrowing of a batch of samples."""
        if self.name == "narrowing":
            return NoCircles(self.vocab)
        if self.name != "lookahead":
            return None
        self._work.append(SolverWork())
        return LookAhead(self.vocab, threads=torch.get_num_threads(), work=self._work[-1])

    def rows_at_once(self, batch_size: int | None) -> int | None:
        """``batch_size``, or the default of this way."""
        return _ROWS_AHEAD if batch_size is None and self.name == "lookahead" else batch_size

    def on(self, model: Model) -> Model:
        """The model, sampling in this way."""
        rows = self.rows_at_once(model.batch_size)
        return replace(model, narrowing=self.narrowing, batch_size=rows)

    def work(self, shard: Shard) -> SolverWork:
        """Work of looking ahead, in all processes."""
        return SolverWork.sum_of(shard.exchange(SolverWork.sum_of(self._work)))

    def weighted(
        self, diagrams: Sequence[BubbleDiagram], log_weights: Tensor
    ) -> list[BubbleDiagram]:
        """The diagrams, with their ``log_weight`` if samples have one."""
        if not self.weighs:
            return [*diagrams]
        return [
            replace(each, metadata={**each.metadata, "log_weight": w if isfinite(w) else None})
            for each, w in zip(diagrams, log_weights.tolist(), strict=True)
        ]

    def facts(self, log_weights: Tensor, work: SolverWork) -> dict[str, Any]:
        """Facts for ``metrics.json``: of the weights, and of looking ahead."""
        if not self.weighs:
            return {}
        effective = effective_number(log_weights)
        found = {"mean_weight": float(log_weights.exp().mean()), "effective_samples": effective}
        return found | (vars(work) if self.name == "lookahead" else {})

    def summary(self, facts: dict[str, Any]) -> str:
        """Sentence on looking ahead, for the log."""
        return (
            f"looking ahead refused {facts['num_refused']:,} of {facts['num_asked']:,} relations "
            f"({facts['num_undecided']:,} undecided) in {facts['solver_seconds']:.1f} CPU-seconds "
            f"of the solver; about {100 * facts['mean_weight']:.1f} % of what the model draws has "
            f"a plan; weighted, these are worth {facts['effective_samples']:.1f} samples"
        )


def requested_rules(habitable: object) -> RuleSet | None:
    """Rules that ``habitable`` names, those called default if it is true; None if it is false.

    Raises ``ValueError`` for another value, for no rules and without the packages that find plans,
    ``FileNotFoundError``.
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
    rules = read_rules(habitable, "habitable")
    if not rules.rules:
        raise ValueError(f"habitable={habitable} demands nothing of a plan; take buildable=true")
    cp_sat()
    check_installed()
    return rules


def check_partial(partial: PartialDiagram, where: str) -> None:
    """``ValueError`` if no floor plan is found that has what is given."""
    known = {(i, j): code for i, j, code in partial.relations}
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

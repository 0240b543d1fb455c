"""``judge``: the rules that a floor plan breaks, and shares of plans that satisfy each rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.evaluation import Interval, share_interval
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.extents import check_rooms
from floor_plans.rules.finding import Finding, Findings
from floor_plans.rules.rule_set import RULES, RuleSet


@dataclass(frozen=True)
class Judgement:
    """Findings of every rule on a plan, by its name. A rule that does not apply has None."""

    findings: Mapping[str, Findings]

    @property
    def kept(self) -> dict[str, bool | None]:
        """True for each rule that the plan satisfies; None where it does not apply."""
        return {name: None if found is None else not found for name, found in self.findings.items()}

    @property
    def keeps_all(self) -> bool:
        """True if the plan breaks no rule."""
        return False not in self.kept.values()

    @property
    def broken(self) -> list[tuple[str, Finding]]:
        """Rules and findings, in the order of the rules."""
        return [(name, each) for name, found in self.findings.items() for each in found or ()]

    def to_json(self) -> dict[str, Any]:
        broken = [{"rule": name} | each.to_json() for name, each in self.broken]
        return {"kept": self.kept, "broken": broken}


def judge(plan: FloorPlan, rules: RuleSet) -> Judgement:
    """Judge a plan, realised, read or drawn, by its floors and doors alone.

    Raises ``DiagramError`` for a room without area, or a wrong key "added", see ``kinds_of``.
    """
    check_rooms(plan)
    return Judgement(
        {
            name: rule.judge(plan, rules.rules[name])
            for name, rule in RULES.items()
            if name in rules.rules
        }
    )


@dataclass(frozen=True)
class KeptShare:
    """Number of plans that satisfy a rule, ``num_kept``, out of those it applies to,
    ``num_judged``."""

    num_kept: int
    num_judged: int

    @property
    def interval(self) -> Interval | None:
        """Share and its interval (Wilson, 95 %); None if the rule applies to no plan."""
        if not self.num_judged:
            return None
        return share_interval([self.num_kept / self.num_judged], self.num_judged)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"num_kept": self.num_kept, "num_judged": self.num_judged}
        if (found := self.interval) is not None:
            data |= {"share": found.mean, "low": found.low, "high": found.high}
        return data


ALL = "all"
"""Name that stands for all rules together."""


def shares(judgements: Sequence[Judgement], rules: RuleSet) -> dict[str, KeptShare]:
    """Share of plans that satisfy each rule, and ``ALL`` of them."""
    found = {}
    for name in [name for name in RULES if name in rules.rules]:
        # plans that the rule does not apply to are not counted
        kept = [judgement.kept[name] for judgement in judgements]
        found[name] = KeptShare(kept.count(True), len(kept) - kept.count(None))
    return found | {ALL: KeptShare(sum(each.keeps_all for each in judgements), len(judgements))}

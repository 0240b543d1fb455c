"""``judge``: what a floor plan breaks of a set of rules; shares of plans that keep each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.evaluation import Interval, share_interval
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.extents import check_rooms
from floor_plans.rules.finding import Finding, Findings
from floor_plans.rules.registry import RULES
from floor_plans.rules.rule_file import RuleSet


@dataclass(frozen=True)
class Judgement:
    """What every rule finds wrong with a plan, by its name: nothing, or None if it does not apply
    to the plan."""

    findings: Mapping[str, Findings]

    @property
    def kept(self) -> dict[str, bool | None]:
        """True for each rule that the plan keeps, None where it does not apply."""
        return {name: None if found is None else not found for name, found in self.findings.items()}

    @property
    def keeps_all(self) -> bool:
        """True if the plan breaks no rule."""
        return False not in self.kept.values()

    @property
    def broken(self) -> list[tuple[str, Finding]]:
        """Rule and finding, in the order of the rules."""
        return [(name, each) for name, found in self.findings.items() for each in found or ()]

    def to_json(self) -> dict[str, Any]:
        broken = [{"rule": name} | each.to_json() for name, each in self.broken]
        return {"kept": self.kept, "broken": broken}


def judge(plan: FloorPlan, rules: RuleSet) -> Judgement:
    """Judge a plan, realised, read or drawn, by its floors and doors alone.

    Raises ``DiagramError`` for a room without area, and if its key "added" is wrong, see
    ``kinds_of``.
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
class Share:
    """``num_kept`` of the ``num_judged`` plans that a rule applies to keep it."""

    num_kept: int
    num_judged: int

    @property
    def interval(self) -> Interval | None:
        """The share and its interval (Wilson, 95 %); None if the rule applies to no plan."""
        if not self.num_judged:
            return None
        return share_interval([self.num_kept / self.num_judged], self.num_judged)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"num_kept": self.num_kept, "num_judged": self.num_judged}
        if (found := self.interval) is not None:
            data |= {"share": found.mean, "low": found.low, "high": found.high}
        return data


ALL = "all"
"""In the place of a rule: every rule that applies."""


def shares(judgements: Sequence[Judgement], rules: RuleSet) -> dict[str, Share]:
    """Share of plans that keep each rule, and ``ALL`` of them."""
    found = {}
    for name in [name for name in RULES if name in rules.rules]:
        kept = [judgement.kept[name] for judgement in judgements]
        found[name] = Share(kept.count(True), len(kept) - kept.count(None))
    return found | {ALL: Share(sum(each.keeps_all for each in judgements), len(judgements))}

"""``RuleReport``: the output of ``plans check --rules``, as a table with shares and remedies, or as
JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from discrete_diffusion.config import counted
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.records import Problem, ReadReport
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.plans.floor_plan import FloorPlan, floor_plans
from floor_plans.rules.finding import added_rooms
from floor_plans.rules.rule_set import ALL, RULES, Judgement, KeptShare, RuleSet, judge, shares

_CELLS = {True: "yes", False: "NO", None: "-"}


@dataclass(frozen=True)
class RuleReport:
    """Judgements of the plans of the file or folder ``path``, with the place of each.

    ``num_without_boxes``: its diagrams that are not plans; ``problems``: sentences on what cannot
    be read.
    """

    path: Path
    rules: RuleSet
    places: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    num_without_boxes: int
    problems: tuple[str, ...]

    @property
    def is_kept(self) -> bool:
        """True if no plan breaks a rule."""
        return all(judgement.keeps_all for judgement in self.judgements)

    @property
    def shares(self) -> dict[str, KeptShare]:
        return shares(self.judgements, self.rules)

    def to_json(self) -> dict[str, Any]:
        return {
            "rules": self.rules.name,
            "num_plans": len(self.judgements),
            "num_without_boxes": self.num_without_boxes,
            "problems": list(self.problems),
            "shares": {name: share.to_json() for name, share in self.shares.items()},
            "plans": [
                {"place": place} | judgement.to_json()
                for place, judgement in zip(self.places, self.judgements, strict=True)
            ],
        }

    def text(self) -> str:
        """Report as text."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        num, missing = len(self.judgements), self.num_without_boxes
        lines = [f"rules={self.rules.name}: {counted(num, 'plan')} judged"]
        if missing:
            lines[0] += f"; {counted(missing, 'diagram')} without boxes left out"
        if not num:
            return lines
        lines += ["", *self._table(), "", *self._share_table()]
        # the findings of each plan
        for name, judgement in zip(self._names, self.judgements, strict=True):
            if judgement.broken:
                lines += ["", name]
                lines += [f"  {rule}: {found.sentence()}" for rule, found in judgement.broken]
        return lines

    @property
    def _names(self) -> list[str]:
        """Places without the name of the file: ``line 3``."""
        return [place.removeprefix(f"{self.path}, ") for place in self.places]

    def _table(self) -> list[str]:
        """Table with a row for each plan and a column for each rule."""
        names = [name for name in self.shares if name != ALL]
        rows = [["plan", *names]]
        for place, judgement in zip(self._names, self.judgements, strict=True):
            rows.append([place, *(_CELLS[judgement.kept[name]] for name in names)])
        return _aligned(rows)

    def _share_table(self) -> list[str]:
        """Table with the share of plans that keep each rule."""
        rows = [["rule", "kept", "of", "share", "95 % interval", "demands"]]
        for name, share in self.shares.items():
            shown = ["-", "-"]
            if (found := share.interval) is not None:
                assert found.low is not None  # a share of samples has one
                assert found.high is not None
                shown = [f"{found.mean:.1%}", f"{found.low:.1%} to {found.high:.1%}"]
            meaning = "every rule that applies" if name == ALL else RULES[name].meaning
            rows.append([name, f"{share.num_kept:,}", f"{share.num_judged:,}", *shown, meaning])
        head = _aligned([row[:-1] for row in rows])
        return [f"{line}  {row[-1].strip()}" for line, row in zip(head, rows, strict=True)]


def drop_invalid_plans(
    report: ReadReport, unit: str, *, check: Callable[[FloorPlan], None] | None = None
) -> ReadReport:
    """Return the report without diagrams whose doors, outline, floors or added rooms are invalid.
    These are added to its problems.

    ``unit``: of boxes that state none. ``check``: raises ``DiagramError`` for further plans to
    drop. Without shapely nothing is checked.
    """
    if find_spec("shapely") is None:
        return report
    sound, problems = [], list(report.problems)
    for k, diagram in enumerate(report.diagrams):
        try:
            # reading the plan finds what is wrong with it
            if diagram.boxes is not None:
                plan = FloorPlan.of(diagram, unit)
                added_rooms(diagram)
                if check is not None:
                    check(plan)
            sound.append(k)
        except DiagramError as error:
            problems.append(Problem(report.places[k], "", error.field, error.reason))
    return replace(
        report,
        diagrams=tuple(report.diagrams[k] for k in sound),
        places=tuple(report.places[k] for k in sound),
        problems=tuple(problems),
    )


def judge_report(report: ReadReport, rules: RuleSet, unit: str) -> RuleReport:
    """Judge the plans of a report, see ``drop_invalid_plans``. ``unit``: of boxes that state none.

    Raises ``ValueError`` without shapely, and for boxes that are hardly in their unit.
    """
    check_installed()
    # diagrams with boxes are plans
    rows = [k for k, diagram in enumerate(report.diagrams) if diagram.boxes is not None]
    plans = floor_plans([report.diagrams[k] for k in rows], unit)
    return RuleReport(
        report.path,
        rules,
        tuple(report.places[k] for k in rows),
        tuple(judge(plan, rules) for plan in plans),
        num_without_boxes=len(report.diagrams) - len(rows),
        problems=tuple(problem.sentence() for problem in report.problems),
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

"""Scores of what a way of meeting a brief returned, beside the data that meet it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discrete_diffusion.evaluation import TableRow, TableSection, plus_minus, share_error
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    DISTANCES,
    METRIC_MEANINGS,
    bubble_metrics,
    data_coverage,
)
from floor_plans.diagrams.metrics.structure import structure_metrics

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import Floors
    from floor_plans.briefs.answering import Answer
    from floor_plans.briefs.matches import Matches
    from floor_plans.diagrams.diagram import BubbleDiagram
    from floor_plans.diagrams.vocabulary import PlanVocabulary

SHOWN = tuple(name for name in DISTANCES if "_js" not in name and "unweighted" not in name)
"""Distances that the table has; ``metrics.json`` has all."""

PROPERTIES = ("valid", "connected", "transitive", "inside_valid")
"""Shares of the samples by themselves that the table has."""

OF_SIZE = ("mode_coverage_weighted", "diversity")
"""Other metrics of coverage; they depend on the number of samples, and real data are a floor."""


@dataclass(frozen=True)
class MethodScores:
    """Scores of one way to meet a brief, called ``name``.

    ``num_met``: how many of the ``diagrams`` meet it, by ``Brief.unmet``. ``facts``: how they were
    sampled. ``coverage``: ``data_coverage`` by part of the data. ``metrics``: ``bubble_metrics``
    against the reference, empty without a diagram or a reference; ``floors``: those of as many real
    ones.
    """

    name: str
    diagrams: list[BubbleDiagram]
    num_met: int
    distinct: int
    facts: dict[str, Any]
    coverage: dict[str, dict[str, float]]
    metrics: dict[str, float]
    floors: Floors | None

    @classmethod
    def of(
        cls,
        name: str,
        answer: Answer,
        verdicts: Sequence[bool | None],
        matches: Matches,
        words: PlanVocabulary,
        floors: Floors | None,
    ) -> MethodScores:
        """``verdicts``: whether each diagram meets the brief."""
        diagrams, metrics = answer.diagrams, {}
        drawn = DiagramSet(diagrams, words) if diagrams else None
        if drawn is not None and matches.reference is not None:
            metrics = bubble_metrics(drawn, matches.reference.measured)
        coverage = {
            part: data_coverage(drawn, matching.measured, len(diagrams))
            for part, matching in matches.parts.items()
        }
        return cls(
            name,
            diagrams,
            sum(verdict is True for verdict in verdicts),
            0 if drawn is None else len(drawn.canonical_key_set),
            answer.facts,
            coverage,
            metrics,
            floors,
        )

    @property
    def network_calls(self) -> float:
        """Network calls of all samples."""
        return float(self.facts["network_calls_per_sample"]) * max(len(self.diagrams), 1)

    @property
    def share_met(self) -> float:
        return self.num_met / max(len(self.diagrams), 1)

    @property
    def share_met_error(self) -> float:
        """0 where nothing else is kept, which makes it no estimate."""
        if not self.diagrams or (self.share_met == 1 and "probability" in self.facts):
            return 0.0
        return share_error(self.share_met, len(self.diagrams))

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        found: dict[str, Any] = {
            "num_samples": len(self.diagrams),
            "num_met": self.num_met,
            "share_met": self.share_met,
            "share_met_standard_error": self.share_met_error,
            "distinct": self.distinct,
            "network_calls": round(self.network_calls),
            "network_calls_per_met": self.network_calls / self.num_met if self.num_met else None,
            **self.facts,
            "coverage": self.coverage,
            "metrics": self.metrics,
        }
        if self.floors is not None:
            found |= self.floors.as_dict()
        return found

    def share_cell(self) -> str:
        """``100.0 %``, or ``61.2 ± 3.0 %``."""
        if not self.diagrams:
            return "-"
        return f"{plus_minus(100 * self.share_met, 100 * self.share_met_error or None, 1)} %"

    def probability_cell(self) -> str:
        """Probability that the model meets the brief, as this way estimates it."""
        if (p := self.facts.get("probability")) is None:
            return ""
        if p == 0 and "num_drawn" in self.facts:
            return f"none of {self.facts['num_drawn']:,}"
        return f"{p:.2g} ± {self.facts['probability_standard_error']:.1g}"

    def distance_cell(self, name: str) -> str:
        """``0.0312 (1.4)``: the distance, and how many times its floor that is."""
        if name not in self.metrics:
            return "-"
        value, floor = self.metrics[name], self.floors.mean[name] if self.floors else 0.0
        ratio = f" ({value / floor:.1f})" if floor and name in DISTANCES else ""
        return f"{value:.{_digits(name)}f}{ratio}"


def method_sections(
    methods: Sequence[MethodScores], matches: Matches, by_held_out: float | None
) -> list[TableSection]:
    """Table sections of what every method returned, side by side; the first is the requested one.

    ``by_held_out``: the share of the training data that as many held-out diagrams cover.
    """
    heads = ("metric", *(method.name.replace("_", " ") for method in methods), "real data")
    rows = [
        *_cost_rows(methods),
        *_coverage_rows(methods, matches, by_held_out),
        *_property_rows(methods, matches),
    ]
    sections = [TableSection("what came back", tuple(rows), heads)]
    if distances := _distance_rows(methods, matches):
        title = "distances from the data that meet the brief (0 is best), and how many floors"
        sections.append(TableSection(title, tuple(distances), heads))
    return sections


def _cost_rows(methods: Sequence[MethodScores]) -> list[TableRow]:
    """How many diagrams came back, how many meet the brief, and what they cost."""

    def calls(of: float, num: int) -> str:
        return f"{of / num:,.0f}" if num else "-"

    return [
        _row("diagrams", [f"{len(m.diagrams):,}" for m in methods], "", "that came back"),
        _row("share_met", [m.share_cell() for m in methods], "", "share that meets the brief"),
        _row(
            "network_calls_per_sample",
            [calls(m.network_calls, len(m.diagrams)) for m in methods],
            "",
            "network calls for each diagram, everything included",
        ),
        _row(
            "network_calls_per_met",
            [calls(m.network_calls, m.num_met) for m in methods],
            "",
            "network calls for each diagram that meets the brief",
        ),
        _row("distinct", [f"{m.distinct:,}" for m in methods], "", "different diagrams"),
    ]


def _coverage_rows(
    methods: Sequence[MethodScores], matches: Matches, by_held_out: float | None
) -> list[TableRow]:
    """Share of each part of the data that came back, beside its ceiling."""
    rows = []
    for part, matching in matches.parts.items():
        of = f"of {matching.name} that meet the brief"
        found = [m.coverage[part] for m in methods]
        ceiling = found[0]["coverage_ceiling"]
        others = by_held_out if part == "train" and ceiling else None
        rows += [
            _row(
                f"coverage_{part}",
                [f"{each['coverage']:.4f}" for each in found],
                f"{ceiling:.4f}",
                f"share {of} that came back; real data: its ceiling, as many drawn from these",
            ),
            _row(
                f"coverage_ratio_{part}",
                [f"{each['coverage_ratio']:.3f}" for each in found],
                "" if others is None else f"{others / ceiling:.3f}",
                "the same / its ceiling; real data: of as many held-out diagrams",
            ),
        ]
    return rows


def _property_rows(methods: Sequence[MethodScores], matches: Matches) -> list[TableRow]:
    """Metrics of the samples by themselves, beside those of the data that meet the brief."""
    if matches.reference is None:
        return []
    first = methods[0]
    real = structure_metrics(matches.reference.measured)
    real |= {} if first.floors is None else {key: first.floors.mean[key] for key in OF_SIZE}
    return [
        _row(
            key,
            [m.distance_cell(key) for m in methods],
            f"{real[key]:.4f}" if key in real else "",
            METRIC_MEANINGS[key],
        )
        for key in (*OF_SIZE, *PROPERTIES)
        if key in first.metrics
    ]


def _distance_rows(methods: Sequence[MethodScores], matches: Matches) -> list[TableRow]:
    """Distances from the data that meet the brief, beside their floors; none without any."""
    first = methods[0]
    if matches.reference is None or not first.metrics:
        return []
    floors = first.floors.mean if first.floors else {}
    return [
        _row(
            name,
            [m.distance_cell(name) for m in methods],
            f"{floors[name]:.{_digits(name)}f}" if floors else "",
            METRIC_MEANINGS[name],
        )
        for name in SHOWN
    ]


def _row(name: str, cells: Sequence[str], real: str, meaning: str) -> TableRow:
    value, second, third, *others = [*cells, real, "", ""]
    return TableRow(name, value, second, third, meaning, others=tuple(others))


def _digits(name: str) -> int:
    return 5 if name.startswith("mmd_") else 4

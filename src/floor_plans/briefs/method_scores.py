"""Data that meet a brief, and scores of each method against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import TableRow, TableSection, plus_minus, share_error
from discrete_diffusion.runtime import progress
from floor_plans.briefs.checking import exact_interval
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    DISTANCES,
    METRIC_MEANINGS,
    bubble_metrics,
    data_coverage,
)
from floor_plans.diagrams.metrics.structure import structure_metrics

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import RealVsReal
    from floor_plans.briefs.answering import Answer
    from floor_plans.briefs.brief import Brief
    from floor_plans.diagrams.diagram import BubbleDiagram
    from floor_plans.diagrams.vocabulary import PlanVocabulary
    from floor_plans.learning.build import RealDiagrams

ENOUGH = 100
"""Least number of matching held-out diagrams to serve as the reference; with fewer, distances are
mostly noise, and a note says so."""


@dataclass(frozen=True)
class Matching:
    """Diagrams that meet a brief, out of ``num``; ``name``: name of the data in sentences."""

    name: str
    diagrams: list[BubbleDiagram]
    num: int
    words: PlanVocabulary

    def __len__(self) -> int:
        return len(self.diagrams)

    @property
    def share(self) -> float:
        return len(self) / self.num

    @property
    def standard_error(self) -> float:
        return share_error(self.share, self.num)

    @cached_property
    def measured(self) -> DiagramSet:
        """Diagrams as a ``DiagramSet``; raise ``ValueError`` if none meet the brief."""
        return DiagramSet(self.diagrams, self.words)

    def facts(self) -> dict[str, Any]:
        """Values for ``metrics.json``, with an exact 95 % interval of the share."""
        return {
            "name": self.name,
            "num": self.num,
            "num_met": len(self),
            "share": self.share,
            "share_interval": list(exact_interval(len(self), self.num)),
        }


@dataclass(frozen=True)
class Matches:
    """Diagrams of the data that meet a brief; ``buildable`` is not checked.

    ``train``: matches in the training data, None if these are unknown. ``held_out``: in the
    held-out data. ``known``: in all data at hand, for real-vs-real values (floors).
    """

    train: Matching | None
    held_out: Matching
    known: Matching

    @classmethod
    def of(cls, brief: Brief, real: RealDiagrams, words: PlanVocabulary) -> Matches:
        """Find the diagrams of the data that meet a brief."""

        def matching(name: str, diagrams: Sequence[BubbleDiagram]) -> Matching:
            looked_at = progress.track(diagrams, f"looking at {name}", "diagrams")
            found = [diagram for diagram in looked_at if not brief.unmet(diagram)]
            return Matching(name, found, len(diagrams), words)

        train = None if real.training is None else matching("the training data", real.training)
        held_out = matching(real.name, real.reference)
        return cls(train, held_out, matching("all data", real.known))

    @property
    def _known_parts(self) -> list[Matching]:
        """Matches in the held-out data, and in the training data if they are known."""
        return [self.held_out, *([] if self.train is None else [self.train])]

    @property
    def parts(self) -> dict[str, Matching]:
        """Data that coverage is measured on: training data, and held-out data if they have enough
        matches or training data have none."""
        found = {} if self.train is None or not len(self.train) else {"train": self.train}
        if len(self.held_out) >= ENOUGH or (len(self.held_out) and not found):
            found["held_out"] = self.held_out
        return found

    @property
    def reference(self) -> Matching | None:
        """Data that distances are measured from: held-out data if they have enough matches, else
        the data with more matches; None if no data meet the brief."""
        if len(self.held_out) >= ENOUGH:
            return self.held_out
        most = max(self._known_parts, key=len)
        return most if len(most) else None

    def notes(self) -> list[str]:
        """Return sentences on the reference of the samples and its reliability."""
        # matches in each part of the data
        counts = "; ".join(
            f"{len(p):,} of {p.num:,} of {p.name} meet it" for p in self._known_parts
        )
        notes = [f"{counts[0].upper()}{counts[1:]}."]
        # the reference, and its limits
        reference = self.reference
        if reference is None:
            return [*notes, "No data meet the brief, so coverage and distances are not measured."]
        notes.append(f"Samples are compared with those of {reference.name}.")
        if reference is not self.held_out:
            notes[-1] += (
                f" Too few held-out diagrams meet the brief (fewer than {ENOUGH}); the model was "
                "trained on the reference."
            )
        if len(reference) < ENOUGH:
            notes.append(
                f"Only {counted(len(reference), 'diagram')} of the data meet the brief: distances "
                "and coverage say little of so few; compare them with the floors and ceilings."
            )
        return notes


SHOWN = tuple(name for name in DISTANCES if "_js" not in name and "unweighted" not in name)
"""Distances in the table; ``metrics.json`` has all."""

PROPERTIES = ("valid", "connected", "transitive", "inside_valid")
"""Properties of the samples in the table, as shares."""

OF_SIZE = ("mode_coverage_weighted", "diversity")
"""Metrics that depend on the number of samples, with the value of real data as a floor."""


@dataclass(frozen=True)
class MethodScores:
    """Scores of the method ``name`` for a brief.

    ``num_met``: number of ``diagrams`` that meet the brief. ``facts``: facts of the sampling.
    ``coverage``: ``data_coverage`` by part of the data. ``metrics``: ``bubble_metrics`` against the
    reference, empty without diagrams or reference. ``floors``: metrics of as many real diagrams.
    """

    name: str
    diagrams: list[BubbleDiagram]
    num_met: int
    distinct: int
    facts: dict[str, Any]
    coverage: dict[str, dict[str, float]]
    metrics: dict[str, float]
    floors: RealVsReal | None

    @classmethod
    def of(
        cls,
        name: str,
        answer: Answer,
        verdicts: Sequence[bool | None],
        matches: Matches,
        words: PlanVocabulary,
        floors: RealVsReal | None,
    ) -> MethodScores:
        """Score an answer; ``verdicts``: True for each diagram that meets the brief."""
        diagrams, metrics = answer.diagrams, {}
        # distances from the reference, and coverage of each part of the data
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
        """Number of network calls for all samples."""
        return float(self.facts["network_calls_per_sample"]) * max(len(self.diagrams), 1)

    @property
    def share_met(self) -> float:
        return self.num_met / max(len(self.diagrams), 1)

    @property
    def share_met_error(self) -> float:
        """Standard error of ``share_met``; 0 for a method that keeps only matches."""
        if not self.diagrams or (self.share_met == 1 and "probability" in self.facts):
            return 0.0
        return share_error(self.share_met, len(self.diagrams))

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        # counts and costs, then facts of the sampling, then metrics
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

    def notes(self, asked: int) -> list[str]:
        """Return sentences on exactness, and if the method stopped before ``asked`` diagrams or
        broke the brief."""
        num, facts = len(self.diagrams), self.facts
        name = self.name.replace("_", " ").capitalize()
        # exact or approximate
        if facts["exact"]:
            notes = [f"{name} draws from the model's own distribution given the brief."]
        else:
            notes = [f"{name} is approximate: {facts['approximate_because']}."]
        # too few diagrams
        if num < asked:
            of_these = "; its coverage and distances are of these" if num else ""
            key = "rejection_calls" if "rejection_calls" in facts else "max_tries"
            notes.append(
                f"{name} stopped with {counted(num, 'diagram')} of {asked:,}, after "
                f"{facts['num_drawn']:,} samples and {self.network_calls:,.0f} network calls "
                f"(raise {key}= for more){of_these}."
            )
        if self.num_met < num:
            notes.append(
                f"{name}: {num - self.num_met:,} of {num:,} diagrams break the brief; they count "
                "in its distances."
            )
        return notes

    def share_cell(self) -> str:
        """Return ``share_met`` as text: ``100.0 %``, or ``61.2 ± 3.0 %``."""
        if not self.diagrams:
            return "-"
        return f"{plus_minus(100 * self.share_met, 100 * self.share_met_error or None, 1)} %"

    def probability_cell(self) -> str:
        """Return as text this method's estimate of the probability that a sample meets the
        brief."""
        if (p := self.facts.get("probability")) is None:
            return ""
        if p == 0 and "num_drawn" in self.facts:
            return f"none of {self.facts['num_drawn']:,}"
        return f"{p:.2g} ± {self.facts['probability_standard_error']:.1g}"

    def distance_cell(self, name: str) -> str:
        """Return a distance with its ratio to the real-vs-real value: ``0.0312 (1.4)``."""
        if name not in self.metrics:
            return "-"
        # ratio to the floor only for distances
        value, floor = self.metrics[name], self.floors.mean[name] if self.floors else 0.0
        ratio = f" ({value / floor:.1f})" if floor and name in DISTANCES else ""
        return f"{value:.{_digits(name)}f}{ratio}"


def method_sections(
    methods: Sequence[MethodScores], matches: Matches, by_held_out: float | None
) -> list[TableSection]:
    """Table sections with a column for each method, the requested one first.

    ``by_held_out``: coverage of the training data by as many held-out diagrams.
    """
    heads = ("metric", *(method.name.replace("_", " ") for method in methods), "real data")
    first, reference = methods[0], matches.reference
    floors = first.floors.mean if first.floors else {}
    # costs, coverage and properties in one table
    rows = [*_cost_rows(methods), *_coverage_rows(methods, matches, by_held_out)]
    if reference is not None:
        # values of the data, with floors where metrics depend on the size
        real = structure_metrics(reference.measured) | {k: floors[k] for k in OF_SIZE if floors}
        shown = {key: f"{real[key]:.4f}" if key in real else "" for key in (*OF_SIZE, *PROPERTIES)}
        rows += [
            _row(key, [m.distance_cell(key) for m in methods], cell, METRIC_MEANINGS[key])
            for key, cell in shown.items()
            if key in first.metrics
        ]
    sections = [TableSection("what came back", tuple(rows), heads)]
    # distances in another, with their floors
    if reference is not None and first.metrics:
        shown = {name: f"{floors[name]:.{_digits(name)}f}" if floors else "" for name in SHOWN}
        distances = tuple(
            _row(name, [m.distance_cell(name) for m in methods], cell, METRIC_MEANINGS[name])
            for name, cell in shown.items()
        )
        title = "distances from the data that meet the brief (0 is best), and how many floors"
        sections.append(TableSection(title, distances, heads))
    return sections


def _cost_rows(methods: Sequence[MethodScores]) -> list[TableRow]:
    """Rows: number of diagrams, share that meets the brief, and cost in network calls."""

    def calls(of: float, num: int) -> str:
        return f"{of / num:,.0f}" if num else "-"

    per_sample = [calls(m.network_calls, len(m.diagrams)) for m in methods]
    per_met = [calls(m.network_calls, m.num_met) for m in methods]
    meaning = "network calls for each diagram"
    return [
        _row("diagrams", [f"{len(m.diagrams):,}" for m in methods], "", "that came back"),
        _row("share_met", [m.share_cell() for m in methods], "", "share that meets the brief"),
        _row("network_calls_per_sample", per_sample, "", f"{meaning}, everything included"),
        _row("network_calls_per_met", per_met, "", f"{meaning} that meets the brief"),
        _row("distinct", [f"{m.distinct:,}" for m in methods], "", "different diagrams"),
    ]


def _coverage_rows(
    methods: Sequence[MethodScores], matches: Matches, by_held_out: float | None
) -> list[TableRow]:
    """Rows: coverage of training and held-out data, with the ceiling and the ratio to it."""
    rows = []
    for part, matching in matches.parts.items():
        found = [m.coverage[part] for m in methods]
        shares = [f"{each['coverage']:.4f}" for each in found]
        ratios = [f"{each['coverage_ratio']:.3f}" for each in found]
        ceiling = found[0]["coverage_ceiling"]
        others = by_held_out if part == "train" and ceiling else None
        of = f"share of {matching.name} that meet the brief that came back"
        meaning = f"{of}; real data: its ceiling, as many drawn from these"
        rows.append(_row(f"coverage_{part}", shares, f"{ceiling:.4f}", meaning))
        real = "" if others is None else f"{others / ceiling:.3f}"
        meaning = "the same / its ceiling; real data: of as many held-out diagrams"
        rows.append(_row(f"coverage_ratio_{part}", ratios, real, meaning))
    return rows


def _row(name: str, cells: Sequence[str], real: str, meaning: str) -> TableRow:
    value, second, third, *others = [*cells, real, "", ""]
    return TableRow(name, value, second, third, meaning, others=tuple(others))


def _digits(name: str) -> int:
    return 5 if name.startswith("mmd_") else 4

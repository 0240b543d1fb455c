"""``BriefEvaluation``: the numbers, tables and notes of ``evaluate brief=FILE``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import Evaluation, TableRow, TableSection
from floor_plans.briefs.method_scores import MethodScores, method_sections
from floor_plans.diagrams.files.writers import write_diagrams
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.pictures.statistics import plot_samples

if TYPE_CHECKING:
    from floor_plans.briefs.brief import Brief
    from floor_plans.briefs.method_scores import Matches


@dataclass(frozen=True)
class BriefEvaluation(Evaluation):
    """Numbers, tables and notes of ``evaluate brief=FILE``.

    ``facts``: settings of the measurement. ``methods``: scores, the requested method first.
    ``by_held_out``: coverage of the matching training data by as many held-out diagrams; None if
    there are too few.
    """

    facts: dict[str, Any]
    brief: Brief
    matches: Matches
    methods: list[MethodScores]
    by_held_out: float | None

    def sections(self) -> list[TableSection]:
        # probability of the brief: by each method, then in the data
        rows = [
            TableRow(
                f"the model, by {method.name}",
                cell,
                f"{method.num_met:,} of {method.facts['num_drawn']:,}"
                if "num_drawn" in method.facts and method is not self.methods[0]
                else "",
                meaning="± standard error",
            )
            for method in self.methods
            if (cell := method.probability_cell())
        ]
        # share of the data that meets the brief
        held_out, train = self.matches.held_out, self.matches.train
        rows += [
            TableRow(
                of.name,
                f"{of.share:.2g} ± {of.standard_error:.1g}",
                f"{len(of):,} of {of.num:,}",
                meaning="± standard error",
            )
            for of in ([] if train is None else [train]) + [held_out]
        ]
        heads = ("of", "share that meets the brief", "diagrams")
        return [
            TableSection("how rare the brief is", tuple(rows), heads),
            *method_sections(self.methods, self.matches, self.by_held_out),
        ]

    def notes(self) -> list[str]:
        # the brief, and the data that meet it
        notes = [f"Brief: {self.facts['brief']}.", *self.matches.notes()]
        if self.brief.buildable:
            notes.append("buildable was required of samples, not of data, which come from plans.")
        if stated := self.facts["told"]:
            notes.append(
                f"The model was conditioned on: {', '.join(stated)}. Its share that meets the "
                "brief is of what it draws then."
            )
        if unseen := self.brief.plan_facts.names:
            notes.append(f"No diagram shows {', '.join(unseen)}: the data have any value of it.")
        # notes on each method, then on what it is compared with
        asked = self.facts["num_samples"]
        for method in self.methods:
            notes += _notes_of(method, asked)
        notes += self.facts["left_out"]
        # coverage and floors need data
        if (reference := self.matches.reference) is None:
            return notes
        notes.append(
            "Coverage counts whole diagrams, up to the order of their rooms, weighted by their "
            "frequency in the data. Under 'real data' stands its ceiling: the coverage of as many "
            "diagrams drawn from these data; for the ratio, that of as many held-out ones."
        )
        if (floors := self.methods[0].floors) is not None:
            sizes = (floors.num_samples, floors.num_reference)
            notes.append(
                f"Floor, under 'real data': {sizes[0]:,} real diagrams that meet the brief against "
                f"{sizes[1]:,} others, mean of {floors.draws} draws; in brackets: value / floor of "
                "as many."
            )
            if sizes != (len(self.methods[0].diagrams), len(reference)):
                notes.append(
                    "Too few real diagrams meet the brief for a floor at the sizes measured: a "
                    "smaller set has a higher floor, so the ratios flatter the samples."
                )
        return notes

    def metrics(self) -> dict[str, Any]:
        """Values for ``metrics.json``: single numbers before lists and tables."""
        train, reference = self.matches.train, self.matches.reference
        return {
            **self.facts,
            "reference": None if reference is None else reference.name,
            "num_reference": 0 if reference is None else len(reference),
            "coverage_train_by_held_out": self.by_held_out,
            "data": {
                "train": None if train is None else train.facts(),
                "held_out": self.matches.held_out.facts(),
            },
            "methods": {method.name: method.as_dict() for method in self.methods},
        }

    def save(self, folder: Path) -> None:
        """Write the samples of the requested method."""
        write_diagrams(folder / "samples.jsonl", self.methods[0].diagrams)

    def plot(self, folder: Path) -> None:
        drawn, reference = self.methods[0].diagrams, self.matches.reference
        plot_grid(drawn[:MAX_DRAWN], folder / "samples.png")
        if reference is not None:
            plot_samples(drawn, reference.diagrams, folder)


def _notes_of(method: MethodScores, asked: int) -> list[str]:
    name, num = method.name.replace("_", " "), len(method.diagrams)
    notes = []
    # exact or approximate
    if method.facts["exact"]:
        verb = "draws from the model's own distribution given the brief"
    else:
        verb = f"is approximate: {method.facts['approximate_because']}"
    notes.append(f"{name[0].upper()}{name[1:]} {verb}.")
    # too few diagrams
    if num < asked:
        of_these = "; its coverage and distances are of these" if num else ""
        key = "rejection_calls" if "rejection_calls" in method.facts else "tries"
        notes.append(
            f"{name[0].upper()}{name[1:]} stopped with {counted(num, 'diagram')} of {asked:,}, "
            f"after {method.facts['num_drawn']:,} samples and {method.network_calls:,.0f} network "
            f"calls (raise {key}= for more){of_these}."
        )
    if method.num_met < num:
        notes.append(
            f"{name[0].upper()}{name[1:]}: {num - method.num_met:,} of {num:,} diagrams break the "
            "brief; they count in its distances."
        )
    return notes

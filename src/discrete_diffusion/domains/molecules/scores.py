"""Everything that is measured of samples, beside what training molecules score in their place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.molecules.metrics.chemnet import ENOUGH, is_installed
from discrete_diffusion.domains.molecules.metrics.cost import log_cost
from discrete_diffusion.domains.molecules.metrics.molecule_set import (
    MoleculeSet,
    distances,
    graph_distances,
)
from discrete_diffusion.domains.molecules.metrics.properties import MIN_RINGS, PROPERTIES
from discrete_diffusion.domains.molecules.metrics.validity import (
    Verdict,
    is_connected,
    judge,
    sample_shares,
)
from discrete_diffusion.domains.molecules.molecule import NOTHING, Molecule, has_dummy
from discrete_diffusion.evaluation.intervals import (
    Interval,
    confidence_interval,
    error_note,
    interval_entries,
    share_interval,
)
from discrete_diffusion.evaluation.table import TableRow, TableSection
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.extras import install_command

VALIDITY = {
    "valid": "DiGress protocol: rdkit sanitises the graph as it is; its largest fragment counts",
    "valid_relaxed": "the same, N of four bonds and O of three charged (GDSS: without correction)",
    "valid_corrected": "GDSS protocol: with valency correction; almost any graph passes",
    "connected": "the graph is in one piece, valid or not",
    "valid_in_one_piece": "valid without leaving out a fragment",
    "unique": "different molecules among those valid by the relaxed rule (DiGress protocol)",
    "novel": "of the different ones, not among the training molecules",
}
"""Shares, by name."""

_OF = {"unique": ("valid_relaxed",), "novel": ("valid_relaxed", "unique")}
"""Shares of some samples only: of those that have these shares."""

DISTANCES = {
    "fcd": "Fréchet ChemNet Distance of the valid samples, uncorrected",
    "fcd_corrected": "the same of all samples, with valency correction (GDSS protocol)",
    "nspdk_mmd": "MMD under the NSPDK kernel of the valid samples, uncorrected",
    "nspdk_mmd_corrected": "the same of all samples, with valency correction (GDSS protocol)",
    "scaffold_similarity": f"cosine of the counts of Bemis-Murcko scaffolds of {MIN_RINGS} rings "
    "and more (MOSES protocol), 1 is best",
    **{
        f"wasserstein_{name}": f"1-Wasserstein distance of {meaning}"
        for name, meaning in PROPERTIES.items()
    },
}
"""Against the reference, by name: 0 is best, but for the similarity."""

_REAL = (31,)
"""Keeps the choice of training molecules apart from other draws."""


@dataclass(frozen=True)
class MoleculeScores:
    """``sizes``: of the sample sets; ``per_set``: every metric of each. ``real``: of as many
    training molecules, against the same reference, {} without any; ``num_real``: how many."""

    sizes: list[int]
    num_reference: int
    per_set: dict[str, list[float]]
    real: dict[str, float]
    num_real: int

    def as_dict(self) -> dict[str, Any]:
        """Means over the sets for ``metrics.json``, then each set and the training molecules."""
        intervals = {name: self._interval(name) for name in self.per_set}
        return {
            **{name: interval.mean for name, interval in intervals.items()},
            **interval_entries(intervals),
            **{f"{name}_training": value for name, value in self.real.items()},
            "num_training_measured": self.num_real,
            "per_seed": self.per_set,
        }

    def sections(self) -> list[TableSection]:
        """Validity, then distances from the reference."""
        heads = ("metric", "value", "training data", "ratio")
        return [
            TableSection("validity", self._rows(VALIDITY), heads),
            TableSection("distances from held-out molecules", self._rows(DISTANCES), heads),
        ]

    def _rows(self, meanings: Mapping[str, str]) -> tuple[TableRow, ...]:
        return tuple(
            self._row(name, meaning) for name, meaning in meanings.items() if name in self.per_set
        )

    def _row(self, name: str, meaning: str) -> TableRow:
        scale, digits, unit = (100, 2, " %") if name in VALIDITY else (1, 4, "")
        if name.startswith("nspdk"):
            digits = 6
        interval = self._interval(name)
        value = interval.text(digits, scale=scale)
        real = self.real.get(name)
        shown = "" if real is None else f"{scale * real:.{digits}f}{unit}"
        ratio = ""
        if name in DISTANCES and name != "scaffold_similarity" and real:
            ratio = f"{interval.mean / real:.1f}"
        return TableRow(name, value + unit, shown, ratio, meaning)

    def _interval(self, name: str) -> Interval:
        """Wilson's of shares, but of ``unique``, which is no property of a molecule."""
        values, num = self.per_set[name], self._num(name) if name in VALIDITY else None
        if num is None or name == "unique":
            return confidence_interval(values, num=num)
        return share_interval(values, num)

    def _num(self, name: str) -> float:
        """Number of samples of all sets that a share is of."""
        of = _OF.get(name, ())
        counts = zip(self.sizes, *(self.per_set[share] for share in of), strict=True)
        return max(1.0, sum(math.prod(each) for each in counts))

    def notes(self) -> list[str]:
        """Notes on how to read the table."""
        num = " + ".join(f"{size:,}" for size in self.sizes)
        notes = [
            f"Samples: {num} against {self.num_reference:,} held-out molecules.",
            error_note(len(self.sizes)),
        ]
        if self.num_real:
            notes.append(
                f"Training data: {self.num_real:,} training molecules in the place of the samples, "
                "by the same code; of them none is novel."
            )
        if self.num_real and self.num_real < min(self.sizes):
            notes.append(
                "There are fewer of them than samples, which makes their distances larger."
            )
        has_fcd = any(name.startswith("fcd") for name in self.per_set)
        if min([*self.sizes, self.num_reference]) < ENOUGH and has_fcd:
            notes.append(
                f"FCD is biased upwards in small sets: of fewer than {ENOUGH:,} samples and "
                "held-out molecules it compares only with the training data beside it, not with "
                "published values."
            )
        if "scaffold_similarity" not in self.per_set:
            notes.append(f"No scaffold of {MIN_RINGS} rings in every set, so no similarity.")
        if not is_installed():
            notes.append(f"No FCD without {install_command('molecules')}.")
        elif "fcd" not in self.per_set and "nspdk_mmd" in self.per_set:
            notes.append("No FCD: it takes two valid samples, and two of the reference.")
        if "nspdk_mmd" not in self.per_set:
            notes.append("No distances of valid samples: a set has none that is valid.")
        return notes


def peculiar_samples(sets: Sequence[Sequence[Molecule]], num_blank: int) -> list[str]:
    """Sentences on samples that a reader of shares should know of. ``num_blank``: of those that are
    no molecule, blank lines."""
    samples = [molecule for molecules in sets for molecule in molecules]
    of, notes = f"Of {len(samples):,} samples", []
    if nothing := samples.count(NOTHING):
        blank = f" ({num_blank:,} blank lines)" if num_blank else ""
        notes.append(f"{of} {nothing:,} are no molecule at all{blank}: they count as not valid.")
    if pieces := sum(bool(each.atoms) and not is_connected(each) for each in samples):
        notes.append(f"{of} {pieces:,} are in pieces: their largest piece counts.")
    if dummies := sum(map(has_dummy, samples)):
        notes.append(f"{of} {dummies:,} have the atom *, which is no element; rdkit takes it.")
    return notes


def score_molecules(
    sets: Sequence[Sequence[Verdict]],
    reference: Sequence[str],
    training: Sequence[Molecule] | None,
    known: frozenset[str] | None,
) -> MoleculeScores:
    """Every metric of every set, one per sampling seed, against one ``reference`` of canonical
    SMILES. ``training``: the training molecules; ``known``: their SMILES, for novelty.

    Raises ``ValueError`` without a set, or for an empty one.
    """
    if not sets or not all(sets):
        raise ValueError("no samples to measure: give at least one set, of at least one sample")
    held_out = MoleculeSet(reference)
    log_cost([held_out, *(MoleculeSet(_smiles(verdicts, "valid")) for verdicts in sets)])
    found = [
        _measured(verdicts, held_out, known) for verdicts in progress.track(sets, "metrics", "sets")
    ]
    num = min(len(sets[0]), len(training or ()))
    real: dict[str, float] = {}
    if training and num:
        chosen = torch.randperm(len(training), generator=make_generator(0, *_REAL))[:num]
        real = _measured(judge([training[row] for row in chosen.tolist()]), held_out, None)
    names = [name for name in found[0] if all(name in each for each in found)]
    return MoleculeScores(
        sizes=[len(verdicts) for verdicts in sets],
        num_reference=len(reference),
        per_set={name: [each[name] for each in found] for name in names},
        real=real,
        num_real=num,
    )


def _measured(
    verdicts: Sequence[Verdict], reference: MoleculeSet, known: frozenset[str] | None
) -> dict[str, float]:
    valid, corrected = _smiles(verdicts, "valid"), _smiles(verdicts, "corrected")
    found = distances(MoleculeSet(valid), reference)
    if corrected == valid:
        same = {name: found[name] for name in ("fcd", "nspdk_mmd") if name in found}
        of_corrected = {f"{name}_corrected": value for name, value in same.items()}
    else:
        of_corrected = graph_distances(MoleculeSet(corrected), reference, "_corrected")
    return {**sample_shares(verdicts, known), **found, **of_corrected}


def _smiles(verdicts: Sequence[Verdict], rule: str) -> list[str]:
    found = (getattr(verdict, rule) for verdict in verdicts)
    return [text for text in found if text is not None]

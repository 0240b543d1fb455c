"""Sampled molecules: read, written, drawn, and scored beside what training molecules score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.values import counted
from discrete_diffusion.domains.molecules.metrics.chemnet import ENOUGH, is_installed
from discrete_diffusion.domains.molecules.metrics.cost import log_cost
from discrete_diffusion.domains.molecules.metrics.molecule_set import (
    MIN_RINGS,
    PROPERTIES,
    MoleculeSet,
    distances,
    graph_distances,
)
from discrete_diffusion.domains.molecules.metrics.validity import (
    Verdict,
    is_connected,
    judge,
    sample_shares,
)
from discrete_diffusion.domains.molecules.molecule import NOTHING, Molecule, decode, has_dummy
from discrete_diffusion.domains.molecules.molecule_files import (
    GRAPH_FILE,
    SMILES_FILE,
    lines_of,
    read_samples,
    write_molecules,
)
from discrete_diffusion.domains.molecules.pictures import MAX_DRAWN, plot_molecules
from discrete_diffusion.domains.molecules.structures import STRUCTURES
from discrete_diffusion.evaluation.report import Headline
from discrete_diffusion.evaluation.sample_kind import SampleFile, SampleKind
from discrete_diffusion.evaluation.sample_scores import Metric, SampleScores, error_note
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.package import install_command

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation.measured_data import RealData
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.layout.vocab_config import VocabConfig


_VALIDITY = {
    "valid": "DiGress protocol: rdkit sanitises the graph as it is; its largest fragment counts",
    "valid_relaxed": "the same, N of four bonds and O of three charged (GDSS: without correction)",
    "valid_corrected": "GDSS protocol: with valency correction; almost any graph passes",
    "connected": "the graph is in one piece, valid or not",
    "valid_in_one_piece": "valid without leaving out a fragment",
    "unique": "different molecules among those valid by the relaxed rule (DiGress protocol)",
    "novel": "of the different ones, not among the training molecules",
}

_OF = {"unique": ("valid_relaxed",), "novel": ("valid_relaxed", "unique")}

_DISTANCES = {
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

METRICS = {
    **{
        name: Metric(
            "validity",
            meaning,
            share=True,
            of_each=name != "unique",
            of=_OF.get(name, ()),
            digits=2,
            percent=True,
        )
        for name, meaning in _VALIDITY.items()
    },
    **{
        name: Metric(
            "distances from held-out molecules",
            meaning,
            digits=6 if name.startswith("nspdk") else 4,
            ratio=None if name == "scaffold_similarity" else 1,
        )
        for name, meaning in _DISTANCES.items()
    },
}
"""All metrics of molecules, in the order of the table."""

_REAL = (31,)
"""Keeps the choice of training molecules apart from other draws."""


@dataclass(frozen=True)
class MoleculeSamples(SampleKind[Molecule]):
    """Molecules; without a ``vocab`` those of files."""

    vocab: VocabConfig = None  # type: ignore[assignment]

    heading = "Held-out molecules"
    files = (SMILES_FILE, GRAPH_FILE)
    headlines = (
        Headline("valid", share=True),
        Headline("valid_relaxed", share=True),
        Headline("unique", share=True, counted="num_valid_relaxed"),
        Headline("novel", share=True, counted="num_unique"),
    )
    structures = STRUCTURES
    seeds, num_evaluated = 1, 10_000  # as the literature draws

    def decode(self, tokens: Tensor) -> list[Molecule]:
        return decode(tokens, self.vocab) if len(tokens) else []

    def lines(self, samples: Sequence[Molecule], **more: Sequence[Any]) -> str:
        return lines_of(samples, **more)

    def write(self, samples: Sequence[Molecule], folder: Path, **more: Sequence[Any]) -> str:
        refused = write_molecules(samples, folder, **more)
        if not refused:
            return ""
        graphs = f"{counted(refused, 'graph')} of no valid molecule"
        return f"{graphs}: no SMILES in {SMILES_FILE}, atoms and bonds in {GRAPH_FILE}"

    def plot(
        self,
        samples: Sequence[Molecule],
        path: Path,
        given: Sequence[int] | None = None,
        inputs: Any = None,
    ) -> None:
        """A page of the first ones that have atoms."""
        legends = None if given is None else [f"line {line}" for line in given]
        if drawable := [each for each in samples if each != NOTHING]:
            plot_molecules(drawable[:MAX_DRAWN], path, legends)

    def shares(self, samples: Sequence[Molecule]) -> dict[str, float]:
        return sample_shares(judge(samples), None)

    def read(self, path: str, request: EvaluateRequest) -> SampleFile[Molecule]:
        """Samples that are no molecule are ``NOTHING``, which no rule calls valid."""
        found = read_samples(path, skip_invalid=request.skip_invalid)
        unreadable = found.molecules.count(NOTHING)
        return SampleFile(found.molecules, len(found.molecules), unreadable, found.num_blank)

    def score(
        self,
        request: EvaluateRequest,
        sets: Sequence[Sequence[Molecule]],
        real: RealData[Molecule],
        unreadable: Sequence[int],
    ) -> SampleScores:
        known = None if real.training is None else frozenset(relaxed_smiles(real.training))
        reference = relaxed_smiles(real.reference)
        return score_molecules([judge(each) for each in sets], reference, real.training, known)

    def remarks(self, sets: Sequence[Sequence[Molecule]], num_blank: int) -> list[str]:
        samples = [molecule for molecules in sets for molecule in molecules]
        of, notes = f"Of {len(samples):,} samples", []
        if nothing := samples.count(NOTHING):
            blank = f" ({num_blank:,} blank lines)" if num_blank else ""
            notes.append(
                f"{of} {nothing:,} are no molecule at all{blank}: they count as not valid."
            )
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
) -> SampleScores:
    """Every metric of every set, one per sampling seed, against one ``reference`` of canonical
    SMILES. ``training``: the training molecules, as many of which are measured in the place of
    samples; ``known``: their SMILES, for novelty.

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
    of_real: dict[str, float] = {}
    if training and num:
        chosen = torch.randperm(len(training), generator=make_generator(0, *_REAL))[:num]
        of_real = _measured(judge([training[row] for row in chosen.tolist()]), held_out, None)
    names = [name for name in found[0] if all(name in each for each in found)]
    sizes = [len(verdicts) for verdicts in sets]
    return SampleScores(
        METRICS,
        sizes,
        {name: [each[name] for each in found] for name in names},
        of_real,
        facts={
            **{f"{name}_training": value for name, value in of_real.items()},
            "num_training_measured": num,
        },
        heads=("metric", "value", "training data", "ratio"),
        notes=_notes(names, sizes, len(reference), num),
    )


def _notes(
    names: Sequence[str], sizes: Sequence[int], num_reference: int, num_real: int
) -> list[str]:
    """Notes on how to read the table of metrics of these ``names``."""
    num = " + ".join(f"{size:,}" for size in sizes)
    notes = [
        f"Samples: {num} against {num_reference:,} held-out molecules.",
        error_note(len(sizes)),
    ]
    if num_real:
        notes.append(
            f"Training data: {num_real:,} training molecules in the place of the samples, "
            "by the same code; of them none is novel."
        )
    if num_real and num_real < min(sizes):
        notes.append("There are fewer of them than samples, which makes their distances larger.")
    has_fcd = any(name.startswith("fcd") for name in names)
    if min([*sizes, num_reference]) < ENOUGH and has_fcd:
        notes.append(
            f"FCD is biased upwards in small sets: of fewer than {ENOUGH:,} samples and "
            "held-out molecules it compares only with the training data beside it, not with "
            "published values."
        )
    if "scaffold_similarity" not in names:
        notes.append(f"No scaffold of {MIN_RINGS} rings in every set, so no similarity.")
    if not is_installed():
        notes.append(f"No FCD without {install_command('molecules')}.")
    elif "fcd" not in names and "nspdk_mmd" in names:
        notes.append("No FCD: it takes two valid samples, and two of the reference.")
    if "nspdk_mmd" not in names:
        notes.append("No distances of valid samples: a set has none that is valid.")
    return notes


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


def relaxed_smiles(molecules: Sequence[Molecule]) -> list[str]:
    """SMILES by the relaxed rule, which all that was read from files keeps."""
    return _smiles(judge(molecules), "relaxed")


def _smiles(verdicts: Sequence[Verdict], rule: str) -> list[str]:
    found = (getattr(verdict, rule) for verdict in verdicts)
    return [text for text in found if text is not None]

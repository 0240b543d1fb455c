"""``evaluate`` of molecules: what samples are like, and the model itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.molecules.metrics.validity import judge
from discrete_diffusion.domains.molecules.molecule import NOTHING, Molecule, check_installed, decode
from discrete_diffusion.domains.molecules.pictures import MAX_DRAWN, plot_molecules
from discrete_diffusion.domains.molecules.reading import read_molecules
from discrete_diffusion.domains.molecules.sample_files import read_samples
from discrete_diffusion.domains.molecules.scores import (
    MoleculeScores,
    peculiar_samples,
    score_molecules,
)
from discrete_diffusion.domains.molecules.structures import STRUCTURES
from discrete_diffusion.domains.molecules.writing import write_molecules
from discrete_diffusion.evaluation.held_out import some_held_out
from discrete_diffusion.evaluation.measured_data import MeasuredData, measured_data
from discrete_diffusion.evaluation.model_evaluation import ModelEvaluation
from discrete_diffusion.evaluation.report import Evaluation
from discrete_diffusion.evaluation.sample_sets import SampleSets, facts_of_files, sample_and_measure
from discrete_diffusion.evaluation.structure import Structure, structure_notes, structure_sections
from discrete_diffusion.evaluation.table import TableSection, model_notes
from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

NUM_SAMPLES = 10_000
"""If ``num_samples`` does not say: what the literature draws."""


@dataclass(frozen=True)
class MoleculeEvaluation(Evaluation):
    """``facts``: how all was measured. ``reference``: what it was compared with, in words.
    ``sets``: all samples, by sampling seed or file; ``model``: what was measured of the model
    itself, None of files. ``num_blank``: lines of the files without anything. ``measured_on``: the
    data of a model.
    """

    facts: dict[str, Any]
    reference: str
    sets: list[list[Molecule]]
    scores: MoleculeScores
    model: ModelEvaluation | None
    num_blank: int = 0
    measured_on: MeasuredData | None = None

    def sections(self) -> list[TableSection]:
        model = [] if self.model is None else self.model.sections()
        return [*self.scores.sections(), *structure_sections(self.facts), *model]

    def notes(self) -> list[str]:
        notes = [f"Held-out molecules: {self.reference}.", *self.scores.notes()]
        notes += [] if self.measured_on is None else self.measured_on.notes()
        notes += structure_notes(self.facts)
        notes += peculiar_samples(self.sets, self.num_blank)
        return notes if self.model is None else [*notes, *model_notes(self.model.scores)]

    def metrics(self) -> dict[str, Any]:
        of_model = {} if self.model is None else self.model.metrics()
        return {**self.facts, **self.scores.as_dict(), **of_model}

    def save(self, folder: Path) -> None:
        write_molecules(self.sets[0], folder)

    def plot(self, folder: Path) -> None:
        if drawable := [each for each in self.sets[0] if each != NOTHING]:
            plot_molecules(drawable[:MAX_DRAWN], folder / "samples.png")
        if self.model is not None:
            self.model.plot(folder)


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> MoleculeEvaluation:
    """The samples of a model beside the split that its checkpoint held out, and the model."""
    check_installed()
    on = measured_data(request, trained)
    data, split = on.data, on.split
    trained.check_weights()
    measured = some_held_out(request, data, split)
    num = NUM_SAMPLES if request.num_samples is None else int(request.num_samples)
    seeds = [request.seed + k for k in range(request.seeds or 1)]
    drawing = SampleSets(
        num, seeds, lambda drawn, folder: write_molecules(decode(drawn, vocab), folder)
    )
    parts = progress.parts(*drawing.parts(len(measured.splits[split])), "scoring the samples")
    tokens, facts, of_model = sample_and_measure(
        *(request, trained, on, drawing),
        parts=parts,
        structure=Structure.requested(request, STRUCTURES, vocab),
    )
    sets = [decode(drawn, vocab) for drawn in tokens]
    facts |= on.facts(request)
    with next(parts):
        found = score_molecules(
            [judge(molecules) for molecules in sets],
            _smiles(measured.molecules(split)),
            data.molecules("train") or None,
            data.training_smiles or None,
        )
    return MoleculeEvaluation(facts, on.name, sets, found, of_model, measured_on=on)


def evaluate_files(request: EvaluateRequest) -> MoleculeEvaluation:
    """``samples=FILE`` or ``samples=[A,B]`` beside ``reference=FILE``.

    Raises ``ValueError`` without a reference, and for an empty list.
    """
    check_installed()
    names = request.samples
    if not names:
        raise ValueError("samples=[]: give at least one file")
    if request.reference is None:
        raise ValueError(
            "samples=FILE needs reference=FILE, held-out molecules to compare with, as SMILES"
        )
    read = [read_samples(name, skip_invalid=request.skip_invalid) for name in names]
    reference = _read(request.reference, request)
    training = None if request.training is None else _read(request.training, request)
    found = score_molecules(
        [each.verdicts for each in read],
        _smiles(reference),
        training,
        None if training is None else frozenset(_smiles(training)),
    )
    facts = {
        **facts_of_files(
            names,
            [len(each.verdicts) for each in read],
            [each.num_unreadable for each in read],
        ),
        "reference": str(request.reference),
        "num_reference": len(reference),
    }
    sets, num_blank = [each.molecules for each in read], sum(each.num_blank for each in read)
    return MoleculeEvaluation(facts, str(request.reference), sets, found, None, num_blank)


def _read(path: str, request: EvaluateRequest) -> list[Molecule]:
    """The molecules of a file of SMILES; rows that are none are counted in the log."""
    found = read_molecules(path, charges=request.charges)
    if not request.skip_invalid:
        found.refuse_problems("leave such rows out with skip_invalid=true")
    logger.log(logging.WARNING if found.problems else logging.INFO, "%s", found.summary())
    return found.molecules


def _smiles(molecules: Sequence[Molecule]) -> list[str]:
    """SMILES by the relaxed rule, which all that was read from files keeps."""
    return [text for verdict in judge(molecules) if (text := verdict.relaxed) is not None]

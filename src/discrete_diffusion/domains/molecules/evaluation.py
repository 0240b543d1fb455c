"""``evaluate`` of molecules, and the real molecules that samples are compared with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from discrete_diffusion.domains.molecules.molecule import Molecule, check_installed
from discrete_diffusion.domains.molecules.reading import read_molecules
from discrete_diffusion.domains.molecules.samples import MoleculeSamples
from discrete_diffusion.evaluation.held_out import check_reference, held_out_rows, some_held_out
from discrete_diffusion.evaluation.measured_data import RealData, measured_data
from discrete_diffusion.evaluation.sample_kind import (
    SampleEvaluation,
    evaluate_sample_files,
    evaluate_samples,
)

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> SampleEvaluation[Molecule]:
    """Samples of a model beside the split that its checkpoint held out, and the model itself."""
    check_installed()
    on = measured_data(request, trained)
    data, split = on.data, on.split
    reference = some_held_out(request, data, split).molecules(split)
    training, num = data.molecules("train") or None, len(data.splits[split])
    real = RealData(on.name, reference, training, reference, num, on)
    return evaluate_samples(request, trained, MoleculeSamples(vocab), real)


def evaluate_files(request: EvaluateRequest) -> SampleEvaluation[Molecule]:
    """``samples=FILE`` or ``samples=[A,B]`` beside ``reference=FILE``.

    Raises ``ValueError`` without a reference, and for an empty list.
    """
    check_installed()
    if request.samples and request.reference is None:
        raise ValueError(
            "samples=FILE needs reference=FILE, held-out molecules to compare with, as SMILES"
        )
    check_reference(request, of_files=True)
    known = _read(request.reference, request)
    training = None if request.training is None else _read(request.training, request)
    reference = [known[row] for row in held_out_rows(request, len(known)).tolist()]
    real = RealData(str(request.reference), reference, training, known, len(known))
    return evaluate_sample_files(request, MoleculeSamples(), real)


def _read(path: str, request: EvaluateRequest) -> list[Molecule]:
    """The molecules of a file of SMILES; rows that are none are counted in the log."""
    found = read_molecules(path, charges=request.charges)
    if not request.skip_invalid:
        found.refuse_problems("leave such rows out with skip_invalid=true")
    logger.log(logging.WARNING if found.problems else logging.INFO, "%s", found.summary())
    return found.molecules

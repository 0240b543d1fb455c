"""``sample`` of a model of molecules, fresh or completions, and ``evaluate`` beside real ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from discrete_diffusion.domains.molecules.build import SMILES_ORDER
from discrete_diffusion.domains.molecules.completion import (
    PROPOSALS,
    Scaffold,
    completed_sizes,
    place_scaffolds,
    read_scaffolds,
)
from discrete_diffusion.domains.molecules.molecule import Molecule, check_installed
from discrete_diffusion.domains.molecules.reading import read_molecules
from discrete_diffusion.domains.molecules.samples import MoleculeSamples
from discrete_diffusion.evaluation.measured_data import (
    RealData,
    check_reference,
    held_out_rows,
    measured_data,
    some_held_out,
)
from discrete_diffusion.evaluation.sample_kind import (
    SampleEvaluation,
    complete_kind,
    evaluate_sample_files,
    evaluate_samples,
    sample_kind,
)
from discrete_diffusion.evaluation.trained_model import COMPLETIONS, requested_sizes
from discrete_diffusion.runtime.inputs import place_of_line

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.report import Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import Structure, TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig


_OF_SMILES_ORDER = (
    f"where a scaffold's atoms stand in the SMILES is sampled among {PROPOSALS} ways each, weighed "
    "by the model; a model of data.node_order=random needs no such choice"
)


def sample_molecules(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Draw ``num_samples`` molecules, of ``num_atoms`` atoms if that is given.

    Written as ``samples.smi``, ``samples.jsonl`` and a picture."""
    check_installed()
    return sample_kind(request, trained, MoleculeSamples(vocab), num_atoms=request.num_atoms)


def complete_file(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Molecules that contain the scaffolds of ``given``, ``completions`` of each; written likewise,
    every line with the line of its scaffold.

    Raises ``ValueError`` naming file and line for a scaffold that is wrong."""
    check_installed()
    data, molecules = trained.data_config, MoleculeSamples(vocab)
    scaffolds = read_scaffolds(request.given, vocab, keep_charges=data.charges == "kept")
    structure = molecules.structure(request)
    size = requested_sizes(trained, vocab.n_max, num_atoms=request.num_atoms)
    each = COMPLETIONS if request.completions is None else request.completions
    sizes = completed_sizes(scaffolds, each, trained.size_counts, seed=request.seed, size=size)
    for scaffold, several in zip(scaffolds, sizes, strict=True):
        _check_scaffold(scaffold, several, structure, vocab, request)
    return complete_kind(
        request,
        trained,
        molecules,
        noun="scaffold",
        asked=[scaffold.line for scaffold in scaffolds for _ in range(each)],
        make=lambda model: place_scaffolds(
            model, scaffolds, sizes, vocab, node_order=data.node_order, seed=request.seed
        ),
        order=_OF_SMILES_ORDER if data.node_order == SMILES_ORDER else None,
    )


def _check_scaffold(
    scaffold: Scaffold,
    sizes: Sequence[int],
    structure: Structure,
    vocab: VocabConfig,
    request: SampleRequest,
) -> None:
    """``ValueError`` naming the line if no molecule of the structure and one of the sizes contains
    it."""
    slots, several = list(range(len(scaffold))), sorted({*sizes})
    tokens = torch.tensor([scaffold.tokens(slots, slots, size, vocab) for size in several])
    place = place_of_line(request.given, scaffold.line)
    places = [f"{place}, in a molecule of {size} atoms" for size in several]
    structure.check_given(tokens, vocab.mask_id, places)


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

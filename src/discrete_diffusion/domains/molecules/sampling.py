"""``sample`` of a model of molecules: fresh ones, or completions of scaffolds."""

from __future__ import annotations

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
from discrete_diffusion.domains.molecules.molecule import check_installed
from discrete_diffusion.domains.molecules.samples import MoleculeSamples
from discrete_diffusion.evaluation.sample_kind import COMPLETIONS, complete_kind, sample_kind
from discrete_diffusion.evaluation.token_samples import requested_sizes
from discrete_diffusion.runtime.inputs import place_of_line

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.report import Samples
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.structure import Structure
    from discrete_diffusion.evaluation.trained_model import TrainedModel
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

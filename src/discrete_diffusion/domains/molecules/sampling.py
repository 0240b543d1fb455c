"""``sample`` of a model of molecules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.config.naming import counted
from discrete_diffusion.domains.molecules.completion import PROPOSALS, complete, completed_sizes
from discrete_diffusion.domains.molecules.dataset import SMILES_ORDER
from discrete_diffusion.domains.molecules.metrics.validity import judge, sample_shares
from discrete_diffusion.domains.molecules.molecule import Molecule, check_installed, decode
from discrete_diffusion.domains.molecules.pictures import MAX_DRAWN, plot_molecules
from discrete_diffusion.domains.molecules.report import MoleculeReport
from discrete_diffusion.domains.molecules.scaffold import Scaffold, read_scaffolds
from discrete_diffusion.domains.molecules.structures import STRUCTURES
from discrete_diffusion.domains.molecules.writing import (
    GRAPH_FILE,
    SMILES_FILE,
    lines_of,
    write_molecules,
)
from discrete_diffusion.evaluation.report import Samples, SavedSamples
from discrete_diffusion.evaluation.structure import Structure
from discrete_diffusion.evaluation.token_samples import requested_sizes, sample_fresh
from discrete_diffusion.runtime.given_objects import place_of_line
from discrete_diffusion.sampling.exactness import exactness

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.contracts import SampleOutput
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

NUM_SAMPLES = 64
"""If ``num_samples`` does not say."""

COMPLETIONS = 4
"""If ``completions`` does not say."""

_OF_SMILES_ORDER = (
    f"where a scaffold's atoms stand in the SMILES is sampled among {PROPOSALS} ways each, weighed "
    "by the model; a model of data.node_order=random needs no such choice"
)


def sample_molecules(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Draw ``num_samples`` molecules, of ``num_atoms`` atoms if that is given.

    Written as ``samples.smi``, ``samples.jsonl`` and a picture."""
    check_installed()
    size = requested_sizes(trained, vocab.n_max, num_atoms=request.num_atoms)
    num = NUM_SAMPLES if request.num_samples is None else request.num_samples
    structure = Structure.requested(request, STRUCTURES, vocab)

    def lines(rows: Tensor, output: SampleOutput) -> str:
        return lines_of(decode(output.x0, vocab), **structure.weights(output.log_weights))

    with trained.sharing() as shard:
        model = structure.on(trained.on(shard, lines))
        drawn = sample_fresh(trained, model, num, entropy=(request.seed,), size=size)
    molecules = decode(drawn.tokens, vocab) if len(drawn.tokens) else []

    def write() -> SavedSamples:
        facts = drawn.facts
        if structure:
            facts |= exactness(trained.approximations(log_weights=drawn.log_weights))
            facts |= structure.facts([drawn])
        what, more = counted(len(molecules), "sample"), structure.weights(drawn.log_weights)
        saved = write_sampled(request, what, molecules, facts, more)
        return replace(saved, log_line=saved.log_line + structure.summary(facts))

    return Samples(molecules, write)


def complete_file(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Molecules that contain the scaffolds of ``given``, ``completions`` of each; written likewise,
    every line with the line of its scaffold.

    Raises ``ValueError`` naming file and line for a scaffold that is wrong."""
    check_installed()
    data = trained.data_config
    scaffolds = read_scaffolds(request.given, vocab, keep_charges=data.charges == "kept")
    structure = Structure.requested(request, STRUCTURES, vocab)
    size = requested_sizes(trained, vocab.n_max, num_atoms=request.num_atoms)
    each = COMPLETIONS if request.completions is None else request.completions
    sizes = completed_sizes(scaffolds, each, trained.size_counts, seed=request.seed, size=size)
    for scaffold, several in zip(scaffolds, sizes, strict=True):
        _check_scaffold(scaffold, several, structure, vocab, request)
    asked = [
        scaffold.line for scaffold, several in zip(scaffolds, sizes, strict=True) for _ in several
    ]

    def lines(rows: Tensor, drawn: tuple[list[Molecule], Tensor]) -> str:
        of_rows = [asked[row] for row in rows.tolist()]
        molecules, log_weights = drawn
        return lines_of(molecules, given=of_rows, **structure.weights(log_weights))

    with trained.sharing() as shard:
        completed = complete(
            structure.on(trained.on(shard, lines)),
            scaffolds,
            sizes,
            vocab,
            node_order=data.node_order,
            seed=request.seed,
        )
    log_weights = completed.drawn.log_weights if structure else None
    reasons = trained.approximations(
        real=completed.real, known=completed.known, log_weights=log_weights
    )
    if data.node_order == SMILES_ORDER:
        reasons.insert(0, _OF_SMILES_ORDER)
    if reasons:
        logger.info("the completions are approximate: %s", "; ".join(reasons))

    def write() -> SavedSamples:
        facts = {
            "given": str(request.given),
            "num_inputs": len(scaffolds),
            "completions": each,
            **exactness(reasons),
            **completed.drawn.facts,
            **structure.facts([completed.drawn], given=True),
        }
        what = f"{counted(len(completed.molecules), 'completion')} of "
        what += counted(len(scaffolds), "scaffold")
        of_rows = [asked[row] for row in completed.drawn.rows.tolist()]
        more = {"given": of_rows, **structure.weights(completed.drawn.log_weights)}
        saved = write_sampled(request, what, completed.molecules, facts, more)
        return replace(saved, log_line=saved.log_line + structure.summary(facts))

    return Samples(completed.molecules, write)


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


def write_sampled(
    request: SampleRequest,
    what: str,
    molecules: Sequence[Molecule],
    facts: dict[str, Any],
    more: Mapping[str, Sequence[Any]],
) -> SavedSamples:
    """Write the files, and log a line about them. ``more``: what is written beside each, by key;
    ``given``, of completions, is the line of what was given."""
    folder = request.out
    refused = write_molecules(molecules, folder, **more)
    legends = [f"line {line}" for line in more["given"]] if "given" in more else None
    plot_molecules(molecules[:MAX_DRAWN], folder / request.picture, legends)
    if refused:
        logger.info(
            "%s of no valid molecule: no SMILES in %s, atoms and bonds in %s",
            *(counted(refused, "graph"), SMILES_FILE, GRAPH_FILE),
        )
    shares = sample_shares(judge(molecules), None)
    shown = ", ".join(
        each.format(shares[each.name]) for each in MoleculeReport.headlines if each.name in shares
    )
    files = ", ".join(str(folder / name) for name in (SMILES_FILE, GRAPH_FILE, request.picture))
    return SavedSamples(
        {**facts, **shares}, f"{what} in {facts['seconds']:.1f} s: {shown}; {files}"
    )

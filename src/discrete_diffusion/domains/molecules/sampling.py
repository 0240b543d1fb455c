"""``sample`` of a model of molecules."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.naming import counted
from discrete_diffusion.domains.molecules.completion import PROPOSALS, CompletionRequest, complete
from discrete_diffusion.domains.molecules.dataset import SMILES_ORDER
from discrete_diffusion.domains.molecules.metrics.validity import judge, sample_shares
from discrete_diffusion.domains.molecules.molecule import Molecule, check_installed, decode
from discrete_diffusion.domains.molecules.pictures import MAX_DRAWN, plot_molecules
from discrete_diffusion.domains.molecules.report import MoleculeReport
from discrete_diffusion.domains.molecules.scaffold import read_scaffolds
from discrete_diffusion.domains.molecules.writing import (
    GRAPH_FILE,
    SMILES_FILE,
    lines_of,
    write_molecules,
)
from discrete_diffusion.evaluation.report import Samples, SavedSamples
from discrete_diffusion.evaluation.token_samples import requested_sizes, sample_fresh
from discrete_diffusion.sampling.exactness import exactness

if TYPE_CHECKING:
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
    with trained.sharing() as shard:
        model = trained.on(shard, lambda _, output: lines_of(decode(output.x0, vocab)))
        drawn = sample_fresh(trained, model, num, entropy=(request.seed,), size=size)
    molecules = decode(drawn.tokens, vocab) if len(drawn.tokens) else []

    def write() -> SavedSamples:
        facts = {
            "num_samples": len(molecules),
            "network_calls_per_sample": drawn.network_calls,
            "seconds": drawn.seconds,
        }
        return write_sampled(request, counted(len(molecules), "sample"), molecules, facts)

    return Samples(molecules, write)


def complete_file(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Molecules that contain the scaffolds of ``given``, ``completions`` of each; written likewise,
    every line with the line of its scaffold.

    Raises ``ValueError`` naming file and line for a scaffold that is wrong."""
    check_installed()
    data = trained.data_config
    scaffolds = read_scaffolds(request.given, vocab, keep_charges=data.charges == "kept")
    size = requested_sizes(trained, vocab.n_max, num_atoms=request.num_atoms)
    each = COMPLETIONS if request.completions is None else request.completions
    with trained.sharing() as shard:
        completed = complete(
            trained.on(shard),
            scaffolds,
            vocab,
            CompletionRequest(each, trained.size_counts, size),
            node_order=data.node_order,
            seed=request.seed,
        )
    reasons = trained.approximations(real=completed.real, known=completed.known)
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
            "num_samples": len(completed.molecules),
            "network_calls_per_sample": completed.drawn.network_calls,
            "seconds": completed.drawn.seconds,
        }
        what = f"{counted(len(completed.molecules), 'completion')} of "
        what += counted(len(scaffolds), "scaffold")
        return write_sampled(request, what, completed.molecules, facts, completed.lines)

    return Samples(completed.molecules, write)


def write_sampled(
    request: SampleRequest,
    what: str,
    molecules: Sequence[Molecule],
    facts: dict[str, Any],
    lines: Sequence[int] | None = None,
) -> SavedSamples:
    """Write the files, and log a line about them. ``lines``: of what was given, of completions."""
    folder = request.out
    metadata = None if lines is None else [{"given": line} for line in lines]
    refused = write_molecules(molecules, folder, metadata)
    legends = None if lines is None else [f"line {line}" for line in lines]
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

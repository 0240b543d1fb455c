"""A file of partial diagrams in, their completions out."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.bubble_diagrams import write_diagrams
from discrete_diffusion.domains.bubble_diagrams.arranging import UnseenError
from discrete_diffusion.domains.bubble_diagrams.completion import (
    Completions,
    approximations,
    complete,
)
from discrete_diffusion.domains.bubble_diagrams.files.readers import numbered_partials
from discrete_diffusion.domains.bubble_diagrams.metrics.structure import structure_metrics
from discrete_diffusion.domains.bubble_diagrams.pictures.completions import (
    CompletedRow,
    draw_completions,
)
from discrete_diffusion.domains.bubble_diagrams.report import MAX_DRAWN
from discrete_diffusion.domains.bubble_diagrams.trajectory_files import save_trajectory
from discrete_diffusion.domains.domain import Sampled
from discrete_diffusion.layout import VocabConfig

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams import PartialDiagram
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.shards import Shard

logger = logging.getLogger(__name__)

COMPLETIONS = 4
MAX_COLUMNS = 8
"""Completions of a line that the picture shows."""


def complete_file(config: DictConfig, trained: TrainedModel) -> Sampled:
    """Complete every line of ``given``: ``samples.jsonl`` and a picture in ``out``,
    and the trajectory, if one is asked for.

    Raises ``ValueError`` naming file, line and field for a line that is wrong, and for one that the
    model cannot complete.
    """
    if Path(str(config.given)).suffix == ".npz":
        raise ValueError(
            f"given={config.given}: {trained.path} was trained on diagrams; give partial diagrams, "
            "JSON lines (docs/completion.md)"
        )
    vocab = VocabConfig(n_max=trained.data_config.n_max)
    partials = numbered_partials(str(config.given), n_max=vocab.n_max, codes=config.codes)
    with trained.sharing() as shard:
        start = time.perf_counter()
        completed = _complete(config, trained, partials, vocab, shard)
        seconds = time.perf_counter() - start
    reasons = approximations(trained.sampler, trained.algorithm, completed)
    numbers = structure_metrics(completed.diagrams)
    folder = Path(str(config.out))
    folder.mkdir(parents=True, exist_ok=True)
    write_diagrams(folder / "samples.jsonl", completed.diagrams)
    _draw(completed, partials, folder / config.picture)
    facts = {
        "given": str(config.given),
        "num_inputs": len(partials),
        "completions": len(completed.diagrams) // len(partials),
        "num_samples": len(completed.diagrams),
        "network_calls_per_sample": float(completed.network_calls.double().mean()),
        "scoring_calls_per_sample": completed.num_scored / len(completed.diagrams),
        "scoring_batches_per_input": completed.num_batches / len(partials),
        "arrangement_errors": completed.arrangement_errors,
        "seconds": seconds,
        "exact": not reasons,
        "approximate_because": "; ".join(reasons) or None,
    }
    if reasons:
        logger.info("the completions are approximate: %s", "; ".join(reasons))
    save_trajectory(completed.trajectory, folder, vocab)
    return Sampled(
        {**facts, **numbers},
        f"{len(completed.diagrams)} completions of {len(partials)} partial diagrams in "
        f"{seconds:.1f} s: valid {100 * numbers['valid']:.1f} %, transitive "
        f"{100 * numbers['transitive']:.1f} %; {folder / config.picture}",
    )


def _complete(
    config: DictConfig,
    trained: TrainedModel,
    partials: dict[int, PartialDiagram],
    vocab: VocabConfig,
    shard: Shard,
) -> Completions:
    try:
        return complete(
            trained.sampler,
            trained.algorithm,
            list(partials.values()),
            lines=list(partials),
            vocab=vocab,
            node_order=trained.data_config.node_order,
            generator=make_generator(config.seed, 1, device=trained.device),
            completions=COMPLETIONS if config.completions is None else config.completions,
            steps=trained.steps,
            batch_size=trained.batch_size,
            max_arrangements=config.max_arrangements,
            trajectories=config.trajectory,
            shard=shard,
        )
    except UnseenError as error:
        raise ValueError(f"{config.given}, {error}") from error


def _draw(completed: Completions, partials: dict[int, PartialDiagram], path: Path) -> None:
    """The first lines, a row each, and the first completions of each."""
    per_line = len(completed.diagrams) // len(partials)
    shown = min(per_line, MAX_COLUMNS)
    rows = [
        CompletedRow(
            f"line {line}, given",
            partial,
            tuple(completed.diagrams[k * per_line :][:shown]),
        )
        for k, (line, partial) in enumerate(partials.items())
    ]
    draw_completions(rows[: max(1, MAX_DRAWN // shown)], path)

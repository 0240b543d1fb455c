"""A file of partial diagrams in, their completions out."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.arranging import UnseenError
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli.sample_outputs import save_trajectory
from discrete_diffusion.completion import Completions, approximations, complete
from discrete_diffusion.data.bubble_diagrams import write_diagrams
from discrete_diffusion.data.bubble_diagrams.partial_reader import numbered_partials
from discrete_diffusion.evaluation.json_values import write_metrics
from discrete_diffusion.evaluation.report import MAX_DRAWN
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.metrics import structure_metrics
from discrete_diffusion.viz.completions import CompletedRow, draw_completions

if TYPE_CHECKING:
    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource
    from discrete_diffusion.data.bubble_diagrams import PartialDiagram
    from discrete_diffusion.shards import Shard

logger = logging.getLogger(__name__)

COMPLETIONS = 4
MAX_COLUMNS = 8
"""Completions of a line that the picture shows."""


def complete_file(config: DictConfig, source: SampleSource, here: Computing) -> None:
    """Complete every line of ``given``: ``samples.jsonl``, a picture and ``metrics.json`` in
    ``out``, and the trajectory, if one is asked for.

    Raises ``ValueError`` naming file, line and field for a line that is wrong, and for one that the
    model cannot complete.
    """
    if Path(str(config.given)).suffix == ".npz":
        raise ValueError(
            f"given={config.given}: {source.path} was trained on diagrams; give partial diagrams, "
            "JSON lines (docs/completion.md)"
        )
    source.check_weights()
    n_max = source.checkpoint.config.data.n_max
    partials = numbered_partials(str(config.given), n_max=n_max, codes=config.codes)
    with here.shared() as shard:
        start = time.perf_counter()
        completed = _complete(config, source, partials, shard)
        seconds = time.perf_counter() - start
    algorithm = source.checkpoint.algorithm
    reasons = approximations(source.sampler, algorithm, completed)
    numbers = structure_metrics(completed.diagrams)
    folder = Path(str(config.out))
    folder.mkdir(parents=True, exist_ok=True)
    write_diagrams(folder / "samples.jsonl", completed.diagrams)
    _draw(completed, partials, folder / config.picture)
    facts = {
        "checkpoint": str(config.checkpoint),
        "seed": config.seed,
        "precision": str(config.precision),
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
    write_metrics(folder, {**facts, **numbers})
    if reasons:
        logger.info("the completions are approximate: %s", "; ".join(reasons))
    save_trajectory(completed.trajectory, folder, n_max)
    _log(facts | numbers, folder / config.picture)


def _complete(
    config: DictConfig, source: SampleSource, partials: dict[int, PartialDiagram], shard: Shard
) -> Completions:
    data = source.checkpoint.config.data
    try:
        return complete(
            source.sampler,
            source.checkpoint.algorithm,
            list(partials.values()),
            lines=list(partials),
            vocab=VocabConfig(n_max=data.n_max),
            node_order=data.node_order,
            generator=make_generator(config.seed, 1, device=source.device),
            completions=COMPLETIONS if config.completions is None else config.completions,
            steps=source.steps,
            batch_size=source.batch_size,
            max_arrangements=config.max_arrangements,
            trajectories=config.trajectory,
            shard=shard,
        )
    except UnseenError as error:
        raise ValueError(f"{config.given}, {error}") from error


def _log(facts: dict[str, Any], picture: Path) -> None:
    logger.info(
        "%d completions of %d partial diagrams in %.1f s: valid %.1f %%, transitive %.1f %%; %s",
        facts["num_samples"],
        facts["num_inputs"],
        facts["seconds"],
        100 * facts["valid"],
        100 * facts["transitive"],
        picture,
    )


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

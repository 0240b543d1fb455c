"""``sample`` of a model of tokens: diagrams or text, drawn or completed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.cli.sample_outputs import save_trajectory

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource

logger = logging.getLogger(__name__)

NUM_SAMPLES = 64


def sample_tokens(config: DictConfig, source: SampleSource, here: Computing) -> None:
    """Draw ``num_samples`` samples, or complete the partial diagrams of ``given``.

    Writes diagrams as ``samples.jsonl`` and ``samples.png``, text as ``samples.txt``; with
    ``trajectory`` the states on the way."""
    if config.given is None:
        _draw(config, source, here)
    else:
        from discrete_diffusion.cli.completion_files import complete_file

        complete_file(config, source, here)


def _draw(config: DictConfig, source: SampleSource, here: Computing) -> None:
    from discrete_diffusion.evaluation import save_samples
    from discrete_diffusion.evaluation.json_values import write_metrics

    with here.shared() as shard:
        drawn = source.draw(
            NUM_SAMPLES if config.num_samples is None else config.num_samples,
            config.seed,
            num_rooms=config.num_rooms,
            trajectories=config.trajectory,
            shard=shard,
        )
    folder = Path(str(config.out))
    saved = save_samples(drawn.tokens, drawn.data, folder, config.picture)
    metrics = {
        "checkpoint": str(config.checkpoint),
        "seed": config.seed,
        "precision": str(config.precision),
        "num_samples": len(drawn.tokens),
        "network_calls_per_sample": drawn.network_calls,
        "seconds": drawn.seconds,
        **saved.numbers,
    }
    write_metrics(folder, metrics)
    save_trajectory(drawn.trajectory, folder, drawn.data.get("n_max"))
    shares = [f"{k} {100 * metrics[k]:.1f} %" for k in ("valid", "transitive") if k in metrics]
    logger.info(
        "%d samples in %.1f s%s; %s",
        len(drawn.tokens),
        drawn.seconds,
        f": {', '.join(shares)}" if shares else "",
        saved.path,
    )

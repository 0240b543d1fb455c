"""``discrete-diffusion sample``: diagrams from a checkpoint."""

from __future__ import annotations

import logging
from pathlib import Path

from omegaconf import DictConfig

from discrete_diffusion.cli.compose import check_counts

logger = logging.getLogger(__name__)


def run(config: DictConfig) -> None:
    """Draw ``num_samples`` diagrams and write ``samples.jsonl``, ``samples.png`` and
    ``metrics.json`` into ``out``."""
    if config.checkpoint is None:
        raise ValueError(
            "sample needs checkpoint=FILE, e.g. checkpoint=runs/first/checkpoints/best.ckpt"
        )
    check_counts(config, num_samples=1, num_rooms=1, steps=1, batch_size=1, seed=0, threads=1)
    from discrete_diffusion.cli.sample_source import open_sample_source
    from discrete_diffusion.evaluation import save_diagrams
    from discrete_diffusion.evaluation.json_values import write_metrics
    from discrete_diffusion.metrics import structure_metrics

    source = open_sample_source(config)
    drawn = source.draw(config.num_samples, config.seed, num_rooms=config.num_rooms)
    folder = Path(config.out)
    save_diagrams(drawn.diagrams, folder, config.picture)
    metrics = {
        "checkpoint": str(config.checkpoint),
        "seed": config.seed,
        "num_samples": len(drawn.diagrams),
        "network_calls_per_sample": drawn.network_calls,
        "seconds": drawn.seconds,
        **structure_metrics(drawn.diagrams),
    }
    write_metrics(folder, metrics)
    logger.info(
        "%d samples in %.1f s: valid %.1f %%, transitive %.1f %%; %s",
        len(drawn.diagrams),
        drawn.seconds,
        100 * metrics["valid"],
        100 * metrics["transitive"],
        folder / config.picture,
    )

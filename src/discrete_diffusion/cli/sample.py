"""``discrete-diffusion sample``: samples from a checkpoint."""

from __future__ import annotations

import logging
from pathlib import Path

from omegaconf import DictConfig

from discrete_diffusion.cli.compose import check_counts

logger = logging.getLogger(__name__)


def run(config: DictConfig) -> None:
    """Draw ``num_samples`` samples and write them and ``metrics.json`` into ``out``: diagrams as
    ``samples.jsonl`` and ``samples.png``, text as ``samples.txt``."""
    if config.checkpoint is None:
        raise ValueError(
            "sample needs checkpoint=FILE, e.g. checkpoint=runs/first/checkpoints/best.ckpt"
        )
    check_counts(config, num_samples=1, num_rooms=1, steps=1, batch_size=1, seed=0, threads=1)
    from discrete_diffusion.cli.sample_source import open_sample_source
    from discrete_diffusion.evaluation import save_samples
    from discrete_diffusion.evaluation.json_values import write_metrics

    source = open_sample_source(config)
    drawn = source.draw(config.num_samples, config.seed, num_rooms=config.num_rooms)
    folder = Path(config.out)
    saved = save_samples(drawn.tokens, drawn.data, folder, config.picture)
    metrics = {
        "checkpoint": str(config.checkpoint),
        "seed": config.seed,
        "num_samples": len(drawn.tokens),
        "network_calls_per_sample": drawn.network_calls,
        "seconds": drawn.seconds,
        **saved.numbers,
    }
    write_metrics(folder, metrics)
    shares = [f"{k} {100 * metrics[k]:.1f} %" for k in ("valid", "transitive") if k in metrics]
    logger.info(
        "%d samples in %.1f s%s; %s",
        len(drawn.tokens),
        drawn.seconds,
        f": {', '.join(shares)}" if shares else "",
        saved.path,
    )

"""``discrete-diffusion sample``: diagrams from a checkpoint."""

from __future__ import annotations

import json
import logging
import time
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
    import torch

    from discrete_diffusion.categorical import make_generator
    from discrete_diffusion.checkpoints import read_checkpoint
    from discrete_diffusion.data import draw_sizes
    from discrete_diffusion.data.bubble_diagrams import decode
    from discrete_diffusion.evaluation import save_diagrams
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.metrics import structure_metrics
    from discrete_diffusion.sampling import build_sampler, draw_samples

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sampler = build_sampler(config)
    checkpoint = read_checkpoint(config.checkpoint, ema=config.ema, device=device)
    if checkpoint.config.data.get("n_max") is None:
        raise ValueError(f"{config.checkpoint} was not trained on diagrams")
    vocab = VocabConfig(n_max=checkpoint.config.data.n_max)
    if config.num_rooms is None:
        sizes = draw_sizes(
            checkpoint.size_counts, config.num_samples, make_generator(config.seed, 0)
        )
    else:
        sizes = torch.full((config.num_samples,), config.num_rooms)
    start = time.perf_counter()
    output = draw_samples(
        sampler,
        checkpoint.algorithm,
        vocab.real_positions(sizes),
        generator=make_generator(config.seed, 1, device=device),
        steps=config.steps,
        batch_size=config.batch_size,
    )
    seconds = time.perf_counter() - start
    diagrams = decode(output.tokens, vocab)
    folder = Path(config.out)
    save_diagrams(diagrams, folder, config.picture)
    metrics = {
        "checkpoint": str(config.checkpoint),
        "seed": config.seed,
        "num_samples": len(diagrams),
        "network_calls_per_sample": float(output.nfe.double().mean()),
        "seconds": seconds,
        **structure_metrics(diagrams),
    }
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    logger.info(
        "%d samples in %.1f s: valid %.1f %%, transitive %.1f %%; %s",
        len(diagrams),
        seconds,
        100 * metrics["valid"],
        100 * metrics["transitive"],
        folder / config.picture,
    )

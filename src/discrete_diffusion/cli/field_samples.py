"""``sample`` of a model of images with maps: held-out images drawn from their maps."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.checkpoint_data import (
    UnreadableDataError,
    checkpoint_data,
    held_out_split,
)
from discrete_diffusion.cli.sample_outputs import refuse_overwriting_data
from discrete_diffusion.evaluation import (
    RECONSTRUCTIONS,
    FieldReport,
    Reconstructions,
    reconstruct_held_out,
    write_reconstructions,
)
from discrete_diffusion.evaluation.json_values import write_metrics
from discrete_diffusion.sampling import rows_at_once

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource
    from discrete_diffusion.data import Dataset
    from discrete_diffusion.shards import Shard

logger = logging.getLogger(__name__)

NUM_IMAGES, DRAWS = 64, 8


def sample_fields(config: DictConfig, source: SampleSource, here: Computing) -> None:
    """Draw ``draws`` images from the map of each of the first ``num_samples`` held-out images.

    Writes ``samples.npz``, ``samples.png`` and ``metrics.json``.
    """
    for key in ("num_rooms", "trajectory", "given"):
        if config[key]:
            source.check_diagrams(key, config[key])
    refuse_mask_rate(config)
    source.check_weights()
    folder = Path(str(config.out))
    written = (RECONSTRUCTIONS, "metrics.json")
    refuse_overwriting_data(folder, written, source.checkpoint.config.data)
    data = readable_data(source)
    split = held_out_split(data)
    num = NUM_IMAGES if config.num_samples is None else config.num_samples
    with here.shared() as shard:
        found = reconstruct(config, source, data, split, num=num, shard=shard)
    report = FieldReport(data, split)
    scores = report.measure(found)
    write_reconstructions(folder, found)
    report.draw(found, folder / config.picture)
    facts: dict[str, Any] = {
        "checkpoint": source.path,
        "seed": config.seed,
        "precision": str(config.precision),
        "sampling": source.sampling,
        "split": split,
        "num_samples": len(found),
        "network_calls_per_sample": scores["network_calls_per_draw"],
        "seconds": found.seconds,
        **scores,
    }
    write_metrics(folder, facts)
    logger.info(
        "%d images of the %s split, %d draws each, in %.1f s: relative L2 %.3f (mean image %.3f)"
        "; %s",
        *(len(found), split, found.draws, found.seconds),
        *(scores["relative_l2"], scores["mean_image_relative_l2"], folder / config.picture),
    )


def reconstruct(
    config: DictConfig,
    source: SampleSource,
    data: Dataset,
    split: str,
    *,
    num: int | None,
    shard: Shard,
) -> Reconstructions:
    """As ``config`` says: ``draws``, ``seed``, ``steps``, ``batch_size``."""
    return reconstruct_held_out(
        source.checkpoint.algorithm,
        source.sampler,
        data,
        split,
        num=num,
        draws=DRAWS if config.draws is None else config.draws,
        seed=config.seed,
        steps=source.steps,
        batch_size=source.batch_size or rows_at_once(source.device),
        device=source.device,
        shard=shard,
    )


def readable_data(source: SampleSource) -> Dataset:
    """What the checkpoint was trained on; ``ValueError`` if it cannot be read."""
    try:
        return checkpoint_data(source.path, source.checkpoint)
    except UnreadableDataError as error:
        raise ValueError(f"{error}; put it back where the run found it") from error


def refuse_mask_rate(config: DictConfig) -> None:
    """``ValueError`` for what only rows of features have."""
    if config.mask_rate is not None:
        raise ValueError(
            f"mask_rate={config.mask_rate} is for rows of features, and this model draws images; "
            "leave it out"
        )

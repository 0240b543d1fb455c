"""``sample`` of a model of images with maps: held-out images drawn from their maps."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.changed_data import measured_data
from discrete_diffusion.cli.checkpoint_data import held_out_split
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
    """Draw ``draws`` images from the map of each of the first ``num_samples`` held-out images, or
    of those that keys under ``data`` make.

    Writes ``samples.npz``, ``samples.png`` and ``metrics.json``.
    """
    source.check_weights()
    folder = Path(str(config.out))
    source.refuse_overwriting_data(config, (RECONSTRUCTIONS, "metrics.json"))
    measured = measured_data(config, source)
    split = held_out_split(measured.data)
    num = NUM_IMAGES if config.num_samples is None else config.num_samples
    with here.shared() as shard:
        found = reconstruct(config, source, measured.data, split, num=num, shard=shard)
    report = FieldReport(measured.trained_on)
    scores = report.measure(found)
    write_reconstructions(folder, found)
    report.draw(found, folder / config.picture)
    facts: dict[str, Any] = {
        "checkpoint": source.path,
        "seed": config.seed,
        "precision": str(config.precision),
        "sampling": source.sampling,
        "split": split,
        **measured.facts(split),
        "num_samples": len(found),
        "network_calls_per_sample": scores["network_calls_per_draw"],
        "seconds": found.seconds,
        **scores,
    }
    write_metrics(folder, facts)
    logger.info(
        "%d images of %s, %d draws each, in %.1f s: relative L2 %.3f (mean image %.3f); %s",
        *(len(found), measured.name_of(split), found.draws, found.seconds),
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

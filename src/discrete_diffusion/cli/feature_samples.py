"""``sample`` of a model of features: hidden rows of windows are filled in."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.checkpoint_data import held_out_split, readable_data
from discrete_diffusion.cli.sample_source import MASK_RATE
from discrete_diffusion.evaluation import RowReport, fill_held_out
from discrete_diffusion.evaluation.json_values import write_metrics
from discrete_diffusion.evaluation.row_files import FILLED_ROWS
from discrete_diffusion.naming import counted
from discrete_diffusion.sampling import rows_at_once

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource

logger = logging.getLogger(__name__)

NUM_WINDOWS = 64
GIVE = "give windows of your own with given=FILE.npz"


def sample_features(config: DictConfig, source: SampleSource, here: Computing) -> None:
    """Fill hidden rows of the first ``num_samples`` windows that the checkpoint held out, or of the
    windows of ``given``.

    Writes ``samples.npz``, ``samples.png`` and ``metrics.json``; observed rows are as they were,
    bit for bit.
    """
    source.check_weights()
    source.refuse_overwriting_data(config, (FILLED_ROWS, "metrics.json"))
    if config.given is None:
        _fill_held_out(config, source, here)
    else:
        from discrete_diffusion.cli.given_windows import fill_given

        fill_given(config, source, here)


def _fill_held_out(config: DictConfig, source: SampleSource, here: Computing) -> None:
    folder = Path(str(config.out))
    data = readable_data(source, GIVE)
    split = held_out_split(data, remedy=GIVE)
    rate = MASK_RATE if config.mask_rate is None else config.mask_rate
    with here.shared() as shard:
        filling = fill_held_out(
            source.checkpoint.algorithm,
            source.sampler,
            data,
            split,
            num=NUM_WINDOWS if config.num_samples is None else config.num_samples,
            mask_rate=rate,
            seed=config.seed,
            steps=source.steps,
            batch_size=source.batch_size or rows_at_once(here.device),
            device=here.device,
            shard=shard,
        )
    if config.num_samples is not None and len(filling) < config.num_samples:
        which = "which is filled" if len(filling) == 1 else "all are filled"
        logger.info("the %s split has %s, %s", split, counted(len(filling), "window"), which)
    assert filling.nfe is not None  # there is a sampler
    assert filling.filled is not None
    check_finite(source.path, filling.predicted, filling.filled)
    report = RowReport(data, split, rate, config.seed)
    scores = report.measure(filling)
    facts = {
        "checkpoint": source.path,
        "seed": config.seed,
        "precision": str(config.precision),
        "sampling": source.sampling,
        "split": split,
        "num_samples": len(filling),
        "network_calls_per_sample": float(filling.nfe.double().mean()),
        "seconds": filling.seconds,
        **scores,
    }
    report.write(filling, folder)
    report.draw(filling, folder / config.picture)
    write_metrics(folder, facts)
    logger.info(
        "%s of the %s split filled in %.1f s: %s; %s",
        *(counted(len(filling), "window"), split, filling.seconds, shown_scores(scores)),
        folder / config.picture,
    )


def check_finite(checkpoint: str, *outputs: Tensor) -> None:
    """``ValueError`` for rows Float[..., W, N, M] that the model at ``checkpoint`` made and that
    hold NaN or infinity, with the indices of the first."""
    for rows in outputs:
        bad = ~rows.isfinite().all(dim=-1)
        if bad.any():
            window, row = bad.nonzero()[0].tolist()[-2:]
            raise ValueError(
                f"the model's output is not finite (window {window}, row {row}); {checkpoint} has "
                "diverged, take an earlier checkpoint, or the observed rows are far from those of "
                "its training"
            )


def shown_scores(scores: dict[str, Any]) -> str:
    """What is known of the correlation with the truth, in a few words."""
    known = {
        "filled_per_motif_r": "per-motif r",
        "neighbour_mean_per_motif_r": "neighbour mean",
        "oracle_per_motif_r": "oracle",
    }
    return ", ".join(f"{name} {scores[key]:.3f}" for key, name in known.items() if key in scores)

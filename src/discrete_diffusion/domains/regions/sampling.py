"""``sample`` of a model of rows: hidden rows of windows are filled in."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.domain import Sampled
from discrete_diffusion.domains.regions.row_report import RowReport
from discrete_diffusion.evaluation.held_out import held_out_split, readable_data
from discrete_diffusion.naming import counted

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

NUM_WINDOWS = 64
MASK_RATE = 0.5
"""The share of the rows of a held-out window that is hidden, if none is given."""

GIVE = "give windows of your own with given=FILE.npz"


def sample_rows(config: DictConfig, trained: TrainedModel) -> Sampled:
    """Fill hidden rows of the first ``num_samples`` windows that the checkpoint held out, or of the
    windows of ``given``.

    Writes ``samples.npz`` and ``samples.png``; observed rows are as they were, bit for bit.
    """
    if config.given is None:
        return _fill_held_out(config, trained)
    from discrete_diffusion.domains.regions.given_windows import fill_given

    return fill_given(config, trained)


def _fill_held_out(config: DictConfig, trained: TrainedModel) -> Sampled:
    folder = Path(str(config.out))
    data = readable_data(trained, GIVE)
    split = held_out_split(data, remedy=GIVE)
    rate = MASK_RATE if config.mask_rate is None else config.mask_rate
    report = RowReport(data, split, rate, config.seed)
    num = NUM_WINDOWS if config.num_samples is None else config.num_samples
    with trained.sharing() as shard:
        filling = report.sample(trained.on(shard), num, config.seed)
    if config.num_samples is not None and len(filling) < config.num_samples:
        which = "which is filled" if len(filling) == 1 else "all are filled"
        logger.info("the %s split has %s, %s", split, counted(len(filling), "window"), which)
    assert filling.nfe is not None  # there is a sampler
    assert filling.filled is not None
    check_finite(trained.path, filling.predicted, filling.filled)
    scores = report.measure(filling)
    facts = {
        "sampling": trained.sampling,
        "split": split,
        "num_samples": len(filling),
        "network_calls_per_sample": float(filling.nfe.double().mean()),
        "seconds": filling.seconds,
        **scores,
    }
    report.write(filling, folder)
    report.draw(filling, folder / config.picture)
    return Sampled(
        facts,
        f"{counted(len(filling), 'window')} of the {split} split filled in {filling.seconds:.1f} "
        f"s: {shown_scores(scores)}; {folder / config.picture}",
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

"""What happens beside the training steps: samples, a line of text."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from discrete_diffusion.training.sharding import whole_weights

logger = logging.getLogger(__name__)

_LOGGED_SHARES = ("valid", "exactly_one_living_room", "transitive", "exact_match", "slot_accuracy")
_LOGGED_NUMBERS = (
    "per_motif_r",
    "per_motif_r2",
    "relative_l2",
    "condition_gap",
    "rouge_l",
    "shuffled_rouge_l",
)


class Report(Protocol):
    """What makes numbers, files and pictures of samples, whatever they are."""

    def measure(self, samples: Any) -> dict[str, float]:
        """Numbers by name."""

    def save(self, samples: Any, folder: Path) -> None:
        """Write them into a folder."""

    def draw(self, samples: Any, path: Path) -> None:
        """Picture the first ones."""


class SampleAtValidation(Callback):
    """Samples at every validation: metrics to the logger, a picture to ``pictures/``.

    Must stand *before* the EMA callback, which puts the training weights back at the end of
    validation. A failure fails the run; the sanity check before training draws a few samples, so
    that it does so at once.

    ``draw``: number of samples -> samples; called in every process, which all are given the same
    ones. The first process measures and pictures them, by ``report``.
    """

    def __init__(
        self, draw: Callable[[int], Any], report: Report, *, num_samples: int, folder: Path
    ) -> None:
        self.draw, self.report = draw, report
        self.num_samples, self.folder = num_samples, folder

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        num = min(self.num_samples, 4) if trainer.sanity_checking else self.num_samples
        if num == 0 and not trainer.sanity_checking:
            return
        with whole_weights(trainer):
            samples = self.draw(num)
        measured = self.report.measure(samples) if trainer.is_global_zero else {}
        if trainer.sanity_checking:
            return
        measured = trainer.strategy.broadcast(measured)
        pl_module.log_dict({f"val/{name}": x for name, x in measured.items()}, sync_dist=True)
        if trainer.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.report.draw(samples, self.folder / f"step_{trainer.global_step:06d}.png")


class ValidationLine(Callback):
    """One line of text per validation, for logs that no progress bar reaches."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        values = {name: float(torch.as_tensor(v)) for name, v in trainer.callback_metrics.items()}
        parts = [f"step {trainer.global_step}"]
        if "train/loss" in values:
            parts.append(f"train loss {values['train/loss']:.4f}")
        skipped = getattr(pl_module, "skipped_steps", None)
        if skipped is not None and skipped.total:
            parts.append(f"{skipped.total} steps skipped")
        bound, error = values.get("val/nelbo"), values.get("val/nelbo_standard_error")
        parts.append(f"val NELBO {bound:.3f} ± {error:.3f} nats")
        for name in _LOGGED_SHARES:
            if (share := values.get(f"val/{name}")) is not None:
                parts.append(f"{name.replace('_', ' ')} {100 * share:.1f} %")
        for name in _LOGGED_NUMBERS:
            if (number := values.get(f"val/{name}")) is not None:
                parts.append(f"{name.replace('_', ' ')} {number:.3f}")
        logger.info("%s", "  ".join(parts))

"""The exponential moving average of the weights."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor


class EMA(WeightAveraging):
    """Lightning's weight averaging with a decay that warms up: min(decay, (1 + n) / (10 + n)).

    After n steps the average spans about n / 10 of them, so a run of a thousand steps is not
    averaged with its own start, and a long one reaches ``decay``. Buffers are copied, never
    averaged: an averaged index buffer drifts.

    After ``fit`` the module holds the average. Lightning's own puts it there at the end of
    training, before the last checkpoint is written, which then has lost the training weights.

    Raises ``ValueError`` for a decay outside [0, 1).
    """

    def __init__(self, *, decay: float = 0.9999) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ema decay={decay}: expected a number in [0, 1)")
        self.decay = decay
        super().__init__(use_buffers=False, multi_avg_fn=self._average)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if self._average_model is not None:  # read in every step: on a GPU that would wait for it
            self._average_model.n_averaged = self._average_model.n_averaged.cpu()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave the training weights where they are, for the last checkpoint."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._copy_average_to_current(pl_module)

    @torch.no_grad()
    def _average(self, averaged: Any, current: Any, num_averaged: Tensor | int) -> None:
        assert self._average_model is not None
        n = int(self._average_model.n_averaged)
        decay = min(self.decay, (1 + n) / (10 + n))
        torch._foreach_lerp_(list(averaged), list(current), 1 - decay)

"""Samples longer than the windows that a model was trained on, window by window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.domains.text.prompts import UNKNOWN
from discrete_diffusion.sampling.model import Model


@dataclass(frozen=True)
class SampleLength:
    """N = ``num`` tokens of every sample of a model of windows of L = ``length``; ``context``: of
    windows that go on from others, None where N tokens and PAD make a window.

    The first window is a sample of the model. Each of the next begins with the last ``context``
    tokens before it and completes them, so that

        p(x_1..x_N) = p(x_1..x_L)  product over windows  p(next tokens | ``context`` tokens)

    with the conditionals of the model's sampler. The last window ends with the sample and has as
    much more context. A sample of N < L is the begin of a window.
    """

    num: int
    length: int
    context: int | None = None

    def model(self, model: Model) -> Model:
        """The model that samples them."""
        if self.context is None:
            return model
        of_model = {one.name: getattr(model, one.name) for one in fields(Model)}
        return WindowedModel(**of_model, size=self)

    def real(self, rows: int) -> Tensor:
        """Bool[rows, L], or of several windows Bool[rows, N]: positions that carry tokens."""
        columns = self.length if self.context is None else self.num
        return (torch.arange(columns) < self.num).expand(rows, -1)

    def windows(self, tokens: Tensor) -> Iterator[Tensor]:
        """Views Int[M, L] of ``tokens`` Int[M, max(N, L)], each to be filled before the next."""
        last = max(0, tokens.shape[1] - self.length)
        step = self.length - (self.context or 0)
        for start in (*range(0, last, step), last):
            yield tokens[:, start : start + self.length]

    def padded(self, tokens: Tensor) -> Tensor:
        """A copy of Int[M, N], ``UNKNOWN`` behind it up to a window."""
        behind = tokens.new_full((len(tokens), max(0, self.length - tokens.shape[1])), UNKNOWN)
        return torch.cat([tokens, behind], dim=1)

    @property
    def facts(self) -> dict[str, Any]:
        """Entries of ``metrics.json``."""
        is_longer = self.num > self.length
        return {"num_tokens": self.num, "context": self.context} if is_longer else {}


@dataclass(frozen=True)
class WindowedModel(Model):
    """A model of windows whose samples have the length ``size``."""

    size: SampleLength = SampleLength(1, 1)

    def sample_batch(
        self,
        real: Tensor,
        *,
        generator: torch.Generator,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
        keep_trajectory: bool = False,
    ) -> SampleOutput:
        """As of a ``Model``, for ``real`` Bool[B, N] and ``clamp`` Int[B, N]; conditions are those
        of a window, and there is no trajectory."""
        free = torch.full(real.shape, UNKNOWN)
        tokens = self.size.padded(free if clamp is None else clamp.cpu())
        outputs = []
        for window in self.size.windows(tokens):
            output = super().sample_batch(
                torch.ones_like(window, dtype=torch.bool),
                generator=generator,
                clamp=None if bool((window == UNKNOWN).all()) else window.clone(),
                conditions=conditions,
            )
            window.copy_(output.x0)
            outputs.append(output)
        return replace(
            outputs[0],
            x0=tokens[:, : self.size.num],
            nfe=torch.stack([output.nfe for output in outputs]).sum(dim=0),
            log_weights=torch.stack([output.log_weights for output in outputs]).sum(dim=0),
        )

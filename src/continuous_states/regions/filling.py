"""Held-out windows with rows hidden, and what a model makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from continuous_states.sampling.conditional_samples import (
    ConditionalSamples,
    Tensors,
    first_examples,
    sample_conditional,
)
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.data import Dataset, bucket_batches

if TYPE_CHECKING:
    from discrete_diffusion.sampling import Model

_MASK_STREAM, _FILL_STREAM = 70, 71
"""Keep masks and fillings apart from other samples with the same seed."""


@dataclass(frozen=True)
class Filling:
    """W windows of a split, in its order, with rows hidden; on the CPU.

    ``truth``: Float32[W, N, M]. ``real``: Bool[W, N], rows that exist. ``masked``: Bool[W, N], rows
    that were hidden. ``predicted``: Float32[W, N, M], by one network call. ``filled``: Float32
    [W, N, M] or None, by a sampler, with the network calls ``nfe`` Int[W]; both hold the truth in
    rows that were not hidden. ``seconds``: that the sampler took, of all processes together.
    """

    truth: Tensor
    real: Tensor
    masked: Tensor
    predicted: Tensor
    filled: Tensor | None = None
    nfe: Tensor | None = None
    seconds: float = 0.0

    def __len__(self) -> int:
        return self.truth.shape[0]

    def __getitem__(self, windows: slice) -> Filling:
        """Some windows; ``seconds`` stay those of all."""
        return Filling(
            *(self.truth[windows], self.real[windows], self.masked[windows]),
            self.predicted[windows],
            None if self.filled is None else self.filled[windows],
            None if self.nfe is None else self.nfe[windows],
            self.seconds,
        )


def sample_held_out_masks(real: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Bool[W, N]: rows to hide, each real one with probability ``rate``, and in every window at
    least one; of two real rows or more, at least one stays. ``real``: Bool[W, N].

    From one state of the generator, what is hidden at one rate is hidden at every higher one.
    Raises ``ValueError`` for a rate outside (0, 1).
    """
    if not 0 < rate < 1:
        raise ValueError(f"mask_rate={rate}: expected a share of the rows between 0 and 1")
    u = uniform_draws(tuple(real.shape), generator, real.device)
    masked = real & (u < rate)
    order = torch.where(real, u, 2.0).argsort(dim=1)  # real rows first, the likeliest to be hidden
    sizes = real.sum(dim=1)
    windows = torch.arange(len(real), device=real.device)
    first, last = order[:, 0], order[windows, (sizes - 1).clamp(min=0)]
    masked[windows, first] |= sizes > 0
    masked[windows, last] &= sizes < 2
    return masked


def fill_held_out(
    model: Model, data: Dataset, split: str, *, num: int | None, mask_rate: float, seed: int
) -> Filling:
    """Hide rows of the first ``num`` windows of a split (None: of all) and have them predicted, and
    filled if the model has a sampler.

    Windows of one size go together, at most ``model.batch_size`` at once. The masks are a function
    of ``seed``; what is filled, not what is predicted, depends on ``model.batch_size``, and nothing
    on the number of processes.

    Raises ``ValueError`` if the split is empty or ``num`` below 0.
    """
    examples = first_examples(data, split, num)
    truth, real = examples.x0.float(), examples.real
    masked = sample_held_out_masks(real, mask_rate, make_generator(seed, _MASK_STREAM))
    if len(truth) == 0:
        return Filling(truth, real, masked, truth)
    hidden = torch.where(masked.unsqueeze(-1), 0.0, truth)  # nobody is shown the answer
    windows = {"rows": hidden, "masked": masked, "real": real}
    batches = bucket_batches(real.sum(dim=1), model.rows_at_once)
    predicted = predict_rows(model, windows, batches)
    if model.sampler is None:
        return Filling(truth, real, masked, predicted)
    filled = fill_rows(model, windows, (seed, _FILL_STREAM), batches)
    done = slice(len(filled))
    return Filling(
        *(truth[done], real[done], masked[done], predicted[done]),
        *(filled.values["rows"], filled.values["nfe"], filled.seconds),
    )


def predict_rows(model: Model, windows: Tensors, batches: list[Tensor] | None = None) -> Tensor:
    """Float32[W, N, M]: masked rows as the algorithm expects them, by one network call.

    ``windows``: ``rows`` Float32[W, N, M], ``masked`` and ``real`` Bool[W, N]. ``batches``: as for
    ``sample_conditional``.
    """

    def predict(given: Tensors, generator: torch.Generator) -> Tensors:
        return {"rows": model.algorithm.predict(**given).float()}

    whole = replace(model, on_sampled=None)
    return sample_conditional(whole, windows, predict, entropy=(), batches=batches).values["rows"]


def fill_rows(
    model: Model, windows: Tensors, entropy: tuple[int, ...], batches: list[Tensor] | None = None
) -> ConditionalSamples:
    """Masked rows of the sampler: ``rows`` Float32[W, N, M] and ``nfe`` Int[W]; the arguments
    are those of ``predict_rows`` and ``sample_conditional``."""

    def fill(given: Tensors, generator: torch.Generator) -> Tensors:
        clamp = given["rows"].masked_fill(given["masked"].unsqueeze(-1), torch.nan)
        output = model.sampler.sample(
            model.algorithm, given["real"], clamp=clamp, generator=generator, steps=model.steps
        )
        return {"rows": output.x0.float(), "nfe": output.nfe}

    return sample_conditional(model, windows, fill, entropy=entropy, batches=batches)

"""Held-out windows with rows hidden, and what a model makes of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import HasMode, eval_mode
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.data import Dataset, bucket_batches
from discrete_diffusion.sampling import Sampler
from discrete_diffusion.shards import Shard

_MASK_STREAM, _FILL_STREAM = 70, 71
"""Keep masks and fillings apart from what else is drawn with the same seed."""


class RowPredictor(HasMode, Protocol):
    """An algorithm on rows of real numbers, as far as a measurement knows it."""

    def predict(self, rows: Tensor, masked: Tensor, real: Tensor) -> Tensor:
        """Float32[B, N, M]: the expected masked rows given the others, which are as they were."""
        ...


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


def draw_held_out_masks(real: Tensor, rate: float, generator: torch.Generator) -> Tensor:
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
    algorithm: RowPredictor,
    sampler: Sampler[Any] | None,
    data: Dataset,
    split: str,
    *,
    num: int | None,
    mask_rate: float,
    seed: int,
    steps: int | None = None,
    batch_size: int,
    device: torch.device | str = "cpu",
    shard: Shard | None = None,
) -> Filling:
    """Hide rows of the first ``num`` windows of a split (None: of all) and have them predicted, and
    filled by the sampler if there is one, in eval mode.

    Windows of one size go together, at most ``batch_size`` at once. ``shard``: every process asks
    for the same, works on some of the batches and returns all. The masks are a function of
    ``seed`` and each batch is filled with a generator of its own, so nothing depends on the number
    of processes; what is filled, not what is predicted, depends on ``batch_size``.

    Raises ``ValueError`` if the split is empty, ``num`` is below 0 or ``batch_size`` below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: expected at least 1")
    truth, real, masked = _hide_rows(data, split, num, mask_rate, seed)
    if len(truth) == 0:
        return Filling(truth, real, masked, truth)
    hidden = torch.where(masked.unsqueeze(-1), 0.0, truth)  # nobody is shown the answer
    batches = bucket_batches(real.sum(dim=1), batch_size)

    def work(numbered: tuple[int, Tensor]) -> _Part:
        k, windows = numbered
        generator = make_generator(seed, _FILL_STREAM, k, device=device)
        given = (x[windows].to(device) for x in (hidden, masked, real))
        return _fill_batch(algorithm, sampler, *given, generator=generator, steps=steps)

    with eval_mode(algorithm):
        parts = (shard or Shard()).map(work, enumerate(batches))
    back = torch.cat(batches).argsort()
    return Filling(
        truth=truth,
        real=real,
        masked=masked,
        predicted=torch.cat([part.predicted for part in parts])[back],
        filled=_joined([part.filled for part in parts], back),
        nfe=_joined([part.nfe for part in parts], back),
        seconds=sum(part.seconds for part in parts),
    )


def _hide_rows(
    data: Dataset, split: str, num: int | None, mask_rate: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """``truth``, ``real`` and ``masked`` of a ``Filling``, of the first ``num`` windows."""
    examples = data.splits[split]
    if len(examples) == 0:
        raise ValueError(f"the {split} split is empty; give it more data or another share")
    if num is not None and num < 0:
        raise ValueError(f"num={num}: expected at least 0")
    real = examples.real[:num]
    masked = draw_held_out_masks(real, mask_rate, make_generator(seed, _MASK_STREAM))
    return examples.x0[:num].float(), real, masked


@dataclass(frozen=True)
class _Part:
    """What was made of one batch; as in ``Filling``."""

    predicted: Tensor
    filled: Tensor | None = None
    nfe: Tensor | None = None
    seconds: float = 0.0


def _fill_batch(
    algorithm: RowPredictor,
    sampler: Sampler[Any] | None,
    rows: Tensor,
    masked: Tensor,
    real: Tensor,
    *,
    generator: torch.Generator,
    steps: int | None,
) -> _Part:
    predicted = algorithm.predict(rows, masked, real).float().cpu()
    if sampler is None:
        return _Part(predicted)
    start = time.perf_counter()
    clamp = rows.masked_fill(masked.unsqueeze(-1), torch.nan)
    output = sampler.sample(algorithm, real, clamp=clamp, generator=generator, steps=steps)
    filled, nfe = output.x0.float().cpu(), output.nfe.cpu()
    return _Part(predicted, filled, nfe, time.perf_counter() - start)


def _joined(parts: list[Tensor | None], back: Tensor) -> Tensor | None:
    """The parts in the order ``back``; None if there are none."""
    present = [part for part in parts if part is not None]
    return torch.cat(present)[back] if present else None

"""Held-out images drawn from their maps, and from the maps of others."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange, repeat
from torch import Tensor

from discrete_diffusion.algorithms.base import HasMode, eval_mode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import Dataset, Examples
from discrete_diffusion.sampling import Sampler
from discrete_diffusion.shards import Shard

DRAWS = 8
_DRAW_STREAM = 74
"""Keeps these draws apart from what else is drawn with the same seed."""


def as_images(x0: Tensor, levels: Sequence[float] | None) -> Tensor:
    """Samples as images, Float32[M, C, H, W]: those of a field as they are, ids Int[M, L] of the
    pixels of a square by their ``levels``, those of the data set.

    Raises ``ValueError`` for ids whose number is not a square, or that stand for no level.
    """
    if x0.is_floating_point():
        return x0.float()
    side = math.isqrt(x0.shape[1])
    if side * side != x0.shape[1]:
        raise ValueError(
            f"{x0.shape[1]} ids per sample are no square image; expected size x size of them"
        )
    values = torch.tensor(levels or (), device=x0.device)
    if x0.numel() and not 0 <= int(x0.min()) <= int(x0.max()) < len(values):
        raise ValueError(
            f"ids from {int(x0.min())} to {int(x0.max())}; expected those of {len(values)} levels, "
            "from 0 on"
        )
    return rearrange(values[x0.long()], "m (h w) -> m 1 h w", h=side)


def maps_of(examples: Examples) -> Tensor:
    """Float32[M, n, n]: the maps of a split; ``ValueError`` if it has none."""
    if "dtn" not in examples.conditions:
        raise ValueError("this data has no maps to draw from; use data=eit or data=eit-levels")
    return examples.conditions["dtn"].float()


@dataclass(frozen=True)
class Reconstructions:
    """M samples of a split, in its order, and what was drawn of each; on the CPU.

    ``truth``: Float32[M, C, H, W], raw. ``dtn``: Float32[M, n, n], the maps. ``mean``,
    ``deviation``: Float32[M, C, H, W], mean and standard deviation over the ``draws`` images drawn
    from the sample's own map (the deviation of one draw is 0). ``first``: Float32[M, C, H, W], the
    first of them. ``shuffled_mean``: Float32[M, C, H, W], the mean of as many drawn from the map of
    the sample before, with the same noise; None if there is one sample. ``nfe``: Float64[M],
    network calls per draw. ``seconds``: that the sampler took for draws from own maps, of all
    processes together. ``levels``: those of the data set.
    """

    truth: Tensor
    dtn: Tensor
    mean: Tensor
    deviation: Tensor
    first: Tensor
    shuffled_mean: Tensor | None
    nfe: Tensor
    draws: int
    seconds: float = 0.0
    levels: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return self.truth.shape[0]


def reconstruct_held_out(
    algorithm: HasMode,
    sampler: Sampler[Any],
    data: Dataset,
    split: str,
    *,
    num: int | None,
    draws: int = DRAWS,
    seed: int,
    steps: int | None = None,
    batch_size: int,
    device: torch.device | str = "cpu",
    shard: Shard | None = None,
) -> Reconstructions:
    """Draw ``draws`` images from the map of each of the first ``num`` samples of a split (None: of
    all), in eval mode; and as many from the map of the sample before it (the last one's for the
    first), with the same noise: a model that does not use its map draws the same images.

    Ids that a sampler of tokens draws stand for the levels of pixels. At most ``batch_size`` images
    are drawn at once. ``shard``: every process asks for the same, works on some of the batches and
    returns all. Each batch has a generator of its own, so nothing depends on the number of
    processes; images depend on ``batch_size`` and ``draws``.

    Raises ``ValueError`` if the split is empty or comes without maps, for ``num`` below 0, or
    ``batch_size`` or ``draws`` below 1.
    """
    examples = data.splits[split]
    if len(examples) == 0:
        raise ValueError(f"the {split} split is empty; give it more data or another share")
    _check_numbers(num, batch_size, draws)
    truth, dtn = as_images(examples.x0[:num], data.levels), maps_of(examples)[:num]
    conditions = {name: value[:num] for name, value in examples.conditions.items()}
    others = {name: value.roll(1, dims=0) for name, value in conditions.items()}
    drawing = _Drawing(
        algorithm=algorithm,
        sampler=sampler,
        shape=tuple(truth.shape[1:]),
        levels=data.levels,
        draws=draws,
        steps=steps,
        batch_size=batch_size,
        device=device,
    )
    batches = torch.arange(len(truth)).split(max(1, batch_size // draws)) if len(truth) else ()

    def work(numbered: tuple[int, Tensor]) -> _Part:
        k, rows = numbered
        own = {name: x[rows] for name, x in conditions.items()}
        of_others = {name: x[rows] for name, x in others.items()} if len(truth) > 1 else None
        return drawing.part(own, of_others, (seed, _DRAW_STREAM, k))

    with eval_mode(algorithm):
        parts = [_Part.empty(truth), *(shard or Shard()).map(work, enumerate(batches))]
    return _joined(parts, truth, dtn, draws, data.levels)


def _check_numbers(num: int | None, batch_size: int, draws: int) -> None:
    for name, value, least in (("num", num, 0), ("batch_size", batch_size, 1), ("draws", draws, 1)):
        if value is not None and value < least:
            raise ValueError(f"{name}={value}: expected at least {least}")


@dataclass(frozen=True)
class _Part:
    """What was made of one batch; as in ``Reconstructions``."""

    mean: Tensor
    deviation: Tensor
    first: Tensor
    shuffled_mean: Tensor
    nfe: Tensor
    seconds: float = 0.0

    @classmethod
    def empty(cls, truth: Tensor) -> _Part:
        none = truth[:0]
        return cls(none, none, none, none, torch.zeros(0, dtype=torch.float64))


def _joined(
    parts: Sequence[_Part],
    truth: Tensor,
    dtn: Tensor,
    draws: int,
    levels: tuple[float, ...] | None,
) -> Reconstructions:
    """Batches in the order of their samples."""
    return Reconstructions(
        truth=truth,
        dtn=dtn,
        mean=torch.cat([part.mean for part in parts]),
        deviation=torch.cat([part.deviation for part in parts]),
        first=torch.cat([part.first for part in parts]),
        shuffled_mean=torch.cat([part.shuffled_mean for part in parts]) if len(truth) > 1 else None,
        nfe=torch.cat([part.nfe for part in parts]),
        draws=draws,
        seconds=sum(part.seconds for part in parts),
        levels=levels,
    )


@dataclass(frozen=True)
class _Drawing:
    """Draws batches; ``shape``: (C, H, W), the rest as in ``reconstruct_held_out``."""

    algorithm: Any
    sampler: Sampler[Any]
    shape: tuple[int, ...]
    levels: tuple[float, ...] | None
    draws: int
    steps: int | None
    batch_size: int
    device: torch.device | str

    def part(
        self, own: Mapping[str, Tensor], others: Mapping[str, Tensor] | None, entropy: Sequence[int]
    ) -> _Part:
        """Of samples with ``own`` conditions, and from those of ``others``, b rows each, with
        generators made of ``entropy``, alike."""
        start = time.perf_counter()
        images, nfe = self._draw(own, entropy)
        seconds = time.perf_counter() - start
        shuffled = images[:0] if others is None else self._draw(others, entropy)[0]
        return _Part(
            mean=images.mean(dim=1),
            deviation=images.std(dim=1, correction=1 if self.draws > 1 else 0),
            first=images[:, 0],
            shuffled_mean=shuffled.mean(dim=1),
            nfe=nfe.double().mean(dim=1),
            seconds=seconds,
        )

    def _draw(
        self, conditions: Mapping[str, Tensor], entropy: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """``draws`` images per row, Float32[b, draws, C, H, W], and their network calls Int[b,
        draws]; on the CPU."""
        generator = make_generator(*entropy, device=self.device)
        repeated = {
            name: repeat(x, "b ... -> (b d) ...", d=self.draws) for name, x in conditions.items()
        }
        positions = (math.prod(self.shape),) if self.sampler.state == "tokens" else self.shape
        images, nfe = [], []
        for rows in torch.arange(len(repeated["dtn"])).split(self.batch_size):
            output = self.sampler.sample(
                self.algorithm,
                torch.ones(len(rows), *positions, dtype=torch.bool, device=self.device),
                generator=generator,
                steps=self.steps,
                conditions={name: x[rows].to(self.device) for name, x in repeated.items()},
            )
            drawn = as_images(output.x0, self.levels)
            images.append(drawn.reshape(len(rows), *self.shape).cpu())
            nfe.append(output.nfe.cpu())
        by_sample = "(b d) ... -> b d ..."
        return (
            rearrange(torch.cat(images), by_sample, d=self.draws),
            rearrange(torch.cat(nfe), by_sample, d=self.draws),
        )

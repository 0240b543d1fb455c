"""Images sampled given the maps of held-out samples, and given the maps of others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from einops import rearrange, repeat
from torch import Tensor

from continuous_states.arrays import write_npz
from continuous_states.eit.levels import levels_to_conductivity
from continuous_states.sampling.conditional_samples import (
    ConditionalSamples,
    Tensors,
    first_examples,
    sample_conditional,
    sampled_from_others,
)
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from discrete_diffusion.sampling import Model

DRAWS = 8
RECONSTRUCTIONS = "samples.npz"
_DRAW_STREAM = 74
"""Keeps these samples apart from others with the same seed."""


def as_images(x0: Tensor) -> Tensor:
    """Samples as images, Float32[M, C, H, W]: fields as they are, ids Int[M, L] of the pixels of a
    square image as their conductivities.

    Raises ``ValueError`` for ids whose number is not a square, or that stand for no level.
    """
    if x0.is_floating_point():
        return x0.float()
    side = math.isqrt(x0.shape[1])
    if side * side != x0.shape[1]:
        raise ValueError(
            f"{x0.shape[1]} ids per sample do not make a square image; expected size x size"
        )
    return rearrange(levels_to_conductivity(x0), "m (h w) -> m 1 h w", h=side)


def maps_of(examples: Examples) -> Tensor:
    """Float32[M, n, n]: the maps of a split; ``ValueError`` if it has none."""
    if "dtn" not in examples.conditions:
        raise ValueError("this data has no maps to condition on; use data=eit or data=eit-levels")
    return examples.conditions["dtn"].float()


@dataclass(frozen=True)
class Reconstructions:
    """M samples of a split, in its order, and the images sampled for each; on the CPU.

    ``truth``: Float32[M, C, H, W], raw. ``dtn``: Float32[M, n, n], the maps. ``mean``,
    ``deviation``: Float32[M, C, H, W], mean and standard deviation over the ``draws`` images
    sampled given the sample's own map (the deviation of one is 0). ``first``: Float32[M, C, H, W],
    the first of them. ``shuffled_mean``: Float32[M, C, H, W], the mean of as many given the map of
    the sample before, with the same noise; None if there is one sample. ``nfe``: Float64[M],
    network calls per image. ``seconds``: spent sampling given own maps, summed over processes.
    ``levels``: those of the data set.
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

    def write(self, folder: Path) -> None:
        """Write ``samples.npz`` into a folder: ``truth``, ``mean``, ``deviation`` and ``first``
        Float32[M, C, H, W], ``dtn`` Float32[M, n, n]. It holds no pickle."""
        names = ("truth", "dtn", "mean", "deviation", "first")
        write_npz(folder / RECONSTRUCTIONS, {name: getattr(self, name).numpy() for name in names})


def reconstruct_held_out(
    model: Model, data: Dataset, split: str, *, num: int | None, draws: int = DRAWS, seed: int
) -> Reconstructions:
    """Draw ``draws`` images from the map of each of the first ``num`` samples of a split (None: of
    all); and as many from the map of the sample before it (the last one's for the first), with the
    same noise: a model that does not use its map gives the same images.

    At most ``model.batch_size`` images are sampled at once; they depend on it and on ``draws``, not
    on the number of processes. Of a sampler of ids, pixels are the levels of the ids.

    Raises ``ValueError`` if the split is empty or comes without maps, for ``num`` below 0 or
    ``draws`` below 1.
    """
    if draws < 1:
        raise ValueError(f"draws={draws}: expected at least 1")
    examples = first_examples(data, split, num)
    truth, dtn = as_images(examples.x0), maps_of(examples)
    if len(truth) == 0:
        calls = torch.zeros(0, dtype=torch.float64)
        return Reconstructions(
            truth, dtn, truth, truth, truth, None, calls, draws, levels=data.levels
        )

    def draw(conditions: Tensors, generator: torch.Generator) -> Tensors:
        return _sample_images(model, conditions, generator, tuple(truth.shape[1:]), draws)

    def drawn_from(model: Model, conditions: Tensors) -> ConditionalSamples:
        batches = list(torch.arange(len(truth)).split(max(1, model.rows_at_once // draws)))
        entropy = (seed, _DRAW_STREAM)
        return sample_conditional(model, conditions, draw, batches=batches, entropy=entropy)

    own, shuffled_mean = drawn_from(model, examples.conditions), None
    if 1 < len(truth) == len(own):
        others = {name: values.roll(1, dims=0) for name, values in examples.conditions.items()}
        shuffled = sampled_from_others(model, lambda model: drawn_from(model, others))
        shuffled_mean = None if shuffled is None else shuffled.values["mean"]
    return Reconstructions(
        truth[: len(own)],
        dtn[: len(own)],
        **own.values,
        shuffled_mean=shuffled_mean,
        draws=draws,
        seconds=own.seconds,
        levels=data.levels,
    )


def _sample_images(
    model: Model,
    conditions: Tensors,
    generator: torch.Generator,
    shape: tuple[int, ...],
    draws: int,
) -> Tensors:
    """``mean``, ``deviation``, ``first`` and ``nfe`` of ``draws`` images of ``shape`` (C, H, W) per
    row of the conditions."""
    repeated = {name: repeat(x, "b ... -> (b d) ...", d=draws) for name, x in conditions.items()}
    positions = (math.prod(shape),) if model.sampler.state == "tokens" else shape
    images, nfe = [], []
    parts = torch.arange(len(repeated["dtn"])).split(model.rows_at_once)
    for rows in progress.track(parts, "images", "batches") if len(parts) > 1 else parts:
        output = model.sampler.sample(
            model.algorithm,
            torch.ones(len(rows), *positions, dtype=torch.bool, device=model.device),
            generator=generator,
            steps=model.steps,
            conditions={name: x[rows] for name, x in repeated.items()},
        )
        images.append(as_images(output.x0).reshape(len(rows), *shape).cpu())
        nfe.append(output.nfe.cpu())
    by_sample = rearrange(torch.cat(images), "(b d) ... -> b d ...", d=draws)
    return {
        "mean": by_sample.mean(dim=1),
        "deviation": by_sample.std(dim=1, correction=1 if draws > 1 else 0),
        "first": by_sample[:, 0],
        "nfe": rearrange(torch.cat(nfe).double(), "(b d) -> b d", d=draws).mean(dim=1),
    }

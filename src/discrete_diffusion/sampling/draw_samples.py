"""Many samples, in batches of equal size."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.types import SampleOutput


def draw_samples(
    sampler: Sampler,
    algorithm: Algorithm,
    real: Tensor,
    *,
    generator: torch.Generator,
    steps: int | None = None,
    batch_size: int = 1024,
) -> SampleOutput:
    """One sample per row of ``real`` Bool[M, L], on the CPU, in the rows' order.

    Rows of one size are sampled together, so that their batches hold no PAD.
    """
    device = algorithm.layout.support.device
    order = real.sum(dim=1).argsort(stable=True)
    outputs = [
        sampler.sample(algorithm, real[rows].to(device), generator=generator, steps=steps)
        for rows in order.split(batch_size)
    ]
    back = order.argsort()

    def joined(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts).cpu()[back]

    return SampleOutput(
        tokens=joined([output.tokens for output in outputs]),
        nfe=joined([output.nfe for output in outputs]),
        log_weights=joined([output.log_weights for output in outputs]),
    )

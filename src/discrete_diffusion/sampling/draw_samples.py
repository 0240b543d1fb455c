"""Many samples, in batches of equal size."""

from __future__ import annotations

from dataclasses import replace

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
    clamp: Tensor | None = None,
    trajectories: int = 0,
) -> SampleOutput:
    """One sample per row of ``real`` Bool[M, L], on the CPU, in the rows' order.

    ``clamp``: Int[M, L], see ``Sampler.sample``. Rows of one size are sampled together, so that
    their batches hold no PAD; in a trajectory, those that are finished early keep their last state.
    ``trajectories``: keep the states of the first so many rows, Int[K, min(trajectories, M), L].
    """
    device = algorithm.layout.support.device
    order = real.sum(dim=1).argsort(stable=True)
    outputs, kept_states = [], []
    for rows in order.split(batch_size):
        kept = rows < trajectories
        output = sampler.sample(
            algorithm,
            real[rows].to(device),
            generator=generator,
            steps=steps,
            clamp=None if clamp is None else clamp[rows].to(device),
            keep_trajectory=bool(kept.any()),
        )
        if output.trajectory is not None:
            kept_states.append(output.trajectory.cpu()[:, kept])
        outputs.append(replace(output, trajectory=None))
    back = order.argsort()

    def joined(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts).cpu()[back]

    return SampleOutput(
        tokens=joined([output.tokens for output in outputs]),
        nfe=joined([output.nfe for output in outputs]),
        log_weights=joined([output.log_weights for output in outputs]),
        trajectory=_joined_trajectories(kept_states, order[order < trajectories].argsort()),
    )


def _joined_trajectories(parts: list[Tensor], back: Tensor) -> Tensor | None:
    """Int[K, M, L], the shorter of Int[K_i, M_i, L] lengthened by their last state."""
    if not parts:
        return None
    longest = max(map(len, parts))
    full = [torch.cat([part, part[-1:].expand(longest - len(part), -1, -1)]) for part in parts]
    return torch.cat(full, dim=1)[:, back]

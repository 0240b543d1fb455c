"""Noise and place of a measurement of a trained algorithm, and the positions that count."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.runtime.shards import Shard


@dataclass(frozen=True)
class MeasurementSettings:
    """Noise of a measurement, the device it runs on and the processes that share its batches.

    ``entropy``: a seed, and numbers that keep the noise apart from what else is sampled with it.
    ``shard``: every process is given all batches, measures some and returns the result of all. The
    noise is that of the batch, so the result does not depend on the number of processes.
    """

    entropy: tuple[int, ...]
    device: torch.device | str = "cpu"
    shard: Shard = field(default_factory=Shard)

    def generator(self, *numbers: int) -> torch.Generator:
        """That of one pass, such as (batch, draw), on ``device``."""
        return make_generator(*self.entropy, *numbers, device=self.device)


def uncertain_positions(process: ForwardProcess, xt: Tensor, real: Tensor) -> Tensor:
    """Bool[B, L]: real positions whose clean id xt does not give away.

    Under an absorbing process those are the MASKs. Under any other, a noisy token may or may not be
    the clean one, and the network cannot know: every real position counts.
    """
    return (xt == process.layout.mask_id) & real if process.absorbing else real

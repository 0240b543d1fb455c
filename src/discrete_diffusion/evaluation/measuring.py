"""Mask of the positions at which a prediction says anything."""

from __future__ import annotations

from torch import Tensor

from discrete_diffusion.forward_process.base import ForwardProcess


def uncertain_positions(process: ForwardProcess, xt: Tensor, real: Tensor) -> Tensor:
    """Bool[B, L]: real positions whose clean id xt does not give away.

    Under an absorbing process those are the MASKs. Under any other, a noisy token may or may not be
    the clean one, and the network cannot know: every real position counts.
    """
    return (xt == process.layout.mask_id) & real if process.absorbing else real

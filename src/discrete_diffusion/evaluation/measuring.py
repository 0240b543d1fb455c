"""How an algorithm is measured: left as it was found, where its predictions say anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from discrete_diffusion.forward_process import ForwardProcess


class HasMode(Protocol):
    """A network, as far as its mode goes."""

    training: bool

    def train(self, mode: bool = True) -> Any: ...

    def eval(self) -> Any: ...


@contextmanager
def eval_mode(algorithm: HasMode) -> Iterator[None]:
    """No dropout and no gradients inside the block; the mode it was in afterwards."""
    was_training = algorithm.training
    algorithm.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        algorithm.train(was_training)


def uncertain_positions(process: ForwardProcess, xt: Tensor, real: Tensor) -> Tensor:
    """Bool[B, L]: real positions whose clean id xt does not give away.

    Under an absorbing process those are the MASKs. Under any other, a noisy token may or may not be
    the clean one, and the network is not told: every real position counts.
    """
    return (xt == process.layout.mask_id) & real if process.absorbing else real

"""Measurements leave an algorithm as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from discrete_diffusion.algorithms import Algorithm


@contextmanager
def eval_mode(algorithm: Algorithm) -> Iterator[None]:
    """No dropout and no gradients inside the block; the mode it was in afterwards."""
    was_training = algorithm.training
    algorithm.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        algorithm.train(was_training)

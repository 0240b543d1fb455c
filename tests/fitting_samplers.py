"""Samplers that fit an algorithm."""

from __future__ import annotations

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.sampling.registry import SAMPLERS, check_sampler


def fitting_samplers(algorithm: Algorithm) -> list[str]:
    """Names of the samplers that sample the model that an algorithm trains.

    Args:
        algorithm: the algorithm.

    Returns:
        The names, in the order of the registry.
    """

    def fits(name: str) -> bool:
        try:
            check_sampler(SAMPLERS.find(name)(), algorithm)
        except ValueError:
            return False
        return True

    return [name for name in SAMPLERS.all() if fits(name)]

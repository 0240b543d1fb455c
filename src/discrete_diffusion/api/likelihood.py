"""``load(...).log_prob``: log p of samples under one sampler of a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.checkpoints.contents import Checkpoint
from discrete_diffusion.contracts import Batch
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.sampling.guidance import check_given
from discrete_diffusion.sampling.likelihood import Order, order_log_probs, order_sampler


def log_prob(checkpoint: Checkpoint, samples: Any, order: Order) -> Tensor:
    """log p of samples as they are, in the order of their nodes if they have any, in nats.

    That of the sampler ``sampling=entropy-bounded sampling.budget=0 sampling.order=ORDER``, exactly
    and in the same bits whatever samples come together; given their numbers of tokens.

    Args:
        checkpoint: of ``load``, which provides it.
        samples: as ``sample`` returns them, or tokens Int[M, L].
        order: ``entropy``, ``margin``, ``max-probability``, ``most-uncertain`` or
            ``left-to-right``; a list of all positions, the first to reveal first; of students
            ``plan``.

    Returns:
        Float64[M].

    Raises:
        ValueError: the model is not one of tokens that are masked, samples are given a condition,
            the order leads to a sample by many paths, or a sample has ids that are not legal.
    """
    algorithm, data = checkpoint.algorithm, checkpoint.config.data
    if algorithm.state != "tokens" or algorithm.layout.num_given:
        raise ValueError(
            f"log_prob is of samples of tokens that are given nothing; {algorithm.name} of "
            f"data={data.name} has none: evaluate() measures its bound"
        )
    check_given(algorithm, None)
    order_sampler(algorithm, order, key="order")
    layout = algorithm.layout
    if isinstance(samples, str) or not hasattr(samples, "__len__"):
        raise ValueError(
            "samples: expected a list of them, as sample returns it, or tokens [M, L]; got one "
            f"{type(samples).__name__}; of one sample give [it]"
        )
    tokens = samples if isinstance(samples, Tensor) else domain_of(data).tokens(data, samples)
    tokens = tokens.to(layout.support.device)
    layout.check(tokens)
    if len(tokens) == 0:
        return torch.zeros(0, dtype=torch.float64)
    return order_log_probs(algorithm, Batch(tokens, layout.is_real(tokens)), order).cpu()

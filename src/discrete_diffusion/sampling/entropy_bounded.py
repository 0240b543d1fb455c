"""Entropy-bounded unmasking: as many tokens per call as can be drawn apart without much harm."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.sampling.scores import SCORES, entropy_of
from discrete_diffusion.sampling.unmasking import Unmasking

_ROUNDING = 1e-6
"""Nats: what float32 leaves of a sum of entropies less its largest."""


class EntropyBounded(Unmasking):
    """Reveal the longest run of positions 1..k, in ``order``, with

        H_1 + ... + H_k - max(H_1, ..., H_k) <= budget,      H_l the entropy of D_l, nats

    (EB, Ben-Hamu et al., arXiv 2505.24857). The left side bounds the information that the k tokens
    have on each other, which is what drawing them independently loses in this call. The first is
    always revealed: budget 0 is one token per call, exact where D is, unless tokens are certain.

    ``order``: ``random``, every order equally likely, as in training; or, as published,
    ``entropy``, least first, ``margin`` or ``confidence``. Deviation: ``random`` is the default,
    because the others keep less of the distribution of a trained network.

    Raises ``ValueError`` for a negative budget, an unknown order, or if ``steps`` is given.
    """

    name = "entropy-bounded"

    def __init__(
        self,
        *,
        budget: float = 1.2,
        order: str = "random",
        groups_in_turn: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
        guidance: float = 1.0,
    ) -> None:
        super().__init__(
            groups_in_turn=groups_in_turn,
            temperature=temperature,
            top_p=top_p,
            guidance=guidance,
        )
        if not 0 <= budget < float("inf"):
            raise ValueError(
                f"sampling.budget={budget}: expected nats per call, a finite number >= 0"
            )
        if order not in SCORES:
            raise ValueError(unknown_name("sampling.order", order, SCORES))
        self.budget, self.order = float(budget), order

    def _number(
        self, log_d0: Tensor, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        entropy = torch.zeros(here.shape, dtype=torch.float64, device=here.device)
        entropy[here] = entropy_of(log_d0).double()
        entropy = entropy.gather(1, order)  # first to last
        lost = entropy.cumsum(dim=1) - entropy.cummax(dim=1).values
        return (lost <= self.budget + _ROUNDING).sum(dim=1, keepdim=True)

    def check_steps(self, algorithm: TokenAlgorithm, steps: int | None) -> None:
        if steps is not None:
            raise ValueError(
                "entropy-bounded sampling chooses its own number of calls; leave steps unset and "
                "set sampling.budget"
            )

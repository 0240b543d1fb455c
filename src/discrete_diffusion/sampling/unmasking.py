"""``Unmasking``: what samplers share that choose the next tokens by the network's predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import draw
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.scores import SCORES
from discrete_diffusion.sampling.share import (
    check_tokens_per_call,
    number_of_calls,
    time_of_masked_share,
)
from discrete_diffusion.types import SampleRequest


class Unmasking(Sampler):
    """Ask the network about all MASKs, reveal those that come first by some score, and ask again.

    t is always the time at which as many of the real positions are masked as really are (of the
    block's, for algorithms with ``blocks``): a network is shown the noise that it is told. Every
    call reveals at least one token, so a sample costs at most one call per free token.

    A score that reads the distributions alone leaves one token per call exact, if D is and does not
    depend on t: any order chosen from what is visible is. One that reads the tokens drawn is not.

    ``tokens_per_call``: how many a call reveals at most; ``steps`` says instead how many calls are
    made, among which the tokens are spread evenly (per block, and per group in turn).
    ``groups_in_turn``: fill the layout's groups one after the other, all rooms before any relation.
    """

    absorbing_only = True
    order: str
    """The score, one of ``SCORES``."""

    def __init__(
        self,
        *,
        tokens_per_call: int = 1,
        groups_in_turn: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> None:
        super().__init__(temperature=temperature, top_p=top_p)
        check_tokens_per_call(tokens_per_call)
        self.tokens_per_call, self.groups_in_turn = tokens_per_call, groups_in_turn

    def _chosen(self, log_d0: Tensor, here: Tensor, order: Tensor, number: Tensor) -> Tensor:
        """Bool[R, L]: the positions to reveal.

        ``log_d0``: Float[N, V], D at the N candidates ``here`` Bool[R, L]. ``order``: Int[R, L],
        positions by score, candidates first. ``number``: Int[R, 1], how many are asked for.
        """
        return (order.argsort(dim=1) < number) & here

    def _run(self, algorithm: Algorithm, request: SampleRequest, draft: Draft) -> None:
        layout, blocks = algorithm.layout, algorithm.blocks
        for block in [None] if blocks is None else blocks.unique():
            clock = request.real if block is None else request.real & (blocks == block)
            for group in layout.group.unique() if self.groups_in_turn else [None]:
                turn = draft.free & clock
                turn = turn if group is None else turn & (layout.group == group)
                self._fill(algorithm, request, draft, turn, clock)

    def _fill(
        self,
        algorithm: Algorithm,
        request: SampleRequest,
        draft: Draft,
        turn: Tensor,
        clock: Tensor,
    ) -> None:
        """Reveal the positions ``turn`` Bool[B, L]; ``clock`` Bool[B, L]: those that t counts."""
        mask_id = algorithm.layout.mask_id
        num = turn.sum(dim=1, keepdim=True).clamp(min=1)  # n, (B, 1)
        calls = number_of_calls(self.tokens_per_call, request.steps, turn).clamp(min=1)  # C
        while True:
            masked = draft.x == mask_id
            rows = (masked & turn).any(dim=1).nonzero().squeeze(1)
            if rows.numel() == 0:
                return
            x_t, real, here = draft.x[rows], request.real[rows], (masked & turn)[rows]
            t = time_of_masked_share(algorithm, masked[rows], clock[rows])
            log_d0 = algorithm.denoise(x_t, t, real, request.conditions_of(rows))  # (R, L, V)
            support = request.support_of(rows)
            if support is not None:
                support = (support & algorithm.layout.support)[here]
            log_d0, log_kept = self._shaped(log_d0[here], support)  # (N, V), (N,)
            tokens = draw(log_d0, request.generator)
            score = torch.full(here.shape, -torch.inf, dtype=torch.float64, device=here.device)
            score[here] = SCORES[self.order](log_d0, tokens, request.generator).double()
            order = score.argsort(dim=1, descending=True, stable=True)
            done = num[rows] - here.sum(dim=1, keepdim=True)
            call = done * calls[rows] // num[rows]
            number = -(-(call + 1) * num[rows] // calls[rows]) - done
            chosen = self._chosen(log_d0, here, order, number)
            reveal = torch.zeros_like(turn)
            reveal[rows] = chosen
            draft.write(reveal, tokens[chosen[here]], log_kept[chosen[here]])
            draft.nfe[rows] += 1
            draft.record()

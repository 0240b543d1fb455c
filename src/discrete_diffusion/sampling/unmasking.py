"""``Unmasking``: what samplers share that choose the next tokens by the network's predictions."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from discrete_diffusion.categorical import draw
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.sampling.calls import (
    check_tokens_per_call,
    number_of_calls,
    time_of_masked_share,
)
from discrete_diffusion.sampling.draft import Draft, Turn
from discrete_diffusion.sampling.scores import READ_TOKENS, SCORES


class Unmasking(Sampler):
    """Ask the network about all MASKs, reveal those that come first by some score, and ask again.

    t is always the time at which as many of the real positions are masked as really are (of the
    block's, for algorithms with ``blocks``): a network is shown the noise that it is told. Every
    call reveals at least one token, so a sample costs at most one call per free token.

    A score that reads the distributions alone leaves one token per call exact, if D is and does not
    depend on t: any order chosen from what is visible is. One that reads the tokens drawn is not.

    ``groups_in_turn``: fill the layout's groups one after the other, all nodes before any edge.
    """

    absorbing_only = True
    order: str
    """The score, one of ``SCORES``."""

    def __init__(
        self,
        *,
        groups_in_turn: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
        guidance: float = 1.0,
    ) -> None:
        super().__init__(temperature=temperature, top_p=top_p, guidance=guidance)
        self.groups_in_turn = groups_in_turn

    @abstractmethod
    def _number(
        self, log_d0: Tensor, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        """Int[R, 1]: how many tokens to reveal, at least 1.

        ``log_d0``: Float[N, V], D before it is narrowed, at the N MASKs ``here`` Bool[R, L] whose
        turn it is. ``order``: Int[R, L], positions by score, those MASKs first. ``num``: Int[R, 1],
        how many the turn had to begin with. ``steps``: what the request says.
        """

    def _run(self, draft: Draft) -> None:
        group = draft.algorithm.layout.group
        for turn in draft.turns:
            if not self.groups_in_turn:
                self._fill(draft, turn)
                continue
            for g in group.unique():
                self._fill(draft, Turn(turn.free & (group == g), turn.clock))

    def _fill(self, draft: Draft, turn: Turn) -> None:
        num = turn.free.sum(dim=1, keepdim=True)
        generator = draft.request.generator
        while True:
            masked = draft.masked
            waiting = masked & turn.free
            rows = waiting.any(dim=1).nonzero().squeeze(1)
            if rows.numel() == 0:
                return
            here = waiting[rows]
            t = time_of_masked_share(draft.algorithm, masked[rows], turn.clock[rows])
            wide_d0, support = self._ask(draft, rows, here, t)
            log_d0, log_kept = self._shaped(wide_d0, support)  # (N, V), (N,)
            wide_d0 = log_d0 if support is None else self._shaped(wide_d0, None)[0]
            tokens = draw(log_d0, generator) if self.order in READ_TOKENS else None
            score = torch.full(here.shape, -torch.inf, dtype=torch.float64, device=here.device)
            score[here] = SCORES[self.order](log_d0, tokens, generator).double()
            order = score.argsort(dim=1, descending=True, stable=True)
            number = self._number(wide_d0, here, order, num[rows], draft.request.steps)
            chosen = (order.argsort(dim=1) < number) & here
            picked = chosen[here]  # (N,)
            reveal = torch.zeros_like(waiting)
            reveal[rows] = chosen
            new = draw(log_d0[picked], generator) if tokens is None else tokens[picked]
            draft.write(reveal, new, log_kept[picked])
            draft.record()


class EvenUnmasking(Unmasking):
    """As many tokens in every call.

    ``tokens_per_call``: how many at most; ``steps`` says instead how many calls are made, among
    which the tokens are spread evenly (per block, and per group in turn).
    """

    def __init__(
        self,
        *,
        tokens_per_call: int = 1,
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
        check_tokens_per_call(tokens_per_call)
        self.tokens_per_call = tokens_per_call

    def _number(
        self, log_d0: Tensor, here: Tensor, order: Tensor, num: Tensor, steps: int | None
    ) -> Tensor:
        calls = number_of_calls(self.tokens_per_call, steps, num)
        done = num - here.sum(dim=1, keepdim=True)
        call = done * calls // num
        return -(-(call + 1) * num // calls) - done

"""Speculative sampling: the law of one token per call, in fewer rounds of calls."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import pick, uniform_draws
from discrete_diffusion.config.values import Count
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.draft import Block, Draft, order_of_unmasking, time_of_masked_share
from discrete_diffusion.sampling.tokens import TokenSampler


@dataclass(frozen=True)
class Chain:
    """The states that the proposals of a round make, one after the other: a row for each.

    ``rows``: Int[R], samples; ``number``: Int[R], how many states each has. Of the N states, those
    of the first sample first:

    ``which``: Int[N], the place in ``rows`` of the sample; ``step``: Int[N], how many proposals it
    shows; ``x``: Int[N, L]. ``position``: Int[N], the one to sample next; ``tokens``: Int[N], what
    is proposed for it, by ``q`` Float64[N, V]; 0 for the last state of a sample, which has none.
    """

    rows: Tensor
    number: Tensor
    which: Tensor
    step: Tensor
    x: Tensor
    position: Tensor
    tokens: Tensor
    q: Tensor


@dataclass(kw_only=True)
class Speculative(TokenSampler):
    """Speculative sampling: propose several tokens at once, keep those that one by one would have
    been sampled as well.

    The order l_1, l_2, ... of the MASKs is that of their unmask times, as in ``FirstHitting``. A
    round samples y_j ~ q_j for the next positions from the network's last prediction, at an earlier
    state, independently; then one call evaluates the k states that they make one after the other,

        p_j = D_{l_j}(. | visible, y_1, ..., y_{j-1}),    j = 1, ..., k.

    y_j is kept with probability min(1, p_j(y_j) / q_j(y_j)). At the first that is not, j, and at
    j = k, for which nothing is proposed (q_k = 0), the token is sampled from the remainder,

        r(v) proportional to max(p_j(v) - q_j(v), 0),

    and the round ends. Token after token is thus distributed as p_j, whatever q is (Leviathan et
    al., arXiv 2211.17192, section 2.3), and a round that keeps n proposals samples n + 1 tokens.
    The first round has nothing to propose from: it samples one token.

    The samples are those of one token per call in this order, D being given the time at which as
    many tokens are masked as are: of ``FirstHitting``, if the network is not given t.
    ``FirstHitting`` gives it the unmask time instead, so for one that is given t the two differ.

    A round is one call about up to k rows per sample, whose rows do not wait for each other, so a
    sample takes at most as many rounds as it has tokens, and fewer of them the less the tokens
    depend on each other. ``nfe`` counts the rows: they are never fewer than the tokens, and more
    wherever a proposal is refused. It takes less time where k rows take less than k calls. A
    network that gives all p_j of an order in one row would save rows as well (any-subset models,
    Guo and Ermon, arXiv 2504.20456; causal heads on masked ones, Campbell et al., arXiv
    2510.03929); the bidirectional networks here do not.

    ``tokens_per_round``: k, the most tokens a round can sample, and the rows it evaluates; null:
    all that are left. A trajectory has one frame per round. With ``blocks`` each block begins anew.

    Raises ``ValueError`` for a k below 1, if ``steps`` is given, or for a narrowing by tokens.
    """

    name = "speculative"
    law = Law.MASKED_SHARE
    absorbing_only = True

    tokens_per_round: Count | None = 8

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        if steps is not None:
            raise ValueError(
                "speculative sampling takes as many rounds as its proposals need; leave steps "
                "unset and set sampling.tokens_per_round"
            )
        super().check(algorithm, steps)

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        super()._check_narrowing(algorithm)
        raise ValueError(
            "speculative sampling proposes several tokens at once, but each of them narrows what "
            "the others may be; use sampling=first-hitting"
        )

    def run(self, draft: Draft) -> None:
        process, free = draft.algorithm.process, draft.free
        assert isinstance(process, Absorbing)
        every = torch.ones(free.shape, dtype=torch.bool)
        u = self.uniform(draft, every).view_as(free)
        times = process.unmask_times(1 - u)
        draft.calls.expect(draft.most_calls(draft.blocks), exact=False)
        for block in draft.blocks:
            self._fill(draft, block, order_of_unmasking(times, block.free))

    def _fill(self, draft: Draft, block: Block, order: Tensor) -> None:
        """Draw a block in ``order`` Int[B, L], its free positions first."""
        num = block.free.sum(dim=1)
        done, log_q = torch.zeros_like(num), None
        while (rows := (done < num).nonzero().squeeze(1)).numel():
            chain = self._propose(draft, rows, order[rows], done[rows], num[rows], log_q)
            kept, log_d0 = self._verify(draft, block, chain)
            done[rows] += kept + 1
            if log_q is None:
                log_q = log_d0.new_zeros(len(num), *log_d0.shape[1:])
            log_q[rows] = log_d0
            draft.record()

    def _propose(
        self,
        draft: Draft,
        rows: Tensor,
        order: Tensor,
        done: Tensor,
        num: Tensor,
        log_q: Tensor | None,
    ) -> Chain:
        """Propose tokens for the samples ``rows`` Int[R], of which ``done`` of ``num`` Int[R]
        positions of ``order`` Int[R, L] are filled. ``log_q``: Float[B, L, V], the network's last
        prediction; None at first."""
        most = 1 if log_q is None else self.tokens_per_round or order.shape[1]
        number = (num - done).clamp(max=most)
        which = torch.arange(len(rows), device=rows.device).repeat_interleave(number)
        step = torch.arange(len(which), device=rows.device) - (number.cumsum(0) - number)[which]
        sample, position = rows[which], order[which, done[which] + step]
        tokens, V = torch.zeros_like(position), draft.algorithm.layout.vocab_size
        q = torch.zeros(len(which), V, dtype=torch.float64, device=rows.device)
        if log_q is not None:
            q, _ = self._prob(draft, sample, position, log_q[sample, position])
            tokens = pick(q.log(), uniform_draws(tuple(which.shape), draft.generator, q.device))
            q[step == number[which] - 1] = 0.0
        proposed = draft.x[rows]
        proposed[which, position] = tokens
        shown = order.argsort(dim=1)[which] < (done[which] + step).unsqueeze(1)
        x = torch.where(shown, proposed[which], draft.x[sample])
        return Chain(rows, number, which, step, x, position, tokens, q)

    def _verify(self, draft: Draft, block: Block, chain: Chain) -> tuple[Tensor, Tensor]:
        """Keep proposals and sample the token after them: how many each sample keeps, Int[R], and
        log D Float[R, L, V] of the state that shows them."""
        which, step, generator, device = chain.which, chain.step, draft.generator, chain.q.device
        sample = chain.rows[which]
        masked = chain.x == draft.algorithm.layout.mask_id
        t = time_of_masked_share(draft.algorithm, masked, block.real[sample])
        log_d0 = self.log_d0(draft, sample, t, chain.x)
        each = torch.arange(len(which), device=device)
        p, log_kept = self._prob(draft, sample, chain.position, log_d0[each, chain.position])
        u = uniform_draws(tuple(which.shape), generator, device)
        refused = u * chain.q[each, chain.tokens] >= p[each, chain.tokens]
        refused |= step == chain.number[which] - 1
        kept = chain.number.scatter_reduce(
            0, which, torch.where(refused, step, chain.number[which]), "amin"
        )
        last = chain.number.cumsum(0) - chain.number + kept
        rest = (p - chain.q)[last].clamp(min=0)
        rest = torch.where(rest.sum(dim=-1, keepdim=True) > 0, rest, p[last])  # p = q, rounded
        draft.x[chain.rows] = chain.x[last]
        draft.x[chain.rows, chain.position[last]] = pick(
            rest.log(), uniform_draws(tuple(kept.shape), generator, device)
        )
        drawn = step <= kept[which]
        draft.log_weights.index_add_(0, sample[drawn], log_kept[drawn].double())
        return kept, log_d0[last]

    def _prob(
        self, draft: Draft, rows: Tensor, position: Tensor, log_d0: Tensor
    ) -> tuple[Tensor, Tensor]:
        """log D Float[N, V] at ``position`` Int[N] of the samples ``rows`` Int[N] as a token is
        sampled from it, Float64[N, V], and the log of the mass that the support kept, Float[N]."""
        support = None if draft.support is None else draft.legal_at(rows, position)
        log_d0, log_kept = self.shaped(log_d0, support)
        p = log_d0.double().exp()
        return p / p.sum(dim=-1, keepdim=True), log_kept

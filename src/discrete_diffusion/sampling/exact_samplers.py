"""Samplers that are exact for their model: speculative and autoregressive."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.algorithms.ar import AR, PrefixReader
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import pick, uniform_draws
from discrete_diffusion.config.values import Count
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.sampling.base import Exactness
from discrete_diffusion.sampling.partial_samples import (
    Block,
    PartialSamples,
    order_of_unmasking,
    time_of_masked_share,
)
from discrete_diffusion.sampling.tokens import TokenSampler


@dataclass(kw_only=True)
class Speculative(TokenSampler):
    """Speculative sampling: propose several tokens at once, then keep as many as one call confirms.

    The distribution is that of sampling one token after the other.

    The order l_1, l_2, ... of the MASKs is that of their unmask times, as in ``FirstHitting``. A
    round samples y_j ~ q_j for the next positions from the network's last prediction, at an earlier
    state, independently; then one call evaluates the k states that they make one after the other,

        p_j = D_{l_j}(. | visible, y_1, ..., y_{j-1}),    j = 1, ..., k.

    y_j is kept with probability min(1, p_j(y_j) / q_j(y_j)). At the first j that is not kept, and
    at j = k, for which nothing is proposed (q_k = 0), the token is sampled from the remainder,

        r(v) proportional to max(p_j(v) - q_j(v), 0),

    and the round ends. Token after token is thus distributed as p_j for any q (Leviathan et al.,
    arXiv 2211.17192, section 2.3), and a round that keeps n proposals samples n + 1 tokens. The
    first round has no earlier prediction to propose from: it samples one token.

    The samples are distributed as with one token per call in this order, if D is given the time at
    which as many tokens are masked as now. For a network without t that is ``FirstHitting``. For a
    network with t the two differ, since ``FirstHitting`` gives it the unmask time.

    A round is one call with up to k rows per sample. A sample takes at most as many rounds as it
    has tokens, and fewer the less the tokens depend on each other. ``nfe`` counts the rows: never
    fewer than the tokens, and more if a proposal is refused. Time is saved if k rows in one call
    take less than k calls. A network that gives all p_j of an order in one row would save rows as
    well (any-subset models, Guo and Ermon, arXiv 2504.20456; causal heads on masked models,
    Campbell et al., arXiv 2510.03929); the bidirectional networks here do not.

    ``draft_length``: k, the most tokens a round can sample, and the rows it evaluates; null:
    all tokens left. A trajectory has one frame per round. With ``blocks`` each block begins anew.

    Raises ``ValueError`` for a k below 1, if ``steps`` is given, or for a ``narrowing``.
    """

    name = "speculative"
    exactness = Exactness.MASKED_SHARE
    absorbing_only = True

    takes_no_steps = (
        "speculative sampling takes as many rounds as its proposals need; leave steps unset and "
        "set sampling.draft_length"
    )

    draft_length: Count | None = 8

    def _check_narrowing(self, algorithm: TokenAlgorithm) -> None:
        super()._check_narrowing(algorithm)
        raise ValueError(
            "speculative sampling proposes several tokens at once, but each of them narrows what "
            "the others may be; use sampling=first-hitting"
        )

    def run(self, samples: PartialSamples) -> None:
        # unmask times decide the order
        process, free = samples.algorithm.process, samples.free
        assert isinstance(process, Absorbing)
        every = torch.ones(free.shape, dtype=torch.bool)
        u = self.uniform(samples, every).view_as(free)
        times = process.unmask_times(1 - u)
        samples.calls.expect(samples.most_calls(samples.blocks), exact=False)
        for block in samples.blocks:
            self._fill(samples, block, order_of_unmasking(times, block.free))

    def _fill(self, samples: PartialSamples, block: Block, order: Tensor) -> None:
        """Sample a block in ``order`` Int[B, L], its free positions first."""
        num = block.free.sum(dim=1)
        done, log_q = torch.zeros_like(num), None
        # a round of the samples that have tokens left
        while (rows := (done < num).nonzero().squeeze(1)).numel():
            some = (rows, order[rows], done[rows], num[rows])
            kept, log_d0 = self._run_round(samples, block, *some, log_q)
            done[rows] += kept + 1
            if log_q is None:
                log_q = log_d0.new_zeros(len(num), *log_d0.shape[1:])
            log_q[rows] = log_d0
            samples.record()

    def _run_round(
        self,
        samples: PartialSamples,
        block: Block,
        rows: Tensor,
        order: Tensor,
        done: Tensor,
        num: Tensor,
        log_q: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Propose tokens for the samples ``rows`` Int[R], keep some, and sample the one after them.

        ``done`` of ``num`` Int[R] positions of ``order`` Int[R, L] are filled. ``log_q``: Float[B,
        L, V], the network's last prediction; None in the first round. Returns the number that each
        sample keeps, Int[R], and log D Float[R, L, V] of the state that shows the proposals kept.
        """
        generator, device = samples.generator, rows.device
        # N states, those of the first sample first: Int[N] which sample, number of proposals shown
        # (``step``), and position to sample next
        most = 1 if log_q is None else self.draft_length or order.shape[1]
        number = (num - done).clamp(max=most)
        which = torch.arange(len(rows), device=device).repeat_interleave(number)
        step = torch.arange(len(which), device=device) - (number.cumsum(0) - number)[which]
        is_last = step == number[which] - 1
        sample, position = rows[which], order[which, done[which] + step]
        # proposals y_j ~ q_j, none for the last state
        tokens, V = torch.zeros_like(position), samples.algorithm.layout.vocab_size
        q = torch.zeros(len(which), V, dtype=torch.float64, device=device)
        if log_q is not None:
            q, _ = self._probs_at(samples, sample, position, log_q[sample, position])
            tokens = pick(q.log(), uniform_draws(tuple(which.shape), generator, device))
            q[is_last] = 0.0
        # state j shows the proposals before it, x Int[N, L]
        proposed = samples.x[rows]
        proposed[which, position] = tokens
        shown = order.argsort(dim=1)[which] < (done[which] + step).unsqueeze(1)
        x = torch.where(shown, proposed[which], samples.x[sample])

        # p of all states, in one call
        masked = x == samples.algorithm.layout.mask_id
        t = time_of_masked_share(samples.algorithm, masked, block.real[sample])
        log_d0 = self.log_d0(samples, sample, t, x)
        each = torch.arange(len(which), device=device)
        p, log_kept = self._probs_at(samples, sample, position, log_d0[each, position])
        # kept: proposals before the first that is refused
        u = uniform_draws(tuple(which.shape), generator, device)
        refused = (u * q[each, tokens] >= p[each, tokens]) | is_last
        first = torch.where(refused, step, number[which])
        kept = number.scatter_reduce(0, which, first, "amin")
        # the next token is sampled from the remainder
        last = number.cumsum(0) - number + kept
        rest = (p - q)[last].clamp(min=0)
        rest = torch.where(rest.sum(dim=-1, keepdim=True) > 0, rest, p[last])  # p = q, rounded
        u = uniform_draws(tuple(kept.shape), generator, device)
        samples.x[rows] = x[last]
        samples.x[rows, position[last]] = pick(rest.log(), u)
        new = step <= kept[which]
        samples.log_weights.index_add_(0, sample[new], log_kept[new].double())
        return kept, log_d0[last]

    def _probs_at(
        self, samples: PartialSamples, rows: Tensor, position: Tensor, log_d0: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Probabilities for sampling tokens, Float64[N, V], and log of the mass kept, Float[N].

        ``log_d0``: Float[N, V], log D at ``position`` Int[N] of the samples ``rows`` Int[N].
        """
        support = None if samples.support is None else samples.legal_at(rows, position)
        log_d0, log_kept = self.adjusted(log_d0, support)
        p = log_d0.double().exp()
        return p / p.sum(dim=-1, keepdim=True), log_kept


class Autoregressive(TokenSampler):
    """Left-to-right sampling of autoregressive models that computes each column once.

    Sample the free positions from left to right, keeping the backbone's keys and values.

    The samples are distributed as those of ``first-hitting`` on the same algorithm. There is one
    call per free position; it computes only new columns (one, unless clamped tokens lie between)
    and no PAD. Samples whose real, clamped and given positions are the same share their calls.

    Clamping is exact for a prefix: a free position is sampled without seeing clamps to its right.

    Raises ``ValueError`` for an algorithm other than ``ar``, for a backbone without ``new_cache``,
    or if ``steps`` is given.
    """

    name = "autoregressive"
    exactness = Exactness.MODEL
    absorbing_only = True
    algorithms = ("ar",)
    takes_no_steps = "autoregressive sampling makes one call per token; leave steps unset"

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        super().check(algorithm, steps)
        if not hasattr(algorithm.backbone, "new_cache"):
            raise ValueError(
                f"autoregressive sampling needs a backbone with new_cache, such as dit; "
                f"{type(algorithm.backbone).__name__} has none: use sampling=first-hitting"
            )

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num

    def run(self, samples: PartialSamples) -> None:
        # samples with equal positions share their calls
        seen = samples.algorithm.layout.is_real(samples.x)
        positions = torch.stack([samples.real, samples.free, seen], dim=1).byte()
        patterns, kind = torch.unique(positions, dim=0, return_inverse=True)
        samples.calls.expect(int(patterns[:, 1].sum()))
        for k in range(len(patterns)):
            self._fill(samples, (kind == k).nonzero().squeeze(1))

    def _fill(self, samples: PartialSamples, rows: Tensor) -> None:
        """Fill the samples ``rows``, which have the same real, free and given positions."""
        algorithm = samples.algorithm
        assert isinstance(algorithm, AR)
        # a reader keeps the keys and values of what it has read
        real = samples.real[rows]
        inputs = self._guidance.inputs(samples.conditions_of(rows), real)
        readers = [
            PrefixReader(algorithm, samples.x[rows], real, conditions) for conditions in inputs
        ]
        is_free = samples.free[rows[0]].tolist()
        for k, position in enumerate(readers[0].columns.tolist()):
            if not is_free[position]:
                continue
            # one token of each sample
            legal = algorithm.layout.support[position]
            samples.begin_call()
            predictions = [reader.log_d0(samples.x[rows], k) for reader in readers]
            where = torch.zeros_like(samples.free)
            where[rows, position] = True
            self.sample_at(samples, where, self._guidance.mix_log_probs(predictions, legal))
            samples.nfe[rows] += self._guidance.calls
            samples.record()

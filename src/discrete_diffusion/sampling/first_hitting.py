"""First-hitting sampling: exact for absorbing processes, one token per network call."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.config.values import Count
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.draft import (
    Draft,
    are_sampled_together,
    number_of_calls,
    order_of_unmasking,
    tokens_by_call,
)
from discrete_diffusion.sampling.tokens import TokenSampler


@dataclass(kw_only=True)
class FirstHitting(TokenSampler):
    """First-hitting sampling: exact for absorbing processes, one token per network call.

    Reveal tokens at the times at which the reverse process would reveal them.

    Every free masked position l has an unmask time T_l with 1 - alpha_l(T_l) ~ U(0, 1),
    independent of the data. All are sampled at the start and revealed in descending order, the
    network's time being t = T_l, per sample. One at a time the result has exactly the distribution
    of ancestral sampling with infinitely many steps, for time-conditioned networks and schedules
    per group too (Zheng et al., arXiv 2409.02908). With ``blocks`` the times count inside a block,
    and a block is full before the next one begins.

    Args:
        temperature: see ``TokenSampler``.
        top_p: see ``TokenSampler``.
        guidance: see ``TokenSampler``.
        tokens_per_call: k > 1 reveals up to k at a time independently of each other, at the
            largest of their times, which is approximate; ``steps`` sets instead the number of
            calls (per block), among which the tokens are spread evenly. Samples with the same
            number of calls left share them, and a sample takes part only while it has any.

    Raises:
        ValueError: the algorithm has discrete steps, k is below 1, or an autoregressive algorithm
            would have more than one token per call.
    """

    name = "first-hitting"
    law = Law.MODEL
    absorbing_only = True
    continuous_time_only = True

    tokens_per_call: Count = 1

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        """Check that this sampler samples the model that an algorithm trains.

        Args:
            algorithm: the algorithm.
            steps: the requested number of calls; None for one token per call.

        Raises:
            ValueError: as for ``TokenSampler``, and for several tokens per call of an
                autoregressive algorithm.
        """
        several = steps is not None or self.tokens_per_call > 1
        if several and "causal" in algorithm.backbone_needs:
            raise ValueError(
                f"{algorithm.name} is sampled one token per call; leave steps and "
                "sampling.tokens_per_call unset"
            )
        super().check(algorithm, steps)

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        """True if one call may sample several of ``num`` tokens, independently of each other.

        Args:
            num: number of tokens to sample.
            steps: the requested number of calls; None for one token per call.

        Returns:
            True if it may.
        """
        return are_sampled_together(self.tokens_per_call, steps, num)

    def run(self, draft: Draft) -> None:
        """Reveal the free positions in their calls, at their times.

        Args:
            draft: the samples at their start; afterwards all their tokens are clean.
        """
        call, t = self.plan(draft)
        left = call.amax(dim=1) + 1 if call.shape[1] else call.new_zeros(len(call))
        counts = self._counts(draft) if draft.fixed else None
        num_calls = len(counts) if counts is not None else int(left.max()) if left.numel() else 0
        draft.calls.expect(num_calls)
        for remaining in range(num_calls, 0, -1):
            index = (left - remaining).unsqueeze(1)  # of the call of each sample, or negative
            now = t.gather(1, index.clamp(min=0)).squeeze(1)
            where = (call == index) & draft.free
            if counts is None:
                self.reveal(draft, where, now)
            else:
                self.reveal(draft, where, now, counts[num_calls - remaining])
            draft.record()

    def _counts(self, draft: Draft) -> Tensor:
        """How many tokens of each sample each of all C calls reveals, Int[C, B] on the host.

        All samples make their last call together.
        """
        nums = [num.unsqueeze(1) for _, _, num in draft.blocks if num is not None]
        calls = [number_of_calls(self.tokens_per_call, draft.steps, num) for num in nums]
        left = torch.stack(calls).sum(dim=0)  # (B, 1)
        most = int(left.max()) if left.numel() else 0
        counts = left.new_zeros(most, len(left))
        begin = most - left  # of a block
        for num, number in zip(nums, calls, strict=True):
            found = tokens_by_call(num, number)
            place = begin.T + torch.arange(len(found)).unsqueeze(1)
            counts.scatter_add_(0, place.clamp(max=most - 1), found)
            begin = begin + number
        return counts

    def plan(self, draft: Draft) -> tuple[Tensor, Tensor]:
        """Calls that reveal the free positions, and their times.

        Args:
            draft: the samples at their start.

        Returns:
            The call 0, 1, ... of each free position, Int[B, L] (-1 elsewhere), and the time of each
            call, Float64[B, L].
        """
        process, free = draft.algorithm.process, draft.free
        assert isinstance(process, Absorbing)
        every = torch.ones(free.shape, dtype=torch.bool)
        u = self.uniform(draft, every).view_as(free)
        times = process.unmask_times(1 - u)
        call = torch.full_like(free, -1, dtype=torch.long)
        calls = torch.zeros_like(call[:, :1])
        for block in draft.blocks:
            rank = order_of_unmasking(times, block.free).argsort(dim=1)  # in the block, from 0
            num = block.free.sum(dim=1, keepdim=True)  # (B, 1)
            number = number_of_calls(self.tokens_per_call, draft.steps, num)
            call = torch.where(block.free, calls + rank * number // num.clamp(min=1), call)
            calls = calls + number
        t = torch.zeros_like(times).scatter_reduce(
            1, call.clamp(min=0), times.masked_fill(~free, 0.0), "amax"
        )
        return call, t

"""First-hitting sampling: exact for absorbing processes, one token per network call."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.config.values import Count
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.sampling.base import Exactness
from discrete_diffusion.sampling.partial_samples import (
    PartialSamples,
    are_sampled_together,
    number_of_calls,
    tokens_by_call,
)
from discrete_diffusion.sampling.tokens import TokenSampler


@dataclass(kw_only=True)
class FirstHitting(TokenSampler):
    """First-hitting sampling: exact for absorbing processes, one token per network call.

    Tokens are revealed at the times at which the reverse process would reveal them.

    Every free masked position l has an unmask time T_l with 1 - alpha_l(T_l) ~ U(0, 1), independent
    of the data. All times are sampled at the start. Tokens are revealed from the latest time down,
    and the network gets t = T_l, per sample. With one token at a time the samples have exactly the
    distribution of ancestral sampling with infinitely many steps, also for time-conditioned
    networks and schedules per group (Zheng et al., arXiv 2409.02908). With ``blocks`` the times
    order tokens within a block, and a block is filled before the next one begins.

    Args:
        temperature: see ``TokenSampler``.
        top_p: see ``TokenSampler``.
        guidance: see ``TokenSampler``.
        refresh: see ``TokenSampler``.
        tokens_per_call: k > 1 reveals up to k tokens at a time, independently of each other, at
            the latest of their times, which is approximate; ``steps`` sets instead the number of
            calls (per block), among which the tokens are spread evenly. Samples with the same
            number of calls left share them.

    Raises:
        ValueError: the algorithm has discrete steps, k is below 1, or an autoregressive algorithm
            is to sample more than one token per call.
    """

    name = "first-hitting"
    exactness = Exactness.MODEL
    absorbing_only = True
    continuous_time_only = True

    tokens_per_call: Count = 1

    def run(self, samples: PartialSamples) -> None:
        # reveal the free positions, call after call, at the time of each call
        call, t = self.call_order(samples)
        counts = self._tokens_by_call(samples)
        samples.calls.expect(len(counts))
        # all samples make their last call together, so those of few calls wait at first
        wait = len(counts) - 1 - call.amax(dim=1, keepdim=True)
        for k, num_tokens in enumerate(counts):
            own = k - wait  # (B, 1), number of each sample's call, negative while it waits
            where = (call == own) & samples.free
            now = t.gather(1, own.clamp(min=0)).squeeze(1)
            self.reveal(samples, where, now, num_tokens)
            samples.record()

    def call_order(self, samples: PartialSamples) -> tuple[Tensor, Tensor]:
        """Return the call that reveals each free position, and the times of the calls.

        Args:
            samples: the samples at their start.

        Returns:
            The call 0, 1, ... of each free position, Int[B, L] (-1 elsewhere), and the time of each
            call, Float64[B, L].
        """
        process, free = samples.algorithm.process, samples.free
        assert isinstance(process, Absorbing)
        # unmask times T_l with 1 - alpha_l(T_l) = 1 - u_l
        every = torch.ones(free.shape, dtype=torch.bool)
        u = self.uniform(samples, every).view_as(free)
        times = process.unmask_times(1 - u)
        # latest first, block by block, as evenly as possible
        call = torch.full_like(free, -1, dtype=torch.long)
        calls = torch.zeros_like(call[:, :1])
        for block in samples.blocks:
            order = times.masked_fill(~block.free, -1.0).argsort(
                dim=1, descending=True, stable=True
            )
            rank = order.argsort(dim=1)  # in the block, from 0
            num = block.free.sum(dim=1, keepdim=True)  # (B, 1)
            number = number_of_calls(self.tokens_per_call, samples.steps, num)
            call = torch.where(block.free, calls + rank * number // num.clamp(min=1), call)
            calls = calls + number
        # a call has the largest time of its tokens
        t = torch.zeros_like(times).scatter_reduce(
            1, call.clamp(min=0), times.masked_fill(~free, 0.0), "amax"
        )
        return call, t

    def _tokens_by_call(self, samples: PartialSamples) -> Tensor:
        """Number of tokens that each of all C calls reveals, Int[C, B] on the host.

        All samples finish in the last call: a sample with fewer calls starts later.
        """
        # calls of each block
        nums = [block.num.unsqueeze(1) for block in samples.blocks]
        calls = [number_of_calls(self.tokens_per_call, samples.steps, num) for num in nums]
        left = torch.stack(calls).sum(dim=0)  # (B, 1)
        most = int(left.max()) if left.numel() else 0
        counts = left.new_zeros(most, len(left))
        # their tokens, block after block
        begin = most - left  # first call of a block
        for num, number in zip(nums, calls, strict=True):
            in_block = tokens_by_call(num, number)
            place = begin.T + torch.arange(len(in_block)).unsqueeze(1)
            counts.scatter_add_(0, place.clamp(max=most - 1), in_block)
            begin = begin + number
        return counts

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        several = steps is not None or self.tokens_per_call > 1
        if several and "causal" in algorithm.backbone_needs:
            raise ValueError(
                f"{algorithm.name} is sampled one token per call; leave steps and "
                "sampling.tokens_per_call unset"
            )
        super().check(algorithm, steps)

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return are_sampled_together(self.tokens_per_call, steps, num)

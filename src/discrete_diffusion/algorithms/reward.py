"""Reward tuning: a trained masked diffusion model that samples what a reward prefers."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Self, Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.mdlm import MDLM
from discrete_diffusion.algorithms.time_sampling import MaskDraw
from discrete_diffusion.categorical import log_prob_at, sample_categorical, uniform_draws
from discrete_diffusion.config.values import Bounds, Count, Positive
from discrete_diffusion.contracts import Batch, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess


@dataclass(frozen=True)
class Paths:
    """Samples of the first-hitting sampler, with the order in which their tokens were revealed.

    ``batch``: the samples. ``order``: Int[B, L], real positions in the order of revealing, then all
    others; ``times``: Float64[B, L], the network's time at each of these calls. ``log_ratio``:
    Float64[B], log p(x0 | order) less that of the teacher, nats; ``nll``: Float64[B], -log p.
    """

    batch: Batch
    order: Tensor
    times: Tensor
    log_ratio: Tensor
    nll: Tensor


class RewardTuning(MDLM):
    """Policy gradient on the paths of first-hitting sampling, with the teacher as an anchor.

        J = E[ r(x0) - beta log p(x0 | order) / p_teacher(x0 | order) ],   x0 ~ p(. | order)

    where ``order`` is the order in which first-hitting reveals the positions; its distribution does
    not depend on the network. With a teacher whose D is exact, J is largest for the tilted
    distribution

        p(x0) exp(r(x0) / beta) / Z.

    Every training step samples groups of ``group_size``, of the sizes and conditions of a batch,
    and raises the log-probability of each path by its advantage, its value in J less the mean value
    of the others of its group (leave-one-out, so that the gradient has no bias). Some calls of
    all paths are trained, chosen in proportion to the advantage: if most samples have the reward,
    mainly calls of the few samples that lack it. Under the tilted distribution all advantages are
    0, so the gradient is 0 without noise.

    Training starts from the weights of a teacher (``init.checkpoint``). It has no dropout, because
    the sampler that is tuned has none. Held-out bounds are those of ``MDLM``, on data.

    Sources: groups instead of a critic, GRPO (Shao et al., arXiv 2402.03300); leave-one-out
    means, RLOO (Ahmadian et al., arXiv 2402.14740).
    Deviations: advantages are not divided by their standard deviation, which would move the
    optimum; KL is part of the value, which makes its gradient exact.

    ``reward``: name of the reward; training sets its function, see ``score``. ``beta``: price of a
    nat of KL divergence from the teacher, in units of the reward. ``group_size``: samples of a
    group, a divisor of the batch size. ``trained_calls``: calls of a path that are trained in a
    step, on average over the paths.

    Raises ``ValueError`` for a number out of its bounds, and as ``MDLM`` does.
    """

    name = "reward_tuning"
    has_teacher = True
    has_reward = True
    score: Callable[[Tensor], Tensor]
    """Reward of samples Int[B, L]: Float[B]."""

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        reward: str | None = None,
        beta: Positive = 0.1,
        group_size: Annotated[int, Bounds(least=2)] = 8,
        trained_calls: Count = 8,
        time_sampling: MaskDraw = "uniform_count",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, time_sampling=time_sampling, **options)
        self.reward, self.beta = reward, beta
        self.group_size, self.trained_calls = group_size, trained_calls
        self.teacher = deepcopy(backbone).requires_grad_(False)
        self._seen: list[Tensor] = []  # per step, the mean reward and log ratio

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the network alone, without its teacher."""
        return sum(parameter.numel() for parameter in self.backbone.parameters())

    def train(self, mode: bool = True) -> Self:
        """Set the mode; both networks stay in eval mode, as in sampling."""
        super().train(mode)
        self.backbone.eval()
        self.teacher.eval()
        return self

    def before_first_step(self, train: Batch, generator: torch.Generator) -> None:
        """Keep the weights that the network starts from as the teacher."""
        self.teacher.load_state_dict(self.backbone.state_dict())

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Policy-gradient loss of fresh samples; with a ``draw`` the bound of ``MDLM`` on data.

        The samples have the sizes and conditions of ``batch``. The gradient of the loss is an
        unbiased estimate of that of -J / L; the bounds are -log p of the samples along their paths.
        """
        if draw is not None:
            return super().loss(batch, generator, draw)
        # groups of samples, and the value of each, Float64[B]
        paths = self.sample_paths(self.grouped(batch), generator)
        reward = self.score(paths.batch.x0).to(paths.log_ratio)
        self._seen.append(torch.stack([reward.mean(), paths.log_ratio.mean()]))
        # policy gradient with leave-one-out advantages
        advantage = self.advantages(reward - self.beta * paths.log_ratio)
        value = self.surrogate(paths, advantage, generator)
        return self.output(paths.nll, paths.batch, -value.float() / self.layout.length)

    def statistics(self) -> dict[str, float]:
        """Means over the steps since the last call: ``reward``, and ``kl_to_teacher`` in nats."""
        values = super().statistics()
        if self._seen:
            reward, log_ratio = torch.stack(self._seen).mean(dim=0).tolist()
            values |= {"reward": reward, "kl_to_teacher": log_ratio}
        self._seen = []
        return values

    def grouped(self, batch: Batch) -> Batch:
        """Repeat each of the first B / ``group_size`` rows ``group_size`` times; return B rows.

        Raises ``ValueError`` if ``group_size`` does not divide B.
        """
        groups, rest = divmod(len(batch), self.group_size)
        if rest:
            raise ValueError(
                f"algo.group_size={self.group_size} does not divide the batch of {len(batch)}; set "
                "data.batch_size to a multiple of it"
            )
        rows = torch.arange(groups, device=batch.x0.device).repeat_interleave(self.group_size)
        conditions = {k: v for k, v in batch.conditions.items() if k != "packing"}  # of all rows
        return replace(batch, conditions=conditions).rows(rows)

    def advantages(self, values: Tensor) -> Tensor:
        """Each value Float[B] less the mean of the other values of its group: Float[B]."""
        groups = values.view(-1, self.group_size)
        others = (groups.sum(dim=1, keepdim=True) - groups) / (self.group_size - 1)
        return (groups - others).flatten()

    @torch.no_grad()
    def sample_paths(self, batch: Batch, generator: torch.Generator) -> Paths:
        """Sample by first-hitting, one token a call, and keep the paths; sizes, given positions and
        conditions are those of ``batch``."""
        # real positions in descending order of their unmask times
        real = batch.real
        u = uniform_draws(tuple(real.shape), generator, real.device)
        times = self.process.unmask_times(1 - u)
        times, order = times.masked_fill(~real, -1).sort(dim=1, descending=True, stable=True)
        x = batch.x0.masked_fill(real, self.layout.mask_id)
        size = real.sum(dim=1)
        nll = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        log_ratio = torch.zeros_like(nll)
        for call in range(int(size.max())):
            # the samples that are longer, and the position that each reveals
            rows = (size > call).nonzero().squeeze(1)
            at, t = order[rows, call], times[rows, call]
            state = replace(batch, x0=x).rows(rows)
            log_d0 = self._log_d0(state, t, at)
            tokens = sample_categorical(log_d0, generator)
            # the same with the teacher as the network
            own, self.backbone = self.backbone, self.teacher
            try:
                log_q = log_prob_at(tokens, self._log_d0(state, t, at))
            finally:
                self.backbone = own
            log_p = log_prob_at(tokens, log_d0)
            x[rows, at] = tokens
            nll[rows] -= log_p
            log_ratio[rows] += log_p - log_q
        return Paths(replace(batch, x0=x, log_num_orders=None), order, times, log_ratio, nll)

    def surrogate(self, paths: Paths, advantage: Tensor, generator: torch.Generator) -> Tensor:
        """Unbiased estimate of the mean of advantage * log p(x0 | order), Float64[], and of its
        gradient; ``advantage``: Float64[B].

        ``trained_calls`` calls per path are chosen from those of all paths by systematic sampling
        in proportion to |advantage|, and each counts with the sign of its advantage: the least
        variance if all calls have equal gradients. A call that is chosen several times is computed
        once.
        """
        size = paths.batch.real.sum(dim=1)
        weight = advantage.abs()
        if not weight.any():
            weight = torch.ones_like(weight)
        # all calls: the row and the number of each in its path
        row = torch.arange(len(size), device=size.device).repeat_interleave(size)
        call = torch.arange(len(row), device=size.device) - (size.cumsum(0) - size)[row]
        # evenly spaced points in the cumulated weights of the calls
        ends = weight[row].cumsum(0)
        num = self.trained_calls * len(size)
        u = uniform_draws((1,), generator, size.device)
        points = (torch.arange(num, device=size.device) + u) * ends[-1] / num
        chosen, times = torch.searchsorted(ends, points, right=True).unique(return_counts=True)
        chosen = chosen.clamp(max=len(row) - 1)
        row, call = row[chosen], call[chosen]
        log_p = self._log_prob_of_calls(paths, row, call)
        return (advantage.sign()[row] * times * log_p).sum() * ends[-1] / (num * len(size))

    def _log_prob_of_calls(self, paths: Paths, row: Tensor, call: Tensor) -> Tensor:
        """log p of the token that a call of a path revealed: Float64[K], for K rows and calls."""
        # the state before that call: positions that are revealed later are masked
        rank = paths.order.argsort(dim=1)[row]  # (K, L)
        samples = paths.batch.rows(row)
        later = (rank >= call.unsqueeze(1)) & samples.real
        state = replace(samples, x0=samples.x0.masked_fill(later, self.layout.mask_id))
        at = paths.order[row, call]
        log_d0 = self._log_d0(state, paths.times[row, call], at)
        return log_prob_at(paths.batch.x0[row, at], log_d0)

    def _log_d0(self, state: Batch, t: Tensor, at: Tensor) -> Tensor:
        """log D at one position ``at`` Int[R] of each row of a noisy state: Float[R, V]."""
        here = torch.arange(state.x0.shape[1], device=at.device) == at.unsqueeze(1)
        return self.denoise_at(state.x0, t, state.real, here, state.conditions)

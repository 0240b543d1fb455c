"""MELD: masked diffusion whose order of masking is learned (arXiv 2505.16790)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.mdlm import MDLM
from discrete_diffusion.algorithms.time_sampling import Corruption, sample_times
from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.contracts import Batch, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME
from discrete_diffusion.noise_schedules.schedules import Learned


class MELD(MDLM):
    """MDLM's bound with 1 - alpha_l(t) = t^(w_l), minimised over the exponents w as well.

    Times T_l = u_l^(1/w_l) make -log T_l exponential with rate w_l, so the order in which
    positions are revealed is a race: the next one is l with probability w_l / (sum of w over the
    positions still masked). With n uniform on 1..L, M the last n of the race and S the order of
    those before them, the bound and its gradient are

        f = L sum_{l in M} w_l / (sum_{M} w) * -log D_l(x0_l),          NELBO = E f
        d NELBO / dw = E [ df/dw + (f - c) d log p(S) / dw ]

    ``unbiased`` has both parts. df/dw goes through the weights and, in a time-conditioned network,
    through t and sigma (the waiting times of the race are exponential and are reparameterised).
    The other part is the score function of the masks, its baseline c the mean of the *other*
    samples of the batch. df/dw alone is wrong.

    ``straight_through`` is a heuristic: every position's term is weighed by its own density
    -alpha_l'(t), and the effect of its mask on the context of the others is left out. Its
    expectation is not the gradient, and not zero where the gradient is.

    Either way f itself is estimated with hard masks and bounds -log p. With the exact D nothing is
    gained, since every order then gives the entropy; ``statistics`` shows the exponents.

    Deviation: the exponents are parameters, see ``Learned``, and the loss is the bound.

    Raises ``ValueError`` for a schedule that is not learned or an unknown ``gradient``.
    """

    name = "meld"
    learns_schedule = True

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        gradient: Literal["unbiased", "straight_through"] = "unbiased",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        if not isinstance(process.schedule, Learned):
            raise ValueError(
                f"meld learns its schedule, but {type(process.schedule).__name__} has nothing to "
                "learn; set schedule=learned, or algo=mdlm to keep this schedule"
            )
        self.gradient = gradient

    @property
    def schedule(self) -> Learned:
        """The learned schedule of the process."""
        assert isinstance(self.process.schedule, Learned)
        return self.process.schedule

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Loss with gradients to the exponents; without gradients for other draws (to measure)."""
        if draw not in (None, "uniform_count"):
            with torch.no_grad():
                return super().loss(batch, generator, draw)
        # mask the last n positions of a race
        exponents = self.schedule.exponents()
        race = run_race(exponents, self.layout.mask_id, batch, generator)
        through = self.gradient == "straight_through"
        t, weight = (race.t.detach(), race.weight.detach()) if through else (race.t, race.weight)

        # f, Float[B]: the weighted cross-entropy of the masked tokens
        nll = self.nll(race.xt, t, batch, batch.conditions, race.xt == self.layout.mask_id)
        terms = weight.to(nll.dtype) * nll  # (B, L)
        nelbo, num_real = terms.sum(dim=1), batch.real.sum(dim=1)

        # a number of which only the gradient to the exponents counts
        if through:
            log_density = exponents.log() + exponents * t.log().unsqueeze(1)  # of T_l at t, + log t
            slope = (terms.detach() * log_density).sum(dim=1)
        else:
            # baseline: the mean NELBO per token of the other samples, times the tokens of each
            f = nelbo.detach()
            per_token = f / num_real.clamp(min=1)
            others = (per_token.sum() - per_token) / max(len(f) - 1, 1)
            slope = (f - num_real * others) * race.log_prob
        return self.output(nelbo + slope - slope.detach(), batch)

    def statistics(self) -> dict[str, float]:
        """Smallest and largest exponent of each group; the spread of alpha at t = 1/2."""
        with torch.no_grad():
            exponents = self.schedule.exponents()
            half = self.process.alpha(torch.full((1,), 0.5, dtype=torch.float64).to(exponents))
        values = super().statistics() | {"alpha_spread_at_half": float(half.max() - half.min())}
        for index, name in enumerate(self.layout.group_names):
            own = exponents[self.layout.group == index]
            if own.numel():
                values[f"exponent_min_{name}"] = float(own.min())
                values[f"exponent_max_{name}"] = float(own.max())
        return values


@dataclass(frozen=True)
class Race(Corruption):
    """A batch masked by a race, with gradients to the exponents. ``t``: Float64[B], the time when
    the next position is revealed. ``log_prob``: Float64[B], log probability of the order in which
    the visible positions were revealed."""

    log_prob: Tensor


def run_race(exponents: Tensor, mask_id: int, batch: Batch, generator: torch.Generator) -> Race:
    """Reveal all but n real positions, n uniform on 1..L and stratified over the batch.

    ``exponents``: Float64[L]. Masks have the same distribution as with ``uniform_count``.
    """
    real, device = batch.real, batch.x0.device
    num_real = real.sum(dim=1)
    # the order of arrival at -log T_l, Int[B, L]; positions that are not real never arrive
    u = uniform_draws(tuple(real.shape), generator, device).clamp(min=SMALLEST_TIME)
    arrival = (-u.log() / exponents.detach()).masked_fill(~real, float("inf"))
    ordered, order = arrival.sort(dim=1)
    # the number of arrivals, Int[B, 1]
    u = sample_times("low_discrepancy", len(batch), generator, device)
    revealed = (num_real - (u * num_real).ceil().long().clamp(min=1)).unsqueeze(1)
    turn = torch.arange(real.shape[1], device=device)

    # log p(S): each arrival has its rate over the summed rates of those still in the race
    rates = (real * exponents).gather(1, order)
    left = rates.flip(1).cumsum(dim=1).flip(1)
    before = turn < revealed
    steps = torch.where(before, rates, 1.0).log() - torch.where(before, left, 1.0).log()

    # log t: minus the sum of the waiting times, each exponential of rate 1 over ``left``
    waited = turn <= revealed
    gaps = ordered.diff(dim=1, prepend=torch.zeros_like(ordered[:, :1]))
    unit_gaps = torch.where(waited, gaps * left, 0.0).detach()
    log_t = -(unit_gaps / torch.where(waited, left, 1.0)).sum(dim=1)

    # weights L w_l / (sum of w), the sum over the masked positions
    masked = torch.zeros_like(real).scatter(1, order, turn >= revealed) & real
    weight = masked * exponents
    return Race(
        xt=batch.x0.masked_fill(masked, mask_id),
        t=log_t.exp().clamp(min=torch.finfo(torch.float64).tiny),
        weight=num_real.unsqueeze(1) * weight / weight.sum(dim=1, keepdim=True).clamp(min=1e-30),
        log_prob=steps.sum(dim=1),
    )

"""Masked features: absorbing diffusion on rows of numbers (as GET hides regions)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from continuous_states.algorithms.gaussian import LinearGaussian, RowScaling, Scaled, Steps
from discrete_diffusion.algorithms import Algorithm, MaskDraw, sample_masks
from discrete_diffusion.categorical import send, uniform_draws
from discrete_diffusion.config import Share
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process import Absorbing, ForwardProcess


class MaskedFeatures(Algorithm):
    """Prediction of masked rows from the other rows (MAE, arXiv 2111.06377; GET, Nature 2025, doi
    10.1038/s41586-024-08391-z).

    ``objective=mask`` is MDLM with a Gaussian instead of the categorical: the process masks
    every row with probability 1 - alpha(t), and a masked row x is N(xhat(x_t), I) given the other
    rows.

        NELBO = E_t E_xt  sum over masked n of  w(t) (|x_n - xhat_n|^2 / 2 + M/2 log 2 pi)
        loss  = mean over masked rows and features of  (x - xhat)^2            weighting=mean

    with w = -alpha' / (1 - alpha). ``weighting=elbo`` minimises the NELBO instead. The network gets
    the time at which the expected share of masked rows equals the actual share
    (``network_time=mask_rate``), in training and in sampling.

    ``objective=ddpm``: masked rows are not hidden but noised by ``LinearGaussian``, the other rows
    stay clean; the network, given k / T, predicts x0. The loss is the same; the NELBO is that of
    DDPM on the masked rows given the other rows, with the posterior's variance (arXiv 2107.00630,
    eq. 14). Steps are sampled uniformly for the loss, by importance sampling for the bound.

    Rows are scaled by ``normalise`` (see ``RowScaling``); both bounds are those of scaled rows.

    ``mask_rate``: if None, masks are sampled by ``time_sampling`` (a ``MaskDraw``); a number is the
    probability of masking a row, with at least one masked row per sample.
    ``network_time``: ``random`` gives the network a time sampled independently of the mask in
    training; evaluation and sampling use the time of the masked share nevertheless.

    Deviation: GETRegionDiffusion samples t independently of the mask, so that it carries nothing
    (``network_time=random``); its loss divides by all rows, masked or not, so that it falls with
    the mask rate.
    """

    name = "masked-features"
    state = "features"
    processes = ("absorbing",)
    samplers = ("row-ancestral",)
    process: Absorbing
    evaluation_draw = "uniform_count"

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        num_features: int,
        objective: Literal["mask", "ddpm"] = "mask",
        normalise: Scaled = "zscore",
        weighting: Literal["mean", "elbo"] = "mean",
        network_time: Literal["mask_rate", "random"] = "mask_rate",
        mask_rate: Share | None = None,
        time_conditioning: bool = True,
        time_sampling: MaskDraw = "uniform_count",
        num_timesteps: Steps = 1000,
        beta_start: float = 1e-4,
        beta_end: float = 0.02,
    ) -> None:
        super().__init__(backbone, time_conditioning=time_conditioning)
        self.check_process(process)
        assert isinstance(process, Absorbing)
        # options that contradict each other
        if objective == "ddpm" and network_time == "random":
            raise ValueError(
                "algo.network_time=random is for algo.objective=mask: with ddpm the network is "
                "given the step of the noise; leave it out"
            )
        # the network must read the flags of hidden or noised rows
        self.provided_conditions = ("masked" if objective == "mask" else "noisy", "real")
        if missing := [name for name in self.provided_conditions if not self.takes(name)]:
            raise ValueError(
                f"{type(backbone).__name__}.forward has no argument "
                f"{' and no '.join(missing)}; a backbone of features takes x_t, sigma, masked or "
                "noisy (Bool[B, N]), and real"
            )
        if mask_rate is not None and weighting == "elbo" and objective == "mask":
            raise ValueError(
                "algo.weighting=elbo is a mean over all mask rates, and "
                f"algo.mask_rate={mask_rate} is one of them; leave one of the two out"
            )
        # process of masks, noise of values, scaling
        self.process = process
        self.gaussian = LinearGaussian(
            num_timesteps=num_timesteps, beta_start=beta_start, beta_end=beta_end
        )
        self.scaling = RowScaling(normalise, num_features)
        self.objective, self.weighting, self.network_time = objective, weighting, network_time
        self.mask_rate, self.time_sampling = mask_rate, time_sampling
        self.bound = "gaussian" if objective == "mask" else "gaussian_given_observed"

    def prepare(self, train: Batch) -> None:
        super().prepare(train)
        self.scaling.fit(train.x0, train.real)

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        # hidden or noised rows, and their prediction
        x0 = self.scaling(batch.x0)  # (B, N, M)
        masked, weight = self.sample_rows(batch.real, generator, draw)
        if self.objective == "mask":
            if self.network_time == "random" and self.training:
                # a time that says nothing about the mask
                k = self.gaussian.sample_steps(len(x0), generator, x0.device)
                given = {**batch.conditions, "masked": masked}
                xhat = self._predict_rows(x0, self.gaussian.sigma(k), batch.real, given)
            else:
                xhat = self.denoise_masked(x0, masked, batch.real, batch.conditions)
            constant = weight.sum(dim=1) * (x0.shape[-1] / 2 * math.log(2 * math.pi))
        else:
            for_bound = draw is not None or self.weighting == "elbo"
            xhat, weight, constant = self._predict_noised(x0, masked, batch, generator, for_bound)
        # squared errors of the masked rows, weighted in the bound
        squares = (x0 - xhat).square().sum(dim=-1) * masked  # (B, N)
        nelbo = (weight * squares).sum(dim=1) / 2 + constant
        # loss per number: the bound, or the mean squared error
        if self.weighting == "elbo":
            loss = nelbo.mean() / x0[0].numel()
        else:
            loss = squares.sum() / (masked.sum().clamp(min=1) * x0.shape[-1])
        rows = batch.real if self.objective == "mask" else masked
        return LossOutput(loss.float(), nelbo.detach().float(), rows.sum(dim=1))

    @torch.no_grad()
    def predict(
        self, rows: Tensor, masked: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """Predict E[masked rows | other rows] in raw units, Float32[B, N, M], by one network call.
        ``rows``: Float[B, N, M], raw. ``masked``: Bool[B, N], rows to predict, whose values are not
        read. Rows that are not masked or not ``real`` are returned unchanged. No gradient is
        computed. With ``objective=ddpm`` the network reads masked rows as noise of value 0 at the
        last step."""
        # scaled rows without the values that are not read
        masked = masked & real
        scaled = self.scaling(rows).masked_fill((masked | ~real).unsqueeze(-1), 0.0)
        if self.objective == "mask":
            xhat = self.denoise_masked(scaled, masked, real, conditions)
        else:
            last = torch.full((len(rows),), self.gaussian.num_timesteps - 1, device=rows.device)
            xhat = self.denoise_noised(scaled, masked, last, real, conditions)
        return torch.where(masked.unsqueeze(-1), self.scaling.inverse(xhat), rows.float())

    def denoise_masked(
        self, x: Tensor, masked: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """Predict xhat Float32[B, N, M] from scaled rows x, of which ``masked`` Bool[B, N] are
        hidden."""
        sigma = self.process.sigma(self.process.time_of_masked(masked, real), real)
        return self._predict_rows(x, sigma, real, {**(conditions or {}), "masked": masked})

    def denoise_noised(
        self,
        x: Tensor,
        masked: Tensor,
        k: Tensor,
        real: Tensor,
        conditions: Conditions | None = None,
    ) -> Tensor:
        """Predict xhat Float32[B, N, M] from scaled rows x, of which ``masked`` are noised at step
        k Int[B]."""
        sigma = self.gaussian.sigma(k)
        return self._predict_rows(x, sigma, real, {**(conditions or {}), "noisy": masked})

    def sample_rows(
        self, real: Tensor, generator: torch.Generator, draw: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample which rows are masked, Bool[B, N]; return them and their weights w in the bound,
        Float64[B, N]. ``draw``: a ``MaskDraw``; None in training. Masks sampled at ``mask_rate``
        give no bound, so their weights are NaN."""
        if draw is None and self.mask_rate is not None:
            # each real row at the rate, and the one with the least u in any case
            u = uniform_draws(tuple(real.shape), generator, real.device).masked_fill(~real, 2.0)
            masked = (u < self.mask_rate) | (u == u.amin(dim=1, keepdim=True))
            return masked & real, torch.full_like(u, math.nan)
        # rows as tokens of one id, masked by the process
        rows = Batch(torch.zeros_like(real, dtype=torch.long), real)
        drawn = sample_masks(draw or self.time_sampling, self.process, rows, generator)
        return (drawn.xt == self.process.layout.mask_id) & real, drawn.weight

    def _predict_noised(
        self, x0: Tensor, masked: Tensor, batch: Batch, generator: torch.Generator, for_bound: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Add noise to the ``masked`` rows of scaled x0 and predict xhat Float32[B, N, M]; return
        xhat, weight Float64[B, N] and constant Float64[B] of the NELBO ``sum_n weight_n |x0_n -
        xhat_n|^2 / 2 + constant``."""
        gaussian, num_features = self.gaussian, x0.shape[-1]
        # one step per sample, and its factor: an estimate of the sum over all steps
        if for_bound:
            k, times = gaussian.sample_important_steps(len(x0), generator, x0.device)
        else:
            k = gaussian.sample_steps(len(x0), generator, x0.device)
            times = torch.full_like(k, gaussian.num_timesteps, dtype=torch.float64)
        # noise on the masked rows alone
        noise = torch.randn(x0.shape, generator=generator, device=generator.device)
        noise = send(noise, x0.device)
        xt = torch.where(masked.unsqueeze(-1), gaussian.corrupt(x0, k, noise), x0)
        xhat = self.denoise_noised(xt, masked, k, batch.real, batch.conditions)
        # KL(q(x_{T-1} | x0) || N(0, I)) of the masked rows, Float64[B]
        kept, num_masked = gaussian.kept[-1], masked.sum(dim=1)
        squares = (x0.double().square().sum(dim=-1) * masked).sum(dim=1)
        numbers = num_masked * num_features
        prior_kl = (kept * squares - numbers * (kept + torch.log1p(-kept))) / 2
        # x0 given x_0 is N(xhat, beta_start), and every later step costs a KL divergence
        spread = num_features / 2 * math.log(2 * math.pi * gaussian.beta_start)
        constant = times * (k == 0) * num_masked * spread + prior_kl
        return xhat, rearrange(times * gaussian.precision[k], "b -> b 1") * masked, constant

    def _predict_rows(
        self, xt: Tensor, sigma: Tensor | None, real: Tensor, conditions: Conditions
    ) -> Tensor:
        sigma = sigma if self.time_conditioning else None
        return self.apply_backbone(xt, sigma, {**conditions, "real": real})

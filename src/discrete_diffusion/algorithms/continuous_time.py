"""Algorithms that train on the continuous-time bound: UDLM, marginal, matrix, GIDD and SEDD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Unpack

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from discrete_diffusion.algorithms import many_ids
from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.bounds import general_bound
from discrete_diffusion.algorithms.many_ids import Slopes, head_of, product_type
from discrete_diffusion.algorithms.time_sampling import (
    MASK_DRAWS,
    WEIGHTED_DRAWS,
    MaskDraw,
    WeightedDraw,
    sample_masks,
    sample_weighted_times,
)
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_prob_at, log_softmax_on, mask_logits, neg_inf
from discrete_diffusion.config.values import check_name
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import EVERYWHERE, ForwardProcess, chunks
from discrete_diffusion.forward_process.interpolating import Absorbing, InterpolatingProcess
from discrete_diffusion.forward_process.uniform import Hybrid

TermsOf = Callable[[Tensor, slice, slice], Tensor]
"""Function from logits Float32[b, n, V] of some samples and positions to terms Float64[b, n]."""

Parameterization = Literal["leave_one_out", "posterior"]

LARGEST_LOG_TOTAL = 10.0
"""log S above which S grows linearly in the logits; a trained network has S near 1."""


class ContinuousTime(TokenAlgorithm):
    """Trains on the continuous-time bound of any process:

        NELBO = E_t E_xt  sum_l general_bound_l(xt, x0, D, t)

    The prior and reconstruction terms are exactly 0 because alpha(0) = 1 and alpha(1) = 0. The loss
    is the mean NELBO of the batch divided by the constant L.

    ``time_sampling``: how the times of a training batch are sampled, a ``WeightedDraw``.
    ``parameterization``: the meaning of the network's logits. ``leave_one_out``: D, the prediction
    of a token from all others. ``posterior``: P, the prediction from all of xt, turned into
    D proportional to P(x0) / q_t(xt_l | x0); then untrained logits have an infinite bound.

    Raises ``ValueError`` for an unknown ``time_sampling`` or ``parameterization``, and as
    ``TokenAlgorithm`` does.
    """

    evaluation_draw = "importance"
    time_sampling: str

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        time_sampling: WeightedDraw = "importance",
        parameterization: Parameterization = "leave_one_out",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        self.time_sampling, self.parameterization = time_sampling, parameterization

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        # times and their weights, Float64[B]; noisy ids, Int[B, L]
        t, time_weight = sample_weighted_times(
            draw or self.time_sampling, self.process, len(batch), generator, batch.x0.device
        )
        xt = self.process.corrupt(batch.x0, t, batch.real, generator)
        time_weight = time_weight.unsqueeze(1)
        weight = time_weight * self.training_weight(xt, batch.x0, t)

        def terms_of(log_d0: Tensor, samples: slice, positions: slice) -> Tensor:
            whole = (xt, batch.x0, t, batch.real)
            z, x0, at, real = (value[samples] for value in whole)
            return general_bound(self.process, z, x0, log_d0, at, real, positions=positions)

        # the loss has the training weight, the reported bound does not
        total, terms = self.summed(xt, t, batch, weight, terms_of)
        loss = (total / len(batch)).float() / self.layout.length
        return self.output((time_weight * terms).sum(dim=1), batch, loss)

    def summed(
        self, xt: Tensor, t: Tensor, batch: Batch, weight: Tensor, terms_of: TermsOf
    ) -> tuple[Tensor, Tensor]:
        """Sum of weight * term, Float64[], and the terms, Float64[B, L]. With many ids and a
        backbone that gives its states, Float[B, L, V] is never allocated.

        ``weight``: Float64[B, L or 1]. ``terms_of``: terms of ``log_prediction`` at some samples
        and positions.
        """
        # the logits of all positions, unless the head of the network can be applied in chunks
        head = None
        if self.reads_logits and hasattr(self.logits, "passes_states"):
            head = head_of(self.backbone, self.call, self.layout.vocab_size)
        if head is None:
            predicted = self.log_prediction(xt, t, batch.real, batch.conditions)
            terms = terms_of(predicted, EVERYWHERE, EVERYWHERE)
            return (weight * terms).sum(), terms
        states = self.logits(xt, t, batch.real, {**batch.conditions, "states": True})

        def terms_of_logits(logits: Tensor, samples: slice, positions: slice) -> Tensor:
            log_d0 = self.prediction_of(logits, xt[samples], t[samples], positions)
            return terms_of(log_d0, samples, positions)

        # the gradient goes through the sum alone, to states and head, not to the weight
        inputs, weight = (states, head.weight, head.bias), weight.detach().expand(states.shape[:2])
        with_gradient = torch.is_grad_enabled() and any(
            x is not None and x.requires_grad for x in inputs
        )
        found: tuple[Tensor, Tensor]
        found = _Summed.apply(*inputs, weight, terms_of_logits, with_gradient)
        return found

    @property
    def reads_logits(self) -> bool:
        """True if ``log_prediction`` is ``prediction_of`` the logits, position by position."""
        own = (type(self).log_prediction, type(self).denoise)
        written_here = own == (TokenAlgorithm.log_prediction, ContinuousTime.denoise)
        return written_here and isinstance(self.process, InterpolatingProcess)

    def prediction_of(
        self, logits: Tensor, x_t: Tensor, t: Tensor, positions: slice = EVERYWHERE
    ) -> Tensor:
        """log D of the logits at some positions, Float[B, N, V]; x_t Int[B, L] has all
        positions."""
        log_probs = log_softmax_on(logits, self.layout.support[positions])
        if self.parameterization == "leave_one_out":
            return log_probs
        return self.process.leave_one_out(log_probs, x_t, t, positions)

    def training_weight(self, xt: Tensor, x0: Tensor, t: Tensor) -> Tensor | float:
        """Factor on each position's term in the training loss, not in the bound: 1."""
        return 1.0

    def denoise(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        return self.prediction_of(self.logits(x_t, t, real, conditions), x_t, t)


class UDLM(ContinuousTime):
    """The bound of the uniform process: every token may turn into any legal one, at any time
    (Schiff et al., arXiv 2412.10193).

    Deviation: any schedule, per group too (the paper's is log-linear), K_l legal ids per position
    instead of one vocabulary, and the network predicts a token from all *others* (D) unless
    ``parameterization: posterior`` requests the paper's.
    """

    name = "udlm"
    processes = ("uniform",)


class MarginalDiffusion(ContinuousTime):
    """The bound of the marginal process: noise as frequent as the data (DiGress, arXiv 2209.14734),
    in continuous time and with every position kept to its legal ids."""

    name = "marginal"
    processes = ("marginal",)


class MatrixDiffusion(ContinuousTime):
    """The bound of a process of transition matrices: noise that moves an id to near ones where ids
    have an order, or at given rates (Campbell et al., arXiv 2205.14987). It is also the bound of
    every other process."""

    name = "ctmc"
    processes = ("matrix",)
    any_process = True


class GIDD(ContinuousTime):
    """The bound of the hybrid process, trained with the paper's weight on each position's
    KL(q || Q) + q(z)/Q(z) - 1 - log(q(z)/Q(z)):

        elbo       rate(z) / q_t(z | x0)
        dynamic    2 at a MASK, 1 at a wrong token, b(z) / (alpha + b(z)) at an untouched one

    (section 4.3). The dynamic weight keeps the few corrupted tokens near t = 0 from drowning the
    rest. It is the elbo weight times a function of z and t alone, so the best D is the same. The
    reported NELBO always has the elbo weight.

    Deviation: for an untouched token the paper has (B / V) exp(-gamma/2 log SNR), which is
    b / (alpha + b) where C is near 1; with it the best D would shift.

    ``weighting``: ``dynamic`` or ``elbo``. ``time_sampling``: how training times are sampled; the
    dynamic weight is bounded and needs no importance sampling.

    Raises ``ValueError`` for an unknown ``weighting``, and as ``ContinuousTime`` does.
    """

    name = "gidd"
    processes = ("hybrid",)
    process: Hybrid

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        time_sampling: WeightedDraw = "low_discrepancy",
        parameterization: Parameterization = "leave_one_out",
        weighting: Literal["dynamic", "elbo"] = "dynamic",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(
            backbone,
            process,
            time_sampling=time_sampling,
            parameterization=parameterization,
            **options,
        )
        self.weighting = weighting

    def training_weight(self, xt: Tensor, x0: Tensor, t: Tensor) -> Tensor | float:
        """dynamic weight / elbo weight: b(z) / rate(z), twice that at a MASK; Float[B, L]."""
        if self.weighting == "elbo":
            return 1.0
        # b(z) / rate(z), 0 where nothing jumps into z
        log_rate, at_mask = self.process.log_rate_at(xt, t), xt == self.layout.mask_id
        ratio = (self.process.log_noise_at(xt, t) - log_rate).exp()
        return torch.where(log_rate > neg_inf(log_rate.dtype) / 2, (1 + at_mask) * ratio, 0.0)


class SEDD(ContinuousTime):
    """Learn the ratios s(y) = p_t(xt_l -> y) / p_t(xt) freely, without normalising them:

        G(y) = exp(logit(y)) / K_l  on the legal ids,  0 elsewhere
        log s(y) = log(b(y) + alpha G(y)) - log(b(z) + alpha G(z)),    z = xt_l

    s is positive, exactly 1 at y = z, and of bounded scale at every t. The loss, the denoising
    score entropy, is ``general_bound`` with G instead of D. For the absorbing process

        log s = logit - log K - log(exp(sigma) - 1)
        loss  = sum over masked  w (S - 1 - log G(x0)),   S = sum_y G(y),  w = -alpha'/(1 - alpha)

    which is MDLM's with D = softmax(logit), plus w (S - 1 - log S) >= 0.

    Sampling uses D in the same posterior as every other algorithm. The scores determine alpha G + b
    only up to a factor, so alpha G + b is normalised:

        Q = (alpha G + b) / (1 + alpha (S - 1))
        D = (Q - b) / alpha, proportional to G / S - (1 - 1 / S) b

    clipped at 0; for absorbing noise D is softmax(logit).

    Deviation: log S is that of the formula up to ``LARGEST_LOG_TOTAL``; beyond, S goes on along its
    tangent, linear in the logits. The scores are as free as before, and neither the loss nor its
    gradient overflows where the exponential of a logit would.

    Deviation: the paper's network returns log s itself; zero logits then have an infinite bound
    under absorbing noise. Here they cost sum_l log K_l.

    ``time_sampling``: how training times or masks are sampled; None: with the least variance for
    the process.

    Raises ``ValueError`` for a ``time_sampling`` that the process does not have, and as
    ``ContinuousTime`` does.
    """

    name = "sedd"
    processes = ("absorbing", "uniform")
    process: InterpolatingProcess

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        time_sampling: WeightedDraw | MaskDraw | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        self.evaluation_draw = "uniform_count" if process.absorbing else "importance"
        self.time_sampling = time_sampling or self.evaluation_draw
        draws = MASK_DRAWS if process.absorbing else WEIGHTED_DRAWS
        check_name(f"algo.time_sampling for {process.name} noise", self.time_sampling, draws)

    def log_prediction(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """log G: Float[B, L, V]."""
        return self.prediction_of(self.logits(x_t, t, real, conditions), x_t, t)

    @property
    def reads_logits(self) -> bool:
        return type(self).log_prediction is SEDD.log_prediction

    def prediction_of(
        self, logits: Tensor, x_t: Tensor, t: Tensor, positions: slice = EVERYWHERE
    ) -> Tensor:
        """log G of the logits at some positions, Float[B, N, V]."""
        # log G = logit - log K on the legal ids
        log_k = self.layout.num_legal[positions].log().unsqueeze(-1)
        support = self.layout.support[positions]
        log_g = mask_logits(logits - log_k, support)
        # beyond LARGEST_LOG_TOTAL S grows linearly
        excess = (log_g.logsumexp(dim=-1, keepdim=True) - LARGEST_LOG_TOTAL).clamp(min=0)
        return mask_logits(log_g + (excess.log1p() - excess), support)

    def denoise(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        log_g = self.log_prediction(x_t, t, real, conditions)
        if self.process.absorbing:
            return log_softmax_on(log_g, self.layout.support)
        # G / S - (1 - 1 / S) b, clipped at 0
        log_s = log_g.double().logsumexp(dim=-1, keepdim=True).clamp(min=-600)
        d0 = (log_g.double() - log_s).exp() - (1 - (-log_s).exp()) * self.process.noise(t)
        d0 = d0.clamp(min=torch.finfo(torch.float64).tiny)
        return log_softmax_on(d0.log(), self.layout.support)

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        if not isinstance(self.process, Absorbing):
            return super().loss(batch, generator, draw)
        masked = sample_masks(draw or self.time_sampling, self.process, batch, generator)

        def entropy(log_g: Tensor, samples: slice, positions: slice) -> Tensor:
            x0, counted = batch.x0[samples, positions], masked.weight[samples, positions] > 0
            # visible tokens are not trained: their predictions must not overflow
            log_g = log_g.double().where(counted.unsqueeze(-1), 0.0)
            return (log_g.exp().sum(dim=-1) - 1 - log_prob_at(x0, log_g)) * counted

        total, terms = self.summed(masked.xt, masked.t, batch, masked.weight, entropy)
        loss = (total / len(batch)).float() / self.layout.length
        return self.output((masked.weight * terms).sum(dim=1), batch, loss)


class _Summed(torch.autograd.Function):
    """Weighted sum of terms; ``forward`` also computes its derivatives by states, weight and bias,
    one chunk of logits at a time; no chunk is kept.

    Products are taken in the type of autocast, if it is on; the rest in float32 at least.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        weight: Tensor,
        terms_of: TermsOf,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = product_type(matrix)
        factor, offset = matrix.to(dtype), None if bias is None else bias.to(dtype)
        terms = states.new_zeros(states.shape[:2], dtype=torch.float64)
        wide = torch.promote_types(matrix.dtype, torch.float32)
        slopes = Slopes.zeros(states, matrix, wide) if with_gradient else None
        num, length = states.shape[:2]
        for part in chunks(num, length, len(matrix), many_ids.AT_ONCE):
            # logits Float[b, n, V] of the chunk, and their terms Float64[b, n]
            rows = states[part].to(dtype)
            logits = nn.functional.linear(rows, factor, offset).float()
            with torch.set_grad_enabled(with_gradient):
                logits.requires_grad_(with_gradient)
                of_part = terms_of(logits, *part)
            terms[part] = of_part.detach()
            if slopes is not None:
                (slope,) = torch.autograd.grad(of_part, logits, weight[part].to(of_part))
                slopes.add(part, slope, rows, factor)
        if slopes is not None:
            ctx.save_for_backward(*slopes)
            ctx.dtypes = [None if x is None else x.dtype for x in (states, matrix, bias)]
        ctx.mark_non_differentiable(terms)
        return (weight * terms).sum(), terms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        pairs = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        slopes = (None if to is None else (grad.to(x) * x).to(to) for x, to in pairs)
        return *slopes, None, None, None

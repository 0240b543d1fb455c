"""Diffusion in continuous time, with noise that leaves doubt about visible tokens."""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.bounds import general_bound
from discrete_diffusion.algorithms.draws import WeightedDraw, sample_weighted_times
from discrete_diffusion.algorithms.many_ids import head_of
from discrete_diffusion.algorithms.summed_terms import TermsOf, summed_terms
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on, neg_inf
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import EVERYWHERE, ForwardProcess
from discrete_diffusion.forward_process.interpolating import InterpolatingProcess
from discrete_diffusion.forward_process.uniform import Hybrid

Parameterization = Literal["leave_one_out", "posterior"]


class ContinuousTime(TokenAlgorithm):
    """Trains on the continuous-time bound of any process:

        NELBO = E_t E_xt  sum_l general_bound_l(xt, x0, D, t)

    The prior and reconstruction terms are exactly 0 because alpha(0) = 1 and alpha(1) = 0. The loss
    is the mean NELBO of the batch divided by the constant L.

    ``draw``: how the times of a training batch are sampled, a ``WeightedDraw``.
    ``parameterization``: what the network's logits stand for. ``leave_one_out``: D, the prediction
    of a token from all others. ``posterior``: P, the prediction from all of xt, turned into
    D proportional to P(x0) / q_t(xt_l | x0); then untrained logits have an infinite bound.

    Raises ``ValueError`` for an unknown ``draw`` or ``parameterization``, and as ``TokenAlgorithm``
    does.
    """

    evaluation_draw = "importance"
    draw: str

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        draw: WeightedDraw = "importance",
        parameterization: Parameterization = "leave_one_out",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        self.draw, self.parameterization = draw, parameterization

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        t, time_weight = sample_weighted_times(
            draw or self.draw, self.process, len(batch), generator, batch.x0.device
        )
        xt = self.process.corrupt(batch.x0, t, batch.real, generator)
        time_weight = time_weight.unsqueeze(1)
        weight = time_weight * self.training_weight(xt, batch.x0, t)

        def terms_of(log_d0: Tensor, samples: slice, positions: slice) -> Tensor:
            whole = (xt, batch.x0, t, batch.real)
            z, x0, at, real = (value[samples] for value in whole)
            return general_bound(self.process, z, x0, log_d0, at, real, positions=positions)

        total, terms = self.summed(xt, t, batch, weight, terms_of)
        loss = (total / len(batch)).float() / self.layout.length
        return self.output((time_weight * terms).sum(dim=1), batch, loss)

    def summed(
        self, xt: Tensor, t: Tensor, batch: Batch, weight: Tensor, terms_of: TermsOf
    ) -> tuple[Tensor, Tensor]:
        """Sum of weight * term, Float64[], and the terms, Float64[B, L], with no tensor
        Float[B, L, V] of many ids, where the backbone gives its states.

        ``terms_of``: terms of ``log_prediction`` at some samples and positions.
        """
        head = None
        if self.reads_logits and hasattr(self.logits, "passes_states"):
            head = head_of(self.backbone, self.call, self.layout.vocab_size)
        if head is None:
            predicted = self.log_prediction(xt, t, batch.real, batch.conditions)
            terms = terms_of(predicted, EVERYWHERE, EVERYWHERE)
            return (weight * terms).sum(), terms
        states = self.logits(xt, t, batch.real, {**batch.conditions, "states": True})

        def of_logits(logits: Tensor, samples: slice, positions: slice) -> Tensor:
            log_d0 = self.prediction_of(logits, xt[samples], t[samples], positions)
            return terms_of(log_d0, samples, positions)

        return summed_terms(head, states, weight, of_logits)

    @property
    def reads_logits(self) -> bool:
        """True if ``log_prediction`` is ``prediction_of`` the logits, position by position."""
        own = (type(self).log_prediction, type(self).denoise)
        written_here = own == (TokenAlgorithm.log_prediction, ContinuousTime.denoise)
        return written_here and isinstance(self.process, InterpolatingProcess)

    def prediction_of(
        self, logits: Tensor, x_t: Tensor, t: Tensor, positions: slice = EVERYWHERE
    ) -> Tensor:
        """log D of the logits at some positions, Float[B, N, V]; x_t Int[B, L] is whole."""
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
    have an order, or at rates of one's own (Campbell et al., arXiv 2205.14987). It is that of every
    other process too."""

    name = "matrix"
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

    ``weighting``: ``dynamic`` or ``elbo``. ``draw``: of training times; the dynamic weight is
    bounded and needs no importance draw.

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
        draw: WeightedDraw = "low_discrepancy",
        parameterization: Parameterization = "leave_one_out",
        weighting: Literal["dynamic", "elbo"] = "dynamic",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, draw=draw, parameterization=parameterization, **options)
        self.weighting = weighting

    def training_weight(self, xt: Tensor, x0: Tensor, t: Tensor) -> Tensor | float:
        """dynamic weight / elbo weight: b(z) / rate(z), twice that at a MASK; Float[B, L]."""
        if self.weighting == "elbo":
            return 1.0
        log_rate, at_mask = self.process.log_rate_at(xt, t), xt == self.layout.mask_id
        ratio = (self.process.log_noise_at(xt, t) - log_rate).exp()
        return torch.where(log_rate > neg_inf(log_rate.dtype) / 2, (1 + at_mask) * ratio, 0.0)

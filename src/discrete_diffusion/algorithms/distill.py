"""Distill: a student that samples like its teacher in a few network calls."""

from __future__ import annotations

import logging
import math
from typing import Literal, Unpack, get_args

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions
from discrete_diffusion.algorithms.call_order import choose_call_order
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on, send
from discrete_diffusion.config.values import Count, check_name
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.interpolating import Absorbing

logger = logging.getLogger(__name__)

TrainOn = Literal["one_call", "all_calls"]


class Distill(TokenAlgorithm):
    """A student of K network calls, each of which samples a set of tokens from a mixture of
    products:

        p(x0) = product over k of  1/M sum_z  product over l in A_k of  D_l(x0_l | x0_{<k}, z)

    A_1, ..., A_K are fixed sets of positions, x0_{<k} the tokens of the sets before A_k, and z one
    of M components, one for all tokens of a call. Tokens of one call that are sampled independently
    (M = 1) miss their dependence; a mixture of enough products is any joint distribution. The loss
    is -log p(x0) itself, not a bound on it.

    Training starts from the weights of a teacher (``init.checkpoint``), a masked diffusion model of
    the same backbone. Before the first step, ``before_first_step`` chooses the sets so that
    sampling the tokens of a set independently loses few nats by the teacher's predictions
    (``choose_call_order``).

    ``calls``: K. ``components``: M; 1 is a product and works with any backbone, more need a
    backbone that takes ``component``. ``train_on``: ``one_call`` trains each sample on one of its
    calls, K times its term, all calls equally often in a batch; ``all_calls`` on all of them.

    ``denoise`` is D of the condition ``component``, or the mean over all components if it is not
    given. The network's t is the time that corresponds to the share of masked tokens.

    Sources: mixtures of products for few steps, Di4C (Hayakawa et al., arXiv 2410.08709); sets that
    cost least by dynamic programming, Watson et al. (arXiv 2106.03802).
    Deviation: Di4C fits the mixture to the teacher's steps; here it is fitted to data by maximum
    likelihood, the gradient of which needs no bound with so few components.

    Raises ``ValueError`` for a number that is not a positive whole number, more calls than
    positions, an unknown ``train_on``, and components that the backbone does not take.
    """

    name = "distill"
    processes = ("absorbing",)
    samplers = ("few-call",)
    has_teacher = True
    evaluation_draw = "exact"
    process: Absorbing
    plan: Tensor
    """``call_order``, by its name in checkpoints."""

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        calls: Count = 4,
        components: Count = 64,
        train_on: TrainOn = "one_call",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        length = self.layout.length
        if calls > length:
            raise ValueError(
                f"algo.calls={calls}: samples have {length} tokens at most; take calls={length}"
            )
        if components > 1 and not self.takes("component"):
            raise ValueError(
                f"algo.components={components} needs a backbone whose forward takes component, and "
                f"that of {type(backbone).__name__} does not; set algo.components=1"
            )
        self.calls, self.components, self.train_on = calls, components, train_on
        self.provided_conditions = ("component",) if components > 1 else ()
        # before training: sets of equal size spread over the sequence
        device = self.layout.support.device
        self.register_buffer("plan", torch.arange(length, device=device) % calls)

    @property
    def call_order(self) -> Tensor:
        """Int[L]: the call, from 0, that samples a position."""
        return self.plan

    def before_first_step(self, train: Batch, generator: torch.Generator) -> None:
        """Choose the sets of positions from the predictions of the network, which still is the
        teacher."""
        found = choose_call_order(self, train, self.calls, generator)
        self.call_order.copy_(found.call)
        logger.info("%s", found.sentence())

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        trained, num = draw or self.train_on, self.calls
        check_name("draw", trained, [*get_args(TrainOn), self.evaluation_draw])
        if trained != "one_call":
            terms = [self.call_nll(batch, torch.full_like(batch.x0[:, 0], k)) for k in range(num)]
            return self.output(torch.stack(terms).sum(dim=0), batch)
        # one call of each sample, all calls equally often
        order = torch.randperm(len(batch), generator=generator, device=generator.device)
        first = torch.randint(num, (1,), generator=generator, device=generator.device)
        call = send(order + first, batch.x0.device) % num
        return self.output(num * self.call_nll(batch, call), batch)

    def call_nll(self, batch: Batch, call: Tensor) -> Tensor:
        """-log p(x0 of the set ``call`` | x0 of the sets before it): Float[B]; ``call``: Int[B]."""
        # mask the set and all later ones
        now = (self.call_order == call.unsqueeze(1)) & batch.real
        hidden = (self.call_order >= call.unsqueeze(1)) & batch.real
        x_t = batch.x0.masked_fill(hidden, self.layout.mask_id)
        t = self.process.time_of_masked(hidden, batch.real)
        # log of the mean over components of the product over the set
        logits = self.component_logits(x_t, t, batch.real, batch.conditions)  # (B, M, L, V)
        log_p_of = self._log_p if logits.device.type == "cpu" else self._log_p_by_mask
        log_p = log_p_of(logits, batch.x0, now)
        return math.log(logits.shape[1]) - log_p.logsumexp(dim=1)

    def _log_p(self, logits: Tensor, x0: Tensor, now: Tensor) -> Tensor:
        """log p of the tokens x0 Int[B, L] at the positions ``now`` Bool[B, L] by component,
        Float[B, M], from logits Float[B, M, L, V]."""
        rows, position = now.nonzero(as_tuple=True)
        logits = logits[rows, :, position]
        log_d0 = log_softmax_on(logits, self.layout.support[position].unsqueeze(1))  # (N, M, V)
        tokens = x0[rows, position].view(-1, 1, 1).expand(-1, logits.shape[1], 1)
        log_p = log_d0.new_zeros(len(x0), logits.shape[1])
        return log_p.index_add(0, rows, log_d0.gather(-1, tokens).squeeze(-1))

    def _log_p_by_mask(self, logits: Tensor, x0: Tensor, now: Tensor) -> Tensor:
        """``_log_p`` by a mask, so that a GPU does not wait until positions are counted."""
        log_d0 = log_softmax_on(logits, self.layout.support)
        tokens = x0[:, None, :, None].expand(-1, logits.shape[1], -1, 1)
        log_p = log_d0.gather(-1, tokens).squeeze(-1)  # (B, M, L)
        return log_p.masked_fill(~now.unsqueeze(1), 0.0).sum(dim=-1)

    def output_shape(self, x_t: Tensor, conditions: Conditions) -> tuple[int, ...]:
        """(B, L, V), or (B, M, L, V) for all components."""
        num, *rest = super().output_shape(x_t, conditions)
        every = conditions.get("component") == "all"
        return (num, self.components, *rest) if every else (num, *rest)

    def component_logits(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """The backbone's logits of every component: Float32[B, M, L, V]."""
        if self.components == 1:
            return self.logits(x_t, t, real, conditions).unsqueeze(1)
        return self.logits(x_t, t, real, {**(conditions or {}), "component": "all"})

    def denoise(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        if "component" in (conditions or {}):
            return super().denoise(x_t, t, real, conditions)
        logits = self.component_logits(x_t, t, real, conditions)
        log_d0 = log_softmax_on(logits, self.layout.support)
        return log_d0.logsumexp(dim=1) - math.log(logits.shape[1])

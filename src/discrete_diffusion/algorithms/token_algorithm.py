"""``TokenAlgorithm``: an algorithm with a backbone on tokens and a forward process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import Algorithm, AlgorithmOptions
from discrete_diffusion.algorithms.many_ids import LazyLogD, head_of, nll_of_states, passes_states
from discrete_diffusion.categorical import log_one_hot, log_softmax_on, nucleus, temper
from discrete_diffusion.contracts import Batch, Conditions, LossOutput, Prediction
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.layout.token_layout import TokenLayout


@dataclass(frozen=True)
class SamplingOptions:
    """Changes of D before it is sampled: temperature, then a narrower support, then its nucleus.

    Args:
        support: Bool[B, L, V], a narrowing of the legal ids, or None.
        temperature: D^(1/T), 1 for the model itself.
        top_p: nucleus mass kept of D, 1 for the model itself.
    """

    support: Tensor | None = None
    temperature: float = 1.0
    top_p: float = 1.0


class TokenAlgorithm(Algorithm):
    """An algorithm on tokens, with two distributions of x0 that must not be confused.

    * D, ``denoise``: the leave-one-out prediction of x0_l from everything but the noisy token at
      l. It goes into the bound and the sampling posterior.
    * P, ``log_prob_x0``: the ordinary posterior p(x0_l | x_t), proportional to
      D(x0) q_t(z_l | x0). It is what a user means by "what does the model think is here".

    Args:
        backbone: the network, x_t Int[B, L] to logits Float[B, L, V].
        process: the forward process.
        **options: ``time_conditioning`` and ``condition_dropout`` of ``Algorithm``.

    Raises:
        ValueError: the forward process is not one of ``processes``, or its schedule is learned and
            the algorithm has no gradient for it.
    """

    state = "tokens"
    num_steps: int | None = None
    """Steps of a model of discrete time, which sees only t = i / num_steps."""
    is_block_causal: ClassVar[bool] = False
    """True if the network at a position sees its own block and earlier ``blocks`` alone."""
    reads_own_block: ClassVar[bool] = True
    """False if the backbone's input at a block holds tokens of earlier ``blocks`` alone."""

    def __init__(
        self, backbone: nn.Module, process: ForwardProcess, **options: Unpack[AlgorithmOptions]
    ) -> None:
        self.check_process(process)
        super().__init__(backbone, **options)
        self.process = process

    @property
    def layout(self) -> TokenLayout:
        """Layout of the data."""
        return self.process.layout

    @property
    def blocks(self) -> Tensor | None:
        """Int[L]: positions are generated block after block, ascending; None if all at once."""
        return None

    def prepare(self, train: Batch) -> None:
        # the conditions of the backbone, and the prior of the process
        super().prepare(train)
        self.process.fit(train.x0, train.real)

    def present(self, batch: Batch) -> Tensor:
        # given ids too (``TokenLayout.num_given``)
        return self.layout.is_real(batch.x0)

    def teacher_forcing(self, batch: Batch) -> dict[str, Any]:
        """Conditions under which ``denoise`` is right at every position of a corrupted batch.

        An algorithm that generates in blocks adds the clean tokens.

        Args:
            batch: clean data.

        Returns:
            Conditions by name.
        """
        if self.blocks is None:
            return batch.conditions
        return {**batch.conditions, "context": batch.x0}

    def output_shape(self, x_t: Tensor, conditions: Conditions) -> tuple[int, ...]:
        return (*x_t.shape, self.layout.vocab_size)  # (B, L, V)

    @passes_states
    def logits(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """The backbone's output for x_t, not normalised, on every id.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.
            conditions: conditions by name, or None.

        Returns:
            Float32[B, L, V].
        """
        return self.apply_backbone(*self.backbone_input(x_t, t, real), conditions)

    def backbone_input(self, x_t: Tensor, t: Tensor, real: Tensor) -> tuple[Tensor, Tensor | None]:
        """Tokens and noise level that the backbone is given for x_t.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.

        Returns:
            Int[B, L], and Float[B] or None.
        """
        return x_t, self.process.sigma(t, real) if self.time_conditioning else None

    def denoise(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """log D, the leave-one-out prediction.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.
            conditions: conditions by name, or None.

        Returns:
            Float[B, L, V], normalised over each position's legal ids.
        """
        return log_softmax_on(self.logits(x_t, t, real, conditions), self.layout.support)

    @property
    def reads_backbone(self) -> bool:
        """True if ``denoise`` is the softmax of the backbone's output, without an override."""
        plain = type(self).apply_backbone is Algorithm.apply_backbone
        plain &= getattr(self.denoise, "__func__", None) is TokenAlgorithm.denoise
        return plain and hasattr(self.logits, "passes_states")

    @property
    def states_head(self) -> nn.Linear | None:
        """Last layer of a network with many ids that gives its last states (``head_of``).

        Its input is ``logits`` under the condition ``states``. None unless ``reads_backbone``.
        """
        many = head_of(self.backbone, self.call, self.layout.vocab_size)
        return many if self.reads_backbone else None

    def denoise_at(
        self, x_t: Tensor, t: Tensor, real: Tensor, at: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """``denoise`` at some positions, to which alone ``states_head`` is applied, if any.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.
            at: Bool[B, L], the N positions.
            conditions: conditions by name, or None.

        Returns:
            Float[N, V], row by row.
        """
        return self.lazy_log_d0(x_t, t, real, at, conditions).read()

    def lazy_log_d0(
        self, x_t: Tensor, t: Tensor, real: Tensor, at: Tensor, conditions: Conditions | None = None
    ) -> LazyLogD:
        """``denoise_at``, of which rows are computed when they are read.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.
            at: Bool[B, L], the N positions.
            conditions: conditions by name, or None.

        Returns:
            Float[N, V], by its method ``read``.
        """
        head, position = self.states_head, at.nonzero(as_tuple=True)[1]
        if head is None:
            values = self.denoise(x_t, t, real, conditions)
        else:
            values = self.logits(x_t, t, real, {**(conditions or {}), "states": True})
        return LazyLogD(values[at], position, self.layout.support, head)

    def log_prediction(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """Prediction that the bound reads: log D, or the log of a score, which is not normalised.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.
            conditions: conditions by name, or None.

        Returns:
            Float[B, L, V].
        """
        return self.denoise(x_t, t, real, conditions)

    def predict(
        self,
        x_t: Tensor,
        t: Tensor,
        s: Tensor,
        real: Tensor,
        options: SamplingOptions | None = None,
        *,
        conditions: Conditions | None = None,
    ) -> Prediction:
        """p(x_s | x_t) per position for s < t, and the weights that undo a narrowed support.

        At s = 0 this is the ordinary posterior p(x0 | x_t).

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            s: Float[B], times before t.
            real: Bool[B, L], False where x_t stays.
            options: how D is changed; None for the model itself.
            conditions: conditions by name, or None.

        Returns:
            Log-probabilities and log importance weights, Float[B, L, V] each.
        """
        log_d0 = self.denoise(x_t, t, real, conditions)
        return self.step(log_d0, x_t, t, s, real, options)

    def step(
        self,
        log_d0: Tensor,
        x_t: Tensor,
        t: Tensor,
        s: Tensor,
        real: Tensor,
        options: SamplingOptions | None = None,
    ) -> Prediction:
        """``predict`` with log D already computed.

        Args:
            log_d0: Float[B, L, V], log D.
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            s: Float[B], times before t.
            real: Bool[B, L], False where x_t stays.
            options: how D is changed; None for the model itself.

        Returns:
            Log-probabilities and log importance weights, Float[B, L, V] each.
        """
        options = options or SamplingOptions()
        # the shaped D; importance weights undo the narrowing
        log_d0 = temper(log_d0, options.temperature)
        posterior, log_weights = self.process.posterior_log_probs, None
        if options.support is not None:
            narrowed = log_softmax_on(log_d0, options.support & self.layout.support)
            log_weights = posterior(x_t, log_d0, t, s) - posterior(x_t, narrowed, t, s)
            log_d0 = narrowed
        # the posterior; positions that are not real stay
        log_probs = posterior(x_t, nucleus(log_d0, options.top_p), t, s)
        unchanged = log_one_hot(x_t, log_probs.shape[-1], log_probs.dtype)
        return Prediction(torch.where(real.unsqueeze(-1), log_probs, unchanged), log_weights)

    def log_prob_step(self, x_t: Tensor, t: Tensor, s: Tensor, real: Tensor) -> Tensor:
        """log p(x_s | x_t), the distribution of one step.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            s: Float[B], times before t.
            real: Bool[B, L], positions that carry data.

        Returns:
            Float[B, L, V]; a point mass on x_t where ``real`` is False.
        """
        return self.predict(x_t, t, s, real).log_probs

    def log_prob_x0(self, x_t: Tensor, t: Tensor, real: Tensor) -> Tensor:
        """log P(x0 | x_t), the ordinary posterior.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            real: Bool[B, L], positions that carry data.

        Returns:
            Float[B, L, V], normalised over the legal ids; uniform on them where ``real`` is False.
        """
        log_probs = self.log_prob_step(x_t, t, torch.zeros_like(t), real)
        log_uniform = self.layout.uniform_log_probs().to(log_probs)
        return torch.where(real.unsqueeze(-1), log_probs, log_uniform)

    def cross_entropy(self, log_d0: Tensor, batch: Batch) -> Tensor:
        """-log D_l(x0_l), nats.

        Args:
            log_d0: Float[B, L, V], log D.
            batch: clean data.

        Returns:
            Float[B, L]; 0 where ``real`` is False.
        """
        log_p = log_d0.gather(-1, batch.x0.unsqueeze(-1)).squeeze(-1)
        return -log_p.masked_fill(~batch.real, 0.0)

    def nll(
        self,
        x_t: Tensor,
        t: Tensor,
        batch: Batch,
        conditions: Conditions | None = None,
        counted: Tensor | None = None,
    ) -> Tensor:
        """-log D_l(x0_l) of the network's prediction from x_t: ``cross_entropy`` of ``denoise``.

        With many ids and a backbone that gives its states, Float[B, L, V] is never allocated.

        Args:
            x_t: Int[B, L], noisy ids.
            t: Float[B], times.
            batch: clean data.
            conditions: conditions by name, or None.
            counted: Bool[B, L], positions that count; None: all real ones.

        Returns:
            Float[B, L], nats; 0 where ``real`` or ``counted`` is False.
        """
        counted = batch.real if counted is None else batch.real & counted
        head = self.states_head
        if head is None:
            log_d0 = self.denoise(x_t, t, batch.real, conditions)
            return self.cross_entropy(log_d0, batch).masked_fill(~counted, 0.0)
        # the last states of the network, Float[B, L, D]
        states = self.logits(x_t, t, batch.real, {**(conditions or {}), "states": True})
        return nll_of_states(head, states, batch.x0, counted, self.layout.support)

    def output(self, nelbo: Tensor, batch: Batch, loss: Tensor | None = None) -> LossOutput:
        """Result of ``loss`` from an estimate of the NELBO.

        The loss is by default the mean NELBO divided by the constant L, so that its gradient is
        that of the bound for every mix of sizes in a batch.

        Args:
            nelbo: Float[B], estimate of each sample's NELBO, nats.
            batch: clean data.
            loss: Float[], a loss other than the bound, or None.

        Returns:
            Loss, NELBO and number of real positions.
        """
        return LossOutput(
            loss=nelbo.mean().float() / self.layout.length if loss is None else loss,
            nelbo=nelbo.detach().float(),
            num_real=batch.real.sum(dim=1),
        )

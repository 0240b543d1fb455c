"""Samplers of one algorithm alone: left to right for ``ar``, in few calls for ``distill``."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from discrete_diffusion.algorithms.ar import AR
from discrete_diffusion.algorithms.distill import Distill
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on, uniform_draws
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.tokens import TokenSampler, are_alike


class Autoregressive(TokenSampler):
    """Left-to-right sampling of autoregressive models, each column computed once.

    Draw the free positions from left to right, keeping the backbone's keys and values.

    The distribution of ``first-hitting`` on the same algorithm. One call per free position, which
    computes the columns that were not read yet (one, unless clamped ones lie between) and no PAD.
    Samples whose real, clamped and given positions are the same share their calls.

    Clamping is exact for a prefix: a clamp behind a free position is not seen when that is drawn.

    Raises ``ValueError`` for an algorithm other than ``ar``, for a backbone without ``new_cache``,
    or if ``steps`` is given.
    """

    name = "autoregressive"
    law = Law.MODEL
    absorbing_only = True
    algorithms = ("ar",)

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        if steps is not None:
            raise ValueError("autoregressive sampling makes one call per token; leave steps unset")
        super().check(algorithm, steps)
        if not hasattr(algorithm.backbone, "new_cache"):
            raise ValueError(
                f"autoregressive sampling needs a backbone with new_cache, such as dit; "
                f"{type(algorithm.backbone).__name__} has none: use sampling=first-hitting"
            )

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num

    def run(self, draft: Draft) -> None:
        seen = draft.algorithm.layout.is_real(draft.x)
        patterns, kind = torch.unique(
            torch.stack([draft.real, draft.free, seen], dim=1).byte(), dim=0, return_inverse=True
        )
        draft.calls.expect(int(patterns[:, 1].sum()))
        for k in range(len(patterns)):
            self._fill(draft, (kind == k).nonzero().squeeze(1))

    def _fill(self, draft: Draft, rows: Tensor) -> None:
        """Fill the samples ``rows``, whose real, free and given positions are the same."""
        algorithm = draft.algorithm
        assert isinstance(algorithm, AR)
        real = draft.real[rows]
        inputs = self._guidance.inputs(draft.conditions_of(rows), real)
        readers = [
            algorithm.prefix_reader(draft.x[rows], real, conditions) for conditions in inputs
        ]
        is_free = draft.free[rows[0]].tolist()
        for k, position in enumerate(readers[0].columns.tolist()):
            if not is_free[position]:
                continue
            legal = algorithm.layout.support[position]
            draft.begin_call()
            found = [reader.log_d0(draft.x[rows], k) for reader in readers]
            where = torch.zeros_like(draft.free)
            where[rows, position] = True
            self.sample_at(draft, where, self._guidance.mix_log_probs(found, legal))
            draft.nfe[rows] += self._guidance.calls
            draft.record()


class FewCall(TokenSampler):
    """Few-call sampling of students: as many network calls as they were distilled to.

    Call after call a component z is chosen at random for each sample, all equally likely, then the
    tokens of the call's set from D(. | z): exactly the distribution whose -log p ``Distill``
    minimises.

    Clamped tokens are visible from the first call on, which the student did not see in training,
    and z does not heed them: an approximation.

    Raises ``ValueError`` for an algorithm other than ``distill``, or if ``steps`` is given.
    """

    name = "few-call"
    law = Law.MODEL  # of as many calls as the student has
    sees_given = False
    absorbing_only = True
    algorithms = ("distill",)

    def check(self, algorithm: TokenAlgorithm, steps: int | None = None) -> None:
        if steps is not None:
            raise ValueError(
                f"few-call sampling makes the calls that the student was distilled to; leave "
                f"steps={steps} unset, or train with algo=distill algo.calls={steps}"
            )
        super().check(algorithm, steps)

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num * (num if algorithm is None else cast(Distill, algorithm).calls)

    def run(self, draft: Draft) -> None:
        algorithm = cast(Distill, draft.algorithm)
        given = draft.conditions
        for call in range(algorithm.calls):
            draft.calls.come(call / algorithm.calls, algorithm.calls - call)
            if algorithm.components > 1:
                u = uniform_draws((len(draft.x),), draft.generator, draft.x.device)
                component = (u * algorithm.components).long()
                draft.conditions = {**given, "component": component}
            masked = draft.masked
            t = algorithm.process.time_of_masked(masked & draft.real, draft.real)
            self.reveal(draft, masked & draft.free & (algorithm.call_order == call), t)
            draft.record()
        draft.conditions = given

    def denoised(
        self,
        algorithm: TokenAlgorithm,
        x: Tensor,
        t: Tensor,
        real: Tensor,
        conditions: dict[str, Any],
    ) -> Tensor:
        """Prediction, also of the components of samples that are otherwise alike."""
        if [*conditions] != ["component"] or not are_alike(x, t, real):
            return super().denoised(algorithm, x, t, real, conditions)
        logits = cast(Distill, algorithm).by_component(x[:1], t[:1], real[:1])  # (1, M, L, V)
        return log_softmax_on(logits[0], algorithm.layout.support)[conditions["component"]]

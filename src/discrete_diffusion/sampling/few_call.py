"""Few-call sampling of students: as many network calls as they were distilled to."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor

from discrete_diffusion.algorithms.distill import Distill
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on, uniform_draws
from discrete_diffusion.sampling.base import Law
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.tokens import TokenSampler, are_alike


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
            self.reveal(draft, masked & draft.free & (algorithm.plan == call), t)
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

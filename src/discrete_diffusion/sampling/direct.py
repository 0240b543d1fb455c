"""Direct: the image that a regression expects, in one network call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from discrete_diffusion.algorithms.regression import Regression
from discrete_diffusion.sampling.guidance import check_given
from discrete_diffusion.types import FieldSamples


class Direct:
    """Returns xhat(condition). Nothing is drawn: the same condition gives the same image."""

    name: ClassVar[str] = "direct"
    state: ClassVar[str] = "field"

    def check_steps(self, steps: int | None) -> None:
        """Raise ``ValueError`` for a number of ``steps`` other than 1."""
        if steps not in (None, 1):
            raise ValueError(f"steps={steps}: sampling=direct makes one step; leave steps out")

    @torch.no_grad()
    def draw(
        self,
        algorithm: Regression,
        shape: tuple[int, ...],
        conditions: Mapping[str, Any],
        *,
        generator: torch.Generator,
        steps: int | None = None,
    ) -> FieldSamples:
        """One image per row of ``conditions``, raw: Float32 of ``shape`` (B, C, H, W).

        The algorithm is in eval mode meanwhile. Raises ``ValueError`` without the condition that
        the network reads.
        """
        self.check_steps(steps)
        check_given(algorithm, conditions)
        was_training = algorithm.training
        algorithm.eval()
        try:
            xhat = algorithm.expected(shape, conditions)
        finally:
            algorithm.train(was_training)
        calls = torch.ones(shape[0], dtype=torch.long, device=xhat.device)
        return FieldSamples(algorithm.scaling.inverse(xhat), calls)

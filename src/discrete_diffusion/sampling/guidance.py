"""Guidance: what a model predicts with its condition, moved away from what it does without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.categorical import log_softmax_on
from discrete_diffusion.config.values import is_number
from discrete_diffusion.contracts import Conditions


class Guidance:
    """Classifier-free guidance of weight w, for numbers (arXiv 2207.12598) and for ids:

        xhat_w = xhat(none) + w (xhat(condition) - xhat(none))
        D_w(x0) proportional to D(x0 | condition)^w D(x0 | none)^(1 - w), on the legal ids

    (D-CFG, arXiv 2412.10193). 1 is the model, 0 the model without a condition; all but 1 call the
    network twice, the second time with ``keep`` False.

    Deviation: the paper guides p(x_s | x_t); here D is guided, for every noise.

    Raises ``ValueError`` for a weight that is negative or no finite number.
    """

    def __init__(self, weight: float) -> None:
        if not (is_number(weight) and 0 <= weight < float("inf")):
            raise ValueError(f"sampling.guidance={weight}: expected 0 or a positive number")
        self.weight = float(weight)

    @property
    def calls(self) -> int:
        """Network calls per prediction."""
        return 1 if self.weight == 1 else 2

    def check(self, algorithm: Algorithm) -> None:
        """Raise ``ValueError`` for guidance of a model trained without ``condition_dropout``."""
        if self.weight != 1 and algorithm.condition_dropout == 0:
            raise ValueError(
                f"sampling.guidance={self.weight:g} needs a model that also predicts without its "
                "condition; train with algo.condition_dropout=0.1, or leave guidance out"
            )

    def check_conditions(self, algorithm: Algorithm, conditions: Conditions | None) -> None:
        """Raise ``ValueError`` for guidance without a condition."""
        if self.weight != 1:
            check_given(algorithm, conditions)
            if not algorithm.accepted(conditions):
                raise ValueError(
                    f"sampling.guidance={self.weight:g} needs conditions={{...}}; or leave it out"
                )

    def inputs(self, conditions: Conditions, like: Tensor) -> list[dict[str, Any]]:
        """The conditions of each network call about samples ``like``, Any[B, ...]."""
        given = dict(conditions)
        if self.weight == 1:
            return [given]
        none = torch.zeros(len(like), dtype=torch.bool, device=like.device)
        return [given, {**given, "keep": none}]

    def mix(self, found: Sequence[Tensor]) -> Tensor:
        """Mix the predictions for each of the ``inputs``."""
        if len(found) == 1:
            return found[0]
        given, without = found
        return without + self.weight * (given - without)

    def mix_log_probs(self, found: Sequence[Tensor], support: Tensor) -> Tensor:
        """log D Float[..., V] of each of the ``inputs``, mixed and normalised over ``support``
        Bool[..., V]."""
        return found[0] if len(found) == 1 else log_softmax_on(self.mix(found), support)


def check_given(algorithm: Algorithm, conditions: Conditions | None) -> None:
    """Raise ``ValueError`` if one of the conditions is missing that the model's encoder reads."""
    if missing := [x for x in algorithm.encoded_conditions if x not in (conditions or {})]:
        given = ", ".join(f"'{name}': ..." for name in missing)
        raise ValueError(f"the model samples given a condition; give conditions={{{given}}}")

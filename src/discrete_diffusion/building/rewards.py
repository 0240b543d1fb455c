"""Rewards by name: scores of finished samples, which ``algo=reward`` raises.

A kind of data has its own (``Domain.rewards``). Two ways to add one, for samples as
``load(...).sample`` returns them:

    @register_reward("short")
    def short(samples):
        return [-len(sample) for sample in samples]

in a module that ``plugins=`` names, or as an entry point of the group
``discrete_diffusion.rewards``.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from discrete_diffusion.config.plugins import Registry
from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.domains.registry import domain_of

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.domains.cell_measurement import SampleScore

REWARDS: Registry[SampleScore] = Registry("reward", "discrete_diffusion.rewards", {})
register_reward = REWARDS.register


def reward_of(config: DictConfig) -> Callable[[Tensor], Tensor]:
    """The reward that ``algo.reward`` names.

    Args:
        config: of ``train``, completed.

    Returns:
        Function of samples Int[B, L] on any device; their scores, Float64[B] on the CPU. A sample
        of which nothing is known, such as a plan that the solver gave up, scores 0. It raises
        ``ValueError`` for scores that are no finite numbers, one for each sample.

    Raises:
        ValueError: it is unknown; the message has the closest name.
    """
    name, domain = config.algo.get("reward"), domain_of(config.data)
    known = {**REWARDS.all(), **domain.rewards(config.data, name)}
    if name not in known:
        raise ValueError(unknown_name("reward", str(name), known))
    score = known[name]

    def score_tokens(tokens: Tensor) -> Tensor:
        import torch

        found = score(domain.decode(config.data, tokens.cpu()))
        try:
            values = [float(each or 0) for each in found]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"reward={name} returned {reprlib.repr(found)}; expected a number for each of "
                f"{len(tokens)} samples"
            ) from error
        if len(values) != len(tokens):
            raise ValueError(
                f"reward={name} gave {len(values)} scores for {len(tokens)} samples; it returns "
                "one for each"
            )
        if wrong := [k for k, value in enumerate(values) if not math.isfinite(value)]:
            raise ValueError(
                f"reward={name} gave {values[wrong[0]]} for sample {wrong[0]}; expected finite "
                "numbers"
            )
        return torch.tensor(values, dtype=torch.float64)

    return score_tokens

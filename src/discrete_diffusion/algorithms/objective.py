"""``Objective``: a backbone and what training minimises, in whatever state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import nn

from discrete_diffusion.forward_process import ForwardProcess
from discrete_diffusion.types import Batch, LossOutput

DATA_CONDITIONS = ("dtn",)
"""What data sets bring for backbones that take it; the others do without."""


class Objective(nn.Module, ABC):
    """What training, checkpoints and commands need of an algorithm, be it on tokens or on numbers.

    Algorithms on tokens are an ``Algorithm``.
    """

    name: ClassVar[str]
    """What ``algo=`` calls it."""
    state: ClassVar[str]
    """What it denoises, one of ``states.STATES``: its data and backbone have the same."""
    processes: ClassVar[tuple[str, ...]] = ()
    """Forward processes it is right for, the first one by default."""
    samplers: ClassVar[tuple[str, ...] | None] = None
    """The only samplers that draw from the model it trains; None: all that its noise and its times
    allow."""
    backbone_needs: ClassVar[tuple[str, ...]] = ()
    """What a backbone's spec must offer: ``causal``, or names of its ``conditions``."""
    learns_schedule: ClassVar[bool] = False
    """True if ``loss`` has the gradient of a learned schedule."""
    bound: str | None = None
    """Which quantity its NELBO bounds, if the data (``Dataset.bound``) does not say."""
    backbone: nn.Module

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Training loss and an unbiased draw of each sample's NELBO; ``draw`` names how t is
        drawn (default: the one the algorithm was built with)."""

    @property
    @abstractmethod
    def evaluation_draw(self) -> str:
        """The draw of least variance, for reported bounds."""

    @classmethod
    def check_process(cls, process: ForwardProcess) -> None:
        """Raise ``ValueError`` if it is not one of ``processes``, or its schedule is learned and
        there is no gradient for it here."""
        if process.name not in cls.processes:
            raise ValueError(
                f"{cls.name} does not work with the forward process {process.name}; "
                f"set forward_process={' or forward_process='.join(cls.processes)}"
            )
        if getattr(process.schedule, "learned", False) and not cls.learns_schedule:
            raise ValueError(
                f"{cls.name} cannot learn a noise schedule: its gradient would be wrong; "
                "use algo=meld, or a schedule that is given, such as noise=log_linear"
            )

    def fit(self, train: Batch) -> None:
        """Learn what must be known of the training split, all of it, before the first step: here
        what the backbone asks of its conditions."""
        fit_condition = getattr(self.backbone, "fit_condition", None)
        if fit_condition is not None and "dtn" in train.conditions:
            fit_condition(train.conditions["dtn"])

    def accepted(self, conditions: Mapping[str, Any] | None) -> dict[str, Any]:
        """``conditions`` without those of the data that the backbone's ``forward`` does not take;
        what an algorithm asks of it is not left out."""
        given = dict(conditions or {})
        unused = [name for name in DATA_CONDITIONS if name in given]
        if unused:
            taken = signature(self.backbone.forward).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
                for name in unused:
                    if name not in taken:
                        del given[name]
        return given

    def statistics(self) -> dict[str, float]:
        """Numbers worth a place beside the metrics, such as a learned schedule; none by default."""
        return {}

"""``Algorithm``: a backbone and what training minimises, in whatever state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.forward_process import ForwardProcess
from discrete_diffusion.models.blocks.packing import pack_columns
from discrete_diffusion.models.calling import CONTRACT, BackboneCall, described
from discrete_diffusion.options import is_number
from discrete_diffusion.types import Batch, LossOutput


class Algorithm(nn.Module, ABC):
    """What training, checkpoints and commands need of an algorithm, be it on tokens or on numbers.

    Those on tokens are a ``TokenAlgorithm``. How the backbone is called, ``call``, is read off its
    signature here, once (``BackboneCall``).

    ``time_conditioning``: False hands the backbone ``sigma=None``, or none if it has no place for
    it.
    ``condition_dropout``: the share of samples that are shown no condition in training, so that
    the network learns to do without (classifier-free guidance, arXiv 2207.12598). Training
    applies it to a batch before ``loss`` sees it (``drop_conditions``).

    Raises ``ValueError`` for a share outside [0, 1), and if the backbone's ``forward`` cannot be
    called, has no place for sigma under ``time_conditioning``, does not take what the algorithm
    needs it to, or ``keep``, Bool[B], if there is a share.
    """

    name: ClassVar[str]
    """What ``algo=`` calls it."""
    state: ClassVar[str]
    """What it denoises, one of ``registry.STATES``: its data and backbone have the same."""
    processes: ClassVar[tuple[str, ...]] = ()
    """Forward processes it is right for, the first one by default."""
    samplers: ClassVar[tuple[str, ...] | None] = None
    """The only samplers that draw from the model it trains; None: all that its noise and its times
    allow."""
    backbone_needs: ClassVar[tuple[str, ...]] = ()
    """What a backbone's spec must offer: ``causal``, or names of its ``conditions``."""
    gives: tuple[str, ...] = ()
    """The conditions that it adds to every call of the backbone."""
    calls_parts: ClassVar[bool] = False
    """True if it calls parts of the backbone by names of their own, and never its ``forward``."""
    learns_schedule: ClassVar[bool] = False
    """True if ``loss`` has the gradient of a learned schedule."""
    bound: str | None = None
    """Which quantity its NELBO bounds, if the data (``Dataset.bound``) does not say."""
    backbone: nn.Module

    def __init__(
        self,
        backbone: nn.Module,
        *,
        time_conditioning: bool = True,
        condition_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.backbone, self.time_conditioning = backbone, time_conditioning
        self.call = BackboneCall() if self.calls_parts else BackboneCall.of(backbone)
        if time_conditioning and self.call.sigma is None:
            raise ValueError(
                f"{described(backbone)} has no place for the noise level; name an argument sigma, "
                f"or set algo.time_conditioning=false, and it is told none; {CONTRACT}"
            )
        needed = [name for name in self.backbone_needs if name != "causal"]
        if missing := [name for name in needed if not self.takes(name)]:
            raise ValueError(
                f"{self.name} needs a backbone whose forward takes {' and '.join(missing)}, and "
                f"there is {described(backbone)}"
            )
        encode = getattr(backbone, "encode", None)
        read = () if encode is None else signature(encode).parameters.values()
        self.encoded_conditions = tuple(p.name for p in read if p.default is p.empty)
        """The conditions that the backbone's ``encode`` reads: all its arguments that have no
        default; none of a backbone without ``encode``."""
        if not (is_number(condition_dropout) and 0 <= condition_dropout < 1):
            raise ValueError(
                f"algo.condition_dropout={condition_dropout}: expected a share in [0, 1)"
            )
        if condition_dropout > 0 and not self.takes("keep"):
            raise ValueError(
                f"condition_dropout={condition_dropout:g} needs a backbone whose forward takes "
                f"keep, Bool[B], and that of {type(backbone).__name__} does not; leave it at 0"
            )
        self.condition_dropout = float(condition_dropout)

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
        what the backbone asks of its conditions.

        Raises ``ValueError`` if it asks for one that there is not."""
        self.check_conditions(train.conditions)
        fit_conditions = getattr(self.backbone, "fit_conditions", None)
        if fit_conditions is not None:
            fit_conditions(train.conditions)

    def prepared(self, batch: Batch) -> Batch:
        """A batch on the host, before it goes to a device from where it would have to be read back:
        with the columns that hold no data (``packing``), if the backbone takes them."""
        if "packing" not in self.call.conditions:
            return batch
        packing = pack_columns(self.present(batch))
        return replace(batch, conditions={**batch.conditions, "packing": packing})

    def present(self, batch: Batch) -> Tensor:
        """Bool[B, L]: what the backbone is to see."""
        return batch.real

    def drop_conditions(self, batch: Batch, generator: torch.Generator) -> Batch:
        """A batch to train on: ``keep`` Bool[B] among its conditions is False for samples that are
        shown none; without ``condition_dropout`` the batch as it is."""
        if self.condition_dropout == 0:
            return batch
        u = uniform_draws((len(batch),), generator, batch.x0.device)
        keep = u >= self.condition_dropout
        return replace(batch, conditions={**batch.conditions, "keep": keep})

    def takes(self, name: str) -> bool:
        """Whether the backbone's ``forward`` can be given an argument of that name."""
        return self.call.takes(name)

    def check_conditions(self, names: Collection[str]) -> None:
        """Raise ``ValueError`` if the backbone cannot be called with these conditions of the data
        and what the algorithm gives: it must be given others, or one stands where sigma goes."""
        missing = [x for x in self.call.required if x not in names and x not in self.gives]
        if missing:
            listed = ", ".join(missing)
            raise ValueError(
                f"{described(self.backbone)} must be given {listed}, and neither {self.name} nor "
                f"the data does; give {listed} a default, or, if your data has it, register the "
                f"backbone with conditions=(..., {', '.join(map(repr, missing))}); {CONTRACT}"
            )
        if self.call.second and self.call.sigma in names:
            raise ValueError(
                f"{described(self.backbone)} has {self.call.sigma}, which comes with the data, "
                f"where the noise level goes in; put sigma=None before it; {CONTRACT}"
            )

    def ask(
        self, x_t: Tensor, sigma: Tensor | None, conditions: Mapping[str, Any] | None = None
    ) -> Tensor:
        """What the backbone says of x_t, in float32, under those of the conditions that it takes;
        ``sigma``: Float[B], or None."""
        return self.call(self.backbone, x_t, sigma, self.accepted(conditions)).float()

    def accepted(self, conditions: Mapping[str, Any] | None) -> dict[str, Any]:
        """What the backbone is given of ``conditions``: those it takes. Others, which the data has
        for other backbones, are left out."""
        return {name: x for name, x in (conditions or {}).items() if self.takes(name)}

    def encoded(self, conditions: Mapping[str, Any] | None) -> dict[str, Any]:
        """``accepted`` conditions for many calls of the network. Where ``encode`` of the backbone
        does not read the time (``encoder_reads_time``), its result is computed here and stands,
        as ``encoded``, in the place of what it read."""
        given, names = self.accepted(conditions), self.encoded_conditions
        holds = not getattr(self.backbone, "encoder_reads_time", True)
        if not (names and holds and given.keys() >= set(names)):
            return given
        read = {name: given.pop(name) for name in names}
        return {**given, "encoded": self.backbone.encode(**read)}  # type: ignore[operator]

    def statistics(self) -> dict[str, float]:
        """Numbers worth a place beside the metrics, such as a learned schedule; here what the
        backbone says of its condition path, if it does (``diagnostics``)."""
        diagnostics = getattr(self.backbone, "diagnostics", None)
        return {} if diagnostics is None else dict(diagnostics())

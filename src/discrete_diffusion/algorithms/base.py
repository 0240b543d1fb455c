"""``Algorithm``: a backbone and what training minimises, in whatever state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.config.options import is_number
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.models.blocks.packing import pack_columns
from discrete_diffusion.models.calling import CONTRACT, BackboneCall, described
from discrete_diffusion.types import Batch, Conditions, LossOutput


@contextmanager
def eval_mode(algorithm: nn.Module) -> Iterator[None]:
    """No dropout and no gradients inside the block; the mode it was in afterwards."""
    was_training = algorithm.training
    algorithm.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        algorithm.train(was_training)


class AlgorithmOptions(TypedDict, total=False):
    """Arguments of every ``Algorithm``, which subclasses hand on."""

    time_conditioning: bool
    condition_dropout: float


class Algorithm(nn.Module, ABC):
    """A backbone and the loss that trains it, whatever samples are made of.

    Those on tokens are a ``TokenAlgorithm``. How to call the backbone is read off its signature
    once (``BackboneCall``).

    ``time_conditioning``: False hands the backbone ``sigma=None``, or no sigma if it takes none.
    ``condition_dropout``: the share of training samples without their condition, so that the
    network learns to do without (classifier-free guidance, arXiv 2207.12598). Training applies it
    to a batch before ``loss`` (``drop_conditions``).

    Raises ``ValueError`` for a share outside [0, 1), and for a backbone whose ``forward`` does not
    take sigma under ``time_conditioning``, what the algorithm needs, or, with a share, ``keep``
    Bool[B].
    """

    name: ClassVar[str]
    """What ``algo=`` calls it."""
    state: ClassVar[str]
    """What it denoises, one of ``registry.STATES``: its data and backbone have the same."""
    processes: ClassVar[tuple[str, ...]] = ()
    """Forward processes that it works with; the first is the default."""
    any_process: ClassVar[bool] = False
    """True if it works with every other one too, those of other packages among them: if it asks of
    a process nothing but what every ``ForwardProcess`` has."""
    samplers: ClassVar[tuple[str, ...] | None] = None
    """The only samplers of the model that it trains; None: all that its noise and times allow."""
    backbone_needs: ClassVar[tuple[str, ...]] = ()
    """What a backbone's spec must offer: ``causal``, or names of its ``conditions``."""
    discrete_time: ClassVar[bool] = False
    """True if it trains a model of discrete steps."""
    gives: tuple[str, ...] = ()
    """Conditions that it adds to every call of the backbone."""
    calls_parts: ClassVar[bool] = False
    """True if it calls modules of the backbone and never its ``forward``."""
    learns_schedule: ClassVar[bool] = False
    """True if ``loss`` has the gradient of a learned schedule."""
    has_teacher: ClassVar[bool] = False
    """True if it starts from another model, ``init.checkpoint``, and takes after it."""
    bound: str | None = None
    """What its NELBO bounds, unless the data says so (``Dataset.bound``)."""
    backbone: nn.Module

    def __init__(
        self, backbone: nn.Module, *, time_conditioning: bool = True, condition_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.backbone, self.time_conditioning = backbone, time_conditioning
        self.call = BackboneCall() if self.calls_parts else BackboneCall.of(backbone)
        if time_conditioning and self.call.sigma is None:
            raise ValueError(
                f"{described(backbone)} does not take the noise level; add an argument sigma, or "
                f"set algo.time_conditioning=false to train without; {CONTRACT}"
            )
        needed = [name for name in self.backbone_needs if name != "causal"]
        if missing := [name for name in needed if not self.takes(name)]:
            raise ValueError(
                f"{self.name} needs a backbone whose forward takes {' and '.join(missing)}; got "
                f"{described(backbone)}: add what is missing to its arguments"
            )
        encode = getattr(backbone, "encode", None)
        read = () if encode is None else signature(encode).parameters.values()
        self.encoded_conditions = tuple(p.name for p in read if p.default is p.empty)
        """Conditions that the backbone's ``encode``, if any, reads: its arguments that have no
        default."""
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
        """Raise ``ValueError`` for one that is not in ``processes``, unless it takes any
        (``any_process``), or a learned schedule that the loss has no gradient for
        (``learns_schedule``)."""
        if process.name not in cls.processes and not cls.any_process:
            raise ValueError(
                f"{cls.name} does not work with the forward process {process.name}; "
                f"set forward_process={' or forward_process='.join(cls.processes)}, or take an "
                "algorithm for any process, such as algo=d3pm"
            )
        if getattr(process.schedule, "learned", False) and not cls.learns_schedule:
            raise ValueError(
                f"{cls.name} cannot learn a noise schedule: its gradient would be wrong; "
                "use algo=meld, or a fixed schedule, such as noise=log_linear"
            )

    def fit(self, train: Batch) -> None:
        """Fit what depends on the whole training split, before the first step: here what the
        backbone makes of its conditions.

        Raises ``ValueError`` for a condition that is missing."""
        self.check_conditions(train.conditions)
        fit_conditions = getattr(self.backbone, "fit_conditions", None)
        if fit_conditions is not None:
            fit_conditions(train.conditions)

    def begin(self, train: Batch, generator: torch.Generator) -> None:
        """What a new run decides once before its first step, with the weights that it starts from;
        here nothing."""

    def prepared(self, batch: Batch) -> Batch:
        """A batch on the CPU, before it goes to a device from where it would have to be read back:
        with the columns that hold no data (``packing``), if the backbone takes them."""
        if "packing" not in self.call.conditions:
            return batch
        packing = pack_columns(self.present(batch))
        return replace(batch, conditions={**batch.conditions, "packing": packing})

    def present(self, batch: Batch) -> Tensor:
        """Bool[B, L]: positions that the backbone sees."""
        return batch.real

    def drop_conditions(self, batch: Batch, generator: torch.Generator) -> Batch:
        """A batch to train on: its condition ``keep`` Bool[B] is False for samples whose conditions
        are dropped. Without ``condition_dropout`` the batch as it is."""
        if self.condition_dropout == 0:
            return batch
        u = uniform_draws((len(batch),), generator, batch.x0.device)
        keep = u >= self.condition_dropout
        return replace(batch, conditions={**batch.conditions, "keep": keep})

    @property
    def num_parameters(self) -> int:
        """Of the network, and of what is learnt beside it; on the meta device too."""
        return sum(parameter.numel() for parameter in self.parameters())

    def takes(self, name: str) -> bool:
        """Whether the backbone's ``forward`` can be given an argument of that name."""
        return self.call.takes(name)

    def check_conditions(self, names: Collection[str]) -> None:
        """Raise ``ValueError`` if the backbone requires a condition that neither the data, which
        has ``names``, nor the algorithm gives, or takes one of them where sigma goes."""
        missing = [x for x in self.call.required if x not in names and x not in self.gives]
        if missing:
            listed = ", ".join(missing)
            raise ValueError(
                f"{described(self.backbone)} requires {listed}, which neither {self.name} nor the "
                f"data gives; give {listed} a default, or, if your data has it, register the "
                f"backbone with conditions=(..., {', '.join(map(repr, missing))}); {CONTRACT}"
            )
        if self.call.second and self.call.sigma in names:
            raise ValueError(
                f"{described(self.backbone)} has {self.call.sigma}, which comes with the data, "
                f"where the noise level goes in; put sigma=None before it; {CONTRACT}"
            )

    def ask(
        self, x_t: Tensor, sigma: Tensor | None, conditions: Conditions | None = None
    ) -> Tensor:
        """The backbone's output for x_t, in float32, given those of the conditions that it takes;
        ``sigma``: Float[B], or None."""
        return self.call(self.backbone, x_t, sigma, self.accepted(conditions)).float()

    def output_shape(self, x_t: Tensor, conditions: Conditions) -> tuple[int, ...]:
        """The shape that ``ask`` expects of the backbone's output."""
        return tuple(x_t.shape)

    def accepted(self, conditions: Conditions | None) -> dict[str, Any]:
        """Those of the ``conditions`` that the backbone takes; others are for other backbones."""
        return {name: x for name, x in (conditions or {}).items() if self.takes(name)}

    def encoded(self, conditions: Conditions | None) -> dict[str, Any]:
        """``accepted`` conditions for many calls of the network. If the backbone's ``encode`` does
        not read the time (``encoder_reads_time``), its result, as ``encoded``, replaces what it
        reads."""
        given, names = self.accepted(conditions), self.encoded_conditions
        holds = not getattr(self.backbone, "encoder_reads_time", True)
        if not (names and holds and given.keys() >= set(names)):
            return given
        read = {name: given.pop(name) for name in names}
        return {**given, "encoded": self.backbone.encode(**read)}  # type: ignore[operator]

    def statistics(self) -> dict[str, float]:
        """Numbers to log beside the metrics, such as a learned schedule; here the backbone's
        ``diagnostics``, if it has any."""
        diagnostics = getattr(self.backbone, "diagnostics", None)
        return {} if diagnostics is None else dict(diagnostics())

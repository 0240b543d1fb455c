"""``Algorithm``: a backbone and the loss that training minimises, for any representation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Annotated, Any, ClassVar, TypedDict

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import uniform_draws
from discrete_diffusion.config.values import Bounds, Checked
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.models.calling import CONTRACT, BackboneCall, described, pack_columns


@contextmanager
def eval_mode(algorithm: nn.Module) -> Iterator[None]:
    """Context in which a module has no dropout and no gradients; its mode is restored."""
    was_training = algorithm.training
    algorithm.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        algorithm.train(was_training)


Dropout = Annotated[float, Bounds(least=0, below=1)]
"""Share of samples without their condition."""


class AlgorithmOptions(TypedDict, total=False):
    """Arguments of every ``Algorithm``, passed on by subclasses."""

    time_conditioning: bool
    condition_dropout: Dropout


class Algorithm(Checked, nn.Module, ABC):
    """A backbone and the loss that trains it, on tokens (``TokenAlgorithm``), rows or images.

    The backbone's signature is read once, to know how to call it (``BackboneCall``).

    Args:
        backbone: the network.
        time_conditioning: False gives the backbone ``sigma=None``, or no sigma if it takes none.
        condition_dropout: the share of training samples without their condition, so that the
            network also learns to predict without it (classifier-free guidance, arXiv 2207.12598).
            Training applies it to a batch before ``loss`` (``drop_conditions``).

    Raises:
        ValueError: ``condition_dropout`` lies outside [0, 1), or the backbone's ``forward`` lacks
            an argument: sigma under ``time_conditioning``, a condition that the algorithm needs, or
            ``keep`` Bool[B] under ``condition_dropout``.
    """

    section = "algo"
    name: ClassVar[str]
    """The name that ``algo=`` takes."""
    state: ClassVar[str]
    """The state that the algorithm denoises, one of ``registry.STATES``, the same as its data's."""
    processes: ClassVar[tuple[str, ...]] = ()
    """Forward processes that the algorithm works with; the first is the default."""
    any_process: ClassVar[bool] = False
    """True if the algorithm also works with every other process: it uses only what all of them
    have."""
    samplers: ClassVar[tuple[str, ...] | None] = None
    """The only samplers of the model; None: every sampler that its noise and times allow."""
    backbone_needs: ClassVar[tuple[str, ...]] = ()
    """What a backbone's spec must offer: ``causal``, or names of its ``conditions``."""
    discrete_time: ClassVar[bool] = False
    """True if the algorithm trains a model of discrete steps."""
    provided_conditions: tuple[str, ...] = ()
    """Conditions that the algorithm adds to every call of the backbone."""
    calls_parts: ClassVar[bool] = False
    """True if the algorithm calls modules of the backbone and never its ``forward``."""
    learns_schedule: ClassVar[bool] = False
    """True if ``loss`` has the gradient of a learned schedule."""
    has_teacher: ClassVar[bool] = False
    """True if training starts from another model, ``init.checkpoint``, and stays near it."""
    has_reward: ClassVar[bool] = False
    """True if training maximises a reward of samples, ``algo.reward``: training sets its
    ``score``."""
    bound: str | None = None
    """The quantity that the NELBO bounds, unless the data decides it (``Dataset.bound``)."""
    backbone: nn.Module

    def __init__(
        self,
        backbone: nn.Module,
        *,
        time_conditioning: bool = True,
        condition_dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        # the arguments of the backbone's forward must fit the algorithm
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
        # conditions that the backbone's ``encode`` reads: its arguments without a default
        encode = getattr(backbone, "encode", None)
        read = () if encode is None else signature(encode).parameters.values()
        self.encoded_conditions = tuple(p.name for p in read if p.default is p.empty)
        if condition_dropout > 0 and not self.takes("keep"):
            raise ValueError(
                f"condition_dropout={condition_dropout:g} needs a backbone whose forward takes "
                f"keep, Bool[B], and that of {type(backbone).__name__} does not; leave it at 0"
            )
        self.condition_dropout = float(condition_dropout)

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Training loss and an unbiased estimate of each sample's NELBO.

        Args:
            batch: clean data.
            generator: source of the noise.
            draw: name of how t is sampled; None: the one the algorithm was built with.

        Returns:
            The loss, and the NELBO of each sample in nats.
        """

    @property
    @abstractmethod
    def evaluation_draw(self) -> str:
        """The ``draw`` of least variance, for reported bounds."""

    @classmethod
    def check_process(cls, process: ForwardProcess) -> None:
        """Check that the algorithm works with a forward process.

        Args:
            process: the forward process.

        Raises:
            ValueError: the process is not in ``processes`` and ``any_process`` is False, or its
                schedule is learned and the loss has no gradient for it (``learns_schedule``).
        """
        if process.name not in cls.processes and not cls.any_process:
            raise ValueError(
                f"{cls.name} does not work with the forward process {process.name}; "
                f"set forward_process={' or forward_process='.join(cls.processes)}, or take an "
                "algorithm for any process, such as algo=d3pm"
            )
        if getattr(process.schedule, "learned", False) and not cls.learns_schedule:
            raise ValueError(
                f"{cls.name} cannot learn a noise schedule: its gradient would be wrong; "
                "use algo=meld, or a fixed schedule, such as schedule=log_linear"
            )

    def prepare(self, train: Batch) -> None:
        """Fit statistics of the training split before the first step; by default of its conditions.

        Args:
            train: the training split; its conditions go to the backbone's ``fit_conditions``.

        Raises:
            ValueError: a condition is missing.
        """
        self.check_conditions(train.conditions)
        fit_conditions = getattr(self.backbone, "fit_conditions", None)
        if fit_conditions is not None:
            fit_conditions(train.conditions)

    def before_first_step(self, train: Batch, generator: torch.Generator) -> None:
        """Prepare a new run once, before its first step; by default do nothing.

        Args:
            train: the training split.
            generator: source of randomness.
        """

    def prepare_batch(self, batch: Batch) -> Batch:
        """Add conditions to a batch on the CPU, where computing them needs no read-back from a GPU.

        By default add ``packing``, which leaves out columns without data (``pack_columns``), if the
        backbone takes it.

        Args:
            batch: clean data, on the CPU.

        Returns:
            The batch, or a copy with more conditions.
        """
        if "packing" not in self.call.conditions:
            return batch
        packing = pack_columns(self.present(batch))
        return replace(batch, conditions={**batch.conditions, "packing": packing})

    def present(self, batch: Batch) -> Tensor:
        """Positions that the backbone processes, by default those with data.

        Args:
            batch: clean data.

        Returns:
            Bool[B, L].
        """
        return batch.real

    def drop_conditions(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Drop the conditions of a share of the samples of a training batch.

        Args:
            batch: clean data.
            generator: source of randomness.

        Returns:
            A batch with the condition ``keep`` Bool[B], False for samples whose conditions are
            dropped; the same batch if ``condition_dropout`` is 0.
        """
        if self.condition_dropout == 0:
            return batch
        # keep is False for a random share of the samples
        u = uniform_draws((len(batch),), generator, batch.x0.device)
        keep = u >= self.condition_dropout
        return replace(batch, conditions={**batch.conditions, "keep": keep})

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the network and the algorithm, also on the meta device."""
        return sum(parameter.numel() for parameter in self.parameters())

    def takes(self, name: str) -> bool:
        """True if the backbone's ``forward`` can be given an argument of that name.

        Args:
            name: name of an argument.

        Returns:
            True if it can.
        """
        return self.call.takes(name)

    def check_conditions(self, names: Collection[str]) -> None:
        """Check that the data or the algorithm provides the conditions required by the backbone.

        Args:
            names: names of the conditions that the data has.

        Raises:
            ValueError: the backbone requires a condition that neither the data nor the algorithm
                provides, or its second argument, used for sigma, is named like a condition of the
                data.
        """
        # arguments without a default that nobody provides
        missing = [
            x for x in self.call.required if x not in names and x not in self.provided_conditions
        ]
        if missing:
            listed = ", ".join(missing)
            raise ValueError(
                f"{described(self.backbone)} requires {listed}, which neither {self.name} nor the "
                f"data gives; give {listed} a default, or, if your data has it, register the "
                f"backbone with conditions=(..., {', '.join(map(repr, missing))}); {CONTRACT}"
            )
        # a condition of the data in the place of the noise level
        if self.call.second and self.call.sigma in names:
            raise ValueError(
                f"{described(self.backbone)} has {self.call.sigma}, which comes with the data, "
                f"where the noise level goes in; put sigma=None before it; {CONTRACT}"
            )

    def apply_backbone(
        self, x_t: Tensor, sigma: Tensor | None, conditions: Conditions | None = None
    ) -> Tensor:
        """The backbone's output for x_t, in float32.

        Args:
            x_t: noisy data, in the algorithm's state.
            sigma: Float[B], noise level, or None.
            conditions: conditions by name; those that the backbone does not take are left out.

        Returns:
            Float32, in the shape that the backbone returns.
        """
        return self.call(self.backbone, x_t, sigma, self.accepted(conditions)).float()

    def output_shape(self, x_t: Tensor, conditions: Conditions) -> tuple[int, ...]:
        """Shape that ``apply_backbone`` expects of the backbone's output.

        Args:
            x_t: the noisy samples.
            conditions: tensors by name that the backbone is given.

        Returns:
            The shape of ``x_t``, unless overridden.
        """
        return tuple(x_t.shape)

    def accepted(self, conditions: Conditions | None) -> dict[str, Any]:
        """Conditions that the backbone takes; the others are left out.

        Args:
            conditions: conditions by name, or None.

        Returns:
            A new dict.
        """
        return {name: x for name, x in (conditions or {}).items() if self.takes(name)}

    def encoded(self, conditions: Conditions | None) -> dict[str, Any]:
        """``accepted`` conditions for many network calls, encoded once if possible.

        If the backbone's ``encode`` does not read the time (``encoder_reads_time``), its result, as
        the condition ``encoded``, replaces the conditions that it reads.

        Args:
            conditions: conditions by name, or None.

        Returns:
            A new dict.
        """
        given, names = self.accepted(conditions), self.encoded_conditions
        # an encoder that reads the time has to be called at every step
        holds = not getattr(self.backbone, "encoder_reads_time", True)
        if not (names and holds and given.keys() >= set(names)):
            return given
        read = {name: given.pop(name) for name in names}
        return {**given, "encoded": self.backbone.encode(**read)}  # type: ignore[operator]

    def statistics(self) -> dict[str, float]:
        """Numbers to log with the metrics, such as those of a learned schedule.

        Returns:
            The backbone's ``diagnostics`` by name, if it has any.
        """
        diagnostics = getattr(self.backbone, "diagnostics", None)
        return {} if diagnostics is None else dict(diagnostics())

"""``Sampler``: samples from a trained model, whatever samples are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.config.signatures import Checked
from discrete_diffusion.contracts import Conditions, SampleOutput

A = TypeVar("A", bound=Algorithm)


class Law(Enum):
    """Distribution of samples, of whatever network; ``exactness`` says what follows."""

    UNKNOWN = "not stated"
    APPROXIMATE = "another than the model's"
    GRID = "the model's of discrete steps, if all are made; of others as the number of steps grows"
    MASKED_SHARE = "one token a call in the process's order, given the time of the masked share"
    ANY_ORDER = "one token a call in an order that reads the predictions, or is one of its own"
    MODEL = "the model's own: of absorbing noise one token a call, at the times of the process"


class Sampler(Checked, ABC, Generic[A]):
    """Samples x0 from the model that an algorithm of type ``A`` trains.

    Those of tokens are a ``TokenSampler``.
    """

    section = "sampling"
    name: ClassVar[str]
    """The name that ``sampling=`` takes."""
    state: ClassVar[str]
    """The state of its samples, one of ``registry.STATES``."""
    algorithms: ClassVar[tuple[str, ...] | None] = None
    """The only ones that it samples, which name it in their ``samplers``; None: all that fit."""
    law: ClassVar[Law] = Law.UNKNOWN
    """The law of samples of one token a call. Each class states its own: it is not inherited."""
    sees_given: ClassVar[bool] = True
    """Whether the law with tokens given is that of the process begun with them."""

    @abstractmethod
    def sample(
        self,
        algorithm: A,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
    ) -> SampleOutput:
        """Sample once per row of ``real``, with the algorithm in eval mode.

        Args:
            algorithm: the trained algorithm.
            real: Bool, True where a sample has data: [B, L] tokens, [B, N] rows of features,
                [B, C, H, W] all pixels of images, [B, T] tokens of a text from latent vectors.
            generator: source of randomness.
            steps: number of time steps, or of network calls for samplers that have none; None: the
                sampler's default.
            clamp: what stays fixed: Int[B, L] ids, -1 where free; Float[B, N, M] rows, NaN where
                free. Images and texts from latent vectors take none.
            conditions: tensors, batch axis first, by name; those that the backbone does not take
                are not read.

        Returns:
            The samples, and the network calls that each took.

        Raises:
            ValueError: the algorithm or ``steps`` do not fit (``check``), a condition is missing,
                or shapes or clamps do not fit.
        """

    def check(self, algorithm: A, steps: int | None = None) -> None:
        """Check that this sampler samples the model that an algorithm trains.

        Args:
            algorithm: the algorithm.
            steps: the requested number of steps; None for the default.

        Raises:
            ValueError: it does not, or cannot make so many ``steps``; the message names what fits.
            TypeError: it is a bare network; the message has what to write.
        """
        if not hasattr(algorithm, "samplers"):
            way = "MDLM(network, Absorbing(layout, LogLinear())), or load(CHECKPOINT)"
            raise TypeError(f"expected an algorithm, got {type(algorithm).__name__}; give {way}")
        fitting = algorithm.samplers
        if fitting is not None and self.name not in fitting:
            raise ValueError(
                f"{algorithm.name} cannot be sampled by {self.name}; "
                f"use sampling={' or sampling='.join(fitting)}"
            )
        if fitting is None and self.algorithms is not None:
            raise ValueError(
                f"{self.name} sampling needs algo={' or algo='.join(self.algorithms)}, got "
                f"{algorithm.name}" + "; use sampling=ancestral" * (self.state == "tokens")
            )
        if steps is not None and steps < 1:
            raise ValueError(f"steps={steps}: expected at least 1")

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        """True if one call may sample several of ``num`` tokens, independently of each other.

        That is an approximation of a model that samples one after the other.

        Args:
            num: number of tokens to sample.
            steps: the requested number of steps; None for the default.

        Returns:
            True if it may.
        """
        return False

    def work(self, num: int, algorithm: A | None = None) -> int:
        """Columns that the network computes for a sample, at most, without guidance.

        Args:
            num: number of its tokens.
            algorithm: the trained algorithm; None if it is not known.

        Returns:
            Calls times columns: all columns for every ``tokens_per_call``, 1 unless it has some.
        """
        return num * -(-num // getattr(self, "tokens_per_call", 1))

    def refuse_clamp(self, clamp: Tensor | None) -> None:
        """Check that nothing is clamped.

        Args:
            clamp: the clamp of a request, or None.

        Raises:
            ValueError: there is one.
        """
        if clamp is not None:
            raise ValueError(f"sampling={self.name} cannot hold ids fixed; leave clamp out")

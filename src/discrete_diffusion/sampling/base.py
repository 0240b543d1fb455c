"""``Sampler``, the base class of the samplers of any state, and guidance by a condition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.categorical import log_softmax_on
from discrete_diffusion.config.values import Checked, NotNegative
from discrete_diffusion.contracts import Conditions, SampleOutput

A = TypeVar("A", bound=Algorithm)


class Exactness(Enum):
    """Distribution that samples follow; ``approximations`` turns it into reasons."""

    UNKNOWN = "not stated"
    APPROXIMATE = "another than the model's"
    GRID = "the model's of discrete steps, if all are made; of others as the number of steps grows"
    ANY_ORDER = "one token a call in an order that reads the predictions or is chosen freely"
    MODEL = "the model's own: of absorbing noise one token a call, at the times of the process"


class Sampler(Checked, ABC, Generic[A]):
    """Base class of samplers: samples x0 from the model that an algorithm of type ``A`` trains.

    Samplers of tokens inherit from ``TokenSampler``.
    """

    section = "sampling"
    name: ClassVar[str]
    """The name that ``sampling=`` takes."""
    state: ClassVar[str]
    """State of the samples, one of ``registry.STATES``."""
    algorithms: ClassVar[tuple[str, ...] | None] = None
    """Names of the only algorithms that this sampler samples; None: any."""
    exactness: ClassVar[Exactness] = Exactness.UNKNOWN
    """Exactness of samples with one token per call. Each class must state it: not inherited."""
    sees_given: ClassVar[bool] = True
    """True if samples with given tokens follow the process started with these tokens."""
    files: tuple[Path, ...] = ()
    """JSON files of what it finds out about a model, which are read; the last one is written."""
    typical: Callable[[int], Tensor] | None = None
    """Returns Bool[M, L], the real positions of M samples of the sizes of the training data."""

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
            steps: number of time steps, or of network calls for samplers without steps; None: the
                sampler's default.
            clamp: values that stay fixed: Int[B, L] ids, -1 where free; Float[B, N, M] rows, NaN
                where free. Images and texts from latent vectors take none.
            conditions: tensors by name, batch axis first; names that the backbone does not take
                are ignored.

        Returns:
            The samples, and the network calls that each took.

        Raises:
            ValueError: ``check`` refuses the algorithm or ``steps``, a condition is missing, or
                shapes or clamps do not fit.
        """

    def check(self, algorithm: A, steps: int | None = None) -> None:
        """Check that this sampler can sample the model of an algorithm.

        Args:
            algorithm: the algorithm.
            steps: the requested number of steps; None for the default.

        Raises:
            ValueError: it cannot, or not in so many ``steps``; the message names what fits.
            TypeError: ``algorithm`` is a bare network; the message says what to pass instead.
        """
        # an algorithm, not a network
        if not hasattr(algorithm, "samplers"):
            way = "MDLM(network, Absorbing(layout, LogLinear())), or load(CHECKPOINT)"
            raise TypeError(f"expected an algorithm, got {type(algorithm).__name__}; give {way}")
        # one that names its samplers, or is named by this one
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
        """Return True if one call may sample several of ``num`` tokens independently.

        This approximates a model that samples one token after the other.

        Args:
            num: number of tokens to sample.
            steps: the requested number of steps; None for the default.

        Returns:
            True if it may.
        """
        return False

    def work(self, num: int, algorithm: A | None = None) -> int:
        """Return an upper bound on the columns computed for a sample in all calls, unguided.

        Args:
            num: number of tokens of the sample.
            algorithm: the trained algorithm; None if it is not known.

        Returns:
            Calls times columns; a call computes all columns and samples ``tokens_per_call`` tokens
            (1 for a sampler without this field).
        """
        return num * -(-num // getattr(self, "tokens_per_call", 1))


class Guidance:
    """Classifier-free guidance of weight w.

    For predicted numbers (arXiv 2207.12598) and for distributions of ids:

        xhat_w = xhat(none) + w (xhat(condition) - xhat(none))
        D_w(x0) proportional to D(x0 | condition)^w D(x0 | none)^(1 - w), on the legal ids

    (D-CFG, arXiv 2412.10193). w = 1 is the model, w = 0 the model without the condition. Except for
    w = 1 the network is called twice, the second time without the condition (``keep`` False).

    Deviation: the paper guides p(x_s | x_t); here D is guided, for every noise process.
    """

    def __init__(self, weight: NotNegative) -> None:
        self.weight = float(weight)

    @property
    def calls(self) -> int:
        """Network calls per prediction."""
        return 1 if self.weight == 1 else 2

    def check(self, algorithm: Algorithm) -> None:
        """Raise ``ValueError`` if w is not 1 for a model trained without ``condition_dropout``."""
        if self.weight != 1 and algorithm.condition_dropout == 0:
            raise ValueError(
                f"sampling.guidance={self.weight:g} needs a model that also predicts without its "
                "condition; train with algo.condition_dropout=0.1, or leave guidance out"
            )

    def check_conditions(self, algorithm: Algorithm, conditions: Conditions | None) -> None:
        """Raise ``ValueError`` if w is not 1 and no condition is given."""
        if self.weight != 1:
            check_given(algorithm, conditions)
            if not algorithm.accepted(conditions):
                raise ValueError(
                    f"sampling.guidance={self.weight:g} needs conditions={{...}}; or leave it out"
                )

    def inputs(self, conditions: Conditions, like: Tensor) -> list[dict[str, Any]]:
        """Conditions of each network call: one or two calls, for samples ``like`` Any[B, ...]."""
        given = dict(conditions)
        if self.weight == 1:
            return [given]
        # the second call leaves the condition out
        none = torch.zeros(len(like), dtype=torch.bool, device=like.device)
        return [given, {**given, "keep": none}]

    def mix(self, predictions: Sequence[Tensor]) -> Tensor:
        """Combine the predictions of the network calls that ``inputs`` lists into xhat_w."""
        if len(predictions) == 1:
            return predictions[0]
        given, without = predictions
        return without + self.weight * (given - without)

    def mix_log_probs(self, predictions: Sequence[Tensor], support: Tensor) -> Tensor:
        """Mix the log D of all calls, each Float[..., V], as ``mix`` does.

        If there are several calls, normalise over the legal ids, ``support`` Bool[..., V].
        """
        if len(predictions) == 1:
            return predictions[0]
        return log_softmax_on(self.mix(predictions), support)


def check_given(algorithm: Algorithm, conditions: Conditions | None) -> None:
    """Raise ``ValueError`` unless all conditions that the model's encoder reads are given."""
    if missing := [x for x in algorithm.encoded_conditions if x not in (conditions or {})]:
        given = ", ".join(f"'{name}': ..." for name in missing)
        raise ValueError(f"the model samples given a condition; give conditions={{{given}}}")

"""``Sampler``: samples from a trained model of any state; guidance by a condition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.categorical import log_softmax_on
from discrete_diffusion.config.signatures import Checked
from discrete_diffusion.config.values import is_number
from discrete_diffusion.contracts import Conditions, SampleOutput

A = TypeVar("A", bound=Algorithm)


class Exactness(Enum):
    """Distribution of samples of any network; ``approximations`` says what follows."""

    UNKNOWN = "not stated"
    APPROXIMATE = "another than the model's"
    GRID = "the model's of discrete steps, if all are made; of others as the number of steps grows"
    MASKED_SHARE = "one token a call in the process's order, given the time of the masked share"
    ANY_ORDER = "one token a call in an order that reads the predictions or is chosen freely"
    MODEL = "the model's own: of absorbing noise one token a call, at the times of the process"


class Sampler(Checked, ABC, Generic[A]):
    """Samples x0 from the model that an algorithm of type ``A`` trains.

    Samplers of tokens are a ``TokenSampler``.
    """

    section = "sampling"
    name: ClassVar[str]
    """The name that ``sampling=`` takes."""
    state: ClassVar[str]
    """The state of its samples, one of ``registry.STATES``."""
    algorithms: ClassVar[tuple[str, ...] | None] = None
    """The only algorithms that it samples, which name it in their ``samplers``; None: any."""
    exactness: ClassVar[Exactness] = Exactness.UNKNOWN
    """Exactness of samples of one token a call. Each class states its own: it is not inherited."""
    sees_given: ClassVar[bool] = True
    """True if samples with tokens given follow the process begun with these."""

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
        """Check that this sampler can sample the model of an algorithm.

        Args:
            algorithm: the algorithm.
            steps: the requested number of steps; None for the default.

        Raises:
            ValueError: it cannot, or not in so many ``steps``; the message names what fits.
            TypeError: it is a bare network; the message has what to write.
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

        That is an approximation of a model that samples one after the other.

        Args:
            num: number of tokens to sample.
            steps: the requested number of steps; None for the default.

        Returns:
            True if it may.
        """
        return False

    def work(self, num: int, algorithm: A | None = None) -> int:
        """Most columns that the network computes for a sample, without guidance.

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


class Guidance:
    """Classifier-free guidance of weight w.

    For numbers (arXiv 2207.12598) and for ids:

        xhat_w = xhat(none) + w (xhat(condition) - xhat(none))
        D_w(x0) proportional to D(x0 | condition)^w D(x0 | none)^(1 - w), on the legal ids

    (D-CFG, arXiv 2412.10193). 1 is the model, 0 the model without a condition; all but 1 call the
    network twice, the second time with ``keep`` False.

    Deviation: the paper guides p(x_s | x_t); here D is guided, for every noise.

    Raises ``ValueError`` for a weight that is not a finite number, at least 0.
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
        """Conditions of each network call about samples ``like``, Any[B, ...]."""
        given = dict(conditions)
        if self.weight == 1:
            return [given]
        # the second call leaves the condition out
        none = torch.zeros(len(like), dtype=torch.bool, device=like.device)
        return [given, {**given, "keep": none}]

    def mix(self, predictions: Sequence[Tensor]) -> Tensor:
        """Mix the predictions for each of the ``inputs``."""
        if len(predictions) == 1:
            return predictions[0]
        given, without = predictions
        return without + self.weight * (given - without)

    def mix_log_probs(self, predictions: Sequence[Tensor], support: Tensor) -> Tensor:
        """Mix log D Float[..., V] of the ``inputs``, normalised over ``support`` Bool[..., V]."""
        if len(predictions) == 1:
            return predictions[0]
        return log_softmax_on(self.mix(predictions), support)


def check_given(algorithm: Algorithm, conditions: Conditions | None) -> None:
    """Raise ``ValueError`` for a missing condition that the model's encoder reads."""
    if missing := [x for x in algorithm.encoded_conditions if x not in (conditions or {})]:
        given = ", ".join(f"'{name}': ..." for name in missing)
        raise ValueError(f"the model samples given a condition; give conditions={{{given}}}")

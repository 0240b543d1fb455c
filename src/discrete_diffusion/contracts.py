"""Types that the layers exchange, and the axis legend used everywhere.

Axes: ``B`` batch, ``L`` token positions, ``V`` token ids, ``N`` nodes, ``E`` edges (node pairs),
``D`` width, ``H`` attention heads; where samples are features, ``N`` rows and ``M`` features.
Times ``t`` and ``s < t`` lie in [0, 1]: 0 is clean, 1 is noise. ``x0`` is clean data, ``xt`` its
corruption at time t. Probabilities are in log space, in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

Conditions = Mapping[str, Any]
"""Conditions of samples: tensors, batch axis first, by the names of the backbone's arguments; also
other values that are indexed by samples.
"""


@dataclass(frozen=True)
class Batch:
    """Clean data on its way to an algorithm.

    Args:
        x0: Int[B, L] token ids, PAD wherever ``real`` is False, or the given ids there
            (``TokenLayout.num_given``); Float[B, N, M] rows of features; Float[B, C, H, W] images;
            or, of latent vectors, Int[B, T] the ids of a target text.
        real: Bool[B, L], Bool[B, N] or Bool[B, T], the positions that carry data.
        log_num_orders: Float[B] or None, log of how many equally likely token sequences stand for
            the same unordered object (randomly relabelled graphs: ``log(n!/|Aut G|)``; a fixed
            order: 0). Subtracting it from the ordered bound gives the bound on the unordered
            object. Nats.
        conditions: extra tensors, batch axis first, passed by keyword to the backbone; also
            anything else it takes that has ``to`` and ``pin_memory``.
    """

    x0: Tensor
    real: Tensor
    log_num_orders: Tensor | None = None
    conditions: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.x0.shape[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same batch on another device.

        Args:
            device: device to copy to.
            non_blocking: let the copy overlap with the host's work, if memory is pinned.

        Returns:
            A new batch; tensors that are on the device already are shared.
        """
        return self._each(lambda value: value.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The same batch in pinned memory, from which a GPU fetches it while the host goes on.

        Returns:
            A new batch, on the CPU.
        """
        return self._each(lambda value: value.pin_memory())

    def rows(self, rows: Tensor) -> Batch:
        """Some samples of the batch.

        Args:
            rows: Int[K] or Bool[B], indices or mask of the samples.

        Returns:
            A new batch, on the device of this one.
        """
        rows = rows.to(self.x0.device)
        return self._each(lambda value: value[rows])

    def _each(self, change: Callable[[Any], Any]) -> Batch:
        # tensors of the batch, then its conditions
        changed = {
            f.name: change(value)
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), Tensor)
        }
        conditions = {name: change(value) for name, value in self.conditions.items()}
        return replace(self, **changed, conditions=conditions)


@dataclass(frozen=True)
class LossOutput:
    """Result of ``Algorithm.loss``.

    Args:
        loss: Float[], the scalar to minimise (any training weight allowed).
        nelbo: Float[B], an unbiased estimate of the negative evidence lower bound of each sample,
            nats.
        num_real: Int[B], positions of each sample that the bound is about; ``nelbo.sum() /
            num_real.sum()`` is the bound per token, or per row.
    """

    loss: Tensor
    nelbo: Tensor
    num_real: Tensor


ORDERINGS = ("ordered_random", "ordered_fixed")
"""Quantities that a bound can be about if the order of a sample is a choice."""


@dataclass(frozen=True)
class BoundEstimate:
    """NELBO in nats, estimated on several samples.

    The standard errors are those of a mean over samples: noise of the estimates and spread of the
    samples together.

    Args:
        quantity: the quantity bounded: one of ``ORDERINGS``, or, for data without orders,
            ``plain``, ``gaussian``, ``gaussian_given_observed``, ``reconstruction``.
        per_sample: mean over samples, nats.
        standard_error: standard error of ``per_sample``, nats; NaN for a single sample.
        per_token: nats per real token.
        unordered: bound on -log p of the object in any order, nats: ``ordered_random`` minus
            log(n!/|Aut|), or ``ordered_fixed``; None for data without orders.
        unordered_standard_error: standard error of ``unordered``, nats.
        num_samples: number of samples.
    """

    quantity: str
    per_sample: float
    standard_error: float
    per_token: float
    unordered: float | None
    unordered_standard_error: float | None
    num_samples: int

    @property
    def headline(self) -> tuple[str, float, float]:
        """Name, value and error of the bound to quote: ``unordered`` if there is one."""
        if self.unordered is None or self.unordered_standard_error is None:
            return self.quantity, self.per_sample, self.standard_error
        return "unordered", self.unordered, self.unordered_standard_error

    @property
    def headline_per_token(self) -> float:
        """The bound to quote, nats per token of the samples.

        NaN if the bound is 0, for example because no noise fell on the only uncertain token.
        """
        if self.per_sample == 0:
            return math.nan
        return self.headline[1] * (self.per_token / self.per_sample)

    def as_dict(self) -> dict[str, float | int]:
        """Entries of ``metrics.json``: each number under the name of the quantity it bounds.

        Returns:
            Nats by name, and the number of samples.
        """
        out = {
            f"nelbo_{self.quantity}": self.per_sample,
            "nelbo_standard_error": self.standard_error,
            f"nelbo_{self.quantity}_per_token": self.per_token,
            "nelbo_num_samples": self.num_samples,
        }
        if self.unordered is not None and self.unordered_standard_error is not None:
            out["nelbo_unordered"] = self.unordered
            out["nelbo_unordered_standard_error"] = self.unordered_standard_error
        return out


@dataclass(frozen=True)
class Prediction:
    """A normalised distribution per position, and what narrowing its support changed.

    Args:
        log_probs: Float[B, L, V], exponentials sum to 1 over V.
        log_weights: Float[B, L, V] or None if nothing was narrowed: by outcome, its log-probability
            without the narrowing minus that with it: the log importance weight of sampling it.
    """

    log_probs: Tensor
    log_weights: Tensor | None


@dataclass(frozen=True)
class SampleOutput:
    """Result of a sampler.

    Args:
        x0: finished samples: Int[B, L] tokens, PAD where ``real`` was False; Float32[B, N, M] rows,
            given values bit for bit; Float32[B, C, H, W] images; Int[B, T] a text, ended by EOS if
            it ends.
        nfe: Int[B], network evaluations spent on each sample.
        log_weights: Float64[B], log importance weights of a narrowed support (0 if not narrowed),
            -inf where a ``Narrowing`` left no id for a token.
        trajectory: Int[K, B, L], if requested: the noise that sampling starts from, then every new
            state of the batch, the last one ``x0``.
        ancestors: Int[B], the initial row from which each resampled particle descends; None for
            independent samples.
        num_forced: Int[B], tokens of each sample that were sampled again because a ``Narrowing``
            excluded the first choice; None if nothing was narrowed.
        rows: Int[B], index of each sample in a request for many, ascending: all, unless a ``Stop``
            left some out; None for one batch.
        columns: Int[B], columns that the network computed for each sample, in all its evaluations;
            None if they were not counted.
    """

    x0: Tensor
    nfe: Tensor
    log_weights: Tensor
    trajectory: Tensor | None = None
    ancestors: Tensor | None = None
    num_forced: Tensor | None = None
    rows: Tensor | None = None
    columns: Tensor | None = None

    def cpu(self) -> SampleOutput:
        """The same output on the CPU.

        Returns:
            A new output; tensors on the CPU already are shared.
        """
        each = (getattr(self, one.name) for one in fields(self))
        return SampleOutput(*(None if x is None else x.cpu() for x in each))  # type: ignore[arg-type]

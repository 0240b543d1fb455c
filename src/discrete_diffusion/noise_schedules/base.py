"""``Schedule``: the keep probability alpha(t) of tokens, and a check of its methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from discrete_diffusion.config.values import Checked
from discrete_diffusion.layout.token_layout import TokenLayout

SMALLEST_TIME = 2.0**-53
"""Smallest time sampled: above 0, where every weight is finite."""


def per_token(value: Tensor) -> Tensor:
    """A quantity per sample or per token, ready to broadcast against (B, L).

    Args:
        value: Float[B] or Float[B, L].

    Returns:
        Float[B, 1] or Float[B, L].
    """
    return value.unsqueeze(-1) if value.ndim == 1 else value


class Schedule(Checked, nn.Module, ABC):
    """The keep probability alpha(t): strictly decreasing, alpha(0) = 1 and alpha(1) = 0 exactly.

    With those end points the prior and reconstruction terms of every bound are exactly 0. A
    textbook form A(t) that misses either end is rescaled, (A(t) - A(1)) / (A(0) - A(1)).

    ``t`` is Float[B]; results are Float[B], or Float[B, L] for a schedule per group or token.
    Every quantity is computed without cancellation, so 1 - alpha keeps its relative precision
    near t = 0 and alpha near t = 1. Ratios that can overflow are computed only here.
    """

    section = "schedule"
    learned: ClassVar[bool] = False
    """True if the schedule has parameters; only some algorithms compute their gradient."""

    def __init__(self) -> None:  # its signature says that there are no options
        super().__init__()

    @abstractmethod
    def alpha(self, t: Tensor) -> Tensor:
        """Keep probability alpha(t).

        Args:
            t: Float[B], times in [0, 1].

        Returns:
            Float[B] or Float[B, L].
        """

    @abstractmethod
    def one_minus_alpha(self, t: Tensor) -> Tensor:
        """Corrupted share 1 - alpha(t), computed without subtraction.

        Args:
            t: Float[B], times in [0, 1].

        Returns:
            Float[B] or Float[B, L].
        """

    def log_one_minus_alpha(self, t: Tensor) -> Tensor:
        """log(1 - alpha(t)), where 1 - alpha itself may be too small for a float.

        Args:
            t: Float[B], times in (0, 1].

        Returns:
            Float[B] or Float[B, L].
        """
        return self.one_minus_alpha(t).log()

    @abstractmethod
    def dalpha(self, t: Tensor) -> Tensor:
        """Slope d alpha / dt <= 0.

        Args:
            t: Float[B], times in [0, 1].

        Returns:
            Float[B] or Float[B, L].
        """

    @abstractmethod
    def inverse(self, u: Tensor) -> Tensor:
        """The time t at which 1 - alpha(t) = u.

        Args:
            u: Float[B], corrupted shares in [0, 1]; Float[B, L] for a schedule per group.

        Returns:
            Times, the same shape.
        """

    def weight(self, t: Tensor) -> Tensor:
        """-alpha'(t) / (1 - alpha(t)), the rate of the absorbing bound.

        Args:
            t: Float[B], times in (0, 1].

        Returns:
            Float[B] or Float[B, L], finite.
        """
        return -self.dalpha(t) / self.one_minus_alpha(t)


NUM_TIMES = 64
"""Number of times to check, both ends included."""

TOLERANCE = 1e-6
"""Absolute tolerance of keep probabilities and times; a hundred times that is the relative
tolerance of slopes and rates."""

END_TOLERANCE = 1e-9
"""Tolerance of alpha at both ends: rounding errors pass, the epsilon of textbook schedules does
not."""

_STEP = 1e-5
"""Step of a difference, as a share of the distance to the nearer end."""

_LEAST = 1e-300
"""A corrupted share below which float64 keeps no digits to compare."""


def check_schedule(schedule: Schedule, layout: TokenLayout | None = None) -> None:
    """Check a schedule at 64 times, in float64 and without gradients.

        alpha(0) = 1,  alpha(1) = 0,  alpha falls,      one_minus_alpha = 1 - alpha,
        dalpha = (alpha(t + h) - alpha(t - h)) / 2h,    inverse(1 - alpha(t)) = t,
        log_one_minus_alpha = log(1 - alpha),           weight = -dalpha / (1 - alpha)

    With a wrong schedule a loss is not a bound. ``build_schedule`` and every ``ForwardProcess``
    call this. On the meta device there is nothing to check.

    Args:
        schedule: a schedule; its results are Float[B], or Float[B, L] for a schedule per group or
            token.
        layout: layout of the data, to compare L with; None accepts any L.

    Raises:
        ValueError: one of these does not hold, or a result has another shape or type; the message
            names the first one, with method, time, value and what was expected.
    """
    # times on the device of the schedule, else of the layout
    tensors = chain(schedule.parameters(), schedule.buffers())
    own = next(tensors, None if layout is None else layout.support)
    t = torch.empty(NUM_TIMES, dtype=torch.float64, device=None if own is None else own.device)
    if t.is_meta:
        return
    torch.linspace(0.0157, 0.9843, NUM_TIMES - 2, out=t[1:-1])
    t[0], t[-1] = 0.0, 1.0
    with torch.no_grad():
        _Check(schedule, t, None if layout is None else layout.length).run()


class _Check:
    """Results of a schedule at times t Float64[T], each compared with what it should be."""

    def __init__(self, schedule: Schedule, t: Tensor, length: int | None) -> None:
        self.schedule, self.t, self.length = schedule, t, length
        self.shape: tuple[int, ...] | None = None

    def run(self) -> None:
        """Raise ``ValueError`` for the first property that does not hold."""
        t, inner = self.t, self.t[1:-1]
        alpha = self.result("alpha", t)
        self.check_ends(alpha)
        self.check_falls(alpha)
        hidden = self.result("one_minus_alpha", t)
        self._compare("one_minus_alpha", t, hidden, 1 - alpha, "1 - alpha", TOLERANCE)

        # the slope by differences, to within the corners of alpha
        h = _STEP * torch.minimum(inner, 1 - inner)
        before, after = self.result("alpha", inner - h), self.result("alpha", inner + h)
        slope = (after - before) / (2 * per_token(h))
        corner = (after + before - 2 * alpha[1:-1]).abs() / (2 * per_token(h))
        tolerance = corner + (1e-4 * slope.abs()).clamp(min=TOLERANCE)
        dalpha = self.result("dalpha", inner)
        self._compare("dalpha", inner, dalpha, slope, "the slope of alpha", tolerance)
        self.check_inverse(alpha, hidden, dalpha)

        # logarithm and weight, where the corrupted share has digits
        share = hidden[1:-1]
        seen = share > _LEAST
        log_share = self.result("log_one_minus_alpha", inner).where(seen, 0.0)
        expected = share.log().where(seen, 0.0)
        self._compare(
            "log_one_minus_alpha", inner, log_share, expected, "log(1 - alpha)", TOLERANCE
        )
        weight = self.result("weight", inner).where(seen, 0.0)
        expected = (-dalpha / share).where(seen, 0.0)
        tolerance = (1e-4 * expected.abs()).clamp(min=TOLERANCE)
        self._compare("weight", inner, weight, expected, "-dalpha / (1 - alpha)", tolerance)

    def result(self, method: str, at: Tensor) -> Tensor:
        """Result of ``method``, Float64[T, 1] or [T, L]; ``ValueError`` for another shape."""
        value: Any = getattr(self.schedule, method)(at)
        if not isinstance(value, Tensor) or value.dtype != at.dtype:
            got = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
            self._refuse(f"{method}(t) is {got} for t in float64; expected a tensor of t's type")
        # per sample, or per position; the same for all methods
        per_position = (len(at), *(() if self.length is None else (self.length,)))
        fits = value.shape == at.shape or (
            value.ndim == 2 and tuple(value.shape[: len(per_position)]) == per_position
        )
        axes = tuple(value.shape[1:])
        if not fits or axes != (axes if self.shape is None else self.shape):
            length = "L" if self.length is None else self.length
            self._refuse(
                f"{method}(t) has shape {tuple(value.shape)} for t of shape {tuple(at.shape)}; "
                f"expected ({len(at)},), or ({len(at)}, {length}) per position, for all methods"
            )
        self.shape = axes
        return per_token(value)

    def check_ends(self, alpha: Tensor) -> None:
        for at, expected in ((0, 1.0), (-1, 0.0)):
            off = ~((alpha[at] - expected).abs() <= END_TOLERANCE)
            if off.any():
                self._refuse(
                    f"alpha({-at}) = {float(alpha[at][off][0]):.6g}, expected {expected:g}: the "
                    "bound needs clean data at 0 and none of it at 1; rescale A(t) to "
                    "(A(t) - A(1)) / (A(0) - A(1)), and its slope"
                )

    def check_falls(self, alpha: Tensor) -> None:
        """Check that alpha falls; equal values pass where they round to 0 or 1."""
        # near 0 and 1 float64 may not distinguish two values
        ends = torch.minimum(alpha[:-1], 1 - alpha[1:]) < 1e-12
        rises = ~(alpha.diff(dim=0) < torch.where(ends, TOLERANCE**2, 0.0))
        if rises.any():
            k, position = rises.nonzero()[0].tolist()
            before, after = alpha[k, position], alpha[k + 1, position]
            self._refuse(
                f"alpha({self.t[k + 1]:.6g}) = {after:.6g}, expected less than "
                f"alpha({self.t[k]:.6g}) = {before:.6g}{self._place(position)}: alpha must "
                "fall, or the process has negative rates"
            )

    def check_inverse(self, alpha: Tensor, hidden: Tensor, dalpha: Tensor) -> None:
        """Check the inverse to within the change of t by a rounding of 1 - alpha.

        Where alpha is tiny, every t passes. ``dalpha``: Float64[T - 2, ...], the slope.
        """
        back = self.result("inverse", hidden if self.shape else hidden.squeeze(-1))
        # a rounding of 1 - alpha over the slope
        tolerance = torch.full_like(hidden, 1e-5)
        rounding = 4 * torch.finfo(hidden.dtype).eps * hidden[1:-1] + _LEAST
        tolerance[1:-1] += rounding / dalpha.abs()
        tolerance[1:-1][alpha[1:-1] < END_TOLERANCE] = torch.inf
        expected = per_token(self.t).expand_as(hidden)
        self._compare("inverse", hidden, back, expected, "the t of this 1 - alpha", tolerance)

    def _compare(
        self, method: str, at: Tensor, value: Tensor, expected: Tensor, what: str, tolerance: Any
    ) -> None:
        """Compare ``value`` with ``expected``, Float64[T, 1 or L]; ``at``: the argument."""
        off = ~((value - expected).abs() <= tolerance)
        if off.any():
            k, position = off.nonzero()[0].tolist()
            argument = per_token(at)[k, position if at.ndim == 2 else 0]
            self._refuse(
                f"{method}({argument:.6g}) = {value[k, position]:.6g}, expected "
                f"{expected[k, position]:.6g}, {what}{self._place(position)}"
            )

    def _place(self, position: int) -> str:
        return f", at position {position}" if self.shape else ""

    def _refuse(self, what: str) -> None:
        raise ValueError(f"noise schedule {type(self.schedule).__name__}: {what}")

"""Guesses of images without a network: the background, a mean, a linear map.

Axes: ``M`` images ``C`` x ``H`` x ``W`` with maps ``n`` x ``n``; ``P`` = C H W pixels, ``E`` =
n (n + 1) / 2 entries of a map's upper triangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True)
class SameImage:
    """``image`` Float[C, H, W], whatever the map."""

    image: Tensor

    def predict(self, maps: Tensor) -> Tensor:
        """Float32[M, C, H, W] of maps Float[M, n, n]."""
        return self.image.float().expand(len(maps), *self.image.shape).clone()


@dataclass(frozen=True)
class Ridge:
    """Linear regression of the pixels on the entries z of a map's upper triangle, which are
    standardised by the training maps:

        y = m + W^T z,   W = argmin  (1 / M) sum_i |x_i - m - W^T z_i|^2 + penalty |W|^2
                           = (Z^T Z / M + penalty I)^-1 Z^T X / M,

    with m the mean training image. The penalty is the one with which a training image is predicted
    best from the others, all penalties by one decomposition of Z: left out, the error of image i is

        (x_i - y_i) / (1 - 1 / M - H_ii),   H = Z (Z^T Z + M penalty I)^-1 Z^T.

    (Entries stay standardised by all maps.)
    ``shift``, ``scale``: Float64[E]; an entry that is constant counts for nothing. ``weights``: W,
    Float64[E, P]. ``mean``: m, Float64[C, H, W]. ``penalty``: the one that was chosen.
    """

    shift: Tensor
    scale: Tensor
    weights: Tensor
    mean: Tensor
    penalty: float

    @classmethod
    def fit(
        cls,
        maps: Tensor,
        images: Tensor,
        *,
        penalties: Sequence[float] = PENALTIES,
    ) -> Ridge:
        """Fit to ``maps`` Float[M, n, n] and ``images`` Float[M, C, H, W].

        Raises ``ValueError`` without an image or a penalty, or for a penalty that is not positive.
        """
        mean = mean_image(images)
        if not penalties or min(penalties) <= 0:
            raise ValueError(f"penalties={tuple(penalties)}: expected positive numbers, at least 1")
        entries = upper_triangle(maps)
        shift, scale = entries.mean(dim=0), entries.std(dim=0, correction=0)
        flat = scale <= 1e-12 * shift.abs()
        scale = torch.where(flat, torch.inf, scale)
        left, values, right = _decomposed((entries - shift) / scale)
        num, x = len(images), (images - mean).flatten(1)  # (M, P), Float64
        inside = left.T @ x  # (R, P)
        x -= left @ inside  # what no W reaches
        alone, cross, gram = x.square().sum(dim=1), x @ inside.T, inside @ inside.T
        free = 1 - 1 / num - left.square().sum(dim=1)

        def left_out(penalty: float) -> float:
            """Squared error of images, each predicted from the others."""
            lost = left * (num * penalty / (values + num * penalty))  # (M, R)
            errors = alone + (lost * (2 * cross + lost @ gram)).sum(dim=1)
            return float((errors / (free + (left * lost).sum(dim=1)).square()).sum())

        penalty = min(penalties, key=left_out)
        shrunk = values.sqrt() / (values + num * penalty)
        return cls(shift, scale, right @ (shrunk.unsqueeze(1) * inside), mean, penalty)

    def predict(self, maps: Tensor) -> Tensor:
        """Float32[M, C, H, W] of maps Float[M, n, n]."""
        z = (upper_triangle(maps) - self.shift) / self.scale
        return (z @ self.weights).reshape(len(maps), *self.mean.shape).add(self.mean).float()


def upper_triangle(maps: Tensor) -> Tensor:
    """Float64[M, E]: the upper triangle of Float[M, n, n], row by row, with the diagonal."""
    rows, columns = torch.triu_indices(*maps.shape[-2:])
    return maps[:, rows, columns].double()


def _decomposed(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U Float64[M, R], S^2 Float64[R] and V Float64[E, R] of Z = U S V^T, Float64[M, E], without
    what is 0 up to rounding; by the eigenvalues of Z^T Z or Z Z^T, whichever is smaller."""
    dual = len(z) < z.shape[1]
    values, vectors = torch.linalg.eigh(z @ z.T if dual else z.T @ z)
    there = values > 1e-13 * values[-1:]
    values, vectors = values[there], vectors[:, there]
    others = (z.T if dual else z) @ vectors / values.sqrt()
    return (vectors, values, others) if dual else (others, values, vectors)


def mean_image(images: Tensor) -> Tensor:
    """Float64[C, H, W] of Float[M, C, H, W]. Raises ``ValueError`` without an image."""
    if images.ndim != 4 or len(images) == 0:
        raise ValueError(
            f"training images {tuple(images.shape)}: expected (M, C, H, W), at least one image"
        )
    return images.mean(dim=0, dtype=torch.float64)

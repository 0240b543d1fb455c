"""What images are guessed to be without a network: the background, a mean, a linear map.

Axes: ``M`` images ``C`` x ``H`` x ``W`` with maps ``n`` x ``n``; ``P`` = C H W pixels, ``E`` =
n (n + 1) / 2 entries of a map's upper triangle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from einops import rearrange
from torch import Tensor

PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_AT_ONCE = 1024
"""Images that are made Float64 at once."""


class ImageBaseline(Protocol):
    """Predicts images from maps."""

    def predict(self, maps: Tensor) -> Tensor:
        """Float32[M, C, H, W] of maps Float[M, n, n]."""
        ...


@dataclass(frozen=True)
class Ones:
    """The background: 1 in every pixel of images of ``shape`` (C, H, W)."""

    shape: tuple[int, ...]

    def predict(self, maps: Tensor) -> Tensor:
        return torch.ones(len(maps), *self.shape)


@dataclass(frozen=True)
class MeanImage:
    """The mean training image, whatever the map. ``mean``: Float64[C, H, W]."""

    mean: Tensor

    @classmethod
    def fit(cls, images: Tensor) -> MeanImage:
        """``images``: Float[M, C, H, W]. Raises ``ValueError`` without an image."""
        _check_images(images)
        return cls(images.mean(dim=0, dtype=torch.float64))

    def predict(self, maps: Tensor) -> Tensor:
        return self.mean.float().expand(len(maps), *self.mean.shape).clone()


@dataclass(frozen=True)
class Ridge:
    """Linear regression of the pixels on the entries z of a map's upper triangle, which are
    standardised by the training maps:

        y = m + W^T z,   W = argmin  (1 / M) sum_i |x_i - m - W^T z_i|^2 + penalty |W|^2
                           = (Z^T Z / M + penalty I)^-1 Z^T X / M,

    with m the mean training image. ``shift``, ``scale``: Float64[E]; an entry that is constant
    counts for nothing. ``weights``: W, Float64[E, P]. ``mean``: m, Float64[C, H, W].
    ``penalty``: the one that was chosen.
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
        val_maps: Tensor,
        val_images: Tensor,
        *,
        penalties: Sequence[float] = PENALTIES,
    ) -> Ridge:
        """Fit to ``maps`` Float[M, n, n] and ``images`` Float[M, C, H, W], with the penalty of the
        lowest squared error on the validation maps and images. One eigendecomposition of Z^T Z / M
        serves all penalties.

        Raises ``ValueError`` without a training image, a validation image or a penalty, or for a
        penalty that is not positive.
        """
        _check_images(images)
        if len(val_images) == 0:
            raise ValueError("no validation image to choose the penalty by; give it a share")
        if not penalties or min(penalties) <= 0:
            raise ValueError(f"penalties={tuple(penalties)}: expected positive numbers, at least 1")
        entries = upper_triangle(maps)
        shift, scale = entries.mean(dim=0), entries.std(dim=0, correction=0)
        flat = scale <= 1e-12 * shift.abs()
        scale = torch.where(flat, torch.inf, scale)
        mean = MeanImage.fit(images).mean
        z = (entries - shift) / scale  # (M, E)
        values, vectors = torch.linalg.eigh(z.T @ z / len(z))
        products = vectors.T @ _products(z, images, mean) / len(z)  # (E, P)
        held_out = (upper_triangle(val_maps) - shift) / scale @ vectors

        def error(penalty: float) -> float:
            shrunk = held_out / (values + penalty)
            return sum(
                float((x - a @ products).square().sum())
                for a, x in zip(shrunk.split(_AT_ONCE), _centred(val_images, mean), strict=True)
            )

        penalty = min(penalties, key=error)
        weights = vectors @ (products / (values + penalty).unsqueeze(1))
        return cls(shift, scale, weights, mean, penalty)

    def predict(self, maps: Tensor) -> Tensor:
        z = (upper_triangle(maps) - self.shift) / self.scale
        parts = [(part @ self.weights).float() for part in z.split(_AT_ONCE)]
        return torch.cat(parts).reshape(len(maps), *self.mean.shape) + self.mean.float()


def upper_triangle(maps: Tensor) -> Tensor:
    """Float64[M, E]: the upper triangle of Float[M, n, n], row by row, with the diagonal."""
    rows, columns = torch.triu_indices(*maps.shape[-2:])
    return maps[:, rows, columns].double()


def _centred(images: Tensor, mean: Tensor) -> Iterator[Tensor]:
    """Images less the mean, Float64[at most ``_AT_ONCE``, P] at a time."""
    for part in images.split(_AT_ONCE):
        yield rearrange(part.double() - mean, "m c h w -> m (c h w)")


def _products(z: Tensor, images: Tensor, mean: Tensor) -> Tensor:
    """Z^T X, Float64[E, P], of centred images."""
    total = torch.zeros(z.shape[1], mean.numel(), dtype=torch.float64)
    for part, x in zip(z.split(_AT_ONCE), _centred(images, mean), strict=True):
        total += part.T @ x
    return total


def _check_images(images: Tensor) -> None:
    if images.ndim != 4 or len(images) == 0:
        raise ValueError(
            f"training images {tuple(images.shape)}: expected (M, C, H, W), at least one image"
        )

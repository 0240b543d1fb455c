"""Images that are jointly Gaussian, and the network that knows them: every E[x0 | x_t] exact."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from continuous_states.algorithms.fields import FlowMatching
from gaussian_world import GaussianWorld
from toy_world import DROPOUT


class GaussianImages:
    """Images 1 x S x S, x ~ N(mean(condition), covariance); the condition is a sign per image."""

    def __init__(self, size: int = 3) -> None:
        self.size = size
        self.world = GaussianWorld(num_rows=1, num_features=size * size)
        self.mean = torch.linspace(-1, 1, size * size, dtype=torch.float64)

    def draw(self, num: int, seed: int = 1) -> tuple[Tensor, Tensor]:
        """Images Float32[num, 1, S, S] and their conditions Float32[num, 1, 1]."""
        sign = torch.where(torch.arange(num) % 2 == 0, 1.0, -1.0)
        flat = self.world.draw(num, seed)[:, 0] + sign[:, None] * self.mean.float()
        return flat.reshape(num, 1, self.size, self.size), sign.reshape(-1, 1, 1)

    def left(self, t: float) -> Tensor:
        """Float64[P]: variances of x0 given x_t, along the eigenvectors of the covariance."""
        values = torch.linalg.eigvalsh(self.world.covariance)
        return values * t**2 / ((1 - t) ** 2 * values + t**2)

    def expected(self, xt: Tensor, mean: Tensor, t: Tensor) -> Tensor:
        """E[x0 | x_t] for x0 ~ N(mean, covariance): Float64[B, P] of xt, mean Float64[B, P] and
        times Float64[B, 1]."""
        values, vectors = torch.linalg.eigh(self.world.covariance)
        along = (xt - (1 - t) * mean) @ vectors
        return mean + ((1 - t) * values / ((1 - t) ** 2 * values + t**2) * along) @ vectors.T


class ExactImages(nn.Module):
    """The backbone that knows the world. ``dtn``: the condition; ``keep`` False: without it, a
    mean of 0 is used, which is what guidance is tested with. While training it has dropout."""

    encoder_reads_time = False

    def __init__(self, images: GaussianImages) -> None:
        super().__init__()
        self.images, self.times, self.encoded = images, [], 0

    def encode(self, dtn: Tensor) -> Tensor:
        self.encoded += 1
        return dtn

    def forward(self, x_t, sigma=None, dtn=None, keep=None, encoded=None):
        t = -torch.expm1(-sigma.double())
        t = torch.where(t > 1 - 1.5e-4, 1.0, t)  # sigma is cut off there
        condition = dtn if encoded is None else encoded
        sign = condition.double().flatten()
        if keep is not None:
            sign = torch.where(keep, sign, 0.0)
        mean = sign[:, None] * self.images.mean
        self.times += t.unique().tolist()
        flat = x_t.flatten(1).double()
        found = self.images.expected(flat, mean, t.unsqueeze(1))
        found = found.reshape(x_t.shape).float()
        return nn.functional.dropout(found, DROPOUT, self.training)


def exact_flow(images: GaussianImages, **options) -> FlowMatching:
    """``FlowMatching`` with the exact network, pixels left as they are."""
    return FlowMatching(ExactImages(images), channels=1, **options).eval()

"""A world of rows whose every conditional mean is known: jointly Gaussian, means 0.

The counterpart of ``toy_world`` for real numbers: the network is replaced by the exact prediction,
so whatever a bound or a sampler misses is its own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from continuous_states.algorithms.gaussian import LinearGaussian
from continuous_states.algorithms.masked_features import MaskedFeatures
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear, Schedule
from toy_world import DROPOUT


def row_layout(num_rows: int) -> TokenLayout:
    """Rows as tokens, as ``data=regions`` has them."""
    return TokenLayout.flat(num_rows, 3, mask_id=1, pad_id=2)


class GaussianWorld:
    """Windows of N rows of M features, x ~ N(0, covariance), covariance Float64[N M, N M]."""

    def __init__(self, num_rows: int, num_features: int, seed: int = 0) -> None:
        self.num_rows, self.num_features = num_rows, num_features
        size = num_rows * num_features
        generator = torch.Generator().manual_seed(seed)
        root = torch.randn(size, size, generator=generator, dtype=torch.float64)
        self.covariance = root @ root.T / size + 0.3 * torch.eye(size, dtype=torch.float64)

    def draw(self, num: int, seed: int = 1) -> Tensor:
        """Float32[num, N, M]."""
        generator = torch.Generator().manual_seed(seed)
        size = len(self.covariance)
        normal = torch.randn(num, size, generator=generator, dtype=torch.float64)
        x = normal @ torch.linalg.cholesky(self.covariance).T
        return x.reshape(num, self.num_rows, self.num_features).float()

    def numbers(self, rows: Tensor) -> Tensor:
        """Bool[N] rows -> Bool[N M], the numbers in them."""
        return rows.repeat_interleave(self.num_features)

    def given(self, hidden: Tensor, noise: float | None = None) -> tuple[Tensor, Tensor]:
        """Gain Float64[h, N M] and covariance Float64[h, h] of the numbers in ``hidden`` rows
        Bool[N] given the others and, with ``noise`` (the share alpha_bar that is left), themselves
        noised: E[x_hidden | y] = gain y, where y holds sqrt(alpha_bar) x + sqrt(1 - alpha_bar) eps
        there."""
        unknown, size = self.numbers(hidden), len(self.covariance)
        seen = torch.eye(size, dtype=torch.float64)
        kept = 0.0 if noise is None else noise
        seen[unknown] *= math.sqrt(kept)
        extra = torch.diag(unknown.double() * (1 - kept if noise is not None else 1.0))
        cross = self.covariance[unknown] @ seen.T  # cov(x_hidden, y)
        gain = cross @ torch.linalg.inv(seen @ self.covariance @ seen.T + extra)
        left = self.covariance[unknown][:, unknown] - gain @ cross.T
        return gain, left

    def entropy(self, hidden: Tensor) -> float:
        """Of the numbers in ``hidden`` rows Bool[N] given the others, nats."""
        left = self.given(hidden)[1]
        return float(torch.logdet(2 * math.pi * math.e * left)) / 2


class ExactRows(nn.Module):
    """The backbone that knows the world: E[x0 | what is seen]; while training it has dropout."""

    def __init__(self, world: GaussianWorld) -> None:
        super().__init__()
        self.world, self.gaussian = world, LinearGaussian()
        self.sigmas: list[Tensor | None] = []

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        masked: Tensor | None = None,
        noisy: Tensor | None = None,
        real: Tensor | None = None,
    ) -> Tensor:
        self.sigmas.append(sigma)
        out = x_t.double().clone()
        hidden = masked if noisy is None else noisy
        assert hidden is not None
        steps = torch.zeros(len(x_t), dtype=torch.long)
        if noisy is not None:
            assert sigma is not None
            steps = (-torch.expm1(-sigma.double()) * self.gaussian.num_timesteps).round().long()
        cases = torch.cat([hidden.long(), steps.unsqueeze(1)], dim=1)
        for case in cases.unique(dim=0):
            here = (cases == case).all(dim=1)
            rows, k = case[:-1].bool(), case[-1:]
            if not rows.any():
                continue
            kept = None if noisy is None else float(self.gaussian.alpha_bar(k))
            gain, _ = self.world.given(rows, kept)
            y = x_t[here].double()
            if noisy is None:
                y = y.masked_fill(rows[:, None], 0.0)
            mean = y.flatten(1) @ gain.T
            out[here] = out[here].masked_scatter(
                rows[:, None].expand_as(out[here]), mean.reshape(len(mean), -1, y.shape[-1])
            )
        return nn.functional.dropout(out.float(), DROPOUT, self.training)


def exact_model(
    world: GaussianWorld, *, schedule: Schedule | None = None, **options: object
) -> MaskedFeatures:
    """``MaskedFeatures`` with the exact network, values left as they are."""
    process = Absorbing(row_layout(world.num_rows), schedule or LogLinear())
    backbone = ExactRows(world)
    options = {"normalise": "none", **options}
    model = MaskedFeatures(
        backbone,
        process,
        num_features=world.num_features,
        **options,  # type: ignore[arg-type]
    )
    backbone.gaussian = model.gaussian
    return model.eval()

"""Scaling of real numbers, and the Gaussian noise that is added to them.

An algorithm creates its Gaussian process itself. Processes of tokens (``ForwardProcess``) are named
by the config and share no method with Gaussian processes: they give probabilities of ids instead of
means and variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args

import torch
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.categorical import send, uniform_draws
from discrete_diffusion.config import Bounds, Checked, check_name

Scaled = Literal["zscore", "max", "none"]
Steps = Annotated[int, Bounds(least=2)]
"""Default number of steps of ``LinearGaussian``."""

CHUNK = 16
"""Number of windows converted to float64 at once, to save memory."""


class Scaling(nn.Module):
    """(x - shift) / scale, fitted to the training data and kept in the checkpoint."""

    shift: Tensor
    scale: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Scale raw values, Float32."""
        return (x.float() - self.shift) / self.scale

    def inverse(self, x: Tensor) -> Tensor:
        """Convert scaled values back to raw values, Float32."""
        return x.float() * self.scale + self.shift

    def _set(self, shift: Tensor, scale: Tensor) -> None:
        """Set shift and scale; a feature that does not vary has scale 1."""
        self.shift.copy_(shift)
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))


class FieldScaling(Scaling):
    """(x - mean) / deviation per channel of Float[B, C, H, W], over all pixels of the training
    images."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, 1, 1)

    def fit(self, x0: Tensor) -> None:
        """Set mean and deviation to those of the training images ``x0`` Float[M, C, H, W]."""
        if len(x0):
            pixels, over = x0.double(), (0, 2, 3)
            self._set(pixels.mean(over, keepdim=True)[0], pixels.std(over, keepdim=True)[0])


class RowScaling(Scaling):
    """(x - shift) / scale per feature of rows Float[B, N, M]. ``zscore``: shift the mean, scale the
    standard deviation. ``max``: divide by the largest value. ``none``: leave values unchanged. A
    feature that is constant (``zscore``), or 0 (``max``), has scale 1."""

    def __init__(self, how: str, num_features: int) -> None:
        super().__init__(num_features)
        check_name("algo.normalise", how, get_args(Scaled))
        self.how = how

    def fit(self, x0: Tensor, real: Tensor) -> None:
        """Set shift and scale by the rows of training: ``x0`` Float[W, N, M], where ``real``
        Bool[W, N]. Raises ``ValueError`` if M is not the number of features."""
        if x0.shape[-1] != len(self.scale):
            raise ValueError(
                f"the data has {x0.shape[-1]} features, the model {len(self.scale)}; "
                "set data.num_features=null to take it from the data"
            )
        num = int(real.sum())
        if self.how == "none" or num == 0:
            return
        shift = torch.zeros(x0.shape[-1], dtype=torch.float64, device=x0.device)
        scale = torch.zeros_like(shift)
        if self.how == "max":
            for rows in _real_rows(x0, real):
                scale = torch.maximum(scale, rows.amax(dim=0))
        else:
            # two passes: the mean, then the spread about it
            for rows in _real_rows(x0, real):
                shift += rows.sum(dim=0)
            shift /= num
            for rows in _real_rows(x0, real):
                scale += (rows - shift).square().sum(dim=0)
            scale = (scale / num).sqrt()
            # a spread that rounding alone explains is none
            scale = torch.where(scale > 1e-9 * shift.abs(), scale, 0.0)
        self._set(shift, scale)


def _real_rows(x0: Tensor, real: Tensor) -> Iterator[Tensor]:
    """Yield the real rows of ``CHUNK`` windows at a time, Float64[R, M]; R is at least 1."""
    for rows, there in zip(x0.split(CHUNK), real.split(CHUNK), strict=True):
        if there.any():
            yield rows[there].double()


class LinearGaussian(Checked, nn.Module):
    """The noise of DDPM with linear beta (Ho et al., arXiv 2006.11239, eq. 4 and 7).

        beta_k = beta_start + k / (T - 1) (beta_end - beta_start)       k = 0 .. T - 1
        alpha_bar_k = (1 - beta_0) ... (1 - beta_k),  alpha_bar_-1 = 1
        q(x_k | x0) = N(sqrt(alpha_bar_k) x0, (1 - alpha_bar_k) I)

    Data are Float[B, N, M]; steps are Int[B], one per sample; step -1 is the clean data.

    The bound on -log p(x0) is a sum over steps of precision_k |x0 - xhat|^2 / 2. Here precision_0 =
    1 / beta_start is that of N(xhat, beta_start), and for k > 0 precision_k = SNR_{k-1} - SNR_k
    with SNR = alpha_bar / (1 - alpha_bar) (arXiv 2107.00630, eq. 14).
    Raises ``ValueError`` for fewer than two steps, or betas that are not 0 < start <= end < 1.
    """

    def __init__(
        self, *, num_timesteps: Steps = 1000, beta_start: float = 1e-4, beta_end: float = 0.02
    ) -> None:
        super().__init__()
        if not 0 < beta_start <= beta_end < 1:
            raise ValueError(
                f"algo.beta_start={beta_start}, algo.beta_end={beta_end}: expected "
                "0 < beta_start <= beta_end < 1"
            )
        self.num_timesteps, self.beta_start = num_timesteps, beta_start
        beta = torch.linspace(beta_start, beta_end, num_timesteps, dtype=torch.float64)
        kept = torch.cat([beta.new_ones(1), (1 - beta).cumprod(dim=0)])
        snr = kept[1:] / (1 - kept[1:])  # signal to noise after step k
        precision = torch.cat([1 / beta.new_tensor([beta_start]), snr[:-1] - snr[1:]])
        # alpha_bar_{k - 1} at place k, Float64[T + 1]
        self.register_buffer("kept", kept, persistent=False)
        # precision of the prediction at step k in the bound, Float64[T]
        self.register_buffer("precision", precision, persistent=False)
        # the same for predictions that are as good as the noise of their inputs allows, Float64[T]
        self.register_buffer("importance", precision / (1 + snr), persistent=False)
        self.kept: Tensor
        self.precision: Tensor
        self.importance: Tensor

    def alpha_bar(self, k: Tensor) -> Tensor:
        """alpha_bar Float64[B]: the share of the data's variance that remains after step k
        Int[B]."""
        return self.kept[k + 1]

    def sigma(self, k: Tensor) -> Tensor:
        """sigma = -log(1 - k / T), Float32[B], so that a backbone reads 1 - exp(-sigma) = k / T."""
        return -torch.log1p(-k.double() / self.num_timesteps).float()

    def sample_steps(self, num: int, generator: torch.Generator, device: torch.device) -> Tensor:
        """Sample steps Int64[num], uniform on 0 .. T - 1, spread evenly over the batch in random
        order."""
        return (_spread_uniform(num, generator, device) * self.num_timesteps).long()

    def sample_important_steps(
        self, num: int, generator: torch.Generator, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Sample steps Int64[num]; return them and 1 / probability, Float64[num], which estimates
        sums over all T steps. The probability is proportional to precision / (1 + SNR), as the
        terms of the bound grow with the precision."""
        cumulative = self.importance.cumsum(dim=0)
        u = _spread_uniform(num, generator, device) * cumulative[-1]
        k = torch.searchsorted(cumulative, u, right=True).clamp(max=self.num_timesteps - 1)
        return k, cumulative[-1] / self.importance[k]

    def corrupt(self, x0: Tensor, k: Tensor, noise: Tensor) -> Tensor:
        """Compute x_k from x0 and standard normal ``noise``, both Float[B, N, M]."""
        kept = rearrange(self.alpha_bar(k), "b -> b 1 1")
        return (kept.sqrt() * x0 + (1 - kept).sqrt() * noise).to(x0)

    def posterior(self, xk: Tensor, x0: Tensor, k: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
        """Mean Float64[B, N, M] and variance Float64[B, 1, 1] of q(x_j | x_k, x0) for j < k; a
        point mass on x0 at j = -1."""
        kept_k, kept_j = (rearrange(self.alpha_bar(i), "b -> b 1 1") for i in (k, j))
        kept_between = kept_k / kept_j
        from_x0 = kept_j.sqrt() * (1 - kept_between) / (1 - kept_k)
        from_xk = kept_between.sqrt() * (1 - kept_j) / (1 - kept_k)
        variance = (1 - kept_j) * (1 - kept_between) / (1 - kept_k)
        return from_x0 * x0 + from_xk * xk, variance


def _spread_uniform(num: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Evenly spread numbers Float64[num] in [0, 1): (u + i / num) mod 1 with one random u, in
    random order."""
    u = uniform_draws((1,), generator) + torch.arange(num, device=generator.device) / num
    order = torch.randperm(num, generator=generator, device=generator.device)
    return send(u[order] % 1, device)

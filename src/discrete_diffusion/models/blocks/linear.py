"""Linear layers that take the faster of two ways to the same sums."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

_FEWEST_SEQUENCES = 16
"""PyTorch hands smaller batches to the slower kernel either way."""

_FEWEST_COLUMNS = 4096
"""From so many on in all, fewer sequences are cut into sixteen; for less it takes longer."""


class Linear(nn.Linear):
    """``nn.Linear`` for sequences (B, L, D), in float32 on AMD processors about twice as fast.

    PyTorch multiplies float32 matrices with MKL, which uses no AVX-512 on AMD processors; oneDNN,
    which computes its convolutions, does. There a batch becomes a convolution with kernels of one
    column (``python benchmarks/speed.py``). Everywhere else this is ``nn.Linear``.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D')."""
        if not _convolution_is_faster(x, self.weight):
            return super().forward(x)
        batch = x if len(x) >= _FEWEST_SEQUENCES else x.reshape(_FEWEST_SEQUENCES, -1, x.shape[-1])
        image = rearrange(batch, "b l d -> b d 1 l")  # a view: channels last, as oneDNN likes it
        out = F.conv2d(image, rearrange(self.weight, "o d -> o d 1 1"), self.bias)
        return rearrange(out, "b o 1 l -> b l o").reshape(*x.shape[:-1], -1)


def _mkl_lags() -> bool:
    """Whether this is an AMD processor with AVX-512, and PyTorch has both libraries."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    says = getattr(torch.cpu, "get_capabilities", dict)  # an older PyTorch does not say
    capabilities: Mapping[str, object] = says()
    return "AMD" in str(capabilities.get("cpu_name")) and bool(capabilities.get("avx512_f"))


_MKL_LAGS = _mkl_lags()


def _is_cut_in_sixteen(x: Tensor) -> bool:
    columns = x.shape[0] * x.shape[1]
    return columns >= _FEWEST_COLUMNS and columns % _FEWEST_SEQUENCES == 0 and x.is_contiguous()


def _convolution_is_faster(x: Tensor, weight: Tensor) -> bool:
    return (
        _MKL_LAGS
        and x.ndim == 3
        and x.numel() > 0
        and (x.shape[0] >= _FEWEST_SEQUENCES or _is_cut_in_sixteen(x))
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )

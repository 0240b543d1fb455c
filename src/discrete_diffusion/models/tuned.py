"""Networks prepared for the processor: less time and memory for the same sums.

Model files say what a network computes; ``tuned`` exchanges the classes of some of its modules for
ones that compute it another way. Names and numbers of parameters stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from discrete_diffusion.models.blocks.transformer import MLP


def tuned(network: nn.Module) -> nn.Module:
    """The network itself, its linear layers and perceptrons exchanged."""
    others: dict[type[nn.Module], type[nn.Module]] = {nn.Linear: FastLinear, MLP: LeanMLP}
    for module in network.modules():
        if (other := others.get(type(module))) is not None:
            module.__class__ = other
    return network


class LeanMLP(MLP):
    """``MLP`` whose backward pass computes GELU again instead of keeping what it gave."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x)
        active = self.activation(hidden)
        with recomputed(active, lambda: self.activation(hidden)):
            return self.down(active)


_FEWEST_SEQUENCES = 16
"""PyTorch hands smaller batches to the slower kernel either way."""

_FEWEST_COLUMNS = 4096
"""From so many on in all, fewer sequences are cut into sixteen; for less it takes longer."""


class FastLinear(nn.Linear):
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
    """True if this is an AMD processor with AVX-512, and PyTorch has both libraries."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    find = getattr(torch.cpu, "get_capabilities", dict)  # which an older PyTorch lacks
    capabilities: Mapping[str, object] = find()
    return "AMD" in str(capabilities.get("cpu_name")) and bool(capabilities.get("avx512_f"))


_MKL_LAGS = _mkl_lags()


def _convolution_is_faster(x: Tensor, weight: Tensor) -> bool:
    if not _MKL_LAGS or x.ndim != 3 or x.numel() == 0 or x.device.type != "cpu":
        return False
    if not x.dtype == weight.dtype == torch.float32 or torch.is_autocast_enabled("cpu"):
        return False
    columns = x.shape[0] * x.shape[1]
    can_be_cut = columns % _FEWEST_SEQUENCES == 0 and x.is_contiguous()
    return x.shape[0] >= _FEWEST_SEQUENCES or (columns >= _FEWEST_COLUMNS and can_be_cut)


def recomputed(tensor: Tensor, again: Callable[[], Tensor]) -> AbstractContextManager[None]:
    """Inside, autograd does not save ``tensor`` or views of it: the backward pass calls ``again``.

    ``again``: computes equal numbers of the same shape and strides from tensors that are saved
    anyway. Nothing is done in a compiled network, which decides for itself what it keeps, under
    ``torch.func``, and for float32 under autocast, which saves a copy of lower precision.

        hidden = up(x)
        active = gelu(hidden)
        with recomputed(active, lambda: gelu(hidden)):  # hidden is saved for gelu's own gradient
            out = down(active)
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return nullcontext()
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return nullcontext()
    kind = tensor.device.type
    autocasts = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    if tensor.dtype == torch.float32 and autocasts:
        return nullcontext()
    storage, start = tensor.untyped_storage()._cdata, tensor.storage_offset()

    def pack(saved: Tensor) -> Tensor | Callable[[], Tensor]:
        if saved.untyped_storage()._cdata != storage:
            return saved.detach()  # itself, it would hold the graph that holds it
        size, stride, offset = saved.size(), saved.stride(), saved.storage_offset() - start

        def unpack_again() -> Tensor:
            with torch.no_grad():
                whole = again()
            return whole.as_strided(size, stride, whole.storage_offset() + offset)

        return unpack_again

    def unpack(kept: Tensor | Callable[[], Tensor]) -> Tensor:
        return kept if isinstance(kept, Tensor) else kept()

    return saved_tensors_hooks(pack, unpack)

"""Networks made faster for the processor that they run on, with the same results.

Model files say what a network computes. ``tuned`` replaces the classes of some modules by faster
classes with the same results; ``compile_backbone`` uses ``torch.compile``. Parameters keep their
names and values.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from discrete_diffusion.models.attention import allow_many_shapes
from discrete_diffusion.models.transformer import MLP, ChannelsFirstLinear
from discrete_diffusion.runtime.devices import REDUCE_OVERHEAD

logger = logging.getLogger(__name__)

CPU_COMPILER = "clang++" if sys.platform == "darwin" else "g++"
"""Compiler that PyTorch calls unless the environment's CXX names another."""

_FEWEST_SEQUENCES = 16
"""Fewest sequences in a batch; PyTorch gives smaller batches to the slower kernel anyway."""

_FEWEST_COLUMNS = 4096
"""Fewest columns for which fewer sequences are cut into sixteen; with fewer, that takes longer."""

_FEWEST_MULTIPLICATIONS = 1 << 23
"""Fewest multiplications of a product that oneDNN computes if no convolution does. From here on it
is as fast as MKL on Zen 4, whose units for AVX-512 are no wider than those for AVX2."""


def tuned(network: nn.Module) -> nn.Module:
    """Exchange the linear layers and perceptrons of a network in place, and return it."""
    others: dict[type[nn.Module], type[nn.Module]] = {
        nn.Linear: FastLinear,
        ChannelsFirstLinear: FastChannelsFirstLinear,
        MLP: LeanMLP,
    }
    for module in network.modules():
        if (other := others.get(type(module))) is not None:
            module.__class__ = other
    return network


class LeanMLP(MLP):
    """``MLP`` that computes GELU again in its backward pass instead of keeping the result."""

    def forward(self, x: Tensor) -> Tensor:
        # hidden is kept for GELU's gradient, active is not
        hidden = self.up(x)
        active = self.activation(hidden)
        with recomputed(active, lambda: self.activation(hidden)):
            return self.down(active)


class FastLinear(nn.Linear):
    """``nn.Linear`` for sequences (B, L, D), in float32 on AMD processors up to twice as fast.

    PyTorch multiplies float32 matrices with MKL, which does not use AVX-512 on AMD processors;
    oneDNN, which computes its convolutions, does. On these a batch becomes a convolution with
    kernels of one column (``python benchmarks/speed.py``), and a large product of few sequences,
    as of one large graph, is oneDNN's. Everywhere else this is ``nn.Linear``.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D')."""
        if not _mkl_is_slower(x, self.weight):
            return super().forward(x)
        # enough sequences, or enough columns to cut into sixteen
        columns = x.shape[0] * x.shape[1]
        can_be_cut = columns % _FEWEST_SEQUENCES == 0 and x.is_contiguous()
        if len(x) < _FEWEST_SEQUENCES and not (columns >= _FEWEST_COLUMNS and can_be_cut):
            large = columns * self.weight.numel() >= _FEWEST_MULTIPLICATIONS
            if not large or not x.is_contiguous() or _is_transformed():
                return super().forward(x)
            out: Tensor = _OneDNNProduct.apply(x, self.weight, self.bias)
            return out
        batch = x if len(x) >= _FEWEST_SEQUENCES else x.reshape(_FEWEST_SEQUENCES, -1, x.shape[-1])
        # a view with channels last, the layout that is fast in oneDNN
        image = rearrange(batch, "b l d -> b d 1 l")
        out = F.conv2d(image, rearrange(self.weight, "o d -> o d 1 1"), self.bias)
        return rearrange(out, "b o 1 l -> b l o").reshape(*x.shape[:-1], -1)


class FastChannelsFirstLinear(ChannelsFirstLinear):
    """``ChannelsFirstLinear`` that leaves large products of float32 to oneDNN on AMD processors."""

    def forward(self, x: Tensor) -> Tensor:
        """x (B, L, D) -> (D', B L)."""
        # sizes last: asked of an exported network they would limit it
        if not _mkl_is_slower(x, self.weight) or _is_transformed():
            return super().forward(x)
        if x.shape[0] * x.shape[1] * self.weight.numel() < _FEWEST_MULTIPLICATIONS:
            return super().forward(x)
        out: Tensor = _ChannelsFirstProduct.apply(self.weight, x.flatten(0, 1))
        return out.add_(self.bias[:, None])


class _ChannelsFirstProduct(torch.autograd.Function):
    """weight (D', D) times x (K, D), channels first: (D', K) of float32 by oneDNN."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(weight, x)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(weight, x, None, "none", [], "")
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (grad,), (weight, x) = grads, ctx.saved_tensors
        needs_weight, needs_x = ctx.needs_input_grad
        return (
            _ChannelsFirstProduct.apply(grad, x.T) if needs_weight else None,
            _ChannelsFirstProduct.apply(weight.T, grad.T).T if needs_x else None,
        )


class _OneDNNProduct(torch.autograd.Function):
    """``F.linear`` of float32 by oneDNN; gradients of weights by MKL, which is faster in those."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (grad,), (x, weight) = grads, ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        columns = grad.flatten(0, -2)
        return (
            _OneDNNProduct.apply(grad, weight.T, None) if needs_x else None,
            columns.T @ x.flatten(0, -2) if needs_weight else None,
            columns.sum(dim=0) if needs_bias else None,
        )


# an older PyTorch lacks get_capabilities
_CAPABILITIES: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
_MKL_LAGS = (
    torch.backends.mkl.is_available()
    and torch.backends.mkldnn.is_available()
    and "AMD" in str(_CAPABILITIES.get("cpu_name"))
    and bool(_CAPABILITIES.get("avx512_f"))
)
"""True on an AMD processor with AVX-512, if PyTorch has both libraries."""


def _mkl_is_slower(x: Tensor, weight: Tensor) -> bool:
    # what is asked of sizes would limit those of an exported network
    if not _MKL_LAGS or torch.compiler.is_exporting():
        return False
    if x.ndim != 3 or x.numel() == 0 or x.device.type != "cpu":
        return False
    return x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")


def _is_transformed() -> bool:
    """True in a compiled network and under ``torch.func``."""
    compiles: bool = torch.compiler.is_compiling()
    return compiles or torch._C._functorch.peek_interpreter_stack() is not None


def recomputed(tensor: Tensor, again: Callable[[], Tensor]) -> AbstractContextManager[None]:
    """Context in which autograd saves neither ``tensor`` nor its views, but calls ``again`` later.

    ``again``: computes equal numbers of the same shape and strides from tensors that are saved
    anyway. The context does nothing in a compiled network, which decides for itself what it keeps,
    under ``torch.func``, and for float32 under autocast, which saves a copy of lower precision.

        hidden = up(x)
        active = gelu(hidden)
        with recomputed(active, lambda: gelu(hidden)):  # hidden is saved for gelu's own gradient
            out = down(active)
    """
    # nothing to do where autograd saves nothing, or another copy
    if not torch.is_grad_enabled() or _is_transformed():
        return nullcontext()
    kind = tensor.device.type
    autocasts = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    if tensor.dtype == torch.float32 and autocasts:
        return nullcontext()
    # a saved tensor is a view of `tensor` if it shares the storage
    storage, start = tensor.untyped_storage()._cdata, tensor.storage_offset()

    def pack(saved: Tensor) -> Tensor | Callable[[], Tensor]:
        # another tensor is kept, detached: itself, it would hold the graph that holds it
        if saved.untyped_storage()._cdata != storage:
            return saved.detach()
        size, stride, offset = saved.size(), saved.stride(), saved.storage_offset() - start

        def unpack_again() -> Tensor:
            with torch.no_grad():
                whole = again()
            return whole.as_strided(size, stride, whole.storage_offset() + offset)

        return unpack_again

    def unpack(kept: Tensor | Callable[[], Tensor]) -> Tensor:
        return kept if isinstance(kept, Tensor) else kept()

    return saved_tensors_hooks(pack, unpack)


def compile_backbone(backbone: nn.Module, device: torch.device, how: bool | str = True) -> None:
    """Compile a backbone's forward passes in place.

    The blocks of its ``ModuleList``s are compiled rather than the whole: equal blocks share one
    compilation, and what depends on the data, such as leaving out PAD, stays outside. A backbone
    without such lists is compiled whole. Compiling happens at the first call, for any sizes.

    ``how``: ``reduce-overhead`` compiles for each shape by itself and, on a GPU, records CUDA
    graphs, which launch all kernels of a block at once. The CPU has no such graphs: there it means
    True.

    Raises ``ValueError`` if the machine has no compiler for ``device``.
    """
    check_compiler(device)
    options: dict[str, Any] = {"dynamic": True}
    if how == REDUCE_OVERHEAD:
        if device.type == "cpu":
            logger.info("compile=%s is compile=true on the CPU, which has no CUDA graphs", how)
        else:
            options = {"dynamic": False, "mode": how}
            allow_many_shapes()
            backbone.register_forward_pre_hook(_begin_without_gradients)
    # equal blocks share one compilation
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]
    for module in [block for blocks in lists for block in blocks] or [backbone]:
        module.compile(**options)


def begin_step() -> None:
    """Begin a training step, or a network call without gradients, for CUDA graphs.

    CUDA graphs may then overwrite the memory of earlier results. Otherwise each block would begin a
    step, and overwrite its input, the result of the previous block.
    """
    torch.compiler.cudagraph_mark_step_begin()


def _begin_without_gradients(*_: object) -> None:
    if not torch.is_grad_enabled():
        begin_step()


def check_compiler(device: torch.device) -> None:
    """Raise ``ValueError`` if ``torch.compile`` would find no Triton for a GPU ``device``, or no
    C++ compiler for the CPU."""
    # a GPU needs Triton
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise ValueError(
                "compile=true needs Triton, and torch finds none that works with this GPU; leave "
                "compile out"
            )
        return
    # the CPU needs a C++ compiler
    chosen = os.environ.get("CXX") or CPU_COMPILER
    if shutil.which(chosen) is None:
        raise ValueError(
            f"compile=true needs a C++ compiler on the CPU, and {chosen} is missing here; install "
            "it or leave compile out"
        )

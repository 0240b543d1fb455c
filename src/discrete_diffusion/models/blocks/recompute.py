"""Memory for time: what the backward pass needs and can have again for little."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


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
    if tensor.dtype == torch.float32 and _autocasts(tensor.device.type):
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


def _autocasts(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)

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
    anyway. A compiled network decides for itself what it keeps.

        hidden = up(x)
        active = gelu(hidden)
        with recomputed(active, lambda: gelu(hidden)):  # hidden is saved for gelu's own gradient
            out = down(active)
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return nullcontext()
    address = tensor.untyped_storage().data_ptr()
    start = tensor.storage_offset()

    def pack(saved: Tensor) -> Tensor | Callable[[], Tensor]:
        if saved.untyped_storage().data_ptr() != address:
            return saved
        size, stride, offset = saved.size(), saved.stride(), saved.storage_offset() - start

        def unpack_again() -> Tensor:
            with torch.no_grad():
                whole = again()
            return whole.as_strided(size, stride, whole.storage_offset() + offset)

        return unpack_again

    def unpack(kept: Tensor | Callable[[], Tensor]) -> Tensor:
        return kept if isinstance(kept, Tensor) else kept()

    return saved_tensors_hooks(pack, unpack)

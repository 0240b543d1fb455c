"""PyTorch's meta device in the place of a GPU: whatever would wait for one raises.

Nothing can be read back from the meta device: ``.item()``, ``bool``, ``.tolist()``, ``.cpu()``,
``nonzero``, ``unique``, ``equal`` and indices that are masks raise there by themselves. ``Unread``
adds what meta lets pass and a GPU waits for: an assignment of a tensor to a mask, and a copy from
the host that blocks it.

Proved for code that runs: no value on the device decides what the host does, nor any shape. Not
proved: values (no number is computed), memory, what a kernel of CUDA's does inside, copies that
``torch.tensor(..., device=...)`` makes, and code of the CPU alone that ``device.type`` leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")
_ATEN = torch.ops.aten
_ASSIGNMENTS = {_ATEN.index_put.default, _ATEN.index_put_.default, _ATEN._index_put_impl_.default}


class WaitsForDevice(RuntimeError):
    """Raised for an operation for which the host would wait."""


class Unread(TorchDispatchMode):
    """Refuses the waits that the meta device does not refuse by itself.

    ``answer``: what a number that is read has for its value, so that code which waits on purpose
    runs on; None refuses. ``num_read`` counts them.
    """

    def __init__(self, answer: bool | None = None) -> None:
        super().__init__()
        self.answer, self.num_read = answer, 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if (
            func is _ATEN._local_scalar_dense.default
            and args[0].is_meta
            and self.answer is not None
        ):
            self.num_read += 1
            return self.answer
        if func in _ASSIGNMENTS:
            self._refuse_masks(*args)
        if func is _ATEN._to_copy.default and not given.get("non_blocking", False):
            self._refuse_copy(args[0], given.get("device") or args[0].device)
        if func is _ATEN.copy_.default and not (len(args) > 2 and args[2]):
            self._refuse_copy(args[1], args[0].device)
        return func(*args, **given)

    @staticmethod
    def _refuse_masks(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, *_: Any) -> None:
        masks = any(index is not None and index.dtype == torch.bool for index in indices)
        if x.is_meta and masks and values.numel() != 1:  # of one number it is a fill
            raise WaitsForDevice("an assignment to a mask counts the places that are True")

    @staticmethod
    def _refuse_copy(x: Tensor, device: torch.device) -> None:
        if x.device.type == "cpu" and torch.device(device).type == "meta":
            raise WaitsForDevice("a copy from the host that blocks it; give non_blocking=True")

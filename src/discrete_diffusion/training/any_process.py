"""What one process of a run wants, made known to all."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


class AnyProcess:
    """Whether any process of a run wants something, such as to stop.

    All processes ask together. The flags are added up on the CPU while the next step is computed,
    so that asking at every step waits for no device; the price is an answer that is one call old.
    """

    def __init__(self) -> None:
        self._group: dist.ProcessGroup | None = None
        self._asked: tuple[Tensor, dist.Work] | None = None

    def ask(self, wanted: bool) -> bool:
        """Whether any process wanted it at its last call; alone, whether it is wanted now."""
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return wanted
        if self._group is None:
            self._group = dist.new_group(backend="gloo")
        answer = self._answer()
        flag = torch.tensor([int(wanted)])
        work = dist.all_reduce(flag, group=self._group, async_op=True)
        assert work is not None  # only of processes outside the group
        self._asked = flag, work
        return answer

    def ask_now(self, wanted: bool) -> bool:
        """As ``ask``, with an answer that is up to date; waits for all processes."""
        before = self.ask(wanted)
        return self._answer() if self._asked is not None else before

    def _answer(self) -> bool:
        if self._asked is None:
            return False
        flag, work = self._asked
        self._asked = None
        work.wait()
        return bool(flag)

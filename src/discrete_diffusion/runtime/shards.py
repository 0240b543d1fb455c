"""Work shared by processes, with a result that does not depend on how many there are."""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def _alone(value: Any) -> list[Any]:
    return [value]


@dataclass(frozen=True)
class Shard:
    """One of ``world_size`` processes that make one thing together; by default the only one.

    ``exchange``: called in every process with a value, gives each of them the values of all, by
    rank. What is passed through it is pickled, tensors are on the CPU.
    """

    rank: int = 0
    world_size: int = 1
    exchange: Callable[[Any], list[Any]] = _alone

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """``[function(item) for item in items]`` in every process, item k computed by rank
        k mod ``world_size``. An error in one process is raised in all."""
        own: dict[int, R] = {}
        try:
            for k, item in enumerate(items):
                if k % self.world_size == self.rank:
                    own[k] = function(item)
        except Exception as error:  # not of Ctrl-C and exits: who waits for us sees that we end
            self.exchange(_portable(error, self.rank))
            raise
        done: dict[int, R] = {}
        for part in self.exchange(own):
            if isinstance(part, Exception):
                raise part
            done.update(part)
        return [done[k] for k in sorted(done)]


class LostProcessError(ConnectionError):
    """Another process of the command has ended while this one waited for it."""


def _portable(error: Exception, rank: int) -> Exception:
    """An error as another process can raise it, with a note of where it happened."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # its constructor is its own, and may raise what it likes
        mendable = isinstance(error, ValueError | TypeError | OSError)
        copy = ValueError(str(error)) if mendable else RuntimeError(str(error))
    copy.add_note(f"in process {rank}:\n{''.join(traceback.format_exception(error))}")
    return copy


def distributed_shard() -> Shard:
    """This process among those of ``torch.distributed``'s default group, or alone if there is none.

    ``exchange`` waits for a day, so that one process may work while others wait; a signal ends the
    waiting. It raises ``LostProcessError`` if another process has ended.
    """
    from datetime import timedelta

    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return Shard()
    group = dist.new_group(backend="gloo", timeout=timedelta(days=1))

    def exchange(value: Any) -> list[Any]:
        values: list[Any] = [None] * dist.get_world_size()
        lost: list[RuntimeError] = []

        def gather() -> None:
            try:
                dist.all_gather_object(values, value, group=group)
            except RuntimeError as error:
                lost.append(error)

        # in another thread: while torch waits in this one, Python handles no signal
        waiting = threading.Thread(target=gather, daemon=True)
        waiting.start()
        waiting.join()
        if lost:
            raise LostProcessError(
                "another process of this command has ended before its work was done; was it "
                "killed, or out of memory?"
            ) from lost[0]
        return values

    return Shard(dist.get_rank(), dist.get_world_size(), exchange)

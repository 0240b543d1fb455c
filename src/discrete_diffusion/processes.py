"""Work shared by processes, with a result that does not depend on how many there are."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
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
        k mod ``world_size``. An error in one process is raised in all, see ``together``."""
        own: dict[int, R] = {}
        with self.together():
            for k, item in enumerate(items):
                if k % self.world_size == self.rank:
                    own[k] = function(item)
        done = {k: result for part in self.exchange(own) for k, result in part.items()}
        return [done[k] for k in sorted(done)]

    def together(self) -> _Together:
        """A context that every process enters: where one leaves it by an error, all do."""
        return _Together(self)


@dataclass(frozen=True)
class _Together:
    shard: Shard

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.shard.world_size == 1 or (error is not None and not isinstance(error, Exception)):
            return  # Ctrl-C and exits are no errors: who is waiting for us sees that we are gone
        told = None if error is None else _portable(error, self.shard.rank)
        errors = [other for other in self.shard.exchange(told) if other is not None]
        if error is None and errors:
            raise errors[0]


def _portable(error: Exception, rank: int) -> Exception:
    """An error as another process can raise it, with a note of where it happened."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
    except (TypeError, AttributeError, pickle.PickleError):  # it has a constructor of its own
        mendable = isinstance(error, ValueError | TypeError | OSError)
        copy = ValueError(str(error)) if mendable else RuntimeError(str(error))
    copy.add_note(f"in process {rank}:\n{''.join(traceback.format_exception(error))}")
    return copy


def distributed_shard() -> Shard:
    """This process among those of ``torch.distributed``'s default group, or alone if there is none.

    ``exchange`` waits for a day, so that one process may work while others wait. It raises
    ``ConnectionError`` if another process has ended.
    """
    from datetime import timedelta

    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return Shard()
    group = dist.new_group(backend="gloo", timeout=timedelta(days=1))

    def exchange(value: Any) -> list[Any]:
        values: list[Any] = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(values, value, group=group)
        except RuntimeError as error:
            raise ConnectionError(
                "another process of this command has ended before its work was done; was it "
                "killed, or out of memory?"
            ) from error
        return values

    return Shard(dist.get_rank(), dist.get_world_size(), exchange)

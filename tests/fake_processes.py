"""Processes that are threads: they exchange pickled values as real ones do."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

from discrete_diffusion.runtime.processes import Shard


def in_processes(num: int, work: Callable[[Shard], Any]) -> list[Any]:
    """What ``work`` returns, or the error it raises, in each of ``num`` processes."""
    meeting = threading.Barrier(num, timeout=60)
    values: list[bytes] = [b""] * num
    outcomes: list[Any] = [None] * num

    def exchange_of(rank: int) -> Callable[[Any], list[Any]]:
        def exchange(value: Any) -> list[Any]:
            values[rank] = pickle.dumps(value)
            meeting.wait()
            found = [pickle.loads(each) for each in values]
            meeting.wait()
            return found

        return exchange

    def run(rank: int) -> None:
        try:
            outcomes[rank] = work(Shard(rank, num, exchange_of(rank)))
        except Exception as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(num)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes

"""Diagrams shared by threads: the solver does most of its work outside Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from discrete_diffusion.runtime import progress

T = TypeVar("T")
R = TypeVar("R")


def map_shared(
    function: Callable[[T], R], diagrams: Sequence[T], *, threads: int, doing: str
) -> Iterator[R]:
    """``map(function, diagrams)``, as a task called ``doing``. Who leaves it early waits for those
    that ``threads`` have begun; others are not begun."""
    with ExitStack() as stack:
        going = stack.enter_context(progress.task(doing, len(diagrams), "diagrams"))
        found: Iterator[R] = map(function, diagrams)
        if threads > 1 and len(diagrams) > 1:
            pool = ThreadPoolExecutor(threads)
            stack.callback(pool.shutdown, cancel_futures=True)
            found = pool.map(function, diagrams)
        for each in found:
            going.advance()
            yield each

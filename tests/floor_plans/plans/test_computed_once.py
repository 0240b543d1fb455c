"""A property that is computed once, by threads that do not wait for each other."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from floor_plans.plans.floor_plan import computed_once


@dataclass(frozen=True)
class Square:
    side: int
    calls: list[int]

    @computed_once
    def area(self) -> int:
        """The area."""
        self.calls.append(self.side)
        if self.side < 0:
            raise ValueError("no square")
        return self.side**2


def test_it_is_computed_at_its_first_use_alone():
    square = Square(3, [])
    assert (square.area, square.area, square.calls) == (9, 9, [3])
    assert Square.area.__doc__ == "The area."
    assert Square(3, square.calls) == square


def test_an_error_is_not_kept():
    square = Square(-1, [])
    for _ in range(2):
        with pytest.raises(ValueError, match="no square"):
            _ = square.area
    assert square.calls == [-1, -1]


def test_objects_do_not_wait_for_each_other():
    """As two threads that meet within it: with a lock for both none would ever come out."""
    meet = threading.Barrier(2, timeout=10)

    class Meeting:
        @computed_once
        def place(self) -> int:
            return meet.wait()

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(Meeting().place)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1]

"""Work shared by processes: whose result and whose error everybody gets."""

from __future__ import annotations

import pytest

from discrete_diffusion.runtime.processes import Shard, distributed_shard
from fake_processes import in_processes


@pytest.mark.parametrize("num", [1, 2, 5])
def test_every_item_is_computed_once_and_known_to_all(num):
    done: list[tuple[int, int]] = []

    def work(shard: Shard) -> list[int]:
        return shard.map(lambda k: done.append((shard.rank, k)) or k * k, iter(range(7)))

    assert in_processes(num, work) == [[k * k for k in range(7)]] * num
    assert sorted(done, key=lambda pair: pair[1]) == [(k % num, k) for k in range(7)]


def test_there_may_be_fewer_items_than_processes():
    assert in_processes(3, lambda shard: shard.map(str, [4])) == [["4"]] * 3
    assert in_processes(2, lambda shard: shard.map(str, [])) == [[]] * 2


def test_an_error_of_one_is_raised_in_all():
    def square_root(k: int) -> float:
        if k == 3:
            raise ValueError(f"{k}: expected an even number")
        return k**0.5

    errors = in_processes(2, lambda shard: shard.map(square_root, range(6)))
    assert [type(error) for error in errors] == [ValueError] * 2
    assert {str(error) for error in errors} == {"3: expected an even number"}
    assert "in process 1" in errors[0].__notes__[0]  # where it happened
    assert "square_root" in errors[0].__notes__[0]


def test_errors_that_cannot_be_sent_keep_their_sentence():
    class OwnError(ValueError):
        def __init__(self, line: int, *, file: str) -> None:
            super().__init__(f"{file}, line {line}")

    def odd(k: int) -> None:
        if k == 1:
            raise OwnError(3, file="a.jsonl")

    first, second = in_processes(2, lambda shard: shard.map(odd, range(2)))
    assert type(first) is ValueError
    assert str(first) == str(second) == "a.jsonl, line 3"
    assert type(second) is OwnError

    def buggy(k: int) -> None:
        if k == 0:
            raise type("Bug", (LookupError,), {})("a bug")

    _, told = in_processes(2, lambda shard: shard.map(buggy, range(2)))
    assert type(told) is RuntimeError  # none that a user could mend


class PickyError(ValueError):
    """Pickled it is ``PickyError("a.jsonl: 3")``, which its constructor refuses."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: {3}")
        if where != "a.jsonl":
            raise KeyError(where)


def test_errors_whose_constructor_raises_keep_their_sentence():
    def odd(k: int) -> None:
        if k == 1:
            raise PickyError("a.jsonl")

    first, second = in_processes(2, lambda shard: shard.map(odd, range(2)))
    assert (type(first), type(second)) == (ValueError, PickyError)
    assert str(first) == "a.jsonl: 3"


class SizeError(ValueError):
    """One whose constructor needs more than its sentence."""

    def __init__(self, field: str, problem: str, *, num_rooms: int) -> None:
        super().__init__(f"field {field!r}: {problem}")
        self.num_rooms = num_rooms


def test_each_raises_its_own_error():
    def work(k: int) -> None:
        raise SizeError("rooms", f"of {k}", num_rooms=9)

    assert [str(error) for error in in_processes(2, lambda shard: shard.map(work, range(2)))] == [
        "field 'rooms': of 0",
        "field 'rooms': of 1",
    ]


def test_leaving_is_no_error_to_be_told():
    class Stopped(BaseException):
        pass

    def exchange(value):
        raise AssertionError("nobody is told")

    def stop(_: int) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        Shard(0, 2, exchange).map(stop, [0])


def test_alone_without_a_group():
    shard = distributed_shard()
    assert (shard.rank, shard.world_size) == (0, 1)
    with pytest.raises(LookupError, match="own"):
        shard.map(lambda k: (_ for _ in ()).throw(LookupError("own")), [1])

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
    assert in_processes(num, lambda shard: shard.map(str, [4])) == [["4"]] * num
    assert in_processes(num, lambda shard: shard.map(str, [])) == [[]] * num


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


class KeywordError(ValueError):
    """A constructor that needs more than the sentence."""

    def __init__(self, line: int, *, file: str) -> None:
        super().__init__(f"{file}, line {line}")


class PickyError(ValueError):
    """A constructor that refuses what the error is pickled as."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}, line 3")
        if where != "a.jsonl":
            raise KeyError(where)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (lambda: KeywordError(3, file="a.jsonl"), ValueError),
        (lambda: PickyError("a.jsonl"), ValueError),
        (lambda: type("Bug", (LookupError,), {})("a.jsonl, line 3"), RuntimeError),
    ],
)
def test_errors_that_cannot_be_sent_keep_their_sentence(error, kind):
    """An error that a user could mend stays one; any other is a bug."""

    def odd(k: int) -> None:
        if k == 1:
            raise error()

    told, own = in_processes(2, lambda shard: shard.map(odd, range(2)))
    assert type(told) is kind
    assert "a.jsonl, line 3" in str(told)
    assert type(own).__name__ == type(error()).__name__


def test_each_raises_its_own_error():
    def work(k: int) -> None:
        raise KeywordError(k, file="a.jsonl")

    errors = in_processes(2, lambda shard: shard.map(work, range(2)))
    assert [str(error) for error in errors] == ["a.jsonl, line 0", "a.jsonl, line 1"]


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

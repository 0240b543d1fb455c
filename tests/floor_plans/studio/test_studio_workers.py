"""Processes of the studio: one that is killed, one that is stopped, and what goes on meanwhile."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future
from contextlib import ExitStack

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from floor_plans.studio import jobs as module
from floor_plans.studio.jobs import Stopped, Workers


def pid_after(folder: str) -> int:
    """The process, once a file "go" is there; "begun-PID" says that it waits."""
    open(os.path.join(folder, f"begun-{os.getpid()}"), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
    return os.getpid()


def bytes_of(num: int) -> int:
    """The number of bytes that were taken."""
    return len(b"x" * num)


def wrong(word: str) -> str:
    if word == "bug":
        raise RuntimeError("not the user's")
    raise ValueError(f"{word}: not known")


class Called:
    """Workers that are called by threads, while ``portal`` runs their event loop."""

    def __init__(self, portal: BlockingPortal, num: int, **limits) -> None:
        self.portal, self.workers = portal, Workers(num, **limits)

    def submit(self, function, argument) -> Future:
        return self.portal.start_task_soon(self.workers.run, function, argument)

    def run(self, function, argument):
        return self.submit(function, argument).result(60)

    @property
    def pids(self) -> list[int]:
        return self.workers.pids


@pytest.fixture
def started():
    """What starts workers, which are stopped at the end."""
    with start_blocking_portal() as portal, ExitStack() as stack:

        def start(num, **limits):
            called = Called(portal, num, **limits)
            stack.callback(portal.call, called.workers.stop)
            return called

        yield start


@pytest.fixture
def workers(started):
    return started(2)


def begun(folder, num: int) -> set[int]:
    """Processes that have begun, ``num`` of them."""
    for _ in range(3000):
        names = [name for name in os.listdir(folder) if name.startswith("begun-")]
        if len(names) >= num:
            return {int(name.removeprefix("begun-")) for name in names}
        time.sleep(0.01)
    raise AssertionError(names)


def test_tasks_are_done_in_other_processes_which_stay(workers, tmp_path):
    (tmp_path / "go").touch()
    first = workers.run(pid_after, str(tmp_path))
    assert first != os.getpid()
    assert workers.run(pid_after, str(tmp_path)) == first
    assert workers.pids == []


@pytest.mark.slow
def test_a_killed_process_loses_nothing_but_time_and_no_other_task(workers, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    tasks = [workers.submit(pid_after, str(folder)) for folder in folders]
    (killed,), (other,) = (begun(folder, 1) for folder in folders)
    assert {*workers.pids} == {killed, other}
    os.kill(killed, signal.SIGKILL)
    again = begun(folders[0], 2) - {killed}
    for folder in folders:
        (folder / "go").touch()
    assert [task.result(30) for task in tasks] == [*again, other]


@pytest.mark.slow
def test_a_task_that_kills_its_process_twice_fails(workers, tmp_path):
    task = workers.submit(pid_after, str(tmp_path))
    seen: set[int] = set()
    for number in (1, 2):
        (process,) = begun(tmp_path, number) - seen
        seen.add(process)
        os.kill(process, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="killed"):
        task.result(30)
    (tmp_path / "go").touch()
    assert workers.run(pid_after, str(tmp_path)) not in seen


@pytest.mark.slow
@pytest.mark.parametrize("patience", [0.0, 0.5])
def test_what_is_cancelled_ends_its_process(started, tmp_path, patience):
    workers = started(1, patience=patience)
    task = workers.submit(pid_after, str(tmp_path))
    (process,) = begun(tmp_path, 1)
    task.cancel()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "go").touch()
    assert workers.run(pid_after, str(tmp_path / "other")) != process
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.slow
def test_a_process_outlives_a_short_task_that_nobody_wants(started, tmp_path):
    workers = started(1, patience=60)
    task = workers.submit(pid_after, str(tmp_path))
    (process,) = begun(tmp_path, 1)
    task.cancel()
    time.sleep(0.1)
    (tmp_path / "go").touch()
    assert workers.run(pid_after, str(tmp_path)) == process


@pytest.mark.slow
def test_a_process_that_is_cancelled_while_it_imports_is_kept(started, tmp_path):
    """Its imports take longer than the patience."""
    workers = started(1, patience=0.1)
    task = workers.submit(pid_after, str(tmp_path))
    time.sleep(0.05)
    task.cancel()
    (tmp_path / "go").touch()
    (process,) = begun(tmp_path, 1)
    assert workers.run(pid_after, str(tmp_path)) == process


@pytest.mark.slow
def test_a_process_ends_that_is_being_started(started, tmp_path, monkeypatch):
    start = module._Process.__init__

    def slow_start(process, *limits):
        time.sleep(0.3)
        start(process, *limits)

    monkeypatch.setattr(module._Process, "__init__", slow_start)
    workers = started(1)
    task = workers.submit(pid_after, str(tmp_path))
    time.sleep(0.1)
    workers.portal.call(workers.workers.stop)
    with pytest.raises(Stopped):
        task.result(10)


@pytest.mark.slow
def test_a_task_that_takes_too_long_is_ended_and_the_next_one_is_done(started, tmp_path):
    workers = started(1, seconds=0.5)
    with pytest.raises(TimeoutError, match="given up"):
        workers.run(pid_after, str(tmp_path))
    (process,) = begun(tmp_path, 1)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    (tmp_path / "go").touch()
    assert workers.run(pid_after, str(tmp_path)) != process


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="only Linux says what it has")
def test_a_task_that_takes_too_much_memory_is_refused_and_the_process_works_on(started):
    workers = started(1, most_bytes=2**28)
    assert workers.run(bytes_of, 2**20) == 2**20
    with pytest.raises(ValueError, match="memory"):
        workers.run(bytes_of, 2**30)
    assert workers.run(bytes_of, 2**20) == 2**20


def test_errors_come_back_and_the_process_works_on(workers, tmp_path):
    with pytest.raises(ValueError, match="kitchen: not known"):
        workers.run(wrong, "kitchen")
    with pytest.raises(RuntimeError, match="not the user's"):
        workers.run(wrong, "bug")
    (tmp_path / "go").touch()
    assert workers.run(pid_after, str(tmp_path)) > 0


@pytest.mark.slow
def test_a_process_is_replaced_after_its_tasks(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_TASKS", 2)
    (tmp_path / "go").touch()
    pids = [workers.run(pid_after, str(tmp_path)) for _ in range(3)]
    assert pids[0] == pids[1] != pids[2]


def test_the_end_stops_what_is_done_and_what_waits(started, tmp_path):
    called = started(1)
    tasks = [called.submit(pid_after, str(tmp_path)) for _ in range(2)]
    begun(tmp_path, 1)
    called.portal.call(called.workers.stop)
    for task in tasks:
        with pytest.raises(Stopped):
            task.result(10)


def test_there_is_one_at_least():
    with pytest.raises(ValueError, match="workers=0"):
        Workers(0)

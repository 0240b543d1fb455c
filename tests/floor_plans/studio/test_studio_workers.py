"""Processes of the studio: one that is killed, one that is stopped, and what goes on meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack

import pytest

from floor_plans.studio import jobs as module
from floor_plans.studio.jobs import Late, Stopped, Workers


def never() -> bool:
    return False


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


@pytest.fixture
def started():
    """What starts workers, which are closed at the end."""
    with ExitStack() as stack:

        def start(num, **limits):
            workers = Workers(num, **limits)
            stack.callback(workers.close)
            return workers

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


def in_thread(workers, folder, stop=never):
    """The thread that waits for a process, and its answer, or what it raised, to come."""
    found: list = []

    def run():
        try:
            found.append(workers.run(pid_after, str(folder), stop))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_tasks_are_done_in_other_processes_which_stay(workers, tmp_path):
    (tmp_path / "go").touch()
    first = workers.run(pid_after, str(tmp_path), never)
    assert first != os.getpid()
    assert workers.run(pid_after, str(tmp_path), never) == first
    assert workers.pids == []


@pytest.mark.slow
def test_a_killed_process_loses_nothing_but_time_and_no_other_task(workers, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    tasks = [in_thread(workers, folder) for folder in folders]
    (killed,), (other,) = (begun(folder, 1) for folder in folders)
    assert {*workers.pids} == {killed, other}
    os.kill(killed, signal.SIGKILL)
    again = begun(folders[0], 2) - {killed}
    for folder in folders:
        (folder / "go").touch()
    for thread, _ in tasks:
        thread.join(30)
    assert [found for _, found in tasks] == [[*again], [other]]


@pytest.mark.slow
def test_a_task_that_kills_its_process_twice_fails(workers, tmp_path):
    thread, found = in_thread(workers, tmp_path)
    seen: set[int] = set()
    for number in (1, 2):
        (process,) = begun(tmp_path, number) - seen
        seen.add(process)
        os.kill(process, signal.SIGKILL)
    thread.join(30)
    assert isinstance(found[0], RuntimeError)
    assert "killed" in str(found[0])
    (tmp_path / "go").touch()
    assert workers.run(pid_after, str(tmp_path), never) not in seen


@pytest.mark.slow
@pytest.mark.parametrize("patience", [0.0, 0.5])
def test_what_is_stopped_ends_its_process(workers, tmp_path, patience, monkeypatch):
    monkeypatch.setattr(workers, "_patience", patience)
    stop = threading.Event()
    thread, found = in_thread(workers, tmp_path, stop.is_set)
    (process,) = begun(tmp_path, 1)
    stop.set()
    thread.join(10)
    assert isinstance(found[0], Stopped)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.slow
def test_a_process_outlives_a_short_task_that_nobody_wants(started, tmp_path):
    workers, stop = started(1, patience=60), threading.Event()
    thread, found = in_thread(workers, tmp_path, stop.is_set)
    (process,) = begun(tmp_path, 1)
    stop.set()
    time.sleep(1)  # some looks
    (tmp_path / "go").touch()
    thread.join(60)
    assert found == [process]
    assert workers.run(pid_after, str(tmp_path), never) == process


@pytest.mark.slow
def test_a_task_that_takes_too_long_is_ended_and_the_next_one_is_done(started, tmp_path):
    workers = started(1, seconds=0.5)
    with pytest.raises(Late):
        workers.run(pid_after, str(tmp_path), never)
    (process,) = begun(tmp_path, 1)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    (tmp_path / "go").touch()
    assert workers.run(pid_after, str(tmp_path), never) != process


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="only Linux says what it has")
def test_a_task_that_takes_too_much_memory_is_refused_and_the_process_works_on(started):
    workers = started(1, most_bytes=2**28)
    assert workers.run(bytes_of, 2**20, never) == 2**20
    with pytest.raises(ValueError, match="memory"):
        workers.run(bytes_of, 2**30, never)
    assert workers.run(bytes_of, 2**20, never) == 2**20


def test_errors_come_back_and_the_process_works_on(workers, tmp_path):
    with pytest.raises(ValueError, match="kitchen: not known"):
        workers.run(wrong, "kitchen", never)
    with pytest.raises(RuntimeError, match="not the user's"):
        workers.run(wrong, "bug", never)
    (tmp_path / "go").touch()
    assert workers.run(pid_after, str(tmp_path), never) > 0


@pytest.mark.slow
def test_a_process_is_replaced_after_its_tasks(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_TASKS", 2)
    (tmp_path / "go").touch()
    pids = [workers.run(pid_after, str(tmp_path), never) for _ in range(3)]
    assert pids[0] == pids[1] != pids[2]


def test_the_end_stops_what_is_done(tmp_path):
    workers = Workers(1)
    thread, found = in_thread(workers, tmp_path)
    begun(tmp_path, 1)
    workers.close()
    thread.join(10)
    assert isinstance(found[0], Stopped)


def test_there_is_one_at_least():
    with pytest.raises(ValueError, match="workers=0"):
        Workers(0)

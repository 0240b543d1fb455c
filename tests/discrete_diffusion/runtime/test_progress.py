"""What commands show while they work, without waiting for it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from discrete_diffusion.runtime.progress import Task, parts, shown, step, task, track


class Told:
    """Lines that were said; ``wait`` until there are so many."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._new = threading.Condition()

    def __call__(self, line: str) -> None:
        with self._new:
            self.lines.append(line)
            self._new.notify_all()

    def wait(self, num: int) -> list[str]:
        with self._new:
            assert self._new.wait_for(lambda: len(self.lines) >= num, timeout=60)
            return self.lines[:]


def test_nothing_is_shown_unless_a_command_says_so(capfd):
    before = threading.active_count()
    with task("drawing", 2, "samples") as drawing:
        drawing.advance()
        assert threading.active_count() == before
    assert list(track([1, 2], "reading", "files")) == [1, 2]
    assert capfd.readouterr() == ("", "")


def test_lines_say_what_how_far_how_fast_and_how_long():
    told = Told()
    with shown(told, bar=False, first=0.0, every=0.01), task("training", 3_000, "steps") as going:
        told.wait(1)
        assert re.fullmatch(r"training, 0 of 3,000 steps, 0:\d\d:\d\d so far", told.lines[0])
        going.note = "loss 1.5"
        going.advance(1_200)
        line = told.wait(len(told.lines) + 2)[-1]
        shown_line = r"training, 1,200 of 3,000 steps, loss 1.5, \S+ steps/s, \d+:\d\d:\d\d left"
        assert re.fullmatch(shown_line, line)
        with task("validation", unit="batches"):
            line = told.wait(len(told.lines) + 2)[-1]
        assert re.match(r"training, 1,200 of 3,000 steps: validation, 0 batches, .* so far", line)
    num = len(told.lines)
    assert num == len(told.wait(num))


@pytest.mark.slow
def test_the_first_line_of_a_task_does_not_wait_for_that_of_another():
    told = Told()
    with shown(told, bar=False, first=0.0, every=1e9):
        for name in ("one", "two"):
            with task(name):
                told.wait(1 if name == "one" else 2)
    assert [line.split(",")[0] for line in told.lines] == ["one", "two"]


def test_speed_is_of_this_run_and_slow_things_have_their_seconds():
    with task("training", 100, "steps") as going:
        going.begin_at(90)
        assert "so far" in going.status
        going.began -= 20.0
        going.reach(95)
        assert re.search(r"95 of 100 steps, 4\S* s each, 0:00:(19|20) left", going.status)
        going.reach(200)
        assert going.place == "training, 100 of 100 steps"


def test_steps_of_what_is_at_hand_are_counted_from_one_on():
    step("search")  # of nothing
    with shown(lambda line: None, bar=False), task("finding plans", 4, "diagrams") as going:
        step("search")
        assert going.noted == "finding plans, 0 of 4 diagrams"
        step("search")
        assert going.noted == "finding plans, 0 of 4 diagrams, search 2"
        going.note = "variant 1"
        step("search")
        assert going.status.startswith("finding plans, 0 of 4 diagrams, variant 1, search 3, ")
        going.advance()
        step("search")
        assert going.noted == "finding plans, 1 of 4 diagrams, variant 1"


def test_what_has_begun_inside_ends_with_a_task():
    def fail():
        with task("outer"):
            task("inner").__enter__()
            raise KeyError

    told = Told()
    with shown(told, bar=False, first=0.0, every=0.01):
        with pytest.raises(KeyError):
            fail()
        with task("next"):
            num = len(told.lines)
            assert told.wait(num + 1)[-1].startswith("next, ")


def test_the_time_left_counts_what_items_cost(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    sampling = Task("sampling", 100, "samples", costs=1000)
    sampling.take(10, 500)
    sampling.come(0.5)
    now[0] = 25.0
    sampling.come(0.5)
    assert sampling.status.endswith("0:01:15 left")
    sampling.reach(10)
    now[0] = 50.0
    sampling.come(0.0)
    assert sampling.status.endswith("0:00:50 left")  # 90 items, half of the cost
    sampling.take(90, 500)
    assert "sampling, 10 of 100 samples, 5 s each" in sampling.status


def test_a_slow_item_never_has_no_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    planning = Task("planning", 3, "diagrams")
    now[0] = 10.0
    planning.advance(2)
    for waited, left in ((0, 5), (4, 1), (5, 1), (65, 60), (305, 300)):  # 5 s an item so far
        now[0] = 10.0 + waited
        assert planning.status.endswith(f"0:0{left // 60}:{left % 60:02} left")


def test_parts_are_announced_and_counted(caplog):
    caplog.set_level("INFO")
    each = parts("drawing", "measuring")
    assert "2 parts: drawing; measuring" in caplog.text
    with next(each), next(each) as second:
        assert second.place == "part 2 of 2, measuring"


BAR = """
import logging, sys, threading, time
from discrete_diffusion.runtime import progress
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
with progress.shown(print), progress.task("drawing", 40, "samples") as drawing:
    for k in range(4):
        drawing.advance(7)
        time.sleep(0.6)
        if k == 1:
            logging.info("half of it")
print("the end")
"""


@pytest.mark.slow
def test_a_bar_moves_on_a_terminal_and_leaves_the_log_alone():
    theirs, ours = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    command = [sys.executable, "-c", BAR]
    process = subprocess.Popen(command, stdout=ours, stderr=ours, env=environment)
    os.close(ours)
    content = b""
    while True:
        try:
            read = os.read(theirs, 65536)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        content += read
    os.close(theirs)
    assert process.wait() == 0
    text = content.decode()
    counts = re.findall(r"drawing, (\d+) of 40 samples, \S+ \S+, 0:00:\d\d left", text)
    assert len(set(counts)) > 1
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")
    assert {"half of it", "the end"} <= set(plain)
    assert "\x1b[2K" in text  # lines are erased

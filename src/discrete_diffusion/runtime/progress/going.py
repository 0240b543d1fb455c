"""Something that takes time, and the network calls it is made of."""

from __future__ import annotations

import time
from datetime import timedelta


class Task:
    """Something that takes time: ``done`` of ``total`` ``unit`` (a plural), None if not known.

    ``note``: text beside it, such as the loss; ``wants_note``: the task has been shown since
    somebody set this to False. ``logged_at``: when a line was last logged. ``at_hand``: how many
    more are being made at this moment, all at once, of which the share ``share`` is made.
    ``step``: the name and number of the last step of work on these, which says that it goes on."""

    def __init__(self, name: str, total: float | None = None, unit: str = "") -> None:
        self.name, self.total, self.unit, self.note, self.step = name, total, unit, "", ("", 0)
        self.done = self._done_before = self.at_hand = self.share = 0.0
        self.began = self._moved = time.monotonic()
        self.logged_at: float | None = None
        self.wants_note = False

    def advance(self, num: float = 1) -> None:
        """``num`` more are done."""
        self.reach(self.done + num)

    def reach(self, done: float) -> None:
        """Set how many are done in all; nothing is at hand."""
        self.done = done if self.total is None else min(done, self.total)
        self.at_hand, self.share, self.step = 0.0, 0.0, ("", 0)
        self._moved = time.monotonic()

    def take(self, num: float = 1) -> None:
        """``num`` more are at hand."""
        self.at_hand, self.share = num, 0.0

    def come(self, share: float) -> None:
        """Set the share of what is at hand that is made, from 0 to 1."""
        self.share = min(max(share, 0.0), 1.0)
        self._moved = time.monotonic()

    def begin_at(self, done: float) -> None:
        """Set how many were done earlier, at a speed that says nothing."""
        self.done = self._done_before = done

    @property
    def place(self) -> str:
        """``training, 120 of 3,000 steps``."""
        count = f"{self.done:,.0f}" + ("" if self.total is None else f" of {self.total:,.0f}")
        return f"{self.name}, {count} {self.unit}" if self.unit else self.name

    @property
    def noted(self) -> str:
        """``place``, the note, and the step, unless it is the first."""
        name, number = self.step
        step = f"{name} {number:,}" if number > 1 else ""
        return ", ".join(part for part in (self.place, self.note, step) if part)

    @property
    def status(self) -> str:
        """``noted``, the speed and the time left, at the mean speed so far; as long as nothing is
        made, and after the last one, the time so far."""
        now = time.monotonic()
        parts = [self.noted]
        made = self.done + self.at_hand * self.share
        made = made if self.total is None else min(made, self.total)
        fresh = made - self._done_before
        if fresh <= 0 or self.done == self.total:
            return ", ".join([*parts, f"{_clock(now - self.began)} so far"])
        speed = fresh / max(self._moved - self.began, 1e-9)
        parts.append(f"{speed:.3g} {self.unit}/s" if speed >= 1 else f"{1 / speed:.3g} s each")
        if self.total is not None:
            left = (self.total - made) / speed - (now - self._moved)
            parts.append(f"{_clock(max(left, 0))} left")
        return ", ".join(parts)


class Calls:
    """The network calls that make what a task has at hand, by which one sees it move.

    ``begun``: rounds of calls so far, of ``most`` if that is known, ``each`` of so many calls.
    ``wants_share``: the task has been shown since it last heard what share is made, and the number
    of rounds does not say it."""

    def __init__(
        self, task: Task | None = None, most: int | None = None, each: int = 1, name: str = "call"
    ) -> None:
        self._task, self._each, self._name, self.begun, self.most = task, each, name, 0, most
        self._follows, self._share_known = most is not None, False  # it is that of the rounds

    def expect(self, most: int, *, exact: bool = True) -> None:
        """Expect ``most`` rounds; unless ``exact``, perhaps fewer, so that they are no measure
        of what is made."""
        self.most, self._follows = most, exact

    def come(self, share: float, left: int | None = None) -> None:
        """Set the share that is made, from 0 to 1; at most ``left`` rounds are to begin."""
        self._share_known, self._follows = True, False
        if left is not None:
            self.most = self.begun + left
        if self._task is not None:
            self._task.come(share)

    @property
    def wants_share(self) -> bool:
        task = self._task
        return task is not None and task.wants_note and not (self._follows or self._share_known)

    def begin(self, share: float | None = None) -> None:
        """A round begins; ``share``: made before it, if the caller knows."""
        if (task := self._task) is not None:
            if share is not None:
                task.wants_note = False
            elif self._follows and self.most:
                share = self.begun / self.most
            if share is not None:
                task.come(share)
        self.begun += 1
        if task is not None:
            of = "" if self.most is None else f" of at most {self.most * self._each:,}"
            task.note = f"{self._name} {self.begun * self._each:,}{of}"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))

"""``have_plans``: decide by the solver which diagrams have a floor plan.

The answers (verdicts) are cached in a SQLite database. Several processes may write to it, and
reading a few verdicts does not read the whole file.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from discrete_diffusion.data import CACHE_VARIABLE, cache_dir
from discrete_diffusion.evaluation import Interval, TableRow, TableSection, share_interval
from discrete_diffusion.runtime import is_stopping, progress
from floor_plans.diagrams import geometry
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.plans import box_model
from floor_plans.plans.box_model import Boxes, BoxRule, boxes_of_graph, cp_sat, is_installed

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

LEVELS = ("realisable", "buildable")
"""Levels of a verdict. "realisable": boxes with the diagram's relations exist. "buildable": such
boxes exist that overlap only if one room is inside the other."""

EFFORT = 2.0  # effort of the solver for a diagram, by default; see ``BoxModel.solve``
NUM_VERDICTS = 200  # samples that are decided by default

_EFFORT_OF_SHARES = 0.3
"""Effort of the solver for a diagram and a level in ``plan_shares``, about a CPU-second."""

MEANINGS = {
    "realisable": "share for which boxes with exactly these relations exist",
    "buildable": "share for which such boxes exist that overlap only where one is inside the other",
    "undecided": "share that took the solver too long; counted as neither",
}

_PATIENCE = 5.0  # seconds to wait for another process that writes
_AT_ONCE = 500  # keys per query; SQLite allows at least 999

_TABLE = """create table if not exists verdicts
    (asked blob, diagram blob, answer integer, primary key (asked, diagram)) without rowid"""


def find_boxes(
    diagram: BubbleDiagram,
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
) -> tuple[bool | None, Boxes | None]:
    """Decide whether a diagram has a floor plan: True and the boxes of one, False, or None.

    "realisable": boxes exist whose relations, by ``relations_from_boxes``, are exactly those of the
    diagram, each read in one of its two directions (see ``BoxModel``). "buildable": such boxes
    exist of which no two share area, unless one is inside the other by a relation, lies within it,
    and leaves it a strip as wide as a room.

    True and False are exact for the boxes that ``rule`` allows; None: undecided with ``effort``,
    see ``BoxModel.solve``. Raises ``ValueError`` without OR-Tools, and for another level.
    """
    (found,) = _solved([diagram], level, rule, effort, threads=1)
    return found


def have_plans(
    diagrams: Sequence[BubbleDiagram],
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
    threads: int = 1,
) -> list[bool | None]:
    """Decide for each diagram whether it has a floor plan, see ``find_boxes``. Diagrams that are
    equal up to the numbering of their rooms are solved once, verdicts of earlier calls are cached,
    and ``threads`` share the work."""
    check_level(level)
    cp_sat()
    rule = rule or BoxRule()
    keys = DiagramSet.of(diagrams).canonical_keys.tolist() if len(diagrams) else []
    distinct = dict(zip(keys, diagrams, strict=True))
    asked = f"{level}, {rule}, effort={effort!r}"
    cached = cached_answers(asked, list(distinct))
    answers = {key: None if answer is None else bool(answer) for key, answer in cached.items()}
    new = {key: diagram for key, diagram in distinct.items() if key not in answers}
    solved = _solved(list(new.values()), level, rule, effort, threads)
    found = dict(zip(new, (answer for answer, _ in solved), strict=True))
    cache_verdicts(asked, found)
    return [(answers | found)[key] for key in keys]


def check_level(level: str) -> None:
    """Raise ``ValueError`` unless ``level`` is one of ``LEVELS``."""
    if level not in LEVELS:
        raise ValueError(f"level={level!r}: expected {' or '.join(map(repr, LEVELS))}")


def _solved(
    diagrams: Sequence[BubbleDiagram], level: str, rule: BoxRule | None, effort: float, threads: int
) -> list[tuple[bool | None, Boxes | None]]:
    """Solve diagrams in threads."""
    check_level(level)
    cp_sat()
    if not diagrams:
        return []
    measured = DiagramSet.of(diagrams)
    # centres follow relations, so a circle on an axis rules boxes out
    possible = measured.horizontally_transitive & measured.vertically_transitive
    rows = np.flatnonzero(possible).tolist()
    graphs = [(diagrams[row].num_rooms, diagrams[row].relations) for row in rows]
    solve = partial(
        boxes_of_graph, rule=rule or BoxRule(), buildable=level == "buildable", effort=effort
    )
    found: list[tuple[bool | None, Boxes | None]] = [(False, None)] * len(diagrams)
    solved = map_in_threads(solve, graphs, threads=threads, doing="looking for plans")
    for row, each in zip(rows, solved, strict=True):
        found[row] = each
    return found


def map_in_threads(
    function: Callable[[T], R], diagrams: Sequence[T], *, threads: int, doing: str
) -> Generator[R, None, None]:
    """Return ``map(function, diagrams)``, computed in threads, with progress shown as ``doing``. A
    caller that stops early waits for the diagrams that have begun; no more are begun."""
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


def cache_file() -> Path:
    """File in which verdicts are cached."""
    return cache_dir() / "verdicts-v1.sqlite3"


def cached_answers(asked: str, diagrams: Sequence[bytes]) -> dict[bytes, Any]:
    """Read cached answers by canonical key, None if undecided. ``asked``: level, rule and effort.
    Answers of another version of OR-Tools or ``BoxModel`` do not count."""

    def read(database: sqlite3.Connection) -> dict[bytes, Any]:
        found: dict[bytes, Any] = {}
        # SQLite limits the number of keys per query
        for start in range(0, len(diagrams), _AT_ONCE):
            some = diagrams[start : start + _AT_ONCE]
            rows = database.execute(
                "select diagram, answer from verdicts where asked = ? and diagram in "
                f"({', '.join('?' * len(some))})",
                [_key_of_question(asked), *some],
            )
            found |= dict(rows)
        return found

    return _with_database(read, logging.INFO) or {}


def cache_verdicts(asked: str, answers: Mapping[bytes, bool | str | None]) -> None:
    """Add answers to the cache, unless a signal may have cut them short."""
    rows = [(_key_of_question(asked), diagram, answer) for diagram, answer in answers.items()]

    def write(database: sqlite3.Connection) -> None:
        with database:
            database.executemany("insert or replace into verdicts values (?, ?, ?)", rows)

    if rows and not is_stopping():
        _with_database(write, logging.WARNING)


def _with_database(use: Callable[[sqlite3.Connection], T], level: int) -> T | None:
    """Return ``use`` of the database; log at ``level`` and return None if the file is unusable."""
    path = cache_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as database:
            database.execute(_TABLE)
            return use(database)
    except (OSError, sqlite3.OperationalError) as error:
        logger.log(
            level,
            "verdicts are not kept in %s (%s); set %s to a folder that can be written to",
            *(path, error, CACHE_VARIABLE),
        )
    except sqlite3.DatabaseError as error:
        logger.warning("%s is not a readable cache file (%s); it is begun anew", path, error)
        path.unlink(missing_ok=True)
    return None


def _key_of_question(asked: str) -> bytes:
    return hashlib.blake2b(f"{asked}, {_solver_version()}".encode(), digest_size=8).digest()


@cache
def _solver_version() -> str:
    """Version of OR-Tools and hash of the source files that build the model."""
    sources = b"".join(Path(str(each.__file__)).read_bytes() for each in (box_model, geometry))
    return f"{version('ortools')}, {hashlib.blake2b(sources).hexdigest()}"


def plan_shares(diagrams: Sequence[BubbleDiagram], num: int = NUM_VERDICTS) -> dict[str, float]:
    """Shares of the first ``num`` diagrams that are "realisable", "buildable" (see ``find_boxes``)
    and "undecided"; ``num_verdicts``: the number decided. Empty without diagrams, or without
    OR-Tools. Uses as many threads as torch has."""
    measured = list(diagrams[:num])
    if not measured or not is_installed():
        return {}
    threads = torch.get_num_threads()
    decide = partial(have_plans, effort=_EFFORT_OF_SHARES, threads=threads)
    buildable = decide(measured, "buildable")
    # a buildable diagram is realisable, so only the others are decided again
    others = [each for each, answer in zip(measured, buildable, strict=True) if not answer]
    realisable = decide(others, "realisable")
    num_buildable, num = sum(map(bool, buildable)), len(measured)
    return {
        "realisable": (num_buildable + sum(map(bool, realisable))) / num,
        "buildable": num_buildable / num,
        "undecided": buildable.count(None) / num,
        "num_verdicts": num,
    }


@dataclass(frozen=True)
class PlanScores:
    """Shares of diagrams with a plan: ``plan_shares`` of every set of samples, by name, and of
    ``real`` plans."""

    per_seed: dict[str, list[float]]
    real: dict[str, float]

    @property
    def _num(self) -> int:
        return int(sum(self.per_seed["num_verdicts"]))

    @property
    def intervals(self) -> dict[str, Interval]:
        return {name: share_interval(self.per_seed[name], self._num) for name in MEANINGS}

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        means = {name: interval.mean for name, interval in self.intervals.items()}
        return {**means, "num_verdicts": self._num, "plans": self.real}

    def section(self) -> TableSection:
        rows = tuple(
            TableRow(name, interval.text(4), f"{self.real[name]:.4f}", "", MEANINGS[name])
            for name, interval in self.intervals.items()
        )
        return TableSection("floor plans, decided by a constraint solver", rows)

    def note(self) -> str:
        real = int(self.real["num_verdicts"])
        return (
            f"Floor plans: of {self._num:,} samples, the first ones of each set, and of {real:,} "
            "real plans; transitive is necessary for a plan, realisable and buildable are exact."
        )


def score_plans(
    sample_sets: Sequence[Sequence[BubbleDiagram]], real: Sequence[BubbleDiagram], num: int
) -> PlanScores | None:
    """Score ``num`` samples, spread over the sets, and ``num`` real plans. None if ``num`` is 0, or
    without OR-Tools."""
    if num == 0 or not is_installed():
        return None
    of_each = -(-num // len(sample_sets))
    found = [plan_shares(samples, of_each) for samples in sample_sets]
    return PlanScores(
        {name: [shares[name] for shares in found] for name in found[0]}, plan_shares(real, num)
    )

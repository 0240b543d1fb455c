"""Verdicts kept on disk: those of real plans are requested at every ``evaluate``.

A database of SQLite, as several processes may write to one at once, and reading a few answers does
not read the whole file.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from discrete_diffusion.data import CACHE_VARIABLE, cache_dir
from discrete_diffusion.runtime import is_stopping
from floor_plans.diagrams import geometry
from floor_plans.plans import box_model, box_rule

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PATIENCE = 5.0
"""Seconds to wait for another process that writes."""

_AT_ONCE = 500
"""Keys of a query; SQLite takes 999 at least."""

_TABLE = """create table if not exists verdicts
    (asked blob, diagram blob, answer integer, primary key (asked, diagram)) without rowid"""


def cache_file() -> Path:
    """File in which verdicts are kept."""
    return cache_dir() / "verdicts-v1.sqlite3"


def kept_verdicts(asked: str, diagrams: Sequence[bytes]) -> dict[bytes, bool | None]:
    """The answers that are there, by canonical key; None: not decided with that effort.

    ``asked``: level, rule and effort. Answers of another version of OR-Tools or of ``BoxModel`` are
    not taken.
    """
    kept = kept_answers(asked, diagrams)
    return {key: None if answer is None else bool(answer) for key, answer in kept.items()}


def kept_answers(asked: str, diagrams: Sequence[bytes]) -> dict[bytes, Any]:
    """The same of answers of any kind: numbers, texts, None."""

    def read(database: sqlite3.Connection) -> dict[bytes, Any]:
        found: dict[bytes, Any] = {}
        for start in range(0, len(diagrams), _AT_ONCE):
            some = diagrams[start : start + _AT_ONCE]
            rows = database.execute(
                "select diagram, answer from verdicts where asked = ? and diagram in "
                f"({', '.join('?' * len(some))})",
                [_key(asked), *some],
            )
            found |= dict(rows)
        return found

    return _used(read, logging.INFO) or {}


def keep_verdicts(asked: str, answers: Mapping[bytes, bool | str | None]) -> None:
    """Add answers, so that ``kept_verdicts`` or ``kept_answers`` finds them; none that a signal may
    have cut short."""
    rows = [(_key(asked), diagram, answer) for diagram, answer in answers.items()]

    def write(database: sqlite3.Connection) -> None:
        with database:
            database.executemany("insert or replace into verdicts values (?, ?, ?)", rows)

    if rows and not is_stopping():
        _used(write, logging.WARNING)


def _used(use: Callable[[sqlite3.Connection], T], level: int) -> T | None:
    """Return what ``use`` returns; None, and a line of that ``level`` in the log, if the file
    cannot be used. A file that is no database is removed, with a warning."""
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


def _key(asked: str) -> bytes:
    return hashlib.blake2b(f"{asked}, {_solver()}".encode(), digest_size=8).digest()


@cache
def _solver() -> str:
    """The version of OR-Tools, and what the model is built by."""
    sources = b"".join(
        Path(str(module.__file__)).read_bytes() for module in (box_model, box_rule, geometry)
    )
    return f"{version('ortools')}, {hashlib.blake2b(sources).hexdigest()}"

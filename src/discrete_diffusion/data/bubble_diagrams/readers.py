"""Plans read from files and folders; which format a file has is decided here and only here."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.data.bubble_diagrams.fields import DiagramError, check_size
from discrete_diffusion.data.bubble_diagrams.geometry import DEFAULT_THRESHOLD
from discrete_diffusion.data.bubble_diagrams.graph2plan import read_mat
from discrete_diffusion.data.bubble_diagrams.graph_formats import read_graphml
from discrete_diffusion.data.bubble_diagrams.json_text import BYTE_ORDER_MARK, load_json
from discrete_diffusion.data.bubble_diagrams.line_formats import parse_plan
from discrete_diffusion.data.bubble_diagrams.mat_file import is_mat_file
from discrete_diffusion.data.bubble_diagrams.report import Problem, ReadReport
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

logger = logging.getLogger(__name__)

FOLDER_SUFFIXES = (".json", ".jsonl", ".graphml")
"""Files of a folder that are read."""

OTHER_FILES = "other files"
_PICKLE = "a pickle, which is never loaded, it could run code; convert it to JSON lines"
_ARCHIVE = "a compressed file or archive; unpack it first"
_FOREIGN = {
    b"\x80\x02": _PICKLE,
    b"\x80\x03": _PICKLE,
    b"\x80\x04": _PICKLE,
    b"\x80\x05": _PICKLE,
    b"\x1f\x8b": _ARCHIVE,
    b"PK": _ARCHIVE,
    b"BZ": _ARCHIVE,
    b"7z": _ARCHIVE,
    b"\xfd7": _ARCHIVE,
}
"""First two bytes of files that hold no line of text -> what to do about them."""


class _Options(NamedTuple):
    n_max: int
    threshold: float


class _Record(NamedTuple):
    """One plan of a source: the diagram, or what is wrong with it, or None for a duplicate."""

    path: Path
    record: str
    outcome: BubbleDiagram | DiagramError | None
    left_out: tuple[str, ...] = ()


def read_diagrams(
    path: str | os.PathLike[str],
    *,
    skip_invalid: bool = False,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    threshold: float = DEFAULT_THRESHOLD,
) -> list[BubbleDiagram]:
    """The diagrams of a file or folder, in its order; see ``read_report``.

    What is left out (invalid plans under ``skip_invalid``, flagged duplicates, self-loops, walls)
    is logged.
    """
    report = read_report(path, skip_invalid=skip_invalid, n_max=n_max, threshold=threshold)
    if report.problems or report.num_duplicates or report.left_out:
        logger.log(logging.WARNING if report.problems else logging.INFO, "%s", report.summary())
    return list(report.diagrams)


def read_report(
    path: str | os.PathLike[str],
    *,
    skip_invalid: bool = False,
    n_max: int = RPLAN_VOCAB_CONFIG.n_max,
    threshold: float = DEFAULT_THRESHOLD,
) -> ReadReport:
    """Read plans and account for every line, record or file.

    * ``.json``: one plan, or a list of plans; JSON lines under this name are read too;
    * ``.graphml``: one plan, as ``BubbleDiagram.to_graphml`` writes it;
    * a MATLAB file: Graph2Plan's ``data.mat``, see ``graph2plan.read_mat``;
    * a folder: its .json, .jsonl and .graphml files in the order of their names;
    * any other file: JSON lines, a plan per line.

    A plan in JSON is told by its fields, see ``line_formats.parse_plan``: our interchange format
    ({"rooms", "relations"}), plans given as boxes ({"rooms" or "room_type", "boxes"}: relations by
    the geometric rule with ``threshold`` in the boxes' unit), House-GAN++ plans ({"room_type",
    "boxes", "ed_rm"}: likewise), or rendered plans with coarse room codes ({"room_type", "boxes",
    "rel"}). Pickles are never loaded.

    Raises ``FileNotFoundError`` naming the path looked for; ``ValueError`` naming file, line or
    record, field and reason for the first plan that is invalid or has more than ``n_max`` rooms
    (unless ``skip_invalid``: then the report lists it), and for an ``n_max`` below 1 or a
    ``threshold`` that is not a number of at least 0.
    """
    path = Path(path)
    if n_max < 1:
        raise ValueError(f"n_max={n_max}: expected at least 1 room")
    if not (math.isfinite(threshold) and threshold >= 0):
        raise ValueError(f"threshold={threshold}: expected a number of at least 0")
    if not path.exists():
        raise FileNotFoundError(f"no plans file at {path.absolute()}")
    diagrams: list[BubbleDiagram] = []
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    units: set[str] = set()
    num_records = num_duplicates = 0
    for found in _read(path, _Options(n_max, threshold)):
        num_records += 1
        units.add(found.record.split(" ")[0])
        left_out.update(found.left_out)
        if found.outcome is None:
            num_duplicates += 1
        elif isinstance(found.outcome, BubbleDiagram):
            diagrams.append(found.outcome)
        else:
            error = found.outcome
            problem = Problem(found.path, found.record, error.field, error.reason)
            if not skip_invalid:
                raise ValueError(problem.sentence()) from error
            problems.append(problem)
    if path.is_dir() and (num_others := _count_other_files(path)):
        left_out[OTHER_FILES] = num_others
    return ReadReport(
        path=path,
        diagrams=tuple(diagrams),
        num_records=num_records,
        unit=f"{units.pop()}s" if units in ({"line"}, {"record"}) else "plans",
        problems=tuple(problems),
        num_duplicates=num_duplicates,
        left_out=dict(left_out),
    )


def _read(path: Path, options: _Options) -> Iterator[_Record]:
    """The plans of a file or folder; a file without one is a record that says so."""
    if path.is_dir():
        files = _files_of(path)
        if not files:
            kinds = ", ".join(FOLDER_SUFFIXES)
            raise ValueError(f"{path} is a folder without a {kinds} file; give the path of a file")
        for file in files:
            yield from _read(file, options)
    elif reason := _FOREIGN.get((head := _first_bytes(path))[:2]):
        yield _Record(path, "", DiagramError("", reason))
    elif path.suffix.lower() == ".mat" or is_mat_file(head):
        yield from _read_mat(path, options)
    elif path.suffix.lower() == ".graphml":
        yield _read_graphml(path, options)
    elif path.suffix.lower() == ".json" and not _holds_lines(path):
        yield from _read_document(path, options)
    else:
        yield from _read_lines(path, options)


def _files_of(folder: Path) -> list[Path]:
    """The files of a folder that are read, by name."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and file.suffix.lower() in FOLDER_SUFFIXES
    )


def _count_other_files(folder: Path) -> int:
    """Files, links and folders in it that are not read; hidden ones do not count."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return len(set(entries) - set(_files_of(folder)))


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(128)


def _holds_lines(path: Path) -> bool:
    """Whether a .json file is JSON lines: its first line is an object and there are more lines."""
    with path.open("rb") as lines:
        first = lines.readline().removeprefix(BYTE_ORDER_MARK)
        if not first.lstrip().startswith(b"{") or not lines.read().strip():
            return False
    try:
        load_json(first)
    except DiagramError:
        return False
    return True


def _read_lines(path: Path, options: _Options) -> Iterator[_Record]:
    number = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            yield _from_json(path, f"line {number}", line, options)
    if number == 0:
        reason = "the file is empty; expected one JSON object per line"
        yield _Record(path, "", DiagramError("", reason))


def _read_document(path: Path, options: _Options) -> Iterator[_Record]:
    """A .json file: one plan, or a list of them."""
    try:
        data = load_json(path.read_bytes().removeprefix(BYTE_ORDER_MARK))
    except DiagramError as error:
        yield _Record(path, "", error)
        return
    if not isinstance(data, list):
        yield _parsed(path, "", data, options)
        return
    for number, item in enumerate(data, start=1):
        yield _parsed(path, f"plan {number}", item, options)
    if not data:
        yield _Record(path, "", DiagramError("", "the list is empty; expected a plan at least"))


def _from_json(path: Path, record: str, text: bytes, options: _Options) -> _Record:
    try:
        data = load_json(text.removeprefix(BYTE_ORDER_MARK))
    except DiagramError as error:
        return _Record(path, record, error)
    return _parsed(path, record, data, options)


def _parsed(path: Path, record: str, data: Any, options: _Options) -> _Record:
    try:
        plan = parse_plan(data, n_max=options.n_max, threshold=options.threshold)
    except DiagramError as error:
        return _Record(path, record, error)
    return _Record(path, record, plan.diagram, plan.left_out)


def _read_graphml(path: Path, options: _Options) -> _Record:
    try:
        plan = read_graphml(path.read_text(encoding="utf-8"))
        check_size(plan.diagram.num_rooms, options.n_max, "rooms")
    except DiagramError as error:
        return _Record(path, "", error)
    except ValueError as error:
        return _Record(path, "", DiagramError("", " ".join(str(error).split())))
    return _Record(path, "", plan.diagram, plan.left_out)


def _read_mat(path: Path, options: _Options) -> Iterator[_Record]:
    try:
        for number, plan in enumerate(read_mat(path, n_max=options.n_max), start=1):
            yield _Record(path, f"record {number}", plan.outcome, plan.left_out)
    except DiagramError as error:
        yield _Record(path, "", error)

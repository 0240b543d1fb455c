"""The records of a file or folder of plans; which format a file has is decided here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from discrete_diffusion.domains.bubble_diagrams.files.code_tables import (
    OUR_TABLE,
    RoomCodes,
    codes_of,
)
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError, check_size
from discrete_diffusion.domains.bubble_diagrams.files.foreign_files import (
    HEAD_BYTES,
    WHAT_IS_READ,
    foreign_format,
)
from discrete_diffusion.domains.bubble_diagrams.files.graph2plan import MatPlan, read_mat
from discrete_diffusion.domains.bubble_diagrams.files.graph_formats import graph_of, plan_of_graph
from discrete_diffusion.domains.bubble_diagrams.files.json_text import (
    BYTE_ORDER_MARK,
    holds_lines,
    load_json,
    numbered_lines,
    one_document,
)
from discrete_diffusion.domains.bubble_diagrams.files.line_formats import (
    LinePlan,
    parse_plan,
    room_codes,
)
from discrete_diffusion.domains.bubble_diagrams.files.mat_file import is_mat_file

FOLDER_SUFFIXES = (".json", ".jsonl", ".graphml")
"""Files of a folder that are read."""


@dataclass(slots=True)
class PlanRecord:
    """One plan of a source.

    ``path``, ``record``: where it stands, "line 3". ``written``: what its rooms are written in.
    ``parse``: its plan by a table of room codes, None for its own; raises ``DiagramError``.
    """

    path: Path
    record: str
    written: RoomCodes
    parse: Callable[[str | None], LinePlan]
    _last: tuple[str | None, LinePlan] | None = None

    def read(self, codes: str | None) -> LinePlan:
        """What ``parse`` returns, kept for the next call with the same table."""
        if self._last is None or self._last[0] != codes:
            self._last = codes, self.parse(codes)
        return self._last[1]


class ReadOptions(NamedTuple):
    """Most rooms of a plan, and the gap up to which boxes are related, in their unit."""

    n_max: int
    threshold: float


def plan_records(path: Path, options: ReadOptions) -> Iterator[PlanRecord]:
    """The plans of a file or folder; a file without one is a record that says so.

    Raises ``ValueError`` for a folder without a file that is read.
    """
    if path.is_dir():
        files = _files_of(path)
        if not files:
            kinds = ", ".join(FOLDER_SUFFIXES)
            raise ValueError(f"{path} is a folder without a {kinds} file; give the path of a file")
        for file in files:
            yield from plan_records(file, options)
        return
    with path.open("rb") as content:
        head = content.read(HEAD_BYTES)
    suffix = path.suffix.lower()
    if suffix == ".mat" or is_mat_file(head):
        yield from _of_mat_file(path, options)
    elif foreign := foreign_format(path, head):
        yield _wrong(path, "", DiagramError("", foreign))
    elif suffix == ".graphml":
        yield _of_graphml(path, options)
    elif one_document(path) or (suffix == ".json" and not holds_lines(path)):
        yield from _of_document(path, options)
    else:
        yield from _of_lines(path, options)


def count_other_files(folder: Path) -> int:
    """Files, links and folders in it that are not read; hidden ones do not count."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return len(set(entries) - set(_files_of(folder)))


def _files_of(folder: Path) -> list[Path]:
    """The files of a folder that are read, by name."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and file.suffix.lower() in FOLDER_SUFFIXES
    )


def _of_lines(path: Path, options: ReadOptions) -> Iterator[PlanRecord]:
    """A record for each line that is not blank; one in all if none is a JSON object."""
    records, num_objects = [], 0
    reason = "the file is empty; expected one JSON object per line"
    for number, line in numbered_lines(path):
        where = f"line {number}"
        try:
            data = load_json(line)
        except DiagramError as error:
            records.append(_wrong(path, where, error))
            continue
        num_objects += isinstance(data, Mapping)
        parse = partial(_parse_line, line, options)
        records.append(PlanRecord(path, where, room_codes(data), parse))
    if num_objects == 0 and len(records) != 1:
        if records:
            reason = f"none of its {len(records):,} lines is a JSON object; {WHAT_IS_READ}"
        records = [_wrong(path, "", DiagramError("", reason))]
    yield from records


def _of_document(path: Path, options: ReadOptions) -> Iterator[PlanRecord]:
    """One plan, or a list of them."""
    try:
        data = load_json(path.read_bytes().removeprefix(BYTE_ORDER_MARK))
    except DiagramError as error:
        yield _wrong(path, "", error)
        return
    if not isinstance(data, list):
        yield _of_json(path, "", data, options)
        return
    for number, item in enumerate(data, start=1):
        yield _of_json(path, f"plan {number}", item, options)
    if not data:
        yield _wrong(path, "", DiagramError("", "the list is empty; expected a plan at least"))


def _of_json(path: Path, record: str, data: Any, options: ReadOptions) -> PlanRecord:
    return PlanRecord(path, record, room_codes(data), partial(_parse, data, options))


def _parse(data: Any, options: ReadOptions, codes: str | None) -> LinePlan:
    return parse_plan(data, n_max=options.n_max, threshold=options.threshold, codes=codes)


def _parse_line(line: bytes, options: ReadOptions, codes: str | None) -> LinePlan:
    """The line is kept rather than what it holds: that is many times as large."""
    return _parse(load_json(line), options, codes)


def _of_graphml(path: Path, options: ReadOptions) -> PlanRecord:
    try:
        graph = graph_of(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return _wrong(path, "", error)

    def parse(codes: str | None) -> LinePlan:
        try:
            plan = plan_of_graph(graph, codes=codes or OUR_TABLE)
        except ValueError as error:
            raise _as_diagram_error(error) from error
        check_size(plan.diagram.num_rooms, options.n_max, "rooms")
        return LinePlan(plan.diagram, plan.left_out)

    rooms = [room for _, room in graph.nodes(data="room")]
    return PlanRecord(path, "", codes_of(rooms), parse)


def _of_mat_file(path: Path, options: ReadOptions) -> Iterator[PlanRecord]:
    try:
        for number, plan in enumerate(read_mat(path, n_max=options.n_max), start=1):
            yield _of_mat_plan(path, f"record {number}", plan)
    except DiagramError as error:
        yield _wrong(path, "", error)


def _of_mat_plan(path: Path, record: str, plan: MatPlan) -> PlanRecord:
    outcome = plan.outcome
    if isinstance(outcome, DiagramError):
        return _wrong(path, record, outcome)

    def parse(codes: str | None) -> LinePlan:
        return LinePlan(outcome, plan.left_out)

    return PlanRecord(path, record, RoomCodes(outcome.rooms, table=OUR_TABLE), parse)


def _wrong(path: Path, record: str, error: ValueError) -> PlanRecord:
    def parse(codes: str | None) -> LinePlan:
        raise _as_diagram_error(error)

    return PlanRecord(path, record, RoomCodes(), parse)


def _as_diagram_error(error: ValueError) -> DiagramError:
    if isinstance(error, DiagramError):
        return error
    return DiagramError("", " ".join(str(error).split()))

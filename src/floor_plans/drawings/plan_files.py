"""``plan_records``: records of a file or folder of plans, in the format of each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.runtime import suffix_of
from floor_plans.diagrams.files.code_tables import OUR_TABLE, RoomCodes, codes_of
from floor_plans.diagrams.files.fields import NO_NAMES, DiagramError, OwnNames, check_size
from floor_plans.diagrams.files.foreign_files import (
    WHAT_IS_READ,
    foreign_format,
    holds_lines,
    holds_object,
    load_json,
    numbered_lines,
    one_document,
    opened,
    read_document,
)
from floor_plans.diagrams.files.graph2plan import is_mat_file, mat_records, plan_of_record
from floor_plans.diagrams.files.graph_formats import graph_of, plans_by_id, read_graphml
from floor_plans.diagrams.files.records import Parsed, Plan, Record, wrong_record
from floor_plans.diagrams.geometry import metres_per
from floor_plans.drawings.drawn_plan import Drawing
from floor_plans.drawings.dxf_reading import read_dxf
from floor_plans.drawings.levels import Part, parts_of
from floor_plans.drawings.line_formats import parse_plan, room_codes
from floor_plans.drawings.wkt import read_wkt

FOLDER_SUFFIXES = (".json", ".jsonl", ".graphml", ".geojson", ".dxf", ".wkt")
"""Files of a folder that are read, also if gzipped."""


_Parse = Callable[[Any, str | None], Plan]

_DRAWINGS: dict[str, Callable[..., Drawing]] = {
    ".dxf": read_dxf,
    ".wkt": read_wkt,
}
"""Readers of files that draw one plan, by suffix."""


def plan_records(
    path: Path, n_max: int, threshold: float, unit: str, names: OwnNames = NO_NAMES
) -> list[Record[Plan]]:
    """Records of a file or folder of plans. A file without a plan is a record of the error.

    ``n_max``: most rooms of a plan; ``threshold``: largest gap between related boxes, in their
    ``unit``; ``names``: the user's own names of rooms. Raises ``ValueError`` for a folder without a
    readable file.
    """
    # the files of a folder, in order
    if path.is_dir():
        files = _readable_files(path)
        if not files:
            kinds = ", ".join(FOLDER_SUFFIXES)
            raise ValueError(f"{path} is a folder without a {kinds} file; give the path of a file")
        of_files = (plan_records(file, n_max, threshold, unit, names) for file in files)
        return [record for records in of_files for record in records]
    try:
        return list(_file_records(path, n_max, threshold, unit, names))
    except DiagramError as error:
        return [wrong_record(path, "", error)]


def count_other_files(folder: Path) -> int:
    """Count files, links and folders that are not read, without hidden ones."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return len(set(entries) - set(_readable_files(folder)))


def _readable_files(folder: Path) -> list[Path]:
    """Files of a folder that are read, by name."""
    return sorted(
        file for file in folder.iterdir() if file.is_file() and suffix_of(file) in FOLDER_SUFFIXES
    )


def _file_records(
    path: Path, n_max: int, threshold: float, unit: str, names: OwnNames
) -> Iterator[Record[Plan]]:
    """Records of a file. Raises ``DiagramError`` for a file without plans."""
    suffix = suffix_of(path)

    def parse(data: Any, codes: str | None) -> Plan:
        data = names.translate(data)
        return parse_plan(data, n_max=n_max, threshold=threshold, unit=unit, codes=codes)

    # the content decides first, then the suffix
    if is_mat_file(path):
        yield from _mat_records(path, n_max)
    elif foreign := foreign_format(path):
        raise DiagramError("", foreign)
    elif suffix == ".graphml":
        yield _graphml_record(path, n_max, names)
    elif suffix in _DRAWINGS:
        in_unit = {"unit": unit} if suffix == ".dxf" else {}  # WKT is always in metres
        read = partial(_DRAWINGS[suffix], names=names, **in_unit)
        yield _drawing_record(path, read, n_max, threshold * metres_per(unit))
    elif one_document(path) or (suffix in (".json", ".geojson") and not holds_lines(path)):
        yield from _document_records(path, parse)
    else:
        # JSON lines
        lines = [
            record for each in numbered_lines(path) for record in _line_records(path, *each, parse)
        ]
        if not lines:
            raise DiagramError("", "the file is empty; expected one JSON object per line")
        if len(lines) > 1 and not holds_object(path):
            what = f"none of its {len(lines):,} lines is a JSON object"
            raise DiagramError("", f"{what}; {WHAT_IS_READ}")
        yield from lines


def records_of_lines(
    path: Path,
    room_codes_of: Callable[[Any], RoomCodes],
    parse: Callable[[Any, str | None], Parsed],
) -> Iterator[Record[Parsed]]:
    """Records of the lines that are not blank, see ``record_of_line``."""
    for number, line in numbered_lines(path):
        yield record_of_line(path, f"line {number}", line, room_codes_of, parse)


def record_of_line(
    path: Path,
    where: str,
    line: bytes,
    room_codes_of: Callable[[Any], RoomCodes],
    parse: Callable[[Any, str | None], Parsed],
) -> Record[Parsed]:
    """Record of a JSON object: the codes of its rooms, and a parser that takes a table of codes."""

    def parse_line(codes: str | None) -> Parsed:
        return parse(load_json(line), codes)  # the line is kept, as its object is much larger

    try:
        codes = room_codes_of(load_json(line))
    except DiagramError as error:
        return wrong_record(path, where, error)
    return Record(path, where, codes, parse_line)


def _line_records(path: Path, number: int, line: bytes, parse: _Parse) -> Iterator[Record[Plan]]:
    """Record of a line, or several for a drawing of several plans."""
    where = f"line {number}"
    # only drawings hold several plans
    if any(key in line for key in (b'"features"', b'"spaces"')):
        try:
            data = load_json(line)
            is_one = len(parts_of(data)) == 1
        except DiagramError as error:
            yield wrong_record(path, where, error)
            return
        if not is_one:
            yield from _object_records(path, where, data, parse)
            return
    yield record_of_line(path, where, line, room_codes, parse)


def _object_records(path: Path, where: str, data: Any, parse: _Parse) -> Iterator[Record[Plan]]:
    """Record of a JSON object, or several for a drawing of several plans."""

    def parse_part(part: Part, codes: str | None) -> Plan:
        return part.labelled(parse(part.data, codes))

    try:
        parts = parts_of(data)
    except DiagramError as error:
        yield wrong_record(path, where, error)
        return
    for part in parts:
        place = " of ".join(name for name in (part.name, where) if name)
        yield Record(path, place, room_codes(part.data), partial(parse_part, part))


def _document_records(path: Path, parse: _Parse) -> Iterator[Record[Plan]]:
    """Records of an object, of a list of objects, or of an object that holds them by id."""
    data = read_document(path)
    # plans by id, a single plan, or a list
    if (by_id := plans_by_id(data)) is not None:
        for name, item in by_id.items():
            item = {"name": name, **item}
            yield Record(path, f"plan {name}", room_codes(item), partial(parse, item))
        return
    if not isinstance(data, list):
        yield from _object_records(path, "", data, parse)
        return
    if not data:
        raise DiagramError("", "the list is empty; expected at least one plan")
    for number, item in enumerate(data, start=1):
        yield from _object_records(path, f"plan {number}", item, parse)


def _graphml_record(path: Path, n_max: int, names: OwnNames) -> Record[Plan]:
    """Record of a GraphML file."""
    try:
        with opened(path) as file:
            graph = graph_of(file.read().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DiagramError("", f"not UTF-8 text: {error}") from error

    # the user's own names of rooms
    for _, about in graph.nodes(data=True):
        if "room" in about:
            about["room"] = names.room_type(about["room"])

    def parse(codes: str | None) -> Plan:
        plan = read_graphml(graph, codes=codes or OUR_TABLE)
        check_size(plan.diagram.num_rooms, n_max, "rooms")
        return plan

    rooms = [room for _, room in graph.nodes(data="room")]
    return Record(path, "", codes_of(rooms), parse)


def _drawing_record(
    path: Path, read: Callable[[bytes], Drawing], n_max: int, gap: float
) -> Record[Plan]:
    """Record of a file that draws one plan."""

    def parse(codes: str | None) -> Plan:
        with opened(path) as file:
            return read(file.read()).plan(n_max=n_max, gap=gap)

    return Record(path, "", RoomCodes(), parse)


def _mat_records(path: Path, n_max: int) -> Iterator[Record[Plan]]:
    """Records of a MATLAB file."""
    for number, values in enumerate(mat_records(path), start=1):
        where = f"record {number}"
        try:
            plan = plan_of_record(values, n_max=n_max)
        except DiagramError as error:
            yield wrong_record(path, where, error)
        else:
            codes = RoomCodes(plan.diagram.rooms, table=OUR_TABLE)
            yield Record(path, where, codes, partial(_return_plan, plan))


def _return_plan(plan: Plan, codes: str | None) -> Plan:
    return plan

"""The records of a file or folder of plans; which format a file has is decided here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.runtime import suffix_of
from floor_plans.diagrams.files.code_tables import OUR_TABLE, RoomCodes, codes_of
from floor_plans.diagrams.files.cubigraph import plans_by_id
from floor_plans.diagrams.files.fields import DiagramError, check_size
from floor_plans.diagrams.files.foreign_files import WHAT_IS_READ, foreign_format
from floor_plans.diagrams.files.graph2plan import is_mat_file, mat_records, plan_of_record
from floor_plans.diagrams.files.graph_formats import graph_of, read_graphml
from floor_plans.diagrams.files.json_text import (
    holds_lines,
    holds_object,
    load_json,
    numbered_lines,
    one_document,
    opened,
    read_document,
)
from floor_plans.diagrams.files.own_names import NO_NAMES, OwnNames
from floor_plans.diagrams.files.records import Parsed, Plan, Record, wrong_record
from floor_plans.diagrams.geometry import metres_per
from floor_plans.drawings.drawn_plan import Drawing
from floor_plans.drawings.dxf_reading import read_dxf
from floor_plans.drawings.levels import Part, parts_of
from floor_plans.drawings.line_formats import parse_plan, room_codes
from floor_plans.drawings.wkt import read_wkt

FOLDER_SUFFIXES = (".json", ".jsonl", ".graphml", ".geojson", ".dxf", ".wkt")
"""Files of a folder that are read, gzipped ones too."""


_Parse = Callable[[Any, str | None], Plan]

_DRAWINGS: dict[str, Callable[..., Drawing]] = {
    ".dxf": read_dxf,
    ".wkt": read_wkt,
}
"""Ending of files that draw one plan -> what reads their content."""


def plan_records(
    path: Path, n_max: int, threshold: float, unit: str, names: OwnNames = NO_NAMES
) -> list[Record[Plan]]:
    """The plans of a file or folder; a file without one is a record that says so.

    ``n_max``: most rooms of a plan; ``threshold``: the gap up to which boxes are related, in their
    ``unit``; ``names``: somebody's own of rooms. Raises ``ValueError`` for a folder without a file
    that is read.
    """
    if path.is_dir():
        files = _files_of(path)
        if not files:
            kinds = ", ".join(FOLDER_SUFFIXES)
            raise ValueError(f"{path} is a folder without a {kinds} file; give the path of a file")
        of_files = (plan_records(file, n_max, threshold, unit, names) for file in files)
        return [record for records in of_files for record in records]
    try:
        return list(_records_of(path, n_max, threshold, unit, names))
    except DiagramError as error:
        return [wrong_record(path, "", error)]


def count_other_files(folder: Path) -> int:
    """Files, links and folders in it that are not read; hidden ones do not count."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return len(set(entries) - set(_files_of(folder)))


def _files_of(folder: Path) -> list[Path]:
    """The files of a folder that are read, by name."""
    return sorted(
        file for file in folder.iterdir() if file.is_file() and suffix_of(file) in FOLDER_SUFFIXES
    )


def _records_of(
    path: Path, n_max: int, threshold: float, unit: str, names: OwnNames
) -> Iterator[Record[Plan]]:
    """The plans of a file; ``DiagramError`` for a file that holds none."""
    suffix = suffix_of(path)

    def parse(data: Any, codes: str | None) -> Plan:
        data = names.translate(data)
        return parse_plan(data, n_max=n_max, threshold=threshold, unit=unit, codes=codes)

    if is_mat_file(path):
        yield from _of_mat_file(path, n_max)
    elif foreign := foreign_format(path):
        raise DiagramError("", foreign)
    elif suffix == ".graphml":
        yield _of_graphml(path, n_max, names)
    elif suffix in _DRAWINGS:
        in_unit = {"unit": unit} if suffix == ".dxf" else {}  # the other is in metres always
        read = partial(_DRAWINGS[suffix], names=names, **in_unit)
        yield _of_drawing(path, read, n_max, threshold * metres_per(unit))
    elif one_document(path) or (suffix in (".json", ".geojson") and not holds_lines(path)):
        yield from _of_document(path, parse)
    else:
        lines = [record for each in numbered_lines(path) for record in _of_line(path, *each, parse)]
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
    """A record for each line that is not blank, see ``record_of_line``."""
    for number, line in numbered_lines(path):
        yield record_of_line(path, f"line {number}", line, room_codes_of, parse)


def record_of_line(
    path: Path,
    where: str,
    line: bytes,
    room_codes_of: Callable[[Any], RoomCodes],
    parse: Callable[[Any, str | None], Parsed],
) -> Record[Parsed]:
    """Codes with which a JSON object writes its rooms, and what parses it by a table of them."""

    def parse_line(codes: str | None) -> Parsed:
        return parse(load_json(line), codes)  # what a line holds is many times as large

    try:
        codes = room_codes_of(load_json(line))
    except DiagramError as error:
        return wrong_record(path, where, error)
    return Record(path, where, codes, parse_line)


def _of_line(path: Path, number: int, line: bytes, parse: _Parse) -> Iterator[Record[Plan]]:
    """The plan of a line, or those of a drawing that holds several."""
    where = f"line {number}"
    if any(key in line for key in (b'"features"', b'"spaces"')):
        try:
            data = load_json(line)
            is_one = len(parts_of(data)) == 1
        except DiagramError as error:
            yield wrong_record(path, where, error)
            return
        if not is_one:
            yield from _of_object(path, where, data, parse)
            return
    yield record_of_line(path, where, line, room_codes, parse)


def _of_object(path: Path, where: str, data: Any, parse: _Parse) -> Iterator[Record[Plan]]:
    """The plan of a JSON object, or those of a drawing that holds several."""

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


def _of_document(path: Path, parse: _Parse) -> Iterator[Record[Plan]]:
    """The plans of one object, of a list of them, or of an object that holds them by id."""
    data = read_document(path)
    if (by_id := plans_by_id(data)) is not None:
        for name, item in by_id.items():
            item = {"name": name, **item}
            yield Record(path, f"plan {name}", room_codes(item), partial(parse, item))
        return
    if not isinstance(data, list):
        yield from _of_object(path, "", data, parse)
        return
    if not data:
        raise DiagramError("", "the list is empty; expected at least one plan")
    for number, item in enumerate(data, start=1):
        yield from _of_object(path, f"plan {number}", item, parse)


def _of_graphml(path: Path, n_max: int, names: OwnNames) -> Record[Plan]:
    try:
        with opened(path) as file:
            graph = graph_of(file.read().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DiagramError("", f"not UTF-8 text: {error}") from error

    for _, about in graph.nodes(data=True):
        if "room" in about:
            about["room"] = names.room_type(about["room"])

    def parse(codes: str | None) -> Plan:
        plan = read_graphml(graph, codes=codes or OUR_TABLE)
        check_size(plan.diagram.num_rooms, n_max, "rooms")
        return plan

    rooms = [room for _, room in graph.nodes(data="room")]
    return Record(path, "", codes_of(rooms), parse)


def _of_drawing(
    path: Path, read: Callable[[bytes], Drawing], n_max: int, gap: float
) -> Record[Plan]:
    """A file that draws one plan."""

    def parse(codes: str | None) -> Plan:
        with opened(path) as file:
            return read(file.read()).plan(n_max=n_max, gap=gap)

    return Record(path, "", RoomCodes(), parse)


def _of_mat_file(path: Path, n_max: int) -> Iterator[Record[Plan]]:
    for number, values in enumerate(mat_records(path), start=1):
        where = f"record {number}"
        try:
            plan = plan_of_record(values, n_max=n_max)
        except DiagramError as error:
            yield wrong_record(path, where, error)
        else:
            codes = RoomCodes(plan.diagram.rooms, table=OUR_TABLE)
            yield Record(path, where, codes, partial(_already_read, plan))


def _already_read(plan: Plan, codes: str | None) -> Plan:
    return plan

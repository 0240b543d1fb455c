"""Records of files and folders of plans, in the format of each file and object."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.runtime import suffix_of
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files import code_tables, fields, foreign_files, graph_formats
from floor_plans.diagrams.files.code_tables import CODES_FIELD, OUR_TABLE, RoomCodes, room_types
from floor_plans.diagrams.files.fields import NO_NAMES, DiagramError, OwnNames, check_size
from floor_plans.diagrams.files.graph2plan import is_mat_file, mat_records, plan_of_record
from floor_plans.diagrams.files.records import Note, Parsed, Plan, Record, wrong_record
from floor_plans.diagrams.geometry import metres_per, relations_from_boxes, relations_in_metres
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.drawings import polygon_files
from floor_plans.drawings.dxf_reading import read_dxf
from floor_plans.drawings.houseganpp import FRAME, read_frame, read_outlines, read_rlvr

_FIELDS = ("rooms", "relations", "boxes", "room_type")
"""Fields of plans of any format, to find misspelt keys."""

WALLS = "walls"  # name of left-out walls of a House-GAN++ plan: those that enclose no polygon


def room_codes(data: object) -> RoomCodes:
    """Codes of the rooms of a JSON object."""
    if not isinstance(data, Mapping) or _identifying_field(data) in _DRAWING_READERS:
        return RoomCodes()
    own, _ = _FORMATS[_identifying_field(data)]
    key = "rooms" if "rooms" in data and own is None else "room_type"
    return code_tables.codes_of(data.get(key), data.get(CODES_FIELD, own))


def parse_plan(
    data: object,
    *,
    max_nodes: int,
    threshold: float,
    unit: str = "pixels",
    codes: str | None = None,
) -> Plan:
    """Read the diagram of a JSON object.

    * ``rooms``, ``relations``: the interchange format;
    * ``room_type``, ``boxes``, ``rel``: a rendered plan with coarse room codes, relations as given;
    * ``room_type``, ``boxes``, ``ed_rm``: a House-GAN++ plan;
    * ``features``: GeoJSON, see ``read_geojson``; ``spaces``: RLVR, see ``read_rlvr``;
    * ``graph``: a plan of CubiGraph5K, see ``parse_cubigraph``;
    * ``rooms`` or ``room_type``, ``boxes``: relations by ``relations_from_boxes(.., threshold)``.

    ``threshold``: largest gap of related boxes in their ``unit``, converted for formats in metres.
    ``codes``: table of room codes, if neither object nor format states one; None: ``ROOM_TYPES``.

    Other keys become metadata. Raises ``DiagramError`` naming the field that is wrong or misspelt,
    more than ``max_nodes`` rooms, or metadata that could not be written again.
    """
    if not isinstance(data, Mapping):
        raise DiagramError("", f"expected a JSON object, got {reprlib.repr(data)}")
    # reject foreign objects and misspelt keys
    foreign_files.check_keys(data)
    if foreign := foreign_files.foreign_object(data):
        raise DiagramError(*foreign)
    foreign_files.check_spelling(data, _FIELDS)
    field = _identifying_field(data)
    # drawings in metres
    if field in _DRAWING_READERS:
        drawing = _DRAWING_READERS[field](data)
        plan = drawing.plan(max_nodes=max_nodes, gap=threshold * metres_per(unit))
        foreign_files.check_metadata(plan.diagram.metadata)
        return plan
    # other formats, with the table of their room codes
    own, parse = _FORMATS[field]
    if own is not None and (named := code_tables.own_table(data)) not in (None, own):
        reason = f"{named}, but a plan with {field!r} has room codes of {own}"
        raise DiagramError(CODES_FIELD, reason)
    plan = parse(data, own or codes or OUR_TABLE, max_nodes, threshold)
    polygon_files.check_listed(data, plan.diagram.num_rooms)
    if not plan.duplicate:
        foreign_files.check_metadata(plan.diagram.metadata)
    return plan


def _identifying_field(data: Mapping[str, Any]) -> str:
    """Field that identifies the format of an object."""
    known = _FORMATS if "rooms" in data else (*_FORMATS, *_DRAWING_READERS)
    return next((field for field in known if field in data), "relations")


def _parse_interchange(
    data: Mapping[str, Any], codes: str, max_nodes: int, threshold: float
) -> Plan:
    """Read a plan of rooms and relations."""
    if isinstance(data.get("rooms"), list) and "relations" in data:
        check_size(len(data["rooms"]), max_nodes, "rooms")
    return Plan(BubbleDiagram.from_json(data, codes=codes))  # its error names a missing field


def _parse_rendered(data: Mapping[str, Any], codes: str, max_nodes: int, threshold: float) -> Plan:
    """Read a rendered plan, with relations as given."""
    given = fields.required_list(data, "room_type")
    check_size(len(given), max_nodes, "room_type")
    duplicate = data.get("duplicate", False)
    if not isinstance(duplicate, bool):
        raise DiagramError("duplicate", f"expected true or false, got {reprlib.repr(duplicate)}")
    places = [f"room_type[{k}]" for k in range(len(given))]

    def areas() -> list[float]:
        listed = data.get("area_px")
        if not isinstance(listed, list) or len(listed) != len(given):
            reason = f"expected {len(given)} areas, got {reprlib.repr(listed)}"
            raise DiagramError("area_px", reason)
        return [fields.finite_number(area, f"area_px[{k}]") for k, area in enumerate(listed)]

    # room types; areas show which bedroom is the master room
    types = room_types(given, code_tables.CODE_TABLES[codes], places, areas)
    used = ("room_type", "boxes", "rel", "duplicate", CODES_FIELD)
    metadata = {key: value for key, value in data.items() if key not in used}
    # a front door alone is a door as well
    if "front_door" in metadata and "doors" not in metadata:
        box = fields.checked_box(metadata.pop("front_door"), "front_door")
        metadata["doors"] = [{"type": "front-door", "box": list(box)}]
    rooms = tuple(map(fields.room_code, types, places))
    relations = fields.read_relations(data["rel"], len(given), "rel")
    boxes = tuple(fields.required_list(data, "boxes"))
    return Plan(BubbleDiagram(rooms, relations, boxes, metadata), duplicate=duplicate)


def _parse_boxes(data: Mapping[str, Any], codes: str, max_nodes: int, threshold: float) -> Plan:
    """Read boxes (x0, y0, x1, y1), y downwards, and measure relations. Doors, and floors enclosed
    by walls of a House-GAN++ plan, become metadata."""
    walls = ("edges", "ed_rm", FRAME) if "ed_rm" in data else ()
    key = "rooms" if "rooms" in data and not walls else "room_type"
    # nodes: rooms and, in some tables, doors
    table = code_tables.CODE_TABLES[code_tables.own_table(data) or codes]
    given = fields.required_list(data, key)
    if not table.doors:
        check_size(len(given), max_nodes, key)
    boxes = fields.required_list(data, "boxes")
    if len(boxes) != len(given):
        what = "rooms and doors" if table.doors else "rooms"
        raise DiagramError("boxes", f"{len(boxes)} boxes for {len(given)} {what}")
    used = (key, "boxes", CODES_FIELD, *walls)
    metadata = {key: value for key, value in data.items() if key not in used}
    if table.doors and "doors" in metadata:
        raise DiagramError("doors", f"a plan of {table.name} lists its doors among its rooms")
    places = [f"{key}[{k}]" for k in range(len(given))]
    types = room_types(given, table, places, partial(code_tables.areas_of, boxes), doors=True)
    checked = [fields.checked_box(box, f"boxes[{k}]") for k, box in enumerate(boxes)]
    is_door = [room in table.doors.values() for room in types]
    # floors enclosed by walls, if there are any
    outlines = read_outlines(data, read_frame(data, checked), is_door) if walls else None
    if outlines is not None:
        checked = [*outlines.boxes]
        types = room_types(given, table, places, outlines.areas, doors=True)
    # rooms, then doors as metadata
    nodes = [k for k, door in enumerate(is_door) if not door]
    rooms = [fields.room_code(types[k], places[k]) for k in nodes]
    if not rooms:
        besides = " besides doors" if table.doors else ""
        raise DiagramError(key, f"a diagram needs at least one room{besides}")
    check_size(len(rooms), max_nodes, key)
    if len(nodes) < len(types):
        behind = data["ed_rm"] if walls else []
        metadata["doors"] = [
            {"type": types[k], "box": list(checked[k]), **_rooms_of_door(k, nodes, behind)}
            for k in np.flatnonzero(is_door).tolist()
        ]
    # floors as metadata, then relations
    notes: tuple[Note, ...] = ()
    if outlines is not None:
        floors, notes = outlines.floors(dict(zip(nodes, rooms, strict=True)))
        metadata |= {} if floors is None else {"floors": floors}
    bare = BubbleDiagram(tuple(rooms), (), tuple(checked[k] for k in nodes), metadata)
    if walls:  # pixels made from metres
        factor = metres_per("pixels")
        found = relations_in_metres(np.array(bare.boxes) * factor, threshold * factor)
    else:
        found = relations_from_boxes(np.array(bare.boxes), threshold)
    pairs = np.argwhere(found != NO_EDGE).tolist()
    related = replace(bare, relations=tuple((i, j, int(found[i, j])) for i, j in pairs))
    num_open = 0 if outlines is None else outlines.num_open
    return Plan(related, (WALLS,) * num_open, measured=True, notes=notes)


def _rooms_of_door(node: int, rooms: Sequence[int], walls: object) -> dict[str, Any]:
    """Return {"rooms": ...} with both rooms of a House-GAN++ door, or one and "outside"; {} if its
    walls name none or more than two. ``rooms``: nodes that are rooms."""
    numbers = {k: number for number, k in enumerate(rooms)}
    found: list[Any] = []
    # nodes that share a wall with the door
    for behind in walls if isinstance(walls, list) else []:
        if isinstance(behind, list) and node in behind:
            found += [numbers[k] for k in behind if type(k) is int and k in numbers]
    found = list(dict.fromkeys(found))
    if len(found) == 1:
        found.append("outside")
    return {"rooms": found} if len(found) == 2 else {}


_Parser = Callable[[Mapping[str, Any], str, int, float], Plan]

_FORMATS: dict[str, tuple[str | None, _Parser]] = {
    "relations": (None, _parse_interchange),
    "rel": ("coarse", _parse_rendered),
    "ed_rm": ("houseganpp", _parse_boxes),
    "boxes": (None, _parse_boxes),
    graph_formats.GRAPH: (None, graph_formats.parse_cubigraph),
}
"""Fields that identify a format by the first field that a plan has, with the table of its room
codes, if the format fixes the table, and the parser."""

_DRAWING_READERS = {"features": polygon_files.read_geojson, "spaces": read_rlvr}
"""Fields that identify a drawing in metres, each with its reader."""

FOLDER_SUFFIXES = (".json", ".jsonl", ".graphml", ".geojson", ".dxf")
"""Files of a folder that are read, also if gzipped."""

_Parse = Callable[[Any, str | None], Plan]


def plan_records(
    path: Path, max_nodes: int, threshold: float, unit: str, names: OwnNames = NO_NAMES
) -> list[Record[Plan]]:
    """Records of a file or folder of plans; a file without a plan gives one with its error.
    ``threshold``: largest gap between related boxes, in their ``unit``. Raises ``ValueError`` for a
    folder without a readable file."""
    if path.is_dir():
        files = _readable_files(path)
        if not files:
            kinds = ", ".join(FOLDER_SUFFIXES)
            raise ValueError(f"{path} is a folder without a {kinds} file; give the path of a file")
        of_files = (plan_records(file, max_nodes, threshold, unit, names) for file in files)
        return [record for records in of_files for record in records]
    try:
        return list(_file_records(path, max_nodes, threshold, unit, names))
    except DiagramError as error:
        return [wrong_record(path, "", error)]


def count_other_files(folder: Path) -> int:
    """Count the files, links and folders that are not read, except hidden entries."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return len(set(entries) - set(_readable_files(folder)))


def _readable_files(folder: Path) -> list[Path]:
    """Files of a folder that are read, by name."""
    files = [file for file in folder.iterdir() if file.is_file()]
    return sorted(file for file in files if suffix_of(file) in FOLDER_SUFFIXES)


def _file_records(
    path: Path, max_nodes: int, threshold: float, unit: str, names: OwnNames
) -> Iterator[Record[Plan]]:
    """Records of a file. Raises ``DiagramError`` for a file without plans."""
    suffix, gap = suffix_of(path), threshold * metres_per(unit)

    def parse(data: Any, codes: str | None) -> Plan:
        data = names.translate(data)
        return parse_plan(data, max_nodes=max_nodes, threshold=threshold, unit=unit, codes=codes)

    # the content decides first, then the suffix
    if (records := polygon_files.data_set_records(path, max_nodes, gap)) is not None:
        yield from records
    elif is_mat_file(path):
        for number, values in enumerate(mat_records(path), start=1):
            try:
                plan = plan_of_record(values, max_nodes=max_nodes)
            except DiagramError as error:
                yield wrong_record(path, f"record {number}", error)
                continue
            codes = RoomCodes(plan.diagram.rooms, table=OUR_TABLE)
            yield Record(path, f"record {number}", codes, partial(lambda plan, _: plan, plan))
    elif foreign := foreign_files.foreign_format(path):
        raise DiagramError("", foreign)
    elif suffix == ".graphml":
        yield _graphml_record(path, max_nodes, names)
    elif suffix == ".dxf":

        def parse_drawing(codes: str | None) -> Plan:
            with foreign_files.open_plans(path) as file:
                drawing = read_dxf(file.read(), unit=unit, names=names)
            return drawing.plan(max_nodes=max_nodes, gap=gap)

        yield Record(path, "", RoomCodes(), parse_drawing)
    elif foreign_files.holds_document(path, suffix):
        yield from _document_records(path, parse)
    else:
        numbered = foreign_files.numbered_lines(path)
        lines = [record for each in numbered for record in _line_records(path, *each, parse)]
        if not lines:
            raise DiagramError("", "the file is empty; expected one JSON object per line")
        if len(lines) > 1 and not foreign_files.holds_object(path):
            what = f"none of its {len(lines):,} lines is a JSON object"
            raise DiagramError("", f"{what}; {foreign_files.WHAT_IS_READ}")
        yield from lines


def record_of_line(
    path: Path,
    where: str,
    line: bytes,
    room_codes_of: Callable[[Any], RoomCodes],
    parse: Callable[[Any, str | None], Parsed],
) -> Record[Parsed]:
    """Record of a JSON object: the codes of its rooms, and a parser that takes a table of codes."""

    def parse_line(codes: str | None) -> Parsed:
        # the line is kept, as its object is much larger
        return parse(foreign_files.load_plan_json(line), codes)

    try:
        codes = room_codes_of(foreign_files.load_plan_json(line))
    except DiagramError as error:
        return wrong_record(path, where, error)
    return Record(path, where, codes, parse_line)


def _line_records(path: Path, number: int, line: bytes, parse: _Parse) -> Iterator[Record[Plan]]:
    """Record of a line, or several for a drawing of several plans."""
    where = f"line {number}"
    # only drawings hold several plans
    if any(key in line for key in (b'"features"', b'"spaces"')):
        try:
            data = foreign_files.load_plan_json(line)
            is_one = len(polygon_files.storeys_of_drawing(data)) == 1
        except DiagramError as error:
            yield wrong_record(path, where, error)
            return
        if not is_one:
            yield from _object_records(path, where, data, parse)
            return
    yield record_of_line(path, where, line, room_codes, parse)


def _object_records(path: Path, where: str, data: Any, parse: _Parse) -> Iterator[Record[Plan]]:
    """Record of a JSON object, or several for a drawing of several plans."""

    def parse_part(part: polygon_files.Part, codes: str | None) -> Plan:
        return part.labelled(parse(part.data, codes))

    try:
        parts = polygon_files.storeys_of_drawing(data)
    except DiagramError as error:
        yield wrong_record(path, where, error)
        return
    for part in parts:
        place = " of ".join(name for name in (part.name, where) if name)
        yield Record(path, place, room_codes(part.data), partial(parse_part, part))


def _document_records(path: Path, parse: _Parse) -> Iterator[Record[Plan]]:
    """Records of an object, of a list of objects, or of an object that holds them by id."""
    data = foreign_files.read_document(path)
    if (by_id := graph_formats.plans_by_id(data)) is not None:
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


def _graphml_record(path: Path, max_nodes: int, names: OwnNames) -> Record[Plan]:
    """Record of a GraphML file."""
    try:
        with foreign_files.open_plans(path) as file:
            graph = graph_formats.graph_of(file.read().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DiagramError("", f"not UTF-8 text: {error}") from error

    # the user's own names of rooms
    for _, about in graph.nodes(data=True):
        if "room" in about:
            about["room"] = names.room_type(about["room"])

    def parse(codes: str | None) -> Plan:
        plan = graph_formats.read_graphml(graph, codes=codes or OUR_TABLE)
        check_size(plan.diagram.num_rooms, max_nodes, "rooms")
        return plan

    rooms = [room for _, room in graph.nodes(data="room")]
    return Record(path, "", code_tables.codes_of(rooms), parse)

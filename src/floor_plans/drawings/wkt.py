"""WKT: a plan as comma-separated values with a column of well-known text, in metres, y upwards.

There is a row for each room and door, and for the outline. Relations are not written. They are
measured again on the boxes of the rooms.
"""

from __future__ import annotations

import csv
import io
import math
import reprlib
from typing import TYPE_CHECKING

import numpy as np

from floor_plans.diagrams.files.fields import (
    NO_NAMES,
    DiagramError,
    OwnNames,
    checked_box,
    room_code,
)
from floor_plans.drawings.drawn_parts import DrawnDoor, DrawnRoom
from floor_plans.drawings.drawn_plan import (
    Drawing,
    check_boundary,
    check_installed,
    drawn_floor,
    flip_y,
    largest_boundary,
    rooms_of_labels,
)
from floor_plans.drawings.levels import check_one_part
from floor_plans.plans.floor_plan import FRONT_DOOR, Box, FloorPlan, rooms_from_json, rooms_to_json

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

COLUMNS = ("kind", "id", "type", "area", "wkt", "box")


def wkt_of(plan: FloorPlan) -> str:
    """Write a plan as a table.

    Rows are of kind "room" (``type``: its room type; ``box``: "x0 y0 x1 y1", of which smaller rooms
    leave the floor), "door" (``type``: the numbers of its rooms, as "0 3" or "2 outside") and
    "boundary", or "outline" for a plan without a boundary.
    """
    from shapely import LineString

    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    # the outline, rooms and doors
    outline = "outline" if plan.boundary is None else "boundary"
    table.writerow([outline, "", "", f"{plan.outline.area:.2f}", _text(plan.outline)])
    for k, (name, area) in enumerate(zip(plan.diagram.room_names, plan.areas, strict=True)):
        box = " ".join(repr(float(side)) for side in flip_y(plan.boxes[k]).bounds)
        table.writerow(["room", k, name, f"{area:.2f}", _text(drawn_floor(plan, k)), box])
    for k, door in enumerate(plan.doors):
        rooms = " ".join(map(str, rooms_to_json(door.rooms)))
        table.writerow(["door", k, rooms, "", _text(LineString([door.start, door.end]))])
    return file.getvalue()


def _text(shape: BaseGeometry) -> str:
    """Well-known text of a shape, with y upwards."""
    import shapely

    return shapely.to_wkt(flip_y(shape), rounding_precision=-1)  # all digits


def read_wkt(content: bytes, names: OwnNames = NO_NAMES) -> Drawing:
    """Read what ``wkt_of`` writes. ``names``: the user's own names of rooms. Raises
    ``DiagramError`` naming row and column."""
    check_installed()
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig")), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DiagramError("", f"not comma-separated text in UTF-8: {error}") from error
    if not rows or any(column not in rows[0] for column in ("kind", "type", "wkt")):
        raise DiagramError("", f"expected a table with the columns {', '.join(COLUMNS)}")
    labels, floors, boxes, places = [], [], [], []
    doors: list[DrawnDoor] = []
    boundaries: list[BaseGeometry] = []
    # sort the rows by kind
    for number, row in enumerate(rows, start=2):
        where = f"line {number}"
        if None in row:  # the csv module puts cells beyond the last column there
            raise DiagramError(where, f"has more cells than the {len(row) - 1} columns of line 1")
        if row["kind"] == "room":
            labels.append(names.room_type(row["type"]))
            room_code(labels[-1], where)
            floors.append(_shape(row["wkt"], where, "Polygon", "MultiPolygon"))
            boxes.append(_box(row.get("box") or "", where))
            places.append(where)
        elif row["kind"] == "door":
            ends = _rooms(row["type"] or "")
            line = _shape(row["wkt"], where, "LineString")
            doors.append(DrawnDoor(line, ends[1] == FRONT_DOOR, ends))
        elif row["kind"] == "boundary":
            boundaries.append(check_boundary(_shape(row["wkt"], where, "Polygon"), where))
        elif row["kind"] != "outline":
            reason = f"kind {reprlib.repr(row['kind'])}: expected room, door, boundary or outline"
            raise DiagramError(where, reason)
    if not labels:
        raise DiagramError("kind", "no row is a room")
    check_one_part([row for row in rows if row["kind"] == "room"])
    # the drawing of these parts
    types = rooms_of_labels(labels, floors, places)
    rooms = tuple(
        DrawnRoom(room, floor, k, box=box)
        for k, (room, floor, box) in enumerate(zip(types, floors, boxes, strict=True))
    )
    boundary, left_out = largest_boundary(boundaries)
    return Drawing(rooms, tuple(doors), boundary, left_out=left_out)


def _rooms(text: str) -> tuple[int, int]:
    """Numbers of the rooms of a door."""
    return rooms_from_json([int(w) if w.isdecimal() else w for w in text.split()], math.inf)


def _box(text: str, where: str) -> Box | None:
    """Box of four numbers, y downwards; None for an empty text."""
    if not text:
        return None
    try:
        x0, y0, x1, y1 = map(float, text.split())
    except ValueError as error:
        reason = f'box {reprlib.repr(text)}: expected "x0 y0 x1 y1", or nothing'
        raise DiagramError(where, reason) from error
    # from y upwards to y downwards
    return checked_box((x0, 0.0 - y1, x1, 0.0 - y0), where)


def _shape(text: str | None, where: str, *types: str) -> BaseGeometry:
    """Geometry of a text, y downwards. Raises ``DiagramError`` unless it is valid and of one of the
    ``types``."""
    import shapely

    try:
        with np.errstate(all="ignore"):  # numbers beyond float64 are refused below
            found = shapely.from_wkt(text)
    except shapely.GEOSException:
        found = None
    if found is None or found.geom_type not in types or found.is_empty or not found.is_valid:
        raise DiagramError(
            where,
            f"expected a {types[0]} in metres that does not cross itself, got {reprlib.repr(text)}",
        )
    return flip_y(found)

"""One JSON object of a plans file -> ``BubbleDiagram``; the format is told by its fields."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.code_tables import (
    CODE_TABLES,
    CODES_FIELD,
    OUR_TABLE,
    RoomCodes,
    areas_of,
    codes_of,
    own_table,
    room_types,
)
from discrete_diffusion.domains.bubble_diagrams.files.fields import (
    DiagramError,
    check_keys,
    check_metadata,
    check_size,
    checked_box,
    finite_number,
    read_relations,
    required_list,
    room_code,
)
from discrete_diffusion.domains.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.rooms import NO_EDGE

WALLS = "walls"
"""What a House-GAN++ plan holds that its diagram does not."""


_OWN_TABLES = {"rel": "coarse", "ed_rm": "houseganpp"}
"""Field that tells a format -> the table of its codes."""


class LinePlan(NamedTuple):
    """A diagram, None for a rendered plan flagged as a duplicate; the names of what was left out
    of it, once for each time; whether its relations were ``measured`` on its boxes."""

    diagram: BubbleDiagram | None
    left_out: tuple[str, ...] = ()
    measured: bool = False


def room_codes(data: object) -> RoomCodes:
    """How a JSON object writes its rooms."""
    if not isinstance(data, Mapping):
        return RoomCodes()
    own = _OWN_TABLES.get(_format(data))
    key = "rooms" if "rooms" in data and own is None else "room_type"
    return codes_of(data.get(key), data.get(CODES_FIELD, own))


def parse_plan(data: object, *, n_max: int, threshold: float, codes: str | None = None) -> LinePlan:
    """The diagram of one JSON object.

    * ``rooms``, ``relations``: the interchange format;
    * ``room_type``, ``boxes``, ``rel``: a rendered plan with coarse room codes, relations as given;
    * ``room_type``, ``boxes``, ``ed_rm``: a House-GAN++ plan;
    * ``rooms`` or ``room_type``, ``boxes``: relations by ``relations_from_boxes(.., threshold)``.

    ``codes``: the table of its room codes where neither it nor its format says it; None is that of
    ``ROOM_TYPES``.

    Raises ``DiagramError`` naming the field that is wrong, more than ``n_max`` rooms, or metadata
    that could not be written again.
    """
    if not isinstance(data, Mapping):
        raise DiagramError("", f"expected a JSON object, got {reprlib.repr(data)}")
    check_keys(data)
    plan = _parse(data, n_max, threshold, codes)
    if plan.diagram is not None:
        check_metadata(plan.diagram.metadata)
    return plan


def _format(data: Mapping[str, Any]) -> str:
    """The field that tells the format of an object."""
    fields = ("relations", "rel", "ed_rm", "boxes")
    return next((field for field in fields if field in data), "relations")


def _parse(data: Mapping[str, Any], n_max: int, threshold: float, codes: str | None) -> LinePlan:
    kind = _format(data)
    if kind == "relations":  # from_json names the field that is missing
        if isinstance(data.get("rooms"), list) and "relations" in data:
            check_size(len(data["rooms"]), n_max, "rooms")
        return LinePlan(BubbleDiagram.from_json(data, codes=codes or OUR_TABLE))
    own, named = _OWN_TABLES.get(kind), own_table(data)
    if own is not None and named not in (None, own):
        reason = f"{named}, but a plan with {kind!r} has room codes of {own}"
        raise DiagramError(CODES_FIELD, reason)
    if kind == "rel":
        return LinePlan(_parse_rendered(data, n_max))
    left_out = _walls(data) if kind == "ed_rm" else ()
    diagram = _parse_boxes(data, n_max, threshold, own or named or codes or OUR_TABLE)
    return LinePlan(diagram, left_out, measured=True)


def _parse_boxes(
    data: Mapping[str, Any], n_max: int, threshold: float, codes: str
) -> BubbleDiagram:
    """Relations are measured on the boxes, (x0, y0, x1, y1), y downwards.

    Doors are no rooms: they are kept in the metadata, as ``doors``. The walls of a House-GAN++
    plan (``edges`` and the rooms beside them, ``ed_rm``) are not part of a diagram.
    """
    walls = ("edges", "ed_rm") if "ed_rm" in data else ()
    key = "rooms" if "rooms" in data and not walls else "room_type"
    table = CODE_TABLES[codes]
    given = required_list(data, key)
    if not table.doors:
        check_size(len(given), n_max, key)
    boxes = required_list(data, "boxes")
    if len(boxes) != len(given):
        what = "rooms and doors" if table.doors else "rooms"
        raise DiagramError("boxes", f"{len(boxes)} boxes for {len(given)} {what}")
    metadata = _rest(data, key, "boxes", CODES_FIELD, *walls)
    if table.doors and "doors" in metadata:
        raise DiagramError("doors", f"a plan of {codes} lists its doors among its rooms")
    places = [f"{key}[{k}]" for k in range(len(given))]
    types = room_types(given, table, places, partial(areas_of, boxes), doors=True)
    rooms, room_boxes, doors = [], [], []
    for k, (room, box) in enumerate(zip(types, boxes, strict=True)):
        sides = checked_box(box, f"boxes[{k}]")
        if room in table.doors.values():
            doors.append({"type": room, "box": list(sides)})
        else:
            rooms.append(room_code(room, places[k]))
            room_boxes.append(sides)
    if not rooms:
        no_door = " that is no door" if table.doors else ""
        raise DiagramError(key, f"a diagram needs at least one room{no_door}")
    check_size(len(rooms), n_max, key)
    if doors:
        metadata["doors"] = doors
    return _related_by_boxes(rooms, room_boxes, threshold, metadata)


def _related_by_boxes(
    rooms: Sequence[int],
    boxes: Sequence[tuple[float, float, float, float]],
    threshold: float,
    metadata: Mapping[str, Any],
) -> BubbleDiagram:
    bare = BubbleDiagram(rooms=tuple(rooms), relations=(), boxes=tuple(boxes), metadata=metadata)
    relations = relations_from_boxes(np.array(bare.boxes), threshold)
    related = np.argwhere(relations != NO_EDGE).tolist()
    return replace(bare, relations=tuple((i, j, int(relations[i, j])) for i, j in related))


def _walls(data: Mapping[str, Any]) -> tuple[str, ...]:
    walls = data.get("edges", data["ed_rm"])
    return (WALLS,) * (len(walls) if isinstance(walls, list) else 1)


def _parse_rendered(data: Mapping[str, Any], n_max: int) -> BubbleDiagram | None:
    coarse = required_list(data, "room_type")
    check_size(len(coarse), n_max, "room_type")
    duplicate = data.get("duplicate", False)
    if not isinstance(duplicate, bool):
        raise DiagramError("duplicate", f"expected true or false, got {reprlib.repr(duplicate)}")
    diagram = BubbleDiagram(
        rooms=_rooms_of_coarse(coarse, data.get("area_px")),
        relations=read_relations(data["rel"], len(coarse), "rel"),
        boxes=tuple(required_list(data, "boxes")),
        metadata=_rest(data, "room_type", "boxes", "rel", "duplicate", CODES_FIELD),
    )
    return None if duplicate else diagram


def _rooms_of_coarse(coarse: list[Any], areas: object) -> tuple[int, ...]:
    """Room codes of coarse codes; ``areas`` tells which of the bedrooms is the largest."""

    def checked_areas() -> list[float]:
        if not isinstance(areas, list) or len(areas) != len(coarse):
            expected = f"expected {len(coarse)} areas"
            raise DiagramError("area_px", f"{expected}, got {reprlib.repr(areas)}")
        return [finite_number(area, f"area_px[{k}]") for k, area in enumerate(areas)]

    places = [f"room_type[{k}]" for k in range(len(coarse))]
    types = room_types(coarse, CODE_TABLES["coarse"], places, checked_areas)
    return tuple(room_code(room, place) for room, place in zip(types, places, strict=True))


def _rest(data: Mapping[str, Any], *used: str) -> dict[str, Any]:
    """What is left for the metadata."""
    return {key: value for key, value in data.items() if key not in used}

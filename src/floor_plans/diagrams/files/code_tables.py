"""Tables of room codes: data sets number their rooms differently.

Code 4 is a dining room in RPLAN, a bathroom in House-GAN, a balcony in rendered plans. The table is
the one that the record, its format or the user names, in this order; see ``recognise_codes`` for
files without a named table.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from discrete_diffusion.config import unknown_name
from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.files import fields
from floor_plans.diagrams.files.fields import ROOM_WORDS, DiagramError
from floor_plans.diagrams.vocabulary import DIRECTIONS

CODES_FIELD = "codes"  # field of a record that names the table of its codes
OUR_TABLE = "rplan"  # the table of ``ROOM_TYPES``

Areas = Callable[[], Sequence[float]]

BEDROOM = "bedroom"
"""Name of a bedroom in tables with one code for all bedrooms; the largest is the MasterRoom."""


@dataclass(frozen=True)
class CodeTable:
    """Meaning of the integer codes of a data set.

    ``rooms``: room type, or ``BEDROOM``, of each code. ``doors``: names of doors by code.
    ``own_names``: the data set's names of codes, where they differ from the nearest room type.
    ``untyped``: names of codes that no room type fits.
    """

    name: str
    rooms: Mapping[int, str]
    doors: Mapping[int, str] = field(default_factory=dict)
    own_names: Mapping[int, str] = field(default_factory=dict)
    untyped: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def known(self) -> dict[int, str]:
        """Room type, ``BEDROOM`` or door of each code."""
        return {**self.rooms, **self.doors}

    def room(self, room: object, where: str) -> str:
        """Room type, ``BEDROOM`` or door of a code, or of a room given by name. Raises
        ``DiagramError`` for an unknown code or name."""
        if fields.is_numbered_bedroom(room):
            return BEDROOM
        if isinstance(room, str):
            return ROOM_TYPES[fields.room_code(room, where, DIRECTIONS)]
        if isinstance(room, int) and not isinstance(room, bool):
            if found := self.known.get(room):
                return found
            if room in self.untyped:
                raise DiagramError(where, f"code {room}, {self.untyped[room]}, has no room type")
        codes = sorted(self.known)
        listed = f"0..{codes[-1]}" if codes == [*range(len(codes))] else ", ".join(map(str, codes))
        expected = f"expected a room type or {self.name} room code {listed}"
        raise DiagramError(where, f"{expected}, got {reprlib.repr(room)}")

    def meaning(self, code: int) -> str | None:
        """Meaning such as ``Storage (closet)``; None if the table lacks the code."""
        own = f" ({self.own_names[code]})" if code in self.own_names else ""
        return self.known[code] + own if code in self.known else None


CODE_TABLES = {OUR_TABLE: CodeTable(OUR_TABLE, dict(enumerate(ROOM_TYPES)))} | {
    name: CodeTable(name, **facts) for name, facts in ROOM_WORDS["code_tables"].items()
}
"""``rplan``: RPLAN and Graph2Plan; ``housegan``: House-GAN (arXiv 2003.06988); ``houseganpp``:
House-GAN++ (arXiv 2103.02574) and HouseDiffusion; ``coarse``: rendered plans."""


def check_table(name: str | None) -> None:
    """Raise ``ValueError`` for an unknown name of a table; None is allowed."""
    if name is not None and name not in CODE_TABLES:
        raise ValueError(f"room_codes={name}: {unknown_name('code table', str(name), CODE_TABLES)}")


class RoomCodes(NamedTuple):
    """Room codes ``integers`` of a record. ``named``: True if a room is given by name. ``table``:
    of the codes, if the record or its format names one. ``unknown``: True if a room is null."""

    integers: tuple[int, ...] = ()
    named: bool = False
    table: str | None = None
    unknown: bool = False

    @property
    def is_open(self) -> bool:
        """True if nothing in the record determines the table of its codes."""
        return bool(self.integers) and not self.named and self.table is None


def codes_of(rooms: object, table: object = None) -> RoomCodes:
    """Collect the codes of ``rooms`` without checking them."""
    given = rooms if isinstance(rooms, list) else []
    return RoomCodes(
        integers=tuple(room for room in given if type(room) is int),
        named=any(isinstance(room, str) for room in given),
        table=table if isinstance(table, str) else None,
        unknown=None in given,
    )


def own_table(data: Mapping[str, Any]) -> str | None:
    """Table that a record names itself, else None; ``DiagramError`` for an unknown one."""
    if CODES_FIELD not in data:
        return None
    name = data[CODES_FIELD]
    if isinstance(name, str) and name in CODE_TABLES:
        return name
    expected = f"expected the table of the room codes ({', '.join(CODE_TABLES)})"
    remedy = "a key of your own needs another name"
    raise DiagramError(CODES_FIELD, f"{expected}, got {reprlib.repr(name)}; {remedy}")


def translate_codes(data: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    """Translate the ``rooms`` of a record from codes of its own table, or else of ``table``, to
    room types, see ``room_types``. The largest bedroom is found by the ``boxes``."""
    codes = CODE_TABLES[own_table(data) or table]
    data = {key: value for key, value in data.items() if key != CODES_FIELD}
    rooms, boxes = data.get("rooms"), data.get("boxes")
    if codes.name == OUR_TABLE or not isinstance(rooms, list | tuple):
        return data
    # areas tell which bedroom is the largest
    areas = None
    if isinstance(boxes, list | tuple) and len(boxes) == len(rooms):
        areas = partial(areas_of, boxes)
    places = [f"rooms[{k}]" for k in range(len(rooms))]
    return {**data, "rooms": room_types(rooms, codes, places, areas)}


def room_types(
    rooms: Sequence[object],
    table: CodeTable,
    places: Sequence[str],
    areas: Areas | None,
    *,
    doors: bool = False,
) -> list[str | None]:
    """Room types of rooms that are given by codes of ``table`` or by name; null stays unchanged.

    ``places``: name of each room in errors. ``areas``: function that computes the area of each
    room, called if there is a bedroom; None if unknown. ``doors``: return doors as well. Raises
    ``DiagramError`` for unknown codes, and for other doors, as relations number the rooms from 0.
    """
    types = []
    for room, place in zip(rooms, places, strict=True):
        types.append(kind := None if room is None else table.room(room, place))
        if not doors and kind in table.doors.values():
            raise DiagramError(place, f"code {room} is a door ({kind}), not a room; leave it out")
    return with_master_bedroom(types, areas() if areas and BEDROOM in types else None)


def number_bedrooms(rooms: Sequence[object], areas: Areas | None) -> list[object]:
    """Replace "Bedroom 1", "Bedroom 2", ... by room types, as ``with_master_bedroom`` does."""
    numbered = [fields.is_numbered_bedroom(room) for room in rooms]
    if not any(numbered):
        return list(rooms)
    words = [room if isinstance(room, str) else "" for room in rooms]
    named = [
        BEDROOM if is_one else fields.room_type_of(word, ROOM_TYPES)
        for word, is_one in zip(words, numbered, strict=True)
    ]
    types = with_master_bedroom(named, areas() if areas else None)
    return [kind if one else room for room, kind, one in zip(rooms, types, numbered, strict=True)]


def areas_of(boxes: Sequence[object]) -> list[float]:
    """Areas of boxes, width times height; ``DiagramError`` for anything that is not a box."""
    checked = [fields.checked_box(box, f"boxes[{k}]") for k, box in enumerate(boxes)]
    return [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in checked]


def with_master_bedroom(
    rooms: Sequence[str | None], areas: Sequence[float] | None
) -> list[str | None]:
    """Replace each ``BEDROOM`` by a room type: MasterRoom for the first of the largest, else
    SecondRoom. Without areas only a single one is the MasterRoom, and none in a plan that has one.
    """
    bedrooms = [k for k, room in enumerate(rooms) if room == BEDROOM]
    largest = bedrooms[0] if len(bedrooms) == 1 else None
    if "MasterRoom" in rooms:
        largest = None
    elif areas is not None and bedrooms:
        largest = max(bedrooms, key=lambda room: areas[room])
    return [
        room if room != BEDROOM else "MasterRoom" if k == largest else "SecondRoom"
        for k, room in enumerate(rooms)
    ]

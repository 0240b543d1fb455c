"""Names of rooms in DXF: texts and attributes on LABELS, and notes that we made of lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import DiagramError, room_code
from floor_plans.diagrams.files.own_names import OwnNames
from floor_plans.diagrams.files.records import Note
from floor_plans.drawings.dxf import APP, LABEL
from floor_plans.drawings.dxf_rings import place_of
from floor_plans.drawings.room_names import type_of_name

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

SEVERAL_NAMES = "room with several names"
"""Note on a room whose texts name more than one type; it has the first."""

_TEXTS = ("TEXT", "MTEXT", "ATTRIB")

_MEASURE = re.compile(
    r"(?:\w{1,8}\s*[:=])?[\s\d.,+-]*(?:m\s?[2²]|m\^2|sqm|qm|sq\.?\s?(?:m|ft)|sf|ft2)?\.?", re.I
)
"""A number or an area: ``20.0 m2``, ``A = 20,0 qm``, ``1.03``."""


def noted_on(entity: Any) -> tuple[str | None, list[int]]:
    """Note that ``dxf_of`` has made of a line: what it stands for, and the numbers of rooms."""
    if not entity.has_xdata(APP):
        return None, []
    tags = entity.get_xdata(APP)
    kind = next((str(value) for code, value in tags if code == 1000), None)
    return kind, [int(value) for code, value in tags if code == 1071]


def names_of_floors(
    entities: Iterable[Any], floors: Mapping[int, BaseGeometry], scale: float, names: OwnNames
) -> tuple[dict[int, str], list[Note]]:
    """Number -> the name of a room: of the text with its number, or of the texts on its floor; and
    notes on rooms that have several."""
    from shapely import Point

    noted: dict[int, str] = {}
    lines: dict[int, list[str]] = {}
    for entity in entities:
        if entity.dxftype() not in _TEXTS:
            continue
        is_long = getattr(entity, "has_embedded_mtext_entity", False)  # an attribute of lines
        text = entity.plain_mtext() if is_long else entity.plain_text()
        kind, numbers = noted_on(entity)
        if kind == LABEL and len(numbers) == 1:
            kinds = [str(value) for code, value in entity.get_xdata(APP) if code == 1000]
            first = (text.strip().splitlines() or [""])[0]
            noted[numbers[0]] = names.room_type(type_of_name(first, kinds[-1]))
            continue
        place = entity.dxf.insert
        if entity.dxftype() != "MTEXT":  # whose frame is that of the drawing
            place = entity.ocs().to_wcs(place)
        at = Point(place.x * scale, place.y * scale)
        inside = [number for number, floor in floors.items() if floor.covers(at)]
        if inside:
            smallest = min(inside, key=lambda number: floors[number].area)
            own = [line.strip() for line in text.splitlines() if line.strip()]
            lines.setdefault(smallest, []).extend(own)
    found, notes = {}, []
    for number, texts in lines.items():
        found[number], further = _name_among(
            [names.room_type(type_of_name(text)) for text in texts]
        )
        if further and number not in noted:
            listed = ", ".join((found[number], *further))
            notes.append(Note(SEVERAL_NAMES, f"{place_of(floors[number])}: {listed}"))
    return found | noted, notes


def _name_among(texts: Sequence[str]) -> tuple[str, list[str]]:
    """The first text that names a room type, and those that name others; without any, the first
    that is more than a number or an area."""
    known: dict[int, str] = {}
    for text in texts:
        with suppress(DiagramError):
            known.setdefault(room_code(text), text)
    if known:
        first, *others = known.values()
        return first, others
    words = [text for text in texts if not _MEASURE.fullmatch(text)]
    return (words or texts or [""])[0], []


def reason_without_name(
    number: int,
    floors: Mapping[int, BaseGeometry],
    texts: Mapping[int, str],
    layers: Mapping[str, Sequence[Any]],
) -> str:
    """Reason that a room has no name, and what to do."""
    reason = "no room type: on LABELS no text or attribute is inside its outline"
    inner = [k for k in texts if floors[k].within(floors[number])]
    if inner:
        return (
            f"{reason} and in no smaller one; the outline of {texts[inner[0]]!r} lies within it: "
            "if both are of one room, as the two faces of its walls, delete one; else give it a "
            "text of its own"
        )
    there = [layer for layer, each in layers.items() if any(e.dxftype() in _TEXTS for e in each)]
    return f"{reason}; the layers with texts are {', '.join(there) or 'none'}"

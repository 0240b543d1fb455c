"""Parts of a drawing: its style, names of rooms from ``room_names.yaml``, rooms and doors."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import yaml

from discrete_diffusion.config import Bounds, Checked, OneOf
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.foreign_files import check_keys
from floor_plans.diagrams.vocabulary import INVERSE
from floor_plans.plans.floor_plan import TOLERANCE, FloorPlan
from floor_plans.plans.libraries import shapely
from floor_plans.rules.finding import HALL, kinds_of

LANGUAGES = ("en", "de")


class RoomName(NamedTuple):
    """Full name of a room, and a short one for a narrow room."""

    whole: str
    short: str


_TABLE = yaml.safe_load(Path(__file__).with_name("room_names.yaml").read_text(encoding="utf-8"))
_WORDS = {language: _TABLE[language].pop("words", {}) for language in LANGUAGES}
_NAMES = {
    language: {kind: RoomName(*names) for kind, names in _TABLE[language].items()}
    for language in LANGUAGES
}
"""Names by language and room type, ``HALL`` included."""


def names_of_rooms(plan: FloorPlan, language: str) -> list[RoomName]:
    """Full and short name of every room in a language; an added room is a hall."""
    return [_NAMES[language][kind] for kind in kinds_of(plan)]


def translated_word(text: str, language: str) -> str:
    """Translate a word of a drawing; it stays in English if the table lacks it."""
    return str(_WORDS[language].get(text, text))


def type_of_name(name: str, kind: str = "") -> str:
    """Room type with a name in any language, or else the name itself. ``kind``: type to prefer if
    it has this name, or if the name is that of a hall."""
    named = [kind for names in _NAMES.values() for kind, own in names.items() if own.whole == name]
    if kind and (kind in named or HALL in named):
        return kind
    return next((each for each in named if each != HALL), name)


LAYERS = ("plain", "aia")  # sets of layer names for DXF


@dataclass(frozen=True)
class DrawingStyle(Checked):
    """Choices of a drawing that are not in the plan: language of room names, names of layers in
    DXF, and metres from the floor to the ceiling in IFC. Raises ``ValueError`` for unknown ones."""

    language: Annotated[str, OneOf(LANGUAGES)] = "en"
    layers: Annotated[str, OneOf(LAYERS)] = "plain"
    storey: Annotated[float, Bounds(least=2.3, most=10)] = 2.5  # heads of doors are lower


@dataclass(frozen=True)
class DrawnRoom:
    """Room of a drawing: its type, its floor in metres, y downwards, and its number in doors and
    the embedded plan. ``among``: possible types, if the format does not distinguish them."""

    room: int
    floor: shapely.Geometry
    number: int
    among: tuple[int, ...] = ()


@dataclass(frozen=True)
class DrawnDoor:
    """Door of a drawing. ``shape``: its opening, a line if the thickness of the wall is unknown.
    ``rooms``: numbers of ``DrawnRoom``, or ``FRONT_DOOR``; None if the file does not state them.
    ``is_front``: a front door whose room is not stated."""

    shape: shapely.Geometry
    rooms: tuple[int, int] | None = None
    is_front: bool = False


EMBEDDED = "discrete_diffusion"  # key of a file for the JSON of the plan that it was written from


def embedded_json(plan: FloorPlan) -> dict[str, Any]:
    """Return the JSON to embed in a file; ``ValueError`` if JSON cannot hold the metadata."""
    data = plan.to_json()
    try:
        json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the plan's metadata cannot be written as JSON ({error})") from error
    return data


def read_embedded(data: object) -> FloorPlan:
    """Read an embedded plan. Raises ``DiagramError`` if it is not a plan with boxes."""
    try:
        if not isinstance(data, Mapping):
            raise DiagramError("", f"expected a JSON object, got {reprlib.repr(data)}")
        check_keys(data)
        return FloorPlan.of(BubbleDiagram.from_json(data))
    except ValueError as error:
        reason = "is not the JSON of a plan with boxes, and without it relations are measured"
        raise DiagramError(EMBEDDED, f"{reason}: repair or delete it ({error})") from error


def unmoved_rooms(rooms: tuple[DrawnRoom, ...], embedded: FloorPlan) -> dict[int, int]:
    """Rooms that have neither moved nor changed size, each with its number in the embedded plan."""
    found: dict[int, int] = {}
    for k, room in enumerate(rooms):
        number = room.number
        if not 0 <= number < len(embedded.boxes) or number in found.values():
            continue
        shapes = embedded.boxes[number], embedded.rooms[number]
        if any(are_close(room.floor.bounds, shape.bounds) for shape in shapes):
            found[k] = number
    return found


def relations_between(
    unmoved: Mapping[int, int], diagram: BubbleDiagram
) -> dict[tuple[int, int], int]:
    """Relations of unmoved rooms, by their present numbers."""
    now = {number: k for k, number in unmoved.items()}
    found = {}
    for i, j, code in diagram.relations:
        if i in now and j in now:
            # rooms may have changed their order
            first, second = sorted((now[i], now[j]))
            found[first, second] = code if first == now[i] else INVERSE[code]
    return found


def are_close(some: tuple[float, ...], others: tuple[float, ...]) -> bool:
    """Return True if each number is within ``TOLERANCE`` of its counterpart."""
    pairs = zip(some, others, strict=False)
    return len(some) == len(others) and all(abs(a - b) <= TOLERANCE for a, b in pairs)


SPECK, _ROUNDING = 1e-4, 1e-6
"""Areas up to this count as zero, square metres; coordinates closer than twice this are equal."""


def wall_pieces(walls: shapely.Geometry) -> list[Any]:
    """Split walls into rectangles along the axes, the largest first, and the slanted rest."""
    # a grid through all corners; nearly equal coordinates are one
    xs, ys = (
        ordered[np.diff(ordered, prepend=-np.inf) > 2 * _ROUNDING]
        for ordered in map(np.unique, shapely.get_coordinates(walls).T)
    )
    left, top = np.meshgrid(xs[:-1], ys[:-1])
    right, bottom = np.meshgrid(xs[1:], ys[1:])
    cells = shapely.box(left, top, right, bottom)
    shapely.prepare(walls)
    inside = shapely.area(shapely.intersection(cells, walls)) > shapely.area(cells) * (1 - 1e-4)
    found = []
    # take the largest rectangle of cells within walls, again and again
    while inside.any():
        first, last, low, high = _largest_rectangle(inside, xs, ys)
        inside[low:high, first:last] = False
        found.append(shapely.box(xs[first], ys[low], xs[last], ys[high]))
    rest = shapely.get_parts(walls.difference(shapely.union_all(found)))
    return found + [part for part in rest if part.area > SPECK]


def _largest_rectangle(
    inside: np.ndarray, xs: np.ndarray, ys: np.ndarray
) -> tuple[int, int, int, int]:
    """Rectangle of cells with the largest area: first and last column, then row."""
    best, area = (0, 0, 0, 0), 0.0
    # widest run of free columns for each range of rows
    for low in range(len(ys) - 1):
        free = np.ones(len(xs) - 1, dtype=bool)
        for high in range(low + 1, len(ys)):
            free &= inside[high - 1]
            if not free.any():
                break
            edges = np.flatnonzero(np.diff(np.concatenate([[0], free.astype(int), [0]])))
            widths = xs[edges[1::2]] - xs[edges[::2]]
            k = int(widths.argmax())
            if (found := widths[k] * (ys[high] - ys[low])) > area + SPECK * _ROUNDING:
                best, area = (int(edges[2 * k]), int(edges[2 * k + 1]), low, high), found
    return best


_LEAST_GAIN = 0.02
"""Share of the area of the boxes that a rotation must save; half a degree for square rooms."""

_LEAST_SIDE = 0.2  # metres of a wall whose direction may be that of the plan
_DIGITS = 6  # decimals, in metres, of a plan that was rotated


def is_same(floor: shapely.Geometry, other: shapely.Geometry) -> bool:
    """Return True if two shapes differ by at most a strip of ``TOLERANCE`` along their sides."""
    return bool(floor.symmetric_difference(other).area <= TOLERANCE * max(floor.length, 1e-9))


def angle_of(floors: Sequence[shapely.Geometry]) -> float:
    """Angle by which a whole plan is rotated, in degrees, above -45 and at most 45: of the
    directions of walls and of the smallest rectangle around all floors, the one with the least area
    of the boxes of all rooms; 0 if that hardly saves any area."""
    # candidates: directions of the smallest rectangle and of long walls
    whole = shapely.union_all(floors)
    around = shapely.minimum_rotated_rectangle(whole)
    sides = [*pairwise(getattr(around, "exterior", around).coords)]
    for ring in shapely.get_rings(shapely.get_parts(floors)):
        sides += [side for side in pairwise(ring.coords) if math.dist(*side) >= _LEAST_SIDE]
    areas = dict.fromkeys({0.0, *starmap(_direction, sides)}, 0.0)
    corners = [shapely.get_coordinates(floor) for floor in floors]
    for angle in areas:
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        for each in corners:
            along, across = each @ (cos, sin), each @ (-sin, cos)
            areas[angle] += float(along.max() - along.min()) * float(across.max() - across.min())
    best = min(areas, key=lambda angle: (round(areas[angle], 6), abs(angle)))
    return best if areas[best] < (1 - _LEAST_GAIN) * areas[0.0] else 0.0


def _direction(start: Sequence[float], end: Sequence[float]) -> float:
    """Direction of a line in degrees, up to quarter turns."""
    angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0])) % 90
    return round(angle if angle <= 45 else angle - 90, _DIGITS)


def unrotate(floors: Sequence[shapely.Geometry], angle: float) -> Callable[[shapely.Geometry], Any]:
    """Return a function that rotates shapes by ``-angle`` degrees; floors begin at (0, 0)."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = ((cos, -sin), (sin, cos))
    corner = (shapely.get_coordinates(floors) @ turn).min(axis=0)

    def moved(corners: Any) -> Any:
        return (corners @ turn - corner).round(_DIGITS) + 0.0  # no -0.0

    return lambda shape: shapely.transform(shape, moved)

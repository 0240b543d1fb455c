"""Plans as polygons in metres: GeoJSON, drawings of several storeys, and published data sets.

RFC 7946 allows degrees only. Here coordinates of GeoJSON are metres, y upwards, as the members
"unit" and "frame" state. The data sets are the table of Modified Swiss Dwellings and ResPlan's
pickle, drawings with clear floors, y upwards. Nothing that a pickle names is run.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from floor_plans.diagrams.files import fields
from floor_plans.diagrams.files.code_tables import RoomCodes
from floor_plans.diagrams.files.fields import DiagramError, plain, room_code
from floor_plans.diagrams.files.foreign_files import BYTE_ORDER_MARK, open_plans
from floor_plans.diagrams.files.records import Note, Plan, Record
from floor_plans.drawings import drawn_plan
from floor_plans.drawings.drawn_parts import EMBEDDED, DrawnDoor, embedded_json
from floor_plans.drawings.drawn_plan import Drawing, flip_y, named_rooms
from floor_plans.plans.floor_plan import FloorPlan, rooms_from_json, rooms_to_json
from floor_plans.plans.libraries import shapely
from floor_plans.rules.finding import ADDED, added_rooms

_LEVELS = ("level", "storey", "story", "etage", "geschoss", "stockwerk")
_OTHERS = ("floor", "flat", "apartment", "dwelling", "unit", "wohnung")
_SUFFIXES = ("id", "name", "number", "no", "nr")
_KEYS = {f"{word}{suffix}" for word in (*_LEVELS, *_OTHERS) for suffix in ("", *_SUFFIXES)}
"""Keys of rooms, in lower-case letters only, for their storey or dwelling."""


class Part(NamedTuple):
    """One storey or dwelling of a drawing, or a whole drawing. ``name``: such as ``level EG``, or
    empty. ``data``: its JSON object. ``values``: keys and values by which its rooms state it."""

    name: str
    data: Any
    values: Mapping[str, object]

    def labelled(self, plan: Plan) -> Plan:
        """Return the plan with ``values`` in its metadata and a note on them."""
        if not self.values:
            return plan
        metadata = {**self.values, **plan.diagram.metadata}
        said = " and ".join(f'"{key}" {value!r}' for key, value in self.values.items())
        note = Note("plan of a part of a drawing", f"its rooms have {said}")
        diagram = replace(plan.diagram, metadata=metadata)
        return plan._replace(diagram=diagram, notes=(note, *plan.notes))


def storeys_of_drawing(data: Any) -> list[Part]:
    """Split GeoJSON or RLVR by the storeys or dwellings of its rooms; any other object is one part.
    A boundary without a storey belongs to all parts. Raises ``DiagramError`` for a room or door
    that states no storey or dwelling while others do."""
    whole = [Part("", data, {})]
    if not isinstance(data, Mapping) or "rooms" in data:
        return whole
    key = next((key for key in ("features", "spaces") if isinstance(data.get(key), list)), None)
    if key is None:
        return whole
    items, is_geojson = data[key], key == "features"
    # rooms, and the keys that state their parts
    facts = [_as_mapping(item) for item in items]
    if is_geojson:
        facts = [_as_mapping(item.get("properties")) for item in facts]
        rooms = [k for k, about in enumerate(facts) if _kind(about) == "room"]
    else:
        rooms = [k for k, each in enumerate(facts) if "door" not in str(each.get("room_type"))]
    keys = level_keys([facts[k] for k in rooms])
    if not keys:
        return whole
    # doors name rooms by their ids, or else by their places among all rooms
    if is_geojson:
        ids = [items[k].get("id") for k in rooms]
        if len({each for each in ids if type(each) is int}) < len(ids):
            number = {k: n for n, k in enumerate(rooms)}
            items = [{**f, "id": number[k]} if k in number else f for k, f in enumerate(items)]
    # items of each part, and items of all parts
    parts: dict[tuple[object, ...], list[int]] = {}
    everywhere = []
    for k, each in enumerate(facts):
        values = tuple(each.get(key) for key in keys)
        if None not in values:
            parts.setdefault(values, []).append(k)
        elif k in rooms or "door" in str(each.get("kind", each.get("room_type"))):
            reason = f'it has no "{keys[values.index(None)]}", as others have; say where it is'
            raise DiagramError(f"{key}[{k}]", reason)
        else:
            everywhere.append(k)
    found = []
    for values, own in parts.items():
        if set(own) & set(rooms):
            stated = dict(zip(keys, values, strict=True))
            name = ", ".join(f"{key} {value}" for key, value in stated.items())
            those = [items[k] for k in sorted((*own, *everywhere))]
            found.append(Part(name, {**data, key: those}, stated))
    return found


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _kind(about: Mapping[str, Any]) -> object:
    """Kind of a feature as stated or, if it has a room type, "room"."""
    return about.get("kind", "room" if "room_type" in about else None)


def level_keys(rooms: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Keys whose values assign rooms to several storeys or dwellings. A key of dwellings, or
    "floor", is skipped if its values all differ, since it then numbers or measures the rooms."""
    found = []
    for key in dict.fromkeys(key for room in rooms for key in room if plain(key) in _KEYS):
        values = [room[key] for room in rooms if room.get(key) is not None]
        if not all(isinstance(value, str | int | float) for value in values):
            continue
        num = len(set(values))
        if num > 1 and (num < len(values) or plain(key).startswith(_LEVELS)):
            found.append(key)
    return tuple(found)


def check_listed(data: Mapping[str, Any], num_rooms: int) -> None:
    """Raise ``DiagramError`` if an object lists different storeys or dwellings of its rooms."""
    lists = {key: values for key, values in data.items() if isinstance(values, list)}
    listed = {key: lists[key] for key in lists if len(lists[key]) == num_rooms}
    rooms = [{key: listed[key][k] for key in listed} for k in range(num_rooms)]
    for key in level_keys(rooms):
        levels = [each for each in dict.fromkeys(listed[key]) if each is not None]
        reason = "and these are several plans; write each as a separate plan"
        raise DiagramError(key, f"rooms of {', '.join(map(reprlib.repr, levels))}, {reason}")


def geojson_of(plan: FloorPlan) -> str:
    """Write a plan as GeoJSON. Features have the ``kind`` "room" (``room_type``, ``area``, and
    ``added`` if it was added to its diagram; the id is its number), "door" (``rooms``) and
    "boundary", or "outline" for a plan without one. The plan's own JSON is under
    ``discrete_diffusion``."""
    outline = "outline" if plan.boundary is None else "boundary"
    added = added_rooms(plan.diagram)
    features = [_feature(plan.outline, {"kind": outline, "area": round(plan.outline.area, 2)})]
    for k, (name, area) in enumerate(zip(plan.diagram.room_names, plan.areas, strict=True)):
        about = {"kind": "room", "room_type": name, "area": round(area, 2)}
        about |= {ADDED: True} if k in added else {}
        features.append({"id": k, **_feature(drawn_plan.drawn_floor(plan, k), about)})
    for door in plan.doors:
        about = {"kind": "door", "rooms": rooms_to_json(door.rooms)}
        features.append(_feature(shapely.LineString([door.start, door.end]), about))
    collection = {
        "type": "FeatureCollection",
        "unit": "metres",
        "frame": "local: x to the right, y upwards; not longitude and latitude",
        "features": features,
        EMBEDDED: embedded_json(plan),
    }
    return json.dumps(collection) + "\n"


def _feature(shape: shapely.Geometry, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Feature of a shape, with y upwards."""
    shape = flip_y(shape)
    if shape.geom_type == "Polygon":
        shape = shapely.geometry.polygon.orient(shape)
    geometry = shapely.geometry.mapping(shape)
    return {"type": "Feature", "properties": dict(properties), "geometry": geometry}


def read_geojson(data: Mapping[str, Any]) -> Drawing:
    """Read what ``geojson_of`` writes, or a similar drawing, in metres or in its "unit": polygons
    with a ``room_type`` are rooms, lines of ``kind`` "door" doors; anything else is left out."""
    drawn_plan.check_installed()
    rooms: list[tuple[object, str, shapely.Geometry]] = []
    ids: list[object] = []
    doors: list[DrawnDoor] = []
    boundaries: list[shapely.Geometry] = []
    num_others = 0
    for k, feature in enumerate(fields.required_list(data, "features")):
        where = f"features[{k}]"
        about = feature.get("properties") if isinstance(feature, Mapping) else None
        if not isinstance(about, Mapping):
            raise DiagramError(where, "expected a Feature with properties")
        kind = _kind(about)
        if kind == "room":
            ids.append(feature.get("id"))
            name, place = about.get("room_type"), f"{where}.properties.room_type"
            room_code(name, place)
            floor = _shape_of_feature(feature, where, "Polygon", "MultiPolygon")
            rooms.append((name, place, floor))
        elif kind == "door":
            stated = about.get("rooms")
            ends = None if stated is None else rooms_from_json(stated, math.inf)
            line = _shape_of_feature(feature, where, "LineString")
            doors.append(DrawnDoor(line, ends))
        elif kind == "boundary":
            shape = _shape_of_feature(feature, where, "Polygon")
            if num := len(shape.interiors):
                holes = "a hole" if num == 1 else f"{num} holes"
                reason = f"a boundary with {holes}: expected its outer ring alone"
                raise DiagramError(f"{where}.geometry", reason)
            boundaries.append(shape)
        elif kind != "outline":
            num_others += 1
    if not rooms:
        raise DiagramError("features", 'no polygon has a property "room_type", as every room does')
    boundary, left_out = drawn_plan.largest_boundary(boundaries)
    left_out += ("features that are neither room nor door",) * num_others
    # doors refer to rooms by their ids, or by their places if not all have different ones
    numbers = [each for each in ids if type(each) is int]
    if len(set(numbers)) < len(ids):
        numbers = [*range(len(ids))]
    drawn = named_rooms(rooms, numbers)
    found = Drawing(drawn, tuple(doors), boundary, data.get(EMBEDDED), left_out)
    return drawn_plan.scale_to_metres(found, data)


def _shape_of_feature(feature: Mapping[str, Any], where: str, *types: str) -> shapely.Geometry:
    """Geometry of a feature, y downwards; ``DiagramError`` unless it is of these ``types``."""
    given, found = feature.get("geometry"), None
    with suppress(shapely.errors.ShapelyError, AttributeError, LookupError, TypeError, ValueError):
        found = shapely.geometry.shape(given)
    return checked_shape(found, given, f"{where}.geometry", types)


def checked_shape(
    found: shapely.Geometry | None, given: object, where: str, types: tuple[str, ...]
) -> shapely.Geometry:
    """Flip a shape that was read from ``given``. Raises ``DiagramError`` if it is invalid."""
    if found is None or found.geom_type not in types or found.is_empty or not found.is_valid:
        expected = f"expected a {types[0]} in metres that does not cross itself"
        raise DiagramError(where, f"{expected}, got {reprlib.repr(given)}")
    return flip_y(found)


_LONGEST = 2**31 - 1  # characters of a polygon as text, the most that every platform takes

_MSD_COLUMNS = {"apartment_id", "floor_id", "entity_type", "roomtype", "geom"}
_RESPLAN_ROOMS = ("living", "bedroom", "kitchen", "bathroom", "balcony", "storage")
_OUTDOORS = ("stair", "garden", "parking", "pool")
_BEDROOM = "Bedroom 1"  # a numbered one: the largest of a plan is its MasterRoom
_HEAD = 1 << 16  # bytes of a pickle in which its first geometry is named
_POLYGONS = ("Polygon", "MultiPolygon")
_DAMAGED = (
    *(ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError),
    *(RecursionError, TypeError, ValueError, pickle.UnpicklingError),
)
"""Exceptions that a damaged pickle raises."""

Shapes = Iterable[tuple[str, str, "shapely.Geometry"]]
"""Name, place in errors, and shape with y downwards."""


def data_set_records(path: Path, max_nodes: int, gap: float) -> list[Record[Plan]] | None:
    """Records of a published data set; None for any other file. ``gap``: metres up to which rooms
    are related. Raises ``DiagramError`` for a damaged file."""
    if path.is_dir():
        return None
    # a data set is known by its columns, or by shapes of rooms in a pickle
    with open_plans(path) as file:
        head = file.read(_HEAD).removeprefix(BYTE_ORDER_MARK)
    columns = head.partition(b"\n")[0].decode("latin-1").strip().replace('"', "").split(",")
    is_pickle = head.startswith(b"\x80") and b"from_wkb" in head and b"bedroom" in head
    if not is_pickle and not {*columns} >= _MSD_COLUMNS:
        return None
    drawn_plan.check_installed()

    def parse(name: str, shapes: Callable[[], Shapes], codes: str | None) -> Plan:
        plan = _drawing(shapes()).plan(max_nodes=max_nodes, gap=gap)
        metadata = {"name": name, **plan.diagram.metadata}
        return plan._replace(diagram=replace(plan.diagram, metadata=metadata))

    plans = _resplan_plans(path) if is_pickle else _msd_apartments(path)
    return [Record(path, name, RoomCodes(), partial(parse, name, of)) for name, of in plans]


def _drawing(shapes: Shapes) -> Drawing:
    """Build the drawing of rooms and doors."""
    rooms, doors, left_out = [], [], []
    for name, place, shape in shapes:
        if plain(name).endswith("door"):
            doors.append(DrawnDoor(shape, is_front=plain(name) != "door"))
        elif plain(name) in ("structure", "window", "stairs", *_OUTDOORS):
            left_out.append(f"{name.lower().rstrip('s')}s")
        else:
            rooms.append((_BEDROOM if plain(name) == "bedroom" else name, place, shape))
    if not rooms:
        raise DiagramError("", "a diagram needs at least one room")
    drawn = named_rooms(rooms, range(len(rooms)))
    return Drawing(drawn, tuple(doors), left_out=tuple(left_out), draws_boundary=False)


def _msd_apartments(path: Path) -> Iterator[tuple[str, Callable[[], Shapes]]]:
    """Yield name and shapes of each apartment on a floor, without walls and common spaces."""
    apartments: dict[str, list[tuple[str, str, str]]] = {}
    with open_plans(path) as file:
        before = csv.field_size_limit(_LONGEST)
        try:
            rows = csv.DictReader(io.TextIOWrapper(file, "utf-8-sig", newline=""), strict=True)
            for row in rows:
                if row["apartment_id"] and row["entity_type"] in ("area", "opening"):
                    name = f"apartment {row['apartment_id']} of floor {row['floor_id']}"
                    part = (row["roomtype"] or "", f"line {rows.line_num}", row["geom"] or "")
                    apartments.setdefault(name, []).append(part)
        except (UnicodeDecodeError, csv.Error) as error:
            raise DiagramError("", f"not comma-separated text in UTF-8: {error}") from error
        finally:
            csv.field_size_limit(before)

    for name, parts in apartments.items():
        yield name, partial(_shapes_of_msd, parts)


def _shapes_of_msd(parts: Iterable[tuple[str, str, str]]) -> Shapes:
    """Shapes of an apartment, from name, place and text of each."""
    for kind, place, text in parts:
        found = None
        # numbers beyond float64 are refused as infinite
        with suppress(shapely.GEOSException), np.errstate(all="ignore"):
            found = shapely.from_wkt(text)
        yield kind, place, checked_shape(found, text, place, _POLYGONS)


def _resplan_plans(path: Path) -> Iterator[tuple[str, Callable[[], Shapes]]]:
    """Yield the name and shapes of each plan of ResPlan's list."""
    with open_plans(path) as file:
        try:
            plans = _Unpickler(file).load()
        except _DAMAGED as error:
            raise DiagramError("", f"a damaged pickle: {error}") from error
    if not isinstance(plans, list):
        raise DiagramError("", "not ResPlan: expected a list of plans")
    for number, plan in enumerate(plans, start=1):
        plan = plan if isinstance(plan, Mapping) else {}
        yield f"plan {plan.get('id', number)}", partial(_shapes_of_resplan, plan)


def _shapes_of_resplan(plan: Mapping[str, Any]) -> Shapes:
    """Shapes of a plan of ResPlan: "area" is that of "inner", in square metres."""
    inner, area = plan.get("inner"), fields.finite_number(plan.get("area"), "area")
    if not isinstance(inner, shapely.Geometry) or not inner.area > 0 or area <= 0:
        raise DiagramError("inner", 'expected a polygon, and its square metres as "area"')
    scale = (area / inner.area) ** 0.5
    for name in (*_RESPLAN_ROOMS, "door", "front_door", *_OUTDOORS):
        given = plan.get(name, plan.get("balacony") if name == "balcony" else None)
        if not isinstance(given, shapely.Geometry) or given.is_empty:
            continue
        # the living room is one, also in parts
        whole = name == "living"
        for part in [shapely.union_all(given)] if whole else shapely.get_parts(given):
            shape = checked_shape(part, given, name, _POLYGONS)
            yield name, name, drawn_plan.scale_shape(shape, scale)


class _Inert:
    """Stand-in for any object that a pickle builds, without its values."""

    def __init__(self, *values: object) -> None:
        self.code = values[0] if values else ""

    def __call__(self, *values: object) -> _Inert:
        return self

    def __setstate__(self, state: object) -> None: ...

    def __setitem__(self, key: object, value: object) -> None: ...


class _Unpickler(pickle.Unpickler):
    """Reads shapes of shapely and numbers of numpy; any other object becomes ``_Inert``."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"shapely from_wkb": _shape_of_bytes, "numpy scalar": _number}
        return known.get(f"{module.partition('.')[0]} {name}", _Inert)


def _shape_of_bytes(content: object, *more: object) -> Any:
    """Shape of well-known binary; None for anything else."""
    with suppress(shapely.GEOSException, TypeError):
        return shapely.from_wkb(content) if isinstance(content, bytes) else None


def _number(kind: Any, content: Any) -> Any:
    """Number of numpy, given by its kind, such as "f8", and its bytes."""
    code = getattr(kind, "code", "")
    return np.frombuffer(content, code)[0].item() if code in ("f8", "f4", "i8", "i4") else None

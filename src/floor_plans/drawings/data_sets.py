"""Published sets of drawn plans: the table of Modified Swiss Dwellings, and ResPlan's pickle.

Both are drawings in metres with clear floors, y upwards. Nothing that a pickle names is run.
"""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from floor_plans.diagrams.files.code_tables import RoomCodes
from floor_plans.diagrams.files.fields import DiagramError, finite_number, plain
from floor_plans.diagrams.files.foreign_files import BYTE_ORDER_MARK, open_plans
from floor_plans.diagrams.files.records import Plan, Record
from floor_plans.drawings.drawn_parts import DrawnDoor
from floor_plans.drawings.drawn_plan import Drawing, check_installed, named_rooms, scale_shape
from floor_plans.drawings.polygon_files import checked_shape, shape_of_text
from floor_plans.plans.libraries import shapely

_LONGEST = 2**31 - 1  # characters of a polygon as text, the most that every platform takes

_MSD_COLUMNS = {"apartment_id", "floor_id", "entity_type", "roomtype", "geom"}
_RESPLAN_ROOMS = ("living", "bedroom", "kitchen", "bathroom", "balcony", "storage")
_OTHERS = ("stair", "garden", "parking", "pool")
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
    check_installed()

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
        elif plain(name) in ("structure", "window", "stairs", *_OTHERS):
            left_out.append(f"{name.lower().rstrip('s')}s")
        else:
            rooms.append((_BEDROOM if plain(name) == "bedroom" else name, place, shape))
    if not rooms:
        raise DiagramError("", "a diagram needs at least one room")
    drawn = named_rooms(rooms, range(len(rooms)))
    return Drawing(drawn, tuple(doors), left_out=tuple(left_out), draws_boundary=False)


def _msd_apartments(path: Path) -> Iterator[tuple[str, Callable[[], Shapes]]]:
    """Yield the name and shapes of each apartment on a floor. Spaces of no apartment, and walls,
    are left out."""
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

    def shapes(parts: list[tuple[str, str, str]]) -> Shapes:
        return (
            (kind, place, shape_of_text(text, place, *_POLYGONS)) for kind, place, text in parts
        )

    for name, parts in apartments.items():
        yield name, partial(shapes, parts)


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
    inner, area = plan.get("inner"), finite_number(plan.get("area"), "area")
    if not isinstance(inner, shapely.Geometry) or not inner.area > 0 or area <= 0:
        raise DiagramError("inner", 'expected a polygon, and its square metres as "area"')
    scale = (area / inner.area) ** 0.5
    for name in (*_RESPLAN_ROOMS, "door", "front_door", *_OTHERS):
        given = plan.get(name, plan.get("balacony") if name == "balcony" else None)
        if not isinstance(given, shapely.Geometry) or given.is_empty:
            continue
        # the living room is one, also in parts
        whole = name == "living"
        for part in [shapely.union_all(given)] if whole else shapely.get_parts(given):
            yield name, name, scale_shape(checked_shape(part, given, name, _POLYGONS), scale)


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

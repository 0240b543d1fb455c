"""Published sets of drawn plans: the table of Modified Swiss Dwellings, and ResPlan's pickle.

Both are drawings in metres with clear floors, y upwards. Nothing that a pickle names is run.
"""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.code_tables import RoomCodes
from floor_plans.diagrams.files.fields import DiagramError, finite_number, plain
from floor_plans.diagrams.files.foreign_files import BYTE_ORDER_MARK, open_plans
from floor_plans.diagrams.files.records import Plan, Record, wrong_record
from floor_plans.drawings.drawn_parts import DrawnDoor, DrawnRoom
from floor_plans.drawings.drawn_plan import Drawing, check_installed, rooms_of_labels, scale_shape
from floor_plans.drawings.polygon_files import checked_shape, shape_of_text

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_MSD_COLUMNS = ("apartment_id", "floor_id", "entity_type", "roomtype", "geom")
_RESPLAN_ROOMS = ("living", "bedroom", "kitchen", "bathroom", "balcony", "storage")
_RESPLAN_DOORS = ("door", "front_door")
_RESPLAN_OTHERS = ("stair", "garden", "parking", "pool")
_BEDROOM = "Bedroom 1"  # a numbered one: the largest of a plan is its MasterRoom
_HEAD = 1 << 16  # bytes of a pickle in which its first geometry is named

_POLYGONS = ("Polygon", "MultiPolygon")
_DAMAGED = (
    *(ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError),
    *(RecursionError, TypeError, ValueError, pickle.UnpicklingError),
)
"""Exceptions that a damaged pickle raises."""


def data_set_records(path: Path, max_nodes: int, gap: float) -> Iterator[Record[Plan]] | None:
    """Records of a published data set; None for any other file. ``gap``: metres up to which rooms
    are related. Raises ``DiagramError`` for a damaged file."""
    if path.is_dir():
        return None
    with open_plans(path) as file:
        head = file.read(_HEAD)
    columns = head.removeprefix(BYTE_ORDER_MARK).partition(b"\n")[0].decode("latin-1").strip()
    if {*_MSD_COLUMNS} <= {*columns.replace('"', "").split(",")}:
        named = _msd_apartments(path)
    elif head.startswith(b"\x80") and b"from_wkb" in head and b"bedroom" in head:
        named = _resplan_plans(path)
    else:
        return None
    check_installed()
    return _records(path, named, max_nodes, gap)


def _records(
    path: Path, named: Iterable[tuple[str, Any]], max_nodes: int, gap: float
) -> Iterator[Record[Plan]]:
    """Records of plans, given by their name and what their drawing is read from."""

    def parse(name: str, source: Any, codes: str | None) -> Plan:
        drawing = _read_msd(source) if isinstance(source, list) else _read_resplan(source)
        plan = drawing.plan(max_nodes=max_nodes, gap=gap)
        metadata = {"name": name, **plan.diagram.metadata}
        return plan._replace(diagram=replace(plan.diagram, metadata=metadata))

    for name, source in named:
        if isinstance(source, list | Mapping):
            yield Record(path, name, RoomCodes(), partial(parse, name, source))
        else:
            error = DiagramError("", "not a plan of ResPlan: expected an object with geometries")
            yield wrong_record(path, name, error)


def _drawing(shapes: Iterable[tuple[str, str, BaseGeometry]]) -> Drawing:
    """Build the drawing of rooms and doors, given by name, place in errors and shape, y
    downwards."""
    labels, places, floors = [], [], []
    doors, left_out = [], []
    for name, place, shape in shapes:
        if plain(name).endswith("door"):
            doors.append(DrawnDoor(shape, is_front=plain(name) != "door"))
        elif plain(name) in ("structure", "window", "stairs", *_RESPLAN_OTHERS):
            left_out.append(f"{name.lower().rstrip('s')}s")
        else:
            labels.append(_BEDROOM if plain(name) == "bedroom" else name)
            places.append(place)
            floors.append(shape)
    if not labels:
        raise DiagramError("", "a diagram needs at least one room")
    rooms = map(DrawnRoom, rooms_of_labels(labels, floors, places), floors, range(len(floors)))
    return Drawing(tuple(rooms), tuple(doors), left_out=tuple(left_out), draws_boundary=False)


def _msd_apartments(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name and rows (line, type, shape as text) of each apartment on a floor. Spaces of
    no apartment, and walls, are left out."""
    apartments: dict[str, list[tuple[int, str, str]]] = {}
    with open_plans(path) as file:
        try:
            rows = csv.DictReader(io.TextIOWrapper(file, "utf-8-sig", newline=""), strict=True)
            for row in rows:
                if row["apartment_id"] and row["entity_type"] in ("area", "opening"):
                    name = f"apartment {row['apartment_id']} of floor {row['floor_id']}"
                    part = (rows.line_num, row["roomtype"] or "", row["geom"] or "")
                    apartments.setdefault(name, []).append(part)
        except (UnicodeDecodeError, csv.Error) as error:
            raise DiagramError("", f"not comma-separated text in UTF-8: {error}") from error
    yield from apartments.items()


def _read_msd(rows: list[tuple[int, str, str]]) -> Drawing:
    """Read an apartment of Modified Swiss Dwellings."""
    return _drawing(
        (kind, f"line {number}", shape_of_text(text, f"line {number}", *_POLYGONS))
        for number, kind, text in rows
    )


def _resplan_plans(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name and values of each plan of ResPlan's list."""
    with open_plans(path) as file:
        try:
            plans = _Unpickler(file).load()
        except _DAMAGED as error:
            raise DiagramError("", f"a damaged pickle: {error}") from error
    if not isinstance(plans, list):
        raise DiagramError("", "not ResPlan: expected a list of plans")
    for number, plan in enumerate(plans, start=1):
        own = plan.get("id", number) if isinstance(plan, Mapping) else number
        yield f"plan {own}", plan


def _read_resplan(plan: Mapping[str, Any]) -> Drawing:
    """Read a plan of ResPlan, whose "area" in square metres is that of "inner" in its own unit."""
    import shapely

    inner, area = plan.get("inner"), finite_number(plan.get("area"), "area")
    if not isinstance(inner, shapely.Geometry) or not inner.area > 0 or area <= 0:
        raise DiagramError("inner", 'expected a polygon, and its square metres as "area"')
    scale = (area / inner.area) ** 0.5

    def parts() -> Iterator[tuple[str, str, BaseGeometry]]:
        for name in (*_RESPLAN_ROOMS, *_RESPLAN_DOORS, *_RESPLAN_OTHERS):
            given = plan.get(name, plan.get("balacony") if name == "balcony" else None)
            if not isinstance(given, shapely.Geometry) or given.is_empty:
                continue
            # the living room is one, also in parts
            one = name == "living"
            for part in [shapely.union_all(given)] if one else shapely.get_parts(given):
                yield name, name, scale_shape(checked_shape(part, given, name, _POLYGONS), scale)

    return _drawing(parts())


class _Inert:
    """Stand-in for any object that a pickle builds, without its values."""

    def __init__(self, *values: object) -> None:
        self.code = values[0] if values else ""

    def __call__(self, *values: object) -> _Inert:
        return self

    def __setstate__(self, state: object) -> None: ...

    def __setitem__(self, key: object, value: object) -> None: ...

    def append(self, value: object) -> None: ...

    def extend(self, values: object) -> None: ...


class _Unpickler(pickle.Unpickler):
    """Reads shapes of shapely and numbers of numpy; any other object becomes ``_Inert``."""

    def find_class(self, module: str, name: str) -> Any:
        package = module.partition(".")[0]
        if (package, name) == ("shapely", "from_wkb"):
            return _shape_of_bytes
        return _number if (package, name) == ("numpy", "scalar") else _Inert


def _shape_of_bytes(content: object, *more: object) -> Any:
    """Shape of well-known binary; None for anything else."""
    import shapely

    with suppress(shapely.GEOSException, TypeError):
        return shapely.from_wkb(content) if isinstance(content, bytes) else None


def _number(kind: Any, content: Any) -> Any:
    """Number of numpy, given by its kind, such as "f8", and its bytes."""
    import numpy as np

    code = getattr(kind, "code", "")
    return np.frombuffer(content, code)[0].item() if code in ("f8", "f4", "i8", "i4") else None

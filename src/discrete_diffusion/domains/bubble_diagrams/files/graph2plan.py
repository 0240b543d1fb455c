"""Graph2Plan's ``data.mat``: a MATLAB file with a struct array of plans."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.files.fields import (
    NUM_RELATIONS,
    DiagramError,
    check_size,
    inverse_relation,
)
from discrete_diffusion.domains.bubble_diagrams.files.mat_file import (
    MatFileError,
    Value,
    read_struct_array,
)
from discrete_diffusion.rooms import ROOM_TYPES

SELF_LOOPS, REPEATED_PAIRS = "self-loops", "repeated pairs"
UNUSABLE_BOXES = "unusable boxes"
"""What a record may hold that its diagram does not."""

_FIELDS = ("rType", "rEdge", "gtBoxNew", "name")


class MatPlan(NamedTuple):
    """One record: its diagram or what is wrong with it, and the names of what was left out."""

    outcome: BubbleDiagram | DiagramError
    left_out: tuple[str, ...]


def read_mat(path: Path, *, n_max: int) -> Iterator[MatPlan]:
    """The plans of the struct array ``data`` in file order.

    Per record: ``rType``, room codes 0..12; ``rEdge``, k rows (u, v, r), rooms numbered from 0,
    "room u is RELATIONS[r] room v"; if present ``gtBoxNew``, a box (x0, y0, x1, y1) per room, and
    ``name``, which becomes metadata. Self-loops are left out, and so are all but the first row of
    a pair; boxes that are not one per room, too.

    Raises ``DiagramError`` without a field for a file that holds no such array.
    """
    try:
        table = read_struct_array(path.read_bytes(), "data", _FIELDS)
    except MatFileError as error:
        raise DiagramError("", str(error)) from error
    if missing := [name for name in ("rType", "rEdge") if name not in table]:
        raise DiagramError("", f"the struct array 'data' has no field {' nor '.join(missing)}")
    num = len(table["rType"])
    if num == 0:
        raise DiagramError("", "there is no plan in it")
    columns = [table.get(name) or [None] * num for name in _FIELDS]
    for rooms, edges, boxes, name in zip(*columns, strict=True):
        left_out: list[str] = []
        try:
            diagram = _parse(rooms, edges, boxes, name, n_max, left_out)
        except DiagramError as error:
            yield MatPlan(error, ())
        else:
            yield MatPlan(diagram, tuple(left_out))


def _parse(
    room_types: Value, edges: Value, boxes: Value, name: Value, n_max: int, left_out: list[str]
) -> BubbleDiagram:
    rooms = _integers(room_types, "rType").ravel().tolist()
    if not rooms:
        raise DiagramError("rType", "a diagram needs at least one room")
    check_size(len(rooms), n_max, "rType")
    for k, room in enumerate(rooms):
        if not 0 <= room < len(ROOM_TYPES):
            reason = f"room type code {room} is not in 0..{len(ROOM_TYPES) - 1}"
            raise DiagramError(f"rType[{k}]", reason)
    return BubbleDiagram(
        rooms=tuple(rooms),
        relations=_relations(_integers(edges, "rEdge"), len(rooms), left_out),
        boxes=_boxes(boxes, len(rooms), left_out),
        metadata=_name(name),
    )


def _relations(
    edges: NDArray[np.int64], n: int, left_out: list[str]
) -> tuple[tuple[int, int, int], ...]:
    if edges.size == 0:
        return ()
    if edges.ndim != 2 or edges.shape[1] != 3:
        raise DiagramError("rEdge", f"expected rows (u, v, relation), got shape {edges.shape}")
    listed: dict[tuple[int, int], int] = {}
    for k, (u, v, r) in enumerate(edges.tolist()):
        if not (0 <= u < n and 0 <= v < n):
            raise DiagramError(f"rEdge[{k}]", f"pair ({u}, {v}): expected rooms in 0..{n - 1}")
        if not 0 <= r < NUM_RELATIONS:
            raise DiagramError(f"rEdge[{k}]", f"relation code {r} is not in 0..{NUM_RELATIONS - 1}")
        pair, relation = ((u, v), r) if u < v else ((v, u), inverse_relation(r))
        if u == v:
            left_out.append(SELF_LOOPS)
        elif pair in listed:
            left_out.append(REPEATED_PAIRS)
        else:
            listed[pair] = relation
    return tuple((u, v, r) for (u, v), r in listed.items())


def _integers(value: Value, field: str) -> NDArray[np.int64]:
    """Whole numbers, which MATLAB keeps as doubles unless told otherwise."""
    if not isinstance(value, np.ndarray):
        raise DiagramError(field, f"expected whole numbers, got {_shown(value)}")
    if value.dtype.kind == "f" and not (np.abs(value) <= 2**53).all():
        raise DiagramError(field, f"expected whole numbers, got {_shown(value)}")
    whole = value.astype(np.int64)
    if value.dtype.kind == "f" and (whole != value).any():
        raise DiagramError(field, f"expected whole numbers, got {_shown(value)}")
    return whole


def _boxes(
    value: Value, n: int, left_out: list[str]
) -> tuple[tuple[float, float, float, float], ...] | None:
    if not isinstance(value, np.ndarray):
        return None
    if value.size == 0:  # set in other records only
        return None
    if value.shape != (n, 4):
        left_out.append(UNUSABLE_BOXES)
        return None
    box = value.astype(np.float64)
    if not np.isfinite(box).all() or (box[:, 2:] < box[:, :2]).any():
        left_out.append(UNUSABLE_BOXES)
        return None
    return tuple(map(tuple, box.tolist()))


def _name(value: Value) -> dict[str, str]:
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iu":
        return {"name": str(value.item())}
    return {"name": value} if isinstance(value, str) and value else {}


def _shown(value: Value) -> str:
    if value is None:
        return "a value of another kind"
    return reprlib.repr(value.tolist() if isinstance(value, np.ndarray) else value)

"""Graph2Plan's ``data.mat``: a MATLAB file with a struct array of plans."""

from __future__ import annotations

import json
import os
import reprlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError, check_code, check_size
from floor_plans.diagrams.files.records import Plan
from floor_plans.diagrams.geometry import Ints
from floor_plans.diagrams.vocabulary import INVERSE, NO_EDGE

_HDF5, _SAVE = b"\x89HDF\r\n\x1a\n", "save('data.mat', 'data', '-v7')"
READER = Path(__file__).with_name("load_mat.py")

Value = list[Any] | str | None  # numbers in MATLAB's shape, text, or None for other values


def is_mat_file(path: Path) -> bool:
    """True if a file is in MATLAB's format, by its name or first bytes."""
    if not path.is_file():
        return False
    head, is_named = _head(path), path.suffix.lower() == ".mat"
    is_version_5 = head[124:128] in (b"\x00\x01IM", b"\x01\x00MI")
    return is_named or head.startswith(b"MATLAB") or is_version_5


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(520)


def mat_records(path: Path) -> Iterator[list[Value]]:
    """Read ``rType``, ``rEdge``, ``gtBoxNew`` and ``name`` of each record of the struct array
    ``data``, in MATLAB's order; ``DiagramError`` if the array is missing or empty."""
    head = _head(path)
    if _HDF5 in (head[:8], head[512:]) or head.startswith(b"MATLAB 7.3"):
        remedy = f"in MATLAB, load it and save it again with {_SAVE}"
        raise DiagramError("", f"a MATLAB file of version 7.3, which is not read; {remedy}")
    # scipy reads the file in a process of its own, since it crashes on some damaged files
    done = subprocess.run(
        [sys.executable, "-P", str(READER), str(path)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # each thread takes memory
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    printed = done.stderr.strip().rpartition("\n")[2]
    if done.returncode == 2:
        raise DiagramError("", printed)
    if done.returncode:
        ended_by = signal.Signals(-done.returncode).name if done.returncode < 0 else ""
        why = ended_by or printed.partition(": ")[2] or printed
        reason = f"not a MATLAB file of version 5 to 7.2, or damaged, or cut short ({why})"
        raise DiagramError("", f"{reason}; copy it again, or save it again in MATLAB with {_SAVE}")
    if not done.stdout:
        raise DiagramError("", "the file holds no plans")
    return (json.loads(line) for line in done.stdout.splitlines())


def plan_of_record(record: list[Value], *, max_nodes: int) -> Plan:
    """Build the plan of one record of ``mat_records``.

    ``rType``: room codes 0..12. ``rEdge``: rows (u, v, r), rooms numbered from 0, "room u is
    RELATIONS[r] room v". ``gtBoxNew``: a box (x0, y0, x1, y1) per room. ``name``: metadata.
    Self-loops, repeated rows of a pair, and boxes that are not one per room are left out. Raises
    ``DiagramError`` naming the wrong field.
    """
    room_types, edges, boxes, name = record
    # rooms
    rooms = _integers(room_types, "rType").ravel().tolist()
    if not rooms:
        raise DiagramError("rType", "a diagram needs at least one room")
    check_size(len(rooms), max_nodes, "rType")
    for k, room in enumerate(rooms):
        check_code(room, len(ROOM_TYPES), "room type", f"rType[{k}]")
    # relations and boxes, without their unusable parts
    left_out: list[str] = []
    relations = tuple(_relations(_integers(edges, "rEdge"), len(rooms), left_out))
    box, listed = np.array(boxes), None
    if box.dtype.kind in "iuf" and box.size:  # empty: set in other records only
        box = box.astype(np.float64)
        fits = box.shape == (len(rooms), 4) and np.isfinite(box).all()
        if fits and (box[:, 2:] >= box[:, :2]).all():
            listed = tuple(map(tuple, box.tolist()))
        else:
            left_out.append("unusable boxes")
    # the name is text, or a number that MATLAB made of it
    metadata = {"name": name} if isinstance(name, str) and name else {}
    if isinstance(name, list) and np.size(name) == 1:
        number = np.array(name).item()
        metadata = {"name": str(number)} if isinstance(number, int) else {}
    diagram = BubbleDiagram(tuple(rooms), relations, listed, metadata)
    return Plan(diagram, tuple(left_out))


def _relations(edges: Ints, n: int, left_out: list[str]) -> Iterator[tuple[int, int, int]]:
    if edges.size and (edges.ndim != 2 or edges.shape[1] != 3):
        raise DiagramError("rEdge", f"expected rows (u, v, relation), got shape {edges.shape}")
    listed: set[tuple[int, int]] = set()
    for k, (u, v, r) in enumerate(edges.tolist() if edges.size else []):
        if not (0 <= u < n and 0 <= v < n):
            raise DiagramError(f"rEdge[{k}]", f"pair ({u}, {v}): expected rooms in 0..{n - 1}")
        check_code(r, NO_EDGE, "relation", f"rEdge[{k}]")
        # keep the first row of each pair, read from its smaller room
        pair = min(u, v), max(u, v)
        if u == v:
            left_out.append("self-loops")
        elif pair in listed:
            left_out.append("repeated pairs")
        else:
            listed.add(pair)
            yield (*pair, r if u < v else INVERSE[r])


def _integers(value: Value, field: str) -> Ints:
    """Convert whole numbers to int64; MATLAB stores them as doubles by default."""
    numbers = np.array(value)
    whole = numbers.dtype.kind in "iuf"
    if numbers.dtype.kind == "f":
        whole = bool((np.abs(numbers) <= 2**53).all() and (numbers == np.floor(numbers)).all())
    if not whole:
        shown = "a value of another kind" if value is None else reprlib.repr(value)
        raise DiagramError(field, f"expected whole numbers, got {shown}")
    return numbers.astype(np.int64)

"""Notes on odd boxes of a plan that can be read."""

from __future__ import annotations

from collections.abc import Iterator

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.records import Note
from floor_plans.diagrams.vocabulary import ROOM_TYPES

FLAT, ALIKE = "room without width or height", "room with the box of another one"


def notes_of_boxes(diagram: BubbleDiagram) -> Iterator[Note]:
    """Notes on rooms whose box has no area, and on rooms with the box of an earlier room."""
    boxes = diagram.boxes or ()
    first: dict[object, int] = {}
    for k, box in enumerate(boxes):
        x0, y0, x1, y1 = box
        if x0 == x1 or y0 == y1:
            yield Note(FLAT, f"rooms[{k}], {ROOM_TYPES[diagram.rooms[k]]}, {list(box)}")
        if (other := first.setdefault(box, k)) != k:
            yield Note(ALIKE, f"rooms[{other}] and rooms[{k}], {list(box)}")

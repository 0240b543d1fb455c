"""Plans that the tests of formats write, and what each format is to give back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram, generate_plans
from floor_plans.diagrams.files.code_tables import BEDROOM, with_master_bedroom
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.drawings.plan_files import parse_plan
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan

PIXEL = 18 / 256
GAP = 9 * PIXEL

BOXES = {
    "LivingRoom": (0.0, 0.0, 6.1, 5.0),
    "Bathroom": (4.0, 0.0, 6.1, 2.2),  # in its corner: the living room is L-shaped
    "Wall-in": (1.0, 1.0, 2.0, 2.5),  # in its middle: and has a hole
    "SecondRoom": (6.1, 0.0, 10.0, 10 / 3),  # the largest bedroom
    "MasterRoom": (6.1, 10 / 3, 9.0, 5.0),
    "Balcony": (0.0, 5.0, 3.0, 6.2),
}


def by_hand() -> FloorPlan:
    """L-shaped rooms, a hole, sides that no binary number has, doors with and without thickness, a
    boundary, and relations that the rule does not say of its boxes: rooms were renumbered."""
    diagram = BubbleDiagram(
        tuple(ROOM_TYPES.index(name) for name in BOXES),
        measured(list(BOXES.values()), GAP),
        tuple(BOXES.values()),
        {"name": 'the "first" \\U+0041, ^J', "site": {"plot": [1, 2.5, None]}},
    )
    diagram = diagram.relabelled([5, 3, 0, 1, 4, 2])
    assert diagram.boxes is not None
    assert diagram.relations != measured(diagram.boxes, GAP)
    return FloorPlan(
        diagram,
        (
            Door((2, 3), (4.0, 0.5), (4.0, 1.4)),
            Door((1, 2), (6.1, 2.4), (6.1, 3.2), 0.15),
            Door((0, 2), (0.5, 5.0), (2.5, 5.0)),
            Door((2, FRONT_DOOR), (0.0, 3.0), (0.0, 4.0), 0.25),
        ),
        ((0.0, 0.0), (10.0, 0.0), (10.0, 10 / 3), (9.0, 5.0), (9.0, 6.2), (0.0, 6.2)),
    )


def embedded(num: int) -> list[FloorPlan]:
    """Plans of the embedded generator."""
    return [FloorPlan.of(diagram, "pixels") for diagram in generate_plans(num, seed=3)]


def real(folder: Path, every: int) -> list[FloorPlan]:
    """The 6 plans of House-GAN++, then one in ``every`` of the 999 rendered ones, those flagged as
    duplicates too."""
    lines = (folder / "rplan_render_999" / "plans.jsonl").read_text().splitlines()[::every]
    records = [json.loads(file.read_text()) for file in sorted(folder.glob("houseganpp_*/*.json"))]
    records += [json.loads(line) for line in lines]
    plans = [parse_plan(record, max_nodes=8, threshold=9.0) for record in records]
    return [FloorPlan.of(plan.diagram, "pixels") for plan in plans]


def measured(boxes: Sequence[Sequence[float]], gap: float) -> tuple[tuple[int, int, int], ...]:
    """The relations that the rule says of boxes in metres, in whole numbers: a pixel is 9 / 128 m,
    so that 1 / 128,000 m measures pixels and millimetres."""
    whole = [[round(side * 128_000) for side in box] for box in boxes]
    codes = relations_from_boxes(np.array(whole), round(gap * 128_000))
    return tuple((int(i), int(j), int(codes[i, j])) for i, j in np.argwhere(codes != NO_EDGE))


def nearest_types(plan: FloorPlan) -> tuple[int, ...]:
    """The room types that tables of House-GAN++ leave: the largest of all bedrooms is the
    MasterRoom, the others are SecondRoom, and a Wall-in is Storage."""
    beds = ("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom")
    names = [
        BEDROOM if name in beds else "Storage" if name == "Wall-in" else name
        for name in plan.diagram.room_names
    ]
    return tuple(ROOM_TYPES.index(str(name)) for name in with_master_bedroom(names, plan.areas))


def expected_of(format: str, plan: FloorPlan) -> FloorPlan:
    """What is read back from a file of that format."""
    diagram = plan.diagram
    assert diagram.boxes is not None
    if format == "houseganpp":
        bare = BubbleDiagram(nearest_types(plan), measured(diagram.boxes, GAP), diagram.boxes)
        doors = (replace(door, thickness=door.thickness or 4 * PIXEL) for door in plan.doors)
        return FloorPlan(bare, tuple(doors))
    assert format in ("dxf", "geojson", "rlvr")  # which hold all of it
    return plan


def assert_same(read: FloorPlan, expected: FloorPlan) -> None:
    """Rooms, relations and who is behind a door exactly, lengths to a micrometre."""
    assert read.diagram.room_names == expected.diagram.room_names
    assert read.diagram.relations == expected.diagram.relations
    np.testing.assert_allclose(read.diagram.boxes, expected.diagram.boxes, rtol=0, atol=1e-6)
    assert [door.rooms for door in read.doors] == [door.rooms for door in expected.doors]
    for one, other in zip(read.doors, expected.doors, strict=True):
        lengths = [*one.ends, one.thickness], [*other.ends, other.thickness]
        np.testing.assert_allclose(*lengths, rtol=0, atol=1e-6)
    assert (read.boundary is None) == (expected.boundary is None)
    if read.boundary is not None:
        np.testing.assert_allclose(read.boundary, expected.boundary, rtol=0, atol=1e-6)
    assert read.diagram.metadata == expected.diagram.metadata

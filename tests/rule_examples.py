"""Floor plans that keep every rule of living but one."""

from __future__ import annotations

from dataclasses import replace

from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan
from plan_examples import Box, floor_plan

Doors = list[tuple[int, int, tuple[float, float], tuple[float, float]]]

ROOMS: list[tuple[str, Box]] = [
    ("LivingRoom", (0, 0, 6, 5)),
    ("Kitchen", (6, 0, 10, 2.5)),
    ("Bathroom", (6, 2.5, 10, 5)),
    ("MasterRoom", (0, 5, 5, 9)),
    ("SecondRoom", (5, 5, 10, 9)),
]
LIVING, KITCHEN, BATH, MASTER, SECOND = range(5)

DOORS: Doors = [
    (LIVING, FRONT_DOOR, (1, 0), (2, 0)),
    (LIVING, KITCHEN, (6, 1), (6, 1.8)),
    (LIVING, BATH, (6, 4.1), (6, 4.9)),
    (LIVING, MASTER, (2, 5), (2.8, 5)),
    (LIVING, SECOND, (5.1, 5), (5.9, 5)),
]


def flat(
    changed: dict[int, Box] | None = None,
    *,
    more: list[tuple[str, Box]] | None = None,
    doors: dict[int, tuple[int, int, tuple[float, float], tuple[float, float]] | None]
    | None = None,
    boundary: tuple[tuple[float, float], ...] | None = None,
) -> FloorPlan:
    """A flat of 10 x 9 m in which all rooms lie around the living room, with other boxes, more
    rooms, and other doors (None: without) in the place of those of these numbers."""
    rooms = [(name, (changed or {}).get(k, box)) for k, (name, box) in enumerate(ROOMS)]
    plan = floor_plan([*rooms, *(more or [])], boundary=boundary)
    placed = {**dict(enumerate(DOORS)), **(doors or {})}.values()
    return replace(plan, doors=tuple(Door(d[:2], d[2], d[3]) for d in placed if d is not None))


PLOT = ((0.0, 0.0), (10.0, 0.0), (10.0, 9.0), (0.0, 9.0))

BREAKING: dict[str, tuple[FloorPlan, set[str], tuple[int, ...]]] = {
    "apart": (
        flat(more=[("Storage", (10, 0, 12, 2)), ("Storage", (10, 0, 12, 2))]),
        {"apart"},
        (5, 6),
    ),
    "no front door": (flat(doors={0: None}), {"front", "access", "bath"}, ()),
    "front door into a bedroom": (
        flat(doors={0: (MASTER, FRONT_DOOR, (0, 6), (0, 7))}),
        {"front", "access", "bath", "entry"},
        (MASTER,),
    ),
    "bedroom behind a bedroom": (
        flat(doors={4: (MASTER, SECOND, (5, 6), (5, 6.8))}),
        {"access"},
        (SECOND,),
    ),
    "bath behind the kitchen": (
        flat(doors={2: (KITCHEN, BATH, (7, 2.5), (7.8, 2.5))}),
        {"bath"},
        (BATH,),
    ),
    "narrow door": (
        flat(doors={1: (LIVING, KITCHEN, (6, 1), (6, 1.6))}),
        {"doors"},
        (LIVING, KITCHEN),
    ),
    "door between two shallow closets": (
        flat(
            more=[("Storage", (10, 0, 10.8, 5)), ("Storage", (10.8, 0, 11.6, 5))],
            doors={5: (5, 6, (10.8, 1), (10.8, 2.3))},
        ),
        {"swings"},
        (5, 6),
    ),
    "narrow bath": (
        flat({KITCHEN: (6, 0, 10, 3.8), BATH: (6, 3.8, 8.5, 5)}),
        {"width"},
        (BATH,),
    ),
    "strip of a bath": (
        flat({KITCHEN: (6, 0, 10, 3.4), BATH: (6, 3.4, 10, 5)}),
        {"shape"},
        (BATH,),
    ),
    "strip of a kitchen": (
        flat(
            {KITCHEN: (6, 0, 10.2, 1.7), BATH: (6, 1.7, 8.5, 5)},
            doors={1: (*DOORS[1][:2], (6, 0.4), (6, 1.2))},
        ),
        {"shape"},
        (KITCHEN,),
    ),
    "small kitchen": (
        flat(
            {KITCHEN: (6, 0, 8, 1.6), BATH: (6, 1.6, 8.5, 5)},
            doors={1: (*DOORS[1][:2], (6, 0.4), (6, 1.2))},
        ),
        {"area", "furniture"},
        (KITCHEN,),
    ),
    "void between related rooms": (
        flat({MASTER: (0, 5.5, 5, 9)}),
        {"walls"},
        (LIVING, MASTER),
    ),
    "door off its wall": (
        flat(doors={3: (LIVING, MASTER, (2, 4), (2.8, 4))}),
        {"walls", "furniture"},
        (LIVING, MASTER),
    ),
    "bedroom with a metre of facade": (
        flat(more=[("Storage", (10, 5, 11, 9)), ("Storage", (5, 9, 9, 10))]),
        {"facade"},
        (SECOND,),
    ),
    "bedroom within rooms": (
        flat(more=[("Storage", (10, 5, 11, 9)), ("Storage", (5, 9, 10, 10))]),
        {"facade", "window", "escape"},
        (SECOND,),
    ),
    "large living room with little facade": (
        flat(
            {
                LIVING: (0, 0, 6, 7),
                KITCHEN: (6, 0, 10, 4.5),
                BATH: (6, 4.5, 10, 7),
                MASTER: (0, 7, 5, 11),
                SECOND: (5, 7, 10, 11),
            },
            more=[("Storage", (-1, 0, 0, 7)), ("Storage", (0, -1, 4.6, 0))],
            doors={
                0: (LIVING, FRONT_DOOR, (4.7, 0), (5.7, 0)),
                2: (LIVING, BATH, (6, 5.0), (6, 5.8)),
                3: (LIVING, MASTER, (2, 7), (2.8, 7)),
                4: (LIVING, SECOND, (5.1, 7), (5.9, 7)),
            },
        ),
        {"window"},
        (LIVING,),
    ),
    "long tail": (flat(more=[("Storage", (10, 0, 30, 1))]), {"compact"}, ()),
    "teeth": (
        flat(more=[("Balcony", (x, 9, x + 1, 10)) for x in (0.2, 2.8, 5.4, 8.0)]),
        {"compact"},
        (),
    ),
    "two pieces": (flat(more=[("Storage", (12, 0, 14, 2))]), {"compact"}, ()),
    "a slot between two blocks": (flat(more=[("Storage", (10.7, 0, 12.7, 2))]), {"compact"}, ()),
    "room off the plot": (
        flat(more=[("Storage", (10, 0, 12, 2))], boundary=PLOT),
        {"fill"},
        (5,),
    ),
    "empty plot": (flat(boundary=((0.0, 0.0), (12.0, 0.0), (12.0, 9.0), (0.0, 9.0))), {"fill"}, ()),
    "bedroom without space around a bed": (
        flat(
            {MASTER: (0, 5, 2.5, 9), SECOND: (2.5, 5, 10, 9)},
            doors={3: (LIVING, MASTER, (1, 5), (1.8, 5))},
        ),
        {"furniture"},
        (MASTER,),
    ),
    "doors in the way of a sofa": (
        flat(
            {
                LIVING: (0, 0, 6, 4.4),
                MASTER: (0, 4.4, 5, 9),
                SECOND: (5, 4.4, 10, 9),
                BATH: (6, 2.5, 10, 4.4),
            },
            doors={
                0: (LIVING, FRONT_DOOR, (2.5, 0), (3.5, 0)),
                2: (LIVING, BATH, (6, 2.6), (6, 3.4)),
                3: (LIVING, MASTER, (2.6, 4.4), (3.4, 4.4)),
                4: (LIVING, SECOND, (5.1, 4.4), (5.9, 4.4)),
            },
        ),
        {"furniture"},
        (LIVING,),
    ),
    "long bedroom": (
        flat(
            {
                LIVING: (0, 0, 9, 5),
                KITCHEN: (9, 0, 12, 2.5),
                BATH: (9, 2.5, 12, 5),
                MASTER: (0, 5, 7.4, 8),
                SECOND: (7.4, 5, 12, 8),
            },
            doors={
                1: (LIVING, KITCHEN, (9, 1), (9, 1.8)),
                2: (LIVING, BATH, (9, 4.1), (9, 4.9)),
                4: (LIVING, SECOND, (8.1, 5), (8.9, 5)),
            },
        ),
        {"shape"},
        (MASTER,),
    ),
    "large bath": (flat({BATH: (6, 2.5, 11, 5)}), {"largest"}, (BATH,)),
    "kitchen within rooms": (
        flat(more=[("Storage", (10, 0, 11, 2.5)), ("Storage", (6, -1, 10, 0))]),
        {"airy"},
        (KITCHEN,),
    ),
    "front door into a crowded living room": (
        flat(
            more=[("Storage", (-2, 0, 0, 2.5)), ("Storage", (-2, 2.5, 0, 5))],
            doors={5: (LIVING, 5, (0, 0.2), (0, 1.0)), 6: (LIVING, 6, (0, 4.0), (0, 4.8))},
        ),
        {"entry"},
        (LIVING,),
    ),
    "bath with strips around it": (
        flat(
            {MASTER: (0, 5, 5, 10), SECOND: (5, 5, 10, 10)},
            more=[("Bathroom", (0.8, 7.9, 3.0, 9.2))],
        ),
        {"islands"},
        (5, MASTER),
    ),
    "a slit of nine metres": (
        flat(more=[("Storage", (10.7, 0, 12, 9)), ("Storage", (10, 9, 12, 10))]),
        {"slits"},
        (),
    ),
}
"""What is wrong -> the plan, rules of ``default`` that it breaks, rooms of the first finding."""

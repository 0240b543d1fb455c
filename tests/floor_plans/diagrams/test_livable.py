"""Plans that people can live in: walls measured cell by cell, and the judge of plans agrees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from omegaconf import OmegaConf
from shapely import box, union_all

from discrete_diffusion.cli import compose
from discrete_diffusion.data import CACHE_VARIABLE
from discrete_diffusion.domains import build_data
from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import Floats, Ints, relations_from_boxes
from floor_plans.diagrams.procedural import livable
from floor_plans.diagrams.procedural.generator import cache_file, generate_plans, sample_plans
from floor_plans.diagrams.procedural.livable import (
    METRE,
    Cells,
    are_livable,
    dissect_plans,
    draw_walls,
)
from floor_plans.diagrams.procedural.programme import PAD, choose_sites, sample_programmes
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.learning.build import training_areas
from floor_plans.plans.doors import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.furnishing import inner_rectangles
from floor_plans.rules.rule_set import judge, read_rules

JUDGED = ("front", "access", "bath", "facade", "window", "escape", "compact", "area", "apart")
JUDGED += ("width", "largest", "airy")


def drawn_at_random(num: int, seed: int) -> tuple[Ints, Floats, Ints]:
    """Rooms, boxes up to the middle of walls, boxes without walls; sound or not."""
    rng = np.random.default_rng(seed)
    rooms = sample_programmes(num, rng)
    boxes = dissect_plans(rooms, choose_sites(rooms, rng), rng)
    return rooms, boxes, draw_walls(rooms, boxes)


def painted(rooms: Ints, boxes: Floats) -> Ints:
    """The rooms of one plan on a sheet, pixel by pixel: small ones last; N outside, N + 1 in
    pockets."""
    n = len(rooms)
    corners = np.rint(boxes[rooms != PAD]).astype(int)
    corners -= np.tile(corners[:, :2].min(0) - 3, 2)
    wide, high = corners[:, 2:].max(0) + 3
    sheet = np.full((high, wide), n)
    area = (corners[:, 2:] - corners[:, :2]).prod(1).astype(float)
    area[0] = np.inf
    # Of boxes of one size the first one is on top.
    for k in sorted(range(len(corners)), key=lambda k: (-area[k], -k)):
        x0, y0, x1, y1 = corners[k]
        sheet[y0:y1, x0:x1] = k
    sheet[(sheet == n) & ~_from_the_edge(sheet == n)] = n + 1
    return sheet


def _from_the_edge(free: np.ndarray) -> np.ndarray:
    seen, left = np.zeros_like(free), [(0, 0)]
    seen[0, 0] = True
    while left:
        y, x = left.pop()
        for v, u in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            inside = 0 <= v < free.shape[0] and 0 <= u < free.shape[1]
            if inside and free[v, u] and not seen[v, u]:
                seen[v, u] = True
                left.append((v, u))
    return seen


def test_walls_are_those_of_the_plan_drawn_pixel_by_pixel() -> None:
    rooms, boxes, _ = drawn_at_random(16, seed=1)
    n = rooms.shape[1]
    cells = Cells.of(rooms, boxes)
    corners, area = cells.outline(n)
    for k, walls in enumerate(cells.walls(n)):
        sheet = painted(rooms[k], boxes[k])
        expected = np.zeros((n + 2, n + 2))
        for one, other in ((sheet[1:], sheet[:-1]), (sheet[:, 1:], sheet[:, :-1])):
            np.add.at(expected, (one, other), 1)
            np.add.at(expected, (other, one), 1)
        np.fill_diagonal(expected, 0)
        np.testing.assert_array_equal(walls, expected)
        built = (sheet != n).astype(int)
        assert area[k] == built.sum()
        four = built[1:, 1:] + built[1:, :-1] + built[:-1, 1:] + built[:-1, :-1]
        crossing = (four == 2) & (built[1:, 1:] == built[:-1, :-1])
        assert corners[k] == (four % 2).sum() + 2 * crossing.sum()


def judged(rooms: Ints, boxes: Floats, drawn: Ints) -> set[str]:
    """Rules that a plan breaks, once it has doors. Rectangles may be in the way of doors."""
    there = rooms != PAD
    relations = relations_from_boxes(drawn[there])
    i, j = (relations != NO_EDGE).nonzero()
    diagram = BubbleDiagram(
        rooms[there].tolist(),
        list(zip(i.tolist(), j.tolist(), relations[i, j].tolist(), strict=True)),
        [tuple(box) for box in (np.rint(boxes[there]) / METRE).tolist()],
    )
    return {name for name, _ in judge(find_doors(FloorPlan(diagram)), read_rules("default")).broken}


@pytest.mark.slow
def test_the_judge_of_plans_agrees() -> None:
    rooms, boxes, drawn = drawn_at_random(120, seed=3)
    passed = are_livable(rooms, boxes)
    assert 10 < passed.sum() < 80
    found: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for k, is_livable in enumerate(passed.tolist()):
        found[is_livable].update(judged(rooms[k], boxes[k], drawn[k]))
    assert not found[True].keys() & {*JUDGED}, found[True]
    assert found[False].keys() >= {"access", "bath", "facade", "compact", "width", "largest"}


def test_rectangles_are_found_where_rooms_within_leave_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(livable, "LEAST", 1.2 * livable.LEAST)
    rooms, boxes, _ = drawn_at_random(300, seed=4)
    sides = np.sort(boxes[..., 2:] - boxes[..., :2]) / METRE
    large = ((sides >= livable.LEAST[rooms]).all(-1) | (rooms == PAD)).all(1)
    rooms, clear = rooms[large], boxes[large] / METRE
    found = livable._hold_rectangles(rooms, clear)
    assert 10 < found.sum() < len(rooms) - 5
    for k, there in enumerate(rooms != PAD):
        order = sorted(range(there.sum()), key=lambda j: (j == 0, box(*clear[k, j]).area))
        held = []
        for place, j in enumerate(order):
            smaller = [box(*clear[k, i]).buffer(0.1, join_style="mitre") for i in order[:place]]
            sides = np.sort(inner_rectangles(box(*clear[k, j]).difference(union_all(smaller))))
            held.append((sides >= livable.LEAST[rooms[k, j]] - 1e-6).all(1).any())
        assert found[k] == all(held)


ROOMS = ("LivingRoom", "MasterRoom", "Kitchen", "Bathroom", "Balcony", "Storage")
HOME = {  # metres
    "LivingRoom": (0.0, 0.0, 6.0, 5.0),
    "MasterRoom": (0.0, 5.0, 4.0, 8.5),
    "Kitchen": (6.0, 0.0, 8.5, 3.0),
    "Bathroom": (4.0, 5.0, 6.0, 8.5),
    "Balcony": (-1.5, 1.0, 0.0, 4.0),
    "Storage": (6.0, 3.0, 8.5, 5.0),
}
Box = tuple[float, float, float, float]
NOT_REACHED: dict[str, dict[str, Box]] = {
    "a bathroom that only the kitchen is beside": {"Bathroom": (8.5, 0.0, 10.5, 3.0)},
    "a kitchen in a corner of the plan": {"Kitchen": (8.5, 3.0, 11.0, 6.0)},
    "a bedroom behind the kitchen": {"MasterRoom": (8.5, 0.0, 12.0, 3.5)},
    "a bedroom beside the living room by half a metre": {"MasterRoom": (-3.5, 4.5, 0.0, 8.5)},
    "storage behind the bathroom": {"Storage": (4.0, 8.5, 6.0, 10.5)},
    "a balcony away from what one lives in": {"Balcony": (4.0, 8.5, 6.0, 9.5)},
    "no wall for a front door": {
        "Kitchen": (-2.0, -2.5, 6.0, 0.0),
        "Balcony": (-2.0, 0.0, 0.0, 5.0),
        "Storage": (6.0, -2.5, 8.0, 5.0),
    },
}
NOT_LIT: dict[str, dict[str, Box]] = {
    "a bedroom inside of the living room": {
        "LivingRoom": (0.0, -4.0, 6.0, 5.0),
        "Bathroom": (0.0, 5.0, 6.0, 8.5),
        "MasterRoom": (1.0, -1.0, 4.0, 2.0),
    },
    "a balcony between rooms": {"Balcony": (2.0, 1.0, 4.0, 3.0)},
    "a kitchen without a window": {
        "LivingRoom": (0.0, 0.0, 8.5, 5.0),
        "Kitchen": (6.0, 1.0, 8.5, 4.0),
        "Storage": (8.5, 0.0, 10.5, 4.0),
    },
}
NOT_FURNISHED: dict[str, dict[str, Box]] = {
    "a narrow bathroom": {"Bathroom": (4.0, 5.0, 5.5, 8.5)},
    "a large bathroom": {"Bathroom": (4.0, 5.0, 7.2, 8.5)},
    "a narrow bedroom": {"MasterRoom": (0.0, 5.0, 2.5, 8.5)},
    "a long bedroom": {"MasterRoom": (-3.5, 5.0, 4.0, 8.0)},
    "a long balcony": {"Balcony": (-1.0, 0.0, 0.0, 5.0)},
    "a bedroom that a bathroom leaves no space in": {"Bathroom": (2.0, 5.0, 4.0, 7.0)},
    "a living room around a kitchen": {"Kitchen": (3.0, 0.0, 6.0, 2.0)},
}
NOT_COMPACT: dict[str, dict[str, Box]] = {
    "two steps more": {"Storage": (6.0, 3.0, 8.0, 5.0), "MasterRoom": (0.0, 5.0, 4.0, 9.0)},
    "a long kitchen": {"Kitchen": (6.0, 0.0, 30.0, 3.0)},
}
WRONG = {"reached": NOT_REACHED, "lit": NOT_LIT, "furnished": NOT_FURNISHED, "compact": NOT_COMPACT}


def home(**moved: Box) -> tuple[Ints, Floats]:
    rooms = np.array([[ROOM_TYPES.index(name) for name in ROOMS]])
    boxes = METRE * np.array([[moved.get(name, HOME[name]) for name in ROOMS]])
    order = rooms.argsort(axis=1)
    return np.take_along_axis(rooms, order, 1), boxes[:, order[0]]


def test_a_home_is_livable() -> None:
    assert are_livable(*home()).tolist() == [True]


@pytest.mark.parametrize(
    ("demand", "moved"),
    [(demand, moved) for demand, cases in WRONG.items() for moved in cases.values()],
    ids=[case for cases in WRONG.values() for case in cases],
)
def test_what_is_wrong_is_seen(demand: str, moved: dict[str, Box]) -> None:
    """By the demand of that name; others may be broken too."""
    assert are_livable(*home(**moved)).tolist() == [False]
    assert not demands_met(*home(**moved))[demand]


def demands_met(rooms: Ints, boxes: Floats) -> dict[str, bool]:
    n = rooms.shape[1]
    cells = Cells.of(rooms, boxes)
    walls = cells.walls(n) / METRE
    found = {
        "reached": livable.are_reached(rooms, walls),
        "lit": livable.are_lit(rooms, boxes, walls),
        "furnished": livable.are_furnished(rooms, boxes),
        "compact": livable.are_compact(cells, cells.walls(n)),
    }
    return {name: bool(each.item()) for name, each in found.items()}


def test_few_rooms_are_entered_from_the_living_room() -> None:
    def are_few(names: str, *others: tuple[int, int], apart: int = 0) -> bool:
        """Rooms by their first letters, ``others``: pairs that share a wall; all but ``apart`` do
        with the living room."""
        codes = {"L": 0, "M": 1, "K": 2, "B": 3, "D": 4, "S": 7, "T": 11}
        n = len(names)
        walls = np.zeros((1, n + 2, n + 2))
        walls[:, 0, 1:], walls[:, :, n] = 2.0, 5.0
        if apart:
            walls[:, 0, apart] = 0.5
        for i, j in others:
            walls[:, i, j] = 2.0
        walls = np.maximum(walls, walls.swapaxes(1, 2))
        return bool(livable.are_reached(np.array([[codes[name] for name in names]]), walls).item())

    assert are_few("LMKBSS")
    assert are_few("LMKBSSS")  # there is no choice
    assert not are_few("LMKBDSS")
    assert not are_few("LMKBDSS", (4, 6))
    assert are_few("LMKBDSS", (4, 6), apart=6)
    assert not are_few("LMKBBSS")
    assert are_few("LMKBBSS", (1, 3))
    assert not are_few("LMKBBSS", (1, 4))
    assert are_few("LMKBBSST", (1, 3), (1, 4), (5, 7))
    assert not are_few("LMKBBSST", (1, 3), (1, 4), (5, 7), apart=4)


def test_numbers_are_those_of_the_rules() -> None:
    rules = read_rules("default").rules
    assert rules["facade"]["length"] == livable.WINDOW
    assert rules["window"]["share"] / rules["window"]["height"] == livable.WINDOW_SHARE
    assert rules["compact"]["corners"] == livable.MOST_CORNERS
    assert rules["compact"]["perimeter"] == livable.MOST_PERIMETER
    assert rules["doors"]["least"]["Kitchen"] < livable.DOOR
    assert rules["entry"]["doors"] == livable.MOST_DOORS
    assert rules["airy"]["length"] == livable.KITCHEN_WINDOW
    assert rules["furniture"]["wall"] == rules["shape"]["wall"] == 2 * livable.CLEAR
    for code, name in enumerate(ROOM_TYPES[:13]):
        sizes = rules["furniture"]["least"].get(name, ((0.0, 0.0),))
        assert any((livable.LEAST[code] >= sorted(size)).all() for size in sizes)
        assert livable.LEAST[code, 0] + 0.1 >= rules["width"]["least"].get(name, 0.0) - 1e-9
        if name not in ("Kitchen", "Bathroom"):  # of any ratio here
            assert livable.MOST_RATIO[code] == rules["shape"]["most"].get(name, np.inf)
        assert livable.MOST_AREA[code] == rules["largest"]["most"].get(name, np.inf)


@pytest.mark.slow
def test_livable_plans_keep_their_numbers_of_rooms() -> None:
    """Programmes come first: only sites and sizes are drawn again."""
    any_plans, kept = sample_plans(300, seed=2), sample_plans(300, seed=2, livable=True)
    np.testing.assert_array_equal(any_plans.room_types, kept.room_types)
    again = sample_plans(200, seed=2, livable=True)
    np.testing.assert_array_equal(again.boxes, kept.boxes[:200])
    assert (kept.relations != any_plans.relations).any()
    assert len(generate_plans(0, livable=True)) == 0


@pytest.mark.slow
def test_bathrooms_and_rooms_in_rooms_are_those_of_real_plans() -> None:
    """The narrowest 5 % of bathrooms begin at 1.10 m; 10 % of plans have a room within another."""
    plans = sample_plans(1000, seed=2, livable=True)
    sides = (plans.boxes[..., 2:] - plans.boxes[..., :2]).min(-1) / METRE
    assert sides[plans.room_types == ROOM_TYPES.index("Bathroom")].min() >= 1.10
    assert 0.07 < np.isin(plans.relations, (INSIDE, SURROUNDING)).any((1, 2)).mean() < 0.13


def test_they_are_cached_apart_and_of_4_to_8_rooms() -> None:
    assert cache_file(10, livable=True) != cache_file(10)
    with pytest.raises(ValueError, match=r"data\.livable=true.*\[9, 20\]"):
        sample_plans(10, num_rooms=(9, 20), livable=True)


@pytest.mark.slow
def test_a_config_asks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    words = ["data.num_plans=40", "data.condition_on=[area]"]
    data = build_data(compose("train", [*words, "data.livable=true"]))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2  # plans, and the facts of their boxes
    assert all(name.endswith("-livable-v2.npz") for name in names)
    kept = sample_plans(40, livable=True).encode()
    assert sum(len(split) for split in data.splits.values()) == len(kept)
    other = build_data(compose("train", words))
    assert data.fingerprint() != other.fingerprint()


@pytest.mark.slow
def test_a_checkpoint_of_before_has_other_plans() -> None:
    """Its config has no such key."""
    config = compose("train", ["data.livable=true"]).data
    before = OmegaConf.create({k: v for k, v in config.items() if k != "livable"})
    own, others = training_areas(config), training_areas(before)
    rooms = (ROOM_TYPES.index("Bathroom"),) * 8
    assert own.draw(rooms, Random(0)) != others.draw(rooms, Random(0))

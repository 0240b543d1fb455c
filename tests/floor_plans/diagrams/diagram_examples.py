"""Diagrams that the tests of metrics share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from discrete_diffusion.layout import RELATIONS, ROOM_TYPES
from floor_plans import BubbleDiagram

ROOM = {name: code for code, name in enumerate(ROOM_TYPES)}
REL = {name: code for code, name in enumerate(RELATIONS)}
SOUND = BubbleDiagram((0, 1, 2), ((0, 1, REL["left-of"]), (1, 2, REL["above"])))


def diagram(rooms: str, *relations: tuple[int, int, str]) -> BubbleDiagram:
    """Rooms by name, relations by name."""
    return BubbleDiagram(
        tuple(ROOM[name] for name in rooms.split()), tuple((i, j, REL[r]) for i, j, r in relations)
    )


def graph(num_rooms: int, *pairs: tuple[int, int]) -> BubbleDiagram:
    """Living rooms, related where listed: only who is joined to whom matters."""
    return BubbleDiagram((0,) * num_rooms, tuple((i, j, REL["above"]) for i, j in pairs))


def random_diagram(
    rng: np.random.Generator, density: float = 0.45, num_types: int = len(ROOM_TYPES)
) -> BubbleDiagram:
    """One to eight rooms of random types with random relations."""
    n = int(rng.integers(1, 9))
    return BubbleDiagram(
        tuple(int(k) for k in rng.integers(0, num_types, n)),
        tuple(
            (i, j, int(rng.integers(0, 10)))
            for i in range(n)
            for j in range(i + 1, n)
            if rng.random() < density
        ),
    )


def random_diagrams(num: int, seed: int, **options) -> list[BubbleDiagram]:
    rng = np.random.default_rng(seed)
    return [random_diagram(rng, **options) for _ in range(num)]


def shuffled(diagrams: list[BubbleDiagram], seed: int) -> list[BubbleDiagram]:
    """The same diagrams, the rooms of each renumbered at random."""
    rng = np.random.default_rng(seed)
    return [d.relabelled(rng.permutation(d.num_rooms).tolist()) for d in diagrams]


@st.composite
def diagram_sets(draw):
    """A few diagrams of one to eight rooms, of many types or of two."""
    seed = draw(st.integers(0, 2**32 - 1))
    num_types = draw(st.sampled_from([2, len(ROOM_TYPES)]))
    density = draw(st.sampled_from([0.0, 0.3, 0.6, 1.0]))
    num = draw(st.integers(1, 12))
    return random_diagrams(num, seed, num_types=num_types, density=density)

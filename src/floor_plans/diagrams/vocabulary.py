"""Vocabularies of diagrams: all room types and relations, and the subsets that data sets use.

A code has the same meaning in every diagram. Plans drawn to scale have relations with directions;
plans known by walls and doors only have adjacency. ``data.relations`` names the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from discrete_diffusion.config import unknown_name
from floor_plans.diagrams import rooms
from floor_plans.diagrams.rooms import NO_EDGE

if TYPE_CHECKING:
    from discrete_diffusion.layout import VocabConfig

ROOM_TYPES = (*rooms.ROOM_TYPES, "Bedroom", "Outdoor", "Garage", "Other")
"""Room types by code 0..16: those of RPLAN, then coarser ones. A Bedroom is any bedroom, Outdoor a
balcony, a terrace or a yard."""

RELATIONS = (*rooms.RELATIONS, "adjacent", "door")
"""Relations by code 0..12: those of RPLAN, with "no-edge" (10), then two without direction: rooms
that share a wall, and rooms with a door or an opening between them."""

ROOM_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Bedroom": ("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom", "Bedroom"),
    "Outdoor": ("Balcony", "Outdoor"),
}
"""Groups of room types that every brief can name."""

ADJACENT, DOOR = map(RELATIONS.index, ("adjacent", "door"))

INVERSE = (*range(NO_EDGE - 1, -1, -1), NO_EDGE, ADJACENT, DOOR)
"""Inverse of each relation, read from the other room: 9 - r for the ten with a direction."""

RELATION_X_ORDER = (*rooms.RELATION_X_ORDER, 0, 0)
RELATION_Y_ORDER = (*rooms.RELATION_Y_ORDER, 0, 0)
"""Orders along both axes as in ``rooms``; 0 for relations without direction."""


@dataclass(frozen=True)
class PlanVocabulary:
    """Room types and relations of a data set.

    ``room_types``: in the order of their codes. ``relations``: likewise, without "no-edge".
    ``has_directions``: True if relations have directions, so that they can contradict each other
    and can be measured on boxes.
    """

    name: str
    room_types: tuple[str, ...]
    relations: tuple[str, ...]
    has_directions: bool

    def graph(self, n_max: int) -> VocabConfig:
        """Build the slots and token ids of diagrams with at most ``n_max`` rooms."""
        from discrete_diffusion.layout import VocabConfig

        edge_types = (*self.relations, RELATIONS[NO_EDGE])
        return VocabConfig(
            n_max=n_max,
            node_types=self.room_types,
            edge_types=edge_types,
            type_names=("room_types", "relations"),
        )

    def lacks(
        self, room_codes: Iterable[int | None], relations: Iterable[tuple[int, int, int]]
    ) -> tuple[str, str] | None:
        """Field and name of the first room or relation outside the vocabulary, else None."""
        for k, room in enumerate(room_codes):
            if room not in self._room_codes:
                assert room is not None
                return f"rooms[{k}]", ROOM_TYPES[room]
        for k, (_, _, r) in enumerate(relations):
            if r not in self._relation_codes:
                return f"relations[{k}]", RELATIONS[r]
        return None

    @cached_property
    def relation_codes(self) -> frozenset[int]:
        """Codes of its relations."""
        return frozenset(map(RELATIONS.index, self.relations))

    @cached_property
    def _room_codes(self) -> frozenset[int | None]:
        return frozenset((None, *map(ROOM_TYPES.index, self.room_types)))

    @cached_property
    def _relation_codes(self) -> frozenset[int]:
        return self.relation_codes | {NO_EDGE}


DIRECTIONS = PlanVocabulary(
    "directions", rooms.ROOM_TYPES, rooms.RELATIONS[:NO_EDGE], has_directions=True
)
"""Vocabulary of RPLAN."""

ADJACENCY = PlanVocabulary(
    "adjacency",
    (
        *("LivingRoom", "Kitchen", "Bathroom", "DiningRoom", "Entrance", "Storage"),
        *("Bedroom", "Outdoor", "Garage", "Other"),
    ),
    ("adjacent", "door"),
    has_directions=False,
)
"""Vocabulary of CubiGraph5K: adjacent rooms, with or without a door."""

VOCABULARIES = {vocabulary.name: vocabulary for vocabulary in (DIRECTIONS, ADJACENCY)}


def vocabulary_of_graph(graph: VocabConfig) -> PlanVocabulary:
    """Vocabulary with the types of a ``VocabConfig``; ``ValueError`` if there is none."""
    for vocabulary in VOCABULARIES.values():
        if (vocabulary.room_types, (*vocabulary.relations, RELATIONS[NO_EDGE])) == (
            graph.node_types,
            graph.edge_types,
        ):
            return vocabulary
    raise ValueError(f"no vocabulary of diagrams has the types {', '.join(graph.node_types)}")


def vocabulary_named(name: str) -> PlanVocabulary:
    """Vocabulary of a name; ``ValueError`` for an unknown one."""
    if name not in VOCABULARIES:
        raise ValueError(f"relations={name}: {unknown_name('vocabulary', name, VOCABULARIES)}")
    return VOCABULARIES[name]

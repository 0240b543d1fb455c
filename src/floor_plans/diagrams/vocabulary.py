"""Vocabularies of diagrams: all room types and relations, and the subsets that data sets use.

A code has the same meaning in every diagram. Plans drawn to scale have relations with directions;
plans known by walls and doors only have adjacency. ``data.relations`` names the vocabulary, and
``data.condition_on`` the facts of a plan that a model is conditioned on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import unknown_name
from discrete_diffusion.layout import RELATION_X_ORDER as RPLAN_X_ORDER
from discrete_diffusion.layout import RELATION_Y_ORDER as RPLAN_Y_ORDER
from discrete_diffusion.layout import RELATIONS as RPLAN_RELATIONS
from discrete_diffusion.layout import ROOM_TYPES as RPLAN_ROOM_TYPES

if TYPE_CHECKING:
    from discrete_diffusion.data import TypedGraph
    from discrete_diffusion.layout import VocabConfig

Triples = Sequence[tuple[int, int, int]]  # relations (i, j, code)

NO_EDGE = RPLAN_RELATIONS.index("no-edge")  # code of a pair without a relation

INSIDE, SURROUNDING = map(RPLAN_RELATIONS.index, ("inside", "surrounding"))

FORBIDDEN_INSIDE: dict[int, tuple[int, ...]] = {
    0: tuple(range(1, 12)),
    1: tuple(range(2, 12)),
    2: (1, 3, 5, 6, 7, 8, 9, 10, 11),
    3: (10,),
    4: (1, 3, 5, 8, 9, 10, 11),
    5: (2, 3, 4, 9, 10, 11),
    6: (3, 9, 10),
    7: (3, 9, 10),
    8: (3, 9, 10),
    9: (2, 3, 6, 10, 11),
    10: (1, 2, 3, 4, 5, 6, 7, 8, 9, 11),
    11: (9,),
}
"""Outer room types that an inner type never lies in, 69 pairs; 99.78 % of 80,788 real plans obey
them. Master rooms inside living rooms (6.6 % of plans) are allowed."""

ROOM_TYPES = (*RPLAN_ROOM_TYPES, "Bedroom", "Outdoor", "Garage", "Other")
"""Room types by code 0..16: types of RPLAN, then coarser types. A Bedroom is any bedroom, Outdoor a
balcony, a terrace or a yard."""

RELATIONS = (*RPLAN_RELATIONS, "adjacent", "door")
"""Relations by code 0..12: RPLAN's relations and "no-edge" (10), then two without direction: rooms
that share a wall, and rooms with a door or an opening between them."""

ROOM_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Bedroom": ("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom", "Bedroom"),
    "Outdoor": ("Balcony", "Outdoor"),
}
"""Groups of room types that every brief can name."""

ADJACENT, DOOR = map(RELATIONS.index, ("adjacent", "door"))

INVERSE = (*range(NO_EDGE - 1, -1, -1), NO_EDGE, ADJACENT, DOOR)
"""Inverse of each relation, read from the other room: 9 - r for the ten with a direction."""

RELATION_X_ORDER = (*RPLAN_X_ORDER, 0, 0)
RELATION_Y_ORDER = (*RPLAN_Y_ORDER, 0, 0)
"""Orders of two rooms along both axes by relation, as in ``discrete_diffusion.layout``; 0 for
relations without direction."""

_CONTAINMENT = tuple({"inside": -1, "surrounding": 1}.get(name, 0) for name in RELATIONS)
ORDERS = (("left of", RELATION_X_ORDER), ("above", RELATION_Y_ORDER), ("inside", _CONTAINMENT))
"""Orders by name, each with a sign for every relation code of rooms i and j: -1 if i comes before
j, 1 if j comes before i, 0 if neither."""


@dataclass(frozen=True)
class PlanVocabulary:
    """Room types and relations of a data set, in the order of their codes, without "no-edge".
    ``has_directions``: True if relations have directions, so that they can contradict each other
    and can be measured on boxes."""

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

    def lacks(self, room_codes: Iterable[int | None], relations: Triples) -> tuple[str, str] | None:
        """Field and name of the first room or relation outside the vocabulary, else None."""
        for k, room in enumerate(room_codes):
            if room not in self._room_codes:
                assert room is not None
                return f"rooms[{k}]", ROOM_TYPES[room]
        for k, (_, _, r) in enumerate(relations):
            if r not in self.relation_codes and r != NO_EDGE:
                return f"relations[{k}]", RELATIONS[r]
        return None

    @cached_property
    def relation_codes(self) -> frozenset[int]:
        """Codes of its relations."""
        return frozenset(map(RELATIONS.index, self.relations))

    @cached_property
    def _room_codes(self) -> frozenset[int | None]:
        return frozenset((None, *map(ROOM_TYPES.index, self.room_types)))


DIRECTIONS = PlanVocabulary(
    "directions", RPLAN_ROOM_TYPES, RPLAN_RELATIONS[:NO_EDGE], has_directions=True
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
    types = graph.node_types, graph.edge_types
    for vocabulary in VOCABULARIES.values():
        if types == (vocabulary.room_types, (*vocabulary.relations, RELATIONS[NO_EDGE])):
            return vocabulary
    raise ValueError(f"no vocabulary of diagrams has the types {', '.join(graph.node_types)}")


def vocabulary_named(name: str) -> PlanVocabulary:
    """Vocabulary of a name; ``ValueError`` for an unknown one."""
    if name not in VOCABULARIES:
        raise ValueError(f"relations={name}: {unknown_name('vocabulary', name, VOCABULARIES)}")
    return VOCABULARIES[name]


@dataclass(frozen=True)
class Codes:
    """Room code of each node type of a ``VocabConfig``, and relation code of each edge type."""

    rooms: tuple[int, ...]
    relations: tuple[int, ...]

    @cached_property
    def node_types(self) -> dict[int, int]:
        """Index of the node type of each room code."""
        return {code: k for k, code in enumerate(self.rooms)}

    @cached_property
    def edge_types(self) -> dict[int, int]:
        """Index of the edge type of each relation code."""
        return {code: k for k, code in enumerate(self.relations)}

    def graph(self, rooms: Sequence[int], relations: Triples, number: int) -> TypedGraph:
        """Convert diagram ``number`` to a graph of types; ``ValueError`` for an unknown type."""
        from discrete_diffusion.data import TypedGraph

        nodes, edges = self.node_types, self.edge_types
        try:
            types = tuple(nodes[room] for room in rooms)
            return TypedGraph(types, tuple((i, j, edges[r]) for i, j, r in relations))
        except KeyError:
            names = {ROOM_TYPES[room] for room in {*rooms} - {*nodes}}
            names |= {RELATIONS[r] for r in {r for _, _, r in relations} - {*edges}}
            raise ValueError(
                f"diagram {number} has {', '.join(sorted(names))}; the vocabulary has "
                f"{', '.join(ROOM_TYPES[code] for code in self.rooms)} and "
                f"{', '.join(RELATIONS[code] for code in self.relations)}"
            ) from None


@lru_cache
def codes_of(vocab: VocabConfig) -> Codes:
    """Codes of a vocabulary, cached; ``ValueError`` if it has types that no diagram has."""
    # all types are those of diagrams, "no-edge" is last
    known = {*vocab.node_types} <= {*ROOM_TYPES} and {*vocab.edge_types} <= {*RELATIONS}
    if not known or vocab.edge_types[-1] != RELATIONS[NO_EDGE]:
        expected = "the vocabulary of rooms and relations, VocabConfig(n_max=...)"
        got = f"{vocab.num_node_types} node types and {vocab.num_edge_types} edge types"
        raise ValueError(f"a bubble diagram needs {expected}; got {got}")
    rooms = tuple(map(ROOM_TYPES.index, vocab.node_types))
    return Codes(rooms, tuple(map(RELATIONS.index, vocab.edge_types)))


OF_ROOMS = ("num_rooms", "counts")  # facts of the rooms of a diagram
OF_PLANS = ("area", "outline", "front_door")  # facts of a plan with boxes

GRID, CELL = 20, 1.0
"""Cells per side of the grid of an outline, around its bounding box, and their size in metres."""


def fact_names(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of ``data.condition_on``, in the order of our facts; ``ValueError`` if unknown."""
    asked, known = data.get("condition_on") or (), (*OF_ROOMS, *OF_PLANS)
    for name in [asked] if isinstance(asked, str) else asked:
        if name not in known:
            raise ValueError(f"data.condition_on: {unknown_name('fact', str(name), known)}")
    return tuple(name for name in known if name in asked)


def room_kinds(types: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the type ids of every room type and every group of room types, by name."""
    found: dict[str, tuple[int, ...]] = {name: (k,) for k, name in enumerate(types)}
    for name, members in ROOM_GROUPS.items():
        ids = tuple(types.index(each) for each in members if each in types)
        if len(ids) > 1:
            found[name] = ids
    return found


def sizes_of(name: str, n_max: int, types: Sequence[str]) -> tuple[int, ...]:
    """Return how many numbers encode each fact of this name."""
    one_hot = n_max + 1
    return {
        "num_rooms": (one_hot,),
        "counts": (one_hot,) * len(room_kinds(types)),
        "area": (1,),
        "outline": (GRID * GRID + 2,),
        "front_door": (2,),
    }[name]


def fact_sizes(data: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how many numbers encode each fact of a ``config.data``."""
    types = vocabulary_named(data.get("relations", DIRECTIONS.name)).room_types
    names = fact_names(data)
    return tuple(size for name in names for size in sizes_of(name, data["max_nodes"], types))

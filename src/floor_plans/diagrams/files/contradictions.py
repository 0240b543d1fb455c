"""Relations that cannot hold together, named by where they are stated."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, NoReturn

from floor_plans.diagrams.files.fields import DiagramError, inverse_relation
from floor_plans.diagrams.vocabulary import RELATION_X_ORDER, RELATION_Y_ORDER, RELATIONS

_CONTAINMENT = tuple({"inside": -1, "surrounding": 1}.get(name, 0) for name in RELATIONS)
ORDERS = (
    ("left of", RELATION_X_ORDER),
    ("above", RELATION_Y_ORDER),
    ("inside", _CONTAINMENT),
)
"""Orders by name, each with a table: -1 states it of room i and room j, 1 of j and i, 0 states
nothing."""


class StatedRelation(NamedTuple):
    """ "room ``i`` is ``RELATIONS[code]`` room ``j``", as given in ``field``, if that says so."""

    field: str
    i: int
    j: int
    code: int

    def __str__(self) -> str:
        wording = f"room {self.i} {RELATIONS[self.code]} room {self.j}"
        return f"{self.field} ({wording})" if self.field else wording

    @property
    def pair(self) -> tuple[int, int]:
        """The two rooms, the smaller number first."""
        return min(self.i, self.j), max(self.i, self.j)

    def seen_from(self, room: int) -> int:
        """The relation's code with ``room``, one of the two, named first."""
        return self.code if room == self.i else inverse_relation(self.code)


def check_contradictions(stated: Iterable[StatedRelation]) -> None:
    """``DiagramError`` for the first relation that contradicts those before it.

    That is a second relation of a pair, and one that closes a cycle: of rooms each left of the
    next, above the next, or inside the next.
    """
    import networkx

    by_pair: dict[tuple[int, int], StatedRelation] = {}
    graphs = [networkx.DiGraph() for _ in ORDERS]
    for relation in stated:
        if relation.pair in by_pair:
            _refuse_second(relation, by_pair[relation.pair])
        by_pair[relation.pair] = relation
        for (what, signs), graph in zip(ORDERS, graphs, strict=True):
            if signs[relation.code] == 0:
                continue
            ends = relation.i, relation.j
            first, second = ends if signs[relation.code] < 0 else ends[::-1]
            graph.add_edge(first, second, relation=relation)
            if networkx.has_path(graph, second, first):
                way = pairwise(networkx.shortest_path(graph, second, first))
                others = ", ".join(str(graph.edges[arc]["relation"]) for arc in way)
                raise DiagramError(
                    relation.field,
                    f"room {relation.i} {RELATIONS[relation.code]} room {relation.j} contradicts "
                    f"{others}: room {first} would be {what} itself",
                )


def _refuse_second(relation: StatedRelation, before: StatedRelation) -> NoReturn:
    name = RELATIONS[relation.code]
    wording = RELATIONS[before.seen_from(relation.i)]
    rooms = f"rooms {relation.i} and {relation.j}"
    if wording == name:
        raise DiagramError(relation.field, f"{rooms} are listed twice, see {before.field}")
    raise DiagramError(relation.field, f"{rooms}: {name}, but {before.field} says {wording}")

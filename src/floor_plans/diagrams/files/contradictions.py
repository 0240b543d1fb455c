"""Contradictory relations of a diagram, named by the fields that state them."""

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
"""Orders by name, each with a sign for every relation code of rooms i and j: -1 if i comes before
j, 1 if j comes before i, 0 if neither."""


class StatedRelation(NamedTuple):
    """The statement "room ``i`` is ``RELATIONS[code]`` room ``j``" in ``field``, empty if none."""

    field: str
    i: int
    j: int
    code: int

    def __str__(self) -> str:
        wording = f"room {self.i} {RELATIONS[self.code]} room {self.j}"
        return f"{self.field} ({wording})" if self.field else wording

    @property
    def pair(self) -> tuple[int, int]:
        """Both rooms, the smaller number first."""
        return min(self.i, self.j), max(self.i, self.j)

    def seen_from(self, room: int) -> int:
        """Code of the relation read from ``room``, one of the two."""
        return self.code if room == self.i else inverse_relation(self.code)


def check_contradictions(stated: Iterable[StatedRelation]) -> None:
    """Refuse the first relation that contradicts earlier ones, by ``DiagramError``.

    Contradictions are a second relation of a pair, and a cycle of rooms that are each left of,
    above, or inside the next.
    """
    import networkx

    by_pair: dict[tuple[int, int], StatedRelation] = {}
    graphs = [networkx.DiGraph() for _ in ORDERS]
    for relation in stated:
        if relation.pair in by_pair:
            _refuse_second(relation, by_pair[relation.pair])
        by_pair[relation.pair] = relation
        # add an arc to the graph of each order, and look for a path back
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

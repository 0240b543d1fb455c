"""Many bubble diagrams as a few flat arrays, so that metrics are vector operations.

Axes: ``M`` diagrams, ``R`` rooms of all diagrams, ``E`` listed relations of all diagrams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class DiagramArrays:
    """``num_rooms``: Int[M]. ``rooms``: Int[R] room type codes, diagram after diagram.

    ``owner``: Int[R], the diagram of each room.
    ``source``, ``target``: Int[E], the ends i and j of each relation, numbered *within* their
        diagram; ``relation``: Int[E], its code 0..9; ``diagram``: Int[E], where it belongs.
    """

    num_rooms: Ints
    rooms: Ints
    owner: Ints
    source: Ints
    target: Ints
    relation: Ints
    diagram: Ints

    @classmethod
    def pack(cls, diagrams: Sequence[BubbleDiagram]) -> DiagramArrays:
        """Raises ``ValueError`` without a diagram: no share or histogram is defined then."""
        if len(diagrams) == 0:
            raise ValueError("no diagrams to measure: metrics need at least one")
        num_rooms = np.array([len(d.rooms) for d in diagrams], dtype=np.int64)
        num_relations = [len(d.relations) for d in diagrams]
        rooms = np.fromiter(chain.from_iterable(d.rooms for d in diagrams), dtype=np.int64)
        triples = chain.from_iterable(chain.from_iterable(d.relations for d in diagrams))
        edges = np.fromiter(triples, dtype=np.int64).reshape(-1, 3)
        index = np.arange(len(diagrams))
        return cls(
            num_rooms=num_rooms,
            rooms=rooms,
            owner=index.repeat(num_rooms),
            source=edges[:, 0],
            target=edges[:, 1],
            relation=edges[:, 2],
            diagram=index.repeat(num_relations),
        )

    def __len__(self) -> int:
        return len(self.num_rooms)

    def select(self, rows: Ints) -> DiagramArrays:
        """The diagrams ``rows``: Int[K], in that order; a diagram may be picked twice."""
        num_relations = self.num_relations
        room = _spans(self.first_room[rows], self.num_rooms[rows])
        first_relation = num_relations.cumsum() - num_relations
        edge = _spans(first_relation[rows], num_relations[rows])
        index = np.arange(len(rows))
        return DiagramArrays(
            num_rooms=self.num_rooms[rows],
            rooms=self.rooms[room],
            owner=index.repeat(self.num_rooms[rows]),
            source=self.source[edge],
            target=self.target[edge],
            relation=self.relation[edge],
            diagram=index.repeat(num_relations[rows]),
        )

    @property
    def num_relations(self) -> Ints:
        """Int[M]: listed relations of each diagram."""
        return np.bincount(self.diagram, minlength=len(self))

    @property
    def source_type(self) -> Ints:
        """Int[E]: room type of the end i of each relation."""
        return self.rooms[self.first_room[self.diagram] + self.source]

    @property
    def target_type(self) -> Ints:
        """Int[E]: room type of the end j of each relation."""
        return self.rooms[self.first_room[self.diagram] + self.target]

    @property
    def first_room(self) -> Ints:
        """Int[M]: where the rooms of each diagram start in ``rooms``."""
        return self.num_rooms.cumsum() - self.num_rooms

    @property
    def degree(self) -> Ints:
        """Int[R]: listed relations of each room."""
        first = self.first_room[self.diagram]
        ends = np.concatenate([first + self.source, first + self.target])
        return np.bincount(ends, minlength=len(self.rooms))

    def neighbours(self) -> NDArray[np.bool_]:
        """Bool[M, n, n], symmetric: True where two rooms are related, whatever the relation."""
        arcs = self.adjacency(self.source, self.target, self.diagram)
        return np.logical_or(arcs, arcs.swapaxes(1, 2))

    def adjacency(self, source: Ints, target: Ints, diagram: Ints) -> NDArray[np.bool_]:
        """Bool[M, n, n] with n the largest room count: True where an arc source -> target is."""
        size = int(self.num_rooms.max())
        arcs = np.zeros((len(self), size, size), dtype=bool)
        arcs[diagram, source, target] = True
        return arcs


def _spans(starts: Ints, lengths: Ints) -> Ints:
    """The integers starts[k] .. starts[k] + lengths[k] - 1 of every k, one span after another."""
    before = lengths.cumsum() - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def reachable(arcs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Transitive closure of Bool[M, n, n]: True where a path of one or more arcs leads i to j."""
    closure = arcs.copy()
    for k in range(arcs.shape[1]):
        closure |= closure[:, :, k, None] & closure[:, k, None, :]
    return closure

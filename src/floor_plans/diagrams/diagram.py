"""``BubbleDiagram``: rooms of a floor plan and the relations between them."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from floor_plans.diagrams import vocabulary
from floor_plans.diagrams.files import code_tables, fields
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.vocabulary import INVERSE, RELATIONS, ROOM_TYPES, PlanVocabulary, Triples

_RESERVED_KEYS = ("rooms", "relations", "boxes", code_tables.CODES_FIELD)
_ROOMS_NAMED, _RELATIONS_NAMED = 12, 8  # most rooms and relations that a ``repr`` names


@dataclass(frozen=True, repr=False)
class BubbleDiagram:
    """A floor plan as a graph.

    Args:
        rooms: room type codes (``vocabulary.ROOM_TYPES``), one per room.
        relations: triples (i, j, r) with i < j, sorted: "room i is RELATIONS[r] room j"; a pair
            that is not listed has no relation. All are of one vocabulary.
        boxes: optional (x0, y0, x1, y1) per room, y downwards, any unit.
        metadata: anything else worth keeping; ignored by equality.

    Raises:
        DiagramError: a ``ValueError`` that names the wrong field.
    """

    rooms: tuple[int, ...]
    relations: tuple[tuple[int, int, int], ...]
    boxes: tuple[tuple[float, float, float, float], ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)

    def __repr__(self) -> str:
        """Text such as ``BubbleDiagram(LivingRoom, Kitchen; LivingRoom left-of Kitchen)``."""
        return f"BubbleDiagram({named_parts(self.rooms, self.relations)})"

    def _repr_svg_(self) -> str:
        """SVG picture for notebooks."""
        from floor_plans.diagrams.pictures.diagram_pictures import svg_of_grid

        return svg_of_grid([self], legend=False, cell=3.0)

    def plot(self, path: str | Path) -> None:
        """Plot the diagram into a file.

        Args:
            path: name of a ``.png`` or ``.svg`` file.

        Raises:
            ValueError: the path has another suffix.
        """
        from floor_plans.diagrams.pictures.diagram_pictures import plot_diagram

        plot_diagram(self, path)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rooms", fields.checked_rooms(self.rooms))
        n = len(self.rooms)
        object.__setattr__(self, "relations", fields.checked_relations(self.relations, n))
        fields.vocabulary_of(self.rooms, self.relations)
        if self.boxes is not None:
            object.__setattr__(self, "boxes", fields.checked_boxes(self.boxes, n))
        for key in _RESERVED_KEYS:
            if key in self.metadata:
                raise DiagramError("metadata", f"the key {key!r} is taken by the diagram itself")

    @classmethod
    def from_checked(
        cls,
        rooms: tuple[int, ...],
        relations: tuple[tuple[int, int, int], ...],
        boxes: tuple[tuple[float, float, float, float], ...] | None = None,
    ) -> BubbleDiagram:
        """Build a diagram without checks, from fields that are known to be valid.

        Args:
            rooms: codes of types of one vocabulary.
            relations: triples of Python integers, sorted by pair, each pair once.
            boxes: (x0, y0, x1, y1) of floats, with positive width and height.

        Returns:
            The same diagram as the constructor, in less time.
        """
        diagram = cls.__new__(cls)
        for name, value in (("rooms", rooms), ("relations", relations), ("boxes", boxes)):
            object.__setattr__(diagram, name, value)
        object.__setattr__(diagram, "metadata", {})
        return diagram

    @property
    def num_rooms(self) -> int:
        """Number of rooms."""
        return len(self.rooms)

    @property
    def vocabulary(self) -> PlanVocabulary:
        """First vocabulary that has all its rooms and relations."""
        return fields.vocabulary_of(self.rooms, self.relations)

    @property
    def room_names(self) -> tuple[str, ...]:
        """Names of the room types, one per room."""
        return tuple(ROOM_TYPES[room] for room in self.rooms)

    def relabelled(self, order: Sequence[int]) -> BubbleDiagram:
        """Renumber the rooms.

        Relations and boxes follow; a relation is reversed if its rooms change order. Metadata is
        kept unchanged.

        Args:
            order: a permutation of the rooms: new room k is old room ``order[k]``.

        Returns:
            A new diagram.

        Raises:
            ValueError: ``order`` is not a permutation of the rooms.
        """
        order = [int(old) for old in order]
        if sorted(order) != list(range(self.num_rooms)):
            raise ValueError(f"order={order} is not a permutation of 0..{self.num_rooms - 1}")
        new = {old: k for k, old in enumerate(order)}
        rooms = tuple(self.rooms[old] for old in order)
        relations = tuple(
            (new[i], new[j], r) if new[i] < new[j] else (new[j], new[i], INVERSE[r])
            for i, j, r in self.relations
        )
        boxes = None if self.boxes is None else tuple(self.boxes[old] for old in order)
        return BubbleDiagram(rooms, relations, boxes, self.metadata)

    def canonical_key(self) -> Hashable:
        """Key that two diagrams share iff they are equal up to relabelling (boxes ignored).

        Returns:
            Anything hashable.
        """
        from discrete_diffusion.data import canonical_order

        vocab = self.vocabulary.graph(self.num_rooms)
        codes = vocabulary.codes_of(vocab)
        nodes, edges = codes.graph(self.rooms, self.relations, 0)
        # relation of every ordered pair, "no-edge" by default
        pairs = np.full((self.num_rooms, self.num_rooms), vocab.no_edge)
        for (i, j, r), (_, _, edge) in zip(self.relations, edges, strict=True):
            pairs[i, j], pairs[j, i] = edge, codes.edge_types[INVERSE[r]]
        relabelled = self.relabelled(canonical_order(np.array(nodes), pairs, vocab))
        return relabelled.rooms, relabelled.relations

    def to_json(self, *, names: bool = True) -> dict[str, Any]:
        """Convert to the interchange object {"rooms", "relations", "boxes" if known, **metadata}.

        Args:
            names: write room types and relations by name; otherwise write codes, and the name of
                their table under "codes".

        Returns:
            An object that ``json.dumps`` accepts.

        Raises:
            ValueError: ``names`` is False and the table lacks a room or relation.
        """
        table = code_tables.OUR_TABLE
        if not names and (lacking := vocabulary.DIRECTIONS.lacks(self.rooms, self.relations)):
            field, word = lacking
            raise ValueError(f"{field}: {word!r} has no code in the table {table}; write names")
        data: dict[str, Any] = {
            "rooms": list(self.room_names if names else self.rooms),
            "relations": [[i, j, RELATIONS[r] if names else r] for i, j, r in self.relations],
        }
        if not names:
            data[code_tables.CODES_FIELD] = table
        if self.boxes is not None:
            data["boxes"] = [list(box) for box in self.boxes]
        return data | dict(self.metadata)

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], *, codes: str = code_tables.OUR_TABLE
    ) -> BubbleDiagram:
        """Read an interchange object (see ``to_json``): names or codes, pairs in either order.

        Pairs with "no-edge" are dropped; keys other than rooms, relations, boxes and codes become
        metadata.

        Args:
            data: the object.
            codes: the table of room codes (``CODE_TABLES``) where the object names none.

        Returns:
            The diagram.

        Raises:
            DiagramError: a ``ValueError`` that names the wrong field.
        """
        if not isinstance(data, Mapping):
            raise DiagramError("diagram", f"expected an object, got {reprlib.repr(data)}")
        for key in ("rooms", "relations"):
            if key not in data:
                raise DiagramError(key, "missing; a diagram has the fields 'rooms' and 'relations'")
        data = code_tables.translate_codes(data, codes)
        rooms = fields.read_rooms(data["rooms"])
        boxes = data.get("boxes")
        if boxes is not None and not isinstance(boxes, list | tuple):
            raise DiagramError("boxes", f"expected a list of boxes, got {reprlib.repr(boxes)}")
        relations = fields.read_relations(data["relations"], len(rooms), "relations")
        # plans with directions distinguish numbered bedrooms by size
        if any(r < vocabulary.NO_EDGE for _, _, r in relations):  # or any bedroom is a Bedroom
            areas = None if boxes is None else partial(code_tables.areas_of, boxes)
            rooms = fields.read_rooms(code_tables.number_bedrooms(data["rooms"], areas))
        metadata = {key: value for key, value in data.items() if key not in _RESERVED_KEYS}
        return cls(rooms, relations, None if boxes is None else tuple(boxes), metadata)


def named_parts(rooms: Sequence[int | None], relations: Triples) -> str:
    """Text of rooms and relations by name, with numbers for repeated types and ``?`` for None."""
    types = ["?" if room is None else ROOM_TYPES[room] for room in rooms]
    # number rooms of a type that occurs several times
    numbers = {name: count(1) for name in types}
    names = [f"{x} {next(numbers[x])}" if types.count(x) > 1 else x for x in types]
    related = [f"{names[i]} {RELATIONS[r]} {names[j]}" for i, j, r in relations]
    parts = []
    for texts, most in ((names, _ROOMS_NAMED), (related, _RELATIONS_NAMED)):
        more = [f"... {len(texts) - most} more"] if len(texts) > most else []
        parts.append(", ".join([*texts[:most], *more]))
    return "; ".join(filter(None, parts))

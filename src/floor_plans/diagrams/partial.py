"""``PartialDiagram``: a bubble diagram with unknown rooms or relations."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discrete_diffusion.data import count_nodes
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans.diagrams import vocabulary
from floor_plans.diagrams.diagram import BubbleDiagram, named_parts
from floor_plans.diagrams.files import code_tables, fields
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.foreign_files import check_keys, check_metadata, check_spelling
from floor_plans.diagrams.vocabulary import NO_EDGE, RELATIONS, ROOM_TYPES, PlanVocabulary, codes_of


class StatedRelation(NamedTuple):
    """Statement "room ``i`` is ``RELATIONS[code]`` room ``j``", in a ``field`` if it is stated."""

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
        return self.code if room == self.i else vocabulary.INVERSE[self.code]


def check_contradictions(stated: Iterable[StatedRelation]) -> None:
    """Raise ``DiagramError`` for the first relation that contradicts earlier ones: a second one of
    a pair, or one that closes a cycle of rooms each left of, above, or inside the next."""
    import networkx

    by_pair: dict[tuple[int, int], StatedRelation] = {}
    graphs = [networkx.DiGraph() for _ in vocabulary.ORDERS]
    for relation in stated:
        # a second relation of a pair
        if (before := by_pair.get(relation.pair)) is not None:
            name, rooms = RELATIONS[relation.code], f"rooms {relation.i} and {relation.j}"
            wording = RELATIONS[before.seen_from(relation.i)]
            reason = f"{rooms}: {name}, but {before.field} says {wording}"
            if wording == name:
                reason = f"{rooms} are listed twice, see {before.field}"
            raise DiagramError(relation.field, reason)
        by_pair[relation.pair] = relation
        # add an arc to the graph of each order, and look for a path back
        for (what, signs), graph in zip(vocabulary.ORDERS, graphs, strict=True):
            if signs[relation.code] == 0:
                continue
            ends = relation.i, relation.j
            first, second = ends if signs[relation.code] < 0 else ends[::-1]
            graph.add_edge(first, second, relation=relation)
            if networkx.has_path(graph, second, first):
                way = pairwise(networkx.shortest_path(graph, second, first))
                others = ", ".join(str(graph.edges[arc]["relation"]) for arc in way)
                wording = str(relation._replace(field=""))
                reason = f"{wording} contradicts {others}: room {first} would be {what} itself"
                raise DiagramError(relation.field, reason)


_FIELDS = ("rooms", "relations")
_NO_BOXES = (
    "a partial diagram has none: they fix the relation of every pair of rooms, and would not be "
    "those of its completions; leave them out (discrete-diffusion data convert reads relations off "
    "boxes)"
)


@dataclass(frozen=True, repr=False)
class PartialDiagram:
    """A bubble diagram with unknown rooms or relations.

    ``rooms``: a room type code per room, None if unknown.
    ``relations``: as of ``BubbleDiagram``; code 10 ("no-edge") means no relation, and a pair that
        is not listed is unknown.
    ``metadata``: anything else worth keeping; ignored by equality. ``boxes`` are refused, since
        they determine the relation of every pair.

    Relations may contradict each other, as in states of a sampler; ``from_json`` refuses them.
    Raises ``DiagramError`` (a ``ValueError``) naming the wrong field.
    """

    rooms: tuple[int | None, ...]
    relations: tuple[tuple[int, int, int], ...]
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)

    def __repr__(self) -> str:
        return f"PartialDiagram({named_parts(self.rooms, self.relations)})"

    def __post_init__(self) -> None:
        n = len(self.rooms)
        if n == 0:
            raise DiagramError("rooms", "a diagram needs at least one room")
        for k, room in enumerate(self.rooms):
            fields.check_code(room or 0, len(ROOM_TYPES), "room type", f"rooms[{k}]")
        for k, (i, j, r) in enumerate(self.relations):
            if not (0 <= i < j < n and 0 <= r < len(RELATIONS)):
                expected = f"expected i < j < {n} rooms and a code 0..{len(RELATIONS) - 1}"
                raise DiagramError(f"relations[{k}]", f"({i}, {j}, {r}): {expected}")
        if len({(i, j) for i, j, _ in self.relations}) < len(self.relations):
            raise DiagramError("relations", "a pair of rooms is listed twice")
        fields.vocabulary_of(self.rooms, self.relations)
        if "boxes" in self.metadata:
            raise DiagramError("boxes", _NO_BOXES)
        object.__setattr__(self, "relations", tuple(sorted(self.relations)))

    @property
    def num_rooms(self) -> int:
        return len(self.rooms)

    @property
    def vocabulary(self) -> PlanVocabulary:
        """First vocabulary that has all known rooms and relations."""
        return fields.vocabulary_of(self.rooms, self.relations)

    @property
    def is_complete(self) -> bool:
        """True if all rooms and relations are known."""
        n = self.num_rooms
        return None not in self.rooms and len(self.relations) == n * (n - 1) // 2

    @classmethod
    def from_diagram(cls, diagram: BubbleDiagram) -> PartialDiagram:
        """Convert a diagram, without its boxes; pairs without a relation become "no-edge"."""
        codes = {(i, j): r for i, j, r in diagram.relations}
        pairs = combinations(range(diagram.num_rooms), 2)
        relations = tuple((*pair, codes.get(pair, NO_EDGE)) for pair in pairs)
        return cls(diagram.rooms, relations, diagram.metadata)

    def agrees_with(self, diagram: BubbleDiagram) -> bool:
        """True if the diagram has every known room and relation, under the same room numbers."""
        codes = {(i, j): r for i, j, r in diagram.relations}
        return (
            self.num_rooms == diagram.num_rooms
            and all(a in (None, b) for a, b in zip(self.rooms, diagram.rooms, strict=True))
            and all(codes.get((i, j), NO_EDGE) == r for i, j, r in self.relations)
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to an object for ``from_json``, with names, and null for unknown rooms."""
        return {
            "rooms": [None if room is None else ROOM_TYPES[room] for room in self.rooms],
            "relations": [[i, j, RELATIONS[r]] for i, j, r in self.relations],
            **self.metadata,
        }

    @classmethod
    def from_json(
        cls,
        data: Mapping[str, Any],
        *,
        codes: str = code_tables.OUR_TABLE,
        may_contradict: bool = False,
    ) -> PartialDiagram:
        """Read an interchange object with names or codes, of the table ``codes`` if it names none.

        A room may be null. A relation, or all of ``relations``, may be null as well, which leaves
        pairs unknown. Pairs may be given in either order. Other keys become metadata. A code for
        any bedroom is accepted only for the single bedroom of a plan without null rooms and without
        a MasterRoom. Raises ``DiagramError`` naming a wrong or misspelt field, and a contradictory
        one unless relations ``may_contradict`` each other.
        """
        if not isinstance(data, Mapping):
            raise DiagramError("", f"expected a JSON object, got {reprlib.repr(data)}")
        # spelling and codes are checked before values
        check_keys(data)
        check_spelling(data, _FIELDS)
        _check_bedrooms(data.get("rooms"), code_tables.own_table(data) or codes)
        data = code_tables.translate_codes(data, codes)
        rooms = [
            None if room is None else fields.room_code(room, f"rooms[{k}]")
            for k, room in enumerate(fields.required_list(data, "rooms"))
        ]
        if not rooms:
            raise DiagramError("rooms", "a diagram needs at least one room; null is an unknown one")
        # relations, null for unknown ones
        triples = [] if data.get("relations") is None else fields.required_list(data, "relations")
        stated = []
        for k, triple in enumerate(triples):
            where = f"relations[{k}]"
            i, j, name = fields.read_triple(triple, len(rooms), where)
            if name is not None:
                stated.append(StatedRelation(where, i, j, fields.relation_code(name, where)))
        # consistency, and metadata that JSON can write
        if not may_contradict:
            check_contradictions(stated)
        metadata = {key: data[key] for key in data if key not in _FIELDS}
        check_metadata(metadata)
        relations = tuple((*s.pair, s.seen_from(s.pair[0])) for s in stated)
        return cls(tuple(rooms), relations, metadata)


def _check_bedrooms(rooms: object, codes: str) -> None:
    """Raise ``DiagramError`` for a code that means any bedroom, unless it is the only bedroom."""
    if not isinstance(rooms, list):
        return
    known = code_tables.CODE_TABLES[codes].known
    kinds = [known.get(room) if type(room) is int else None for room in rooms]
    bedrooms = [k for k, kind in enumerate(kinds) if kind == code_tables.BEDROOM]
    types = [fields.room_type_of(room, ROOM_TYPES) for room in rooms if isinstance(room, str)]
    if not bedrooms or (len(bedrooms) == 1 and None not in rooms and "MasterRoom" not in types):
        return
    reason = f"code {rooms[bedrooms[0]]} of {codes} is any bedroom, but the largest of a plan is "
    reason += "its MasterRoom, and the line does not say which that is"
    remedy = 'write "MasterRoom" or "SecondRoom", or null for either'
    raise DiagramError(f"rooms[{bedrooms[0]}]", f"{reason}; {remedy}")


def encode_partial(
    partials: Sequence[PartialDiagram], vocab: VocabConfig = RPLAN_VOCAB_CONFIG
) -> Tensor:
    """Encode partial diagrams as tokens Int64[B, L]; unknown rooms and relations are MASK.
    Positions are those of ``encode``. Raises ``ValueError`` for more than ``vocab.n_max`` rooms."""
    num_rooms = torch.tensor([partial.num_rooms for partial in partials], dtype=torch.long)
    tokens = torch.where(vocab.real_positions(num_rooms), vocab.mask_id, vocab.pad_id)
    codes = codes_of(vocab)
    for row, partial in zip(tokens, partials, strict=True):
        for k, room in enumerate(partial.rooms):
            if room is not None:
                row[k] = codes.node_types[room]
        for i, j, r in partial.relations:
            row[vocab.edge_position(i, j)] = vocab.edge_offset + codes.edge_types[r]
    return tokens


def decode_partial(tokens: Tensor, vocab: VocabConfig = RPLAN_VOCAB_CONFIG) -> list[PartialDiagram]:
    """Decode tokens Int[B, L], where MASK is unknown; the inverse of ``encode_partial``. Raises
    ``ValueError`` for another shape or dtype, and naming sample, position and id of a wrong one."""
    num_rooms = count_nodes(tokens, vocab)
    tokens = tokens.cpu()
    real, unknown = vocab.real_positions(num_rooms), tokens == vocab.mask_id
    # check the tokens; unknown ones count as any legal id
    layout = vocab.layout()
    layout.check(torch.where(unknown & real, layout.support.long().argmax(dim=1), tokens), real)
    pairs = list(enumerate(vocab.endpoints, start=vocab.n_max))
    codes, partials = codes_of(vocab), []
    for row, n in zip(tokens.tolist(), num_rooms.tolist(), strict=True):
        rooms = tuple(None if id == vocab.mask_id else codes.rooms[id] for id in row[:n])
        known = [(i, j, row[k]) for k, (i, j) in pairs if j < n and row[k] != vocab.mask_id]
        relations = tuple((i, j, codes.relations[id - vocab.edge_offset]) for i, j, id in known)
        partials.append(PartialDiagram(rooms, relations))
    return partials

"""``Brief``: what a floor plan must have, stated of its bubble diagram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from discrete_diffusion.domains.bubble_diagrams.rooms import NO_EDGE
from discrete_diffusion.domains.bubble_diagrams.vocabulary import (
    INVERSE,
    RELATIONS,
    ROOM_GROUPS,
    ROOM_TYPES,
)

if TYPE_CHECKING:
    from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram

BESIDE = frozenset(range(len(RELATIONS))) - {NO_EDGE}
"""``adjacent``: the codes of all relations, whatever their direction."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Source:
    """Where a rule stands: ``line``, from 1 on, None of one that is no text; ``key``, such as
    ``rooms.Bedroom``; ``text``, as it was written."""

    key: str = ""
    text: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Numbers:
    """``least`` to ``most``, both included; ``most`` None: as many as you like."""

    least: int = 0
    most: int | None = None

    def __contains__(self, number: object) -> bool:
        assert isinstance(number, int)
        return self.least <= number and (self.most is None or number <= self.most)

    @property
    def exact(self) -> int | None:
        """The only number that is in it; None if several are."""
        return self.least if self.least == self.most else None

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        if self.least == self.most:
            return f"exactly {self.least}"
        return f"at most {self.most}" if self.least == 0 else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class Kind:
    """Rooms of some ``types``, codes, by the ``name`` of the type or of the group of types."""

    name: str
    types: frozenset[int]

    @classmethod
    def of(cls, *types: str) -> Kind:
        """Build the kind from the names of room types, or from the name of a group."""
        names = ROOM_GROUPS.get(types[0], types) if len(types) == 1 else types
        return cls(" or ".join(types), frozenset(map(ROOM_TYPES.index, names)))


class Quantity(StrEnum):
    """``some``: at least one pair is so; ``every``: each subject is so to some other room; ``no``:
    no pair is."""

    SOME = "some"
    EVERY = "every"
    NO = "no"


@dataclass(frozen=True)
class CountRule:
    """So many rooms of a kind."""

    kind: Kind
    number: Numbers
    source: Source = field(default=Source(), compare=False)

    def holds(self, diagram: BubbleDiagram) -> bool:
        return sum(room in self.kind.types for room in diagram.rooms) in self.number


@dataclass(frozen=True)
class RelationRule:
    """ "Some, every or no subject is so to an object", of two different rooms.

    ``subject``, ``object``: a kind of rooms, or the name of one of ``Brief.named``. ``relations``:
    codes, any of them, read from the subject.
    """

    quantity: Quantity
    subject: Kind | str
    relations: frozenset[int]
    object: Kind | str
    source: Source = field(default=Source(), compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The named rooms it speaks of."""
        return tuple(end for end in (self.subject, self.object) if isinstance(end, str))


@dataclass(frozen=True)
class DegreeRule:
    """No room has more than ``most`` others beside it."""

    most: int
    source: Source = field(default=Source(), compare=False)

    def holds(self, diagram: BubbleDiagram) -> bool:
        ends = [room for i, j, _ in diagram.relations for room in (i, j)]
        return all(ends.count(room) <= self.most for room in range(diagram.num_rooms))


@dataclass(frozen=True)
class ConnectedRule:
    """Every room can be reached from every other through rooms beside each other."""

    source: Source = field(default=Source(), compare=False)

    def holds(self, diagram: BubbleDiagram) -> bool:
        beside = {room: {room} for room in range(diagram.num_rooms)}
        for i, j, _ in diagram.relations:
            merged = beside[i] | beside[j]
            beside.update((room, merged) for room in merged)
        return len(beside[0]) == diagram.num_rooms


Rule = CountRule | RelationRule | DegreeRule | ConnectedRule


@dataclass(frozen=True)
class PlanFacts:
    """Facts that a brief states of the plan and no diagram shows, for a model conditioned on plans.

    In metres, y downwards: ``area`` of the floor in square metres, the corners of the ``outline``
    in order, the middle of the ``front_door``; None where nothing is stated.
    """

    area: float | None = None
    outline: tuple[Point, ...] | None = None
    front_door: Point | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the facts that are stated."""
        return tuple(name for name, value in vars(self).items() if value is not None)


@dataclass(frozen=True)
class Brief:
    """Everything that is requested; a diagram meets it if all rules hold together.

    ``num_rooms``: the diagram's number of rooms. ``named``: rooms that relations speak of by a
    name, all different ones, each of a kind; the relations hold of one choice of them.
    ``buildable``: there is a floor plan, see ``have_plans``. ``told``: facts that no diagram shows,
    for a model conditioned on plans. ``sources``: those of ``num_rooms``, ``buildable`` and
    ``named.NAME``. ``left_out``: other requests of its file, which cannot be stated of a diagram.
    """

    num_rooms: Numbers = field(default_factory=lambda: Numbers(1))
    counts: Sequence[CountRule] = ()
    relations: Sequence[RelationRule] = ()
    named: Mapping[str, Kind] = field(default_factory=dict)
    degree: DegreeRule | None = None
    connected: ConnectedRule | None = None
    buildable: bool = False
    told: PlanFacts = field(default_factory=PlanFacts)
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False)
    left_out: Sequence[str] = field(default=(), compare=False)

    @property
    def rules(self) -> Iterator[Rule]:
        """All but the number of rooms and ``buildable``."""
        yield from self.counts
        yield from self.relations
        yield from (rule for rule in (self.degree, self.connected) if rule is not None)

    @property
    def of_named(self) -> tuple[RelationRule, ...]:
        """Relations that hold together, of one choice of named rooms."""
        return tuple(rule for rule in self.relations if rule.names)

    @property
    def of_kinds(self) -> tuple[RelationRule, ...]:
        """The others, which hold each for itself."""
        return tuple(rule for rule in self.relations if not rule.names)

    def unmet(self, diagram: BubbleDiagram) -> list[str]:
        """The keys of the rules that a diagram breaks; empty if it meets the brief, ``buildable``
        aside. Where no choice of named rooms will do: ``named``."""
        broken = [] if diagram.num_rooms in self.num_rooms else ["num_rooms"]
        relation = _relations_of(diagram)
        for rule in self.rules:
            if isinstance(rule, RelationRule):
                if not rule.names and not _holds(rule, {}, diagram, relation):
                    broken.append(rule.source.key)
            elif not rule.holds(diagram):
                broken.append(rule.source.key)
        if self.named and not any(
            all(_holds(rule, chosen, diagram, relation) for rule in self.of_named)
            for chosen in self._choices(diagram)
        ):
            broken.append("named")
        return broken

    def _choices(self, diagram: BubbleDiagram) -> Iterator[dict[str, int]]:
        """Different rooms, each of its kind, by name."""

        def extended(chosen: dict[str, int]) -> Iterator[dict[str, int]]:
            if len(chosen) == len(self.named):
                yield chosen
                return
            name = names[len(chosen)]
            for room, code in enumerate(diagram.rooms):
                if code in self.named[name].types and room not in chosen.values():
                    yield from extended({**chosen, name: room})

        names = list(self.named)
        return extended({})


def _relations_of(diagram: BubbleDiagram) -> dict[tuple[int, int], int]:
    """The code of every pair that has a relation, read from its first room, in both orders."""
    seen = {(i, j): r for i, j, r in diagram.relations}
    return seen | {(j, i): INVERSE[r] for (i, j), r in seen.items()}


def _holds(
    rule: RelationRule,
    chosen: Mapping[str, int],
    diagram: BubbleDiagram,
    relation: Mapping[tuple[int, int], int],
) -> bool:
    """``chosen``: the named rooms."""

    def rooms(end: Kind | str) -> list[int]:
        if isinstance(end, str):
            return [chosen[end]]
        return [k for k, room in enumerate(diagram.rooms) if room in end.types]

    objects = rooms(rule.object)
    related = [
        any(a != b and relation.get((a, b), NO_EDGE) in rule.relations for b in objects)
        for a in rooms(rule.subject)
    ]
    if rule.quantity is Quantity.EVERY:
        return all(related)
    return any(related) is (rule.quantity is Quantity.SOME)

"""``Brief``: requirements on a floor plan, as rules of its bubble diagram."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.yaml_nodes import BriefError, Source
from floor_plans.diagrams.vocabulary import INVERSE, NO_EDGE, RELATIONS, ROOM_GROUPS, ROOM_TYPES
from floor_plans.plans.doors import front_door_problem
from floor_plans.plans.floor_plan import Point

if TYPE_CHECKING:
    from floor_plans.diagrams.diagram import BubbleDiagram
    from floor_plans.plans.site import Site
    from floor_plans.solver.requests import Diagrams

ANY_RELATION = frozenset(range(len(RELATIONS))) - {NO_EDGE}
"""``adjacent``: the codes of all relations, of any direction."""

SOLVER_HAS_FACTS: ContextVar[bool] = ContextVar("SOLVER_HAS_FACTS", default=False)
"""True while diagrams are sampled for a solver that is given ``Brief.plan_facts``."""


@dataclass(frozen=True)
class Numbers:
    """Range from ``least`` to ``most``, both included; ``most`` None: no upper bound."""

    least: int = 0
    most: int | None = None

    def __contains__(self, number: int) -> bool:
        return self.least <= number and (self.most is None or number <= self.most)

    @property
    def exact(self) -> int | None:
        """The number itself if only one is allowed, else None."""
        return self.least if self.least == self.most else None

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        if self.least == self.most:
            return f"exactly {self.least}"
        return f"at most {self.most}" if self.least == 0 else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class Kind:
    """Rooms of the ``types`` (codes), under the ``name`` of a room type or of a group of types."""

    name: str
    types: frozenset[int]

    @classmethod
    def of(cls, *types: str) -> Kind:
        """Build the kind from the names of room types, or from the name of a group."""
        names = ROOM_GROUPS.get(types[0], types) if len(types) == 1 else types
        return cls(" or ".join(types), frozenset(map(ROOM_TYPES.index, names)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the room types."""
        return tuple(ROOM_TYPES[code] for code in sorted(self.types))


class Quantity(StrEnum):
    """Quantifier of a relation rule.

    ``some``: at least one pair has the relation; ``every``: each subject has the relation to
    some object; ``no``: no pair has the relation.
    """

    SOME = "some"
    EVERY = "every"
    NO = "no"


@dataclass(frozen=True)
class CountRule:
    """Bounds on the number of rooms of a kind."""

    kind: Kind
    number: Numbers
    source: Source = field(default=Source(), compare=False)

    def holds(self, diagram: BubbleDiagram) -> bool:
        """True if a diagram obeys the rule."""
        return len(_rooms_of(diagram, self.kind)) in self.number


@dataclass(frozen=True)
class RelationRule:
    """Rule that some, every or no ``subject`` has a relation to another room, the ``object``.

    ``subject``, ``object``: a kind of rooms, or a name in ``Brief.named``. ``relations``: codes of
    the relations, read from the subject; any one of them is enough.
    """

    quantity: Quantity
    subject: Kind | str
    relations: frozenset[int]
    object: Kind | str
    source: Source = field(default=Source(), compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its subject and object, if they are named rooms."""
        return tuple(end for end in (self.subject, self.object) if isinstance(end, str))


@dataclass(frozen=True)
class DegreeRule:
    """Rule that no room is adjacent to more than ``most`` other rooms."""

    most: int
    source: Source = field(default=Source(), compare=False)

    def holds(self, diagram: BubbleDiagram) -> bool:
        """True if a diagram obeys the rule."""
        ends = [room for i, j, _ in diagram.relations for room in (i, j)]
        return all(ends.count(room) <= self.most for room in range(diagram.num_rooms))


@dataclass(frozen=True)
class ConnectedRule:
    """Rule that every room can be reached from every other room through adjacent rooms."""

    source: Source = field(default=Source(), compare=False)

    def holds(self, diagram: BubbleDiagram) -> bool:
        """True if a diagram obeys the rule."""
        # merge the components of related rooms
        component = {room: {room} for room in range(diagram.num_rooms)}
        for i, j, _ in diagram.relations:
            merged = component[i] | component[j]
            component.update((room, merged) for room in merged)
        return len(component[0]) == diagram.num_rooms


Option = tuple[CountRule | RelationRule, ...]


@dataclass(frozen=True)
class AnyRule:
    """Rule that at least one of several options holds; an option holds if all its rules do."""

    options: tuple[Option, ...]
    source: Source = field(default=Source(), compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of rooms in its relations."""
        return names_in(rule for option in self.options for rule in option)


def names_in(rules: Iterable[CountRule | RelationRule]) -> tuple[str, ...]:
    """Names of rooms in relation rules."""
    return tuple(name for rule in rules if isinstance(rule, RelationRule) for name in rule.names)


Rule = CountRule | RelationRule | DegreeRule | ConnectedRule | AnyRule


@dataclass(frozen=True)
class SoftRule:
    """Rules that a diagram should obey: if it does, it is ``weight`` times as likely, above 1."""

    option: Option
    weight: float
    source: Source = field(default=Source(), compare=False)


@dataclass(frozen=True)
class AreaRule:
    """Bounds on the square metres of every room of a kind, without its walls."""

    kind: Kind
    least: float
    most: float | None
    source: Source = field(default=Source(), compare=False)


Pairs = tuple[tuple[Kind, Kind], ...]


def are_within(inner: tuple[Kind, Kind], outer: tuple[Kind, Kind]) -> bool:
    """True if all rooms of the first pair are rooms of the second, in either order."""
    a, b = inner
    return any(a.types <= c.types and b.types <= d.types for c, d in (outer, outer[::-1]))


@dataclass(frozen=True)
class PlanFacts:
    """Facts of a floor plan that are not in its diagram; None if not stated.

    For the solver and a model conditioned on plans, in metres, y downwards: ``area`` of the floor
    in square metres, the corners of the ``outline`` in order, the middle of the ``front_door``. For
    the solver alone: the ``site`` in which the outline is found, ``north`` in degrees clockwise
    from up, ``areas`` of rooms, pairs of kinds with a door (``doors``), without any (``no_door``)
    and without a wall (``open``) between them, the kinds that need daylight (``light``), and
    whether a wheelchair can be used (``accessible``).
    """

    area: float | None = None
    site: Site | None = None
    outline: tuple[Point, ...] | None = None
    front_door: Point | None = None
    north: float | None = None
    areas: tuple[AreaRule, ...] | None = None
    doors: Pairs | None = None
    no_door: Pairs | None = None
    open: Pairs | None = None
    light: tuple[Kind, ...] | None = None
    accessible: bool | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the facts that are stated."""
        return tuple(name for name, value in vars(self).items() if value is not None)

    @property
    def most_area(self) -> float:
        """Square metres that all rooms have at most: the area, or that of the outline; or inf."""
        if self.area is not None:
            return self.area
        if self.outline is None:
            return inf
        corners = zip(self.outline, self.outline[1:] + self.outline[:1], strict=True)
        return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in corners)) / 2


@dataclass(frozen=True)
class Brief:
    """Rules that a diagram has to meet, all together.

    ``read_brief(path)`` reads a brief from a file, ``brief_of(mapping)`` from an object.

    Args:
        num_rooms: the diagram's number of rooms.
        counts: numbers of rooms of a kind.
        relations: relations between rooms of a kind or named rooms.
        named: kinds of the rooms that relations name; all are different rooms, and the relations
            hold for one choice of them.
        degree: limit on the number of neighbours of a room.
        connected: rule that all rooms can be reached; None: no such rule.
        either: rules with options, of which one holds.
        should: rules that make diagrams more likely.
        buildable: True if a floor plan of the diagram has to exist, see ``have_plans``.
        plan_facts: facts that are not in a diagram, for the solver and for a model conditioned on
            plans.
        sources: file, line and key of ``num_rooms``, ``buildable``, ``named.NAME``, ``area``,
            ``site``, ``outline`` and ``front_door``.
        left_out: other requests of the file, which a diagram cannot express.
    """

    num_rooms: Numbers = field(default_factory=lambda: Numbers(1))
    counts: Sequence[CountRule] = ()
    relations: Sequence[RelationRule] = ()
    named: Mapping[str, Kind] = field(default_factory=dict)
    degree: DegreeRule | None = None
    connected: ConnectedRule | None = None
    either: Sequence[AnyRule] = ()
    should: Sequence[SoftRule] = ()
    buildable: bool = False
    plan_facts: PlanFacts = field(default_factory=PlanFacts)
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False)
    left_out: Sequence[str] = field(default=(), compare=False)

    def sample(self, model: Any, num: int | None = None, **options: Any) -> Diagrams:
        """Sample diagrams that meet this brief, as ``discrete-diffusion sample brief=FILE`` does.

        Args:
            model: a model of diagrams, as ``discrete_diffusion.load`` returns it.
            num: number of diagrams; None: 64.
            **options: other keywords of the model's ``sample``, such as ``seed``, ``method`` and
                ``buildable``; with ``given``, the diagrams are completions of partial diagrams.

        Returns:
            The diagrams.

        Raises:
            TypeError: ``model`` has no ``sample``.
            ValueError: no diagram meets the brief, too few samples do, or an option does not go
                with a brief.
        """
        if not hasattr(model, "sample"):
            raise TypeError(f"expected a model that load(path) returns, got {model!r:.100}")
        return model.sample(num, brief=self, **options)

    def facts_with_plot(self, total_area: float | None = None, file: object = None) -> PlanFacts:
        """Return ``plan_facts`` with a plot in the site.

        Args:
            total_area: area of all rooms, in square metres; None: that of the brief.
            file: the brief's, named in errors.

        Returns:
            The facts; without a site they are ``plan_facts``.

        Raises:
            BriefError: no plot is found, or the stated front door is not on it.
        """
        facts = self.plan_facts
        if facts.site is None or (facts.outline is not None and total_area is None):
            return facts
        key, door = "site", facts.front_door if "front_door" in self.sources else None
        try:
            plot = facts.site.plot(total_area)
            if door is not None and (why := front_door_problem(door, plot.outline)):
                key = "front_door"
                raise ValueError(f"{list(door)} with total_area={total_area}: {why}")
        except ValueError as error:
            own = BriefError(str(error), key=key, line=self.sources[key].line)
            raise (own.located(Path(file)) if isinstance(file, str) else own) from error
        return replace(facts, outline=plot.outline, front_door=door or plot.front_door)

    @property
    def rules(self) -> Iterator[Rule]:
        """All rules except the number of rooms and ``buildable``."""
        yield from self.counts
        yield from self.relations
        yield from (rule for rule in (self.degree, self.connected) if rule is not None)
        yield from self.either

    @property
    def named_rules(self) -> tuple[RelationRule | AnyRule, ...]:
        """Rules of named rooms; one choice of these rooms has to meet them all."""
        rules: list[RelationRule | AnyRule] = [*self.relations, *self.either]
        return tuple(rule for rule in rules if rule.names)

    def unmet(self, diagram: BubbleDiagram) -> list[str]:
        """Keys of the rules that a diagram breaks, without ``buildable``.

        Args:
            diagram: any diagram.

        Returns:
            The keys, empty if the diagram meets the brief; ``named`` where no choice of named rooms
            obeys the relations.
        """
        # rules that hold one by one
        broken = [] if diagram.num_rooms in self.num_rooms else ["num_rooms"]
        relation = _both_ways(diagram)
        broken += [
            rule.source.key
            for rule in self.rules
            if not getattr(rule, "names", ()) and not _holds(rule, {}, diagram, relation)
        ]
        # rules of named rooms hold for one choice of rooms
        if self.named and not any(
            all(_holds(rule, chosen, diagram, relation) for rule in self.named_rules)
            for chosen in self._choices(diagram)
        ):
            broken.append("named")
        return broken

    def preference(self, diagram: BubbleDiagram) -> float:
        """Probability that rejection keeps a diagram, by its rules in ``should``.

        Args:
            diagram: any diagram.

        Returns:
            Product of 1 / weight over the rules of ``should`` that the diagram breaks.
        """
        relation = _both_ways(diagram)
        return prod(
            1 / soft.weight
            for soft in self.should
            if not all(_holds(rule, {}, diagram, relation) for rule in soft.option)
        )

    def _choices(self, diagram: BubbleDiagram) -> Iterator[dict[str, int]]:
        """Assignments of distinct rooms to the names, each room of the requested kind."""
        fitting = [_rooms_of(diagram, kind) for kind in self.named.values()]

        def extended(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if len(chosen) == len(fitting):
                yield chosen
                return
            for room in fitting[len(chosen)]:
                if room not in chosen:
                    yield from extended((*chosen, room))

        return (dict(zip(self.named, rooms, strict=True)) for rooms in extended(()))


def _both_ways(diagram: BubbleDiagram) -> dict[tuple[int, int], int]:
    """Code of each related pair, read from its first room; both orders of a pair are keys."""
    relation = {(i, j): r for i, j, r in diagram.relations}
    return relation | {(j, i): INVERSE[r] for (i, j), r in relation.items()}


def _rooms_of(diagram: BubbleDiagram, kind: Kind) -> list[int]:
    """Rooms of a kind."""
    return [k for k, room in enumerate(diagram.rooms) if room in kind.types]


def _holds(
    rule: Rule,
    chosen: Mapping[str, int],
    diagram: BubbleDiagram,
    relation: Mapping[tuple[int, int], int],
) -> bool:
    """True if the diagram obeys the rule; ``chosen``: the room of each name."""
    if isinstance(rule, AnyRule):
        return any(
            all(_holds(each, chosen, diagram, relation) for each in option)
            for option in rule.options
        )
    if not isinstance(rule, RelationRule):
        return rule.holds(diagram)

    # one flag for each subject: it has the relation to another room
    subjects, objects = (
        [chosen[end]] if isinstance(end, str) else _rooms_of(diagram, end)
        for end in (rule.subject, rule.object)
    )
    related = [
        any(a != b and relation.get((a, b), NO_EDGE) in rule.relations for b in objects)
        for a in subjects
    ]
    if rule.quantity is Quantity.EVERY:
        return all(related)
    return any(related) is (rule.quantity is Quantity.SOME)

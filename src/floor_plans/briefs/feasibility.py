"""Feasibility of a brief: decide if any diagram meets it, and find contradictory rules.

Bounds on numbers of rooms and orders of named rooms refute many briefs without a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from math import inf, prod

from floor_plans.briefs.brief import (
    AnyRule,
    AreaRule,
    Brief,
    ConnectedRule,
    CountRule,
    DegreeRule,
    Kind,
    Numbers,
    PlanFacts,
    Quantity,
    RelationRule,
    Rule,
    names_in,
)
from floor_plans.briefs.graph_model import GraphModel
from floor_plans.briefs.sentences import named_sentence, sentence_of
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.yaml_nodes import Source
from floor_plans.diagrams.vocabulary import (
    DIRECTIONS,
    INVERSE,
    NO_EDGE,
    ORDERS,
    ROOM_TYPES,
    PlanVocabulary,
)
from floor_plans.plans.box_model import BoxRule, boxes_of_graph, is_installed

_MOST_STEPS = 20_000  # most steps of the search; past that it is undecided
_MOST_WAYS = 256  # most combinations of alternatives; past that alternatives are left out
_MOST_KINDS = 8  # most kinds of named rooms for which unions of several kinds are counted
EFFORT = 2.0  # effort of the solver for each question: its deterministic units, about CPU-seconds

MOST_ROOMS = (8, 12)
"""Most rooms of the diagrams that the solver looks for, in steps: it takes the next step only if no
smaller diagram meets the brief."""

_MOST_TWICE = 12
"""Most rules for which contradictions are reduced in two orders, to report the smaller one."""

_SEEDS = range(4)  # seeds of the example diagrams for which a floor plan is searched

_ANY = Kind("room", frozenset(range(len(ROOM_TYPES))))


@dataclass(frozen=True)
class Count:
    """Bounds on the number of rooms of ``types``; no upper bound if ``most`` is None."""

    types: frozenset[int]
    least: int = 0
    most: int | None = None


Ways = Sequence[Sequence[Count]]  # alternatives: all counts of one of these have to hold


def no_counts(counts: Sequence[Count], choices: Sequence[Ways] = ()) -> bool:
    """True if no room counts per type satisfy ``counts`` and an alternative of each choice.

    False if some do, or if this is undecided.
    """
    # too many combinations: decide without alternatives
    if prod(map(len, choices)) > _MOST_WAYS:
        choices = ()
    return all(
        _no_numbers([*counts, *(count for way in chosen for count in way)])
        for chosen in product(*choices)
    )


def _no_numbers(counts: Sequence[Count]) -> bool:
    """True if no assignment of room counts per type satisfies ``counts``; False if undecided.

    Depth-first search over groups of types that the same counts include."""
    # types that the same counts include form a group
    types = sorted({code for count in counts for code in count.types})
    groups = sorted({tuple(code in count.types for count in counts) for code in types})
    # index of the last group that each count includes: it has to be met by then
    last = [
        max((k for k, group in enumerate(groups) if group[c]), default=-1)
        for c in range(len(counts))
    ]
    if any(count.least > 0 and last[c] < 0 for c, count in enumerate(counts)):
        return True
    steps = 0

    def fits(k: int, sums: list[int]) -> bool:
        nonlocal steps
        steps += 1
        if steps > _MOST_STEPS or k == len(groups):
            return True
        members = [c for c, is_in in enumerate(groups[k]) if is_in]
        # numbers of rooms of the group, as many as the counts allow
        left = [most - sums[c] for c in members if (most := counts[c].most) is not None]
        for number in range(min(left, default=0) + 1):
            after = [total + number * is_in for total, is_in in zip(sums, groups[k], strict=True)]
            ended = (c for c in range(len(counts)) if last[c] == k)
            if all(after[c] >= counts[c].least for c in ended) and fits(k + 1, after):
                return True
        return False

    return not fits(0, [0] * len(counts))


def is_refuted(brief: Brief, n_max: int, vocabulary: PlanVocabulary) -> bool:
    """True if no diagram of at most ``n_max`` rooms meets the brief; False if undecided.

    Three checks: numbers of rooms of each type, including the rooms that relations need (a kitchen
    adjacent to a living room needs both); relations that one rule requires and a rule with "no"
    forbids; and named rooms in a cycle of left of, above or inside. With ``max_degree`` of 0 or 1
    and ``connected``, a diagram has at most ``max_degree`` + 1 rooms.
    """
    return all(
        _Refutation(each, n_max, vocabulary).is_refuted() for each in _without_options(brief)
    )


def _without_options(brief: Brief) -> Iterator[Brief]:
    """Briefs with the rules of one option of each rule in ``either``, for every choice of options;
    past ``_MOST_WAYS`` choices the brief without these rules."""
    choices = [rule.options for rule in brief.either]
    for chosen in product(*choices) if prod(map(len, choices)) <= _MOST_WAYS else [()]:
        rules = [rule for option in chosen for rule in option]
        yield replace(
            brief,
            counts=[*brief.counts, *(r for r in rules if isinstance(r, CountRule))],
            relations=[*brief.relations, *(r for r in rules if isinstance(r, RelationRule))],
            either=(),
        )


def least_and_most(brief: Brief, n_max: int) -> tuple[int, int]:
    """Minimum and maximum number of rooms that a brief allows, the maximum capped at ``n_max``."""
    most = n_max if brief.num_rooms.most is None else min(n_max, brief.num_rooms.most)
    return max(1, brief.num_rooms.least), most


@dataclass(frozen=True)
class _Refutation:
    """Checks of ``is_refuted`` for one brief."""

    brief: Brief
    n_max: int
    vocabulary: PlanVocabulary

    @cached_property
    def types(self) -> frozenset[int]:
        return frozenset(map(ROOM_TYPES.index, self.vocabulary.room_types))

    @cached_property
    def codes(self) -> frozenset[int]:
        """Codes of the relations that two rooms may have, ``NO_EDGE`` included."""
        return self.vocabulary.relation_codes | {NO_EDGE}

    @cached_property
    def required(self) -> list[RelationRule]:
        """Relation rules with "some" or "every"."""
        return [rule for rule in self.brief.relations if rule.quantity is not Quantity.NO]

    def is_refuted(self) -> bool:
        """True if a check shows that no diagram meets the brief; False if none does."""
        # connected rooms with degree at most 1 are at most 2
        least, most = least_and_most(self.brief, self.n_max)
        degree = self.brief.degree
        if degree is not None and self.brief.connected is not None and degree.most <= 1:
            most = min(most, degree.most + 1)
        if least > most or not all(self._pairs.values()) or self._is_circular():
            return True
        # a named room with more neighbours than allowed
        adjacent = [first for (first, _), codes in self._pairs.items() if NO_EDGE not in codes]
        if degree is not None and any(adjacent.count(name) > degree.most for name in adjacent):
            return True
        # all numbers of rooms together: of the brief, of its rules, and of named rooms
        counts = [Count(self.types, least, most)]
        counts += [
            Count(rule.kind.types & self.types, rule.number.least, rule.number.most)
            for rule in self.brief.counts
        ]
        return no_counts([*counts, *self._named()], list(self._choices()))

    def _named(self) -> Iterator[Count]:
        """Counts that named rooms need (Hall's condition): enough rooms for each union of kinds."""
        kinds = [kind.types & self.types for kind in self.brief.named.values()]
        distinct = list(dict.fromkeys(kinds))
        # unions of up to _MOST_KINDS kinds
        sizes = range(1, len(distinct) + 1 if len(distinct) <= _MOST_KINDS else 2)
        for size in sizes:
            for some in combinations(distinct, size):
                union = frozenset().union(*some)
                yield Count(union, sum(kind <= union for kind in kinds))
        yield Count(self.types, len(kinds))

    def _choices(self) -> Iterator[Ways]:
        """For each required relation, the alternative counts that make it possible."""
        for rule in self.required:
            subject, target = self._types(rule.subject), self._types(rule.object)
            pair = [Count(subject, 1), Count(target, 1), Count(subject | target, 2)]
            nowhere = isinstance(rule.subject, Kind) and rule.quantity is Quantity.EVERY
            ways = [pair] if self._allowed_codes(rule) else []
            yield [*ways, *([[Count(subject, 0, 0)]] if nowhere else [])]

    def _types(self, end: Kind | str) -> frozenset[int]:
        """Room types that a subject or object of a rule may have."""
        kind = self.brief.named[end] if isinstance(end, str) else end
        return kind.types & self.types

    def _allowed_codes(self, rule: RelationRule) -> frozenset[int]:
        """Codes that a rule allows, without those forbidden by rules with "no"."""
        codes = rule.relations & self.codes
        if self.brief.degree is not None and self.brief.degree.most == 0:
            codes &= {NO_EDGE}
        # subtract the relations of rules with "no" that cover this one
        rules = [each for each in self.brief.relations if each.quantity is Quantity.NO]
        for other in (*rules, *map(swap_ends, rules)):
            if self._covers(other.subject, rule.subject) and self._covers(
                other.object, rule.object
            ):
                codes -= other.relations
        return codes

    def _covers(self, forbidden: Kind | str, required: Kind | str) -> bool:
        """True if an end of a rule with "no" includes all rooms of an end of another rule."""
        if isinstance(forbidden, str):
            return forbidden == required
        return self._types(required) <= self._types(forbidden)

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], frozenset[int]]:
        """Allowed codes of each pair of named rooms with a required relation, in both orders."""
        found: dict[tuple[str, str], frozenset[int]] = {}
        for rule in self.required:
            if isinstance(rule.subject, str) and isinstance(rule.object, str):
                for each in (rule, swap_ends(rule)):
                    ends = (str(each.subject), str(each.object))
                    found[ends] = found.get(ends, self.codes) & self._allowed_codes(each)
        return found

    def _is_circular(self) -> bool:
        """True if named rooms form a cycle of left of, above or inside."""
        for _, signs in ORDERS:
            # names that come after each name in this order
            after = {name: set[str]() for name in self.brief.named}
            for (first, second), codes in self._pairs.items():
                if all(signs[code] < 0 for code in codes):
                    after[first].add(second)
            for middle, first in product(after, after):  # Warshall's closure
                if middle in after[first]:
                    after[first] |= after[middle]
            if any(name in others for name, others in after.items()):
                return True
        return False


def swap_ends(rule: RelationRule) -> RelationRule:
    """Return the rule with subject and object swapped. With "every" it has another meaning, on the
    same pairs."""
    codes = frozenset(INVERSE[code] for code in rule.relations)
    return RelationRule(rule.quantity, rule.object, codes, rule.subject, rule.source)


@dataclass(frozen=True)
class Feasibility:
    """Result of a feasibility check; ``can_be_met`` is None if undecided.

    ``contradiction``: rules that cannot hold together, in the order of the brief.
    ``is_irreducible``: True if leaving out any of these rules lets the others hold together; False
    if that is undecided for some rule.
    """

    can_be_met: bool | None
    contradiction: tuple[Source, ...] = ()
    is_irreducible: bool = False
    example: BubbleDiagram | None = None


def feasibility(
    brief: Brief, n_max: int, vocabulary: PlanVocabulary = DIRECTIONS, *, exact: bool | None = None
) -> Feasibility:
    """Decide if diagrams with at most ``n_max`` rooms can meet the brief.

    Counts of rooms and orders of named rooms are checked first, see ``is_refuted``. Then, if
    ``exact``, a solver decides (``GraphModel``, needs OR-Tools); it treats left of and above as
    orders, as in every plan. Without the solver no brief is found feasible.

    ``Brief.buildable`` is met if one of a few diagrams that meet the other rules has a floor plan;
    if none of them has, the answer is undecided.
    """
    exact = is_installed() if exact is None else exact
    requirements = list(_requirements(brief))

    def is_refuted_by(kept: Sequence[_Requirement]) -> bool:
        return is_refuted(_restricted(brief, kept), n_max, vocabulary)

    def is_impossible(kept: Sequence[_Requirement]) -> bool | None:
        if is_refuted_by(kept):
            return True
        answer, _ = _find_diagram(_restricted(brief, kept), n_max, vocabulary)
        return None if answer is None else not answer

    # refuted by counting: reduce the contradiction cheaply, and then by the solver
    members = requirements
    if is_refuted_by(requirements):
        members, is_irreducible = _reduce(requirements, is_refuted_by)
        if not exact:
            return Feasibility(False, tuple(each.source for each in members))
    elif not exact:
        return Feasibility(None)
    else:
        # the solver finds a diagram, of which ``buildable`` requires a floor plan
        answer, example = _find_diagram(brief, n_max, vocabulary)
        if answer is not False and not (answer and brief.buildable):
            return Feasibility(answer, example=example)
        for seed in _SEEDS if answer else ():
            _, example = _find_diagram(brief, n_max, vocabulary, seed)
            assert example is not None
            if has_floor_plan(example):
                return Feasibility(True, example=example)
        if answer:
            return Feasibility(None)
    members, is_irreducible = _reduce(members, is_impossible)
    return Feasibility(False, tuple(each.source for each in members), is_irreducible)


@dataclass(frozen=True, eq=False)
class _Requirement:
    """Single requirement of a brief: a rule, the number of rooms, a named room, or the area of the
    plan."""

    source: Source
    rule: Rule | AreaRule | None = None
    name: str | None = None
    is_area: bool = False


def _requirements(brief: Brief) -> Iterator[_Requirement]:
    """Requirements of a brief, with a sentence for each rule that has no text."""
    if brief.num_rooms != Numbers(1):
        own = Source("num_rooms", f"num_rooms: {brief.num_rooms}")
        yield _Requirement(brief.sources.get("num_rooms", own))
    for name, kind in brief.named.items():
        own = Source(f"named.{name}", named_sentence(name, kind))
        yield _Requirement(brief.sources.get(f"named.{name}", own), name=name)
    for rule in brief.rules:
        source = rule.source if rule.source.text else replace(rule.source, text=sentence_of(rule))
        yield _Requirement(source, rule)
    # areas contradict the total alone
    facts = brief.plan_facts
    if facts.areas is not None and facts.most_area < inf:
        total = "outline" if facts.area is None else "area"
        own = Source(total, f"{total}: {facts.most_area:g} m2")
        yield _Requirement(brief.sources.get(total, own), is_area=True)
        yield from (_Requirement(rule.source, rule) for rule in facts.areas)


def _restricted(brief: Brief, kept: Sequence[_Requirement]) -> Brief:
    """Return the brief with the ``kept`` requirements only. Other named rooms are left out or, if a
    relation names them, may be of any type."""
    rules = [each.rule for each in kept]
    relations = [rule for rule in rules if isinstance(rule, RelationRule)]
    either = [rule for rule in rules if isinstance(rule, AnyRule)]
    in_relations = {*names_in(relations), *(name for rule in either for name in rule.names)}
    kinds = {each.name: brief.named[each.name] for each in kept if each.name is not None}
    has_size = any(each.rule is each.name is None and not each.is_area for each in kept)
    areas = tuple(rule for rule in rules if isinstance(rule, AreaRule))
    total = brief.plan_facts.most_area if any(each.is_area for each in kept) else None
    return Brief(
        num_rooms=brief.num_rooms if has_size else Numbers(1),
        counts=[rule for rule in rules if isinstance(rule, CountRule)],
        relations=relations,
        named={
            name: kinds.get(name, _ANY)
            for name in brief.named
            if name in kinds or name in in_relations
        },
        degree=next((rule for rule in rules if isinstance(rule, DegreeRule)), None),
        connected=next((rule for rule in rules if isinstance(rule, ConnectedRule)), None),
        either=either,
        plan_facts=PlanFacts(area=total, areas=areas),
    )


def _reduce(
    requirements: Sequence[_Requirement],
    is_impossible: Callable[[Sequence[_Requirement]], bool | None],
) -> tuple[list[_Requirement], bool]:
    """Reduce contradictory requirements by leaving out one after the other.

    Returns the smaller of two reductions, one that begins at the end of the brief and, if it is
    short, one that begins at its start; and True if every requirement left was found necessary.
    """
    found, known = [], dict[frozenset[_Requirement], bool | None]()
    orders = [requirements[::-1], requirements]
    for order in orders if len(requirements) <= _MOST_TWICE else orders[:1]:
        # leave out one requirement after the other, if the rest still contradict
        kept, is_irreducible = list(requirements), True
        for each in order:
            rest = [other for other in kept if other is not each]
            if (key := frozenset(rest)) not in known:
                known[key] = is_impossible(rest)
            answer = known[key]
            if answer:
                kept = rest
            is_irreducible = is_irreducible and answer is not None
        found.append((kept, is_irreducible))
    return min(found, key=lambda each: (not each[1], len(each[0])))


def _find_diagram(
    brief: Brief, n_max: int, vocabulary: PlanVocabulary, seed: int = 0
) -> tuple[bool | None, BubbleDiagram | None]:
    """Search for a diagram; return True and the diagram, False if none exists, None if
    undecided."""
    # bounds on the number of rooms
    least, most = least_and_most(brief, n_max)
    least = max(least, len(brief.named))
    if least > most:
        return False, None
    # small diagrams first
    for rooms in MOST_ROOMS:
        if rooms >= least:
            model = GraphModel(brief, least=least, most=min(most, rooms), vocabulary=vocabulary)
            answer, example = model.solve(EFFORT, seed=seed)
            if answer or answer is None or most <= rooms:
                return answer, example
    return None, None


def has_floor_plan(diagram: BubbleDiagram) -> bool:
    """True if a floor plan without overlaps was found; False for a diagram without directions."""
    if not diagram.vocabulary.has_directions:
        return False
    graph = (diagram.num_rooms, diagram.relations)
    return boxes_of_graph(graph, rule=BoxRule(), buildable=True, effort=EFFORT)[0] is True

"""Feasibility of a brief: decide if any diagram meets it, and find contradictory rules.

``GraphModel`` is the constraint program of the diagrams, for CP-SAT (OR-Tools).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, permutations
from math import ceil, floor, inf
from typing import Any

from floor_plans.briefs.brief import (
    ANY_RELATION,
    AreaRule,
    Brief,
    CountRule,
    Kind,
    Numbers,
    PlanFacts,
    Quantity,
    RelationRule,
    Rule,
)
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
from floor_plans.plans import box_model

EFFORT = 2.0  # effort of the solver for each question: its deterministic units, about CPU-seconds

_STEPS = (8, 12)
"""Most rooms of the diagrams that the solver looks for first: it takes the next step only if no
smaller diagram meets the brief, and the last one to the most rooms that there may be."""

_SEEDS = range(4)  # seeds of the example diagrams for which a floor plan is searched

_ANY = Kind("room", frozenset(range(len(ROOM_TYPES))))


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


def feasibility(brief: Brief, n_max: int, vocabulary: PlanVocabulary = DIRECTIONS) -> Feasibility:
    """Decide if diagrams with at most ``n_max`` rooms can meet the brief.

    A solver decides (``GraphModel``); it treats left of and above as orders, as in every plan. It
    needs OR-Tools: without it nothing is decided.

    ``Brief.buildable`` is met if one of a few diagrams that meet the other rules has a floor plan;
    if none of them has, the answer is undecided.
    """
    if not box_model.is_installed():
        return Feasibility(None)

    def is_impossible(kept: Sequence[_Requirement]) -> bool | None:
        answer, _ = _find_diagram(_restricted(brief, kept), n_max, vocabulary)
        return None if answer is None else not answer

    # a diagram, of which ``buildable`` requires a floor plan
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
    # contradictory rules
    members, is_irreducible = _reduce(list(_requirements(brief)), is_impossible)
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
    rules = {each.rule for each in kept}
    kinds = {each.name: brief.named[each.name] for each in kept if each.name is not None}
    has_size = any(each.rule is each.name is None and not each.is_area for each in kept)
    total = brief.plan_facts.most_area if any(each.is_area for each in kept) else None
    areas = tuple(rule for rule in brief.plan_facts.areas or () if rule in rules)
    only = Brief(
        num_rooms=brief.num_rooms if has_size else Numbers(1),
        counts=[rule for rule in brief.counts if rule in rules],
        relations=[rule for rule in brief.relations if rule in rules],
        degree=brief.degree if brief.degree in rules else None,
        connected=brief.connected if brief.connected in rules else None,
        either=[rule for rule in brief.either if rule in rules],
        plan_facts=PlanFacts(area=total, areas=areas),
    )
    used = {*kinds, *(name for rule in only.named_rules for name in rule.names)}
    named = {name: kinds.get(name, _ANY) for name in brief.named if name in used}
    return replace(only, named=named)


def _reduce(
    requirements: Sequence[_Requirement],
    is_impossible: Callable[[Sequence[_Requirement]], bool | None],
) -> tuple[list[_Requirement], bool]:
    """Reduce contradictory requirements by leaving out one after the other, from the last one on.

    Returns the rest, and True if each of them was found necessary.
    """
    kept, is_irreducible = list(requirements), True
    for each in requirements[::-1]:
        rest = [other for other in kept if other is not each]
        answer = is_impossible(rest)
        if answer:
            kept = rest
        is_irreducible = is_irreducible and answer is not None
    return kept, is_irreducible


def _find_diagram(
    brief: Brief, n_max: int, vocabulary: PlanVocabulary, seed: int = 0
) -> tuple[bool | None, BubbleDiagram | None]:
    """Search for a diagram; return True and the diagram, False if none exists, None if
    undecided."""
    # bounds on the number of rooms
    most = n_max if brief.num_rooms.most is None else min(n_max, brief.num_rooms.most)
    least = max(1, brief.num_rooms.least, len(brief.named))
    if least > most:
        return False, None
    # small diagrams first
    answer, example = None, None
    for rooms in [*(rooms for rooms in _STEPS if least <= rooms < most), most]:
        model = GraphModel(brief, least=least, most=rooms, vocabulary=vocabulary)
        answer, example = model.solve(EFFORT, seed=seed)
        if answer is not False:
            break
    return answer, example


def has_floor_plan(diagram: BubbleDiagram) -> bool:
    """True if a floor plan without overlaps was found; False for a diagram without directions."""
    if not diagram.vocabulary.has_directions:
        return False
    graph, rule = (diagram.num_rooms, diagram.relations), box_model.BoxRule()
    return box_model.boxes_of_graph(graph, rule=rule, buildable=True, effort=EFFORT)[0] is True


class GraphModel:
    """Constraint program of the diagrams of ``least`` to ``most`` rooms that meet a brief.

    ``buildable`` is not modelled. Each room has a type and each pair a relation, as booleans. For
    relations with directions, each room also has integer positions along both axes and in nesting
    depth, so that left of, above and inside are orders, as in every plan. A diagram that breaks
    these orders may meet ``Brief.unmet``, but it is not a solution here.

    To break symmetries, named rooms come first and the others are sorted by type. Types that no
    rule distinguishes share a variable, and so do relations.
    """

    def __init__(self, brief: Brief, *, least: int, most: int, vocabulary: PlanVocabulary) -> None:
        self._solver = box_model.cp_sat()
        self.model = self._solver.CpModel()
        self._brief, self._vocabulary = brief, vocabulary
        self._rooms, self._least = range(most), least
        self._names = {name: k for k, name in enumerate(brief.named)}
        self._literals: dict[tuple[Any, ...], Any] = {}
        rules: list[CountRule | RelationRule] = [*brief.counts, *brief.relations]
        options = [option for each in brief.either for option in each.options]
        self._rules = [*rules, *(rule for option in options for rule in option)]
        self._relations = [rule for rule in self._rules if isinstance(rule, RelationRule)]
        # variables first, then a constraint for each rule
        self._add_rooms()
        self._add_pairs()
        for rule in rules:
            self._add_rule(rule)
        for any_rule in brief.either:
            chosen = [self._new() for _ in any_rule.options]
            self.model.add_bool_or(chosen)
            for is_chosen, option in zip(chosen, any_rule.options, strict=True):
                for rule in option:
                    self._add_rule(rule, is_chosen)
        # the least areas of all rooms fit the plan, in square decimetres
        facts = brief.plan_facts
        if facts.areas and facts.most_area < inf:

            def least_area(code: int) -> int:
                own = [rule.least for rule in facts.areas or () if code in rule.kind.types]
                return ceil(100 * max(own, default=0.0))

            least = sum(
                least_area(group[0]) * is_so
                for types in self._type
                for group, is_so in types.items()
            )
            self.model.add(least <= floor(100 * facts.most_area))
        if brief.degree is not None:
            for i in self._rooms:
                adjacent = [self._related(i, j, ANY_RELATION) for j in self._rooms if j != i]
                self.model.add(sum(adjacent) <= brief.degree.most)
        if brief.connected is None:
            return
        # connectivity: distance to the first room decreases along some adjacent room
        steps = [self.model.new_int_var(0, most, "") for _ in self._rooms]
        nearer: dict[int, list[Any]] = {i: [] for i in self._rooms}
        for i, j in permutations(self._rooms, 2):
            way = self._new()
            self.model.add_implication(way, self._related(i, j, ANY_RELATION))
            self.model.add(steps[j] < steps[i]).only_enforce_if(way)
            nearer[i].append(way)
        for i in self._rooms[1:]:
            self.model.add_bool_or([*nearer[i], self._active[i].negated()])

    def solve(self, effort: float, *, seed: int = 0) -> tuple[bool | None, BubbleDiagram | None]:
        """Search for a diagram; return True and the diagram, False if infeasible, None if undecided
        within ``effort``."""
        solver = self._solver.CpSolver()
        solver.parameters.max_deterministic_time = effort
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is Python's; theirs aborts threads
        # infeasible, undecided, or solved
        status = box_model.solve_in_thread(solver, self.model)
        if status == self._solver.INFEASIBLE:
            return False, None
        if status not in (self._solver.OPTIMAL, self._solver.FEASIBLE):
            return None, None
        # read the diagram from the values of the variables
        num = sum(solver.value(active) for active in self._active)
        rooms = tuple(
            next(group[0] for group, is_so in self._type[i].items() if solver.value(is_so))
            for i in range(num)
        )
        relations = tuple(
            (i, j, next(group[0] for group, is_so in codes.items() if solver.value(is_so)))
            for (i, j), codes in self._pair.items()
            if j < num
        )
        return True, BubbleDiagram(rooms, tuple(each for each in relations if each[2] != NO_EDGE))

    def _new(self) -> Any:
        return self.model.new_bool_var("")

    def _add_rooms(self) -> None:
        """Add variables for the presence of rooms, and for their types."""
        # rooms are present from the first on; named rooms always are
        self._active = [self._new() for _ in self._rooms]
        needed = max(self._least, len(self._names))
        for i, active in enumerate(self._active):
            if i < needed:
                self.model.add(active == 1)
        for one, other in pairwise(self._active):
            self.model.add_implication(other, one)
        if needed > len(self._rooms):
            self.model.add_bool_or([])
        # one boolean per group of types that no rule distinguishes
        ends = [end for rule in self._relations for end in (rule.subject, rule.object)]
        kinds = [end for end in ends if isinstance(end, Kind)]
        kinds += [*self._brief.named.values()]
        kinds += [rule.kind for rule in self._rules if isinstance(rule, CountRule)]
        kinds += [rule.kind for rule in self._brief.plan_facts.areas or ()]
        groups = self._groups(
            map(ROOM_TYPES.index, self._vocabulary.room_types),
            lambda code: tuple(code in kind.types for kind in kinds),
        )
        self._type = [{group: self._new() for group in groups} for _ in self._rooms]
        for types, active in zip(self._type, self._active, strict=True):
            self.model.add(sum(types.values()) == active)
        for kind, i in zip(self._brief.named.values(), self._rooms, strict=False):
            self.model.add(self._is(i, kind) == 1)
        # the other rooms are sorted by type, to break symmetries
        places = [sum(k * t for k, t in enumerate(types.values())) for types in self._type]
        for i, j in pairwise(self._rooms[len(self._names) :]):
            self.model.add(places[i] <= places[j]).only_enforce_if(self._active[j])

    @staticmethod
    def _groups(codes: Iterable[int], signature: Any) -> list[tuple[int, ...]]:
        """Group codes by their signature."""
        found: dict[Any, list[int]] = {}
        for code in codes:
            found.setdefault(signature(code), []).append(code)
        return [tuple(group) for group in found.values()]

    def _add_pairs(self) -> None:
        """Add variables for the relation of each pair, and for the orders on axes and of
        nesting."""
        sets = [rule.relations for rule in self._relations]

        def signature(code: int) -> tuple[Any, ...]:
            members = [one in each for one in (code, INVERSE[code]) for each in sets]
            return (code == NO_EDGE, *(signs[code] for _, signs in ORDERS), *members)

        # one boolean per group of relations that no rule or order distinguishes
        groups = self._groups([*sorted(self._vocabulary.relation_codes), NO_EDGE], signature)
        self._pair = {
            pair: {group: self._new() for group in groups} for pair in combinations(self._rooms, 2)
        }
        # positions in each order; a relation with a sign in an order fixes which room comes first
        top = len(self._rooms) - 1
        places = [[self.model.new_int_var(0, top, "") for _ in self._rooms] for _ in ORDERS]
        for (i, j), codes in self._pair.items():
            self.model.add_exactly_one(codes.values())
            self.model.add_implication(self._related(i, j, ANY_RELATION), self._active[j])
            for place, (_, signs) in zip(places, ORDERS, strict=True):
                for group, is_so in codes.items():
                    if sign := signs[group[0]]:
                        first, second = (i, j) if sign < 0 else (j, i)
                        self.model.add(place[first] < place[second]).only_enforce_if(is_so)

    def _one_of(self, key: tuple[Any, ...], literals: list[Any]) -> Any:
        """Literal that equals the sum of exclusive ``literals``; cached by ``key``."""
        if key not in self._literals:
            self._literals[key] = found = self._new()
            self.model.add(sum(literals) == found)
        return self._literals[key]

    def _is(self, i: int, kind: Kind) -> Any:
        """Literal that is true if a room is of a kind."""
        types = self._type[i].items()
        literals = [is_so for group, is_so in types if group[0] in kind.types]
        return self._one_of((i, kind.types), literals)

    def _related(self, i: int, j: int, codes: frozenset[int]) -> Any:
        """Literal that is true if a pair has one of these relations."""
        if i > j:
            i, j, codes = j, i, frozenset(INVERSE[code] for code in codes)
        pairs = self._pair[i, j].items()
        return self._one_of((i, j, codes), [is_so for group, is_so in pairs if group[0] in codes])

    def _add_rule(self, rule: CountRule | RelationRule, only_if: Any = True) -> None:
        """Add the constraints of a rule, which hold if the literal ``only_if`` is true."""
        if isinstance(rule, CountRule):
            number = sum(self._is(i, rule.kind) for i in self._rooms)
            self.model.add(number >= rule.number.least).only_enforce_if(only_if)
            if rule.number.most is not None:
                self.model.add(number <= rule.number.most).only_enforce_if(only_if)
            return
        subjects, objects = self._ends(rule.subject), self._ends(rule.object)
        # no: for each pair, one of subject, object and relation is false
        pairs = [(i, j) for i in subjects for j in objects if i != j]
        if rule.quantity is Quantity.NO:
            for i, j in pairs:
                so = (subjects[i], objects[j], self._related(i, j, rule.relations))
                false = [literal.negated() for literal in so]
                self.model.add_bool_or(false).only_enforce_if(only_if)
            return
        # some, every: a witness literal per pair implies subject, object and relation
        ways = {pair: self._new() for pair in pairs}
        for (i, j), way in ways.items():
            for literal in (subjects[i], objects[j], self._related(i, j, rule.relations)):
                self.model.add_implication(way, literal)
        if rule.quantity is Quantity.SOME:
            self.model.add_bool_or(list(ways.values())).only_enforce_if(only_if)
            return
        # every: each subject has a witness
        for i, is_subject in subjects.items():
            found = [way for (first, _), way in ways.items() if first == i]
            self.model.add_bool_or([*found, is_subject.negated()]).only_enforce_if(only_if)

    def _ends(self, end: Kind | str) -> dict[int, Any]:
        """Rooms that may be the subject or object ``end`` of a rule, each with its literal."""
        if isinstance(end, str):
            return {self._names[end]: self._active[self._names[end]]}
        return {i: self._is(i, end) for i in self._rooms}

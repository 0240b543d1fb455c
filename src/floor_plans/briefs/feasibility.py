"""Feasibility of a brief: decide if any diagram meets it, and find contradictory rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from floor_plans.briefs.brief import (
    Brief,
    ConnectedRule,
    CountRule,
    DegreeRule,
    Kind,
    Numbers,
    RelationRule,
    Source,
)
from floor_plans.briefs.graph_model import GraphModel
from floor_plans.briefs.refutation import is_refuted, least_and_most
from floor_plans.briefs.sentences import named_sentence, sentence_of
from floor_plans.diagrams.vocabulary import DIRECTIONS, ROOM_TYPES, PlanVocabulary
from floor_plans.plans.box_model import BoxRule, boxes_of, is_installed

if TYPE_CHECKING:
    from floor_plans.diagrams.diagram import BubbleDiagram

EFFORT = 2.0
"""Effort of the solver for each question: its deterministic units, about CPU-seconds."""

MOST_ROOMS = (8, 12)
"""Most rooms of the diagrams that the solver looks for, in steps: it takes the next step only if no
smaller diagram meets the brief."""

_MOST_TWICE = 12
"""Most rules for which contradictions are reduced in two orders, to report the smaller one."""

_SEEDS = range(4)
"""Seeds of the example diagrams for which a floor plan is searched."""

_ANY = Kind("room", frozenset(range(len(ROOM_TYPES))))


@dataclass(frozen=True)
class Feasibility:
    """Result of a feasibility check.

    ``can_be_met``: None if undecided. ``contradiction``: rules that cannot hold together, in the
    order of the brief. ``is_irreducible``: without any one of them the others can be met; False if
    that was not decided for some. ``example``: a diagram that meets the brief.
    """

    can_be_met: bool | None
    contradiction: tuple[Source, ...] = ()
    is_irreducible: bool = False
    example: BubbleDiagram | None = None


def feasibility(
    brief: Brief,
    n_max: int,
    vocabulary: PlanVocabulary = DIRECTIONS,
    *,
    effort: float = EFFORT,
    exact: bool | None = None,
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
        answer, _ = _solve(_restricted(brief, kept), n_max, vocabulary, effort)
        return None if answer is None else not answer

    example = None
    # not refuted by counting: the solver finds a diagram, or reduces the contradiction
    if not is_refuted_by(requirements):
        if not exact:
            return Feasibility(None)
        answer, example = _solve(brief, n_max, vocabulary, effort)
        if answer is not False:
            return _check_plan(brief, answer, example, n_max, vocabulary, effort)
        return _contradiction(*_reduce(requirements, is_impossible))
    # refuted by counting: reduce the contradiction first cheaply, then by the solver
    members, is_irreducible = _reduce(requirements, is_refuted_by)
    if exact:
        members, is_irreducible = _reduce(members, is_impossible)
    return _contradiction(members, is_irreducible and exact)


def contradiction(
    brief: Brief, n_max: int, vocabulary: PlanVocabulary = DIRECTIONS
) -> tuple[Source, ...] | None:
    """Rules that cannot hold together; None if the brief can be met or the answer is undecided."""
    found = feasibility(brief, n_max, vocabulary)
    return found.contradiction if found.can_be_met is False else None


def drop_rules(brief: Brief, dropped: Sequence[Source]) -> Brief:
    """Return the brief without the rules of these sources.

    A dropped named room may be of any type, and stays only if a relation names it.
    """
    keys = {source.key for source in dropped}
    kept = [each for each in _requirements(brief) if each.source.key not in keys]
    return _restricted(brief, kept)


@dataclass(frozen=True, eq=False)
class _Requirement:
    """One rule, the number of rooms, or a named room."""

    source: Source
    rule: CountRule | RelationRule | DegreeRule | ConnectedRule | None = None
    name: str | None = None


def _requirements(brief: Brief) -> Iterator[_Requirement]:
    if brief.num_rooms != Numbers(1):
        own = Source("num_rooms", f"num_rooms: {brief.num_rooms}")
        yield _Requirement(brief.sources.get("num_rooms", own))
    for name, kind in brief.named.items():
        own = Source(f"named.{name}", named_sentence(name, kind))
        yield _Requirement(brief.sources.get(f"named.{name}", own), name=name)
    for rule in brief.rules:
        source = rule.source if rule.source.text else replace(rule.source, text=sentence_of(rule))
        yield _Requirement(source, rule)


def _restricted(brief: Brief, kept: Sequence[_Requirement]) -> Brief:
    """The brief with the ``kept`` requirements only."""
    rules = [each.rule for each in kept]
    relations = [rule for rule in rules if isinstance(rule, RelationRule)]
    in_relations = {name for rule in relations for name in rule.names}
    kinds = {each.name: brief.named[each.name] for each in kept if each.name is not None}
    has_size = any(each.rule is None and each.name is None for each in kept)
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
    )


def _reduce(
    requirements: Sequence[_Requirement],
    is_impossible: Callable[[Sequence[_Requirement]], bool | None],
) -> tuple[list[_Requirement], bool]:
    """Reduce contradictory requirements by leaving out one after the other.

    Returns the smaller of two reductions, from the end of the brief and, for few requirements, from
    its beginning; and True if every remaining one was found necessary.
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


def _contradiction(members: Sequence[_Requirement], is_irreducible: bool) -> Feasibility:
    return Feasibility(False, tuple(each.source for each in members), is_irreducible)


def _solve(
    brief: Brief, n_max: int, vocabulary: PlanVocabulary, effort: float, seed: int = 0
) -> tuple[bool | None, BubbleDiagram | None]:
    """Search for a diagram that meets the brief: True and the diagram, or False if none exists.

    None: undecided, also if only diagrams of more rooms than ``MOST_ROOMS`` are left.
    """
    # bounds on the number of rooms
    least, most = least_and_most(brief, n_max)
    least = max(least, len(brief.named))
    if least > most:
        return False, None
    # small diagrams first
    for rooms in MOST_ROOMS:
        if rooms >= least:
            model = GraphModel(brief, least=least, most=min(most, rooms), vocabulary=vocabulary)
            answer, example = model.solve(effort, seed=seed)
            if answer or answer is None or most <= rooms:
                return answer, example
    return None, None


def _check_plan(
    brief: Brief,
    answer: bool | None,
    example: BubbleDiagram | None,
    n_max: int,
    vocabulary: PlanVocabulary,
    effort: float,
) -> Feasibility:
    """Result for a brief that no contradiction refutes: ``buildable`` needs a floor plan too."""
    if not (answer and brief.buildable):
        return Feasibility(answer, example=example)
    for seed in _SEEDS:
        _, example = _solve(brief, n_max, vocabulary, effort, seed)
        assert example is not None
        if has_floor_plan(example, effort):
            return Feasibility(True, example=example)
    return Feasibility(None)


def has_floor_plan(diagram: BubbleDiagram, effort: float = EFFORT) -> bool:
    """True if a floor plan without overlaps was found; False for a diagram without directions."""
    if not diagram.vocabulary.has_directions:
        return False
    graph = (diagram.num_rooms, diagram.relations)
    return boxes_of(graph, rule=BoxRule(), buildable=True, effort=effort)[0] is True

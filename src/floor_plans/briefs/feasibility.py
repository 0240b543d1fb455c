"""Check that a brief can be met at all, and if not, which of its rules contradict each other."""

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
from floor_plans.plans.box_model import boxes_of, is_installed
from floor_plans.plans.box_rule import BoxRule

if TYPE_CHECKING:
    from floor_plans.diagrams.diagram import BubbleDiagram

EFFORT = 2.0
"""Effort of the solver for each question: its deterministic units, about CPU-seconds."""

MOST_ROOMS = (8, 12)
"""Numbers of rooms of the diagrams that the solver looks for: more only if there is none of so
many."""

_MOST_TWICE = 12
"""Rules of a brief that are left out in two orders, for the smaller contradiction."""

_SEEDS = range(4)
"""Seeds of the diagrams for which a floor plan is looked for."""

_ANY = Kind("room", frozenset(range(len(ROOM_TYPES))))


@dataclass(frozen=True)
class Feasibility:
    """Answer to whether a brief can be met.

    ``can_be_met``: None, it was not decided. ``contradiction``: rules that cannot hold together,
    whatever the others are, in the order of the brief; ``is_irreducible``: without any one of them
    the others can; False: for some that was not decided. ``example``: a diagram that meets all.
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
    """Find out whether diagrams with at most ``n_max`` rooms can meet the brief.

    Numbers of rooms and orders of named rooms are looked at first, see ``is_refuted``. Then,
    ``exact``, a solver decides (``GraphModel``), where OR-Tools is installed; it knows that left of
    and above are orders, as they are in every plan. Without it no brief is found to be possible.

    ``Brief.buildable`` is met if one of a few diagrams that meet the rest has a floor plan; if none
    of them has, it was not decided.
    """
    exact = is_installed() if exact is None else exact
    demands = list(_demands(brief))

    def is_refuted_by(kept: Sequence[_Demand]) -> bool:
        return is_refuted(_only(brief, kept), n_max, vocabulary)

    def is_impossible(kept: Sequence[_Demand]) -> bool | None:
        if is_refuted_by(kept):
            return True
        found, _ = _solved(_only(brief, kept), n_max, vocabulary, effort)
        return None if found is None else not found

    example = None
    if not is_refuted_by(demands):
        if not exact:
            return Feasibility(None)
        answer, example = _solved(brief, n_max, vocabulary, effort)
        if answer is not False:
            return _with_plan(brief, answer, example, n_max, vocabulary, effort)
        return _contradiction(*_reduced(demands, is_impossible))
    members, is_irreducible = _reduced(demands, is_refuted_by)
    if exact:
        members, is_irreducible = _reduced(members, is_impossible)
    return _contradiction(members, is_irreducible and exact)


def contradiction(
    brief: Brief, n_max: int, vocabulary: PlanVocabulary = DIRECTIONS
) -> tuple[Source, ...] | None:
    """Rules that cannot hold together, see ``Feasibility``; None if the brief can be met, or that
    was not decided."""
    found = feasibility(brief, n_max, vocabulary)
    return found.contradiction if found.can_be_met is False else None


def without(brief: Brief, dropped: Sequence[Source]) -> Brief:
    """The brief without the rules that have these sources. A named room whose source is among them
    may be of any type, and is no longer requested unless a relation speaks of it."""
    keys = {source.key for source in dropped}
    return _only(brief, [each for each in _demands(brief) if each.source.key not in keys])


@dataclass(frozen=True, eq=False)
class _Demand:
    """One rule, the number of rooms, or a named room."""

    source: Source
    rule: CountRule | RelationRule | DegreeRule | ConnectedRule | None = None
    name: str | None = None


def _demands(brief: Brief) -> Iterator[_Demand]:
    if brief.num_rooms != Numbers(1):
        own = Source("num_rooms", f"num_rooms: {brief.num_rooms}")
        yield _Demand(brief.sources.get("num_rooms", own))
    for name, kind in brief.named.items():
        own = Source(f"named.{name}", named_sentence(name, kind))
        yield _Demand(brief.sources.get(f"named.{name}", own), name=name)
    for rule in brief.rules:
        source = rule.source if rule.source.text else replace(rule.source, text=sentence_of(rule))
        yield _Demand(source, rule)


def _only(brief: Brief, kept: Sequence[_Demand]) -> Brief:
    rules = [each.rule for each in kept]
    relations = [rule for rule in rules if isinstance(rule, RelationRule)]
    spoken_of = {name for rule in relations for name in rule.names}
    kinds = {each.name: brief.named[each.name] for each in kept if each.name is not None}
    return Brief(
        num_rooms=brief.num_rooms if any(_is_size(each) for each in kept) else Numbers(1),
        counts=[rule for rule in rules if isinstance(rule, CountRule)],
        relations=relations,
        named={
            name: kinds.get(name, _ANY)
            for name in brief.named
            if name in kinds or name in spoken_of
        },
        degree=next((rule for rule in rules if isinstance(rule, DegreeRule)), None),
        connected=next((rule for rule in rules if isinstance(rule, ConnectedRule)), None),
    )


def _is_size(demand: _Demand) -> bool:
    return demand.rule is None and demand.name is None


def _reduced(
    demands: Sequence[_Demand], is_impossible: Callable[[Sequence[_Demand]], bool | None]
) -> tuple[list[_Demand], bool]:
    """Demands of which none can be left out, and whether that was decided of each; those of the end
    of the brief are left out first, or, of few, those of its beginning, if that leaves fewer."""
    found, known = [], dict[frozenset[_Demand], bool | None]()
    orders = [demands[::-1], demands]
    for order in orders if len(demands) <= _MOST_TWICE else orders[:1]:
        kept, is_irreducible = list(demands), True
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


def _contradiction(members: Sequence[_Demand], is_irreducible: bool) -> Feasibility:
    return Feasibility(False, tuple(each.source for each in members), is_irreducible)


def _solved(
    brief: Brief, n_max: int, vocabulary: PlanVocabulary, effort: float, seed: int = 0
) -> tuple[bool | None, BubbleDiagram | None]:
    """True and such a diagram if there is one; None: not decided, also of more rooms than
    ``MOST_ROOMS``."""
    least, most = least_and_most(brief, n_max)
    least = max(least, len(brief.named))
    if least > most:
        return False, None
    for rooms in MOST_ROOMS:
        if rooms >= least:
            model = GraphModel(brief, least=least, most=min(most, rooms), vocabulary=vocabulary)
            answer, example = model.solve(effort, seed=seed)
            if answer or answer is None or most <= rooms:
                return answer, example
    return None, None


def _with_plan(
    brief: Brief,
    answer: bool | None,
    example: BubbleDiagram | None,
    n_max: int,
    vocabulary: PlanVocabulary,
    effort: float,
) -> Feasibility:
    if not (answer and brief.buildable):
        return Feasibility(answer, example=example)
    for seed in _SEEDS:
        _, example = _solved(brief, n_max, vocabulary, effort, seed)
        assert example is not None
        if has_floor_plan(example, effort):
            return Feasibility(True, example=example)
    return Feasibility(None)


def has_floor_plan(diagram: BubbleDiagram, effort: float = EFFORT) -> bool:
    """True if one was found in which rooms do not overlap; of a diagram that says no directions,
    none is looked for."""
    if not diagram.vocabulary.has_directions:
        return False
    graph = (diagram.num_rooms, diagram.relations)
    return boxes_of(graph, rule=BoxRule(), buildable=True, effort=effort)[0] is True

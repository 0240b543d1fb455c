"""Feasibility of a brief: decide if any diagram meets it, and find contradictory rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

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
    RelationRule,
    Rule,
    names_in,
)
from floor_plans.briefs.graph_model import GraphModel
from floor_plans.briefs.sentences import named_sentence, sentence_of
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.yaml_nodes import Source
from floor_plans.diagrams.vocabulary import DIRECTIONS, ROOM_TYPES, PlanVocabulary
from floor_plans.plans.box_model import BoxRule, boxes_of_graph, is_installed

EFFORT = 2.0  # effort of the solver for each question: its deterministic units, about CPU-seconds

_STEPS = (8, 12)
"""Most rooms of the diagrams that the solver looks for first: it takes the next step only if no
smaller diagram meets the brief, and the last one to the most rooms that there may be."""

_MOST_TWICE = 12
"""Most rules for which contradictions are reduced in two orders, to report the smaller one."""

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
    if not is_installed():
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
    graph = (diagram.num_rooms, diagram.relations)
    return boxes_of_graph(graph, rule=BoxRule(), buildable=True, effort=EFFORT)[0] is True

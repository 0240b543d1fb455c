"""Sentences on briefs: one for each rule, and words for kinds of rooms and relations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from floor_plans.briefs.brief import (
    ANY_RELATION,
    AnyRule,
    Brief,
    ConnectedRule,
    CountRule,
    DegreeRule,
    Kind,
    Numbers,
    Option,
    PlanFacts,
    Quantity,
    Rule,
)
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.vocabulary import RELATIONS, ROOM_GROUPS, ROOM_TYPES
from floor_plans.plans.outline import Outline

_SAID = {
    "left-of": "left of",
    "right-of": "right of",
    "left-above": "left of and above",
    "left-below": "left of and below",
    "right-above": "right of and above",
    "right-below": "right of and below",
    "surrounding": "around",
    "adjacent": "next to, in a wall without a door,",
    "door": "joined by a door to",
}
"""Words for relations whose names do not fit into a sentence."""


def sentences(brief: Brief) -> list[str]:
    """Return a sentence for each rule, and one for the facts of the plan."""
    # size
    number = brief.num_rooms
    sentences = [f"{_capital(str(number))} {'room' if number.most == 1 else 'rooms'} in all."]
    if number == Numbers(1):
        sentences = ["Any number of rooms."]
    # counts, named rooms, other rules
    sentences += [sentence_of(rule) for rule in brief.counts]
    sentences += [named_sentence(name, kind) for name, kind in brief.named.items()]
    if len(brief.named) > 1:
        names = [f'"{name}"' for name in brief.named]
        sentences.append(f"{_listed(names, 'and')} are different rooms.")
    sentences += [sentence_of(rule) for rule in brief.rules if not isinstance(rule, CountRule)]
    sentences += [
        f"{_capital(_option_in_words(soft.option))}, if possible: {soft.weight:g} times as likely."
        for soft in brief.should
    ]
    # the floor plan
    if brief.buildable:
        sentences.append("There is a floor plan with these relations.")
    return [*sentences, *_facts_in_words(brief.plan_facts)]


def _facts_in_words(facts: PlanFacts) -> Iterator[str]:
    """Yield a sentence for each fact on rooms and doors, and one for all others."""
    for rule in facts.areas or ():
        bounds = f"at least {rule.least:g}"
        if rule.most is not None:
            bounds = f"{rule.least:g} to {rule.most:g}"
        yield f"Every {_word(rule.kind)} has {bounds} m2 without its walls."
    for name, what in (
        ("doors", "A door joins some {} and some {}."),
        ("no_door", "No door joins any {} and any {}."),
        ("open", "Some {} and some {} are open to each other, without a wall."),
    ):
        for pair in getattr(facts, name) or ():
            yield what.format(*map(_word, pair))
    for kind in facts.light or ():
        yield f"Every {_word(kind)} has an outer wall for daylight."
    if facts.accessible:
        yield "Doors are wide enough for a wheelchair, and it can turn in halls and a bathroom."
    if (site := facts.site) is not None:
        inner = f"{site.buildable.area:.1f} m2 of them within the setbacks"
        yield f"The site has {site.area:.1f} m2, {inner}."
        if facts.outline is not None:
            area = Outline(boundary=facts.outline).area
            north = "" if facts.north is None else f"; north is at {facts.north:g} degrees"
            yield f"The plot of {area:.1f} m2 has the corners {[*map(list, facts.outline)]}{north}."
    shared = [n for n in ("area", "outline", "front_door", "north") if n in facts.names]
    if shared:
        it = "it" if len(shared) == 1 else "them"
        names = _listed([name.replace("_", " ") for name in shared], "and")
        yield (f"The {names}: for the solver, and a model trained on {it}; no diagram shows {it}.")


def named_sentence(name: str, kind: Kind) -> str:
    """Sentence such as ``There is a room "parents": a MasterRoom``."""
    types = _listed(kind.names, "or")
    return f'There is a room "{name}": a{"n" * types.startswith(("A", "E", "I", "O"))} {types}.'


def sentence_of(rule: Rule) -> str:
    """Return one rule as a sentence."""
    if isinstance(rule, CountRule):
        number, word = rule.number, _word(rule.kind)
        inner = f" ({_listed(rule.kind.names, 'or')})" if len(rule.kind.types) > 1 else ""
        if number == Numbers(0, 0):
            return f"No {word}{inner}."
        if number.most != 1 and number != Numbers(1):
            word = _plural(word)
        return f"{_capital(str(number))} {word}{inner}."
    if isinstance(rule, DegreeRule):
        if rule.most == 0:
            return "No room is next to another."
        return f"No room is next to more than {rule.most} other{'s' * (rule.most > 1)}."
    if isinstance(rule, ConnectedRule):
        return "Every room can be reached from every other."
    if isinstance(rule, AnyRule):
        return f"{_capital(', or '.join(map(_option_in_words, rule.options)))}."
    # named rooms take "is" and "is not", kinds take a quantity
    target = f'"{rule.object}"'
    if isinstance(rule.object, Kind):
        target = f"{'any' if rule.quantity is Quantity.NO else 'some'} {_word(rule.object)}"
    relation = f"{relation_words(rule.relations)} {target}"
    if isinstance(rule.subject, str):
        negated = "not " if rule.quantity is Quantity.NO else ""
        return f'"{rule.subject}" is {negated}{relation}.'
    return f"{_capital(rule.quantity.value)} {_word(rule.subject)} is {relation}."


def _option_in_words(option: Option) -> str:
    """Rules of an option as part of a sentence."""
    said = [sentence_of(rule).removesuffix(".") for rule in option]
    return " and ".join(words[:1].lower() + words[1:] for words in said)


def relation_words(relations: Iterable[int]) -> str:
    """Words such as ``next to`` or ``left of, or below``."""
    codes = frozenset(relations)
    if codes == ANY_RELATION:
        return "next to"
    names = [RELATIONS[code] for code in sorted(codes)]
    return ", or ".join(_SAID.get(name, name) for name in names)


def rooms_in_words(diagram: BubbleDiagram) -> str:
    """Counts such as ``1 kitchen, 2 bathrooms``."""
    return ", ".join(
        f"{num} {word if num == 1 else _plural(word)}"
        for word, num in Counter(map(_words, diagram.room_names)).items()
    )


def _word(kind: Kind) -> str:
    """Name of a kind in words: ``living room``, or ``room of Wet`` for a group of the brief."""
    if " or " in kind.name:
        return " or ".join(_words(name) for name in kind.name.split(" or "))
    if kind.name not in (*ROOM_TYPES, *ROOM_GROUPS):
        return f"room of {kind.name}"
    return _words(kind.name)


def _words(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _plural(word: str) -> str:
    if word.startswith("room of "):
        return f"rooms{word[4:]}"
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"rooms for {word}" if word == "storage" else f"{word}s"


def _listed(words: Iterable[str], last: str) -> str:
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

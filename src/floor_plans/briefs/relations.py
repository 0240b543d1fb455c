"""Rules about two rooms: "every Bathroom adjacent Bedroom"."""

from __future__ import annotations

from collections.abc import Mapping

from floor_plans.briefs.brief import Kind, Quantity, RelationRule
from floor_plans.briefs.words import QUANTITIES, codes_of_relation, kind_of, relation_of
from floor_plans.diagrams.files.yaml_nodes import Node

_ARTICLES = ("a", "an", "the")
_LONGEST_RELATION = 7
"""Words, as in "left of or left above"."""

_EXAMPLE = "'Kitchen adjacent LivingRoom' or [Kitchen, adjacent, LivingRoom]"


def relation_rule(
    node: Node, groups: Mapping[str, Kind], named: Mapping[str, Kind]
) -> RelationRule:
    """Read a relation rule from a sentence or a list; ``groups`` and ``named`` are the kinds that
    it may speak of. ``BriefError`` for any other."""
    if isinstance(node.value, tuple):
        quantity, first, relation, second = _of_list(node)
    elif isinstance(node.value, str):
        quantity, first, relation, second = _of_sentence(node, node.value)
    else:
        raise node.error(f"expected a rule such as {_EXAMPLE}, got {node.shown}")
    codes = relation_of(node, relation)

    def end(word: str) -> Kind | str:
        return word if word in named else kind_of(node, word, groups, named)

    subject, target = end(first), end(second)
    if isinstance(subject, str) and subject == target:
        raise node.error(f"{subject} twice; a room has no relation to itself")
    return RelationRule(quantity, subject, codes, target, node.source)


def _of_list(node: Node) -> tuple[Quantity, str, str, str]:
    words = [_alternatives(item) for item in node.value]
    quantity = Quantity.SOME
    if len(words) == 4 and words[0].casefold() in QUANTITIES:
        quantity = Quantity(QUANTITIES[words.pop(0).casefold()])
    if len(words) != 3:
        raise node.error(f"expected a rule such as {_EXAMPLE}, got a list of {len(words)}")
    return quantity, words[0], words[1], words[2]


def _alternatives(node: Node) -> str:
    """``[below, left-below]`` as ``below|left-below``."""
    if isinstance(node.value, tuple):
        return "|".join(_alternatives(item) for item in node.items("words"))
    if isinstance(node.value, dict | int | None) and not isinstance(node.value, bool):
        raise node.error(f"expected a word, got {node.shown}")
    return node.words


def _of_sentence(node: Node, text: str) -> tuple[Quantity, str, str, str]:
    words, quantity = text.split(), Quantity.SOME
    if words and words[0].casefold() in QUANTITIES:
        quantity = Quantity(QUANTITIES[words.pop(0).casefold()])
    start, stop = _place(node, words)
    subject, relation, target = words[:start], words[start:stop], words[stop:]
    if subject[-1].casefold() == "not":
        raise node.error(f"say it as: no {' '.join([*_bare(subject[:-1]), *relation, *target])}")
    if len(subject) > 1 and subject[0].casefold() in _ARTICLES:
        subject = subject[1:]
    if len(target) > 1 and target[0].casefold() in (*_ARTICLES, "some", "any"):
        target = target[1:]
    if len(target) > 1 and target[0].casefold() in QUANTITIES:
        raise node.error(f"'{target[0]}' can stand before the first room alone")
    return quantity, " ".join(_bare(subject)), " ".join(relation), " ".join(target)


def _bare(words: list[str]) -> list[str]:
    """Words without "is" and "are"."""
    return words[:-1] if len(words) > 1 and words[-1].casefold() in ("is", "are") else words


def _place(node: Node, words: list[str]) -> tuple[int, int]:
    """Place of the relation in a sentence, with words on either side."""
    for start in range(1, len(words) - 1):
        for stop in range(min(len(words) - 1, start + _LONGEST_RELATION), start, -1):
            if codes_of_relation(" ".join(words[start:stop])) is not None:
                return start, stop
    if len(words) == 3:
        relation_of(node, words[1])
    raise node.error(f"expected a rule such as {_EXAMPLE}, got {node.shown}")

"""The words of briefs: numbers, kinds of rooms, relations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from discrete_diffusion.config import unknown_name
from floor_plans.briefs.brief import BESIDE, Kind, Numbers
from floor_plans.diagrams.files.everyday_names import may_mean, room_type_of
from floor_plans.diagrams.files.yaml_nodes import Node
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.diagrams.vocabulary import RELATIONS, ROOM_GROUPS, ROOM_TYPES

_RANGES = (
    (r"(?P<least>\d+)(?P<most>)", 0),
    (r"exactly (?P<least>\d+)(?P<most>)", 0),
    (r"(?P<least>\d+) ?(-|–|to|or) ?(?P<most>\d+)", 1),
    (r"(at least|>=) ?(?P<least>\d+)(?P<most>)", 2),
    (r"(?P<least>\d+) ?(\+|or more)(?P<most>)", 2),
    (r"(at most|up to|<=) ?(?P<most>\d+)(?P<least>)", 3),
)
"""How numbers are written -> exact, a range, at least or at most."""

_FORMS = "6, 5-7, [5, 7], at least 5, at most 7 or 5+"

_MOST_DIGITS = 4

BESIDE_WORDS = ("adjacent", "adjacent-to", "beside", "next-to", "touches")

QUANTITIES = {"some": "some", "every": "every", "each": "every", "all": "every", "no": "no"}


def numbers_of(node: Node) -> Numbers:
    """``BriefError`` for what is no number of rooms."""
    if isinstance(node.value, tuple):
        ends = [each.value for each in node.value]
        if len(ends) != 2 or not all(type(end) is int for end in ends):
            raise node.error(f"expected [least, most], two numbers, got {node.words}")
        return _range(node, *ends)
    if isinstance(node.value, bool | dict) or node.value in (None, ""):
        raise node.error(f"expected a number of rooms, such as {_FORMS}; got {node.shown}")
    if isinstance(node.value, int):
        return _range(node, node.value, node.value)
    text = " ".join(node.value.casefold().split())
    for pattern, form in _RANGES:
        if found := re.fullmatch(pattern, text):
            least, most = (_integer(node, found[name]) for name in ("least", "most"))
            return _range(node, least or 0, (least, most, None, most)[form])
    raise node.error(f"expected a number of rooms, such as {_FORMS}; got {node.shown}")


def _integer(node: Node, digits: str) -> int | None:
    if len(digits) > _MOST_DIGITS:
        raise node.error(f"{digits[:20]} rooms are more than a plan has")
    return int(digits) if digits else None


def _range(node: Node, least: int, most: int | None) -> Numbers:
    for end in (least, most or 0):
        if end < 0:
            raise node.error(f"{end} rooms: expected a number from 0 on")
        _integer(node, str(end))
    if most is not None and most < least:
        raise node.error(f"{least} to {most} is upside down; did you mean {most}-{least}?")
    return Numbers(least, most)


def kind_named(word: str, groups: Mapping[str, Kind]) -> Kind | None:
    """The group, or the room type, that a word means, also in the plural; None if it is none."""
    for each in (word, word[:-1] if word.endswith("s") else ""):
        by_name = {name.casefold(): kind for name, kind in groups.items()}
        if found := by_name.get(each.casefold()):
            return found
        if name := room_type_of(each, ROOM_TYPES):
            return Kind(name, frozenset({ROOM_TYPES.index(name)}))
    return None


def built_in_groups() -> dict[str, Kind]:
    return {name: Kind.of(name) for name in ROOM_GROUPS}


def kind_of(node: Node, word: str, groups: Mapping[str, Kind], names: Iterable[str] = ()) -> Kind:
    """Kind that a word means, such as "living room", "Bedroom" or "Kitchen|DiningRoom". ``names``:
    of rooms, that could have been meant as well. ``BriefError`` if it means none, or may mean
    several."""
    if "|" in word:
        kinds = [kind_of(node, each.strip(), groups, names) for each in word.split("|")]
        return either(kinds)
    if found := kind_named(word, groups):
        return found
    if several := may_mean(word, ROOM_TYPES):
        raise node.error(f"{word!r} may be {' or '.join(several)}: write which")
    known = [*ROOM_TYPES, *(name for name in groups if name not in ROOM_TYPES), *names]
    message = unknown_name(
        "room type, group or name" if names else "room type or group", word, known
    )
    raise node.error(message)


def either(kinds: Iterable[Kind]) -> Kind:
    """Rooms of any of these."""
    kinds = list(kinds)
    types = frozenset(code for kind in kinds for code in kind.types)
    return Kind(" or ".join(kind.name for kind in kinds), types)


def codes_of_relation(phrase: str) -> frozenset[int] | None:
    """Codes of a phrase such as "left-of", "left of", "next to", "left-of|left-above", "left of or
    above"; None if it is no relation."""
    codes: set[int] = set()
    for part in re.split(r"\s*\|\s*|\s+or\s+", phrase.strip()):
        word = "-".join(part.casefold().replace("_", "-").split())
        if word in (*BESIDE_WORDS, "touching"):
            codes |= BESIDE
        elif word in RELATIONS:
            codes.add(RELATIONS.index(word))
        else:
            return None
    return frozenset(codes)


def relation_of(node: Node, phrase: str) -> frozenset[int]:
    """Codes of ``codes_of_relation``; ``BriefError`` if it is none, or "no-edge"."""
    codes = codes_of_relation(phrase)
    if codes is None:
        known = [name for name in RELATIONS if name != RELATIONS[NO_EDGE]]
        raise node.error(unknown_name("relation", phrase, dict.fromkeys([*known, *BESIDE_WORDS])))
    if NO_EDGE in codes:
        raise node.error(
            f"{RELATIONS[NO_EDGE]} is no relation of a brief; say that rooms are not beside each "
            "other with: no A adjacent B"
        )
    return codes

"""Parse the words of a brief: numbers and kinds of rooms, relation rules, lengths in metres."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from discrete_diffusion.config import unknown_name
from floor_plans.briefs.brief import ANY_RELATION, Kind, Numbers, Point, Quantity, RelationRule
from floor_plans.diagrams.files.fields import DiagramError, may_mean, room_type_of
from floor_plans.diagrams.files.yaml_nodes import Node
from floor_plans.diagrams.vocabulary import NO_EDGE, RELATIONS, ROOM_GROUPS, ROOM_TYPES
from floor_plans.plans.outline import LONGEST, MOST_AREA, Outline
from floor_plans.plans.site import SIDES, Site, side_towards, sides_from_street, straightened

_RANGES = (
    (r"(?P<least>\d+)(?P<most>)", 0),
    (r"exactly (?P<least>\d+)(?P<most>)", 0),
    (r"(?P<least>\d+) ?(-|–|to|or) ?(?P<most>\d+)", 1),
    (r"(at least|>=) ?(?P<least>\d+)(?P<most>)", 2),
    (r"(?P<least>\d+) ?(\+|or more)(?P<most>)", 2),
    (r"(at most|up to|<=) ?(?P<most>\d+)(?P<least>)", 3),
)
"""Pattern of a number of rooms, and its form: exact, a range, at least or at most."""

_FORMS = "6, 5-7, [5, 7], at least 5, at most 7 or 5+"

_MOST_DIGITS = 4

_MOST_WEIGHT = 1_000_000

_NEAR = 1e-3  # distance of two corners of a site that are one, metres

ADJACENT_WORDS = ("adjacent", "adjacent-to", "beside", "next-to", "touches")

GROUPS = {name: Kind.of(name) for name in ROOM_GROUPS}  # groups that every brief can name

QUANTITIES = {"some": "some", "every": "every", "each": "every", "all": "every", "no": "no"}


def numbers_of(node: Node) -> Numbers:
    """Read a range for a number of rooms; raise ``BriefError`` for other values."""
    # a list of two numbers
    if isinstance(node.value, tuple):
        ends = [each.value for each in node.value]
        if len(ends) != 2 or not all(type(end) is int for end in ends):
            raise node.error(f"expected [least, most], two numbers, got {node.words}")
        return _range(node, *ends)
    if type(node.value) is int:
        return _range(node, node.value, node.value)
    # a number in words
    text = " ".join(node.value.casefold().split()) if isinstance(node.value, str) else ""
    for pattern, form in _RANGES:
        if found := re.fullmatch(pattern, text):
            least, most = (_integer(node, found[name]) for name in ("least", "most"))
            return _range(node, least or 0, (least, most, None, most)[form])
    raise node.error(f"expected a number of rooms, such as {_FORMS}; got {node.shown}")


def _integer(node: Node, digits: str) -> int | None:
    """Number of rooms written in ``digits``; None if they are not digits."""
    if len(digits) > _MOST_DIGITS:
        raise node.error(f"{digits[:20]} rooms are more than a plan has")
    return int(digits) if digits else None


def _range(node: Node, least: int, most: int | None) -> Numbers:
    """Check and build a range."""
    for end in (least, most or 0):
        if end < 0:
            raise node.error(f"{end} rooms: expected a number from 0 on")
        _integer(node, str(end))
    if most is not None and most < least:
        raise node.error(f"{least} to {most} is upside down; did you mean {most}-{least}?")
    return Numbers(least, most)


def kind_named(word: str, groups: Mapping[str, Kind]) -> Kind | None:
    """Group or room type that a word names, also in the plural; None for other words."""
    for each in (word, word[:-1] if word.endswith("s") else ""):
        by_name = {name.casefold(): kind for name, kind in groups.items()}
        if found := by_name.get(each.casefold()):
            return found
        if name := room_type_of(each, ROOM_TYPES):
            return Kind(name, frozenset({ROOM_TYPES.index(name)}))
    return None


def kind_of(node: Node, word: str, groups: Mapping[str, Kind], names: Iterable[str] = ()) -> Kind:
    """Return the kind that a word names, such as "living room", "Bedroom" or "Kitchen|DiningRoom".

    ``names``: names of rooms, to suggest for an unknown word. Raises ``BriefError`` for an unknown
    or ambiguous word.
    """
    # alternatives
    if "|" in word:
        kinds = [kind_of(node, each.strip(), groups, names) for each in word.split("|")]
        return union_of_kinds(kinds)
    # a group or a room type
    if found := kind_named(word, groups):
        return found
    if several := may_mean(word, ROOM_TYPES):
        raise node.error(f"{word!r} may be {' or '.join(several)}: write which")
    # refuse with suggestions
    if " or " in word:
        raise node.error(f"{word!r}: write {word.replace(' or ', '|')!r}, or two sentences")
    known = [*ROOM_TYPES, *(name for name in groups if name not in ROOM_TYPES), *names]
    noun = "room type, group or name" if names else "room type or group"
    raise node.error(unknown_name(noun, word, known))


def union_of_kinds(kinds: Iterable[Kind]) -> Kind:
    """Union of several kinds of rooms."""
    kinds = list(kinds)
    types = frozenset(code for kind in kinds for code in kind.types)
    return Kind(" or ".join(kind.name for kind in kinds), types)


def codes_of_relation(phrase: str) -> frozenset[int] | None:
    """Codes of a phrase such as "left-of", "next to", "left-of|left-above" or "left of or above";
    None if the phrase is not a relation."""
    codes: set[int] = set()
    # alternatives may be separated by "|" or "or"
    for part in re.split(r"\s*\|\s*|\s+or\s+", phrase.strip()):
        word = "-".join(part.casefold().replace("_", "-").split())
        if word in (*ADJACENT_WORDS, "touching"):
            codes |= ANY_RELATION
        elif word in RELATIONS:
            codes.add(RELATIONS.index(word))
        else:
            return None
    return frozenset(codes)


def relation_of(node: Node, phrase: str) -> frozenset[int]:
    """Return ``codes_of_relation``; raise ``BriefError`` for other phrases and for "no-edge"."""
    codes = codes_of_relation(phrase)
    if codes is None:
        known = [name for name in RELATIONS if name != RELATIONS[NO_EDGE]]
        raise node.error(unknown_name("relation", phrase, dict.fromkeys([*known, *ADJACENT_WORDS])))
    if NO_EDGE in codes:
        raise node.error(
            f"{RELATIONS[NO_EDGE]} is not a relation of a brief; to keep rooms apart, write: "
            "no A adjacent B"
        )
    return codes


def sentences_in(text: str) -> list[str]:
    """Split at "or" between sentences, as in "Kitchen beside Balcony or no WC beside Kitchen"."""
    found, begun = list[str](), ""
    for part in re.split(r"\s+or\s+", text):
        begun = f"{begun} or {part}" if begun else part
        if _span(begun.split()) is not None:
            found, begun = [*found, begun], ""
    return [text] if begun else found


_ARTICLES = ("a", "an", "the")
_LONGEST_RELATION = 7  # words, as in "left of or left above"

_EXAMPLE = "'Kitchen adjacent LivingRoom' or [Kitchen, adjacent, LivingRoom]"


def relation_rule(
    node: Node, groups: Mapping[str, Kind], named: Mapping[str, Kind], text: str | None = None
) -> RelationRule:
    """Read a relation rule from a sentence or a list.

    ``groups`` and ``named``: kinds that the rule may name; ``text``: the sentence, if it is a part
    of the node's. Raises ``BriefError`` for other content.
    """
    if isinstance(node.value, tuple):
        words, quantity = [_alternatives(item) for item in node.value], Quantity.SOME
        if len(words) == 4 and words[0].casefold() in QUANTITIES:
            quantity = Quantity(QUANTITIES[words.pop(0).casefold()])
        if len(words) != 3:
            raise node.error(f"expected a rule such as {_EXAMPLE}, got a list of {len(words)}")
        first, relation, second = words
    elif isinstance(node.value, str):
        quantity, first, relation, second = parse_sentence(node, text or node.value)
    else:
        raise node.error(f"expected a rule such as {_EXAMPLE}, got {node.shown}")
    # ends are named rooms or kinds
    codes = relation_of(node, relation)

    def end(word: str) -> Kind | str:
        return word if word in named else kind_of(node, word, groups, named)

    subject, target = end(first), end(second)
    if isinstance(subject, str) and subject == target:
        raise node.error(f"{subject} twice; a room has no relation to itself")
    return RelationRule(quantity, subject, codes, target, node.source)


def _alternatives(node: Node) -> str:
    """Convert a list of relations, ``[below, left-below]``, to ``below|left-below``."""
    if isinstance(node.value, tuple):
        return "|".join(_alternatives(item) for item in node.items("words"))
    if isinstance(node.value, dict | int | None) and not isinstance(node.value, bool):
        raise node.error(f"expected a word, got {node.shown}")
    return node.words


def parse_sentence(node: Node, text: str) -> tuple[Quantity, str, str, str]:
    """Quantity, subject, relation and object of a sentence."""
    words, quantity = text.split(), Quantity.SOME
    if words and words[0].casefold() in QUANTITIES:
        quantity = Quantity(QUANTITIES[words.pop(0).casefold()])
    # split at the relation
    if (span := _span(words)) is None:
        if len(words) == 3:
            relation_of(node, words[1])
        raise node.error(f"expected a rule such as {_EXAMPLE}, got {node.shown}")
    start, stop = span
    subject, relation, target = words[:start], words[start:stop], words[stop:]
    if subject[-1].casefold() == "not":
        raise node.error(f"say it as: no {' '.join([*_bare(subject[:-1]), *relation, *target])}")
    # strip articles
    if len(subject) > 1 and subject[0].casefold() in _ARTICLES:
        subject = subject[1:]
    if len(target) > 1 and target[0].casefold() in (*_ARTICLES, "some", "any"):
        target = target[1:]
    if len(target) > 1 and target[0].casefold() in QUANTITIES:
        raise node.error(f"'{target[0]}' can stand before the first room alone")
    return quantity, " ".join(_bare(subject)), " ".join(relation), " ".join(target)


def _bare(words: list[str]) -> list[str]:
    """Words without a final "is" or "are"."""
    return words[:-1] if len(words) > 1 and words[-1].casefold() in ("is", "are") else words


def _span(words: list[str]) -> tuple[int, int] | None:
    """Start and stop of the longest relation within a sentence, as indices into ``words``."""
    # longest relation from the left
    for start in range(1, len(words) - 1):
        for stop in range(min(len(words) - 1, start + _LONGEST_RELATION), start, -1):
            if codes_of_relation(" ".join(words[start:stop])) is not None:
                return start, stop
    return None


def _bounded(node: Node, expected: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Read a number above ``low`` and at most ``high``; ``expected``: words and a comma."""
    number = _number(node)
    if number is None or not low < number <= high:
        raise node.error(f"expected {expected} got {node.shown}")
    return number


def area_of(node: Node) -> float:
    """Read square metres; raise ``BriefError`` unless above 0 and at most ``MOST_AREA``."""
    return _bounded(node, f"square metres, such as 85, at most {MOST_AREA:,};", 0, MOST_AREA)


def factor_of(node: Node) -> float:
    """Read a weight; raise ``BriefError`` unless above 1 and at most ``_MOST_WEIGHT``."""
    return _bounded(node, f"a weight above 1, at most {_MOST_WEIGHT:,},", 1, _MOST_WEIGHT)


def area_range_of(node: Node) -> tuple[float, float | None]:
    """Read [least, most] square metres, or one number for the least."""
    if not isinstance(node.value, tuple):
        return area_of(node), None
    if len(node.value) != 2:
        raise node.error(f"expected [least, most] in square metres, got {node.words}")
    least, most = map(area_of, node.value)
    if most < least:
        raise node.error(
            f"{least:g} to {most:g} is upside down; did you mean [{most:g}, {least:g}]?"
        )
    return least, most


def degrees_of(node: Node) -> float:
    """Read degrees clockwise from up; raise ``BriefError`` if the value is not a number."""
    return _bounded(node, "degrees clockwise from up, such as 30,")


def point_of(node: Node) -> Point:
    """Read a point in metres; raise ``BriefError`` if the value is not [x, y]."""
    ends = node.value if isinstance(node.value, tuple) else ()
    numbers = [_number(end) for end in ends]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        raise node.error(f"expected [x, y] in metres, got {node.shown}")
    return numbers[0], numbers[1]


def outline_of(node: Node) -> tuple[Point, ...]:
    """Read corners in metres; raise ``BriefError`` unless a plan can fill their polygon."""
    corners = tuple(map(point_of, node.items("the corners [[x, y], ...], in metres")))
    try:
        Outline(boundary=corners)
    except DiagramError as error:
        raise node.error(error.reason) from error
    return corners


_LENGTH = f"metres above 0, at most {LONGEST},"
_SITE_KEYS = ("polygon", "width", "depth", "setbacks", "street", "coverage")
_TURNS = {"bottom": 180, "left": 270, "top": 0, "right": 90}
_COMPASS = {"north": 0, "east": 90, "south": 180, "west": 270}
"""Sides of a site: degrees clockwise from up, or from north."""


def site_of(node: Node, north: float | None) -> Site:
    """Read a site, with its street straightened; ``north``: degrees clockwise from up."""
    parts = _known(node, _SITE_KEYS)
    # the corners, without repetition
    if {"polygon", "width", "depth"} & parts.keys() not in ({"polygon"}, {"width", "depth"}):
        raise node.error("expected polygon: [[x, y], ...], or width: and depth: in metres")
    if "polygon" in parts:
        written = outline_of(parts["polygon"])
    else:
        width, depth = (_bounded(parts[key], _LENGTH, 0, LONGEST) for key in ("width", "depth"))
        written = ((0.0, 0.0), (width, 0.0), (width, depth), (0.0, depth))
    around = pairwise([*written, written[0]])
    corners = [a for a, b in around if math.dist(a, b) > _NEAR]
    if len(corners) < 3:
        raise node.error("it has no area; its sides are in metres")
    # the street, with the width along it, then setbacks as seen from it
    street = _street_of(parts.get("street"), corners, north)
    if "width" in parts and street % 2:
        corners = [(0.0, 0.0), (depth, 0.0), (depth, width), (0.0, width)]
    polygon, turned = straightened(corners, street)
    setbacks, coverage = [0.0] * len(corners), 1.0
    if free := parts.get("setbacks"):
        if isinstance(free.value, dict):
            metres = {side: _metres(each) for side, each in _known(free, SIDES).items()}
            setbacks = [metres.get(side, 0.0) for side in sides_from_street(corners, street)]
        else:
            each = free.value if isinstance(free.value, tuple) else (free,) * len(corners)
            setbacks = list(map(_metres, each))
        if len(setbacks) != len(corners):
            raise free.error(f"expected {len(corners)}, one for each side; got {len(setbacks)}")
    if share := parts.get("coverage"):
        coverage = _bounded(share, "a share above 0 and at most 1, such as 0.3,", 0, 1)
    site = Site(polygon, tuple(setbacks), street, coverage, turned=turned)
    if not site.buildable.area:
        raise parts["setbacks"].error(f"they leave nothing of {site.area:g} m2; give less")
    return site


def _known(node: Node, keys: Sequence[str]) -> dict[str, Node]:
    """Entries of a node, which have some of these keys."""
    parts = node.entries(f"some of the keys {', '.join(keys)}")
    for key, each in parts.items():
        if key not in keys:
            raise each.error(unknown_name("key", key, keys))
    return parts


def _street_of(node: Node | None, corners: Sequence[Point], north: float | None) -> int:
    """Read the number of the side at the street, which is at the bottom unless stated."""
    side = "bottom" if node is None else node.value
    if type(side) is int and 1 <= side <= len(corners):
        return int(side) - 1
    if node is not None and not (isinstance(side, str) and side in _TURNS | _COMPASS):
        raise node.error(
            f"expected one side, that of the entrance: {', '.join(_TURNS | _COMPASS)}, or its "
            f"number from 1 to {len(corners)}; got {node.shown}"
        )
    if node is not None and side in _COMPASS and north is None:
        raise node.error(f"{side} needs north:, degrees clockwise from up; or write bottom")
    turn = math.radians(_TURNS[side] if side in _TURNS else _COMPASS[side] + (north or 0.0))
    return side_towards(corners, complex(math.sin(turn), -math.cos(turn)))


def _metres(node: Node) -> float:
    """Read metres from 0 to ``LONGEST``."""
    number = _number(node)
    if number is None or not 0 <= number <= LONGEST:
        raise node.error(f"expected metres from 0 to {LONGEST}, got {node.shown}")
    return number


def _number(node: Node) -> float | None:
    """Finite number of a node, also as text (YAML's 8.5), else None."""
    try:
        number = None if isinstance(node.value, bool) else float(node.value)
    except (TypeError, ValueError):
        return None
    return number if number is not None and math.isfinite(number) else None

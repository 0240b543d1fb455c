"""Why a diagram has no floor plan: few relations that no boxes have together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, permutations

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.contradictions import ORDERS
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.rooms import NO_EDGE, RELATIONS, ROOM_TYPES
from floor_plans.plans.box_model import boxes_of
from floor_plans.plans.box_rule import BoxRule
from floor_plans.plans.verdict import EFFORT, check_level, have_plans

Member = tuple[int, int, int]
"""(i, j, code), "no-edge" for rooms without a relation. Any i and j: code is read from i."""

_FORWARD = frozenset(map(RELATIONS.index, ("left-above", "left-of", "above", "inside")))
"""Relations that are stated rather than their inverse."""


@dataclass(frozen=True)
class Contradiction:
    """Relations of a diagram that no floor plan has together, whatever its other relations are.

    ``members``: in an order in which each begins, if it can, with the room that the one before ends
    with. ``names``: of all rooms of the diagram. ``level``: at which there is no plan.
    ``is_irreducible``: without any one of the members there is a plan of the rooms that are left;
    False: for some member that was not decided. Three members are the fewest there can be with the
    default rule, more need not be.
    ``is_realisable``: whether the whole diagram has boxes that may overlap; None: not decided.
    """

    members: tuple[Member, ...]
    names: tuple[str, ...]
    level: str
    is_irreducible: bool
    is_realisable: bool | None

    def __str__(self) -> str:
        """``kitchen left-of bathroom 1, bathroom 1 left-of balcony, ...``."""
        return ", ".join(text_of(member, self.names) for member in self.members)

    def sentence(self) -> str:
        """The members and what follows from them."""
        what = "contradict each other"
        if self.level == "buildable":
            what += {
                True: " unless rooms overlap or are L-shaped",
                False: ", even if rooms may overlap",
                None: " unless rooms overlap or are L-shaped, and perhaps even then",
            }[self.is_realisable]
        more = "" if self.is_irreducible else " (perhaps not all of these are needed)"
        return f"{self}: these {what}{more}"


def contradiction(
    diagram: BubbleDiagram | PartialDiagram,
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
) -> Contradiction | None:
    """A set of relations because of which a diagram has no floor plan (see ``find_boxes``), none of
    which can be left out; None if it has a plan, or that was not decided. Of a partial diagram:
    because of which no completion has one.

    A pair without a relation, which lies further apart than the threshold, may be a member too. A
    pair left out may have any relation or none, and so may rooms of which no pair is left.

    Of circles on an axis and sets within three rooms, the smallest is found. Otherwise pairs are
    left out one after the other, all pairs of a room at once first, as long as there is no plan.

    Raises as ``find_boxes`` does. ``effort``: of each use of the solver.
    """
    check_level(level)
    search = _Search(diagram, level == "buildable", rule or BoxRule(), effort)
    if (found := search.smallest()) is None:
        return None
    members, is_irreducible = search.reduced(found)
    is_realisable: bool | None = False
    if level == "buildable":
        if isinstance(diagram, BubbleDiagram):
            (is_realisable,) = have_plans([diagram], "realisable", rule=rule, effort=effort)
        else:
            is_realisable = _Search(diagram, False, rule or BoxRule(), effort).is_possible()
    names = room_names(diagram)
    return Contradiction(_chained(members), names, level, is_irreducible, is_realisable)


def why_not(
    diagram: BubbleDiagram,
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
) -> str:
    """``contradiction`` as a sentence; says so, too, if there is none to be found."""
    found = contradiction(diagram, level, rule=rule, effort=effort)
    if found is not None:
        return found.sentence()
    (answer,) = have_plans([diagram], level, rule=rule, effort=effort)
    return "it has a plan" if answer else "whether it has a plan was not decided with this effort"


def room_names(diagram: BubbleDiagram | PartialDiagram) -> tuple[str, ...]:
    """``living room``, ``kitchen``; ``bathroom 1``, ``bathroom 2`` of several, in their order;
    ``room`` of one whose type is not known."""
    types = ["Room" if room is None else ROOM_TYPES[room] for room in diagram.rooms]
    words = [re.sub("(?<=[a-z])(?=[A-Z])", " ", each).lower() for each in types]
    return tuple(
        f"{word} {words[: k + 1].count(word)}" if words.count(word) > 1 else word
        for k, word in enumerate(words)
    )


class _Search:
    """Sets of pairs of a diagram that no boxes have; of a partial one, of those it knows."""

    def __init__(
        self,
        diagram: BubbleDiagram | PartialDiagram,
        buildable: bool,
        rule: BoxRule,
        effort: float,
    ) -> None:
        known = {(i, j): code for i, j, code in diagram.relations}
        all_known = isinstance(diagram, BubbleDiagram)
        self._rooms = range(diagram.num_rooms)
        self._codes = {
            pair: known.get(pair, NO_EDGE)
            for pair in combinations(self._rooms, 2)
            if all_known or pair in known
        }
        self._solve = partial(boxes_of, rule=rule, buildable=buildable, effort=effort)
        self._settings = (rule, buildable, effort)

    def smallest(self) -> list[Member] | None:
        """Pairs that no boxes have: the shortest circle on an axis, three rooms, or all pairs."""
        circles = filter(None, (self._circle(signs) for _, signs in ORDERS[:2]))
        circle = min(circles, key=len, default=())
        if len(circle) == 3:
            return list(circle)
        for rooms in combinations(self._rooms, 3):
            pairs = [pair for pair in combinations(rooms, 2) if pair in self._codes]
            codes = tuple(self._codes[pair] for pair in pairs)
            if len(pairs) == 3 and _is_possible(_first_numbering(codes), *self._settings) is False:
                return [(*pair, code) for pair, code in zip(pairs, codes, strict=True)]
        if circle:
            return list(circle)
        everything = [(*pair, code) for pair, code in self._codes.items()]
        return everything if self.is_possible() is False else None

    def is_possible(self) -> bool | None:
        """True if there are boxes that have all of them; centres follow no circle on an axis."""
        if any(self._circle(signs) for _, signs in ORDERS[:2]):
            return False
        return self._is_possible([(*pair, code) for pair, code in self._codes.items()])

    def reduced(self, members: Sequence[Member]) -> tuple[list[Member], bool]:
        """Members of which none can be left out, and whether that was decided of each."""
        kept = list(members)
        if len(kept) > 3:
            for room in self._rooms:
                fewer = [member for member in kept if room not in member[:2]]
                if len(fewer) < len(kept) and self._is_possible(fewer) is False:
                    kept = fewer
        unrelated_first = sorted(kept, key=lambda member: member[2] != NO_EDGE)
        undecided = []
        for member in unrelated_first:
            answer = self._is_possible([other for other in kept if other != member])
            if answer is False:
                kept.remove(member)
            elif answer is None:
                undecided.append(member)
        for member in undecided:  # fewer are left, so that this may be decided now
            answer = self._is_possible([other for other in kept if other != member])
            if answer is False:
                kept.remove(member)
            elif answer is None:
                return kept, False
        return kept, True

    def _is_possible(self, members: Sequence[Member]) -> bool | None:
        """True if the rooms of ``members`` have boxes with these relations, whatever the others."""
        rooms = sorted({room for member in members for room in member[:2]})
        place = {room: k for k, room in enumerate(rooms)}
        known = {(place[i], place[j]): code for i, j, code in members}
        unknown = [pair for pair in combinations(range(len(rooms)), 2) if pair not in known]
        relations = [(i, j, code) for (i, j), code in known.items() if code != NO_EDGE]
        return self._solve((len(rooms), relations), unknown=unknown)[0]

    def _circle(self, signs: Sequence[int]) -> tuple[Member, ...]:
        """The shortest circle on one axis."""
        import networkx

        arcs = [
            pair if signs[code] < 0 else pair[::-1]
            for pair, code in self._codes.items()
            if signs[code]
        ]
        graph = networkx.DiGraph(arcs)
        circles = [
            networkx.shortest_path(graph, second, first)
            for first, second in arcs
            if networkx.has_path(graph, second, first)
        ]
        rooms: list[int] = min(circles, key=len, default=[])
        pairs = [(min(p), max(p)) for p in zip(rooms, [*rooms[1:], *rooms[:1]], strict=True)]
        return tuple((*pair, self._codes[pair]) for pair in pairs)


def _first_numbering(codes: tuple[int, ...]) -> tuple[int, ...]:
    """Codes of (0, 1), (0, 2), (1, 2), the rooms numbered so that they are the smallest."""
    known = dict(zip(combinations(range(3), 2), codes, strict=True))
    known |= {(j, i): _seen_from_the_other(code) for (i, j), code in [*known.items()]}
    numbered = [
        tuple(known[rooms[i], rooms[j]] for i, j in combinations(range(3), 2))
        for rooms in permutations(range(3))
    ]
    return min(numbered)


@cache
def _is_possible(
    codes: tuple[int, ...], rule: BoxRule, buildable: bool, effort: float
) -> bool | None:
    """True if three rooms can have these relations: cached, as there are 231 different ones."""
    pairs = combinations(range(3), 2)
    relations = [(*pair, code) for pair, code in zip(pairs, codes, strict=True) if code != NO_EDGE]
    return boxes_of((3, relations), rule=rule, buildable=buildable, effort=effort)[0]


def _seen_from_the_other(code: int) -> int:
    return NO_EDGE if code == NO_EDGE else 9 - code


def _chained(members: Iterable[Member]) -> tuple[Member, ...]:
    """Each member begins where the one before ended, if one can; most are stated in the usual
    direction."""
    members = sorted(members)
    turned = [(j, i, _seen_from_the_other(code)) for i, j, code in members]
    chains = [_chain_from(start, members) for start in (*members, *turned)]
    return max(chains, key=lambda chain: (_joints(chain), sum(m[2] in _FORWARD for m in chain)))


def _joints(chain: Sequence[Member]) -> int:
    """Number of members that begin where the one before, or for the first the last, ended."""
    return sum(one[1] == other[0] for one, other in zip(chain, [*chain[1:], chain[0]], strict=True))


def _chain_from(start: Member, members: Sequence[Member]) -> tuple[Member, ...]:
    left = {frozenset(member[:2]): member for member in members}
    chain = [start]
    del left[frozenset(start[:2])]
    while left:
        end = chain[-1][1]
        following = [m for m in left.values() if end in m[:2]] or [*left.values()]
        i, j, code = following[0]
        chain.append((i, j, code) if j != end else (j, i, _seen_from_the_other(code)))
        del left[frozenset((i, j))]
    return tuple(chain)


def text_of(member: Member, names: Sequence[str]) -> str:
    """``kitchen left-of bathroom``; ``names`` of all rooms."""
    i, j, code = member
    return f"{names[i]} {'not related to' if code == NO_EDGE else RELATIONS[code]} {names[j]}"

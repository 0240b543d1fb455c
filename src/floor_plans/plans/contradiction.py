"""``contradiction``: a small set of relations because of which a diagram has no floor plan."""

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
"""(i, j, code): the relation of room i to room j, "no-edge" if they are unrelated."""

_FORWARD = frozenset(map(RELATIONS.index, ("left-above", "left-of", "above", "inside")))
"""Relations preferred in sentences over their inverses."""


@dataclass(frozen=True)
class Contradiction:
    """Relations of a diagram that no floor plan satisfies together.

    ``members``: each begins, if possible, with the last room of the one before. ``names``: of all
    rooms. ``level``: the level without a plan. ``is_irreducible``: dropping any member
    leaves a satisfiable set; False if that is undecided for some member. ``is_realisable``: boxes
    that may overlap exist for the whole diagram; None: undecided.

    A contradiction has at least three members under the default rule.
    """

    members: tuple[Member, ...]
    names: tuple[str, ...]
    level: str
    is_irreducible: bool
    is_realisable: bool | None

    def __str__(self) -> str:
        """``kitchen left-of bathroom 1, bathroom 1 left-of balcony, ...``."""
        return ", ".join(member_text(member, self.names) for member in self.members)

    def sentence(self) -> str:
        """Return a sentence of the members and what follows from them."""
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
    """Find an irreducible set of relations that no floor plan satisfies (see ``find_boxes``). None
    if the diagram has a plan, or that is undecided. For a partial diagram: relations that no
    completion satisfies.

    A pair without a relation, whose rooms are further apart than the threshold, may be a member
    too. Pairs outside the set may have any relation or none.

    Among cycles on an axis and sets of three rooms the smallest is found. Otherwise pairs are
    dropped one by one while the rest stays infeasible, first all pairs of a room at once.

    ``effort``: for each call of the solver. Raises as ``find_boxes`` does.
    """
    check_level(level)
    # an infeasible set, then its reduction
    search = _Search(diagram, level == "buildable", rule or BoxRule(), effort)
    if (found := search.smallest()) is None:
        return None
    members, is_irreducible = search.reduced(found)
    # would the diagram have boxes if rooms could overlap?
    is_realisable: bool | None = False
    if level == "buildable":
        if isinstance(diagram, BubbleDiagram):
            (is_realisable,) = have_plans([diagram], "realisable", rule=rule, effort=effort)
        else:
            is_realisable = _Search(diagram, False, rule or BoxRule(), effort).is_possible()
    names = room_names(diagram)
    return Contradiction(_chained(members), names, level, is_irreducible, is_realisable)


def contradiction_sentence(
    diagram: BubbleDiagram,
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
) -> str:
    """Return ``contradiction`` as a sentence. If there is none, or none was found, the sentence
    says so."""
    found = contradiction(diagram, level, rule=rule, effort=effort)
    if found is not None:
        return found.sentence()
    (answer,) = have_plans([diagram], level, rule=rule, effort=effort)
    return "it has a plan" if answer else "whether it has a plan was not decided with this effort"


def room_names(diagram: BubbleDiagram | PartialDiagram) -> tuple[str, ...]:
    """Names of rooms: ``living room``, ``kitchen``. Rooms of one type are numbered, ``bathroom 1``,
    ``bathroom 2``; a room of unknown type is a ``room``."""
    # words of the type in lower case, numbered if there are several
    types = ["Room" if room is None else ROOM_TYPES[room] for room in diagram.rooms]
    words = [re.sub("(?<=[a-z])(?=[A-Z])", " ", each).lower() for each in types]
    return tuple(
        f"{word} {words[: k + 1].count(word)}" if words.count(word) > 1 else word
        for k, word in enumerate(words)
    )


class _Search:
    """Search for sets of pairs that no boxes satisfy. Only the known pairs of a partial diagram
    take part."""

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
        """Find an infeasible set: the shortest cycle on an axis, three rooms, or all pairs."""
        # three rooms in a cycle: nothing is smaller
        circles = filter(None, (self._circle(signs) for _, signs in ORDERS[:2]))
        circle = min(circles, key=len, default=())
        if len(circle) == 3:
            return list(circle)
        # any three rooms
        for rooms in combinations(self._rooms, 3):
            pairs = [pair for pair in combinations(rooms, 2) if pair in self._codes]
            codes = tuple(self._codes[pair] for pair in pairs)
            if len(pairs) == 3 and _is_possible(_first_numbering(codes), *self._settings) is False:
                return [(*pair, code) for pair, code in zip(pairs, codes, strict=True)]
        if circle:
            return list(circle)
        # all pairs
        everything = [(*pair, code) for pair, code in self._codes.items()]
        return everything if self.is_possible() is False else None

    def is_possible(self) -> bool | None:
        """Return True if boxes satisfy all pairs. A cycle on an axis rules them out, as centres
        would have to follow it."""
        if any(self._circle(signs) for _, signs in ORDERS[:2]):
            return False
        return self._is_possible([(*pair, code) for pair, code in self._codes.items()])

    def reduced(self, members: Sequence[Member]) -> tuple[list[Member], bool]:
        """Drop members while the rest stays infeasible. Returns the rest, and True if every member
        was decided."""
        kept = list(members)
        # all members of a room at once
        if len(kept) > 3:
            for room in self._rooms:
                fewer = [member for member in kept if room not in member[:2]]
                if len(fewer) < len(kept) and self._is_possible(fewer) is False:
                    kept = fewer
        # then one by one, pairs without a relation first
        unrelated_first = sorted(kept, key=lambda member: member[2] != NO_EDGE)
        undecided = []
        for member in unrelated_first:
            answer = self._is_possible([other for other in kept if other != member])
            if answer is False:
                kept.remove(member)
            elif answer is None:
                undecided.append(member)
        # with fewer members the undecided ones may be decided now
        for member in undecided:
            answer = self._is_possible([other for other in kept if other != member])
            if answer is False:
                kept.remove(member)
            elif answer is None:
                return kept, False
        return kept, True

    def _is_possible(self, members: Sequence[Member]) -> bool | None:
        """Return True if the rooms of ``members`` have boxes with these relations; other pairs are
        free."""
        # only the rooms of the members, numbered from 0
        rooms = sorted({room for member in members for room in member[:2]})
        place = {room: k for k, room in enumerate(rooms)}
        known = {(place[i], place[j]): code for i, j, code in members}
        unknown = [pair for pair in combinations(range(len(rooms)), 2) if pair not in known]
        relations = [(i, j, code) for (i, j), code in known.items() if code != NO_EDGE]
        return self._solve((len(rooms), relations), unknown=unknown)[0]

    def _circle(self, signs: Sequence[int]) -> tuple[Member, ...]:
        """Shortest cycle of rooms on one axis."""
        import networkx

        # arcs from a room to one behind it
        arcs = [
            pair if signs[code] < 0 else pair[::-1]
            for pair, code in self._codes.items()
            if signs[code]
        ]
        graph = networkx.DiGraph(arcs)
        # one shortest cycle through each arc
        circles = [
            networkx.shortest_path(graph, second, first)
            for first, second in arcs
            if networkx.has_path(graph, second, first)
        ]
        rooms: list[int] = min(circles, key=len, default=[])
        pairs = [(min(p), max(p)) for p in zip(rooms, [*rooms[1:], *rooms[:1]], strict=True)]
        return tuple((*pair, self._codes[pair]) for pair in pairs)


def _first_numbering(codes: tuple[int, ...]) -> tuple[int, ...]:
    """Smallest codes of (0, 1), (0, 2), (1, 2) over all numberings of three rooms."""
    known = dict(zip(combinations(range(3), 2), codes, strict=True))
    known |= {(j, i): _inverse(code) for (i, j), code in [*known.items()]}
    numbered = [
        tuple(known[rooms[i], rooms[j]] for i, j in combinations(range(3), 2))
        for rooms in permutations(range(3))
    ]
    return min(numbered)


@cache
def _is_possible(
    codes: tuple[int, ...], rule: BoxRule, buildable: bool, effort: float
) -> bool | None:
    """Return True if three rooms can have these relations. Cached, as only 231 cases differ."""
    pairs = combinations(range(3), 2)
    relations = [(*pair, code) for pair, code in zip(pairs, codes, strict=True) if code != NO_EDGE]
    return boxes_of((3, relations), rule=rule, buildable=buildable, effort=effort)[0]


def _inverse(code: int) -> int:
    """Code of a relation read from its second room."""
    return NO_EDGE if code == NO_EDGE else 9 - code


def _chained(members: Iterable[Member]) -> tuple[Member, ...]:
    """Order members so that each begins where the one before ended, if possible, and most read in
    the usual direction."""
    members = sorted(members)
    turned = [(j, i, _inverse(code)) for i, j, code in members]
    chains = [_chain_from(start, members) for start in (*members, *turned)]
    return max(chains, key=lambda chain: (_joints(chain), sum(m[2] in _FORWARD for m in chain)))


def _joints(chain: Sequence[Member]) -> int:
    """Count members that begin where their predecessor ended. The last precedes the first."""
    return sum(one[1] == other[0] for one, other in zip(chain, [*chain[1:], chain[0]], strict=True))


def _chain_from(start: Member, members: Sequence[Member]) -> tuple[Member, ...]:
    """Order members into a chain that begins with ``start``."""
    left = {frozenset(member[:2]): member for member in members}
    chain = [start]
    del left[frozenset(start[:2])]
    while left:
        end = chain[-1][1]
        # the next member begins at the end, or anywhere
        following = [m for m in left.values() if end in m[:2]] or [*left.values()]
        i, j, code = following[0]
        chain.append((i, j, code) if j != end else (j, i, _inverse(code)))
        del left[frozenset((i, j))]
    return tuple(chain)


def member_text(member: Member, names: Sequence[str]) -> str:
    """Return ``kitchen left-of bathroom``. ``names``: of all rooms."""
    i, j, code = member
    return f"{names[i]} {'not related to' if code == NO_EDGE else RELATIONS[code]} {names[j]}"

"""``contradiction``: a small set of relations that no floor plan of a diagram can satisfy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations

import numpy as np

from discrete_diffusion.config import counted
from discrete_diffusion.layout import RELATIONS, ROOM_TYPES
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.records import ReadReport
from floor_plans.diagrams.geometry import is_acyclic
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.partial import PartialDiagram, StatedRelation, check_contradictions
from floor_plans.diagrams.vocabulary import INSIDE, INVERSE, NO_EDGE, ORDERS, SURROUNDING
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.buildable import boxes_of_known
from floor_plans.plans.verdict import EFFORT, check_level, have_plans

Member = tuple[int, int, int]
"""(i, j, code): the relation of room i to room j, "no-edge" if they are unrelated."""

_FORWARD = frozenset(map(RELATIONS.index, ("left-above", "left-of", "above", "inside")))
"""Relations preferred in sentences over their inverses."""

_MAX_NAMED = 3

NUM_DECIDED = 100  # diagrams that the solver decides by default: about 5 CPU-seconds
_EFFORT = 0.3  # effort of the solver for a diagram, about a CPU-second


@dataclass(frozen=True)
class Contradiction:
    """Relations of a diagram that no floor plan satisfies together.

    ``members``: the relations, ordered so that most begin with the last room of the previous one.
    ``names``: names of all rooms. ``level``: level at which no plan exists, one of ``LEVELS``.
    ``is_irreducible``: True if dropping any member makes the set satisfiable; False if that is
    undecided for some member. ``is_realisable``: True if boxes that may overlap exist for the whole
    diagram; None if undecided.

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
        """Return a sentence that states the members and their consequence."""
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
    """Find an irreducible set of relations that no floor plan satisfies (see ``find_boxes``), or
    None if the diagram has a plan or this is undecided. For a partial diagram: relations that no
    completion satisfies.

    A pair without a relation, further apart than the threshold, may be a member too. Pairs outside
    the set may have any relation or none. Cycles on an axis and sets of three rooms are tried
    first. Otherwise pairs are dropped one by one while the rest stays infeasible, first all pairs
    of a room.

    ``effort``: limit of each call of the solver. Also raises what ``find_boxes`` raises.
    """
    check_level(level)
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
    return Contradiction(_in_a_chain(members), names, level, is_irreducible, is_realisable)


def room_names(diagram: BubbleDiagram | PartialDiagram) -> tuple[str, ...]:
    """Names of rooms: ``living room``, ``kitchen``. Rooms of one type are numbered, ``bathroom 1``,
    ``bathroom 2``; a room of unknown type is a ``room``."""
    types = ["Room" if room is None else ROOM_TYPES[room] for room in diagram.rooms]
    words = [re.sub("(?<=[a-z])(?=[A-Z])", " ", each).lower() for each in types]
    return tuple(
        f"{word} {words[: k + 1].count(word)}" if words.count(word) > 1 else word
        for k, word in enumerate(words)
    )


class _Search:
    """Search for a small set of known relations of a diagram that no boxes satisfy."""

    def __init__(
        self, diagram: BubbleDiagram | PartialDiagram, buildable: bool, rule: BoxRule, effort: float
    ) -> None:
        self._rooms = range(diagram.num_rooms)
        # pairs that a diagram leaves out are unrelated, those of a partial diagram unknown
        pairs = combinations(self._rooms, 2) if isinstance(diagram, BubbleDiagram) else ()
        known = {(i, j): code for i, j, code in diagram.relations}
        self._codes = dict(sorted((dict.fromkeys(pairs, NO_EDGE) | known).items()))
        self._solve = partial(boxes_of_known, rule=rule, buildable=buildable, effort=effort)
        self._settings = (rule, buildable, effort)

    def smallest(self) -> list[Member] | None:
        """Find an infeasible set: the shortest cycle on an axis, three rooms, or all pairs."""
        # three rooms in a cycle: nothing is smaller
        circles = filter(None, (self._shortest_cycle(signs) for _, signs in ORDERS[:2]))
        circle = min(circles, key=len, default=())
        if len(circle) == 3:
            return list(circle)
        # any three rooms
        for rooms in combinations(self._rooms, 3):
            members = self._members(pair for pair in combinations(rooms, 2) if pair in self._codes)
            codes = tuple(code for *_, code in members)
            if len(codes) == 3 and _three_fit(_smallest_numbering(codes), *self._settings) is False:
                return members
        if circle:
            return list(circle)
        return self._members(self._codes) if self.is_possible() is False else None

    def _members(self, pairs: Iterable[tuple[int, int]]) -> list[Member]:
        return [(*pair, self._codes[pair]) for pair in pairs]

    def is_possible(self) -> bool | None:
        """Return True if boxes with all known relations exist, None if undecided. A cycle of
        rooms on an axis rules them out without the solver."""
        if any(self._shortest_cycle(signs) for _, signs in ORDERS[:2]):
            return False
        return self._is_possible(self._members(self._codes))

    def reduced(self, members: Sequence[Member]) -> tuple[list[Member], bool]:
        """Drop members while the rest stays infeasible. Returns the rest, and True if every member
        of it was shown to be needed."""
        kept = list(members)
        # all members of a room at once
        if len(kept) > 3:
            for room in self._rooms:
                fewer = [member for member in kept if room not in member[:2]]
                if len(fewer) < len(kept) and self._is_possible(fewer) is False:
                    kept = fewer
        # then one by one, pairs without a relation first
        undecided = sorted(kept, key=lambda member: member[2] != NO_EDGE)
        # with fewer members the undecided ones may be decided the second time
        for _ in range(2):
            tried, undecided = undecided, []
            for member in tried:
                answer = self._is_possible([other for other in kept if other != member])
                if answer is False:
                    kept.remove(member)
                elif answer is None:
                    undecided.append(member)
        return kept, not undecided

    def _is_possible(self, members: Sequence[Member]) -> bool | None:
        """Return True if boxes with the relations of ``members`` exist; other pairs are free."""
        # only the rooms of the members, numbered from 0
        rooms = sorted({room for member in members for room in member[:2]})
        place = {room: k for k, room in enumerate(rooms)}
        known = {(place[i], place[j]): code for i, j, code in members}
        return self._solve(len(rooms), known)[0]

    def _shortest_cycle(self, signs: Sequence[int]) -> tuple[Member, ...]:
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
        pairs = zip(rooms, [*rooms[1:], *rooms[:1]], strict=True)
        return tuple(self._members((min(pair), max(pair)) for pair in pairs))


def _smallest_numbering(codes: tuple[int, ...]) -> tuple[int, ...]:
    """Smallest codes of (0, 1), (0, 2), (1, 2) over all numberings of three rooms."""
    known = dict(zip(combinations(range(3), 2), codes, strict=True))
    known |= {(j, i): INVERSE[code] for (i, j), code in [*known.items()]}
    numberings = permutations(range(3))
    return min(tuple(known[pair] for pair in combinations(rooms, 2)) for rooms in numberings)


_decided: dict[tuple[object, ...], bool] = {}  # answers of ``_three_fit``; only 231 cases differ


def _three_fit(
    codes: tuple[int, ...], rule: BoxRule, buildable: bool, effort: float
) -> bool | None:
    """Return True if three rooms can have these relations, None if undecided, which is not cached:
    the limit of ``limited_effort`` may be spent."""
    key = (codes, rule, buildable, effort)
    if key in _decided:
        return _decided[key]
    known = dict(zip(combinations(range(3), 2), codes, strict=True))
    answer = boxes_of_known(3, known, rule=rule, buildable=buildable, effort=effort)[0]
    if answer is not None:
        _decided[key] = answer
    return answer


def _in_a_chain(members: Iterable[Member]) -> tuple[Member, ...]:
    """Order members as a chain: most begin with the last room of the previous member."""
    members = sorted(members)
    chains = []
    for start in (*members, *((j, i, INVERSE[code]) for i, j, code in members)):
        left = [member for member in members if {*member[:2]} != {*start[:2]}]
        chain = [start]
        while left:
            end = chain[-1][1]
            # the next member begins at the end, or anywhere
            following = next((member for member in left if end in member[:2]), left[0])
            left.remove(following)
            i, j, code = following
            chain.append((i, j, code) if j != end else (j, i, INVERSE[code]))
        # members that begin where their predecessor ended; the last precedes the first
        joints = zip(chain, [*chain[1:], chain[0]], strict=True)
        joined = sum(a[1] == b[0] for a, b in joints)
        chains.append((joined, sum(member[2] in _FORWARD for member in chain), tuple(chain)))
    return max(chains, key=lambda each: each[:2])[2]


def member_text(member: Member, names: Sequence[str]) -> str:
    """Text such as ``kitchen left-of bathroom``. ``names``: names of all rooms."""
    i, j, code = member
    return f"{names[i]} {'not related to' if code == NO_EDGE else RELATIONS[code]} {names[j]}"


def impossible_plans(report: ReadReport) -> list[str]:
    """Return a sentence for each kind of contradiction, with the number of such diagrams and the
    names of the first few."""
    if not report.diagrams:
        return []
    found = {
        "relations in a circle": relations_in_a_circle(report.diagrams),
        "relations that contradict their own boxes": relations_against_boxes(report.diagrams),
    }
    return [_problem_sentence(report, kind, plans) for kind, plans in found.items() if plans]


def infeasible_plans(report: ReadReport, num: int) -> list[str]:
    """Return sentences on the first ``num`` diagrams that the solver finds infeasible or undecided.
    Diagrams with relations in a circle are skipped. The first few infeasible diagrams are named
    with their contradiction. Raises ``ValueError`` without OR-Tools."""
    asked = report.diagrams[:num]
    if not all(diagram.vocabulary.has_directions for diagram in asked):
        return []  # without directions no relations can be ruled out
    circles = relations_in_a_circle(asked) if asked else {}
    rows = [k for k in range(len(asked)) if k not in circles]
    answers = have_plans([asked[k] for k in rows], effort=_EFFORT)
    without = [k for k, answer in zip(rows, answers, strict=True) if answer is False]
    found = dict.fromkeys(without, "")
    for k in without[:_MAX_NAMED]:
        why = contradiction(asked[k], effort=_EFFORT)
        found[k] = why.sentence() if why else "which relations contradict each other is unknown"
    kind = "relations that no floor plan has"
    lines = [_problem_sentence(report, kind, found, num)] if found else []
    if undecided := answers.count(None):
        which = counted(undecided, "diagram")
        lines.append(f"{which} undecided: no floor plan found, nor ruled out")
    return lines


def _problem_sentence(
    report: ReadReport, kind: str, plans: Mapping[int, str], num: int | None = None
) -> str:
    """Return the sentence on one kind of problem; ``num``: number of diagrams checked, or None."""
    named = [f"{report.places[k]}: {why}" for k, why in [*plans.items()][:_MAX_NAMED]]
    if len(plans) > _MAX_NAMED:
        named.append(f"and {len(plans) - _MAX_NAMED:,} more")
    total = counted(len(report.diagrams), "diagram")
    if num is not None and num < len(report.diagrams):
        total = f"the first {counted(num, 'diagram')}"
    return f"{len(plans):,} of {total} with {kind}: {'; '.join(named)}"


def relations_in_a_circle(diagrams: tuple[BubbleDiagram, ...]) -> dict[int, str]:
    """Map the index of a diagram to a message on a cycle of its rooms, each left of, above or
    inside the next. No arrangement of points has such relations."""
    measured = DiagramSet.of(diagrams)
    if not measured.vocabulary.has_directions:
        return {}
    sound = np.all([is_acyclic(measured.relations, order) for _, order in ORDERS], axis=0)
    found = {}
    for k in np.flatnonzero(~sound).tolist():
        stated = (StatedRelation("", i, j, code) for i, j, code in diagrams[k].relations)
        try:
            check_contradictions(stated)
        except DiagramError as error:  # it describes one cycle
            found[k] = error.reason
    return found


def relations_against_boxes(diagrams: tuple[BubbleDiagram, ...]) -> dict[int, str]:
    """Find in each diagram the first relation that its boxes contradict: messages by index. They
    contradict it at any gap threshold, measured from either room."""
    found: dict[int, str] = {}
    for k, diagram in enumerate(diagrams):
        if diagram.boxes is None:
            continue
        for i, j, code in diagram.relations:
            boxes = diagram.boxes[i], diagram.boxes[j]
            centres = [(x0 / 2 + x1 / 2, y0 / 2 + y1 / 2) for x0, y0, x1, y1 in boxes]
            if code in (INSIDE, SURROUNDING):
                # the centre of the inner room lies in the outer box
                x, y = centres[code != INSIDE]
                x0, y0, x1, y1 = boxes[code == INSIDE]
                is_against = not (x0 <= x <= x1 and y0 <= y <= y1)
            else:
                # the centres are in the order of the relation, on each axis
                pairs = zip((signs[code] for _, signs in ORDERS[:2]), *centres, strict=True)
                is_against = any(sign * (a - b) < 0 for sign, a, b in pairs)
            if is_against:
                said = StatedRelation("", i, j, code)
                found[k] = f"{said}, but their boxes are {boxes[0]} and {boxes[1]}"
                break
    return found

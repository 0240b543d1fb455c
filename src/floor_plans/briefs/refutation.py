"""Contradictions within a brief, found by counting rooms and by orders of named rooms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

from floor_plans.briefs.brief import Brief, Kind, Quantity, RelationRule
from floor_plans.briefs.room_counts import Count, Ways, no_counts
from floor_plans.diagrams.files.contradictions import ORDERS
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.diagrams.vocabulary import INVERSE, ROOM_TYPES, PlanVocabulary

_MOST_KINDS = 8
"""Most kinds of named rooms whose unions are counted."""


def is_refuted(brief: Brief, n_max: int, vocabulary: PlanVocabulary) -> bool:
    """True: no diagram of at most ``n_max`` rooms of the vocabulary meets it. False: not found.

    Three things are looked at: numbers of rooms of each type, exactly, with what relations need
    ("some kitchen beside some living room" needs both, and two bathrooms if they are to be beside
    each other); relations that a rule with "no" forbids to rooms that another rule wants so; and
    named rooms, each left of the next, above it or inside it, in a circle. A room may have
    ``max_degree`` others beside it, so that more rooms than that are not connected.
    """
    return _Refutation(brief, n_max, vocabulary).found()


def least_and_most(brief: Brief, n_max: int) -> tuple[int, int]:
    """Numbers of rooms that are requested, of diagrams with at most ``n_max``."""
    most = n_max if brief.num_rooms.most is None else min(n_max, brief.num_rooms.most)
    return max(1, brief.num_rooms.least), most


@dataclass(frozen=True)
class _Refutation:
    brief: Brief
    n_max: int
    vocabulary: PlanVocabulary

    @cached_property
    def types(self) -> frozenset[int]:
        return frozenset(map(ROOM_TYPES.index, self.vocabulary.room_types))

    @cached_property
    def codes(self) -> frozenset[int]:
        """Codes of the relations that two rooms may have."""
        return self.vocabulary.relation_codes | {NO_EDGE}

    @cached_property
    def forbidden(self) -> list[RelationRule]:
        """Rules with "no", in both directions."""
        rules = [rule for rule in self.brief.relations if rule.quantity is Quantity.NO]
        return [*rules, *map(turned, rules)]

    @cached_property
    def wanted(self) -> list[RelationRule]:
        return [rule for rule in self.brief.relations if rule.quantity is not Quantity.NO]

    def found(self) -> bool:
        least, most = least_and_most(self.brief, self.n_max)
        degree = self.brief.degree
        if degree is not None and self.brief.connected is not None and degree.most <= 1:
            most = min(most, degree.most + 1)
        if least > most or self._is_crowded() or self._is_circular():
            return True
        counts = [Count(self.types, least, most)]
        counts += [
            Count(rule.kind.types & self.types, rule.number.least, rule.number.most)
            for rule in self.brief.counts
        ]
        return no_counts([*counts, *self._named()], list(self._choices()))

    def _named(self) -> Iterator[Count]:
        """Hall's condition: however many named rooms are taken, there are as many of their
        kinds."""
        kinds = [kind.types & self.types for kind in self.brief.named.values()]
        distinct = list(dict.fromkeys(kinds))
        sizes = range(1, len(distinct) + 1 if len(distinct) <= _MOST_KINDS else 2)
        for size in sizes:
            for some in combinations(distinct, size):
                union = frozenset().union(*some)
                yield Count(union, sum(kind <= union for kind in kinds))
        yield Count(self.types, len(kinds))

    def _choices(self) -> Iterator[Ways]:
        """Needs of each relation: one of these ways must hold."""
        for rule in self.wanted:
            subject, target = self._types(rule.subject), self._types(rule.object)
            pair = [Count(subject, 1), Count(target, 1), Count(subject | target, 2)]
            nowhere = isinstance(rule.subject, Kind) and rule.quantity is Quantity.EVERY
            ways = [pair] if self._left_of(rule) else []
            yield [*ways, *([[Count(subject, 0, 0)]] if nowhere else [])]

    def _types(self, end: Kind | str) -> frozenset[int]:
        kind = self.brief.named[end] if isinstance(end, str) else end
        return kind.types & self.types

    def _left_of(self, rule: RelationRule) -> frozenset[int]:
        """Relations that a rule wants and none forbids."""
        codes = rule.relations & self.codes
        if self.brief.degree is not None and self.brief.degree.most == 0:
            codes &= {NO_EDGE}
        for other in self.forbidden:
            if self._covers(other.subject, rule.subject) and self._covers(
                other.object, rule.object
            ):
                codes -= other.relations
        return codes

    def _covers(self, forbidden: Kind | str, wanted: Kind | str) -> bool:
        if isinstance(forbidden, str):
            return forbidden == wanted
        return self._types(wanted) <= self._types(forbidden)

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], frozenset[int]]:
        """The relations that two named rooms may have, where a rule wants any, in both
        directions."""
        found: dict[tuple[str, str], frozenset[int]] = {}
        for rule in self.wanted:
            if isinstance(rule.subject, str) and isinstance(rule.object, str):
                for each in (rule, turned(rule)):
                    ends = (str(each.subject), str(each.object))
                    found[ends] = found.get(ends, self.codes) & self._left_of(each)
        return found

    def _is_crowded(self) -> bool:
        """Two named rooms can have no relation, or one has too many others beside it."""
        if not all(self._pairs.values()):
            return True
        beside = [first for (first, _), codes in self._pairs.items() if NO_EDGE not in codes]
        degree = self.brief.degree
        return degree is not None and any(beside.count(name) > degree.most for name in beside)

    def _is_circular(self) -> bool:
        for _, signs in ORDERS:
            after = {name: set[str]() for name in self.brief.named}
            for (first, second), codes in self._pairs.items():
                if all(signs[code] < 0 for code in codes):
                    after[first].add(second)
            for middle, first in product(after, after):  # Warshall's closure
                if middle in after[first]:
                    after[first] |= after[middle]
            if any(name in others for name, others in after.items()):
                return True
        return False


def turned(rule: RelationRule) -> RelationRule:
    """The same pairs of rooms, read from the other one; of "every", which says something else
    then, only the pairs."""
    codes = frozenset(INVERSE[code] for code in rule.relations)
    return RelationRule(rule.quantity, rule.object, codes, rule.subject, rule.source)

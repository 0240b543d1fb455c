"""Refutation of a brief by bounds on numbers of rooms and by orders of named rooms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

from floor_plans.briefs.brief import Brief, Kind, Quantity, RelationRule
from floor_plans.diagrams.files.contradictions import ORDERS
from floor_plans.diagrams.rooms import NO_EDGE
from floor_plans.diagrams.vocabulary import INVERSE, ROOM_TYPES, PlanVocabulary

_MOST_STEPS = 20_000
"""Most steps of the search; past that it is undecided."""

_MOST_WAYS = 256
"""Most combinations of alternatives; past that alternatives are left out."""


@dataclass(frozen=True)
class Count:
    """Bounds on the number of rooms of ``types``; ``most`` None: no upper bound."""

    types: frozenset[int]
    least: int = 0
    most: int | None = None


Ways = Sequence[Sequence[Count]]
"""Alternatives: all counts of one of these have to hold."""


def no_counts(counts: Sequence[Count], choices: Sequence[Ways] = ()) -> bool:
    """True if no numbers of rooms meet all ``counts`` and one alternative of each of ``choices``.

    False if some do, or if it was not decided.
    """
    # too many combinations: decide without alternatives
    total = 1
    for ways in choices:
        total *= len(ways)
    if total > _MOST_WAYS:
        choices = ()
    return all(
        _none([*counts, *(count for way in chosen for count in way)])
        for chosen in product(*choices)
    )


def _none(counts: Sequence[Count]) -> bool:
    """True if no numbers meet the counts, by depth-first search over groups of types that no count
    distinguishes."""
    # types that the same counts include form a group
    types = sorted({code for count in counts for code in count.types})
    groups = sorted({tuple(code in count.types for count in counts) for code in types})
    # index of the last group that each count includes: it has to be met by then
    last = [
        max((k for k, group in enumerate(groups) if group[c]), default=-1)
        for c in range(len(counts))
    ]
    if any(count.least > 0 and last[c] < 0 for c, count in enumerate(counts)):
        return True
    steps = 0

    def fits(k: int, sums: list[int]) -> bool:
        nonlocal steps
        steps += 1
        if steps > _MOST_STEPS or k == len(groups):
            return True
        members = [c for c, is_in in enumerate(groups[k]) if is_in]
        # numbers of rooms of the group, as many as the counts allow
        left = [most - sums[c] for c in members if (most := counts[c].most) is not None]
        for number in range(min(left, default=0) + 1):
            after = [total + number * is_in for total, is_in in zip(sums, groups[k], strict=True)]
            ended = (c for c in range(len(counts)) if last[c] == k)
            if all(after[c] >= counts[c].least for c in ended) and fits(k + 1, after):
                return True
        return False

    return not fits(0, [0] * len(counts))


_MOST_KINDS = 8
"""Most kinds of named rooms for which unions of several kinds are counted."""


def is_refuted(brief: Brief, n_max: int, vocabulary: PlanVocabulary) -> bool:
    """True if no diagram of at most ``n_max`` rooms meets the brief; False if undecided.

    Three checks: numbers of rooms of each type, including the rooms that relations need (a kitchen
    adjacent to a living room needs both); relations that one rule requires and a rule with "no"
    forbids; and named rooms in a cycle of left of, above or inside. With ``max_degree`` of 0 or 1
    and ``connected``, a diagram has at most one room more than that.
    """
    return _Refutation(brief, n_max, vocabulary).holds()


def least_and_most(brief: Brief, n_max: int) -> tuple[int, int]:
    """Least and most number of rooms that a brief allows, capped at ``n_max``."""
    most = n_max if brief.num_rooms.most is None else min(n_max, brief.num_rooms.most)
    return max(1, brief.num_rooms.least), most


@dataclass(frozen=True)
class _Refutation:
    """Checks of ``is_refuted`` for one brief."""

    brief: Brief
    n_max: int
    vocabulary: PlanVocabulary

    @cached_property
    def types(self) -> frozenset[int]:
        return frozenset(map(ROOM_TYPES.index, self.vocabulary.room_types))

    @cached_property
    def codes(self) -> frozenset[int]:
        """Codes of the relations that two rooms may have, ``NO_EDGE`` included."""
        return self.vocabulary.relation_codes | {NO_EDGE}

    @cached_property
    def forbidden(self) -> list[RelationRule]:
        """Rules with "no", in both directions."""
        rules = [rule for rule in self.brief.relations if rule.quantity is Quantity.NO]
        return [*rules, *map(turned, rules)]

    @cached_property
    def required(self) -> list[RelationRule]:
        """Rules with "some" or "every"."""
        return [rule for rule in self.brief.relations if rule.quantity is not Quantity.NO]

    def holds(self) -> bool:
        """True if one of the checks refutes the brief."""
        # connected rooms with degree at most 1 are at most 2
        least, most = least_and_most(self.brief, self.n_max)
        degree = self.brief.degree
        if degree is not None and self.brief.connected is not None and degree.most <= 1:
            most = min(most, degree.most + 1)
        if least > most or self._is_crowded() or self._is_circular():
            return True
        # all numbers of rooms together: of the brief, of its rules, and of named rooms
        counts = [Count(self.types, least, most)]
        counts += [
            Count(rule.kind.types & self.types, rule.number.least, rule.number.most)
            for rule in self.brief.counts
        ]
        return no_counts([*counts, *self._named()], list(self._choices()))

    def _named(self) -> Iterator[Count]:
        """Counts of Hall's condition: any set of named rooms needs as many rooms of their
        kinds."""
        kinds = [kind.types & self.types for kind in self.brief.named.values()]
        distinct = list(dict.fromkeys(kinds))
        # unions of up to _MOST_KINDS kinds
        sizes = range(1, len(distinct) + 1 if len(distinct) <= _MOST_KINDS else 2)
        for size in sizes:
            for some in combinations(distinct, size):
                union = frozenset().union(*some)
                yield Count(union, sum(kind <= union for kind in kinds))
        yield Count(self.types, len(kinds))

    def _choices(self) -> Iterator[Ways]:
        """Alternative counts that each required relation needs."""
        for rule in self.required:
            subject, target = self._types(rule.subject), self._types(rule.object)
            pair = [Count(subject, 1), Count(target, 1), Count(subject | target, 2)]
            nowhere = isinstance(rule.subject, Kind) and rule.quantity is Quantity.EVERY
            ways = [pair] if self._allowed_codes(rule) else []
            yield [*ways, *([[Count(subject, 0, 0)]] if nowhere else [])]

    def _types(self, end: Kind | str) -> frozenset[int]:
        kind = self.brief.named[end] if isinstance(end, str) else end
        return kind.types & self.types

    def _allowed_codes(self, rule: RelationRule) -> frozenset[int]:
        """Codes that a rule allows and no other rule forbids."""
        codes = rule.relations & self.codes
        if self.brief.degree is not None and self.brief.degree.most == 0:
            codes &= {NO_EDGE}
        # subtract the relations of rules with "no" that cover this one
        for other in self.forbidden:
            if self._covers(other.subject, rule.subject) and self._covers(
                other.object, rule.object
            ):
                codes -= other.relations
        return codes

    def _covers(self, forbidden: Kind | str, required: Kind | str) -> bool:
        if isinstance(forbidden, str):
            return forbidden == required
        return self._types(required) <= self._types(forbidden)

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], frozenset[int]]:
        """Codes that remain for each pair of named rooms with a required relation, in both
        orders."""
        found: dict[tuple[str, str], frozenset[int]] = {}
        for rule in self.required:
            if isinstance(rule.subject, str) and isinstance(rule.object, str):
                for each in (rule, turned(rule)):
                    ends = (str(each.subject), str(each.object))
                    found[ends] = found.get(ends, self.codes) & self._allowed_codes(each)
        return found

    def _is_crowded(self) -> bool:
        """True if no relation remains for a pair, or a named room needs too many neighbours."""
        if not all(self._pairs.values()):
            return True
        adjacent = [first for (first, _), codes in self._pairs.items() if NO_EDGE not in codes]
        degree = self.brief.degree
        return degree is not None and any(adjacent.count(name) > degree.most for name in adjacent)

    def _is_circular(self) -> bool:
        """True if named rooms form a cycle in one of the orders."""
        for _, signs in ORDERS:
            # names that come after each name in this order
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
    """The rule read from the other room; for "every" only the pairs of rooms are the same."""
    codes = frozenset(INVERSE[code] for code in rule.relations)
    return RelationRule(rule.quantity, rule.object, codes, rule.subject, rule.source)

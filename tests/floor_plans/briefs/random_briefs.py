"""Random briefs, a slow check of them, and all diagrams of a small world."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np

from floor_plans import BubbleDiagram
from floor_plans.briefs.brief import (
    ANY_RELATION,
    Brief,
    ConnectedRule,
    CountRule,
    DegreeRule,
    Kind,
    Numbers,
    Quantity,
    RelationRule,
)
from floor_plans.diagrams.files.yaml_nodes import Source
from floor_plans.diagrams.vocabulary import (
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    ROOM_TYPES,
    PlanVocabulary,
)

SMALL = PlanVocabulary(
    "small", ("LivingRoom", "Kitchen"), ("left-of", "above", "below", "right-of"), True
)
NO_EDGE = RELATIONS.index("no-edge")
INVERSE = {
    RELATIONS.index(one): RELATIONS.index(other)
    for one, other in (
        *(("left-of", "right-of"), ("above", "below"), ("inside", "surrounding")),
        *(("left-above", "right-below"), ("left-below", "right-above")),
        *(("adjacent", "adjacent"), ("door", "door"), ("no-edge", "no-edge")),
    )
}
INVERSE |= {other: one for one, other in INVERSE.items()}


def all_diagrams(n_max: int, vocabulary: PlanVocabulary = SMALL) -> list[BubbleDiagram]:
    """Those whose rooms are left of and above each other in an order, up to renumbering."""
    types = [ROOM_TYPES.index(name) for name in vocabulary.room_types]
    codes = [*(RELATIONS.index(name) for name in vocabulary.relations), NO_EDGE]
    found: dict[tuple, BubbleDiagram] = {}
    for n in range(1, n_max + 1):
        pairs = list(combinations(range(n), 2))
        for related in product(codes, repeat=len(pairs)):
            listed = [(i, j, r) for (i, j), r in zip(pairs, related, strict=True) if r != NO_EDGE]
            if all(_is_order(n, listed, s) for s in (RELATION_X_ORDER, RELATION_Y_ORDER)):
                for rooms in product(types, repeat=n):
                    each = BubbleDiagram(rooms, tuple(listed))
                    orders = map(each.relabelled, permutations(range(n)))
                    found.setdefault(min((d.rooms, d.relations) for d in orders), each)
    return list(found.values())


def _is_order(n: int, related: list[tuple[int, int, int]], signs: tuple[int, ...]) -> bool:
    return any(
        all((order.index(i) - order.index(j)) * signs[r] >= 0 for i, j, r in related)
        for order in permutations(range(n))
    )


def diagram(rooms: str, *relations: tuple[int, int, str]) -> BubbleDiagram:
    """Rooms by name, relations by name."""
    return BubbleDiagram(
        tuple(map(ROOM_TYPES.index, rooms.split())),
        tuple((i, j, RELATIONS.index(r)) for i, j, r in relations),
    )


def random_diagram(rng: np.random.Generator, vocabulary: PlanVocabulary) -> BubbleDiagram:
    """One to eight rooms, six pairs of ten related."""
    n = int(rng.integers(1, 9))
    types = [ROOM_TYPES.index(name) for name in vocabulary.room_types]
    codes = [RELATIONS.index(name) for name in vocabulary.relations]
    return BubbleDiagram(
        tuple(rng.choice(types, n).tolist()),
        tuple(
            (i, j, int(rng.choice(codes)))
            for i, j in combinations(range(n), 2)
            if rng.random() < 0.6
        ),
    )


def random_brief(
    rng: np.random.Generator, vocabulary: PlanVocabulary, n_max: int, num_rules: int = 4
) -> Brief:
    """Few rules; keys tell them apart."""
    types = [ROOM_TYPES.index(name) for name in vocabulary.room_types]
    codes = [RELATIONS.index(name) for name in vocabulary.relations]

    def kind() -> Kind:
        size = 1 if rng.random() < 0.7 else 2
        chosen = rng.choice(types, size, replace=False).tolist()
        return Kind(" or ".join(ROOM_TYPES[code] for code in chosen), frozenset(chosen))

    def numbers(most: int) -> Numbers:
        least = int(rng.integers(0, most + 1))
        end = int(rng.integers(least, most + 1))
        return Numbers(least, None if rng.random() < 0.3 else end)

    named = {name: kind() for name in "abc"[: rng.integers(0, 4)]}
    counts, relations = [], []
    for k in range(int(rng.integers(1, num_rules + 1))):
        source = Source(f"rule[{k}]", f"rule {k}", k + 1)
        if rng.random() < 0.35:
            counts.append(CountRule(kind(), numbers(n_max), source))
            continue
        ends = [kind(), kind()]
        if named:
            picked = rng.permutation(list(named))[:2].tolist()
            ends = [
                name if rng.random() < 0.6 else end for name, end in zip(picked, ends, strict=False)
            ] + ends[len(picked) :]
        related = ANY_RELATION
        if rng.random() < 0.6:
            related = frozenset(rng.choice(codes, rng.integers(1, 3), replace=False).tolist())
        quantity = list(Quantity)[rng.integers(0, 3)]
        relations.append(RelationRule(quantity, ends[0], related, ends[1], source))
    size = numbers(n_max)
    return Brief(
        num_rooms=Numbers(1) if rng.random() < 0.5 else Numbers(max(1, size.least), size.most),
        counts=counts,
        relations=relations,
        named=named,
        degree=DegreeRule(int(rng.integers(0, 3)), Source("max_degree", "max_degree"))
        if rng.random() < 0.3
        else None,
        connected=ConnectedRule(Source("connected", "connected")) if rng.random() < 0.4 else None,
    )


def slowly_met(brief: Brief, diagram: BubbleDiagram) -> bool:
    """As the docstrings say, without any code of theirs."""
    n = diagram.num_rooms
    code = {(i, j): NO_EDGE for i in range(n) for j in range(n) if i != j}
    for i, j, r in diagram.relations:
        code[i, j], code[j, i] = r, INVERSE[r]
    near = {i: {j for j in range(n) if j != i and code[i, j] != NO_EDGE} for i in range(n)}
    most = float("inf") if brief.num_rooms.most is None else brief.num_rooms.most
    fine = brief.num_rooms.least <= n <= most
    for rule in brief.counts:
        number = len([room for room in diagram.rooms if room in rule.kind.types])
        top = float("inf") if rule.number.most is None else rule.number.most
        fine &= rule.number.least <= number <= top
    if brief.degree is not None:
        fine &= max(len(others) for others in near.values()) <= brief.degree.most
    if brief.connected is not None:
        reached = {0}
        for _ in range(n):
            reached |= {j for i in reached for j in near[i]}
        fine &= len(reached) == n

    def so(rule: RelationRule, choice: dict[str, int]) -> bool:
        def is_end(room: int, end: Kind | str) -> bool:
            return room == choice[end] if isinstance(end, str) else diagram.rooms[room] in end.types

        pairs = [
            (i, j)
            for (i, j), r in code.items()
            if is_end(i, rule.subject) and is_end(j, rule.object) and r in rule.relations
        ]
        if rule.quantity == "no":
            return not pairs
        if rule.quantity == "some":
            return bool(pairs)
        subjects = {i for i in range(n) if is_end(i, rule.subject)}
        return subjects == {i for i, _ in pairs}

    choices = [
        dict(zip(brief.named, rooms, strict=True))
        for rooms in permutations(range(n), len(brief.named))
        if all(
            diagram.rooms[room] in kind.types
            for room, kind in zip(rooms, brief.named.values(), strict=True)
        )
    ]
    return fine and any(all(so(rule, choice) for rule in brief.relations) for choice in choices)

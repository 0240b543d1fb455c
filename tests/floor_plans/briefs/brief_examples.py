"""Briefs of every kind of rule, for diagrams of few types and relations."""

from __future__ import annotations

from itertools import combinations, product

from discrete_diffusion.layout import VocabConfig
from floor_plans import BubbleDiagram
from floor_plans.briefs.brief import (
    ANY_RELATION,
    AnyRule,
    Brief,
    ConnectedRule,
    CountRule,
    DegreeRule,
    Kind,
    Numbers,
    Quantity,
    RelationRule,
    SoftRule,
)
from floor_plans.diagrams.vocabulary import RELATIONS

LIVING, MASTER, KITCHEN = map(Kind.of, ("LivingRoom", "MasterRoom", "Kitchen"))
ANY = Kind.of("LivingRoom", "MasterRoom")
SIDE = frozenset(map(RELATIONS.index, ("left-of", "right-of")))


def relation(
    quantity: str, subject: Kind | str, object: Kind | str, codes=ANY_RELATION
) -> RelationRule:
    return RelationRule(Quantity(quantity), subject, frozenset(codes), object)


PARTS: dict[str, dict[str, object]] = {
    "exactly one kitchen": {"counts": [CountRule(KITCHEN, Numbers(1, 1))]},
    "one or more of a group": {"counts": [CountRule(ANY, Numbers(1))]},
    "two ranges": {
        "counts": [CountRule(LIVING, Numbers(0, 1)), CountRule(Kind.of("Kitchen"), Numbers(1, 2))]
    },
    "some beside": {"relations": [relation("some", KITCHEN, LIVING)]},
    "some to a side": {"relations": [relation("some", LIVING, KITCHEN, SIDE)]},
    "none beside": {"relations": [relation("no", MASTER, LIVING)]},
    "every beside": {"relations": [relation("every", MASTER, ANY)]},
    "named": {
        "named": {"a": LIVING, "b": ANY},
        "relations": [relation("some", "a", "b", SIDE), relation("no", "b", KITCHEN)],
    },
    "every of a named": {
        "named": {"a": ANY},
        "relations": [relation("every", KITCHEN, "a"), relation("some", "a", KITCHEN)],
    },
    "every of a named one of them": {
        "named": {"a": ANY},
        "relations": [relation("every", MASTER, "a")],
    },
    "few beside": {"degree": DegreeRule(1)},
    "connected": {"connected": ConnectedRule()},
}
OPTIONS: dict[str, dict[str, object]] = {
    "one of two numbers": {
        "counts": [CountRule(ANY, Numbers(1))],
        "either": [AnyRule(((CountRule(KITCHEN, Numbers(2)),), (CountRule(LIVING, Numbers(2)),)))],
    },
    "a number or a relation": {
        "either": [
            AnyRule(
                (
                    (CountRule(KITCHEN, Numbers(1, 1)), relation("no", KITCHEN, MASTER)),
                    (relation("every", MASTER, LIVING), relation("some", MASTER, LIVING)),
                )
            )
        ]
    },
    "relations of a named room": {
        "named": {"a": ANY},
        "relations": [relation("no", "a", LIVING)],
        "either": [
            AnyRule(((relation("some", "a", KITCHEN, SIDE),), (relation("no", KITCHEN, MASTER),)))
        ],
    },
    "what should be": {
        "counts": [CountRule(ANY, Numbers(1))],
        "should": [
            SoftRule((relation("some", KITCHEN, LIVING),), 4.0),
            SoftRule((CountRule(MASTER, Numbers(1, 1)),), 3.0),
        ],
    },
}
"""Briefs with rules of which one holds, and with rules that should hold."""


def _joined(first: dict[str, object], second: dict[str, object]) -> Brief | None:
    if first.keys() & second.keys() - {"counts", "relations"}:
        return None
    return Brief(
        **{
            key: [*first.get(key, ()), *second.get(key, ())]  # type: ignore[misc]
            if key in ("counts", "relations")
            else {**first, **second}[key]
            for key in {*first, *second}
        }
    )


BRIEFS: dict[str, Brief] = {
    name: Brief(**part)  # type: ignore[arg-type]
    for name, part in (PARTS | OPTIONS).items()
}
PAIRS: dict[str, Brief] = {
    f"{a}, {b}": brief
    for a, b in combinations(PARTS, 2)
    if (brief := _joined(PARTS[a], PARTS[b])) is not None
}


VOCAB = VocabConfig(n_max=3)
CODES = (2, 6, 7)


def all_diagrams(num_rooms: int) -> list[BubbleDiagram]:
    pairs = [(i, j) for i in range(num_rooms) for j in range(i + 1, num_rooms)]
    return [
        BubbleDiagram(
            rooms, tuple((*pair, r) for pair, r in zip(pairs, codes, strict=True) if r is not None)
        )
        for rooms in product(range(3), repeat=num_rooms)
        for codes in product((None, *CODES), repeat=len(pairs))
    ]

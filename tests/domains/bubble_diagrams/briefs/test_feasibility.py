"""Whether briefs can be met, against all diagrams of a small world and facts of real plans."""

from __future__ import annotations

import numpy as np
import pytest
from random_briefs import SMALL, all_diagrams, random_brief

from discrete_diffusion.domains.bubble_diagrams import generate_plans
from discrete_diffusion.domains.bubble_diagrams.briefs import brief_of
from discrete_diffusion.domains.bubble_diagrams.briefs.brief import Brief
from discrete_diffusion.domains.bubble_diagrams.briefs.feasibility import (
    Feasibility,
    contradiction,
    feasibility,
    without,
)
from discrete_diffusion.domains.bubble_diagrams.briefs.refutation import is_refuted
from discrete_diffusion.domains.bubble_diagrams.plans.box_model import is_installed
from discrete_diffusion.domains.bubble_diagrams.vocabulary import (
    ADJACENCY,
    DIRECTIONS,
    RELATIONS,
)

SMALL_WORLD = all_diagrams(3)
needs_solver = pytest.mark.skipif(not is_installed(), reason="OR-Tools decides")


def can_be_met(brief: Brief) -> bool:
    return any(not brief.unmet(diagram) for diagram in SMALL_WORLD)


def sources_of(brief: Brief) -> list:
    """Of a brief's parts; of those without one, as ``feasibility`` names them."""
    return list(feasibility(brief, 0, SMALL).contradiction)


def parts(brief: Brief) -> set[str]:
    keys = {rule.source.key for rule in brief.rules} | {f"named.{name}" for name in brief.named}
    return keys | {"num_rooms"}


def only(brief: Brief, kept: set[str]) -> Brief:
    from discrete_diffusion.domains.bubble_diagrams.briefs.brief import Source

    return without(brief, [Source(key) for key in parts(brief) - kept])


@needs_solver
def test_it_is_decided_as_by_looking_at_all_diagrams():
    rng = np.random.default_rng(0)
    met = refuted = 0
    for _ in range(120):
        brief = random_brief(rng, SMALL, 3)
        found = feasibility(brief, 3, SMALL)
        assert found.can_be_met is can_be_met(brief)
        if found.can_be_met:
            met += 1
            assert not brief.unmet(found.example)
            continue
        keys = {source.key for source in found.contradiction}
        assert found.is_irreducible
        assert len(keys) == len(found.contradiction)
        assert not can_be_met(only(brief, keys))
        for key in keys:
            assert can_be_met(only(brief, keys - {key})), (key, keys)
        refuted += is_refuted(brief, 3, SMALL)
    assert met > 20
    assert refuted > 20


def test_what_can_be_met_is_never_refuted():
    rng = np.random.default_rng(1)
    num = 0
    for _ in range(400):
        brief = random_brief(rng, SMALL, 3, num_rules=3)
        if is_refuted(brief, 3, SMALL):
            num += 1
            assert not can_be_met(brief)
            found = feasibility(brief, 3, SMALL, exact=False)
            assert found.can_be_met is False
            keys = {source.key for source in found.contradiction}
            assert not can_be_met(only(brief, keys))
    assert 50 < num < 350

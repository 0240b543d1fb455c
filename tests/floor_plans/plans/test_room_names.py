"""Names of rooms in drawings: every type has one in every language, and is known by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.pictures.bubbles import ROOM_STYLES
from floor_plans.drawings.drawn_parts import (
    LANGUAGES,
    labels_of_rooms,
    names_of_rooms,
    type_of_name,
)
from plan_examples import FLAT


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_type_has_a_name_that_means_it(language):
    for code, kind in enumerate(ROOM_TYPES):
        plan = replace(FLAT, diagram=replace(FLAT.diagram, rooms=(code,) * 8))
        (name, *_), (label, *_) = names_of_rooms(plan, language), labels_of_rooms(plan, language)
        assert name == label.whole
        assert len(label.short) <= len(name)
        assert type_of_name(name) == kind
        if language == "en":  # as in every other picture
            assert (name, label.short) == (ROOM_STYLES[code].name, ROOM_STYLES[code].label)


def test_a_room_that_was_added_is_a_hall():
    plan = replace(FLAT, diagram=replace(FLAT.diagram, metadata={"added": [7]}))
    assert [names_of_rooms(plan, language)[7] for language in LANGUAGES] == ["Hall", "Flur"]
    assert type_of_name("Flur", "Entrance") == "Entrance"
    assert type_of_name("Bad", "Entrance") == "Bathroom"
    assert type_of_name("Flurgarderobe", "Entrance") == "Flurgarderobe"

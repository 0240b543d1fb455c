from __future__ import annotations

import pytest
from diagram_strategies import relabelled_diagrams
from hypothesis import given
from hypothesis import strategies as st

from floor_plans import BubbleDiagram
from floor_plans.commands.runs import describe_diagrams, print_description


def test_counts_by_hand():
    plan = BubbleDiagram((0, 2, 2), ((0, 1, 2), (1, 2, 9)))
    other = BubbleDiagram((7,), ())
    found = describe_diagrams([plan, other, plan.relabelled([2, 0, 1])])
    assert (found.num_diagrams, found.num_distinct) == (3, 2)
    assert (found.rooms, found.relations) == ({1: 1, 3: 2}, {0: 1, 2: 2})
    assert {k: v for k, v in found.room_types.items() if v} == {
        "LivingRoom": 2,
        "Kitchen": 4,
        "SecondRoom": 1,
    }
    assert found.diagrams_with["Kitchen"] == 2
    assert {k: v for k, v in found.relation_types.items() if v} == {
        "left-of": 2,
        "right-below": 1,
        "left-above": 1,  # the relabelled one reads it from the other end
    }
    assert "no-edge" not in found.relation_types


@pytest.mark.slow
@given(st.lists(relabelled_diagrams(max_rooms=10), min_size=1, max_size=5))
def test_what_is_counted_of_diagrams_ignores_the_order_of_rooms(pairs):
    plain = describe_diagrams([diagram for diagram, _ in pairs])
    moved = describe_diagrams([diagram.relabelled(order) for diagram, order in pairs])
    assert plain.num_distinct == moved.num_distinct
    assert plain.num_distinct == len({diagram.canonical_key() for diagram, _ in pairs})
    assert (plain.room_types, plain.rooms) == (moved.room_types, moved.rooms)
    assert plain.relations == moved.relations
    assert sum(plain.relation_types.values()) == sum(moved.relation_types.values())


def test_the_table_counts_in_words_and_names_the_reading_of_relations(capsys):
    print_description("a file", describe_diagrams([BubbleDiagram((0, 2), ((0, 1, 2),))]), {})
    said = capsys.readouterr().out
    assert "1 diagram, 1 distinct up to relabelling of their rooms (0 repeats)" in said
    assert "relation, of the earlier room" in said


def test_an_empty_set_is_refused():
    with pytest.raises(ValueError, match="no diagrams to describe"):
        describe_diagrams([])

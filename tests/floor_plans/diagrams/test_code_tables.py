from __future__ import annotations

import pytest

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram, PartialDiagram
from floor_plans.diagrams.files.code_tables import (
    BEDROOM,
    CODE_TABLES,
    check_table,
    translate_codes,
)
from floor_plans.diagrams.files.fields import DiagramError

BIG_SECOND = [[0, 0, 40, 40], [50, 0, 70, 20], [50, 30, 90, 70]]


def names(rooms, table, **more):
    """The room types of codes of a table, by way of the interchange format."""
    data = {"rooms": rooms, "relations": [], **more}
    return BubbleDiagram.from_json(data, codes=table).room_names


def test_every_room_of_every_table_is_one_of_ours():
    for table in CODE_TABLES.values():
        assert set(table.rooms.values()) <= {*ROOM_TYPES, BEDROOM}
        assert not table.rooms.keys() & (table.doors.keys() | table.untyped.keys())
        assert table.own_names.keys() <= table.rooms.keys()


def test_codes_are_read_by_their_table():
    every = [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert names(every, "housegan") == (
        *("LivingRoom", "Kitchen", "MasterRoom", "Bathroom", "Storage", "Balcony", "Entrance"),
        *("DiningRoom", "Storage"),
    )
    every = [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert names(every, "houseganpp") == (
        *("LivingRoom", "Kitchen", "MasterRoom", "Bathroom", "Balcony", "Entrance", "DiningRoom"),
        *("StudyRoom", "Storage"),
    )
    assert names([*range(13)], "rplan") == ROOM_TYPES
    assert names([0, 1, 2, 3, 4, 5], "coarse") == (
        *("LivingRoom", "MasterRoom", "Kitchen", "Bathroom", "Balcony", "Storage"),
    )


def test_the_largest_bedroom_is_the_master_room_where_sizes_are_known():
    assert names([3, 1, 3], "housegan", boxes=BIG_SECOND) == (
        *("MasterRoom", "LivingRoom", "SecondRoom"),
    )
    larger = [[0, 0, 30, 30], *BIG_SECOND[1:]]
    assert names([3, 1, 3], "housegan", boxes=larger) == ("SecondRoom", "LivingRoom", "MasterRoom")
    assert names([3, 1, 3], "housegan") == ("SecondRoom", "LivingRoom", "SecondRoom")


def test_names_win_and_null_stays_unknown():
    assert names([1, "StudyRoom", 6], "housegan") == ("LivingRoom", "StudyRoom", "Storage")
    partial = PartialDiagram.from_json({"rooms": [6, None, "Balcony"]}, codes="housegan")
    assert partial.rooms == (11, None, 9)


@pytest.mark.parametrize("rooms", [[1, None, 3, 3], [1, None, 3], [1, 3, 3], ["MasterRoom", 3]])
def test_a_bedroom_of_a_partial_diagram_is_no_fact_that_nobody_stated(rooms):
    expected = r"code 3 of housegan is any bedroom.*\"MasterRoom\" or \"SecondRoom\", or null"
    with pytest.raises(DiagramError, match=expected) as caught:
        PartialDiagram.from_json({"rooms": rooms}, codes="housegan")
    assert caught.value.field == f"rooms[{rooms.index(3)}]"
    with pytest.raises(DiagramError, match=expected):
        PartialDiagram.from_json({"rooms": rooms, "codes": "housegan"})


def test_the_only_bedroom_of_known_rooms_is_the_largest():
    partial = PartialDiagram.from_json({"rooms": [1, 3, "Kitchen"]}, codes="housegan")
    assert partial.rooms == (0, 1, 2)
    assert PartialDiagram.from_json({"rooms": [1, None, 3]}).rooms == (1, None, 3)  # ours


@pytest.mark.parametrize(
    ("rooms", "table", "reason"),
    [
        ([1, 5], "housegan", "code 5, a room that is missing, has no room type"),
        ([1, 16], "houseganpp", "code 16, a room of unknown type"),
        ([1, 15], "houseganpp", "code 15 is a door .*leave it out"),
        ([0, 6], "coarse", r"coarse room code 0\.\.5, got 6"),
        ([1, True], "housegan", "got True"),
        ([1, "bedroom"], "housegan", "unknown room type 'bedroom'"),
    ],
)
def test_a_code_without_a_room_is_named(rooms, table, reason):
    with pytest.raises(DiagramError, match=reason) as caught:
        names(rooms, table)
    assert caught.value.field == "rooms[1]"


def test_a_record_names_its_table_and_needs_no_other():
    diagram = BubbleDiagram((0, 5, 7), ((0, 1, 2),))
    written = diagram.to_json(names=False)
    assert written["codes"] == "rplan"
    assert BubbleDiagram.from_json(written, codes="housegan") == diagram
    record = {"rooms": [1, 6], "relations": [], "codes": "housegan", "name": "a"}
    read = BubbleDiagram.from_json(record)
    assert (read.room_names, read.metadata) == (("LivingRoom", "Storage"), {"name": "a"})
    assert "codes" not in translate_codes(record, "rplan")
    for wrong in ("house", 3, None):
        with pytest.raises(DiagramError, match="another name") as caught:
            BubbleDiagram.from_json(record | {"codes": wrong})
        assert caught.value.field == "codes"
    with pytest.raises(DiagramError, match="'codes' is taken"):
        BubbleDiagram((0,), (), metadata={"codes": "rplan"})


def test_an_unknown_table_is_refused_with_the_closest():
    check_table(None)
    with pytest.raises(ValueError, match=r"room_codes=housegann: .*did you mean 'housegan'"):
        check_table("housegann")

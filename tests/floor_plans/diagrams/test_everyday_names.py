from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram, PartialDiagram, read_diagrams
from floor_plans.diagrams.files.fields import (
    _MAY_MEAN,
    _MEANT,
    ROOM_WORDS,
    DiagramError,
    may_mean,
    read_names,
    room_type_of,
)
from floor_plans.diagrams.files.graph_formats import to_graphml
from floor_plans.drawings.readers import read_report


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("living room", "LivingRoom"),
        ("WC", "Bathroom"),
        ("Corridor", "Entrance"),
        ("kitchen", "Kitchen"),
        ("Master Bedroom", "MasterRoom"),
        ("Children's room", "ChildRoom"),
        ("wall-in", "Wall-in"),
    ],
)
def test_a_word_that_means_one_type_is_read_as_it(word, name, tmp_path):
    assert room_type_of(word, ROOM_TYPES) == name
    path = tmp_path / "plans.jsonl"
    path.write_text(json.dumps({"rooms": [word], "boxes": [[0, 0, 50, 50]]}))
    (read,) = read_diagrams(path)
    assert read.to_json()["rooms"] == [name]
    assert PartialDiagram.from_json({"rooms": [word]}).to_json()["rooms"] == [name]
    assert BubbleDiagram.from_json({"rooms": [word], "relations": []}).room_names == (name,)


def test_no_word_means_two_things_or_a_type_that_there_is_not():
    assert {*_MEANT.values(), *(n for names in _MAY_MEAN.values() for n in names)} <= {*ROOM_TYPES}
    own = {"".join(filter(str.isalnum, name.casefold())) for name in ROOM_TYPES}
    assert not own & (_MEANT.keys() | _MAY_MEAN.keys())
    assert not _MEANT.keys() & _MAY_MEAN.keys()


def test_a_vocabulary_without_the_type_does_not_have_its_words():
    assert room_type_of("WC", ["LivingRoom", "Kitchen"]) is None
    assert may_mean("hall", ["LivingRoom", "Kitchen"]) == ["LivingRoom"]
    assert room_type_of("bath", ["Bath"]) == "Bath"


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("Bedroom", ["MasterRoom or SecondRoom or ChildRoom or GuestRoom"]),
        ("Hall", ["LivingRoom or Entrance"]),
        ("Kitchn", ["did you mean 'Kitchen'"]),
        ("Garage", ["Wall-in"]),
    ],
)
def test_other_words_get_a_hint_and_all_names(word, named):
    with pytest.raises(DiagramError) as caught:
        PartialDiagram.from_json({"rooms": [None, word], "relations": [[0, 1, "above"]]})
    assert caught.value.field == "rooms[1]"
    assert all(part in caught.value.reason for part in [repr(word), *named, ", ".join(ROOM_TYPES)])


def test_a_master_bedroom_is_one_beside_codes_of_bedrooms():
    line = {"rooms": ["master bedroom", 3], "codes": "housegan"}
    with pytest.raises(DiagramError, match="code 3 of housegan is any bedroom"):
        PartialDiagram.from_json(line)


def test_the_page_lists_the_words():
    page = (Path(__file__).parents[3] / "docs" / "floor_plans" / "files.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|$", page, re.MULTILINE))
    words = {name: ", ".join(each) for name, each in ROOM_WORDS["words"].items()}
    assert {name: rows[name] for name in words} == words


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("Toilet 2", "Bathroom"),
        ("bath #2", "Bathroom"),
        ("living_room|0", "LivingRoom"),
        ("03 Kitchen", "Kitchen"),
    ],
)
def test_a_numbered_name_is_read(word, name):
    plan = {"rooms": [word], "relations": []}
    assert BubbleDiagram.from_json(plan).room_names == (name,)
    assert PartialDiagram.from_json({"rooms": [word]}).to_json()["rooms"] == [name]


BEDROOMS = ["Living room", "Bedroom 1", "bedroom_2", "Bed 3", "Toilet 2"]
BEDROOM_BOXES = [
    [0, 0, 60, 60],
    [60, 0, 90, 40],
    [60, 40, 100, 90],
    [0, 60, 30, 90],
    [30, 60, 60, 90],
]


def test_numbered_bedrooms_are_told_apart_by_their_size(tmp_path):
    expected = ["LivingRoom", "SecondRoom", "MasterRoom", "SecondRoom", "Bathroom"]
    path = tmp_path / "plans.jsonl"
    relations = [[0, 1, "left-of"]]
    for line in ({"boxes": BEDROOM_BOXES}, {"boxes": BEDROOM_BOXES, "relations": relations}):
        path.write_text(json.dumps({"rooms": BEDROOMS, **line}))
        assert read_diagrams(path)[0].to_json()["rooms"] == expected
    bare = BubbleDiagram.from_json({"rooms": BEDROOMS, "relations": relations})
    assert bare.room_names == (
        *("LivingRoom", "SecondRoom", "SecondRoom", "SecondRoom", "Bathroom"),
    )
    rooms = ["Master bedroom", *BEDROOMS[1:]]
    named = {"rooms": rooms, "relations": relations, "boxes": BEDROOM_BOXES}
    assert BubbleDiagram.from_json(named).room_names.count("MasterRoom") == 1
    one = BubbleDiagram.from_json({"rooms": ["Hallway", "Bedroom 1"], "relations": relations})
    assert one.room_names == ("Entrance", "MasterRoom")


def test_numbered_bedrooms_of_plans_without_directions_are_bedrooms():
    plan = {"rooms": ["Bedroom 1", "Bedroom 2"], "relations": [[0, 1, "door"]]}
    assert BubbleDiagram.from_json(plan).room_names == ("Bedroom", "Bedroom")


@pytest.mark.parametrize("word", ["Bedrom", "Bedrooms", "Outdor", "Garag", "Garages", "Othr"])
def test_what_is_proposed_is_not_refused_next(word, tmp_path):
    """Words of plans without directions are proposed as such."""
    path = tmp_path / "plans.jsonl"

    def refused(room: str) -> str:
        path.write_text(json.dumps({"rooms": [room, "Kitchen"], "relations": [[0, 1, "left-of"]]}))
        with pytest.raises(ValueError, match=room) as caught:
            read_diagrams(path)
        return str(caught.value)

    sentence = refused(word)
    assert "did you mean" not in sentence
    assert "relations=adjacency" in sentence
    assert ("MasterRoom or" in sentence) == word.startswith("Bed")


def test_a_key_is_not_proposed_that_is_there_already(tmp_path):
    path = tmp_path / "plans.jsonl"
    path.write_text(json.dumps({"rooms": ["Kitchen"], "relations": [], "room": 1}))
    with pytest.raises(ValueError, match=r"'room': unknown.*'rooms'.*there too.*rename"):
        read_diagrams(path)


OURS = ("LivingRoom", "MasterRoom", "Bathroom")
THEIRS = ("Wohnzimmer", "Schlafzimmer 1", "Bad/WC")
BOXES = [[0, 0, 50, 50], [50, 0, 90, 50], [90, 0, 120, 40]]
NAMES = {"wohnzimmer": "LivingRoom", "Schlafzimmer 1": "MasterRoom", "Bad/WC": "bath"}


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.yaml"
    path.write_text("".join(f"{name}: {room}\n" for name, room in NAMES.items()))
    return path


def test_own_names_are_read_in_json(tmp_path, names):
    path = tmp_path / "plans.jsonl"
    lines = [{"rooms": THEIRS, "boxes": BOXES}, {"room_type": THEIRS, "boxes": BOXES}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert [diagram.room_names for diagram in read_diagrams(path, room_names=names)] == [OURS, OURS]
    with pytest.raises(ValueError, match="Wohnzimmer"):
        read_diagrams(path)
    (tmp_path / "names.json").write_text(json.dumps(NAMES))
    assert read_diagrams(path, room_names=tmp_path / "names.json")[0].room_names == OURS


def test_own_names_are_read_in_every_format(tmp_path, names):
    pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
    from floor_plans.drawings.realised_files import DEFAULT, FORMATS
    from floor_plans.plans.floor_plan import FloorPlan

    metres = [[side / 14 for side in box] for box in BOXES]
    diagram = BubbleDiagram.from_json({"rooms": OURS, "relations": [], "boxes": metres})
    plan = FloorPlan(diagram)
    texts = {f"plan{f.suffix}": f.content_of(plan, DEFAULT) for f in FORMATS.values() if f.is_read}
    texts["plan.graphml"] = to_graphml(diagram)
    for name, text in texts.items():
        if name == "plan.houseganpp.json":
            continue  # it has codes
        for ours, said, theirs in zip(
            OURS, ("living_room", "bedroom", "bathroom"), THEIRS, strict=True
        ):
            text = text.replace(said if "rlvr" in name else ours, theirs)
        if name.endswith("json"):
            text = json.dumps(
                {k: v for k, v in json.loads(text).items() if k != "discrete_diffusion"}
            )
        elif name.endswith("dxf"):
            start = text.index("XRECORD\n")
            text = text[:start] + text[start:].replace("Wohnzimmer", "LivingRoom").replace(
                "Schlafzimmer 1", "MasterRoom"
            ).replace("Bad/WC", "Bathroom")
        (tmp_path / name).write_text(text)
        assert read_diagrams(tmp_path / name, room_names=names)[0].room_names == OURS, name
        with pytest.raises(ValueError, match=r"Wohnzimmer|Schlafzimmer|Bad/WC"):
            read_diagrams(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("expected names",)),
        ("- a\n- b", ("expected names",)),
        ("a: [", ("not YAML",)),
        ("Zimmer: Zimmer", ("'Zimmer'", "unknown room type")),
        ("Zimmer: 3", ("'Zimmer'",)),
        ("Zimmer: Kitchn", ("did you mean 'Kitchen'",)),
        ("A b: Kitchen\na-B: Balcony", ("two names",)),
    ],
)
def test_a_wrong_file_of_names_is_refused(tmp_path, text, words):
    path = tmp_path / "names.yaml"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        read_names(path)
    for word in ("names.yaml", *words):
        assert word in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"other\.yaml"):
        read_names(tmp_path / "other.yaml")


def test_the_commands_take_names(tmp_path, names, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans.jsonl").write_text(json.dumps({"rooms": THEIRS, "boxes": BOXES}))
    main(["data", "check", "plans.jsonl", "--room-names", "names.yaml", "--plans", "0"])
    assert "all can be read" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["data", "check", "plans.jsonl", "--room-names", "nams.yaml"])
    assert "nams.yaml" in capsys.readouterr().err


def test_boxes_without_extent_and_boxes_of_two_rooms_are_counted(tmp_path, capsys):
    path = tmp_path / "plans.jsonl"
    rooms = ["LivingRoom", "Kitchen", "Bathroom", "Balcony"]
    good = [*BOXES, [0, 50, 40, 80]]
    flat = [*BOXES, [0, 50, 0, 80]]
    alike = [*BOXES[:2], BOXES[1], BOXES[1]]
    lines = [{"rooms": rooms, "boxes": boxes} for boxes in (good, flat, alike)]
    lines.append({"rooms": rooms, "boxes": flat, "relations": [[0, 1, "left-of"]]})
    path.write_text("\n".join(map(json.dumps, lines)))
    report = read_report(path)
    assert len(report.diagrams) == 4
    found = {remark.kind: (remark.num, remark.num_plans) for remark in report.remarks}
    assert found == {
        "room without width or height": (2, 2),
        "room with the box of another one": (2, 1),
    }
    sentences = " ".join(remark.sentence() for remark in report.remarks)
    for word in ("line 2: rooms[3], Balcony", "line 3: rooms[1] and rooms[2]", "2 rooms"):
        assert word in sentences
    assert "2 rooms without width or height" in report.counts()
    main(["data", "describe", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["remarks"]["room without width or height"] == 2

"""Somebody's own names of rooms, and what is odd of boxes."""

from __future__ import annotations

import json

import pytest

from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram, read_diagrams
from floor_plans.diagrams.files.fields import read_names
from floor_plans.diagrams.files.graph_formats import to_graphml
from floor_plans.drawings.readers import read_report

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
    assert [diagram.room_names for diagram in read_diagrams(path, names=names)] == [OURS, OURS]
    with pytest.raises(ValueError, match="Wohnzimmer"):
        read_diagrams(path)
    (tmp_path / "names.json").write_text(json.dumps(NAMES))
    assert read_diagrams(path, names=tmp_path / "names.json")[0].room_names == OURS


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
        assert read_diagrams(tmp_path / name, names=names)[0].room_names == OURS, name
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
    main(["data", "check", "plans.jsonl", "--names", "names.yaml", "--plans", "0"])
    assert "all can be read" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["data", "check", "plans.jsonl", "--names", "nams.yaml"])
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

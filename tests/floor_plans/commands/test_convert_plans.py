"""``data convert`` into files of dimensioned plans."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from discrete_diffusion.cli import main
from floor_plans import generate_plans, read_diagrams, write_diagrams
from floor_plans.plans.floor_plan import FloorPlan

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

PLANS = generate_plans(3, seed=4)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_diagrams("plans.jsonl", PLANS)


@pytest.mark.parametrize(
    ("name", "options"), [("out.dxf", []), ("out.geojson", []), ("out.json", ["--format", "rlvr"])]
)
def test_a_file_each_that_is_read_back(capsys, name, options):
    main(["data", "convert", "plans.jsonl", name, *options])
    assert "out: 3 diagrams written, a file each" in capsys.readouterr().out
    back = read_diagrams("out")
    assert [FloorPlan.of(each) for each in back] == [FloorPlan.of(p, "pixels") for p in PLANS]
    main(["data", "convert", "plans.jsonl", name, *options, "--first=1"])
    assert f"{name}: 1 of 3 diagrams written" in capsys.readouterr().out
    assert [FloorPlan.of(each) for each in read_diagrams(name)] == [
        FloorPlan.of(PLANS[0], "pixels")
    ]
    main(["data", "convert", name, "again.jsonl"])
    (again,) = read_diagrams("again.jsonl")
    assert FloorPlan.of(again) == FloorPlan.of(PLANS[0], "pixels")


def test_the_unit_is_that_of_boxes_in_which_plans_were_read(tmp_path):
    boxes = tuple(tuple(side / 4 for side in box) for box in PLANS[0].boxes)
    plan = replace(PLANS[0], boxes=boxes)
    write_diagrams("feet.jsonl", [plan])
    main(["data", "convert", "feet.jsonl", "plan.geojson", "--unit=feet"])
    (read,) = read_diagrams("plan.geojson")
    assert read.boxes == FloorPlan.of(plan, "feet").diagram.boxes


def test_house_gan_plus_plus(capsys):
    main(["data", "convert", "plans.jsonl", "plan.json", "--format=houseganpp", "--first=1"])
    data = json.loads(Path("plan.json").read_text())
    assert len(data["room_type"]) == len(data["boxes"]) == PLANS[0].num_rooms
    main(["data", "check", "plan.json"])
    assert "room codes of houseganpp" in capsys.readouterr().out


def test_plans_without_boxes_are_to_be_realised_first(capsys, failure, tmp_path):
    with open("mixed.jsonl", "w") as file:
        for k, plan in enumerate(PLANS):
            data = plan.to_json()
            if k:
                del data["boxes"]
            file.write(json.dumps(data) + "\n")
    error = failure("data", "convert", "mixed.jsonl", "out.dxf")
    for word in (
        "2 of 3 diagrams",
        "number 2",
        "boxes",
        "out.dxf",
        "plans realise mixed.jsonl",
        "--skip",
    ):
        assert word in error
    assert not list(tmp_path.glob("out*"))
    main(["data", "convert", "mixed.jsonl", "out.dxf", "--skip-invalid"])
    assert "out.dxf: 1 diagram written; 2 without boxes left out" in capsys.readouterr().out
    assert read_diagrams("out.dxf") == [FloorPlan.of(PLANS[0], "pixels").diagram]
    (tmp_path / "out.dxf").unlink()
    write_diagrams("bad.jsonl", [PLANS[0]])
    line = json.loads(Path("bad.jsonl").read_text()) | {"doors": [{"rooms": [0, 9]}]}
    (tmp_path / "bad.jsonl").write_text(json.dumps(line))
    error = failure("data", "convert", "bad.jsonl", "out.dxf")
    assert "diagram 1: field 'doors'" in error


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["out.jsonl", "--format=rlvr"], "--format rlvr writes .json"),
        (["out.json", "--format=rlvr", "--codes"], "without --codes"),
        (["out.json", "--format=ifc"], "format=ifc: expected houseganpp or rlvr"),
        (["out.dxf", "--codes"], "--codes is for .jsonl and .json"),
        (["out.dxf", "--each"], "--each is for pictures"),
    ],
)
def test_options_that_contradict_each_other(failure, tmp_path, words, sentence):
    assert sentence in failure("data", "convert", "plans.jsonl", *words)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.slow
def test_nothing_is_replaced_unasked(capsys, failure, tmp_path):
    (tmp_path / "out.dxf").write_text("mine")
    assert "--overwrite" in failure("data", "convert", "plans.jsonl", "out.dxf")
    (tmp_path / "out.dxf").unlink()
    main(["data", "convert", "plans.jsonl", "out.dxf"])
    assert "out exists already" in failure("data", "convert", "plans.jsonl", "out.dxf")
    main(["data", "convert", "plans.jsonl", "out.dxf", "--overwrite"])
    assert "out.replaced-1" in capsys.readouterr().out
    assert len(read_diagrams("out")) == len(read_diagrams("out.replaced-1")) == 3


def with_boxes(*boxes, **keys) -> str:
    """A line of a living room, a kitchen and bathrooms in these boxes."""
    rooms = ["LivingRoom", "Kitchen", *["Bathroom"] * (len(boxes) - 2)]
    return json.dumps({"rooms": rooms, "relations": [], "boxes": boxes, **keys}) + "\n"


SOUND = ([0, 0, 5, 6], [5, 0, 8, 6])
NO_DOOR = {"rooms": [0, 1], "from": [5, 2], "to": [5, 2]}


@pytest.mark.parametrize("name", ["out.dxf", "out.geojson"])
def test_boxes_that_are_hardly_in_their_unit_are_refused(failure, tmp_path, name):
    (tmp_path / "metres.jsonl").write_text(with_boxes(*SOUND))
    for words in (["data", "convert", "metres.jsonl", name], ["plans", "check", "metres.jsonl"]):
        rules = ["--rules", "default"] if words[1] == "check" else []
        error = failure(*words, *rules)
        assert "boxes in unit=pixels" in error
        assert "Give unit=metres" in error
    assert not list(tmp_path.glob("out*"))
    main(["data", "convert", "metres.jsonl", name, "--unit=metres"])
    assert read_diagrams(name)[0].boxes == ((0, 0, 5, 6), (5, 0, 8, 6))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (with_boxes(*SOUND, [8, 0, 8, 6]), "field 'boxes[2]': bathroom has no area (0 x 6 m)"),
        (
            with_boxes(*SOUND, doors=[NO_DOOR]),
            "field 'doors[0]': the door between living room and kitchen has no width",
        ),
    ],
)
@pytest.mark.parametrize("name", ["out.dxf", "out.json"])
def test_what_has_no_extent_is_named_or_left_out(capsys, failure, tmp_path, line, named, name):
    (tmp_path / "flat.jsonl").write_text(with_boxes(*SOUND) + line)
    words = ["data", "convert", "flat.jsonl", name, "--unit=metres"]
    words += ["--format=houseganpp"] if name.endswith(".json") else []
    error = failure(*words)
    assert f"diagram 2: {named}" in error
    assert "--skip-invalid" in error
    assert not list(tmp_path.glob("out*"))
    capsys.readouterr()
    main([*words, "--skip-invalid"])
    printed = capsys.readouterr().out
    assert "1 invalid left out, the first: flat.jsonl, line 2" in printed
    assert f"{name}: 1 diagram written" in printed


def test_a_hall_beside_as_many_rooms_as_a_diagram_may_have(capsys, failure, tmp_path):
    boxes = [[3 * k, 0, 3 * k + 3, 4] for k in range(9)]
    line = with_boxes(*boxes, unit="metres", added=[8])
    (tmp_path / "hall.jsonl").write_text(line)
    for name in ("out.geojson", "out.jsonl"):
        main(["data", "convert", "hall.jsonl", name])
        assert f"{name}: 1 diagram written" in capsys.readouterr().out
    assert json.loads(Path("out.jsonl").read_text())["added"] == [8]
    (tmp_path / "nine.jsonl").write_text(with_boxes(*boxes, unit="metres"))
    assert "9 rooms, more than max_nodes=8" in failure(
        "data", "convert", "nine.jsonl", "no.geojson"
    )

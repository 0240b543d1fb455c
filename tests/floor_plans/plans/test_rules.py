"""Rules of living: each is broken by a plan made for it, kept by others, and read from YAML."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from discrete_diffusion.cli import main
from floor_plans import generate_plans, read_diagrams
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings import realise_file
from floor_plans.plans.doors import find_doors, hang_doors
from floor_plans.plans.floor_plan import Door, FloorPlan, plans_with_boxes
from floor_plans.rules.rule_set import ALL, RULES, RuleSet, judge, kept_shares, read_rules
from plan_examples import floor_plan
from rule_examples import BATH, BREAKING, KITCHEN, LIVING, MASTER, PLOT, SECOND, flat

DEFAULT = read_rules("default")
FURNISHING = [*RULES][[*RULES].index("furniture") :]


def broken(plan: FloorPlan, rules=DEFAULT) -> set[str]:
    return {name for name, kept in judge(plan, rules).kept.items() if kept is False}


def write(path: str, plans) -> None:
    Path(path).write_text("".join(json.dumps(plan.to_json()) + "\n" for plan in plans))


def test_a_plan_keeps_every_rule():
    free, on_plot = judge(flat(), DEFAULT), judge(flat(boundary=PLOT), DEFAULT)
    assert free.kept == dict.fromkeys(RULES, True) | {"fill": None}
    assert on_plot.kept == dict.fromkeys(RULES, True) | {"compact": None}
    assert free.keeps_all
    assert free.broken == []


@pytest.mark.parametrize("what", BREAKING)
def test_each_rule_is_broken_alone(what):
    plan, names, rooms = BREAKING[what]
    judgement = judge(plan, DEFAULT)
    assert {name for name, kept in judgement.kept.items() if kept is False} == names
    assert not judgement.keeps_all
    assert judgement.broken[0][1].rooms == rooms
    assert all(finding.change for _, finding in judgement.broken)


@pytest.mark.parametrize("what", [each for each in BREAKING if each != "apart"])
def test_a_quarter_turn_changes_nothing(what):
    """Rules know no direction."""
    plan, names, _ = BREAKING[what]

    def turned(point):
        return -point[1], point[0]

    boxes = tuple((-y1, x0, -y0, x1) for x0, y0, x1, y1 in plan.diagram.boxes)
    doors = [Door(each.rooms, turned(each.start), turned(each.end)) for each in plan.doors]
    boundary = plan.boundary and tuple(map(turned, plan.boundary))
    bare = BubbleDiagram(plan.diagram.rooms, plan.diagram.relations, boxes)
    assert broken(FloorPlan(bare, tuple(doors), boundary)) == names


def test_findings_name_rooms_numbers_and_the_change():
    ((_, rectangle),) = judge(BREAKING["doors in the way of a sofa"][0], DEFAULT).broken
    assert rectangle.found == "living room holds no rectangle of 3.2 x 3.6 m clear of its doors"
    blocked = BREAKING["doors in the way of a sofa"][0]
    opened = [replace(door, is_open=not door.is_front) for door in blocked.doors]
    assert judge(replace(blocked, doors=tuple(opened)), DEFAULT).kept["furniture"] is True
    ((_, width),) = judge(BREAKING["narrow bath"][0], DEFAULT).broken
    assert width.sentence() == "bathroom is 1.20 m wide, at least 1.30 m; make it 0.10 m wider"
    ((_, access),) = judge(BREAKING["bedroom behind a bedroom"][0], DEFAULT).broken
    assert "second room is not reached" in access.found
    assert access.change == "put a door between it and living room"
    (_, void), *_ = judge(BREAKING["void between related rooms"][0], DEFAULT).broken
    assert "0.50 m" in void.found
    ((_, fill),) = judge(BREAKING["empty plot"][0], DEFAULT).broken
    missing = 0.95 * 108 - (90 + 0.15 * 9)  # half a wall lies beyond the rooms, in the plot
    assert f"{missing:.1f} m2" in fill.change


def test_rules_that_do_not_apply_say_nothing():
    storage = floor_plan([("Storage", (0, 0, 2, 2))])
    assert judge(storage, DEFAULT).kept == dict.fromkeys(set(RULES) - {"front", "compact"}) | {
        "front": False,
        "compact": True,
    }


def test_an_opening_is_no_door_of_the_room_that_one_enters():
    plan, _, _ = BREAKING["front door into a crowded living room"]
    assert judge(plan, DEFAULT).kept["entry"] is False
    opened = tuple(replace(door, is_open=KITCHEN in door.rooms) for door in plan.doors)
    assert judge(replace(plan, doors=opened), DEFAULT).kept["entry"] is True


def test_doors_of_a_narrow_hall_collide_unless_one_is_moved():
    """Two closets too shallow for a door face each other across a hall of 1 m."""

    def hall(second: float) -> FloorPlan:
        rooms = [
            ("Entrance", (0.5, 0, 1.5, 4)),
            ("Storage", (0.2, 0, 0.5, 4)),
            ("Wall-in", (1.5, 0, 1.8, 4)),
        ]
        doors = (
            Door((0, 1), (0.5, 1), (0.5, 1.8)),
            Door((0, 2), (1.5, second), (1.5, second + 0.8)),
        )
        return replace(floor_plan(rooms), doors=doors)

    (finding,) = judge(hall(1.0), DEFAULT).findings["swings"]
    assert finding.rooms == (0, 1, 2)
    assert "collide" in finding.found
    assert judge(hall(2.6), DEFAULT).kept["swings"] is True


def test_a_door_is_hung_the_other_way_for_the_sake_of_a_later_one():
    """Two doors into a bath, beside one corner: one of them does not hang_doors there."""
    rooms = [("Bathroom", (0, 0, 2, 2)), ("Storage", (2, 0, 2.3, 2)), ("Wall-in", (0, 2, 2, 2.3))]
    doors = (Door((0, 1), (2, 0.7), (2, 1.5)), Door((0, 2), (0.7, 2), (1.5, 2)))
    plan = replace(floor_plan(rooms), doors=doors)
    first, second = hang_doors(plan)
    assert {first.room, second.room} == {0}
    assert first.swept_with(second) == 0
    assert sum(swing.leaf[0] in ((2, 1.5), (1.5, 2)) for swing in (first, second)) <= 1


def test_baths_beside_a_bath_for_all_may_be_behind_a_bedroom():
    plan = flat(more=[("Bathroom", (10, 5, 12, 9))])
    en_suite = Door((SECOND, 5), (10, 6), (10, 6.8))
    assert broken(replace(plan, doors=(*plan.doors, en_suite))) == set()


def test_diagonal_neighbours_and_unrelated_rooms_may_lie_apart():
    apart = {MASTER: (0, 5.5, 5, 9.5), SECOND: (5, 5.5, 10, 9.5)}
    plan = flat(apart)
    unrelated = [r for r in plan.diagram.relations if not {*r[:2]} & {MASTER, SECOND}]
    bare = replace(plan, diagram=replace(plan.diagram, relations=unrelated), doors=())
    assert judge(bare, DEFAULT).kept["walls"] is True
    diagonal = floor_plan([("Kitchen", (0, 0, 3, 3)), ("Bathroom", (3.4, 3.4, 6, 6))])
    assert len(diagonal.diagram.relations) == 1
    assert judge(diagonal, DEFAULT).kept["walls"] is True


def test_a_closed_gap_is_not_outside():
    """A study around which rooms lie, with a gap of a metre on one side."""
    ring = [
        ("StudyRoom", (3, 3, 6, 6)),
        ("LivingRoom", (0, 0, 9, 3)),
        ("Storage", (0, 3, 3, 6)),
        ("Storage", (7, 3, 9, 6)),
        ("Storage", (0, 6, 9, 9)),
    ]
    assert judge(floor_plan(ring), DEFAULT).kept["facade"] is False
    assert judge(floor_plan(ring[:3] + ring[4:]), DEFAULT).kept["facade"] is True


def test_drawn_rooms_that_overlap_are_not_apart():
    from shapely import Polygon

    boxes = [("Kitchen", (0, 0, 4, 4)), ("Storage", (2, 0, 6, 4))]
    triangles = (Polygon([(0, 0), (4, 0), (4, 4)]), Polygon([(2, 0), (6, 0), (2, 3)]))
    plan = replace(floor_plan(boxes), floors=triangles)
    finding = judge(plan, DEFAULT).findings["apart"][0]
    shared = triangles[0].intersection(triangles[1]).area
    assert shared > 0.1
    assert f"{shared:.2f} m2" in finding.found


def test_a_room_that_was_added_is_a_hall():
    """The storage in the middle leads to the bedroom behind it once it is a hall."""
    rooms = {KITCHEN: (6, 0, 10, 2.5), SECOND: (6, 5, 10, 9)}
    plan = flat(
        rooms,
        more=[("Storage", (5, 5, 6, 9))],
        doors={4: (SECOND, 5, (6, 6), (6, 6.8)), 5: (LIVING, 5, (5.1, 5), (5.9, 5))},
    )
    assert broken(plan) == {"access"}
    assert broken(with_added(plan, [5])) == set()
    narrow = flat(more=[("Storage", (10, 5, 10.8, 9))])
    assert broken(narrow) == set()
    assert broken(with_added(narrow, [5])) == {"width"}
    assert "hall is" in judge(with_added(narrow, [5]), DEFAULT).broken[0][1].found


def with_added(plan: FloorPlan, added: object) -> FloorPlan:
    return replace(plan, diagram=replace(plan.diagram, metadata={"added": added}))


@pytest.mark.parametrize("added", ["yes", [9], [None], 3])
def test_wrong_numbers_of_added_rooms_are_named(added):
    with pytest.raises(DiagramError, match="numbers of rooms, 0 to 4") as error:
        judge(with_added(flat(), added), DEFAULT)
    assert error.value.field == "added"


def test_the_building_code_has_its_numbers():
    irc = read_rules("irc").rules
    foot = 0.3048
    assert irc["area"]["least"]["LivingRoom"] == pytest.approx(70 * foot**2, abs=0.01)
    assert irc["width"]["least"]["StudyRoom"] == pytest.approx(7 * foot, abs=0.001)
    assert irc["width"]["least"]["Hall"] == pytest.approx(3 * foot, abs=0.001)
    assert "Kitchen" not in irc["area"]["least"]
    narrow = BREAKING["narrow bath"][0]
    assert broken(narrow, read_rules("irc")) == set()


def test_a_file_changes_a_set(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "base: default\nwidth:\n  least: {Bathroom: 1.1}\nfill: false\nfacade:\n  length: 2\n"
    )
    mine = read_rules(file)
    assert "fill" not in mine.rules
    assert mine.rules["width"]["least"] == DEFAULT.rules["width"]["least"] | {"Bathroom": 1.1}
    assert mine.rules["facade"] == {**DEFAULT.rules["facade"], "length": 2.0}
    assert broken(BREAKING["narrow bath"][0], mine) == set()
    assert broken(BREAKING["empty plot"][0], mine) == set()
    assert read_rules("none").rules == {}


WRONG = [
    ("widht:\n  least: {Kitchen: 2}\n", "line 1, key 'widht'", "did you mean 'width'"),
    ("base: defualt\n", "line 1, key 'base'", "did you mean 'default'"),
    ("base: [default]\n", "line 1, key 'base'", "expected a name, one of default, irc"),
    (
        "# own\nwidth:\n  least:\n    Kitchn: 2\n",
        "line 4, key 'width.least.Kitchn'",
        "did you mean 'Kitchen'",
    ),
    (
        "base: default\nfacade:\n  lenght: 2\n",
        "line 3, key 'facade.lenght'",
        "did you mean 'length'",
    ),
    ("facade:\n  length: 1\n", "line 1, key 'facade'", "needs rooms, wall"),
    ("base: irc\narea:\n  least: 7\n", "line 3, key 'area.least'", "for each kind of room"),
    ("base: irc\narea:\n  least: {Kitchen: 0}\n", "area.least.Kitchen", "a number above 0, got 0"),
    ("base: irc\narea:\n  least: {Kitchen: nan}\n", "area.least.Kitchen", "above 0"),
    ("base: default\nfill:\n  share: 95\n", "line 3, key 'fill.share'", "share, above 0 and at"),
    ("base: default\nwindow:\n  share: 8\n", "line 3, key 'window.share'", "8 % is 0.08"),
    ("base: default\nfurniture:\n  least: {Kitchen: 2}\n", "furniture.least.Kitchen", "1.5 x 1.7"),
    ("base: irc\nfront:\n  rooms: Entrance\n", "line 3, key 'front.rooms'", "a list of kinds"),
    ("base: irc\nfront:\n", "line 2, key 'front'", "parameters: rooms"),
    ("- width\n", "line 1", "rules (apart, front"),
    ("", "the file is empty", "base: and width:"),
    ("base: irc\nbase: default\n", "line 2, key 'base'", "given twice"),
    ("width: [\n", "line 2", "neither YAML nor JSON"),
]


@pytest.mark.parametrize(("text", "place", "remedy"), WRONG)
def test_errors_of_a_file_name_line_key_and_the_closest_name(tmp_path, text, place, remedy):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"mine\.yaml") as error:
        read_rules(file)
    assert place in str(error.value)
    assert remedy in str(error.value)


def test_unknown_sets_and_missing_files_are_named():
    with pytest.raises(ValueError, match="did you mean 'default'"):
        read_rules("defalt")
    with pytest.raises(FileNotFoundError, match=r"rules=mine\.yaml"):
        read_rules("mine.yaml")


def test_shares_count_plans_that_a_rule_applies_to():
    plans = [flat(), flat(boundary=PLOT), BREAKING["empty plot"][0], BREAKING["long tail"][0]]
    found = kept_shares([judge(plan, DEFAULT) for plan in plans], DEFAULT)
    assert (found["fill"].num_kept, found["fill"].num_judged) == (1, 2)
    assert (found["compact"].num_kept, found["compact"].num_judged) == (1, 2)
    assert (found[ALL].num_kept, found[ALL].num_judged) == (2, 4)
    # Wilson's interval of 1 of 2 by hand: centre 1/2, half sqrt(z^2 / 8 + z^4 / 16) / (1 + z^2 / 2)
    z = 1.959964
    half = z / 2 * math.sqrt(0.5 + z**2 / 4) / (1 + z**2 / 2)
    assert found["fill"].interval.low == pytest.approx(0.5 - half, abs=1e-6)
    assert kept_shares([], DEFAULT)[ALL].interval is None


@pytest.fixture
def file(tmp_path, monkeypatch) -> str:
    """The flat, the flat with a narrow bath, and a diagram without a plan."""
    monkeypatch.chdir(tmp_path)
    write("plans.jsonl", [flat(), BREAKING["narrow bath"][0]])
    with Path("plans.jsonl").open("a") as lines:
        lines.write('{"rooms": ["LivingRoom"], "relations": [], "no_plan": "no floor plan"}\n')
    return "plans.jsonl"


def check(capsys, *words: str) -> tuple[int, str]:
    """Exit status and output of ``plans check``."""
    capsys.readouterr()
    try:
        main(["plans", "check", *words])
        status = 0
    except SystemExit as stop:
        status = int(stop.code or 0)
    return status, capsys.readouterr().out


def test_the_report_of_access_has_every_plan(file, capsys, monkeypatch):
    status, _ = check(capsys, file, "report=access.json", "plans=0")
    found = json.loads(Path("access.json").read_text())
    assert (status, found["num_plans"]) == (0, 2)
    rooms = {each["room"]: each for each in found["plans"][0]["rooms"]}
    assert (rooms["outside"]["depth"], rooms["living room"]["depth"]) == (0, 1)
    others = [
        each["depth"] for name, each in rooms.items() if name not in ("outside", "living room")
    ]
    assert min(others) >= 2
    assert found["plans"][0]["edit_distance"] == 0
    assert found["plans"][0]["edit_distance_is_exact"] is True
    status, _ = check(capsys, file, "report=access.json")
    assert status == 1
    assert json.loads(Path("access.json").read_text()) == found
    # a search past its time yields an upper bound
    monkeypatch.setattr(realise_file, "SECONDS", 1e-9)
    monkeypatch.setattr(realise_file, "edit_distance", lambda *_, seconds: 1e9 * seconds)
    check(capsys, file, "report=soon.json", "plans=0")
    soon = json.loads(Path("soon.json").read_text())["plans"]
    assert [each["edit_distance_is_exact"] for each in soon] == [False, False]


def test_the_command_prints_a_table_shares_and_changes(file, capsys):
    status, text = check(capsys, file, "rules=default", "plans=0")
    assert status == 1
    lines = text.splitlines()
    assert "2 plans judged; 1 diagram without boxes" in text
    header = next(line.split() for line in lines if line.startswith("plan "))
    assert header == ["plan", *RULES]
    rows = {line[:6]: line[6:].split() for line in lines if line.startswith("line ") and line[6:]}
    assert dict(zip(RULES, rows["line 1"], strict=True)) == dict.fromkeys(RULES, "yes") | {
        "fill": "-"
    }
    assert dict(zip(RULES, rows["line 2"], strict=True))["width"] == "NO"
    width = next(line.split() for line in lines if line.startswith("width"))
    assert width[1:4] == ["1", "2", "50.0%"]
    assert lines[-2:] == [
        "line 2",
        "  width: bathroom is 1.20 m wide, at least 1.30 m; make it 0.10 m wider",
    ]


def test_the_command_ends_well_if_all_rules_are_kept(file, capsys):
    assert check(capsys, file, "--rules", "irc", "--plans", "0")[0] == 0
    dropped = check(capsys, file, "plans=0")
    assert dropped == (0, f"{file}: 3 diagrams from 3 lines; all can be read\n")
    assert check(capsys, file, "plans=0", "rules=none") == dropped


def test_the_command_prints_json(file, capsys):
    status, text = check(capsys, file, "rules=default", "json=true")
    found = json.loads(text)
    assert status == 1
    assert (found["num_plans"], found["num_without_boxes"]) == (2, 1)
    assert found["shares"]["width"]["num_kept"] == 1
    assert found["shares"]["width"]["low"] < 0.5 < found["shares"]["width"]["high"]
    assert found["shares"]["fill"] == {"num_kept": 0, "num_judged": 0}
    first, second = found["plans"]
    assert first["kept"]["fill"] is None
    assert first["broken"] == []
    assert second["place"].endswith("line 2")
    assert [each["rule"] for each in second["broken"]] == ["width"]
    assert second["broken"][0]["rooms"] == [BATH]


def test_lines_that_cannot_be_read_are_in_both_reports(file, capsys):
    with Path(file).open("a") as lines:
        lines.write('{"rooms": ["Kitchn"], "relations": []}\n')
    status, text = check(capsys, file, "rules=irc", "json=true")
    assert status == 1
    (problem,) = json.loads(text)["problems"]
    assert problem.startswith(f"{file}, line 4, field 'rooms[0]'")
    status, text = check(capsys, file, "rules=irc", "plans=0")
    assert status == 1
    assert problem in text
    assert "2 plans judged" in text


def test_the_command_judges_drawings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write("plans.jsonl", [BREAKING["narrow bath"][0]])
    main(["plans", "convert", "plans.jsonl", "drawn.geojson"])
    main(["plans", "convert", "plans.jsonl", "drawn.dxf"])
    for drawing in ("drawn.geojson", "drawn.dxf"):
        found = json.loads(check(capsys, drawing, "rules=default", "json=true")[1])
        assert [each["rule"] for each in found["plans"][0]["broken"]] == ["width"]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["rules=defalt"], "did you mean 'default'"),
        (["rules=mine.yaml"], "no file at"),
        (["json=true"], "--rules"),
        (["json=true", "rules=none"], "--rules"),
    ],
)
def test_wrong_words_of_the_command_are_named(file, capsys, words, remedy):
    with pytest.raises(SystemExit):
        main(["plans", "check", file, *words])
    assert remedy in capsys.readouterr().err


@pytest.mark.parametrize("words", [["plans", "check", "rules=default"], ["data", "check"]])
def test_a_wrong_key_of_a_plan_is_named_with_its_line(file, capsys, words):
    """The other plans are judged."""
    write(file, [flat(), with_added(flat(), [7]), flat()])
    wrong = json.loads(Path(file).read_text().splitlines()[0])
    wrong["doors"][0]["rooms"] = [0, 99]
    with open(file, "a") as lines:
        lines.write(json.dumps(wrong) + "\n")
    with pytest.raises(SystemExit) as ended:
        main([*words[:2], file, *words[2:]])
    assert ended.value.code == 1
    printed = capsys.readouterr().out
    assert "line 2, field 'added'" in printed
    assert "line 4, field 'doors'" in printed
    assert "2 invalid left out" in printed
    assert ("2 plans judged" in printed) is (words[0] == "plans")


def test_rooms_without_area_are_no_plan_to_judge(file, capsys):
    """The other plans are judged; without rules it is read, with a remark."""
    line = flat(more=[("Storage", (10, 0, 10, 1))], doors={3: (LIVING, 5, (10, 0), (10, 1))})
    write(file, [flat(), line])
    status, text = check(capsys, file, "rules=default", "plans=0")
    assert status == 1
    assert "line 2, field 'boxes[5]': storage has no area (0 x 1 m)" in text
    assert "1 plan judged" in text
    assert "room without width or height" in check(capsys, file, "plans=0")[1]
    with pytest.raises(DiagramError, match="storage has no area"):
        judge(line, DEFAULT)


STRICTER_THAN_THEIRS = {
    [*BREAKING].index("a slot between two blocks"): "compact",
    [*BREAKING].index("room off the plot"): "fill",
}
"""Of the plans above: the other judge closes slots before it counts pieces, and does not ask what
lies off the plot."""


@pytest.mark.slow
def test_another_independent_judge_agrees_on_furnishing(tmp_path, real_data):
    """On the plans above, by room, as its rules are others."""
    script = real_data.parent / "checks" / "furnishable.py"
    if not script.is_file():
        pytest.skip(f"{script} is not there: the independent judge lies beside the real plans")
    # without a slit of just the area that is allowed
    plans = [plan for name, (plan, *_) in BREAKING.items() if not name.startswith("void")]
    write(str(tmp_path / "plans.jsonl"), plans)
    words = [sys.executable, str(script), "plans.jsonl", "--json", "out.json"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    theirs = json.loads((tmp_path / "out.json").read_text())["verdicts"]
    names = {"living": "furniture", "bedrooms": "furniture", "kitchen": "airy", "bath": "largest"}
    # it has no ratio of kitchens and baths
    shape = DEFAULT.rules["shape"]
    most = {kind: m for kind, m in shape["most"].items() if kind not in ("Kitchen", "Bathroom")}
    rules = RuleSet("its own", {**DEFAULT.rules, "shape": {**shape, "most": most}})
    for plan, verdict in zip(plans, theirs, strict=True):
        ours = judge(plan, rules).kept
        broken = {names.get(rule, rule) for rule, kept in verdict.items() if kept is False}
        for rule in ("shape", "islands", "slits"):
            assert (ours[rule] is False) == (rule in broken)
        assert bool(broken) == any(ours[rule] is False for rule in FURNISHING)


@pytest.mark.slow
def test_an_independent_judge_agrees(tmp_path, real_data):
    """On the plans above, real ones and embedded ones with doors. Of embedded ones, whose outline
    has steps of a few centimetres, corners may be counted differently: they are left out there."""
    script = real_data.parent / "checks" / "livable.py"
    if not script.is_file():
        pytest.skip(f"{script} is not there: the independent judge lies beside the real plans")
    real = read_diagrams(real_data / "rplan_render_999" / "plans.jsonl")[:20]
    drawn = plans_with_boxes([*real, *generate_plans(20, seed=5)], "pixels")
    plans = [plan for plan, *_ in BREAKING.values()]
    num_exact = len(plans) + len(real)
    plans += [find_doors(plan) for plan in drawn]
    write(str(tmp_path / "plans.jsonl"), plans)
    words = [sys.executable, str(script), "plans.jsonl", "--json", "out.json"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    theirs = json.loads((tmp_path / "out.json").read_text())["verdicts"]
    assert len(theirs) == len(plans) == num_exact + 20
    # it has no least width of balconies
    widths = {kind: m for kind, m in DEFAULT.rules["width"]["least"].items() if kind != "Balcony"}
    rules = RuleSet("its own", {**DEFAULT.rules, "width": {"least": widths}})
    for k, (plan, verdict) in enumerate(zip(plans, theirs, strict=True)):
        ours = judge(plan, rules).kept
        names = [name for name in verdict if k < num_exact or name != "compact"]
        if (stricter := STRICTER_THAN_THEIRS.get(k)) is not None:
            assert (ours[stricter], verdict[stricter]) == (False, True)
            names.remove(stricter)
        assert [ours[name] is not False for name in names] == [
            verdict[name] is not False for name in names
        ]

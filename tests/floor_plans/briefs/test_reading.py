"""Briefs out of text and Python objects: every form of every key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from floor_plans.briefs import BriefError, brief_of, read_brief
from floor_plans.briefs.brief import ANY_RELATION, Kind, Numbers, Quantity
from floor_plans.diagrams.vocabulary import RELATIONS, ROOM_GROUPS, ROOM_TYPES

FOLDER = Path(__file__).parents[3] / "examples" / "briefs"
EXAMPLES = sorted(path for path in FOLDER.rglob("*") if path.is_file())
BATH = Kind.of("Bathroom")
TEXT = """\
num_rooms: 5-7
groups: {Wet: [Bathroom, Kitchen]}
rooms:
  Bedroom: 3
  Bathroom: at least 2   # a comment
named: {parents: MasterRoom, ensuite: Bathroom}
relations:
  - Kitchen adjacent LivingRoom
  - every Bathroom adjacent Bedroom
  - no Wet adjacent Balcony
  - ensuite left-of|left-above parents
  - [Balcony, [below, left-below], LivingRoom]
max_degree: 5
connected: true
buildable: true
"""


def written(folder: Path, text: str, name: str = "brief.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def codes(*names: str) -> frozenset[int]:
    return frozenset(map(RELATIONS.index, names))


def relation(rule: object, named: dict[str, str] | None = None):
    asked = {"relations": [rule]} | ({"named": named} if named else {})
    (found,) = brief_of(asked).relations
    return found


def test_everything_is_read_with_its_source(tmp_path):
    brief = read_brief(written(tmp_path, TEXT))
    assert brief.num_rooms == Numbers(5, 7)
    assert [(rule.kind.name, rule.number) for rule in brief.counts] == [
        ("Bedroom", Numbers(3, 3)),
        ("Bathroom", Numbers(2)),
    ]
    assert brief.named == {"parents": Kind.of("MasterRoom"), "ensuite": BATH}
    assert brief.buildable
    some, every, no, named, listed = brief.relations
    assert (some.quantity, some.relations) == (Quantity.SOME, ANY_RELATION)
    assert (every.quantity, every.object) == (Quantity.EVERY, Kind.of("Bedroom"))
    assert no.quantity is Quantity.NO
    assert no.subject.types == {ROOM_TYPES.index("Bathroom"), ROOM_TYPES.index("Kitchen")}
    assert (named.subject, named.object) == ("ensuite", "parents")
    assert named.relations == codes("left-of", "left-above")
    assert listed.relations == codes("below", "left-below")
    lines = {rule.source.key: rule.source.line for rule in brief.rules}
    assert lines == {
        **{"rooms.Bedroom": 4, "rooms.Bathroom": 5, "max_degree": 13, "connected": 14},
        **{f"relations[{k}]": 8 + k for k in range(5)},
    }
    assert brief.counts[1].source.text == "Bathroom: at least 2"
    assert no.source.text == "no Wet adjacent Balcony"
    found = {key: (source.line, source.text) for key, source in brief.sources.items()}
    assert found == {
        "num_rooms": (1, "num_rooms: 5-7"),
        "named.parents": (6, "parents: MasterRoom"),
        "named.ensuite": (6, "ensuite: Bathroom"),
        "buildable": (15, "buildable: true"),
    }


def test_yaml_json_and_python_say_the_same(tmp_path):
    import yaml

    brief = read_brief(written(tmp_path, TEXT))
    mapping = yaml.safe_load(TEXT)
    assert brief_of(mapping) == brief
    for indent in (None, 2, "\t"):
        text = json.dumps(mapping, indent=indent)
        assert read_brief(written(tmp_path, text, "brief.json")) == brief
    assert read_brief(written(tmp_path, "\ufeff" + TEXT)) == brief
    assert read_brief(written(tmp_path, TEXT.replace("\n", "\r\n"))) == brief


@pytest.mark.parametrize(
    ("written_as", "number"),
    [
        (6, Numbers(6, 6)),
        ("6", Numbers(6, 6)),
        ("exactly 6", Numbers(6, 6)),
        ("5-7", Numbers(5, 7)),
        ("5 to 7", Numbers(5, 7)),
        ("5 – 7", Numbers(5, 7)),
        ([5, 7], Numbers(5, 7)),
        ((5, 5), Numbers(5, 5)),
        ("at least 5", Numbers(5)),
        ("At  least 5", Numbers(5)),
        ("5+", Numbers(5)),
        (">= 5", Numbers(5)),
        ("at most 7", Numbers(0, 7)),
        ("up to 7", Numbers(0, 7)),
        ("0-1", Numbers(0, 1)),
        (0, Numbers(0, 0)),
    ],
)
def test_numbers(written_as, number):
    (rule,) = brief_of({"rooms": {"Kitchen": written_as}}).counts
    assert rule.number == number


def test_a_plan_has_a_room():
    assert brief_of({"num_rooms": "at most 7"}).num_rooms == Numbers(1, 7)
    assert brief_of({"connected": True}).num_rooms == Numbers(1)


@pytest.mark.parametrize(
    ("word", "types"),
    [
        ("living room", ["LivingRoom"]),
        ("WC", ["Bathroom"]),
        ("bathrooms", ["Bathroom"]),
        ("master_bedroom", ["MasterRoom"]),
        ("bedroom", ROOM_GROUPS["Bedroom"]),
        ("Bedrooms", ROOM_GROUPS["Bedroom"]),
        ("Outdoor", ROOM_GROUPS["Outdoor"]),
        ("Kitchen|dining", ["Kitchen", "DiningRoom"]),
    ],
)
def test_words_of_rooms(word, types):
    (rule,) = brief_of({"rooms": {word: 1}}).counts
    assert {ROOM_TYPES[code] for code in rule.kind.types} == set(types)


@pytest.mark.parametrize(
    ("phrase", "names"),
    [
        *((each, None) for each in ("adjacent", "beside", "next to", "touches", "is adjacent to")),
        ("left-of", ["left-of"]),
        ("is left of", ["left-of"]),
        ("left_above", ["left-above"]),
        ("left-of|left-above", ["left-of", "left-above"]),
        ("left of or above", ["left-of", "above"]),
        ("inside", ["inside"]),
        ("door", ["door"]),
    ],
)
def test_words_of_relations(phrase, names):
    found = relation(f"the living room {phrase} any WC")
    assert found.relations == (ANY_RELATION if names is None else codes(*names))
    assert (found.subject, found.object) == (Kind.of("LivingRoom"), BATH)


def test_rules_as_lists():
    assert relation(["Kitchen", "beside", "WC"]) == relation("Kitchen beside WC")
    assert relation(["no", "Kitchen", "beside", "WC"]) == relation("no Kitchen beside WC")
    either = relation([["Kitchen", "dining"], ["above", "below"], "WC"])
    assert either == relation("Kitchen|dining above|below WC")


def test_no_and_every_in_flow_lists(tmp_path):
    text = "relations:\n- [no, Kitchen, beside, WC]\n- [every, WC, beside, Bedroom]\n"
    no, every = read_brief(written(tmp_path, text)).relations
    assert (no.quantity, every.quantity) == (Quantity.NO, Quantity.EVERY)


def test_a_name_may_be_an_article():
    found = relation("a left-of the Kitchen", {"a": "Bathroom"})
    assert (found.subject, found.object) == ("a", Kind.of("Kitchen"))


def test_groups_may_stand_below_their_use():
    brief = brief_of({"rooms": {"wet": 2}, "groups": {"Wet": ["bath", "Kitchen"]}})
    assert brief.counts[0].kind == Kind("Wet", Kind.of("Bathroom", "Kitchen").types)
    nested = brief_of({"groups": {"Quiet": ["Bedroom", "StudyRoom"]}, "rooms": {"Quiet": 1}})
    assert nested.counts[0].kind.types == Kind.of("Bedroom").types | Kind.of("StudyRoom").types


def test_realisable_is_buildable():
    assert brief_of({"realisable": True}).buildable
    assert not brief_of({"buildable": False}).buildable


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_read(path):
    brief = read_brief(path)
    assert any(brief.rules) or brief.named or brief.buildable


def test_the_brief_of_the_docs_is_read(tmp_path):
    page = Path(__file__).parents[3] / "docs" / "floor_plans" / "briefs.md"
    (text,) = re.findall(r"```yaml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    brief = read_brief(written(tmp_path, text))
    assert len(brief.relations) == 5


def test_there_are_examples():
    assert len(EXAMPLES) >= 18


def test_errors_of_python_objects_name_the_key():
    with pytest.raises(BriefError, match="Bathroom") as caught:
        brief_of({"rooms": {"Bathrom": 2}})
    assert (caught.value.key, caught.value.line) == ("rooms.Bathrom", None)
    with pytest.raises(BriefError, match="key"):
        brief_of({1: 2})


def test_reading_imports_no_torch():
    code = (
        "import sys; from floor_plans.briefs import read_brief; "
        "from floor_plans.briefs import feasibility, graph_model; "
        "import floor_plans.commands.data_commands; "
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_brief_that_asks_for_nothing_is_refused():
    with pytest.raises(BriefError):
        brief_of({})

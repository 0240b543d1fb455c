"""Briefs out of text and Python objects: every form of every key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from floor_plans.briefs import BriefError, brief_of, read_brief
from floor_plans.briefs.brief import ANY_RELATION, Kind, Numbers, Quantity
from floor_plans.briefs.schema import json_schema
from floor_plans.briefs.sentences import sentences
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
        ("exactly 6", Numbers(6, 6)),
        ("5-7", Numbers(5, 7)),
        ("5 to 7", Numbers(5, 7)),
        ([5, 7], Numbers(5, 7)),
        ((5, 5), Numbers(5, 5)),
        ("at least 5", Numbers(5)),
        ("5+", Numbers(5)),
        (">= 5", Numbers(5)),
        ("at most 7", Numbers(0, 7)),
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


BESIDE = ("WC", "beside", "Balcony")


def test_or_joins_sentences():
    kitchen, bath = relation("Kitchen left of or above WC"), relation("no WC next to Balcony")
    either = ((kitchen,), (bath,))
    for asked in (
        {"relations": ["Kitchen left of or above WC or no WC next to Balcony"]},
        {
            "relations": [
                {"any": ["Kitchen left of or above WC", ["no", "WC", "beside", "Balcony"]]}
            ]
        },
        {"any": ["Kitchen left of or above WC", {"relations": ["no WC next to Balcony"]}]},
    ):
        brief = brief_of(asked)
        assert not brief.relations
        assert [rule.options for rule in brief.either] == [either]
    assert sentences(brief)[-1] == (
        "Some kitchen is left of, or above some bathroom, or no bathroom is next to any balcony."
    )


def test_what_should_be_has_a_weight():
    lines = ("Kitchen beside Balcony", "WC beside Bedroom: 4", "{rooms: {WC: 2}, weight: 1.5}")
    brief = brief_of(yaml.safe_load("should:\n- " + "\n- ".join(lines)))
    assert [soft.weight for soft in brief.should] == [10, 4, 1.5]
    assert brief.should[1].option == (relation("WC beside Bedroom"),)
    assert brief.should[2].option[0].number == Numbers(2, 2)
    assert sentences(brief)[-1] == "Exactly 2 bathrooms, if possible: 1.5 times as likely."


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


def test_the_schema_is_published_and_examples_of_its_keys_are_read():
    page = Path(__file__).parents[3] / "docs" / "floor_plans" / "brief.schema.json"
    schema = json_schema()
    assert json.loads(page.read_text()) == schema, "discrete-diffusion brief schema > it"
    outline = {"outline": [[0, 0], [12, 0], [12, 8], [0, 8]]}
    for key, described in schema["properties"].items():
        for example in described["examples"]:
            asked = {**(outline if key != "site" else {}), key: example}
            jsonschema.validate(asked, schema)
            brief_of(asked)


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.suffix == ".yaml"])
def test_examples_obey_the_schema(path):
    jsonschema.validate(yaml.safe_load(path.read_text()), json_schema())


@pytest.mark.parametrize(
    "wrong",
    [
        {"room": {"WC": 1}},
        {"areas": {"WC": [1, 2, 3]}},
        {"doors": [["WC"]]},
        {"any": ["WC beside Kitchen"]},
        {"should": [{"WC beside Kitchen": 2, "WC beside Bedroom": 2}]},
        {"should": [{}]},
        {"should": [{"weight": 5}]},
        {"any": [{"rooms": {"WC": 1}, "weight": 2}, "WC beside Kitchen"]},
        {},
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(wrong):
    with pytest.raises(BriefError):
        brief_of(wrong)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, json_schema())


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
        "from floor_plans.briefs import feasibility; "
        "import floor_plans.commands.data_commands; "
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_brief_that_asks_for_nothing_is_refused():
    with pytest.raises(BriefError):
        brief_of({})


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (3, ("Exactly 3", "bedrooms")),
        (1, ("Exactly 1", "bedroom")),
        ("2-4", ("2 to 4", "bedrooms")),
        ("2+", ("At least 2", "bedrooms")),
        ("0-1", ("At most 1", "bedroom")),
        (0, ("No bedroom",)),
    ],
)
def test_numbers_of_a_group_name_its_types(number, words):
    (_, sentence) = sentences(brief_of({"rooms": {"Bedroom": number}}))
    for word in (*words, *ROOM_GROUPS["Bedroom"]):
        assert word in sentence


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("WC beside dining", ("Some bathroom", "next to", "some dining room")),
        ("every WC beside Bedroom", ("Every bathroom", "next to", "some bedroom")),
        ("no WC left-of|above Wall-in", ("No bathroom", "left of", "above", "any wall-in")),
        ("inner right-below Kitchen", ('"inner"', "right of and below", "some kitchen")),
        ("no inner inside WC", ('"inner"', "not inside", "any bathroom")),
        ("Balcony door Wet", ("Some balcony", "door", "room of Wet")),
        ("Balcony surrounding Kitchen|WC", ("around", "kitchen or bathroom")),
    ],
)
def test_relations(rule, words):
    asked = {"groups": {"Wet": ["Kitchen", "WC"]}, "named": {"inner": "StudyRoom"}}
    said = sentences(brief_of({**asked, "relations": [rule]}))[-1]
    for word in words:
        assert word in said


def test_one_fact_of_the_plan_is_it_and_two_are_them():
    area, outline = {"area": 80}, {"outline": [[0, 0], [9, 0], [0, 9]]}
    assert sentences(brief_of(area))[-1].endswith("trained on it; no diagram shows it.")
    assert sentences(brief_of(area | outline))[-1].endswith("on them; no diagram shows them.")


def test_what_is_asked_of_the_plan_is_read_and_said():
    brief = brief_of(
        {
            **{"areas": {"MasterRoom": [12, 16], "LivingRoom": 20}, "light": ["Kitchen"]},
            **{"doors": [["WC", "MasterRoom"]], "open": [["Kitchen", "LivingRoom"]]},
            **{"no_door": [["Kitchen", "Bedroom"]], "accessible": True},
        }
    )
    facts = brief.plan_facts
    assert facts.names == ("areas", "doors", "no_door", "open", "light", "accessible")
    assert [(r.kind.name, r.least, r.most) for r in facts.areas] == [
        ("MasterRoom", 12.0, 16.0),
        ("LivingRoom", 20.0, None),
    ]
    # rooms with a door, or without a wall, are adjacent
    assert [rule.source.key for rule in brief.relations] == ["doors[0]", "open[0]"]
    assert {rule.relations for rule in brief.relations} == {ANY_RELATION}
    said = " ".join(sentences(brief))
    for words in (
        *("Every master room has 12 to 16 m2", "at least 20 m2", "A door joins some bathroom"),
        *("No door joins any kitchen and any bedroom", "open to each other", "daylight"),
        *("wheelchair",),
    ):
        assert words in said


def test_a_name_of_the_only_room_of_its_kind_stands_for_it():
    own = {"named": {"own": "Bathroom"}, "rooms": {"WC": "0-1"}}
    facts = brief_of({**own, "areas": {"own": 5}, "doors": [["Kitchen", "own"]], "light": ["own"]})
    kinds = [facts.plan_facts.areas[0].kind, facts.plan_facts.doors[0][1], *facts.plan_facts.light]
    assert kinds == [Kind.of("Bathroom")] * 3


@pytest.mark.parametrize(
    "fits",
    [
        {"doors": [["WC", "Bedroom"]], "no_door": [["WC", "MasterRoom"]]},
        {"doors": [["WC", "Bedroom"]], "open": [["WC", "MasterRoom"]]},
    ],
)
def test_a_door_to_some_room_goes_with_none_to_others(fits):
    assert brief_of(fits).plan_facts.names == tuple(fits)


def test_a_sentence_for_each_rule():
    asked = {
        **{"num_rooms": "5-7", "rooms": {"Kitchen": 1, "Balcony": "2+", "Storage": 2}},
        **{"named": {"one": "Bathroom", "two": "Entrance"}, "max_degree": 3},
        **{"connected": True, "buildable": True},
    }
    said = sentences(brief_of(asked))
    assert len(said) == 1 + 3 + 2 + 1 + 3
    for word in ("5 to 7 rooms", "balconies", "an Entrance", '"one" and "two"', "3 others", "plan"):
        assert word in " ".join(said)
    assert all(sentence.endswith(".") for sentence in said)


NAMED = "named: {parents: MasterRoom, ensuite: Bathroom}\n"

WRONG = {
    # text, line, key, words of the message
    "empty": ("", None, "", "empty"),
    "no keys": ("- Kitchen\n", 1, "", "list"),
    "a sentence": ("three bedrooms\n", 1, "", "three bedrooms"),
    "an empty object": ("{}\n", 1, "", "nothing"),
    "unknown key": ("room:\n  Kitchen: 1\n", 1, "room", "rooms"),
    "unknown room": ("rooms:\n  Kitchen: 1\n  Bathrom: 2\n", 3, "rooms.Bathrom", "Bathroom"),
    "room of several meanings": ("rooms: {hall: 1}\n", 1, "rooms.hall", "LivingRoom or Entrance"),
    "no number": ("rooms:\n  Kitchen: some\n", 2, "rooms.Kitchen", "some"),
    "no value": ("rooms:\n  Kitchen:\n", 2, "rooms.Kitchen", "nothing"),
    "half a room": ("rooms:\n  Kitchen: 1.5\n", 2, "rooms.Kitchen", "1.5"),
    "a flag for a number": ("rooms: {Kitchen: yes}\n", 1, "rooms.Kitchen", "yes"),
    "upside down": ("num_rooms: 7-5\n", 1, "num_rooms", "5-7"),
    "list of three": ("num_rooms: [5, 6, 7]\n", 1, "num_rooms", "[5, 6, 7]"),
    "far too many": ("num_rooms: 99999999999\n", 1, "num_rooms", "99999"),
    "no room": ("num_rooms: 0\n", 1, "num_rooms", "0"),
    "key twice": ("connected: true\nconnected: true\n", 2, "connected", "line 1"),
    "room twice": ("rooms:\n  Kitchen: 1\n  Kitchen: 2\n", 3, "rooms.Kitchen", "line 2"),
    "room by two words": ("rooms:\n  WC: 1\n  Bathroom: 2\n", 3, "rooms.Bathroom", "rooms.WC"),
    "rooms as a list": ("rooms: [Kitchen, Bathroom]\n", 1, "rooms", "list"),
    "a tab": ("rooms:\n\tKitchen: 1\n", 2, "", "tab"),
    "open bracket": ("rooms: {Kitchen: 1\n", 2, "", "YAML"),
    "colon in a line": ("relations:\n  - Kitchen: adjacent: WC\n", 2, "", "YAML"),
    "two documents": ("connected: true\n---\nmax_degree: 3\n", 2, "", "one brief"),
    "a control character": ("connected: true\n\x07\n", 2, "", "x07"),
    "a key that is a list": ("? [a, b]\n: 1\n", 1, "", "key"),
    "one that holds itself": ("rooms: &a {Kitchen: *a}\n", 1, "rooms.Kitchen", "itself"),
    "group of nothing": ("groups: {Wet: []}\n", 1, "groups.Wet", "empty"),
    "group of unknown": ("groups: {Wet: [Bathroom, Kichen]}\n", 1, "groups.Wet[1]", "Kitchen"),
    "group twice the same": ("groups: {Wet: [Kitchen, Kitchen]}\n", 1, "groups.Wet", "twice"),
    "group of two words": ("groups: {Wet rooms: [WC]}\n", 1, "groups.Wet rooms", "one word"),
    "name of a type": ("named: {Kitchen: Kitchen}\n", 1, "named.Kitchen", "type"),
    "name of a room in other words": ("named: {master: Bathroom}\n", 1, "named.master", "Master"),
    "name of a group": (
        "groups: {Wet: [WC]}\nnamed: {wet: Bathroom}\n",
        *(2, "named.wet", "group"),
    ),
    "name of a relation": ("named: {above: Bathroom}\n", 1, "named.above", "word of rules"),
    "name of nothing": ("named: {parents: 3}\n", 1, "named.parents", "3"),
    "named unknown": (NAMED + "relations: [ensuit beside WC]\n", 2, "relations[0]", "ensuite"),
    "unknown relation": ("relations:\n- Kitchen leftof WC\n", 2, "relations[0]", "left-of"),
    "unknown in any of": ("relations: [[Kitchen, [abov], WC]]\n", 1, "relations[0]", "above"),
    "no relation": ("relations:\n\n- Kitchen WC\n", 3, "relations[0]", "Kitchen WC"),
    "no-edge": ("relations: [Kitchen no-edge WC]\n", 1, "relations[0]", "no A adjacent B"),
    "not": (
        "relations: [Kitchen is not beside WC]\n",
        *(1, "relations[0]", "no Kitchen beside WC"),
    ),
    "every second": ("relations: [Kitchen beside every WC]\n", 1, "relations[0]", "every"),
    "list of two": ("relations: [[Kitchen, WC]]\n", 1, "relations[0]", "2"),
    "list of numbers": ("relations: [[0, 1, 2]]\n", 1, "relations[0][0]", "0"),
    "relation as a number": ("relations: [7]\n", 1, "relations[0]", "7"),
    "one rule without a list": ("relations: Kitchen beside WC\n", 1, "relations", "list"),
    "rule twice": (
        "relations:\n- Kitchen beside WC\n- kitchen next to bath\n",
        *(3, "relations[1]", "line 2"),
    ),
    "beside itself": (NAMED + "relations: [parents above parents]\n", 2, "relations[0]", "itself"),
    "degree of words": ("max_degree: many\n", 1, "max_degree", "many"),
    "connected as text": ("connected: maybe\n", 1, "connected", "maybe"),
    "area of nothing": ("areas: {Kitchen: 0}\n", 1, "areas.Kitchen", "square metres"),
    "areas upside down": ("areas: {Kitchen: [9, 6]}\n", 1, "areas.Kitchen", "[6, 9]"),
    "areas that exclude each other": (
        "areas:\n  Bedroom: [6, 10]\n  MasterRoom: [12, 16]\n",
        *(3, "areas.MasterRoom", "'areas.Bedroom'"),
    ),
    "areas of the same rooms": (
        "areas:\n  Kitchen: 8\n  Kitchens: 9\n",
        *(3, "areas.Kitchens", "'areas.Kitchen'"),
    ),
    "a door and none of any": (
        "doors: [[MasterRoom, WC]]\nno_door: [[WC, Bedroom]]\n",
        *(2, "no_door[0]", "'doors'"),
    ),
    "none of any and an opening": (
        "no_door: [[WC, Bedroom]]\nopen: [[MasterRoom, WC]]\n",
        *(2, "open[0]", "'no_door'"),
    ),
    "an empty entry of should": ("should: [{}]\n", 1, "should[0]", "Kitchen beside Balcony: 5"),
    "or in should": (
        "should: [WC beside Kitchen or WC beside Balcony]\n",
        *(1, "should[0]", "one sentence here"),
    ),
    "a door of one room": ("doors: [[WC]]\n", 1, "doors[0]", "two"),
    "a door and none": (
        "doors: [[WC, Bedroom]]\nno_door:\n  - [Bedroom, WC]\n",
        *(3, "no_door[0]", "'doors'"),
    ),
    "a name of one of several": (
        "named: {own: Bathroom}\ndoors: [[own, MasterRoom]]\n",
        *(2, "doors[0][0]", "rooms: {Bathroom: 1}"),
    ),
    "light as a word": ("light: Kitchen\n", 1, "light", "list"),
    "one option": ("any: [Kitchen beside WC]\n", 1, "any", "two or more"),
    "options in an option": (
        "any:\n- relations: [WC beside Kitchen or WC beside Bedroom]\n- WC beside Balcony\n",
        *(2, "any[0]", "one any:"),
    ),
    "a key of options": ("any: [{room: {WC: 1}}, WC beside Bedroom]\n", 1, "any[0].room", "rooms"),
    "numbers next to a name": (
        NAMED + "any: [{rooms: {WC: 2}}, parents beside Balcony]\n",
        *(2, "any", "'parents'"),
    ),
    "or between rooms": (
        "relations: [WC beside Kitchen or Bedroom]\n",
        1,
        "relations[0]",
        "Kitchen",
    ),
    "weight of one": (
        "should:\n- WC beside Bedroom: 1\n",
        2,
        "should[0].WC beside Bedroom",
        "above 1",
    ),
    "a name in should": (NAMED + "should: [ensuite beside WC]\n", 2, "should[0]", "'ensuite'"),
    "both words for buildable": (
        "buildable: true\nrealisable: true\n",
        *(2, "realisable", "buildable"),
    ),
}


@pytest.mark.parametrize(("text", "line", "key", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_brief_is_refused_by_line_and_key(tmp_path, text, line, key, said):
    path = tmp_path / "brief.yaml"
    path.write_text(text)
    with pytest.raises(BriefError) as caught:
        read_brief(path)
    error = caught.value
    assert (error.line, error.key) == (line, key)
    message = str(error)
    assert message.startswith(str(path))
    assert line is None or f"line {line}" in message
    assert f"'{key}'" in message or not key
    assert said in message.removeprefix(str(path))
    assert message.isprintable()


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "brief.yaml"
    path.write_bytes(b"connected: true\nmax_degree: \xff\n")
    with pytest.raises(BriefError, match="UTF-8") as caught:
        read_brief(path)
    assert caught.value.line == 2
    path.write_text("# " + "x" * 200_000)
    with pytest.raises(BriefError, match="bytes"):
        read_brief(path)
    with pytest.raises(BriefError, match="folder"):
        read_brief(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\.yaml"):
        read_brief(tmp_path / "none.yaml")

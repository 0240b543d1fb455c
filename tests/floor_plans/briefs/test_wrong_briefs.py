"""Wrong briefs: the error names file, line and key, and what was meant."""

from __future__ import annotations

import pytest

from floor_plans.briefs import BriefError, read_brief

NAMED = "named: {parents: MasterRoom, ensuite: Bathroom}\n"

WRONG = {
    # text, line, key, words of the message
    "empty": ("", None, "", "empty"),
    "comments alone": ("# nothing\n", None, "", "empty"),
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
    "negative": ("rooms: {Kitchen: -1}\n", 1, "rooms.Kitchen", "-1"),
    "upside down": ("num_rooms: 7-5\n", 1, "num_rooms", "5-7"),
    "upside down list": ("num_rooms: [7, 5]\n", 1, "num_rooms", "5-7"),
    "list of three": ("num_rooms: [5, 6, 7]\n", 1, "num_rooms", "[5, 6, 7]"),
    "far too many": ("num_rooms: 99999999999\n", 1, "num_rooms", "99999"),
    "no room": ("num_rooms: 0\n", 1, "num_rooms", "0"),
    "key twice": ("connected: true\nconnected: true\n", 2, "connected", "line 1"),
    "room twice": ("rooms:\n  Kitchen: 1\n  Kitchen: 2\n", 3, "rooms.Kitchen", "line 2"),
    "room by two words": ("rooms:\n  WC: 1\n  Bathroom: 2\n", 3, "rooms.Bathroom", "rooms.WC"),
    "rooms as a list": ("rooms: [Kitchen, Bathroom]\n", 1, "rooms", "list"),
    "rooms empty": ("rooms:\nconnected: true\n", 1, "rooms", "nothing"),
    "rooms in rooms": ("rooms: {Kitchen: {least: 1}}\n", 1, "rooms.Kitchen", "number"),
    "a tab": ("rooms:\n\tKitchen: 1\n", 2, "", "tab"),
    "open bracket": ("rooms: {Kitchen: 1\n", 2, "", "YAML"),
    "colon in a line": ("relations:\n  - Kitchen: adjacent: WC\n", 2, "", "YAML"),
    "two documents": ("connected: true\n---\nmax_degree: 3\n", 2, "", "one brief"),
    "a control character": ("connected: true\n\x07\n", 2, "", "x07"),
    "a key that is a list": ("? [a, b]\n: 1\n", 1, "", "key"),
    "one that holds itself": ("rooms: &a {Kitchen: *a}\n", 1, "rooms.Kitchen", "itself"),
    "group of nothing": ("groups: {Wet: []}\n", 1, "groups.Wet", "empty"),
    "group of unknown": ("groups: {Wet: [Bathroom, Kichen]}\n", 1, "groups.Wet[1]", "Kitchen"),
    "group of numbers": ("groups: {Wet: [1]}\n", 1, "groups.Wet[0]", "1"),
    "group twice the same": ("groups: {Wet: [Kitchen, Kitchen]}\n", 1, "groups.Wet", "twice"),
    "built-in group": ("groups: {bedroom: [GuestRoom]}\n", 1, "groups.bedroom", "group"),
    "group named as a type": ("groups: {Kitchen: [Bathroom]}\n", 1, "groups.Kitchen", "type"),
    "group of two words": ("groups: {Wet rooms: [WC]}\n", 1, "groups.Wet rooms", "one word"),
    "name of a type": ("named: {Kitchen: Kitchen}\n", 1, "named.Kitchen", "type"),
    "name of a room in other words": ("named: {master: Bathroom}\n", 1, "named.master", "Master"),
    "name of a group": (
        "groups: {Wet: [WC]}\nnamed: {wet: Bathroom}\n",
        *(2, "named.wet", "group"),
    ),
    "name of a relation": ("named: {above: Bathroom}\n", 1, "named.above", "word of rules"),
    "name of a quantity": ("named: {every: Bathroom}\n", 1, "named.every", "word of rules"),
    "name of nothing": ("named: {parents: 3}\n", 1, "named.parents", "3"),
    "named unknown": (NAMED + "relations: [ensuit beside WC]\n", 2, "relations[0]", "ensuite"),
    "unknown relation": ("relations:\n- Kitchen leftof WC\n", 2, "relations[0]", "left-of"),
    "unknown in any of": ("relations: [[Kitchen, [abov], WC]]\n", 1, "relations[0]", "above"),
    "no relation": ("relations:\n\n- Kitchen WC\n", 3, "relations[0]", "Kitchen WC"),
    "one word": ("relations: [Kitchen]\n", 1, "relations[0]", "Kitchen"),
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
    "no rules": ("relations: []\n", 1, "relations", "empty"),
    "rule twice": (
        "relations:\n- Kitchen beside WC\n- kitchen next to bath\n",
        *(3, "relations[1]", "line 2"),
    ),
    "beside itself": (NAMED + "relations: [parents above parents]\n", 2, "relations[0]", "itself"),
    "degree of words": ("max_degree: many\n", 1, "max_degree", "many"),
    "degree below 0": ("max_degree: -2\n", 1, "max_degree", "-2"),
    "connected as text": ("connected: maybe\n", 1, "connected", "maybe"),
    "both words for buildable": (
        "buildable: true\nrealisable: true\n",
        *(2, "realisable", "buildable"),
    ),
    "json cut short": ('{"rooms": {"Kitchen": 1', 1, "", "YAML"),
    "json key twice": ('{"num_rooms": 5,\n "num_rooms": 6}', 2, "num_rooms", "line 1"),
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

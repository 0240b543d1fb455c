"""The README: short sentences, as on the pages for newcomers, numbers in its table alone, examples
that are so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from floor_plans import read_diagrams
from guide_code import prose, sentences

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MOST_WORDS = {
    "README.md": 20,
    "CONTRIBUTING.md": 23,
    "SECURITY.md": 23,
    "docs/seeds.md": 25,
    "docs/stable_names.md": 25,
    "docs/tutorial.md": 25,
    "docs/concepts.md": 25,
    "docs/commands.md": 25,
    "docs/troubleshooting.md": 25,
    "docs/add_a_backbone.md": 25,
    "docs/extend.md": 25,
    "docs/algorithms.md": 25,
    "docs/samplers.md": 25,
    "docs/measure.md": 25,
    "docs/scale.md": 25,
    "docs/text.md": 25,
    "docs/graphs_and_molecules.md": 25,
    "docs/features.md": 25,
    "docs/fields.md": 25,
    "docs/dialogue.md": 25,
    "docs/floor_plans/start.md": 25,
    "docs/floor_plans/briefs.md": 25,
    "docs/floor_plans/solver.md": 25,
    "docs/floor_plans/files.md": 25,
    "docs/floor_plans/studio.md": 25,
}
"""Of a sentence, by page."""


def test_prose_is_what_is_read_as_sentences():
    code = "```\ncode. code\n```\n"
    page = f"# Title\n\nOne [two](x.md).\nThree `a. b`! Four?\n\n{code}* five\n* six\n| 7 |\n"
    assert [sentences(part) for part in prose(page)] == [
        ["One two.", "Three `a. b`!", "Four?"],
        ["five"],
        ["six"],
    ]


def test_it_is_short():
    assert len(README.splitlines()) <= 130


@pytest.mark.parametrize("page", MOST_WORDS)
def test_sentences_are_short(page):
    for part in prose((ROOT / page).read_text()):
        for sentence in sentences(part):
            assert len(sentence.split()) <= MOST_WORDS[page], sentence


def test_its_numbers_stand_in_the_table_alone():
    for part in prose(README):
        assert not re.search(r"\d", re.sub(r"`[^`]*`", "", part)), part


def test_it_shows_a_line_of_its_example():
    (shown,) = re.findall(r"```json\n(.*?)```", README, flags=re.DOTALL)
    assert (ROOT / "examples" / "partial.jsonl").read_text().startswith(shown)


def test_the_plan_that_it_shows_is_read(tmp_path):
    (line,) = re.findall(r"`(\{\"rooms\".*?\})`", README)
    (tmp_path / "plans.jsonl").write_text(line)
    (plan,) = read_diagrams(tmp_path / "plans.jsonl")
    assert plan.room_names == ("LivingRoom", "Kitchen")


def test_it_has_one_table_of_what_a_script_measured():
    tables = re.findall(r"(?:^\|.*\n)+", README, flags=re.MULTILINE)
    assert len(tables) == 1
    for row in tables[0].splitlines()[2:]:
        (script,) = re.findall(r"`(benchmarks/\w+\.py)`", row)
        assert (ROOT / script).is_file()

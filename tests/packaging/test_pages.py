"""Pages are short, begin with what a reader can do after them, and stand in the navigation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from discrete_diffusion.config.files import shipped_files
from floor_plans import read_diagrams
from guide_code import DOCS, prose, sentences
from listed_parts import listed

ROOT = DOCS.parent
README = (ROOT / "README.md").read_text()
MOST_WORDS = {
    "tutorial.md": 900,
    "concepts.md": 2_200,
    "commands.md": 2_600,
    "troubleshooting.md": 2_000,
    "add_a_backbone.md": 1_900,
    "extend.md": 2_900,
    "algorithms.md": 2_000,
    "samplers.md": 2_300,
    "measure.md": 2_900,
    "scale.md": 1_800,
    "text.md": 2_350,
    "graphs_and_molecules.md": 2_400,
    "puzzles.md": 800,
    "features.md": 1_200,
    "fields.md": 1_300,
    "dialogue.md": 1_000,
    "floor_plans/start.md": 1_400,
    "floor_plans/briefs.md": 2_500,
    "floor_plans/solver.md": 2_700,
    "floor_plans/files.md": 2_300,
    "floor_plans/studio.md": 1_300,
    "stable_names.md": 1_670,
    "seeds.md": 1_945,
}
"""Of a page, tables and code included, as ``wc -w`` counts them."""
MOST_WORDS_IN_ALL = 40_000
WORDS_OF_A_SENTENCE = {"README.md": 20, "CONTRIBUTING.md": 23, "SECURITY.md": 23}
WORDS_OF_A_SENTENCE |= {f"docs/{page}": 25 for page in MOST_WORDS}
LISTS = {"stable_names.md", "seeds.md"}
"""Pages to look something up in, which nobody reads from the top."""


def test_all_pages_are_short():
    pages = {path.relative_to(DOCS).as_posix(): path.read_text() for path in DOCS.rglob("*.md")}
    num_words = {page: len(text.split()) for page, text in pages.items()}
    assert num_words.keys() == MOST_WORDS.keys()
    assert [page for page, num in num_words.items() if num > MOST_WORDS[page]] == []
    assert sum(num_words.values()) <= MOST_WORDS_IN_ALL
    assert len(README.splitlines()) <= 130


@pytest.mark.parametrize("page", WORDS_OF_A_SENTENCE)
def test_sentences_are_short(page):
    for part in prose((ROOT / page).read_text()):
        for sentence in sentences(part):
            assert len(sentence.split()) <= WORDS_OF_A_SENTENCE[page], sentence


@pytest.mark.parametrize("page", [page for page in MOST_WORDS if page not in LISTS])
def test_a_page_begins_with_what_it_is_for_and_an_example(page):
    title, aim, *_ = (DOCS / page).read_text().split("\n\n")
    assert re.fullmatch("# .+", title)
    assert aim.startswith("After this page ")
    first_screen = "\n".join((DOCS / page).read_text().splitlines()[:35])
    assert "\n```" in first_screen
    assert first_screen.count("\n```") >= 4 or "![" in first_screen or "```console" in first_screen


def test_every_page_stands_in_the_navigation():
    text = (ROOT / "site" / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text[text.index("\nnav:") :])["nav"]

    def names(entries: list[dict]) -> list[str]:
        found = []
        for entry in entries:
            (value,) = entry.values()
            found += [value] if isinstance(value, str) else names(value)
        return found

    listed = names(nav)
    assert len(listed) == len({*listed})
    generated = {"api.md", "index.md", "report.md", "notebook.md"}
    generated |= {"contributing.md", "changelog.md", "security.md"}
    assert {*listed} == {*MOST_WORDS} | generated
    assert Path(ROOT / "benchmarks" / "REPORT.md").is_file()


def test_the_table_has_the_names_that_list_prints(capsys):
    section = (DOCS / "commands.md").read_text().split("### Names")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \w[\w ]* \| `(\S+=)` \| (.+) \|$", section, flags=re.MULTILINE)
    shown = {key: {*re.findall(r"`([^`]+)`", names)} for key, names in rows}
    tokens = listed(capsys)["tokens"]
    groups = {f"{group}=": {*shipped_files(group)} for group in ("optim", "logger")}
    assert shown == {key: {*names} for key, names in tokens.items()} | groups


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

"""Pages are short, begin with what a reader can do after them, and stand in the navigation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from guide_code import DOCS, prose, sentences

ROOT = DOCS.parent
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
    "text.md": 2_200,
    "graphs_and_molecules.md": 2_400,
    "features.md": 1_200,
    "fields.md": 1_300,
    "dialogue.md": 1_000,
    "floor_plans/start.md": 1_400,
    "floor_plans/briefs.md": 2_500,
    "floor_plans/solver.md": 2_700,
    "floor_plans/files.md": 2_300,
    "floor_plans/studio.md": 1_300,
    "stable_names.md": 1_655,
    "seeds.md": 1_945,
}
"""Of a page, tables and code included, as ``wc -w`` counts them."""
MOST_WORDS_IN_ALL = 40_000
LISTS = {"stable_names.md", "seeds.md"}
"""Pages to look something up in, which nobody reads from the top."""


def pages() -> list[str]:
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def num_words(page: str) -> int:
    return len((DOCS / page).read_text().split())


@pytest.mark.parametrize("page", MOST_WORDS)
def test_a_page_is_short(page):
    assert num_words(page) <= MOST_WORDS[page]
    for part in prose((DOCS / page).read_text()):
        for sentence in sentences(part):
            assert len(sentence.split()) <= 40, sentence


def test_all_pages_are_short():
    assert {*MOST_WORDS} == {*pages()}
    assert sum(map(num_words, pages())) <= MOST_WORDS_IN_ALL


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
    assert {*listed} == {*pages()} | generated
    assert Path(ROOT / "benchmarks" / "REPORT.md").is_file()

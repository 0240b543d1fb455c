"""``docs/seeds.md`` has every deviation that the code states, and all that it names exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from discrete_diffusion.cli import compose
from guide_code import DOCS

SRC = DOCS.parent / "src"
PAGE = (DOCS / "seeds.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", PAGE, flags=re.MULTILINE))
SYSTEMS = [title for title in SECTIONS if title != "Deviations from papers"]


def deviations(source: str) -> list[str]:
    """Each deviation of a file in one line, from ``Deviation:`` to the end of its paragraph."""
    found = re.findall(r'Deviation:(.*?)(?=Deviation:|\n\s*\n|""")', source, flags=re.DOTALL)
    return [" ".join(text.replace("``", "`").split()) for text in found]


def stated() -> dict[str, list[str]]:
    """The deviations of every file that has some."""
    found = {str(path.relative_to(SRC)): deviations(path.read_text()) for path in SRC.rglob("*.py")}
    return {place: texts for place, texts in found.items() if texts}


def listed() -> dict[str, list[str]]:
    """What deviates by the rows of the page, without the column of settings."""
    rows: dict[str, list[str]] = {}
    for line in PAGE.splitlines():
        if row := re.fullmatch(r"\| \[`(.+?)`\]\(\.\./src/(.+?)\) \| (.+?) \| (.+?) \|.*", line):
            assert row[1] == row[2], f"{row[1]} links to {row[2]}"
            rows.setdefault(row[1], []).append(f"{row[3]} {row[4]}")
    return rows


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def numbers(text: str) -> set[str]:
    return {*re.findall(r"\b\d(?:[\d.,]*\d)?\b", text)}


def slug(heading: str) -> str:
    """The anchor of a heading, as mkdocs and GitHub make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_every_deviation_has_a_row_and_every_row_a_deviation():
    on_page = {place: len(rows) for place, rows in listed().items()}
    assert on_page == {place: len(texts) for place, texts in stated().items()}


@pytest.mark.parametrize("place", stated())
def test_rows_say_nothing_that_the_code_does_not(place):
    """Rows stand in the order of the code, with its numbers and its names."""
    for row, text in zip(listed()[place], stated()[place], strict=True):
        assert numbers(row) <= numbers(text), f"{row!r} is not {text!r}"
        assert all(span in text for span in spans(row)), f"{row!r} is not {text!r}"


def test_every_link_leads_to_a_file_and_a_heading():
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", PAGE)
    assert len(links) > 100
    for file, anchor in links:
        target = (DOCS / (file or "seeds.md")).resolve()
        assert target.exists(), file
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), flags=re.MULTILINE)
            assert anchor in map(slug, headings), f"{file}#{anchor}"


def test_every_name_can_be_imported():
    pattern = (
        r"`((?:continuous_states|discrete_diffusion|floor_plans)(?:\.\w+)*)`(?: has ([^;|]+))?"
    )
    found = re.findall(pattern, PAGE)
    assert len({module for module, _ in found}) >= 10
    for name, members in found:
        module, _, last = name.rpartition(".")
        if last[:1].isupper():
            assert getattr(import_module(module), last)
        for member in spans(members):
            assert hasattr(import_module(name), member), f"{name} has no {member}"


def test_parameters_are_those_of_the_presets():
    presets = re.findall(r"\]\((\S+/model/\w+\.yaml)\)(?: \(([\d,]+)\))?", PAGE)
    assert len(presets) == 11
    for file, count in presets:
        preset = yaml.safe_load((DOCS / file).read_text())
        assert count == f"{preset['parameters']:,}", file


@pytest.mark.parametrize("title", SYSTEMS)
def test_a_section_has_a_network_tests_pages_and_a_command(title):
    section = SECTIONS[title]
    for row, folder in (("network", "../src/"), ("presets", "/model/"), ("tests", "../tests/")):
        (cells,) = re.findall(rf"^\| {row} \| (.+) \|$", section, flags=re.MULTILINE)
        files = re.findall(r"\]\((.+?)\)", cells)
        assert any(folder in file for file in files), row
        assert row != "tests" or all(Path(file).name.startswith("test_") for file in files)
    assert "| pages | [" in section
    assert "```\ndiscrete-diffusion train " in section


@pytest.mark.parametrize("title", SYSTEMS)
def test_settings_of_a_section_are_those_of_its_command(title):
    """That its commands compose is tested with those of all pages, in ``test_project.py``."""
    (command, *_) = re.findall(r"^discrete-diffusion train (.*)", SECTIONS[title], flags=re.M)
    words = [word for word in command.partition("#")[0].split() if "=" in word]
    config = compose("train", words)
    for span in spans(re.sub(r"```.*?```", "", SECTIONS[title], flags=re.DOTALL)):
        if re.fullmatch(r"(algo|data|model|sampling)(\.\w+)*=\S+", span):
            compose("train", [*words, span])
        elif re.fullmatch(r"(algo|data|model|sampling)(\.\w+)+", span):
            section, _, key = span.rpartition(".")
            assert key in OmegaConf.select(config, section), span


def test_the_table_of_documents_leads_to_every_section():
    (table,) = re.findall(r"\| document \|(?:.*\n)+?\n", PAGE)
    assert {*re.findall(r"\(#(.+?)\)", table)} == {*map(slug, SYSTEMS)}

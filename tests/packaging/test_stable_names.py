"""Every name, key and command of ``docs/stable_names.md`` is there."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest

from discrete_diffusion.cli import compose, main
from discrete_diffusion.config.files import CONFIG_GROUP
from discrete_diffusion.hub.published import MODEL_GROUP
from guide_code import DOCS, blocks, run_python

PAGE = "stable_names.md"
TEXT = (DOCS / PAGE).read_text()


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def imports() -> list[tuple[str, str]]:
    """The module and the name of each import of the page."""
    (code,) = blocks(PAGE, "python")
    found = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", alias.name) for node in found for alias in node.names]


@pytest.mark.parametrize(("module", "name"), imports(), ids=lambda part: part)
def test_every_name_imports(module, name):
    assert getattr(import_module(module), name) is not None


def test_the_code_of_the_page_runs_and_its_table_explains_each_name():
    scope = run_python(PAGE)
    rows = [line for line in section("Python").splitlines() if line.startswith("| `")]
    explained = {span.split("(")[0] for row in rows for span in spans(row.split("|")[1])}
    assert explained == {name for _, name in imports()}
    assert explained <= {*scope}


def keys_of(command: str) -> list[str]:
    (row,) = re.findall(rf"^\| `{command}` \| (.+) \|$", TEXT, flags=re.MULTILINE)
    return [key for key in spans(row) if key != "train"]


@pytest.mark.parametrize("command", ["train", "sample", "evaluate", "compare"])
def test_every_key_is_in_the_config(command):
    keys = keys_of(command) + (keys_of("train") if command == "compare" else [])
    assert len(keys) > 10
    config = compose(command, [])
    for key in keys:
        if key.startswith("hydra."):
            continue  # Hydra's own
        at = config
        for part in key.split("."):
            assert part in at, f"{command} has no {key}"
            at = at[part]


def test_every_command_is_in_the_help(capsys):
    main([])
    shown = re.findall(r"^  discrete-diffusion (\w+)", capsys.readouterr().out, flags=re.MULTILINE)
    listed = next(line for line in TEXT.splitlines() if line.startswith("`train`, `sample`"))
    assert {*spans(listed)} == {*shown}


def test_the_entry_point_groups_are_those_of_the_guides():
    contract = spans(section("The contract of a backbone"))
    groups = {span for span in contract if re.fullmatch(r"discrete_diffusion\.\w+", span)}
    guide = (DOCS / "add_a_part.md").read_text()
    rows = re.findall(r"^\| .*`register_.*$", guide, flags=re.MULTILINE)
    of_parts = {row.split("|")[4].strip(" `") for row in rows}
    assert groups == of_parts | {CONFIG_GROUP, MODEL_GROUP}

"""Every name, key and command of ``docs/stable_names.md`` is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from discrete_diffusion.cli import compose, main
from discrete_diffusion.config.files import CONFIG_GROUP
from discrete_diffusion.hub import MODEL_GROUP
from guide_code import DOCS, EXAMPLES, blocks, run_python, split_excerpts

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


def by_package() -> dict[str, list[str]]:
    """Names of the table by package; a row whose package is empty goes on with the one above."""
    found: dict[str, list[str]] = {}
    table, package = TEXT.split("### By package")[1], ""
    for new, names in re.findall(r"^\| (\S*) \| [^|]+ \| (`.+`) \|$", table, re.MULTILINE):
        package = new.strip("`") or package
        found.setdefault(package, []).extend(spans(names))
    return found


BY_PACKAGE = by_package()

GUIDES = ("extend.md", "add_a_backbone.md")
"""Pages that strangers copy from."""


@pytest.mark.parametrize(("module", "name"), imports(), ids=lambda part: part)
def test_every_name_imports(module, name):
    assert getattr(import_module(module), name) is not None


@pytest.mark.slow
@pytest.mark.parametrize("package", BY_PACKAGE)
def test_the_table_has_what_a_package_exports(package):
    module, names = import_module(package), BY_PACKAGE[package]
    assert len(names) == len({*names}) <= 70, "it fits on a screen"
    assert [name for name in names if getattr(module, name, None) is None] == []
    assert [name for name in names if name.startswith("_")] in ([], ["__version__"])
    if Path(module.__file__ or "").with_suffix(".pyi").is_file():
        assert {*names} == {*module.__all__}, f"{PAGE} and __init__.pyi differ"
        files = {path.stem for path in Path(module.__file__ or "").parent.iterdir()}
        assert {*names} & files <= {"progress", "measured_data"}


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import; of a package that is imported, each attribute in use."""
    packages: dict[str, str] = {}
    nodes = [*ast.walk(ast.parse(code))]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (package := f"{node.module}.{alias.name}") in BY_PACKAGE:
                    packages[alias.asname or alias.name] = package
                else:
                    yield node.module or "", alias.name
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=name)) if name in packages:
                yield packages[name], node.attr


def unlisted(code: str) -> list[str]:
    """Imports of the framework that the page does not have."""
    known = {(package, name) for package, names in BY_PACKAGE.items() for name in names}
    known |= {*imports()}
    ours = (each for each in imported(code) if each[0].partition(".")[0] == "discrete_diffusion")
    return [f"from {module} import {name}" for module, name in ours if (module, name) not in known]


@pytest.mark.parametrize("package", ["floor_plans", "continuous_states"])
def test_packages_import_names_of_the_page(package):
    (folder,) = import_module(package).__path__
    found = {str(path): unlisted(path.read_text()) for path in Path(folder).rglob("*.py")}
    assert len(found) > 20
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("page", GUIDES)
def test_guides_import_names_of_the_page(page):
    assert [name for code in split_excerpts(page)[0] for name in unlisted(code)] == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_examples_import_names_of_the_page(path):
    assert unlisted(path.read_text()) == []


def test_the_code_of_the_page_runs_and_its_table_explains_each_name():
    scope = run_python(PAGE)
    rows = section("Python").split("### By package")[0].splitlines()
    rows = [line for line in rows if line.startswith("| `")]
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
    guide = (DOCS / "extend.md").read_text()
    rows = re.findall(r"^\| .*`register_.*$", guide, flags=re.MULTILINE)
    of_parts = {row.split("|")[4].strip(" `") for row in rows}
    assert groups == of_parts | {CONFIG_GROUP, MODEL_GROUP}

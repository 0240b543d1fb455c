"""The project around the code: what the pages say is so, and the pieces agree."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import discrete_diffusion
from discrete_diffusion.cli import config_dir
from discrete_diffusion.composing.compose import completed_config, with_open_keys
from discrete_diffusion.composing.search_path import paths_as_typed
from floor_plans import read_partials
from floor_plans.commands.data_commands import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_version_is_the_installed_one():
    assert version("discrete-diffusion") == discrete_diffusion.__version__
    assert discrete_diffusion.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_constraints_pin_every_dependency_inside_its_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    of_users = [
        *project["dependencies"],
        *(wanted for name in extras if name != "dev" for wanted in extras[name]),
    ]
    wanted = [Requirement(r) for r in of_users]
    wanted += [Requirement(r) for r in extras["dev"] if not r.startswith("discrete-diffusion")]
    pins = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().split()]
    pinned = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins}
    for requirement in wanted:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


def test_files_and_folders_the_documents_name_exist():
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.slow
def test_commands_of_the_documents_compose():
    """Every ``discrete-diffusion COMMAND key=value ...`` line is a config that composes."""
    pages = [README, *(page.read_text() for page in (ROOT / "docs").rglob("*.md"))]
    pattern = r"^discrete-diffusion (train|sample|evaluate|compare) ((?:.*\\\n)*.*)$"
    commands = [found for page in pages for found in re.findall(pattern, page, flags=re.MULTILINE)]
    assert {command for command, _ in commands} == {"train", "sample", "evaluate", "compare"}
    distinct = set()
    for command, line in commands:
        words = shlex.split(line.replace("\\\n", " "), comments=True)
        own = any(word.startswith("plugins=") for word in words)  # a reader's own module
        if not own and not {"--config-dir", "-m"} & set(words):  # own folder; values of a sweep
            left_out = ("hydra", "resume=")  # folders, and a reader's own run
            distinct.add((command, *(w for w in words if "=" in w and not w.startswith(left_out))))
    for command, *overrides in sorted(distinct):
        completed_config(command, with_open_keys(command, paths_as_typed(overrides)))


def test_the_demo_ends_with_commands_that_can_be_typed():
    pattern = r'@echo "  \$\(BIN\)/discrete-diffusion (\w+) (.*)"'
    printed = re.findall(pattern, (ROOT / "Makefile").read_text())
    assert len(printed) == 4
    (realise,) = [words.split() for command, words in printed if command == "plans"]
    parser = argparse.ArgumentParser()
    COMMANDS[realise[0]].add_options(parser)
    known = {word for action in parser._actions for word in action.option_strings}
    for word in realise[2:]:
        assert f"--{word.partition('=')[0].replace('_', '-')}" in known
    for command, words in [each for each in printed if each[0] != "plans"]:
        overrides = words.replace("$(DEMO)", "demo").split()
        completed_config(command, with_open_keys(command, overrides))
        for file in (word.removeprefix("given=") for word in overrides if "given=" in word):
            assert read_partials(ROOT / file)


@pytest.mark.slow
def test_settings_that_troubleshooting_names_exist():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    settings = re.findall(r"`([a-z_]+\.[a-z_.]+=[^` ]+)`", page)
    assert len(settings) >= 6
    for setting in settings:
        if not setting.endswith(("=abc", "=mps")):
            completed_config("train", ["data=plans", setting])


@pytest.mark.parametrize("page", ["README.md", "docs/features.md"])
def test_python_of_the_documents_is_python(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, page, "exec")


def test_configs_are_found_in_a_checkout():
    assert (config_dir() / "train.yaml").is_file()


def test_the_project_speaks_of_itself_alone():
    """No machine paths in what is shipped."""
    folders = ("src", "configs", "docs", "benchmarks", ".github")
    shipped = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    for path in (*shipped, *ROOT.glob("*.md"), ROOT / "CITATION.cff"):
        if path.suffix in (".py", ".yaml", ".yml", ".md", ".json", ".cff"):
            assert not re.search(r"(?<![\w.])/(home|root|work|tmp)/", path.read_text()), path

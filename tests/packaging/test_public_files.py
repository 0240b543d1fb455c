"""What a newcomer meets beside the README: how to contribute, cite, report; what runs on a push."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import discrete_diffusion

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def make_targets() -> set[str]:
    return {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)}


def test_the_citation_is_of_this_version():
    citation = read_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "type"} <= {*citation}
    assert citation["version"] == discrete_diffusion.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]


def test_the_changelog_is_of_this_version_and_fits_on_a_screen():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", text, flags=re.MULTILINE) == [discrete_diffusion.__version__]
    assert len(text.splitlines()) <= 50  # until it is released it says what there is


def test_workflows_run_the_checks_the_lowest_versions_and_the_site():
    run = {
        path.stem: [
            step["run"]
            for job in read_yaml(path)["jobs"].values()
            for step in job["steps"]
            if "run" in step
        ]
        for path in WORKFLOWS
    }
    assert run == {"checks": [".ci/run"], "lowest": [".ci/lowest"], "site": ["make docs"]}
    assert all((ROOT / ".ci" / name).stat().st_mode & 0o111 for name in ("run", "lowest"))
    assert "docs" in make_targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_use_the_oldest_python_and_little_permission(path):
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job
        (python,) = [
            step["with"] for step in job["steps"] if "setup-python" in step.get("uses", "")
        ]
        assert f">={python['python-version']}" == PROJECT["requires-python"]
        assert (ROOT / python["cache-dependency-path"]).is_file()


def test_the_hooks_have_the_ruff_of_the_constraints():
    (repository,) = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert f"ruff=={repository['rev'][1:]}" in (ROOT / "constraints.txt").read_text().split()
    assert [hook["id"] for hook in repository["hooks"]] == ["ruff-check", "ruff-format"]


def test_the_targets_that_contributors_are_told_exist():
    told = re.findall(r"\bmake ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert {"install", "lint", "types", "test", "test-slow", "docs", "results"} <= {*told}
    assert {*told} <= make_targets()

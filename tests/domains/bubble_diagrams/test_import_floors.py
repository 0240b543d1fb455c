"""The floors of bubble diagrams: diagrams, plans, models of them, briefs, the studio, commands.

Every import counts, also those under ``TYPE_CHECKING`` and inside functions.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from discrete_diffusion.domains import bubble_diagrams

FOLDER = Path(bubble_diagrams.__file__).parent
NAME = bubble_diagrams.__name__
FLOORS = (
    (
        *("rooms", "vocabulary", "geometry", "scales", "symmetries", "type_codes"),
        *("diagram", "tokens", "partial", "files", "metrics", "pictures", "procedural"),
    ),
    ("diagram_list", "plans"),
    (
        *("conditions", "dataset", "build", "real_data", "report", "sampling", "completion"),
        *("evaluation", "comparing"),
    ),
    ("briefs",),
    ("rewards",),
    ("studio",),
    ("options", "work", "commands", "domain"),
)
"""What stands on a floor imports from its own and from those before it."""


def modules() -> dict[str, Path]:
    """By name without the domain's: ``plans.door``; the domain itself is ``""``."""
    found = {}
    for path in FOLDER.rglob("*.py"):
        parts = path.relative_to(FOLDER).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports() -> dict[str, set[str]]:
    """Of each module, the modules of the domain that it imports."""
    paths = modules()
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            asked: list[str] = []
            if isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                asked = [f"{node.module}.{alias.name}" for alias in node.names]
            for word in asked:
                if f"{word}.".startswith(f"{NAME}."):
                    inner = word.removeprefix(NAME).lstrip(".")
                    found[name].add(inner if inner in paths else inner.rpartition(".")[0])
        found[name].discard(name)
    return found


def floor_of(module: str) -> int:
    return next(k for k, rooms in enumerate(FLOORS) if module.split(".")[0] in rooms)


def test_every_module_stands_on_one_floor():
    tops = {name.split(".")[0] for name in modules()} - {""}
    assert sorted(tops) == sorted(room for rooms in FLOORS for room in rooms)


@pytest.mark.slow
def test_imports_go_downwards():
    upwards = [
        f"{name} imports {other}"
        for name, others in imports().items()
        for other in others
        if name and other and floor_of(other) > floor_of(name)
    ]
    assert not upwards, sorted(upwards)


@pytest.mark.slow
def test_modules_import_from_where_a_name_is_defined():
    """The domain's own names are for users: its modules would go in circles through them."""
    through = [name for name, others in imports().items() if "" in others]
    assert not through, sorted(through)


@pytest.mark.slow
def test_no_circle_of_files():
    list(TopologicalSorter(imports()).static_order())  # CycleError names one

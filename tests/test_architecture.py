"""The shape of the packages: imports go downwards, importing it is cheap, names are public."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import discrete_diffusion

PACKAGE = Path(discrete_diffusion.__file__).parent
SOURCE = PACKAGE.parent
LAYERS = {
    "discrete_diffusion": (
        ("runtime", "config"),
        ("hub", "viz"),
        ("categorical",),
        ("contracts", "layout"),
        ("data", "noise_schedules"),
        ("forward_process", "models"),
        ("algorithms",),
        ("sampling",),
        ("evaluation",),
        ("domains",),
        ("building",),
        ("checkpoints",),
        ("composing", "training"),
        ("api",),
        ("cli",),
        ("runs",),
        ("__main__", "discrete_diffusion"),
    ),
    "floor_plans": (
        ("box", "configs", "typed_options"),
        ("diagrams",),
        ("plans",),
        ("rules",),
        ("solver",),
        ("drawings",),
        ("learning",),
        ("briefs",),
        ("studio",),
        ("options",),
        ("commands",),
        ("domain",),
        ("floor_plans",),
    ),
    "continuous_states": (
        ("arrays", "configs", "evaluation", "networks"),
        ("algorithms",),
        ("sampling",),
        ("regions", "eit", "dialogue"),
        ("builders",),
        ("registered",),
        ("continuous_states",),
    ),
}
"""Parts of each package, lowest first. A part imports lower ones; of a layer, none another."""

ALONE = {
    "discrete_diffusion.sampling.first_hitting": (17, 3100),
    "discrete_diffusion.algorithms.mdlm": (14, 2060),
}
"""What one has to read with a module, imports within functions left out: files, and their lines
without docstrings."""

LOCAL = 79
"""Imports within functions at most: where start-up needs them, or a library is heavy."""

CONTRACT = {
    "cell_measurement",
    "domain",
    "registry",
    "commands",
}
"""Modules of ``domains`` that know no kind of data."""


def module_name(path: Path) -> str:
    """``discrete_diffusion.algorithms.mdlm``; of a package its folder."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    module_name(path): path
    for package in LAYERS
    for path in sorted((SOURCE / package).rglob("*.py"))
    if "template" not in path.relative_to(SOURCE).parts
}


FACADES = {module for module, path in FILES.items() if path.with_suffix(".pyi").is_file()}
"""Packages whose names come from their modules, when they are first used."""


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules of our packages that a statement imports, as in ``FILES``."""
    if isinstance(node, ast.Import):
        names = [(alias.name, "") for alias in node.names]
    else:
        names = [(node.module or "", alias.name) for alias in node.names]
    for module, name in names:
        if module.partition(".")[0] in LAYERS:
            yield submodule if (submodule := f"{module}.{name}") in FILES else module


@cache
def imports(module: str) -> tuple[set[str], set[str]]:
    """Of a module, *every* import of our packages, those under ``TYPE_CHECKING`` too: at its top,
    and within functions."""
    found: tuple[set[str], set[str]] = set(), set()
    todo = [(syntax_tree(FILES[module]), False)]
    while todo:
        node, within = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found[within].update({*imported(node)} - {module})
        within = within or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        todo += [(child, within) for child in statements(node)]
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Those right below; expressions import nothing and are left out."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, name, ())
        yield from inner if isinstance(inner, list) else ()


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def length(path: Path) -> tuple[int, int]:
    """Lines of a file, without and with docstrings."""
    text = path.read_text()
    docstrings = (
        node.end_lineno - node.lineno + 1
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    return len(text.splitlines()) - sum(docstrings), len(text.splitlines())


@cache
def graph() -> dict[str, set[str]]:
    return {module: set().union(*imports(module)) for module in FILES}


def package(module: str) -> str:
    return module.partition(".")[0]


def part(module: str) -> str:
    """Part of a package that a module belongs to; of the package's own file the package."""
    return (module.partition(".")[2] or module).partition(".")[0]


@pytest.mark.slow
def test_no_circle():
    """No files import each other, however indirectly."""
    with_circle = {module: imported & FILES.keys() for module, imported in graph().items()}
    try:
        list(TopologicalSorter(with_circle).static_order())
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' <- '.join(error.args[1])}")


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_imports_go_downwards(name):
    level = {part: k for k, layer in enumerate(LAYERS[name]) for part in layer}
    ours = [module for module in FILES if package(module) == name]
    assert {part(module) for module in ours} == {*level}
    arrows = [(a, b) for a in ours for b in graph()[a] if package(b) == name and part(a) != part(b)]
    upward = sorted(f"{a} -> {b}" for a, b in arrows if level[part(a)] <= level[part(b)])
    assert not upward


def test_the_framework_stands_alone():
    """It imports none of the packages that plug into it, and these do not import each other."""
    for module, names in graph().items():
        for name in names:
            assert package(name) in ("discrete_diffusion", package(module)), (module, name)


def test_modules_import_modules():
    """Facades are for other packages: within one they would hide who needs what."""
    for module, names in graph().items():
        ours = {name for name in names & FACADES if package(name) == package(module)}
        assert not ours, f"{module} imports {ours}"


@pytest.mark.parametrize("module", ALONE)
def test_a_piece_can_be_picked_up(module: str):
    """What one reads with it is little."""
    found, todo = {module}, [module]
    while todo:
        new = imports(todo.pop())[0] - found
        found |= new
        todo += new
    lines = sum(length(FILES[name])[0] for name in found)
    most_files, most_lines = ALONE[module]
    assert len(found) <= most_files, sorted(found)
    assert lines <= most_lines, sorted(found)


def test_few_imports_within_functions():
    count = sum(len(imports(module)[1]) for module in FILES)
    assert count <= LOCAL, f"{count} imports within functions"


def test_few_modules_at_the_top():
    """Folders have a noun; loose modules are few."""
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_no_domain_is_imported():
    """Outside a domain's folder its name stands in the registry alone; domains do not import each
    other."""
    for module, names in graph().items():
        own = {module.split(".")[2]} if module.startswith("discrete_diffusion.domains.") else set()
        for name in names:
            if name.startswith("discrete_diffusion.domains."):
                assert name.split(".")[2] in CONTRACT | own, f"{module} imports {name}"


def test_only_what_composes_configs_imports_hydra():
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] not in ("cli", "composing"):
            assert "import hydra" not in path.read_text()
            assert "from hydra" not in path.read_text()


def test_tests_are_found_by_names_of_their_own():
    """A folder of tests is no package, which would stand in for the one it is named after."""
    tests = Path(__file__).parent
    assert not [path for path in tests.rglob("__init__.py") if "stand_in" not in path.parts]
    names = [path.name for path in tests.rglob("test_*.py")]
    assert len(names) == len({*names})


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.slow
def test_importing_is_cheap_and_public_names_exist():
    """One process: the packages, none of which is heavy, then the public names."""
    code = "\n".join(f"import {package}" for package in FACADES)
    code += """
import sys
import tokenize
heavy = ("lightning", "hydra", "matplotlib", "torch")
assert not [m for m in heavy if m in sys.modules], "packages"
from discrete_diffusion.models.registry import (
    _BACKBONE_BUILDERS, register_backbone, build_backbone, available_backbones)
assert {"bd-denoiser", "dit", "my-transformer"} <= set(_BACKBONE_BUILDERS)
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.layout import TokenLayout, VocabConfig
from floor_plans import RPLAN_VOCAB_CONFIG
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.sampling import build_sampler
from floor_plans import (
    BubbleDiagram, read_diagrams, write_diagrams, generate_plans)
from discrete_diffusion import load
from discrete_diffusion.cli import compose
assert not [m for m in ("lightning", "matplotlib") if m in sys.modules], "public names"
print("fine")
"""
    assert run_python(code) == "fine\n"


def test_modules_are_short():
    for path in FILES.values():
        lines = len(path.read_text().splitlines())
        assert lines <= 500, f"{path.relative_to(SOURCE)} has {lines} lines; split by concept"


def test_functions_are_short():
    """60 lines at most, signature and docstring aside."""
    for path in FILES.values():
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[ast.get_docstring(node) is not None :] or node.body
                lines = body[-1].end_lineno - body[0].lineno + 1
                place = f"{path.relative_to(SOURCE)}:{node.lineno}"
                assert lines <= 60, f"{place}: {node.name} has {lines} lines; split by its steps"


WORDS = re.compile(
    r"(?<![a-z])(rooms?|diagrams?|bubbles?|motifs?|dtn|dialogues?|rouge|genomes?|floor plans?)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Of single kinds of data."""

MAY_SAY = {
    "layout/room_tables.py": "the default vocabularies of VocabConfig",
    "layout/vocab_config.py": "the same",
    "building/backbones.py": "it builds the networks of every kind of data",
    "evaluation/pictures.py": "a reliability diagram is a chart",
    "config/renamed_keys.py": "names that the keys of all kinds of data had in format 1",
}


@pytest.mark.slow
def test_only_domains_speak_of_their_data():
    """Outside ``domains/`` and ``models/`` no name and no text uses the words of one domain."""
    for path in PACKAGE.rglob("*.py"):
        where = path.relative_to(PACKAGE).as_posix()
        if where.split("/")[0] in ("domains", "models", "configs") or where in MAY_SAY:
            continue
        with path.open() as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type != tokenize.COMMENT:
                    found = WORDS.search(token.string.replace("_", " "))
                    assert not found, f"{where}:{token.start[0]} says {found.group()!r}"

"""The shape of the package: imports go downwards, importing it is cheap, names are public."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import discrete_diffusion

PACKAGE = Path(discrete_diffusion.__file__).parent
FOUNDATION = {
    *("types", "layout", "categorical", "naming", "options", "rooms", "shards", "progress"),
    *("pretrained", "published", "whole_files", "plugins", "config_files", "domains", "stopping"),
}
"""``domains`` here is the contract and its registry: see ``test_no_domain_is_imported``."""

ALLOWED = {
    "types": set(),
    "naming": set(),
    "options": set(),
    "pretrained": set(),
    "published": {"naming", "progress"},
    "whole_files": set(),
    "categorical": set(),
    "rooms": set(),
    "shards": set(),
    "stopping": {"progress"},
    "progress": set(),
    "learning_rate": {"naming", "options"},
    "plugins": {"naming"},
    "config_files": set(),
    "layout": {"categorical", "rooms"},
    "noise_schedules": FOUNDATION,
    "forward_process": FOUNDATION | {"noise_schedules"},
    "models": FOUNDATION,
    "data": FOUNDATION,
    "viz": FOUNDATION,
    "algorithms": FOUNDATION | {"noise_schedules", "forward_process", "models"},
    "sampling": FOUNDATION | {"forward_process", "algorithms"},
    "checkpoints": FOUNDATION
    | {"noise_schedules", "forward_process", "models", "algorithms", "sampling"},
    "evaluation": FOUNDATION
    | {"noise_schedules", "forward_process", "algorithms", "sampling", "data", "viz"},
    "domains": FOUNDATION | {"algorithms", "sampling", "data", "viz", "evaluation"},
    "training": FOUNDATION
    | {"models", "algorithms", "sampling", "data", "evaluation", "checkpoints", "learning_rate"},
}
CONTRACT = {"", "domain", "cell_measurement", "option"}
"""Modules of ``domains`` that know no kind of data."""


def modules_of(path: Path) -> set[str]:
    """Modules of the package that a module imports at run time, without the package's name."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.startswith("discrete_diffusion."):
                found.add(name.removeprefix("discrete_diffusion."))
    return found


def imports_of(path: Path) -> set[str]:
    """First-level parts of the package that a module imports at run time."""
    return {name.split(".")[0] for name in modules_of(path)}


def test_imports_go_downwards():
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part in ALLOWED:
            extra = imports_of(path) - ALLOWED[part] - {part}
            assert not extra, f"{path.relative_to(PACKAGE)} imports {sorted(extra)}"


def test_no_domain_is_imported():
    """Outside a domain's folder its name stands in the registry alone; domains do not import each
    other."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        own = parts[1] if parts[0] == "domains" and len(parts) > 2 else None
        for name in modules_of(path):
            part, _, rest = name.partition(".")
            used = rest.split(".")[0]
            if part == "domains" and used not in CONTRACT | {own}:
                pytest.fail(f"{'/'.join(parts)} imports discrete_diffusion.{name}")


def test_only_the_command_line_imports_hydra():
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] != "cli":
            assert "import hydra" not in path.read_text()
            assert "from hydra" not in path.read_text()


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_importing_is_cheap_and_public_names_exist():
    """One process: the bare import, then each layer's heavy imports, then the public names."""
    code = """
import sys
import tokenize
import discrete_diffusion
heavy = ("lightning", "hydra", "matplotlib", "torch")
assert not [m for m in heavy if m in sys.modules], "import discrete_diffusion"
from discrete_diffusion.models.registry import (
    _BACKBONE_BUILDERS, register_backbone, build_backbone, available_backbones)
assert {"bd-denoiser", "dit", "my-transformer"} <= set(_BACKBONE_BUILDERS)
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.layout import TokenLayout, VocabConfig, RPLAN_VOCAB_CONFIG
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.domains.bubble_diagrams import (
    BubbleDiagram, read_diagrams, write_diagrams, generate_plans)
from discrete_diffusion import load
from discrete_diffusion.cli import compose
assert not [m for m in ("lightning", "matplotlib") if m in sys.modules], "public names"
print("fine")
"""
    assert run_python(code) == "fine\n"


def test_modules_are_short():
    for path in PACKAGE.rglob("*.py"):
        length = len(path.read_text().splitlines())
        assert length <= 330, f"{path.relative_to(PACKAGE)} has {length} lines; split by concept"


WORDS = re.compile(
    r"(?<![a-z])(rooms?|diagrams?|bubbles?|motifs?|dtn|dialogues?|rouge|genomes?|floor plans?)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Of single kinds of data."""

MAY_SAY = {
    "rooms.py": "the default vocabularies of VocabConfig",
    "layout.py": "the same",
    "cli/main.py": "the help begins with the default kind of data",
    "evaluation/pictures.py": "a reliability diagram is a chart",
}


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

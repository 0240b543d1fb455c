"""The code blocks of the guides in ``docs/``, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS.parent / "examples"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)


def run_python(page: str, *, word: str = "") -> dict[str, Any]:
    """Execute a page's Python blocks that contain ``word`` one after another; what they define."""
    scope: dict[str, Any] = {}
    for code in blocks(page, "python"):
        if word in code:
            exec(compile(code, str(DOCS / page), "exec"), scope)
    return scope


def split_excerpts(page: str) -> tuple[list[str], dict[str, str]]:
    """Python blocks of a page: those to run, and those that a file of ``examples`` has too, which
    begin with its name."""
    own, excerpts = [], {}
    for code in blocks(page, "python"):
        if match := re.match(r"# (examples/\S+)\n", code):
            excerpts[match[1]] = code[match.end() :]
        else:
            own.append(code)
    return own, excerpts

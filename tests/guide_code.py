"""The code blocks of the guides in ``docs/``, as they stand there, and their sentences."""

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


def prose(page: str) -> list[str]:
    """The paragraphs and list items of a page, without code blocks, tables and pictures."""
    page = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"^(\||#|!\[|<!--).*$", "", page, flags=re.MULTILINE)
    page = re.sub(r"^[*-] ", "\n", page, flags=re.MULTILINE)
    page = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page)  # of a link its text is read
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", page) if part.strip()]


def sentences(paragraph: str) -> list[str]:
    """A code span counts as it stands: with each of its words, and its points end no sentence."""
    spans: list[str] = []

    def hide(match: re.Match[str]) -> str:
        spans.append(match[0])
        return f"\0{len(spans) - 1}\0"

    hidden = re.sub(r"`[^`]*`", hide, paragraph)
    parts = re.split(r"(?<=[.!?])\*?\s+", hidden)
    return [re.sub(r"\0(\d+)\0", lambda match: spans[int(match[1])], part) for part in parts]

"""What ``list`` prints, by state."""

from __future__ import annotations

import re

import pytest

from discrete_diffusion.cli.listing import print_listing


def listed(capsys, width: int = 120) -> dict[str, dict[str, list[str]]]:
    """The first words of the rows of every table, by state and by the head of their column."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        print_listing()
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    states: dict[str, dict[str, list[str]]] = {}
    table: list[str] = []
    for line in out.splitlines():
        word = line[1:].split(" ")[0]
        if heading := re.match(r"(\w+): ", line):
            tables = states.setdefault(heading[1], {})
        elif line.startswith(" choose with"):
            break
        elif word.endswith("="):
            table = tables.setdefault(word, [])
        elif word:
            table.append(word.removesuffix("*"))
    return states

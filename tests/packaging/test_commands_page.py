"""The names on the page of commands are those that ``list`` prints."""

from __future__ import annotations

import re

from discrete_diffusion.config.files import shipped_files
from guide_code import DOCS
from listed_parts import listed


def test_the_table_has_the_names_that_list_prints(capsys):
    section = (DOCS / "commands.md").read_text().split("### Names")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \w[\w ]* \| `(\S+=)` \| (.+) \|$", section, flags=re.MULTILINE)
    shown = {key: {*re.findall(r"`([^`]+)`", names)} for key, names in rows}
    tokens = listed(capsys)["tokens"]
    groups = {f"{group}=": {*shipped_files(group)} for group in ("optim", "logger")}
    assert shown == {key: {*names} for key, names in tokens.items()} | groups

"""The page of samplers names those that there are."""

from __future__ import annotations

import re

from discrete_diffusion.sampling.registry import SAMPLERS
from guide_code import DOCS


def test_the_page_has_no_other_sampler():
    table = (DOCS / "samplers.md").read_text().split("## The table")[1].split("\n## ")[0]
    assert sorted(re.findall(r"\[`([\w-]+)`\]\(\.\./src", table)) == sorted(SAMPLERS.names())

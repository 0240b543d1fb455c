"""The page of samplers names those that there are."""

from __future__ import annotations

import re

from discrete_diffusion.sampling.registry import SAMPLERS
from guide_code import DOCS


def test_the_page_has_no_other_sampler():
    first, *_ = (DOCS / "samplers.md").read_text().split("\n## ")
    assert sorted(re.findall(r"\[`([\w-]+)`\]\(\.\./src", first)) == sorted(SAMPLERS.names())

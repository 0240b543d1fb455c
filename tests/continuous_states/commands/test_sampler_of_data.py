"""Data bring the sampler that fits them."""

from __future__ import annotations

import pytest

from discrete_diffusion.composing.compose import compose_plainly


@pytest.mark.parametrize(
    ("overrides", "sampler"),
    [
        ([], "ancestral"),
        (["sampling=margin"], "margin"),
        (["algo=ar"], "autoregressive"),
        (["algo=distill"], "few-call"),
    ],
)
def test_levels_bring_theirs_unless_the_algorithm_or_the_user_does(overrides, sampler):
    config = compose_plainly("train", ["data=eit-levels", *overrides])
    assert config.sampling.name == sampler

"""Parts of continuous states: listed under their state, a sampler chosen by the data."""

from __future__ import annotations

import pytest

from discrete_diffusion.composing.compose import compose_plainly
from listed_parts import listed


def test_every_one_of_these_parts_stands_under_its_state(capsys):
    states = listed(capsys)
    assert list(states) == ["tokens", "features", "field", "latent"]
    assert states["latent"] == {
        "data=": ["dialogue"],
        "algo.backbone=": ["latent-space-model"],
        "algo=": ["latent-seq2seq"],
        "sampling=": ["generate"],
    }
    assert states["features"] == {
        "data=": ["regions"],
        "algo.backbone=": ["get-region"],
        "algo=": ["masked-features"],
        "sampling=": ["row-ancestral"],
    }
    assert states["field"] == {
        "data=": ["eit"],
        "algo.backbone=": ["dtn-regressor", "dtn-unet"],
        "algo=": ["flow-matching", "regression"],
        "sampling=": ["direct", "ode"],
    }


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

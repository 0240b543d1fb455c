"""``list``: the parts of continuous states stand under theirs."""

from __future__ import annotations

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

"""``list``: the parts of continuous states stand under theirs."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.cli.listing import print_listing
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.models import register_backbone
from listed_parts import listed

DATA_SETS = [name for domain in available_domains() for name in get_domain(domain).data_sets]


def test_data_says_what_it_comes_with(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    print_listing()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    told = {row[0]: row[-2:] for row in rows if row and row[0] in DATA_SETS}
    expected = {"eit", "eit-levels"}
    assert {name for name, words in told.items() if words == ["condition", "dtn"]} == expected


@pytest.mark.parametrize("width", [80, 120])
def test_every_one_of_these_parts_stands_under_its_state(capsys, width):
    states = listed(capsys, width)
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


@pytest.mark.usefixtures("clean_registry")
def test_a_plug_in_backbone_stands_beside_them(capsys):
    for name, state in (("my-rows", "features"), ("my-field", "field")):
        register_backbone(name, state=state)(lambda config, size: torch.nn.Identity())
    states = listed(capsys)
    assert states["features"]["algo.backbone="] == ["get-region", "my-rows"]
    assert states["field"]["algo.backbone="] == ["dtn-regressor", "dtn-unet", "my-field"]

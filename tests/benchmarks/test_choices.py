"""Studies of choices: their variants differ."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from choices import RECIPES, STUDIES
from discrete_diffusion.cli import compose


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_each_variant_of_a_study_trains_something_else(study):
    of_all = [compose("train", [*RECIPES[study], *each]) for each in STUDIES[study].values()]
    told = [OmegaConf.to_yaml(config) for config in of_all]
    assert len({*told}) == len(told)

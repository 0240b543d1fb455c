"""``docs/add_a_backbone.md`` does what it says."""

import re

import pytest
import torch

from discrete_diffusion.models.registry import available_backbones
from guide_code import DOCS, run_python

GUIDE = DOCS / "add_a_backbone.md"


@pytest.mark.usefixtures("clean_registry")
def test_the_code_of_the_guide_runs_and_keeps_the_pad_rule():
    scope = run_python(GUIDE.name)
    assert "short-transformer" in available_backbones()

    backbone, x_t = scope["backbone"].eval(), torch.full((2, 36), 13)
    x_t[0, 30:] = 14
    logits = backbone(x_t)
    with torch.no_grad():
        backbone.token_emb.weight[14] += 5.0
    real = x_t != 14
    torch.testing.assert_close(backbone(x_t)[real], logits[real])
    assert (logits.softmax(dim=-1)[..., 14] == 0).all()


def test_the_builder_and_its_registration_stay_under_twenty_lines():
    code = re.search(r"@register_backbone.*?\n\n\n", GUIDE.read_text(), flags=re.DOTALL).group()
    assert len(code.strip().splitlines()) < 20

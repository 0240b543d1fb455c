"""``docs/add_a_backbone.md`` does what it says."""

import runpy

import pytest
import torch

from composed import composed
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.registry import available_backbones
from guide_code import DOCS, run_python

GUIDE = DOCS / "add_a_backbone.md"


@pytest.mark.usefixtures("clean_registry")
def test_the_code_of_the_guide_runs_and_keeps_the_pad_rule():
    scope = run_python(GUIDE.name, word="short-transformer")
    assert "short-transformer" in available_backbones()

    backbone, x_t = scope["backbone"].eval(), torch.full((2, 36), 13)
    x_t[0, 30:] = 14
    logits = backbone(x_t)
    with torch.no_grad():
        backbone.token_emb.weight[14] += 5.0
    real = x_t != 14
    torch.testing.assert_close(backbone(x_t)[real], logits[real])
    assert (logits.softmax(dim=-1)[..., 14] == 0).all()


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("name", ["short", "block", "context"])
def test_the_networks_of_the_guide_pass_the_trial_and_train(name, caplog):
    run_python(GUIDE.name, word="short-transformer")
    runpy.run_path(str(GUIDE.parents[1] / "examples" / "block_backbones.py"))
    algorithm = "mdlm" if name == "short" else "bd3lm"
    words = [f"algo={algorithm}", f"algo.backbone={name}-transformer", "+model.width=32"]
    made = build_algorithm(composed("train", [*words, "model.n_heads=4"]))
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor([4, 8]))
    x0 = made.layout.support.long().argmax(dim=1).expand_as(real)
    batch = Batch(torch.where(real, x0, RPLAN_VOCAB_CONFIG.pad_id), real)
    try_backbone(made, batch)
    assert caplog.text == ""
    made.loss(batch, make_generator(0)).loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.parameters())
    assert made.backbone.head.weight.grad.any()
    assert made.takes("context") == (name == "context")

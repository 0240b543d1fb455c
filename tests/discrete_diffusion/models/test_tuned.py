"""``tuned``: other classes, the same network."""

import torch
from torch import nn

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.acceleration import FastLinear, LeanMLP, tuned
from discrete_diffusion.models.bd_denoiser import BDDenoiser
from discrete_diffusion.models.registry import build_backbone, register_backbone
from discrete_diffusion.models.transformer import MLP


def test_names_order_and_numbers_of_parameters_stay():
    torch.manual_seed(0)
    network = BDDenoiser(d_model=32, n_layers=2, n_heads=2, vocab_config=RPLAN_VOCAB_CONFIG)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    order = [name for name, _ in network.named_parameters()]
    assert tuned(network) is network
    assert [name for name, _ in network.named_parameters()] == order
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    kinds = {type(module) for module in network.modules()}
    assert {FastLinear, LeanMLP} <= kinds
    assert not {nn.Linear, MLP} & kinds


def test_built_in_networks_are_tuned_and_those_of_others_are_not(make_config, clean_registry):
    built = build_backbone(make_config("dit", "dit_tiny"), 28)
    assert any(isinstance(module, FastLinear) for module in built.modules())

    class Theirs(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 28)

        def forward(self, x_t, sigma=None):
            return self.head(torch.zeros(*x_t.shape, 4))

    register_backbone("theirs")(lambda config, size: Theirs())
    theirs = build_backbone(make_config("theirs", None), 28)
    assert type(theirs.head) is nn.Linear

"""Where a scaffold's atoms stand: the model's probability decides, of a network that is told t."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.domains.molecules.build import SMILES_ORDER
from discrete_diffusion.domains.molecules.completion import Scaffold, place_scaffolds
from discrete_diffusion.domains.molecules.molecule import BONDS, Molecule
from discrete_diffusion.evaluation import complete_tokens
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.model import Model


class OxygenFirst(nn.Module):
    """The first atom is oxygen and no other, by as many nats as the noise leaves it sure of."""

    def __init__(self, vocab_size: int, oxygen: int) -> None:
        super().__init__()
        self.vocab_size, self.oxygen = vocab_size, oxygen

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        logits = torch.zeros(*x_t.shape, self.vocab_size)
        sure = 4.0 + 4.0 * (-sigma).exp().unsqueeze(1)
        logits[..., self.oxygen] = -sure
        logits[:, :1, self.oxygen] = sure
        return logits


def test_ways_to_place_a_scaffold_are_drawn_by_the_models_probability():
    vocab = VocabConfig(n_max=3, node_types=("C", "O"), edge_types=BONDS)
    layout, oxygen = vocab.layout(), 1
    process = Absorbing(layout, LogLinear())
    model = Model(
        MDLM(OxygenFirst(layout.vocab_size, oxygen), process),
        build_sampler({"name": "first-hitting"}),
    )
    single = Molecule(("C", "O"), ((0, 1, 0),))
    partials = place_scaffolds(
        model,
        [Scaffold(1, single, (True, True), False)],
        [[3] * 60],
        vocab,
        node_order=SMILES_ORDER,
        seed=0,
    )
    drawn = complete_tokens(model, partials.tokens, partials.real, entropy=(0,))
    first = drawn.tokens[:, 0]
    assert float((first == oxygen).double().mean()) > 0.95  # a third, if all ways weighed the same
    assert (partials.tokens[:, 0] >= 0).double().mean() > 0.6
    for molecule in partials.decode(drawn.rows, drawn.tokens):
        assert molecule.atoms[:2] == ("C", "O")

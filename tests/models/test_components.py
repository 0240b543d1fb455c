"""Networks with components: at first the network without, later a mixture."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.cli import compose
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.models.registry import build_backbone, usable_backbones

TINY = {
    "bd-denoiser": ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"],
    "bd-denoiser-pair": ["model=bd_pair_tiny", "model.d_pair=8"],
    "dit": ["model=dit_tiny", "model.n_blocks=1", "model.hidden_size=32"],
}


def network(name: str, components: int) -> torch.nn.Module:
    words = ["algo=distill", f"algo.backbone={name}", f"algo.components={components}", *TINY[name]]
    torch.manual_seed(0)
    built = build_backbone(compose("train", words), VOCAB.vocab_size).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # as after training, but for what components change
        for key, value in built.named_parameters():
            if "components" not in key:
                value.normal_(std=0.3, generator=generator)
    return built


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    sizes = torch.tensor([8, 5, 3, 5])
    real = VOCAB.real_positions(sizes)
    x_t = torch.where(real, VOCAB.mask_id, VOCAB.pad_id)
    x_t[:, 0], x_t[:2, 9] = 2, 17
    return x_t, torch.full((4,), 0.7)


def test_these_are_the_backbones_that_have_them():
    assert usable_backbones(["component"]) == sorted(TINY)


@pytest.mark.parametrize("name", TINY)
def test_it_starts_as_the_network_without_bit_for_bit(name):
    x_t, sigma = inputs()
    plain, mixed = network(name, 1), network(name, 6)
    added = mixed.state_dict().keys() - plain.state_dict().keys()
    assert added
    assert all("components" in key for key in added)
    mixed.load_state_dict({**mixed.state_dict(), **plain.state_dict()})
    with torch.no_grad():
        expected = plain(x_t, sigma)
        assert torch.equal(mixed(x_t, sigma), expected)
        every = mixed(x_t, sigma, component="all")
        assert every.shape == (4, 6, *expected.shape[1:])
        assert torch.equal(every, expected.unsqueeze(1).expand_as(every))
        assert torch.equal(mixed(x_t, sigma, component=torch.tensor([0, 5, 2, 1])), expected)


@pytest.mark.parametrize("name", TINY)
def test_components_differ_after_two_steps_and_one_is_that_of_all(name):
    x_t, sigma = inputs()
    mixed = network(name, 6)
    legal = torch.zeros(VOCAB.length, VOCAB.vocab_size, dtype=torch.bool)
    legal[: VOCAB.n_max, :13], legal[VOCAB.n_max :, 15:26] = True, True
    optimizer = torch.optim.Adam(mixed.parameters(), lr=1e-2)
    for _ in range(2):
        logits = mixed(x_t, sigma, component="all").masked_fill(~legal, -1e9)
        log_p = logits.log_softmax(dim=-1)[:, :, [0, 9], [2, 17]].sum(dim=-1)
        optimizer.zero_grad()
        (-log_p.logsumexp(dim=1).mean()).backward()
        optimizer.step()
    with torch.no_grad():
        every = mixed(x_t, sigma, component="all")
        assert float(every[0, :, 9, 17].std()) > 1e-3
        which = torch.tensor([3, 0, 5, 3])
        real = x_t != VOCAB.pad_id
        one = mixed(x_t, sigma, component=which)[real]
        torch.testing.assert_close(one, every[torch.arange(4), which][real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", TINY)
def test_a_network_without_them_says_so(name):
    x_t, sigma = inputs()
    with pytest.raises(ValueError, match="no components"):
        network(name, 1)(x_t, sigma, component="all")

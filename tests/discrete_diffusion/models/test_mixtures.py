"""Networks as mixtures: at first the network without components, later one that has them."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.cli import compose
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.models.calling import BackboneCall
from discrete_diffusion.models.registry import build_backbone

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


@pytest.mark.parametrize("name", TINY)
def test_it_starts_as_the_network_without_bit_for_bit(name):
    x_t, sigma = inputs()
    plain, mixed = network(name, 1), network(name, 6)
    assert [BackboneCall.of(each).takes("component") for each in (plain, mixed)] == [False, True]
    added = mixed.state_dict().keys() - plain.state_dict().keys()
    assert added
    assert all("components" in key for key in added)
    mixed.load_state_dict({**mixed.state_dict(), **plain.state_dict()})
    more = {"document_idxs": (torch.arange(x_t.shape[1]) // 9).expand(x_t.shape)}
    more = more if name == "dit" else {}  # what its teacher is told
    with torch.no_grad():
        expected = plain(x_t, sigma, **more)
        assert not more or not torch.equal(plain(x_t, sigma), expected)
        assert torch.equal(mixed(x_t, sigma, **more), expected)
        every = mixed(x_t, sigma, component="all", **more)
        assert every.shape == (4, 6, *expected.shape[1:])
        assert torch.equal(every, expected.unsqueeze(1).expand_as(every))
        component = torch.tensor([0, 5, 2, 1])
        assert torch.equal(mixed(x_t, sigma, component=component, **more), expected)


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


@pytest.mark.parametrize("name", sorted(TINY)[:2])
def test_components_change_what_a_network_says_of_its_facts_too(name):
    """``condition`` and ``component`` meet in one call, of samples of mixed sizes."""
    words = [f"algo.backbone={name}", *TINY[name], "data.condition_on=[num_rooms,counts]"]
    words += ["algo=distill", "algo.components=3"]
    mixed = build_backbone(compose("train", words), VOCAB.vocab_size).eval()
    x_t, sigma = inputs()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for value in mixed.parameters():
            value.copy_(0.3 * torch.randn(value.shape, generator=generator))
        sizes = mixed.denoiser.facts.tokens.sizes
        first, second = torch.randn(2, 4, sum(sizes), generator=generator)
        every = mixed(x_t, sigma, condition=first, component="all")
        other = mixed(x_t, sigma, condition=second, component="all")
        one = mixed(x_t, sigma, condition=first, component=torch.tensor([2, 0, 1, 2]))
    real = x_t != VOCAB.pad_id
    for found in (every[:, 0] - every[:, 1], every[:, 0] - other[:, 0]):
        assert float(found[real].abs().max()) > 1e-3
    expected = every[torch.arange(4), torch.tensor([2, 0, 1, 2])]
    torch.testing.assert_close(one[real], expected[real], rtol=1e-5, atol=1e-5)

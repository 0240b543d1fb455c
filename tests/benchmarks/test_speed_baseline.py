"""The dense baseline of the speed benchmark: the same model, the same bound, the same samples."""

from __future__ import annotations

import math

import pytest
import torch

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator, sample_categorical
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Ancestral
from speed_baseline import DenseDenoiser, dense_ancestral, dense_loss


def backbone(vocab: VocabConfig, std: float = 0.3, d_model: int = 32) -> BDDenoiserBackbone:
    """With weights that say something at every layer."""
    torch.manual_seed(0)
    denoiser = BDDenoiser(d_model=d_model, n_layers=2, n_heads=4, vocab_config=vocab, dropout=0.0)
    with torch.no_grad():
        for name, parameter in denoiser.named_parameters():
            if "modulation" in name or "head" in name:
                parameter.normal_(std=std)
    return BDDenoiserBackbone(denoiser).eval()


def diagrams(vocab: VocabConfig, rooms: list[int]) -> Batch:
    layout, real = vocab.layout(), vocab.real_positions(torch.tensor(rooms))
    x0 = sample_categorical(
        layout.uniform_log_probs().expand(len(rooms), -1, -1), make_generator(1)
    )
    return Batch(x0.masked_fill(~real, vocab.pad_id), real)


@pytest.mark.parametrize("rooms", [[8, 4, 6, 7, 1], [5, 5]])
def test_it_is_the_backbone_at_real_positions(rooms):
    vocab = RPLAN_VOCAB_CONFIG
    model, batch = backbone(vocab), diagrams(vocab, rooms)
    dense = DenseDenoiser(model.denoiser)
    coins = torch.rand(batch.x0.shape, generator=make_generator(2)) < 0.5
    x_t = batch.x0.masked_fill(coins & batch.real, vocab.mask_id)
    sigma = torch.linspace(0.01, 3, len(rooms))
    for told in (sigma, None):
        with torch.no_grad():
            expected, found = (f(x_t=x_t, sigma=told) for f in (model, dense))
        assert found.shape == expected.shape
        assert float(expected[batch.real].amax()) > 0.1
        torch.testing.assert_close(found[batch.real], expected[batch.real], rtol=0, atol=1e-5)
    timeless, told = (dense(x_t=x_t, sigma=s)[batch.real] for s in (None, sigma))
    assert not torch.allclose(timeless, told, atol=1e-3)


def test_its_checkpoint_is_the_backbones():
    model = backbone(RPLAN_VOCAB_CONFIG)
    dense = DenseDenoiser(model.denoiser)
    assert list(dense.state_dict()) == list(model.state_dict())


@pytest.mark.slow
def test_its_loss_is_the_bound():
    """In expectation; the package draws the masks otherwise."""
    vocab = VocabConfig(n_max=3)
    model, batch = backbone(vocab, std=0.1, d_model=16), diagrams(vocab, [3, 2, 3, 1] * 16)
    algorithm = MDLM(model, Absorbing(vocab.layout(), LogLinear()))
    dense = DenseDenoiser(model.denoiser)
    with torch.no_grad():
        ours = [algorithm.loss(batch, make_generator(3, k)).loss for k in range(60)]
        plain = [dense_loss(dense, batch.x0, make_generator(4, k)) for k in range(120)]
    ours, plain = torch.stack(ours).double(), torch.stack(plain).double()
    error = math.sqrt(float(ours.var() / len(ours) + plain.var() / len(plain)))
    assert error < 0.03 * float(ours.mean())
    assert abs(float(ours.mean() - plain.mean())) < 4 * error


def test_its_gradient_reaches_every_weight():
    vocab = VocabConfig(n_max=4)
    dense = DenseDenoiser(backbone(vocab).denoiser)
    dense_loss(dense, diagrams(vocab, [4, 3] * 8).x0, make_generator(5)).backward()
    for name, parameter in dense.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.abs().sum() > 0), name


def test_its_samples_have_the_law_of_the_packages():
    """Of the same network, in as many steps: by position and id, within noise."""
    vocab, num = VocabConfig(n_max=2), 4000
    model = backbone(vocab, std=0.5, d_model=16)
    real = vocab.real_positions(torch.tensor([2, 1]).repeat(num // 2))
    algorithm = MDLM(model, Absorbing(vocab.layout(), LogLinear()))
    found = dense_ancestral(
        DenseDenoiser(model.denoiser), real, steps=3, generator=make_generator(6)
    )
    expected = Ancestral().sample(algorithm, real, generator=make_generator(7), steps=3).x0
    vocab.layout().check(found, real)
    shares = [
        torch.nn.functional.one_hot(x, vocab.vocab_size).double().mean(dim=0)
        for x in (found, expected)
    ]
    both = (shares[0] + shares[1]) / 2
    error = (2 * both * (1 - both) / num).sqrt()
    assert float(both.amax(dim=1)[0]) > 0.12  # not uniform over the thirteen types
    assert bool(((shares[0] - shares[1]).abs() <= 4.5 * error + 1e-9).all())

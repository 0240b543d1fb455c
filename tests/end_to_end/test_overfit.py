"""The whole path can learn: eight diagrams by heart, and a small world's exact denoiser."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.algorithms import MDLM, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair
from discrete_diffusion.sampling import FirstHitting
from floor_plans import decode, generate_plans
from floor_plans.diagrams.tokens import encode
from tabulated_diagrams import random_diagrams, tabulated_mdlm

STEPS = 2000


@pytest.mark.slow
def test_eight_diagrams_are_learnt_and_sampled_back():
    torch.manual_seed(0)
    plans = [plan for plan in generate_plans(100, seed=4) if plan.num_rooms == 7][:8]
    diagrams = encode(plans)
    batch = Batch(diagrams.x0.repeat(8, 1), diagrams.real.repeat(8, 1))
    config = compose("train", ["model=bd_tiny", "model.dropout=0.0"])
    algorithm = build_algorithm(config)
    optimizer = torch.optim.AdamW(algorithm.parameters(), lr=5e-3, betas=(0.9, 0.99), fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    generator = make_generator(0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        algorithm.loss(batch, generator).loss.backward()
        optimizer.step()
        schedule.step()

    # Half of every diagram masked: the rest identifies it, so every token is certain.
    algorithm.eval()
    x0, real = diagrams.x0.repeat(50, 1), diagrams.real.repeat(50, 1)
    t = torch.full((len(x0),), 0.5, dtype=torch.float64)
    xt = algorithm.process.corrupt(x0, t, real, generator)
    with torch.no_grad():
        predicted = algorithm.log_prob_x0(xt, t, real).argmax(-1)
    masked = (xt != x0) & real
    accuracy = (predicted == x0)[masked].double().mean().item()
    assert accuracy > 0.99

    samples = FirstHitting().sample(algorithm, real[:200], generator=generator).x0
    known = {plan.canonical_key() for plan in plans}
    found = [sample.canonical_key() for sample in decode(samples)]
    assert sum(key in known for key in found) / len(found) > 0.8
    assert known <= set(found)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["bd-denoiser", "bd-denoiser-pair"])
def test_the_network_becomes_the_exact_denoiser(network):
    """Trained on a world of eight diagrams of three rooms, D comes within 0.02 nats per masked
    token of the D that enumerates them, over all states the forward process can reach."""
    torch.manual_seed(0)
    vocab = VocabConfig(n_max=3)
    exact, rows, prob = tabulated_mdlm(random_diagrams(8, 3, seed=0), vocab)
    sizes = {"d_model": 48, "n_layers": 2, "n_heads": 2, "vocab_config": vocab, "dropout": 0.0}
    if network == "bd-denoiser-pair":
        denoiser = BDDenoiserPair(**sizes, d_pair=32)
    else:
        denoiser = BDDenoiser(**sizes)
    algorithm = MDLM(BDDenoiserBackbone(denoiser), exact.process)
    real = rows != vocab.pad_id

    masks = torch.tensor(list(itertools.product([False, True], repeat=rows.shape[1])))[1:]
    masked = masks.repeat_interleave(len(rows), dim=0)  # every set of masked tokens, every diagram
    xt = torch.where(masked, vocab.mask_id, rows.repeat(len(masks), 1))
    weight = prob.repeat(len(masks))[:, None] * masked
    t, everywhere = masked.double().mean(dim=1), real.repeat(len(masks), 1)
    log_d = exact.log_prob_x0(xt, t, everywhere)

    def divergence() -> float:
        with torch.no_grad():
            log_model = algorithm.log_prob_x0(xt, t, everywhere).double()
        each = torch.special.xlogy(log_d.exp(), log_d.exp()) - log_d.exp() * log_model
        return float((each.nan_to_num(0.0).sum(dim=-1) * weight).sum() / weight.sum())

    assert divergence() > 0.5
    optimizer = torch.optim.AdamW(algorithm.parameters(), lr=3e-3, betas=(0.9, 0.99), fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 800)
    generator = make_generator(0)
    for _ in range(800):
        drawn = torch.multinomial(prob, 64, replacement=True, generator=generator)
        optimizer.zero_grad()
        algorithm.loss(Batch(rows[drawn], real[drawn]), generator).loss.backward()
        optimizer.step()
        schedule.step()
    algorithm.eval()
    assert divergence() < 0.02

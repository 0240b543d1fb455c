"""Eight diagrams by heart: the whole path can learn, and samples what it learnt."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.data.bubble_diagrams import decode, generate_plans
from discrete_diffusion.data.bubble_diagrams.tokens import encode
from discrete_diffusion.sampling import FirstHitting
from discrete_diffusion.types import Batch

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

    samples = FirstHitting().sample(algorithm, real[:200], generator=generator).tokens
    known = {plan.canonical_key() for plan in plans}
    found = [sample.canonical_key() for sample in decode(samples)]
    assert sum(key in known for key in found) / len(found) > 0.8
    assert known <= set(found)

"""100,000 samples, none with a MASK, a PAD at a real position, or an id of the other vocabulary."""

from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.data import BatchStream, build_data, draw_sizes
from discrete_diffusion.sampling import build_sampler, draw_samples

TINY = [
    "model=bd_tiny",
    "model.d_model=32",
    "model.cond_dim=32",
    "model.n_layers=1",
    "model.n_heads=2",
    "data.num_plans=400",
]


@pytest.mark.slow
@pytest.mark.parametrize("trained", [False, True], ids=["untrained", "trained"])
@pytest.mark.parametrize("backbone", ["bd-denoiser", "dit"])
def test_no_illegal_id(backbone, trained):
    """2 backbones x 2 states x 2 samplers x 3 temperatures x 4,200 > 100,000 samples."""
    torch.manual_seed(0)
    config = compose("train", TINY)
    if backbone == "dit":  # nothing in its own head keeps it legal: the layout must
        config = compose(
            "train",
            [
                "algo.backbone=dit",
                "model=dit_tiny",
                "data.num_plans=400",
                "model.hidden_size=32",
                "model.cond_dim=32",
                "model.n_blocks=1",
                "model.n_heads=2",
            ],
        )
    algorithm, data = build_algorithm(config), build_data(config)
    if trained:
        optimizer = torch.optim.AdamW(algorithm.parameters(), lr=3e-3)
        stream = BatchStream(data, "train", batch_size=64, seed=0)
        for _ in range(10):
            for k, batch in enumerate(stream):
                optimizer.zero_grad()
                algorithm.loss(batch, make_generator(k)).loss.backward()
                optimizer.step()
    for sampler, temperature in itertools.product(("first-hitting", "ancestral"), (0.5, 1.0, 2.0)):
        generator = make_generator(1)
        real = data.real_positions(draw_sizes(data.size_counts(), 4200, generator))
        chosen = build_sampler({"name": sampler, "temperature": temperature})
        steps = 12 if sampler == "ancestral" else None
        tokens = draw_samples(chosen, algorithm, real, generator=generator, steps=steps).tokens
        algorithm.layout.check(tokens, real)

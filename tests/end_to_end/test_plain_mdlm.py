"""An ordinary MDLM that knows nothing of graphs trains bd-denoiser through ``forward(x_t, sigma)``.

It knows a vocabulary size and one MASK id, and restricts nothing itself: what keeps its samples
legal is the backbone's concatenated-vocabulary head alone.
"""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from floor_plans import decode, generate_plans
from floor_plans.diagrams.tokens import encode

VOCAB_SIZE, MASK_ID = 28, 13


def plain_loss(backbone, x0, generator):
    t = torch.rand(len(x0), generator=generator).clamp(min=1e-3)
    masked = torch.rand(x0.shape, generator=generator) < t[:, None]
    xt = torch.where(masked, MASK_ID, x0)
    logits = backbone(xt, -torch.log1p(-t.clamp(max=0.9999)))
    nll = torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCAB_SIZE), x0.flatten(), reduction="none"
    ).view_as(x0)
    return (nll * masked / t[:, None]).sum(1).mean()


@torch.no_grad()
def plain_sample(backbone, shape, steps, generator):
    x = torch.full(shape, MASK_ID)
    for k in range(steps, 0, -1):
        t, s = k / steps, (k - 1) / steps
        sigma = torch.full((shape[0],), -torch.log1p(torch.tensor(-min(t, 0.9999))))
        probs = backbone(x, sigma).softmax(-1)
        drawn = torch.multinomial(probs.flatten(0, 1), 1, generator=generator).view(shape)
        reveal = torch.rand(shape, generator=generator) < (t - s) / t
        x = torch.where((x == MASK_ID) & reveal, drawn, x)
    return x


@pytest.mark.slow
def test_it_trains_and_samples_legal_ids_from_the_start():
    torch.manual_seed(0)
    vocab = VocabConfig(n_max=8)
    diagrams = encode(generate_plans(600, seed=0))
    x0 = diagrams.x0[diagrams.num_nodes == 8]
    denoiser = BDDenoiser(d_model=32, n_layers=1, n_heads=2, vocab_config=vocab, dropout=0.0)
    backbone = BDDenoiserBackbone(denoiser)
    optimizer = torch.optim.AdamW(backbone.parameters(), lr=3e-3)
    generator, losses = make_generator(0), []
    for step in range(150):
        if step % 75 == 0:
            decode(plain_sample(backbone, (200, 36), 20, generator))  # refuses any illegal id
        rows = torch.randint(len(x0), (64,), generator=generator)
        loss = plain_loss(backbone, x0[rows], generator)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-20:]) < 0.75 * sum(losses[:20])
    decode(plain_sample(backbone, (200, 36), 20, generator))

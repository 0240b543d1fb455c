"""The marginal algorithm needs a fitted prior to be what it says."""

from __future__ import annotations

import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.cli import compose
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG


def test_fitted_on_diagrams_its_noise_has_their_frequencies():
    algorithm = build_algorithm(compose("train", ["algo=marginal", "model=bd_tiny"]))
    vocab = RPLAN_VOCAB_CONFIG
    real = vocab.real_positions(torch.full((100,), 5))
    x0 = torch.where(real, algorithm.layout.support.long().argmax(dim=1), vocab.pad_id)
    algorithm.process.fit(x0, real)
    pi = algorithm.process.prior()
    rooms, relations = 500, 1000
    torch.testing.assert_close(pi[0, 0], torch.tensor((rooms + 1) / (rooms + 13)).double())
    torch.testing.assert_close(pi[8, 15], torch.tensor((relations + 1) / (relations + 11)).double())
    assert (pi[algorithm.layout.support] > 0).all()
    torch.testing.assert_close(pi.sum(1), torch.ones(36).double())
    assert "process.pi" in algorithm.state_dict()  # a checkpoint carries it

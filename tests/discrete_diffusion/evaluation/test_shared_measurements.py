"""Measurements of a model by several processes: those of one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.evaluation.model_scores import score_model
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling.model import Model
from fake_processes import in_processes
from toy_graphs import graph_dataset, random_graphs


class RandomLogits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCAB.vocab_size, VOCAB.vocab_size))
        self.calls = 0

    def forward(self, x_t, sigma=None):
        self.calls += 1
        return self.table[x_t] + self.table[x_t].mean(dim=1, keepdim=True)


def model() -> MDLM:
    torch.manual_seed(0)
    return MDLM(RandomLogits(), Absorbing(VOCAB.layout(), LogLinear())).eval()


@pytest.mark.slow
@pytest.mark.parametrize("num", [2, 5])
def test_scores_do_not_depend_on_the_number_of_processes(num):
    data = graph_dataset(random_graphs(160, seed=1), "random", fractions=(0.5, 0.5, 0))

    def scores(algorithm: MDLM, **options) -> dict:
        measured = Model(algorithm, None, batch_size=16, **options)
        found = score_model(measured, data, "val", noise_samples=2, time_bins=3, seed=3)
        return found.as_dict()

    alone, shared = model(), [model() for _ in range(num)]
    expected = scores(alone)
    for found in in_processes(num, lambda shard: scores(shared[shard.rank], shard=shard)):
        assert repr(found) == repr(expected)
    assert sum(each.backbone.calls for each in shared) == alone.backbone.calls
    assert all(each.backbone.calls for each in shared)

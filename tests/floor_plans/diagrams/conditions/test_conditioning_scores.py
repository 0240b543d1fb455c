"""What a model makes of what it is told: one that knows every plan by its facts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Model, build_sampler
from floor_plans.diagrams.procedural.generator import generate_plans
from floor_plans.diagrams.tokens import encode
from floor_plans.learning.build import DiagramDataset
from floor_plans.learning.conditions import Facts
from floor_plans.learning.evaluation import _derangement, measure_conditioning

PLANS = generate_plans(40, seed=5)


class Knowing(nn.Module):
    """Says the first plan that has all facts it is told; of none nothing."""

    def __init__(self, x0: torch.Tensor, condition: torch.Tensor) -> None:
        super().__init__()
        self.x0, self.condition = x0, condition

    def forward(self, x_t, sigma=None, condition=None, keep=None):
        fits = (condition[:, None].isnan() | (condition[:, None] == self.condition)).all(dim=2)
        if keep is not None:
            fits = fits | ~keep[:, None]
        plan = self.x0[fits.int().argmax(dim=1)]
        said = 60.0 * nn.functional.one_hot(plan, VOCAB.vocab_size)
        return said * fits.any(dim=1)[:, None, None]


def measured(*names: str):
    facts = Facts.of({"condition": [*names]}, VOCAB)
    graphs = encode(PLANS)
    numbers = facts.plan_facts(PLANS, "pixels") if facts.plan_names else None
    graphs = type(graphs)(graphs.x0, graphs.real, graphs.num_nodes, numbers)
    data = DiagramDataset(
        {"train": graphs[:1], "val": graphs[:0], "test": graphs},
        VOCAB,
        node_order="canonical",
        facts=facts,
    )
    test = data.splits["test"]
    process = Absorbing(VOCAB.layout(), LogLinear())
    network = Knowing(test.x0, test.conditions["condition"])
    model = Model(
        MDLM(network, process, condition_dropout=0.1), build_sampler({"name": "first-hitting"})
    )
    return measure_conditioning(model, data, "test", seed=0)


@pytest.mark.slow
def test_right_facts_say_which_plan_it_is_and_wrong_ones_cost():
    found = measured("num_rooms", "counts", "area", "outline")
    assert found.num == len(PLANS)
    assert [*found.more] == [
        "told nothing",
        *(
            f"{what} {name}{of}"
            for name in ("num_rooms", "counts", "area", "outline")
            for what, of in (("not told its", ""), ("told the", " of another"))
        ),
    ]
    nats = {name: mean for name, (mean, _) in found.more.items()}
    assert nats["not told its area"] == pytest.approx(0, abs=1e-3)  # the outline says it
    assert nats["told nothing"] > 5
    assert nats["told the outline of another"] > 5
    assert found.obeyed == {1.0: 1.0, 2.0: 1.0}
    assert found.as_dict()["obeyed_at_guidance_2"] == 1.0
    assert len(found.section().rows) == len(found.more) + 2


def test_a_model_that_is_told_no_counts_has_none_to_obey():
    assert measured("outline").obeyed == {}


def test_another_is_never_itself():
    for num in (2, 7, 40):
        other = _derangement(num, seed=0)
        assert (other != torch.arange(num)).all()
        assert other.sort().values.tolist() == list(range(num))

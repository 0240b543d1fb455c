"""SEDD: the absorbing form is MDLM's plus a penalty, and equals the general one."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import SEDD, general_bound
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Marginal, Uniform
from discrete_diffusion.noise_schedules import Cosine, LogLinear
from toy_algorithms import ZeroBackbone
from toy_samplers import fitting_samplers
from toy_world import MASK, VOCAB_SIZE, ToyWorld, toy_layout


class TableBackbone(ZeroBackbone):
    """Random logits, the same for the same input."""

    def forward(self, x_t, sigma=None):
        table = torch.randn(VOCAB_SIZE, 3, VOCAB_SIZE, generator=make_generator(7))
        return table[x_t.sum(dim=1) % VOCAB_SIZE]


def batch() -> Batch:
    world = ToyWorld.make()
    return Batch(world.x0, world.real.expand(len(world.x0), -1))


def test_absorbing_closed_form_is_the_general_bound():
    process = Absorbing(toy_layout(), Cosine())
    algorithm, data = SEDD(TableBackbone(), process), batch()
    t = torch.full((len(data),), 0.4, dtype=torch.float64)
    xt = process.corrupt(data.x0, t, data.real, make_generator(0))
    log_g = algorithm.log_prediction(xt, t, data.real).double()
    general = general_bound(process, xt, data.x0, log_g, t, data.real)
    g0 = log_g.gather(-1, data.x0.unsqueeze(-1)).squeeze(-1)
    closed = process.weight(t) * (log_g.exp().sum(-1) - 1 - g0) * (xt == MASK)
    torch.testing.assert_close(general, closed)


def test_large_logits_at_visible_tokens_do_no_harm():
    """They are not trained, so nothing keeps them small."""

    class Loud(ZeroBackbone):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))

        def forward(self, x_t, sigma=None):
            logits = super().forward(x_t) + self.weight
            return torch.where((x_t != MASK).unsqueeze(-1), 500.0 * logits, logits)

    algorithm = SEDD(Loud(), Absorbing(toy_layout(), LogLinear()))
    output = algorithm.loss(batch(), make_generator(0))
    output.loss.backward()
    assert output.nelbo.isfinite().all()
    assert algorithm.backbone.weight.grad.isfinite()


@pytest.mark.parametrize("make", [Absorbing, Uniform])
def test_the_best_draw_and_the_samplers_follow_the_noise(make):
    algorithm = SEDD(ZeroBackbone(), make(toy_layout(), LogLinear()))
    absorbing = make is Absorbing
    assert algorithm.draw == algorithm.evaluation_draw
    assert algorithm.draw == ("forced_mask" if absorbing else "importance")
    assert ("first-hitting" in fitting_samplers(algorithm)) == absorbing


def test_errors_name_the_fix():
    layout = toy_layout()
    with pytest.raises(ValueError, match="forward_process=absorbing or forward_process=uniform"):
        SEDD(ZeroBackbone(), Marginal(layout, LogLinear()))
    with pytest.raises(ValueError, match=r"algo\.draw for uniform noise"):
        SEDD(ZeroBackbone(), Uniform(layout, LogLinear()), draw="forced_mask")

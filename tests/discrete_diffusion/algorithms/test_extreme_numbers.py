"""Losses and gradients stay finite, whatever a network says and whatever is drawn."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import (
    AR,
    BD3LM,
    D3PM,
    GIDD,
    MELD,
    SEDD,
    UDLM,
    MarginalDiffusion,
    TokenAlgorithm,
    general_bound,
)
from discrete_diffusion.algorithms.continuous_time import LARGEST_LOG_TOTAL
from discrete_diffusion.algorithms.time_sampling import MASK_DRAWS, WEIGHTED_DRAWS
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.noise_schedules import Learned, LogLinear, PerGroup, Polynomial
from toy_algorithms import PROCESSES, TOYS
from toy_world import FULL, PAD, PADDED, VOCAB_SIZE, ToyWorld, all_schedules, toy_layout

NUM = 24
AT_THE_EDGE = ("linear", "rooms last")
SCHEDULES = {
    **all_schedules(toy_layout()),
    "rooms last": PerGroup(toy_layout(), exponents={"node": 0.2, "edge": 6.0}),
    "rooms first": PerGroup(toy_layout(), exponents={"node": 6.0, "edge": 0.2}),
    "late": Polynomial(exponent=6.0),
    "early": Polynomial(exponent=0.2),
}


def learned() -> Learned:
    """Its exponents as far apart as they can be."""
    schedule = Learned(toy_layout(), exponent_per="token", max_ratio=100.0)
    schedule.theta.data.copy_(torch.tensor([-9.0, 0.0, 9.0]))
    return schedule


class LoudBackbone(nn.Module):
    """Logits that are its parameters, normal with a given deviation."""

    def __init__(self, deviation: float, seed: int) -> None:
        super().__init__()
        logits = torch.randn(NUM, 3, VOCAB_SIZE, generator=make_generator(seed))
        self.table = nn.Parameter(deviation * logits)

    def forward(self, x_t, sigma=None, group_idxs=None, context=None):
        return self.table[: len(x_t)]


OTHERS = {
    "ar": lambda b, schedule: AR(b, Absorbing(toy_layout(), schedule)),
    "bd3lm": lambda b, schedule: BD3LM(b, Absorbing(toy_layout(), schedule), block_size=2),
    **{
        f"meld-{how}": lambda b, _, how=how: MELD(
            b, Absorbing(toy_layout(), learned()), gradient=how
        )
        for how in ("unbiased", "straight_through")
    },
}
CASES = [
    (name, schedule)
    for name in (*(toy for toy in TOYS if toy != "meld"), *OTHERS)
    for schedule in ((AT_THE_EDGE) if not name.startswith("meld") else ["learned"])
]


def ways_to_draw(algorithm: TokenAlgorithm) -> tuple[str | None, ...]:
    if isinstance(algorithm, AR | MELD):
        return (None,)  # of MELD's the only one that has a gradient
    masks = algorithm.process.absorbing and not isinstance(algorithm, D3PM)
    return MASK_DRAWS if masks else WEIGHTED_DRAWS


@pytest.fixture
def draws_at_the_ends(monkeypatch):
    """Nine in ten uniform draws are 0, the largest below 1, or close to one of them."""
    rand = torch.rand

    def at_the_ends(shape, *, generator, **options):
        u, which = (rand(shape, generator=generator, **options) for _ in range(2))
        near = 2 ** (-53 * u)
        u = torch.where(which < 0.8, 1 - near, torch.where(which < 0.9, near, u))
        return torch.where(which < 0.1, 0.0, torch.where(which < 0.2, 1 - 2.0**-53, u))

    monkeypatch.setattr(torch, "rand", at_the_ends)


@pytest.mark.usefixtures("draws_at_the_ends")
@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_loss_and_gradient_are_finite(name, schedule):
    rows = [ToyWorld.make(pattern).x0 for pattern in (FULL, PADDED)]
    x0 = torch.cat(rows)[torch.randperm(sum(map(len, rows)), generator=make_generator(0))[:NUM]]
    batch = Batch(x0, x0 != PAD)
    for seed, deviation in enumerate((1.0, 100.0)):
        backbone = LoudBackbone(deviation, seed)
        if name in OTHERS:
            algorithm = OTHERS[name](backbone, SCHEDULES.get(schedule))
        else:
            algorithm = TOYS[name].make(SCHEDULES[schedule], backbone)
        for draw in ways_to_draw(algorithm):
            for attempt in range(2):
                output = algorithm.loss(batch, make_generator(seed, attempt), draw)
                output.loss.backward()
            assert output.loss.isfinite(), (deviation, draw)
            assert output.nelbo.isfinite().all(), (deviation, draw)
            for parameter in algorithm.parameters():
                assert parameter.grad is not None
                assert parameter.grad.isfinite().all(), (deviation, draw)


@pytest.mark.parametrize("schedule", ["geometric", "rooms last", "early"])
@pytest.mark.parametrize("parameterization", ["leave_one_out", "posterior"])
@pytest.mark.parametrize("make", [UDLM, MarginalDiffusion, GIDD])
def test_the_bound_is_finite_at_every_time(make, parameterization, schedule):
    """From where 1 - alpha is far too small for a float, to the last time before 1; at tokens that
    are left alone, and at others however unlikely."""
    logs = torch.linspace(-60, -0.3, 300, dtype=torch.float64)
    t = torch.cat([10**logs, 1 - 10 ** logs[logs > -15.9]])
    x0 = ToyWorld.make().x0[torch.arange(len(t)) % len(ToyWorld.make().x0)]
    process = PROCESSES[make.processes[0]](toy_layout(), SCHEDULES[schedule])
    algorithm = make(LoudBackbone(1.0, 0), process, parameterization=parameterization)
    real, generator = torch.ones_like(x0, dtype=torch.bool), make_generator(1)
    for deviation in (1.0, 100.0):
        shape = (len(t), 3, VOCAB_SIZE)
        logits = deviation * torch.randn(shape, dtype=torch.float64, generator=generator)
        logits.requires_grad_()
        algorithm.logits = lambda *_, logits=logits: logits
        for xt in (x0, process.sample_noise(t, generator)):
            log_d0 = algorithm.denoise(xt, t, real)
            terms = general_bound(process, xt, x0, log_d0, t, real)
            terms.sum().backward()
            assert terms.isfinite().all()
            assert logits.grad.isfinite().all()
            assert (terms > -1e-9 * (1 + 1 / t).unsqueeze(1)).all()


@pytest.mark.parametrize(("shift", "beyond"), [(-50.0, False), (0.0, False), (30.0, True)])
@pytest.mark.parametrize("make", [Absorbing, Uniform])
def test_the_scores_of_sedd_end_as_a_tangent(make, shift, beyond):
    """exp up to ``LARGEST_LOG_TOTAL``; from there on S, of which D knows nothing, is linear."""
    backbone = LoudBackbone(2.0, 0)
    backbone.table.data += shift
    algorithm = SEDD(backbone, make(toy_layout(), LogLinear()))
    support, log_k = algorithm.layout.support, algorithm.layout.num_legal.log()
    x, t = torch.zeros(NUM, 3, dtype=torch.long), torch.full((NUM,), 0.5)
    log_g = algorithm.log_prediction(x, t, x == 0)
    plain = (backbone.table - log_k.unsqueeze(-1)).masked_fill(~support, -1e9)
    if not beyond:
        assert torch.equal(log_g, plain)
    excess = plain.logsumexp(-1) - LARGEST_LOG_TOTAL
    assert (excess > 0).all() == beyond
    linear = torch.where(excess > 0, excess.log1p(), excess) + LARGEST_LOG_TOTAL
    torch.testing.assert_close(log_g.logsumexp(-1), linear)
    torch.testing.assert_close(
        log_softmax_on(log_g, support), log_softmax_on(plain, support), rtol=1e-4, atol=1e-4
    )

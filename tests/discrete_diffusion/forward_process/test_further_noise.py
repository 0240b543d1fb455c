"""Noising what is noisy already, and the time at which a share is masked."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing, ForwardProcess, InterpolatingProcess
from toy_algorithms import PROCESSES as SHIPPED
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    VOCAB_SIZE,
    ToyWorld,
    all_schedules,
    chain,
    marginal_process,
    toy_layout,
)

PROCESSES = {**SHIPPED, "any fixed prior": marginal_process}
SCHEDULES = list(all_schedules(toy_layout()))
NUM = 20_000


def make(process: str, schedule: str) -> ForwardProcess:
    return PROCESSES[process](toy_layout(), all_schedules(toy_layout())[schedule])


def at(time: float, num: int = 1) -> torch.Tensor:
    return torch.full((num,), time, dtype=torch.float64)


def shares(xt: torch.Tensor) -> torch.Tensor:
    """Float64[L, V]: how often each position holds each id."""
    return (xt.unsqueeze(-1) == torch.arange(VOCAB_SIZE)).double().mean(dim=0)


def close(share: torch.Tensor, expected: torch.Tensor) -> bool:
    error = (expected * (1 - expected) / NUM).sqrt()
    return bool(((share - expected).abs() <= 4.5 * error + 1e-9).all())


@pytest.mark.parametrize("schedule", ["log_linear", "per_group"])
@pytest.mark.parametrize("process", list(PROCESSES))
@pytest.mark.parametrize(("earlier", "later"), [(0.3, 0.7), (0.5, 1.0), (0.0, 0.4)])
def test_further_noise_is_the_transition(process, schedule, earlier, later):
    """``chain``, from every token that x_s may be."""
    noise = make(process, schedule)
    s, t = at(earlier), at(later)
    further = chain(noise, s, t)[0]
    for tokens in ([0, 1, 2], [2, 3, 3], [MASK, MASK, MASK]):
        if tokens[0] == MASK and not (noise.prior()[:, MASK] > 0).all():
            continue  # this process has no MASK
        xs = torch.tensor(tokens)
        xt = noise.corrupt_further(
            xs.expand(NUM, -1),
            s.expand(NUM),
            t.expand(NUM),
            FULL.expand(NUM, -1),
            make_generator(1),
        )
        assert close(shares(xt), further[torch.arange(LENGTH), xs])


@pytest.mark.parametrize("schedule", ["cosine", "per_group"])
@pytest.mark.parametrize("process", list(PROCESSES))
@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_noise_in_two_steps_is_noise_in_one(process, schedule, real):
    """x_s ~ q_s(. | x0), then x_t ~ q(. | x_s): the marginal at t; nothing else moves."""
    noise, x0 = make(process, schedule), ToyWorld.make(real).x0[5]
    s, t, generator = at(0.35, NUM), at(0.8, NUM), make_generator(2)
    xs = noise.corrupt(x0.expand(NUM, -1), s, real.expand(NUM, -1), generator)
    xt = noise.corrupt_further(xs, s, t, real.expand(NUM, -1), generator)
    expected = chain(noise, torch.zeros_like(t[:1]), t[:1])[0][torch.arange(LENGTH), x0]
    assert close(shares(xt)[real], expected[real])
    assert (xt[:, ~real] == PAD).all()
    held = torch.tensor([False, True, False]) & real
    frozen = noise.corrupt_further(xs, s, t, held.expand(NUM, -1), generator)
    assert torch.equal(frozen[:, ~held], xs[:, ~held])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_absorbing_noise_has_the_general_transition(schedule):
    noise = make("absorbing", schedule)
    xs = torch.tensor([0, MASK, 3]).expand(NUM, -1)
    real, s, t = FULL.expand(NUM, -1), at(0.2, NUM), at(0.9, NUM)
    own = noise.corrupt_further(xs, s, t, real, make_generator(3))
    general = InterpolatingProcess.corrupt_further(noise, xs, s, t, real, make_generator(3))
    assert torch.equal(own, general)


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_time_of_share_inverts_the_masked_share(schedule, real):
    """The mean of 1 - alpha over some of the positions, which differ where the schedule does."""
    noise = make("absorbing", schedule)
    assert isinstance(noise, Absorbing)
    share = torch.tensor([1e-6, 0.01, 1 / 3, 0.5, 2 / 3, 0.99, 1 - 1e-9], dtype=torch.float64)
    for among in (real, real & torch.tensor([False, True, True])):
        rows = among.expand(len(share), -1)
        t = noise.time_of_share(share, rows)
        assert t.shape == share.shape
        assert (t.diff() > 0).all()
        hidden = noise.one_minus_alpha(t).expand(-1, LENGTH)
        mean = (hidden * rows).sum(dim=1) / rows.sum(dim=1)
        torch.testing.assert_close(mean, share, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_nothing_and_everything_masked_are_the_ends_of_time(schedule):
    noise = make("absorbing", schedule)
    assert isinstance(noise, Absorbing)
    t = noise.time_of_share(torch.tensor([0.0, 1.0]).double(), FULL.expand(2, -1))
    assert 0 < t[0] < 1e-12
    assert 1 - 1e-12 < t[1] <= 1
    assert noise.time_of_share(torch.zeros(0).double(), FULL.expand(0, -1)).shape == (0,)


def test_time_of_share_with_a_schedule_per_group_depends_on_who_shares():
    """Positions of exponent 2 and 1: t = sqrt(share), t = share, and between."""
    noise = make("absorbing", "per_group")
    assert isinstance(noise, Absorbing)
    among = torch.tensor([[True, False, False], [False, True, True], [True, True, False]])
    t = noise.time_of_share(at(0.25, 3), among)
    torch.testing.assert_close(t, torch.tensor([0.5, 0.25, (3**0.5 - 1) / 2]).double())

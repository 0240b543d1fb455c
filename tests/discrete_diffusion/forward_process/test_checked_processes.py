"""``check_process`` passes what is right, a stranger's too, and names what is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import (
    Absorbing,
    ForwardProcess,
    InterpolatingProcess,
    Matrix,
    Uniform,
    check_process,
)
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import Cosine, LogLinear
from toy_algorithms import PROCESSES as SHIPPED
from toy_world import VOCAB_SIZE, all_schedules, marginal_process, toy_layout

PROCESSES = {**SHIPPED, "any fixed prior": marginal_process}


@pytest.mark.parametrize("schedule", ["cosine", "per_group"])
@pytest.mark.parametrize("name", list(PROCESSES))
def test_every_process_passes(name, schedule):
    check_process(PROCESSES[name](toy_layout(), all_schedules(toy_layout())[schedule]))


class Carousel(ForwardProcess):
    """A stranger's: legal ids go round, each to the next and the last to the first."""

    name = "carousel"

    def __init__(self, layout, schedule):
        super().__init__(layout, schedule)
        rates = torch.zeros(layout.length, layout.vocab_size, layout.vocab_size).double()
        for position, row in enumerate(layout.support):
            ids = row.nonzero().flatten()
            rates[position, ids, ids.roll(-1)] += 1.0
            rates[position, ids, ids] -= 1.0
        self.register_buffer("once", rates, persistent=False)

    def prior(self):
        return self.layout.uniform_log_probs().exp()

    def passed(self, t):
        return -5 * self.alpha(t).clamp(min=1e-30).log()[..., None, None]

    def transition(self, s, t):
        return torch.matrix_exp((self.passed(t) - self.passed(s)) * self.once).clamp(min=0)

    def rates(self, t):
        beta = -5 * self.schedule.dalpha(t)[:, None] / self.alpha(t)
        return beta[..., None, None] * self.once.clamp(min=0)


class Favourites(InterpolatingProcess):
    """A stranger's: noise that likes high ids."""

    name = "favourites"

    def prior(self):
        weight = self.layout.support * torch.arange(1.0, self.layout.vocab_size + 1).double()
        return weight / weight.sum(dim=1, keepdim=True)


@pytest.mark.slow
@pytest.mark.parametrize("process", [Carousel, Favourites])
def test_a_strangers_process_passes(process):
    check_process(process(toy_layout(), LogLinear()))
    check_process(process(TokenLayout.flat(2, 5, mask_id=4), LogLinear()))


def random_rates(layout: TokenLayout, seed: int) -> Tensor:
    """Float64[L, V, V]: rates among legal ids and MASK of up to ten orders of magnitude, some 0."""
    generator = make_generator(seed)
    size, mask = layout.vocab_size, layout.mask_id
    shape = (layout.length, size, size)
    spread = (1.0, 3.0, 6.0)[seed % 3]
    rates = (spread * torch.randn(shape, generator=generator, dtype=torch.float64)).exp()
    some = torch.rand(shape, generator=generator) < 0.7
    some[..., mask], some[:, mask] = True, True  # all can be reached from all
    alphabet = layout.support.clone()
    alphabet[:, mask] = True
    rates = rates * some * alphabet.unsqueeze(-1) * alphabet.unsqueeze(-2)
    rates.diagonal(dim1=1, dim2=2).zero_()
    return rates - torch.diag_embed(rates.sum(dim=-1))


class OneWrongRate(Matrix):
    """One rate is half as large again: the smallest of those above a millionth of the largest."""

    def rates(self, t):
        rates = super().rates(t)
        counted = torch.where(rates > 1e-6 * rates.max(), rates, float("inf"))
        return torch.where(rates == counted.min(), 1.5 * rates, rates)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 7])
def test_any_generator_passes_and_one_wrong_rate_is_named(seed):
    """Stiff ones too: the time over which rates are compared follows the fastest of them."""
    layout = toy_layout() if seed % 2 else TokenLayout.flat(2, 6, mask_id=4, pad_id=5)
    generator = random_rates(layout, seed)
    schedule = (LogLinear(), Cosine())[seed % 4 // 2]
    check_process(Matrix(layout, schedule, generator=generator))
    with pytest.raises(ValueError, match=r"rates\(0\.02\).* from id"):
        check_process(OneWrongRate(layout, schedule, generator=generator))


class Leaky(Uniform):
    """Draws PAD too."""

    def prior(self):
        return torch.full_like(super().prior(), 1 / VOCAB_SIZE)


class Unnormalised(Uniform):
    def prior(self):
        return super().prior() * 1.1


class WrongPosterior(Uniform):
    """Forgets that x_t was seen."""

    def posterior_log_probs(self, xt, log_d0, t, s):
        return self.marginal_log_probs(log_d0, s)


class WrongRates(Matrix):
    def rates(self, t):
        return 2 * super().rates(t)


class NegativeRates(Matrix):
    def rates(self, t):
        return -super().rates(t)


class Forgetful(Matrix):
    """A step of its own law from each time to the next: they do not compose."""

    def log_transition(self, s, t):
        return super().log_transition(torch.zeros_like(s), t)


class TouchesPad(Absorbing):
    def corrupt(self, x0, t, real, generator):
        return super().corrupt(x0, t, torch.ones_like(real), generator)


class CorruptsTooMuch(Matrix):
    def corrupt(self, x0, t, real, generator):
        return super().corrupt(x0, t.sqrt(), real, generator)


class JumpsTooOften(Uniform):
    def corrupt_further(self, xs, s, t, real, generator):
        return super().corrupt_further(xs, torch.zeros_like(s), t, real, generator)


class StartsElsewhere(Absorbing):
    def prior_sample(self, real, generator):
        x = super().prior_sample(real, generator)
        return torch.where(real, x * 0, x)


class NeverClean(Matrix):
    def alpha(self, t):
        return 0.9 * super().alpha(t)

    def one_minus_alpha(self, t):
        return 1 - self.alpha(t)


class WrongNoise(Uniform):
    def log_noise_at(self, xt, t):
        return super().log_noise_at(xt, t) + 0.1


class FewSources(Matrix):
    def sources(self) -> Tensor:
        return self.into[..., :1]


@pytest.mark.parametrize(
    ("process", "names"),
    [
        (Leaky, ["prior() outside the legal ids", "position 0, id 3", "0.1666666667"]),
        (Unnormalised, ["sum of prior()", "position 0", "1.1", "expected 1"]),
        (WrongPosterior, ["posterior_log_probs", "Bayes", "t = 0.4", "token 0"]),
        (WrongRates, ["rates(0.02)", "transition(t - h/2, t + h/2) / h", "from id"]),
        (NegativeRates, ["rates(0.02) below 0"]),
        (Forgetful, ["transition(0.4, 0.4), the identity"]),
        (TouchesPad, ["corrupt at t = 0.3 where real is False", "sample", "expected 5"]),
        (CorruptsTooMuch, ["share of corrupt at t = 0.3"]),
        (JumpsTooOften, ["share of corrupt_further from s = 0.3 to t = 0.8"]),
        (StartsElsewhere, ["share of prior_sample", "position 0, id 0"]),
        (NeverClean, ["alpha(0)", "0.9", "expected 1"]),
        (WrongNoise, ["log_noise_at", "t = 0.02"]),
        (FewSources, ["sources() leaves out"]),
    ],
)
def test_what_is_wrong_is_named(process, names):
    with pytest.raises(ValueError) as error:
        check_process(process(toy_layout(), LogLinear()))
    assert all(name in str(error.value) for name in [process.name, *names]), error.value


def test_a_layout_too_large_to_enumerate_is_refused():
    process = Uniform(TokenLayout.flat(1000, 1000, mask_id=999), LogLinear())
    with pytest.raises(ValueError, match="smaller layout"):
        check_process(process)

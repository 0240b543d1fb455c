"""How many tokens a call of ``EntropyBounded`` reveals, against its rule stated once more.

The network's D are given, one distribution per position whatever the others hold, so the entropies
and the order are known and so is the run that every call must reveal.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler

K = 12
"""Legal ids of every position; MASK and PAD follow."""


class GivenBackbone(nn.Module):
    """The logits Float[L, K] of every position, whatever stands at the others."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.functional.pad(logits, (0, 2))

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        return self.logits.expand(len(x_t), -1, -1)


def sampled(
    logits: Tensor, clamp: Tensor, support: Tensor | None = None, **options: object
) -> SampleOutput:
    """With D = softmax(logits); ``clamp`` Int[B, L], ``support`` Bool[L, K]."""
    layout = TokenLayout.flat(len(logits), K + 2, mask_id=K, pad_id=K + 1)
    algorithm = MDLM(GivenBackbone(logits.float()), Absorbing(layout, LogLinear()))
    if support is not None:
        support = nn.functional.pad(support, (0, 2)).expand(len(clamp), -1, -1)
    return build_sampler({"name": "entropy-bounded", **options}).sample(
        algorithm,
        torch.ones_like(clamp, dtype=torch.bool),
        generator=make_generator(0),
        clamp=clamp,
        support=support,
        keep_trajectory=True,
    )


def calls_of(output: SampleOutput, row: int) -> list[set[int]]:
    """The positions that each call about a sample revealed, in order of the calls."""
    masked = output.trajectory[:, row] == K
    revealed = masked[:-1] & ~masked[1:]
    return [set(now.nonzero().flatten().tolist()) for now in revealed if now.any()]


def expected_calls(score: Tensor, entropy: Tensor, free: list[int], budget: float) -> list[set]:
    """By score, highest first, of the positions left: the most whose entropies less the largest of
    *them* fit; scores and entropies Float64[L]."""
    left, calls = sorted(free, key=lambda k: -float(score[k])), []
    while left:
        h = [float(entropy[k]) for k in left]
        number = max(n for n in range(1, len(h) + 1) if sum(h[:n]) - max(h[:n]) <= budget)
        calls.append(set(left[:number]))
        left = left[number:]
    return calls


def logits_with_entropy(entropy: float) -> Tensor:
    """Float64[K]: of the distribution proportional to 1, r, r^2, ... that has it, by bisection."""
    low, high, ranks = 0.0, 60.0, torch.arange(K).double()
    for _ in range(60):
        middle = (low + high) / 2
        found = torch.special.entr((-middle * ranks).softmax(dim=0)).sum()
        low, high = (middle, high) if found > entropy else (low, middle)
    return -middle * ranks


@pytest.mark.parametrize(
    ("entropies", "budget", "sizes"),
    [
        # 1.3 + 1.3 - 1.3 = 1.3 > 1.2; the largest of all three, 2.0, would let the second one in
        ((1.3, 1.3, 2.0), 1.2, [1, 1, 1]),
        ((1.3, 1.3, 2.0), 1.31, [2, 1]),
        ((1.3, 1.3, 2.0), 2.7, [3]),
        ((0.5, 0.6, 0.7, 2.0), 1.2, [3, 1]),
        ((0.5, 0.6, 0.7, 2.0), 1.0, [2, 2]),  # 0.7 + 2.0 - 2.0
        ((0.0, 0.0001, 0.0002, 2.0), 0.0, [2, 1, 1]),  # the first is certain
        ((0.0, 0.0001, 0.0002, 2.0), 0.001, [4]),
        ((1.3, 1.3, 2.0), 0.0, [1, 1, 1]),
    ],
)
def test_a_call_reveals_the_longest_run_within_the_budget(entropies, budget, sizes):
    logits = torch.stack([logits_with_entropy(h) for h in entropies])
    free = torch.full((1, len(entropies)), -1)
    output = sampled(logits, free, entropy_budget=budget, order="entropy")
    assert list(map(len, calls_of(output, 0))) == sizes
    assert output.nfe.tolist() == [len(sizes)]


def test_a_run_that_fits_exactly_is_revealed_whole():
    """Of n tokens with entropy log 12 each, (n - 1) log 12 is what drawing them apart may lose."""
    for number in (1, 2, 4):
        budget = (number - 1) * math.log(K)
        output = sampled(
            torch.zeros(5, K), torch.full((1, 5), -1), entropy_budget=budget, order="entropy"
        )
        sizes = list(map(len, calls_of(output, 0)))
        assert sizes == [number] * (5 // number) + [1] * (5 % number)


def random_logits(seed: int, length: int) -> Tensor:
    """From nearly certain to nearly uniform, so that the order by margin is not that by entropy."""
    generator = make_generator(seed)
    sharpness = 10 ** (2 * uniform_draws((length, 1), generator) - 1)
    return sharpness * torch.randn(length, K, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("order", ["entropy", "margin"])
@pytest.mark.parametrize("seed", range(6))
def test_every_call_follows_the_rule(seed, order):
    """For samples with other positions free, so that each has runs of its own in the same call."""
    generator, length = make_generator(seed, 1), 9
    logits = random_logits(seed, length)
    prob = logits.softmax(dim=-1)
    entropy = torch.special.entr(prob).sum(dim=-1)
    first, second = prob.topk(2, dim=-1).values.unbind(dim=-1)
    score = {"entropy": -entropy, "margin": first - second}[order]
    is_free = uniform_draws((24, length), generator) < 0.8
    clamp = torch.where(is_free, -1, torch.randint(K, (24, length), generator=generator))
    for budget in (0.0, 0.3, 0.8, 1.2, 1.7, 2.6, 5.0):
        output = sampled(logits, clamp, entropy_budget=budget, order=order)
        for row in range(len(clamp)):
            free = is_free[row].nonzero().flatten().tolist()
            assert calls_of(output, row) == expected_calls(score, entropy, free, budget)


def test_the_entropies_are_those_of_the_model_not_of_a_narrowed_support():
    """One id is allowed at each of two positions, which makes them certain, but not the model."""
    logits = torch.stack([logits_with_entropy(h) for h in (1.3, 1.3, 2.0)])
    support = torch.ones(3, K, dtype=torch.bool)
    support[:2, 1:] = False
    output = sampled(logits, torch.full((1, 3), -1), support, entropy_budget=1.2, order="entropy")
    assert list(map(len, calls_of(output, 0))) == [1, 1, 1]
    assert output.x0[0, :2].tolist() == [0, 0]

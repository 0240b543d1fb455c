"""Samples longer and shorter than a window: the exact law, window by window."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.text.sampling import UNKNOWN, SampleLength
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.model import Model, sample_in_batches
from toy_world import noise_floor, total_variation

MASK, LENGTH, NUM = 2, 3, 20_000
WINDOWS = torch.tensor(list(itertools.product(range(2), repeat=LENGTH)))
LAW = torch.rand(2, 2, 2, generator=make_generator(7)).double() + 0.1
LAW /= LAW.sum()


class ExactBits(nn.Module):
    """Log-probabilities of each bit of ``LAW``, given those that are not MASK."""

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        seen = x_t.unsqueeze(1)
        agrees = ((seen == WINDOWS) | (seen == MASK)).all(dim=2).double()  # (B, 8)
        weights = agrees * LAW.flatten()
        ones = weights @ WINDOWS.double()
        prob = torch.stack([weights.sum(dim=1, keepdim=True) - ones, ones], dim=2)
        logits = torch.full((*x_t.shape, MASK + 1), -1e9)
        logits[..., :2] = prob.log().float()
        return logits


def model() -> Model:
    support = torch.tensor([True, True, False]).expand(LENGTH, -1)
    process = Absorbing(TokenLayout(support, mask_id=MASK), LogLinear())
    return Model(MDLM(ExactBits(), process), build_sampler({"name": "first-hitting"}))


def samples(size: SampleLength, given: list[int] | None = None) -> Tensor:
    clamp = None if given is None else torch.tensor(given).expand(NUM, -1)
    output = sample_in_batches(
        size.model(model()), size.real(NUM), generator=make_generator(1), clamp=clamp
    )
    assert output.x0.shape == (NUM, size.num)
    return output.x0


def probability(bits: tuple[int, ...], context: int) -> Tensor:
    """p of a long sample, from its definition."""
    last = len(bits) - LENGTH
    starts = [*range(0, last, LENGTH - context), last]
    prob, seen = torch.ones((), dtype=torch.float64), 0
    for start in starts:
        window = bits[start : start + LENGTH]
        known = window[: seen - start]
        prob = prob * LAW[window] / LAW[known].sum()
        seen = start + LENGTH
    return prob


def frequencies(rows: Tensor) -> Tensor:
    code = (rows * 2 ** torch.arange(rows.shape[1] - 1, -1, -1)).sum(dim=1)
    return torch.bincount(code, minlength=2 ** rows.shape[1]).double() / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("num", "context"), [(3, 1), (4, 1), (6, 2)])
def test_longer_samples_have_the_law_of_their_windows(num, context):
    every = [*itertools.product(range(2), repeat=num)]
    law = torch.stack([probability(bits, context) for bits in every])
    assert float(law.sum()) == pytest.approx(1)
    found = frequencies(samples(SampleLength(num, LENGTH, context)))
    assert total_variation(found, law) < noise_floor(law, NUM)


@pytest.mark.slow
def test_shorter_samples_are_begins_of_windows():
    law = LAW.sum(dim=2).flatten()
    found = frequencies(samples(SampleLength(2, LENGTH, 1)))
    assert total_variation(found, law) < noise_floor(law, NUM)


def test_a_prompt_is_kept_and_conditions_its_window():
    """0 ? 1 | 1 ? with one token of context: the blanks, each given its window."""
    rows = samples(SampleLength(5, LENGTH, 1), [0, UNKNOWN, 1, 1, UNKNOWN])
    assert (rows[:, [0, 2, 3]] == torch.tensor([0, 1, 1])).all()
    first, last = LAW[0, :, 1] / LAW[0, :, 1].sum(), LAW[1, 1] / LAW[1, 1].sum()
    law = torch.outer(first, last).flatten()
    found = frequencies(rows[:, [1, 4]])
    assert total_variation(found, law) < noise_floor(law, NUM)


def test_calls_of_all_windows_are_counted():
    size = SampleLength(5, LENGTH, 1)
    output = size.model(model()).sample_batch(size.real(4), generator=make_generator(0))
    assert output.nfe.tolist() == [3 + 2] * 4

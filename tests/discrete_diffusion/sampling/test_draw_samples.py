"""Many samples: how they are put into batches, and that processes share them without a trace."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM, UDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import (
    Ancestral,
    Confidence,
    EntropyBounded,
    FirstHitting,
    FirstSurprise,
    sample_in_batches,
)
from discrete_diffusion.sampling.model import Model, rows_at_once
from fake_processes import in_processes

VOCAB = VocabConfig(n_max=4)


class Recording(FirstHitting):
    """``batches``: the numbers of tokens in each batch it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[int]] = []

    def sample(self, algorithm, real, **options):
        self.batches.append(real.sum(dim=1).tolist())
        return super().sample(algorithm, real, **options)


class RandomLogits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCAB.vocab_size, VOCAB.vocab_size))

    def forward(self, x_t, sigma=None):
        return self.table[x_t] + self.table[x_t].mean(dim=1, keepdim=True)


def mdlm() -> MDLM:
    torch.manual_seed(0)
    return MDLM(RandomLogits(), Absorbing(VOCAB.layout(), LogLinear())).eval()


def real_positions(num_rooms: torch.Tensor) -> torch.Tensor:
    return VOCAB.real_positions(num_rooms)


MIXED = real_positions(torch.tensor([4, 2, 3] * 40 + [1] + [4] * 30))  # 40, 40 and 70; one of 1


def drawn(
    real=MIXED, *, algorithm=None, sampler=None, seed=0, clamp=None, trajectories=0, **options
) -> SampleOutput:
    return sample_in_batches(
        Model(algorithm or mdlm(), sampler or FirstHitting(), **options),
        real,
        generator=make_generator(seed),
        clamp=clamp,
        trajectories=trajectories,
    )


def assert_equal(a: SampleOutput, b: SampleOutput) -> None:
    for name in ("x0", "nfe", "log_weights", "trajectory"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.parametrize("sampler", [FirstHitting(), Ancestral(steps=4)])
@pytest.mark.parametrize("batch_size", [None, 20])
def test_samples_do_not_depend_on_the_number_of_processes(sampler, batch_size):
    options = {"sampler": sampler, "batch_size": batch_size, "trajectories": 7}
    clamp = torch.full(MIXED.shape, -1)
    clamp[::2, 0] = 5
    options["clamp"] = clamp
    alone = drawn(**options)
    assert (alone.x0[::2, 0] == 5).all()
    assert torch.equal(alone.x0 != VOCAB.pad_id, MIXED)  # every row is in its own place
    assert alone.trajectory.shape[1:] == (7, VOCAB.length)
    assert torch.equal(alone.trajectory[-1], alone.x0[:7])
    for num in (2, 5):
        algorithm = mdlm()
        for shared in in_processes(
            num, lambda shard, a=algorithm: drawn(**options, algorithm=a, shard=shard)
        ):
            assert_equal(shared, alone)


def test_processes_share_the_batches():
    alone, together = Recording(), [Recording() for _ in range(3)]
    drawn(sampler=alone)
    algorithm = mdlm()
    in_processes(
        3, lambda shard: drawn(sampler=together[shard.rank], algorithm=algorithm, shard=shard)
    )
    found = [sampler.batches for sampler in together]
    assert sorted(batch for batches in found for batch in batches) == sorted(alone.batches)
    assert min(map(len, found)) >= 2


def test_batches_are_of_one_size_but_for_rare_ones():
    """The one row of size 1 is sampled with those of 3; of the largest size there is no next."""
    sampler = Recording()
    drawn(sampler=sampler)
    kinds = sorted(sorted(set(batch)) for batch in sampler.batches)
    assert kinds == [[1, 3], [3], [6], [6], [10], [10], [10]]
    tokens = [sum(batch) for batch in sampler.batches]
    assert tokens == sorted(tokens, reverse=True)  # the costliest are not left for the end
    few = Recording()
    drawn(real_positions(torch.tensor([4] * 3 + [2] * 20)), sampler=few)
    assert few.batches == [[3] * 20, [10] * 3]


def test_a_small_request_is_cut_for_processes_to_share_and_a_batch_is_never_too_large():
    for rows, batch_size, expected in (
        (64, None, [32] * 2),
        (70, 35, [24, 23, 23]),
        (9, 4, [3] * 3),
    ):
        sampler = Recording()
        drawn(real_positions(torch.full((rows,), 3)), sampler=sampler, batch_size=batch_size)
        assert [len(batch) for batch in sampler.batches] == expected
    sampler = Recording()
    drawn(real_positions(torch.full((2400,), 1)), sampler=sampler)
    assert [len(batch) for batch in sampler.batches] == [240] * 10  # at most 256 on a CPU


def test_a_batch_has_draws_of_its_own():
    """Rows that are alike get other tokens in every batch; another seed gives others again."""
    real = real_positions(torch.full((64,), 4))
    first = drawn(real).x0
    halves = first.split(32)
    assert not torch.equal(*halves)
    assert not torch.equal(first, drawn(real, seed=1).x0)
    assert torch.equal(first, drawn(real).x0)


def test_no_rows_and_the_size_of_a_batch():
    output = drawn(real_positions(torch.tensor([3]))[:0])
    assert output.x0.shape == (0, VOCAB.length)
    assert rows_at_once("cpu") < rows_at_once("cuda:1")
    assert rows_at_once("cpu", VOCAB.length, 13) == rows_at_once("cpu")
    at_once = rows_at_once("cpu", 1024, 4098)  # text of a tokenizer: 4 bytes each, and copies
    assert 1 <= at_once * 1024 * 4098 * 4 <= 2**28
    assert rows_at_once("cpu", 1024, 500_000) == 1


@pytest.mark.parametrize("in_weights", [True, False])
@pytest.mark.parametrize(
    "sampler", [FirstHitting(), Ancestral(steps=3), EntropyBounded(), FirstSurprise(), Confidence()]
)
def test_logits_that_are_nan_are_told_with_what_to_do(sampler, in_weights):
    algorithm = mdlm()
    if in_weights:
        algorithm.backbone.table.data.fill_(torch.nan)
    else:
        algorithm.backbone.register_forward_hook(lambda *call: call[-1] * torch.nan)
    nodes = real_positions(torch.tensor([1, 1]))  # id 0, drawn from NaN, is legal there
    with pytest.raises(ValueError, match="returned NaN or infinite logits") as found:
        drawn(nodes, algorithm=algorithm, sampler=sampler)
    message = str(found.value)
    assert "RandomLogits.forward(x_t, sigma=None)" in message
    assert "first for sample 0, position 0" in message
    assert ("take an earlier checkpoint" in message) == in_weights
    assert ("look in it for a division by 0" in message) != in_weights


class Leaves(FirstHitting):
    """A sampler of another package that leaves an id everywhere."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def run(self, samples) -> None:
        samples.x.fill_(self.left)


@pytest.mark.parametrize(("left", "what"), [(VOCAB.mask_id, "MASK"), (VOCAB.pad_id, "id ")])
def test_a_sampler_of_another_package_is_named_for_what_it_leaves(left, what):
    with pytest.raises(ValueError, match=rf"Leaves left {what}.*sample 0, position 0") as found:
        drawn(real_positions(torch.tensor([2, 2])), sampler=Leaves(left))
    assert "forward" not in str(found.value)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("kind", [(MDLM, Absorbing), (UDLM, Uniform)])
def test_every_number_that_is_not_finite_is_told(kind, value):
    algorithm, process = kind
    made = algorithm(RandomLogits(), process(VOCAB.layout(), LogLinear())).eval()
    made.backbone.table.data.fill_(value)
    with pytest.raises(ValueError, match="returned NaN or infinite logits"):
        drawn(real_positions(torch.tensor([4])), algorithm=made, sampler=Ancestral(steps=3))

"""Buckets and streams: every sample equally often, one size per batch, a function of the seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import (
    BatchStream,
    Examples,
    SplitBatches,
    TokenDataset,
    bucket_batches,
    sample_sizes,
    with_fewer,
)
from discrete_diffusion.data.base import ExamplesOnDisk
from discrete_diffusion.data.batches import Permutation
from discrete_diffusion.data.graph_tokens import GraphDataset
from discrete_diffusion.layout import TokenLayout
from toy_graphs import graph_dataset, random_graphs


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return graph_dataset(random_graphs(600, seed=3), "random")


@pytest.mark.parametrize("seed", [None, 0])
def test_buckets_hold_every_row_once_and_mostly_one_size(seed):
    sizes = torch.randint(1, 6, (500,), generator=make_generator(1))
    batches = bucket_batches(sizes, 32, None if seed is None else make_generator(seed))
    assert torch.cat(batches).sort().values.tolist() == list(range(500))
    mixed = [b for b in batches if sizes[b].unique().numel() > 1]
    assert len(mixed) <= 5 * 31 / 32 + 1
    assert all(len(b) == 32 for b in batches if sizes[b].unique().numel() == 1 and len(b) > 31)
    assert max(map(len, batches)) == 32


class Sized(TokenDataset):
    """Samples that are known by their first id, of the sizes given."""

    def __init__(self, sizes: Sequence[int]) -> None:
        num, length = len(sizes), max(sizes)
        vocab_size = num + 2
        support = torch.ones(length, vocab_size, dtype=torch.bool)
        support[:, num:] = False
        self.layout = TokenLayout(support, mask_id=num, pad_id=num + 1)
        real = torch.arange(length) < torch.tensor(sizes).unsqueeze(1)
        x0 = torch.arange(num).unsqueeze(1).expand(num, length).masked_fill(~real, num + 1)
        none = Examples(x0[:0], real[:0])
        self.splits = {"train": Examples(x0, real), "val": none, "test": none}

    def real_positions(self, sizes):
        raise AssertionError("a stream does not ask for it")

    def summary(self):
        return "sized"


HISTOGRAMS = {
    "one of a size": [1, *[2] * 40, 3],
    "fewer than a batch of the largest": [*[1] * 40, *[2] * 33, *[5] * 7],
    "one batch in all": [2] * 9 + [3] * 7,
    "less than one batch": [2] * 5 + [3] * 6,
    "all of one size": [4] * 31,
    "every size once": list(range(1, 24)),
    "almost two batches": [1] * 20 + [6] * 11,
}


def shown(stream: BatchStream, epochs: int) -> list[list[int]]:
    """The samples of every batch of so many epochs."""
    return [batch.x0[:, 0].tolist() for _ in range(epochs) for batch in stream]


def counts_of(batches: list[list[int]], num: int) -> torch.Tensor:
    """How often each of ``num`` samples has been shown."""
    return torch.bincount(torch.tensor(batches).flatten(), minlength=num)


@pytest.mark.parametrize("sizes", HISTOGRAMS.values(), ids=HISTOGRAMS.keys())
@pytest.mark.parametrize(
    ("accumulate", "world_size", "on_disk"), [(1, 1, False), (2, 3, False), (2, 3, True)]
)
def test_every_sample_is_shown_equally_often(sizes, accumulate, world_size, on_disk):
    data = Sized(sizes)
    if on_disk:
        train = data.splits["train"]
        data.splits["train"] = ExamplesOnDisk(train.__getitem__, torch.tensor(sizes))
    options = {"batch_size": 16, "seed": 0, "accumulate": accumulate, "world_size": world_size}
    streams = [BatchStream(data, rank=rank, **options) for rank in range(world_size)]
    batches: list[list[int]] = []
    for epoch in range(1, 51):
        of_ranks = [shown(stream, 1) for stream in streams]
        batches += [batch for step in zip(*of_ranks, strict=True) for batch in step]
        counts = counts_of(batches, len(sizes))
        assert counts.max() - counts.min() <= 2
        passes = len(batches) * min(16, len(sizes)) / len(sizes)
        assert counts.min() >= math.floor(passes) - 1
        if passes >= 2:
            assert counts.min() > 0, f"epoch {epoch}"
    assert {len(batch) for batch in batches} == {min(16, len(sizes))}
    assert len(batches) % (50 * accumulate * world_size) == 0


@pytest.mark.parametrize("sizes", HISTOGRAMS.values(), ids=HISTOGRAMS.keys())
def test_a_round_has_few_batches_of_several_sizes_and_the_next_begins_with_the_others(sizes):
    stream, num = BatchStream(Sized(sizes), batch_size=4, seed=0), len(sizes)
    a_round = num // 4
    batches = shown(stream, 20)
    for k in range(0, len(batches) - 2 * a_round + 1, a_round):
        this, after = batches[k : k + a_round], batches[k + a_round : k + 2 * a_round]
        begun = k * 4 // num  # passes that were completed before this round
        unseen = counts_of(batches[: k + a_round], num) <= begun
        assert unseen.sum() == max(0, (begun + 1) * num - (k + a_round) * 4)
        assert set(unseen.nonzero().flatten().tolist()) <= set(chain(*after))
        mixed = [b for b in this if len({sizes[row] for row in b}) > 1]
        assert len(mixed) < len(set(sizes))


@pytest.mark.parametrize("num", [511, 300])
def test_no_two_samples_travel_together(num):
    """Samples meet in as many batches as chance would have it."""
    batches = shown(BatchStream(Sized([2] * num), batch_size=256, seed=0), 400)
    present = torch.stack([counts_of([batch], num).clamp(max=1) for batch in batches])
    with_first = present[present[:, 0] == 1][:, 1:].double().mean(dim=0)
    share = float(with_first.mean())
    error = (share * (1 - share) / int(present[:, 0].sum())) ** 0.5
    assert (with_first - share).abs().max() < 6 * error
    assert share == pytest.approx(255 / (num - 1), abs=0.12)  # less where two passes meet


def test_an_epoch_is_the_number_of_whole_steps_nearest_to_one_pass():
    data = Sized([3] * 100)

    def epoch(**options) -> int:
        return len(BatchStream(data, seed=0, **options))

    assert epoch(batch_size=32) == 3
    assert epoch(batch_size=30) == 3
    assert epoch(batch_size=28) == 4
    assert epoch(batch_size=100) == epoch(batch_size=1000) == epoch(batch_size=90) == 1
    assert epoch(batch_size=10, accumulate=4) == 8
    assert epoch(batch_size=10, accumulate=4, world_size=2) == 4
    assert epoch(batch_size=10, accumulate=100) == 100  # one step, of ten passes
    assert BatchStream(data, batch_size=10, accumulate=4, seed=0).steps_per_epoch == 2


def taken(stream: BatchStream, num: int) -> list[torch.Tensor]:
    """The tokens of the next batches, an epoch after the other."""
    found: list[torch.Tensor] = []
    while len(found) < num:
        for batch in stream:
            found.append(batch.x0)
            if len(found) == num:  # the consumer stops without asking for more
                break
    return found


def test_a_stream_goes_on_where_it_stood(dataset):
    """Also when the consumer stops after ``len`` batches without asking for more."""
    num = len(BatchStream(dataset, batch_size=64, seed=0))
    whole = taken(BatchStream(dataset, batch_size=64, seed=0), 3 * num)
    for stop in (0, 1, num - 1, num, num + 2):
        first = BatchStream(dataset, batch_size=64, seed=0)
        head = taken(first, stop)
        second = BatchStream(dataset, batch_size=64, seed=0)
        second.load_state_dict(first.state_dict())
        assert len(list(second)) == num
        second.load_state_dict(first.state_dict())
        tail = taken(second, len(whole) - stop)
        assert all(map(torch.equal, whole, head + tail))
    other = taken(BatchStream(dataset, batch_size=64, seed=1), num)
    assert not any(map(torch.equal, whole, other))


def test_ranks_share_the_batches_of_one_process(dataset):
    options = {"batch_size": 32, "seed": 0}
    whole = taken(BatchStream(dataset, **options), 24)
    for rank in range(2):
        own = BatchStream(dataset, rank=rank, world_size=2, accumulate=3, **options)
        assert all(map(torch.equal, whole[rank::2], taken(own, 12)))


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_a_stream_goes_on_with_more_or_fewer_ranks(dataset, before, after):

    def stream(ranks, rank=0):
        return BatchStream(dataset, batch_size=32, seed=0, rank=rank, world_size=ranks)

    whole = taken(stream(1), 40)
    for num in range(1, 2 * len(stream(before))):
        first = stream(before)
        taken(first, num)
        begin = num * before // after * after
        for rank in range(after):
            second = stream(after, rank)
            second.load_state_dict(first.state_dict())
            assert torch.equal(taken(second, 1)[0], whole[begin + rank])


def test_a_part_of_a_split_is_a_choice_that_the_seed_draws(dataset):

    def rows(seed: int, most: int | None = 5) -> list[int]:
        part = with_fewer(dataset, "train", most, seed).splits["train"]
        held = dataset.splits["train"].x0
        return [int((held == x0).all(dim=1).nonzero()[0]) for x0 in part.x0]

    found = [rows(seed) for seed in range(6)]
    assert len({tuple(each) for each in found}) == 6
    assert all(len(set(each)) == 5 for each in found)
    assert found[0] == [157, 203, 236, 301, 393]
    assert [len(rows(0, most)) for most in (1, 10**6, None)] == [1, 480, 480]


@pytest.mark.parametrize("world_size", [1, 2, 3, 64])
def test_even_shards_count_every_batch_once(dataset, world_size):
    """Also where there are fewer batches than ranks: those without one repeat another's."""
    options = {"batch_size": 16, "seed": 0}
    whole = [b.x0 for b in SplitBatches(dataset, "val", **options)]
    assert sum(map(len, whole)) == len(dataset.splits["val"])
    shards = [
        SplitBatches(dataset, "val", rank=r, world_size=world_size, **options)
        for r in range(world_size)
    ]
    assert {len(list(shard)) for shard in shards} == {-(-len(whole) // world_size)}
    counted = {
        k * world_size + r: batch.x0
        for r, shard in enumerate(shards)
        for k, batch in enumerate(shard)
        if shard.counts(k)
    }
    assert sorted(counted) == list(range(len(whole)))
    assert all(torch.equal(batch, counted[k]) for k, batch in enumerate(whole))


def test_sizes_follow_their_histogram(dataset):
    counts = dataset.size_counts()
    sizes = sample_sizes(counts, 50_000, make_generator(0))
    share = torch.bincount(sizes, minlength=len(counts)).double() / 50_000
    expected = torch.tensor(counts).double() / sum(counts)
    assert (share - expected).abs().max() < 0.01
    assert (share[expected == 0] == 0).all()


def test_errors_name_the_fix(dataset):
    with pytest.raises(ValueError, match="batch_size=0"):
        BatchStream(dataset, batch_size=0, seed=0)
    empty = graph_dataset(random_graphs(20), "given", fractions=(1, 0, 0))
    with pytest.raises(ValueError, match=r"the val split is empty; .* data\.split"):
        SplitBatches(empty, "val", batch_size=4, seed=0)
    stream = BatchStream(dataset, batch_size=32, seed=0)
    with pytest.raises(ValueError, match=r"earlier version.*init\.checkpoint"):
        stream.load_state_dict({"epoch": 1, "position": 3})


def test_a_permutation_has_everything_once_and_works_place_by_place():
    for num in (1, 2, 3, 4, 5, 63, 64, 65, 4097):
        found = Permutation(num, 3, 1)(torch.arange(num))
        assert found.sort().values.tolist() == list(range(num))
    places = torch.arange(1000)
    found = Permutation(1000, 5, 2)(places)
    assert torch.equal(found, Permutation(1000, 5, 2)(places))
    assert torch.equal(found[100:103], Permutation(1000, 5, 2)(places[100:103]))
    assert not torch.equal(found, Permutation(1000, 5, 3)(places))
    num = 10**12 + 39
    found = Permutation(num, 0)(torch.tensor([0, 1, num - 1]))
    assert len(found.unique()) == 3
    assert 0 <= int(found.min()) <= int(found.max()) < num


@pytest.mark.slow
def test_a_permutation_shuffles():
    """Of 400 seeds each of 8 places gets each of 8 values about 50 times, and neighbours part."""
    table = torch.stack([Permutation(8, seed)(torch.arange(8)) for seed in range(400)])
    counts = torch.stack([table[:, k].bincount(minlength=8) for k in range(8)]).double()
    chi_square = ((counts - 50).square() / 50).sum()
    assert chi_square < 49 + 5 * (2 * 49) ** 0.5
    beside = (table[:, 1:] - table[:, :-1] == 1).double().mean()
    assert abs(float(beside) - 1 / 8) < 5 * (1 / 8 * 7 / 8 / 2800) ** 0.5

"""Buckets and streams: every sample once, one size per batch, a function of the seed."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import BatchStream, bucket_batches, draw_sizes
from discrete_diffusion.data.bubble_diagrams import generate_plans
from discrete_diffusion.data.bubble_diagrams.dataset import DiagramDataset, split_by_diagram
from discrete_diffusion.data.bubble_diagrams.tokens import encode
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.layout import VocabConfig


@pytest.fixture(scope="module")
def dataset() -> DiagramDataset:
    diagrams = encode(generate_plans(600, seed=3))
    splits = split_by_diagram(diagrams, VOCAB, fractions=(0.8, 0.1, 0.1), seed=0)
    return DiagramDataset(splits, VOCAB, node_order="random")


@pytest.mark.parametrize("seed", [None, 0])
def test_buckets_hold_every_row_once_and_mostly_one_size(seed):
    sizes = torch.randint(1, 6, (500,), generator=make_generator(1))
    batches = bucket_batches(sizes, 32, None if seed is None else make_generator(seed))
    assert torch.cat(batches).sort().values.tolist() == list(range(500))
    mixed = [b for b in batches if sizes[b].unique().numel() > 1]
    assert len(mixed) <= 5 * 31 / 32 + 1
    assert all(len(b) == 32 for b in batches if sizes[b].unique().numel() == 1 and len(b) > 31)
    assert max(map(len, batches)) == 32


def test_stream_repeats_with_the_seed_and_changes_with_the_epoch(dataset):
    def epochs(seed: int) -> list[torch.Tensor]:
        stream = BatchStream(dataset, "train", batch_size=64, seed=seed)
        return [torch.cat([batch.x0 for batch in stream]) for _ in range(2)]

    first, again, other = epochs(0), epochs(0), epochs(1)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])


def test_a_stream_goes_on_where_it_stood(dataset):
    """Also when the consumer stops after ``len`` batches without asking for more."""

    def take(stream, num):
        iterator, taken = iter(stream), []
        for _ in range(num):
            taken.append(next(iterator).x0)
            if len(taken) % len(stream) == 0:
                iterator = iter(stream)
        return taken

    stream = BatchStream(dataset, "train", batch_size=64, seed=0)
    whole = take(BatchStream(dataset, "train", batch_size=64, seed=0), 2 * len(stream) + 3)
    for stop in (1, len(stream) - 1, len(stream), len(stream) + 2):
        first = BatchStream(dataset, "train", batch_size=64, seed=0)
        head = take(first, stop)
        second = BatchStream(dataset, "train", batch_size=64, seed=0)
        second.load_state_dict(first.state_dict())
        tail, iterator = [], iter(second)
        while len(head) + len(tail) < len(whole):
            for batch in iterator:
                tail.append(batch.x0)
            iterator = iter(second)
        assert all(map(torch.equal, whole, head + tail))


def test_validation_is_complete_and_the_same_every_time(dataset):
    stream = BatchStream(dataset, "val", batch_size=16, seed=0)
    first, second = ([batch.x0 for batch in stream] for _ in range(2))
    assert sum(map(len, first)) == len(dataset.splits["val"])
    assert all(map(torch.equal, first, second))
    assert len(stream) == len(first)


def test_ranks_share_the_batches_of_one_process(dataset):
    whole = list(BatchStream(dataset, "train", batch_size=32, seed=0))
    halves = [
        list(BatchStream(dataset, "train", batch_size=32, seed=0, rank=r, world_size=2))
        for r in range(2)
    ]
    assert len(halves[0]) == len(halves[1]) == len(whole) // 2
    for k, batch in enumerate(whole[: 2 * len(halves[0])]):
        assert torch.equal(batch.x0, halves[k % 2][k // 2].x0)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3), (3, 2), (1, 5)])
def test_a_stream_goes_on_with_more_or_fewer_ranks(dataset, before, after):
    """From any batch on, the epoch is finished and the next one follows; none begins anew."""

    def stream(ranks):
        return BatchStream(dataset, "train", batch_size=32, seed=0, rank=0, world_size=ranks)

    for taken in range(1, len(stream(before))):
        first, second = stream(before), stream(after)
        for _ in zip(range(taken), first, strict=False):
            pass
        second.load_state_dict(first.state_dict())
        rest = len(list(second)) if second.epoch == 0 else 0
        assert 0 <= (len(second) - rest) * after <= taken * before or rest == 0
        assert (len(second) - rest + 1) * after > taken * before
        assert second.epoch == 1
        assert len(list(second)) == len(second)


def test_an_epoch_of_steps_over_several_batches_has_whole_steps(dataset):
    def stream(**options):
        return list(BatchStream(dataset, "train", batch_size=32, seed=0, **options))

    plain, steps = stream(), stream(accumulate=4)
    assert len(plain) % 4
    assert len(steps) == len(plain) // 4 * 4
    assert all(torch.equal(a.x0, b.x0) for a, b in zip(plain, steps, strict=False))
    ranks = [stream(accumulate=2, rank=r, world_size=2) for r in range(2)]
    assert [len(rank) for rank in ranks] == [len(steps) // 2] * 2
    assert all(torch.equal(b.x0, ranks[k % 2][k // 2].x0) for k, b in enumerate(steps))
    assert len(stream(accumulate=1000)) == len(plain)  # no whole step: what there is


@pytest.mark.parametrize("world_size", [2, 3, 64])
def test_even_shards_count_every_batch_once(dataset, world_size):
    """Also where there are fewer batches than ranks: those without one repeat another's."""
    whole = [b.x0 for b in BatchStream(dataset, "val", batch_size=16, seed=0)]
    shards = [
        BatchStream(dataset, "val", batch_size=16, seed=0, rank=r, world_size=world_size, even=True)
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


def test_batches_move_and_count(dataset):
    batch = next(iter(BatchStream(dataset, "train", batch_size=8, seed=0)))
    moved = batch.to("cpu")
    assert len(moved) == 8
    assert torch.equal(moved.x0, batch.x0)
    assert torch.equal(moved.log_num_orders, batch.log_num_orders)


def test_sizes_follow_their_histogram(dataset):
    counts = dataset.size_counts()
    sizes = draw_sizes(counts, 50_000, make_generator(0))
    share = torch.bincount(sizes, minlength=len(counts)).double() / 50_000
    expected = torch.tensor(counts).double() / sum(counts)
    assert (share - expected).abs().max() < 0.01
    assert (share[expected == 0] == 0).all()


def test_errors_name_the_fix(dataset):
    with pytest.raises(ValueError, match="batch_size=0"):
        BatchStream(dataset, "train", batch_size=0, seed=0)
    with pytest.raises(ValueError, match=r"lower data\.batch_size"):
        BatchStream(dataset, "train", batch_size=512, seed=0, rank=1, world_size=2)
    diagrams = encode(generate_plans(20, seed=1))
    splits = split_by_diagram(diagrams, VOCAB, fractions=(1, 0, 0), seed=0)
    empty = DiagramDataset(splits, VOCAB, node_order="given")
    with pytest.raises(ValueError, match="the val split is empty"):
        BatchStream(empty, "val", batch_size=4, seed=0)


def test_an_epoch_left_early_goes_on_where_it_was_left(dataset):
    whole = [b.x0 for b in BatchStream(dataset, "train", batch_size=64, seed=0)]
    stream, parts = BatchStream(dataset, "train", batch_size=64, seed=0), []
    for batch in stream:
        parts.append(batch.x0)
        if len(parts) == 3:
            break
    parts += [batch.x0 for batch in stream]
    assert len(parts) == len(whole)
    assert all(map(torch.equal, whole, parts))
    validation = BatchStream(dataset, "val", batch_size=16, seed=0)
    first = next(iter(validation)).x0
    assert torch.equal(first, next(iter(validation)).x0)


def test_a_fingerprint_is_the_data_s_and_nothing_else_s(dataset):
    wide = VocabConfig(n_max=9)
    diagrams = encode(generate_plans(600, seed=3))

    def fingerprint(node_order="random", seed=0, diagrams=diagrams, vocab=VOCAB):
        splits = split_by_diagram(diagrams, vocab, fractions=(0.8, 0.1, 0.1), seed=seed)
        return DiagramDataset(splits, vocab, node_order=node_order).fingerprint()

    assert fingerprint() == dataset.fingerprint()
    others = [
        fingerprint(node_order="canonical"),
        fingerprint(seed=1),
        fingerprint(diagrams=encode(generate_plans(601, seed=3))),
        fingerprint(diagrams=encode(generate_plans(600, seed=3), wide), vocab=wide),
    ]
    assert len({dataset.fingerprint(), *others}) == 5
    assert all(len(f) == 16 and set(f) <= set("0123456789abcdef") for f in others)

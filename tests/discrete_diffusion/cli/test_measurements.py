"""What a run measures: all where that is cheap beside its training, else a share."""

from __future__ import annotations

import pytest

from discrete_diffusion.building.measurements import (
    Work,
    batches_of_epoch,
    samples_trained_on,
    with_measurements,
    with_terms,
)
from discrete_diffusion.cli import compose
from discrete_diffusion.training.run import build_run

DATA = {"num_train": 16_019, "num_held_out": 1_998}
PLANS = Work(trained=66.0, bounded=22.0, sampled=500.0)
"""Of small diagrams: 22 tokens, a call each."""
PAGES = Work(trained=3 * 1024.0, bounded=1024.0, sampled=1024.0**2)


def measured(*words: str, work: Work = PLANS) -> tuple[tuple[float, ...], list[str]]:
    """Samples drawn at the end, of the bound, drawn at validations; batches of one; the notes."""
    config, said = with_measurements(compose("train", words), **DATA, work=work)
    drawn = config.eval.num_samples, config.eval.num_held_out, config.callbacks.num_samples
    return (*drawn, config.trainer.limit_val_batches), said


@pytest.mark.parametrize(
    "words",
    [["trainer.max_steps=150"], ["trainer.max_steps=null", "trainer.max_epochs=3"]],
)
def test_a_run_for_which_it_is_cheap_measures_all(words):
    assert measured(*words) == ((1_000, 1_998, 200, 1.0), [])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["trainer.max_steps=2"], (20, 115, 16, 2)),
        (["trainer.max_steps=0"], (16, 64, 16, 2)),
        (["trainer.max_steps=25", "trainer.val_check_interval=5"], (253, 1_440, 21, 2)),
        (["trainer.max_steps=25", "trainer.accumulate_grad_batches=2"], (506, 1_998, 200, 1.0)),
        (["trainer.max_steps=-1", "trainer.max_epochs=1"], (634, 1_998, 200, 1.0)),
        (["data.batch_size=32", "trainer.max_steps=100"], (126, 720, 52, 37)),
    ],
)
def test_a_short_run_measures_its_share_and_says_so(words, expected):
    drawn, said = measured(*words)
    assert drawn == expected
    names = ("eval.num_samples", "eval.num_held_out", "callbacks.num_samples")
    whole = dict(zip((*names, "trainer.limit_val_batches"), (1_000, 1_998, 200, 1.0), strict=True))
    less = [key for key, num in zip(whole, drawn, strict=True) if num != whole[key]]
    assert [line.split(":")[0] for line in said] == less
    assert f"{expected[0]} of 1,000" in said[0]


def test_long_samples_are_drawn_by_their_work():
    """A sample of 1,024 tokens is a call for each of them: as much work as 341 of training."""
    page = ["data.batch_size=8"]
    (drawn, bound, at_validation, batches), _ = measured(*page, work=PAGES)
    assert (drawn, bound, at_validation, batches) == (21, 1_998, 1, 187)
    (drawn, bound, at_validation, batches), said = measured(
        *page, "trainer.max_steps=2", work=PAGES
    )
    assert (drawn, bound, at_validation, batches) == (0, 8, 0, 4)
    assert len(said) == 4
    assert [PAGES.num_tried(num) for num in (0, 200)] == [0, 0]
    assert [PLANS.num_tried(num) for num in (0, 2, 200)] == [0, 2, 4]


def test_a_number_that_is_given_is_obeyed():
    given = ["eval.num_samples=700", "eval.num_held_out=9", "callbacks.num_samples=0"]
    given += ["trainer.limit_val_batches=3"]
    assert measured("trainer.max_steps=2", *given, work=PAGES) == ((700, 9, 0, 3), [])


def test_batches_are_no_larger_than_the_data_and_nothing_held_out_is_no_work():
    config = compose("train", ["trainer.max_steps=1"])
    found, _ = with_measurements(config, num_train=1, num_held_out=0, work=PLANS)
    assert (found.eval.num_held_out, found.trainer.limit_val_batches) == (0, 1.0)
    config = compose("train", ["trainer.max_steps=10"])
    assert samples_trained_on(config, 100) == 1_000
    assert samples_trained_on(config) == 2_560


@pytest.mark.parametrize(("limit", "batches"), [(None, 10), (1.0, 10), (0.5, 5), (1, 1), (99, 10)])
def test_an_epoch_that_is_limited(limit, batches):
    """A whole number of batches or a share, as Lightning reads ``trainer.limit_train_batches``."""
    assert batches_of_epoch(10, limit) == batches
    words = ["trainer.max_epochs=3", "trainer.max_steps=-1", "data.batch_size=10"]
    words += [] if limit is None else [f"+trainer.limit_train_batches={limit}"]
    assert samples_trained_on(compose("train", words), 100) == 3 * batches * 10


def test_cells_are_measured_by_their_length():
    config, said = with_terms(compose("compare", ["trainer.max_steps=2"]))
    assert (config.eval.num_samples, config.num_held_out) == (16, 56)
    assert len(said) == 2
    config, said = with_terms(compose("compare", []))
    assert (config.eval.num_samples, config.num_held_out, said) == (1_000, 600, [])


@pytest.mark.slow
def test_batches_of_a_limited_validation_are_of_all_sizes():
    words = ["data.num_plans=600", "model=bd_tiny", "data.batch_size=8", "preflight=false"]
    built = build_run(compose("train", words), on_gpu=False)
    every, some = built.held_out(), built.validated(2)
    sizes, num = every.sizes.double(), len(every)
    assert (len(some), len(some.sizes)) == (2, 16)
    error = float(sizes.std()) / 16**0.5
    assert abs(float(some.sizes.double().mean() - sizes.mean())) < 2 * error
    assert float(sizes[:16].mean()) < float(sizes.mean()) - 2 * error  # the first of all batches
    ranks = [built.validated(2, rank=rank, world_size=2) for rank in range(2)]
    assert [len(each) for each in ranks] == [2, 2]
    assert len(ranks[0].sizes) == 32
    assert len(built.validated(0.5)) == num // 2
    assert [len(built.validated(limit)) for limit in (1.0, 0, 10**6)] == [num, num, num]

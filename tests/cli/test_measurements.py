"""What a run measures: all after a long training, a share of it after a short one."""

from __future__ import annotations

import pytest

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.measurements import (
    batches_of_epoch,
    samples_trained_on,
    with_measurements,
    with_terms,
)
from discrete_diffusion.cli.run import build_run

DATA = {"num_train": 16_019, "num_held_out": 1_998}


def measured(*words: str) -> tuple[tuple[int, int, int], list[str]]:
    """Samples drawn at the end, of the bound, drawn at validations; what is said."""
    config, said = with_measurements(compose("train", words), **DATA)
    drawn = config.eval.num_samples, config.eval.bound_samples, config.callbacks.num_samples
    return drawn, said


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["experiment=demo"],
        ["trainer.max_steps=125"],
        ["trainer.max_steps=null", "trainer.max_epochs=2"],
        ["trainer.max_steps=-1"],
    ],
)
def test_a_run_of_half_the_demo_or_more_measures_all(words):
    assert measured(*words) == ((1_000, 1_998, 200), [])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["trainer.max_steps=2"], (16, 64, 16)),
        (["trainer.max_steps=0"], (16, 64, 16)),
        (["trainer.max_steps=25"], (200, 400, 40)),
        (["trainer.max_steps=25", "trainer.accumulate_grad_batches=2"], (400, 799, 80)),
        (["trainer.max_steps=-1", "trainer.max_epochs=1"], (501, 1_000, 100)),
        (["experiment=demo", "trainer.max_steps=100"], (100, 200, 20)),
    ],
)
def test_a_short_run_measures_its_share_and_says_so(words, expected):
    drawn, said = measured(*words)
    assert drawn == expected
    assert [line.split(":")[0] for line in said] == [
        *("eval.num_samples", "eval.bound_samples", "callbacks.num_samples")
    ]
    assert f"{expected[0]} of 1,000" in said[0]


def test_a_number_that_is_given_is_obeyed():
    given = ["eval.num_samples=700", "eval.bound_samples=9", "callbacks.num_samples=0"]
    assert measured("trainer.max_steps=2", *given) == ((700, 9, 0), [])


def test_a_batch_is_no_larger_than_the_data():
    config = compose("train", ["trainer.max_steps=10"])
    assert samples_trained_on(config, 100) == 1_000
    assert samples_trained_on(config) == 2_560


@pytest.mark.parametrize(
    ("limit", "batches"), [(None, 10), (1.0, 10), (0.5, 5), (0.0, 0), (1, 1), (4, 4), (99, 10)]
)
def test_an_epoch_that_is_limited(limit, batches):
    """A whole number of batches or a share, as Lightning reads ``trainer.limit_train_batches``."""
    assert batches_of_epoch(10, limit) == batches
    words = ["trainer.max_epochs=3", "trainer.max_steps=-1", "data.batch_size=10"]
    words += [] if limit is None else [f"+trainer.limit_train_batches={limit}"]
    assert samples_trained_on(compose("train", words), 100) == 3 * batches * 10


def test_cells_are_measured_by_their_length():
    config, said = with_terms(compose("compare", ["trainer.max_steps=2"]))
    assert (config.eval.num_samples, config.bound_samples) == (16, 64)
    assert len(said) == 2
    config, said = with_terms(compose("compare", []))
    assert (config.eval.num_samples, config.bound_samples, said) == (1_000, 600, [])


@pytest.mark.slow
def test_batches_of_a_limited_validation_are_of_all_sizes():
    words = ["data.num_plans=600", "model=bd_tiny", "data.batch_size=8", "check_backbone=false"]
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

"""Held-out rows are hidden, predicted and filled, the same by whatever number of processes."""

from __future__ import annotations

import pytest
import torch
from toy_regions import SHARES, ChainModel, SpreadSampler, changed, toy_regions

from continuous_states.regions.row_scores import fill_held_out, sample_held_out_masks
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import Examples
from discrete_diffusion.sampling import Model
from fake_processes import in_processes

DATA = toy_regions()
NUM = SHARES["val"]
PARTS = ("steps", "batch_size", "shard")
"""Options that are of the model."""


def fill(algorithm=None, sampler=None, data=DATA, **options):
    parts = {"batch_size": 5} | {k: options.pop(k) for k in PARTS if k in options}
    model = Model(algorithm or ChainModel(), sampler, **parts)
    return fill_held_out(model, data, "val", **{"num": None, "mask_rate": 0.5, "seed": 1} | options)


@pytest.mark.parametrize("rate", [0.001, 0.4, 0.999])
def test_masks_hide_and_leave_a_row_of_every_window(rate):
    real = torch.arange(20) < torch.arange(1, 21).repeat(30)[:, None]
    masked = sample_held_out_masks(real, rate, make_generator(0))
    sizes, hidden = real.sum(dim=1), masked.sum(dim=1)
    assert not (masked & ~real).any()
    assert (hidden >= 1).all()
    assert (hidden < sizes)[sizes > 1].all()
    assert not sample_held_out_masks(real & False, rate, make_generator(0)).any()
    full = torch.ones(4000, 20, dtype=torch.bool)
    share = sample_held_out_masks(full, rate, make_generator(1)).double().mean()
    assert float(share) == pytest.approx(min(max(rate, 1 / 20), 19 / 20), abs=0.01)


def test_masks_are_a_function_of_the_generator_and_grow_with_the_rate():
    real = DATA.splits["train"].real
    few, many, again, other = (
        sample_held_out_masks(real, rate, make_generator(seed))
        for rate, seed in ((0.3, 0), (0.7, 0), (0.3, 0), (0.3, 1))
    )
    assert torch.equal(few, again)
    assert not torch.equal(few, other)
    assert (many | ~few).all()
    assert many.sum() > few.sum()
    for rate in (0, 1, float("nan")):
        with pytest.raises(ValueError, match=r"mask_rate=.*between 0 and 1"):
            sample_held_out_masks(real, rate, make_generator(0))


def test_a_filling_is_of_the_first_windows_in_their_order():
    algorithm = ChainModel()
    algorithm.train()
    filling = fill(algorithm, SpreadSampler(), num=7, steps=3)
    examples = DATA.splits["val"]
    assert torch.equal(filling.truth, examples.x0[:7])
    assert torch.equal(filling.real, examples.real[:7])
    assert algorithm.training
    assert filling.filled is not None
    assert filling.nfe.tolist() == [3] * 7
    assert filling.seconds > 0
    for rows in (filling.predicted, filling.filled):
        assert torch.equal(rows[~filling.masked], filling.truth[~filling.masked])
        assert not torch.equal(rows, filling.truth)
    expected = algorithm.eval().predict(filling.truth, filling.masked, filling.real)
    assert torch.allclose(expected, filling.predicted, atol=1e-6)


def test_windows_of_one_size_are_predicted_together():
    algorithm = ChainModel()
    found, other = fill(algorithm, batch_size=4), fill(batch_size=5)
    assert algorithm.calls == 3 * [(4, *DATA.splits["val"].x0.shape[1:])]
    assert (found.filled, found.nfe, found.seconds, len(found)) == (None, None, 0.0, NUM)
    assert torch.equal(found.masked, other.masked)  # whatever the size of batches
    assert torch.allclose(found.predicted, other.predicted, atol=1e-6)


def test_fillings_do_not_depend_on_the_number_of_processes():
    alone = fill(sampler=SpreadSampler())
    for found in in_processes(2, lambda shard: fill(sampler=SpreadSampler(), shard=shard)):
        for name in ("truth", "real", "masked", "predicted", "filled", "nfe"):
            assert torch.equal(getattr(found, name), getattr(alone, name)), name
    assert torch.equal(fill(sampler=SpreadSampler()).filled, alone.filled)
    assert not torch.equal(fill(sampler=SpreadSampler(), seed=2).filled, alone.filled)


class Cheat(ChainModel):
    """Returns whatever it is given."""

    def predict(self, rows, masked, real):
        return rows.clone()


def test_nobody_is_shown_the_hidden_rows():
    plain = fill(sampler=SpreadSampler())
    examples = DATA.splits["val"]
    moved = torch.where(plain.masked.unsqueeze(-1), examples.x0 + 9, examples.x0)
    data = changed(DATA, splits=DATA.splits | {"val": Examples(moved, examples.real)})
    other = fill(sampler=SpreadSampler(), data=data)
    assert not torch.equal(other.truth, plain.truth)
    assert torch.equal(other.predicted, plain.predicted)
    assert torch.equal(other.filled, plain.filled)
    assert (fill(Cheat(), data=data).predicted[plain.masked] == 0).all()

"""Samples for given conditions: in their order, by any number of processes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from continuous_states.evaluation import first_examples, sample_conditional, sampled_from_others
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.runtime import Shard, Stop
from discrete_diffusion.sampling import Model
from fake_processes import in_processes

CONDITIONS = {"y": torch.arange(11), "z": torch.arange(11) ** 2}
BATCHES = [torch.tensor(rows) for rows in ([4, 2], [10, 9, 8, 7], [0, 1, 3, 5], [6])]


def drawn(
    conditions=CONDITIONS, *, batches=BATCHES, seed=0, shard=None, algorithm=None, on_sampled=None
):
    model = Model(
        algorithm or nn.Identity(),
        None,
        batch_size=4,
        shard=shard or Shard(),
        on_sampled=on_sampled,
    )

    def draw(given, generator):
        assert not model.algorithm.training
        assert not torch.is_grad_enabled()
        noise = torch.rand(len(given["y"]), generator=generator)
        return {"known": 1000 * given["y"] + given["z"], "noise": noise}

    return sample_conditional(model, conditions, draw, batches=batches, entropy=(seed, 5))


@pytest.mark.parametrize("batches", [BATCHES, None], ids=["given", "made by size"])
def test_samples_are_in_the_order_of_their_conditions_with_noise_of_the_seed(batches):
    algorithm = nn.Identity().train()
    found = drawn(batches=batches, algorithm=algorithm)
    assert torch.equal(found.values["known"], 1000 * CONDITIONS["y"] + CONDITIONS["z"])
    assert len(found.values["noise"].unique()) == 11  # every batch has noise of its own
    assert found.seconds > 0
    assert algorithm.training
    others = drawn({name: values.roll(1) for name, values in CONDITIONS.items()}, batches=batches)
    assert torch.equal(others.values["noise"], found.values["noise"])
    assert torch.equal(others.values["known"], found.values["known"].roll(1))
    other_seed = drawn(seed=1, batches=batches)
    assert not torch.equal(other_seed.values["noise"], found.values["noise"])


def test_nothing_depends_on_the_number_of_processes():
    alone = drawn()
    for found in in_processes(3, lambda shard: drawn(shard=shard)):
        for name, values in alone.values.items():
            assert torch.equal(found.values[name], values)


@pytest.mark.parametrize(("finished", "num"), [(2, 0), (3, 6), (4, 11)])
def test_a_stop_leaves_the_samples_before_the_first_that_is_missing(finished, num):
    told = []

    def on_sampled(rows, drawn):
        told.append(rows)
        if len(told) == finished < len(BATCHES):
            raise Stop(2)

    if num == 0:
        with pytest.raises(Stop):
            drawn(on_sampled=on_sampled)
        return
    found = drawn(on_sampled=on_sampled)
    assert len(found) == num
    for name, values in drawn().values.items():
        assert torch.equal(found.values[name], values[:num])


def test_other_conditions_are_drawn_from_whole_or_not_at_all():
    def stop(model):
        raise Stop(2)

    alone = Model(nn.Identity(), None)
    with pytest.raises(Stop):
        sampled_from_others(alone, stop)
    keeping = Model(nn.Identity(), None, on_sampled=lambda rows, drawn: None)
    assert sampled_from_others(keeping, stop) is None
    assert sampled_from_others(keeping, lambda model: model.on_sampled) is None


class Numbers(Dataset):
    """Of a training and a validation split, the second one empty."""

    def __init__(self) -> None:
        x0 = torch.arange(6).reshape(3, 2)
        train = Examples(x0, x0 >= 0, conditions={"y": torch.arange(3)})
        self.splits = {"train": train, "val": train[:0]}

    def summary(self) -> str:
        return "numbers"


def test_the_first_samples_of_a_split():
    assert first_examples(Numbers(), "train", 2).conditions["y"].tolist() == [0, 1]
    for num, expected in ((0, 0), (9, 3), (None, 3)):
        assert len(first_examples(Numbers(), "train", num)) == expected
    with pytest.raises(ValueError, match=r"num=-1: .* at least 0"):
        first_examples(Numbers(), "train", -1)
    with pytest.raises(ValueError, match="the val split is empty"):
        first_examples(Numbers(), "val", None)
    with pytest.raises(ValueError, match=r"batch_size=0: .* at least 1"):
        Model(nn.Identity(), None, batch_size=0)

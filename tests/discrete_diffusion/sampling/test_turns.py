"""Groups in turn: all rooms before any relation."""

from __future__ import annotations

import pytest
import torch

from toy_samplers import bd3lm, draw_from
from toy_world import FULL, LENGTH, MASK, PADDED, toy_layout

CHOOSING = ("confidence", "margin", "entropy", "entropy-bounded")


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("sampler", CHOOSING)
def test_a_group_is_full_before_the_next_begins(sampler, real):
    """Whatever the score, and even where one call could reveal everything."""
    wide = {"budget": 9.0} if sampler == "entropy-bounded" else {"tokens_per_call": 3}
    group = toy_layout().group
    for options in ({}, wide):
        output = draw_from(
            "mdlm",
            sampler,
            300,
            real=real,
            keep_trajectory=True,
            groups_in_turn=True,
            **options,
        )
        visible = (output.trajectory != MASK) & real
        edges_begun = visible[:, :, group == 1].any(dim=2)
        assert edges_begun.any()
        assert visible[:, :, group == 0][edges_begun].all()
        if options:
            assert (output.nfe == 2).all()
    assert draw_from("mdlm", sampler, 300, **wide).nfe.tolist() == [1] * 300


def test_without_turns_the_score_alone_decides():
    """On this world the margin does not always put the first group first."""
    output = draw_from("mdlm", "margin", 300, keep_trajectory=True)
    first = output.trajectory[1] != MASK
    assert first[:, 1:].any()


def test_steps_are_per_group():
    """As for blocks: as many calls at most for each."""
    for steps in (1, 2):
        output = draw_from("mdlm", "margin", 20, steps=steps, groups_in_turn=True)
        assert output.nfe.tolist() == [steps + 1] * 20  # one room, two relations
    by_block = draw_from(bd3lm(), "first-hitting", 20, steps=1)
    assert by_block.nfe.tolist() == [2] * 20


def test_given_groups_cost_no_turn():
    clamp = torch.tensor([1, -1, -1])
    output = draw_from("mdlm", "entropy", 20, clamp=clamp, groups_in_turn=True)
    assert output.nfe.tolist() == [LENGTH - 1] * 20
    clamp = torch.tensor([-1, 2, 3])
    output = draw_from("mdlm", "entropy", 20, clamp=clamp, groups_in_turn=True)
    assert output.nfe.tolist() == [1] * 20

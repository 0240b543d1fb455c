"""The benchmark of the loss over many ids measures the same loss twice."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch

from discrete_diffusion.algorithms import many_ids
from discrete_diffusion.categorical import make_generator
from record import Part, Record
from vocabulary import ALGORITHMS, WAYS, algorithm_of, data, loss_taken, measured, sections

SIZES = {"vocab_size": 2048, "length": 128, "batch_size": 2, "repeats": 1}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_both_ways_give_one_loss(name):
    algorithm, batch = algorithm_of(name, 600, 16), data(600, 16, 2)
    losses = []
    for way in WAYS:
        with loss_taken(way):
            losses.append(algorithm.loss(batch, make_generator(0)).loss)
    torch.testing.assert_close(*losses, rtol=1e-5, atol=0)
    assert many_ids.MANY_IDS < 2**62


def test_a_table_of_what_is_measured():
    """The chunked loss takes less memory here, too."""
    found = {"mdlm": measured(Namespace(**SIZES), "mdlm")}
    assert found["mdlm"]["chunked"]["peak_mib"] < found["mdlm"]["plain"]["peak_mib"]
    results = {**SIZES, "threads": 1, "algorithms": found}
    (where, text) = next(iter(sections(Record("vocabulary", "c", 0, "h", results)).items()))
    assert where == (Part.SPEED, "vocabulary")
    assert [row.split(" |")[0] for row in text.splitlines()[-2:]] == [
        "| mdlm, plain",
        "| mdlm, chunked",
    ]

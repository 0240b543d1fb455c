"""Benchmarks on text: networks of one function, losses over many ids, a step of GPT-2's size."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch

import base_text
import vocabulary
from base_text import IDS, LENGTH
from discrete_diffusion.algorithms import many_ids
from discrete_diffusion.categorical import make_generator
from record import Part, Record
from speed_text import LENGTHS, NETWORKS, model_of, text_table
from vocabulary import WAYS, algorithm_of, data, loss_taken


@pytest.mark.parametrize("name", list(NETWORKS))
def test_all_give_the_logits_and_the_gradients_of_the_network(name):
    found = {}
    for each in ("`dit`", name):
        algorithm = model_of(each, 12, 3, torch.device("cpu")).algorithm
        backbone = algorithm.backbone
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in backbone.parameters():
                parameter.normal_(std=0.2)
        x_t = torch.randint(0, 101, (3, 12), generator=torch.Generator().manual_seed(2))
        logits = backbone(x_t, torch.tensor([0.1, 1.0, 4.0]))
        logits[..., :101].square().sum().backward()
        gradients = [parameter.grad for parameter in backbone.parameters()]
        found[each] = logits.detach(), gradients
    (expected, wanted), (logits, gradients) = found["`dit`"], found[name]
    assert float(expected[..., :101].std()) > 0.1
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert len(gradients) == len(wanted) > 30
    for ours, theirs in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3 * float(theirs.abs().max()))


def test_the_table_has_a_row_for_each():
    ratio = {"median": 1.5, "low": 1.25, "high": 2.0}
    rows = [
        {
            "length": length,
            "batch": num,
            "work": work,
            "name": name,
            "per_cpu_second": 3.0,
            "per_cpu_second_ratio": ratio,
            "share_of_products": 0.42,
        }
        for length, num in LENGTHS
        for work in ("training_step", "network_call")
        for name in NETWORKS
    ]
    found = {"repeats": 3, "clock": "CPU-second", "rows": rows, "product_rate": {"float32": 8.2e10}}
    said = text_table(found)
    cells = "| 3.0 | 1.50 (1.25 to 2.00) | 42 |"
    lines = said.splitlines()
    assert sum(line.endswith(f"{cells}{cells[1:]}") for line in lines) == 6
    assert "82 GFLOP/s" in lines[0]


SIZES = {"vocab_size": 2048, "length": 128, "batch_size": 2, "repeats": 1}


@pytest.mark.parametrize("name", vocabulary.ALGORITHMS)
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
    found = {"mdlm": vocabulary.measured(Namespace(**SIZES), "mdlm")}
    assert found["mdlm"]["chunked"]["peak_mib"] < found["mdlm"]["plain"]["peak_mib"]
    results = {**SIZES, "threads": 1, "algorithms": found}
    (where, text) = next(
        iter(vocabulary.sections(Record("vocabulary", "c", 0, "h", results)).items())
    )
    assert where == (Part.SPEED, "vocabulary")
    assert [row.split(" |")[0] for row in text.splitlines()[-2:]] == [
        "| mdlm, plain",
        "| mdlm, chunked",
    ]


def test_a_table_of_calls_of_samplers():
    found = vocabulary.measured_samples(Namespace(**SIZES), "dit_tiny")
    assert all(one["tokens_per_call"] >= 1 for one in found.values())
    results = {**SIZES, "threads": 1, "samplers": {"dit_tiny": found}}
    (text,) = vocabulary.sections(Record("vocabulary_samples", "c", 0, "h", results)).values()
    assert [row.split(" |")[0] for row in text.splitlines()[-2:]] == [
        "| dit_tiny, entropy-bounded, order=entropy",
        "| dit_tiny, confidence",
    ]


GIVEN = Namespace(
    device="cpu",
    model="dit_base",
    batch_size=1,
    bfloat16=False,
    compile=None,
    at_once=None,
    repeats=1,
    quick=True,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", base_text.ALGORITHMS)
def test_a_step_is_measured(name):
    found = base_text.measured(name, GIVEN)
    assert found["parameters"] > 2 * 16 * IDS  # embedding and head of the small network
    assert found["tokens_per_second"] == pytest.approx(32 / found["seconds"])
    assert 0 < found["share_of_products"] < 1
    assert found["peak_mib"] > 100


def test_the_table_says_what_was_measured():
    one = {"parameters": 1_000, "seconds": 0.25, "tokens_per_second": 4096.0, "peak_mib": 2048.0}
    one |= {"share_of_products": 0.5, "product_rate": 2e12}
    results = {"device": "cuda", "batch_size": 1, "bfloat16": True, "threads": 1}
    results["algorithms"] = {"mdlm": one}
    ((place, text),) = base_text.sections(
        Record("base_text_cuda", "command", 0, "a GPU", results)
    ).items()
    assert place == (Part.SPEED, "base_text_cuda")
    assert "| `mdlm` | 0.250 | 4,096 | 2.0 | 50 |" in text
    assert f"1 samples of {LENGTH:,} positions, bfloat16" in text
    assert "thread" not in text

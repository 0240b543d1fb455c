"""The benchmark of a network of the size of GPT-2 small, on a small one."""

from __future__ import annotations

from argparse import Namespace

import pytest

from base_text import ALGORITHMS, IDS, LENGTH, measured, sections
from record import Part, Record

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
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_is_measured(name):
    found = measured(name, GIVEN)
    assert found["parameters"] > 2 * 16 * IDS  # embedding and head of the small network
    assert found["tokens_per_second"] == pytest.approx(32 / found["seconds"])
    assert 0 < found["share_of_products"] < 1
    assert found["peak_mib"] > 100


def test_the_table_says_what_was_measured():
    one = {"parameters": 1_000, "seconds": 0.25, "tokens_per_second": 4096.0, "peak_mib": 2048.0}
    one |= {"share_of_products": 0.5, "product_rate": 2e12}
    results = {"device": "cuda", "batch_size": 1, "bfloat16": True, "threads": 1}
    results["algorithms"] = {"mdlm": one}
    ((place, text),) = sections(Record("base_text_cuda", "command", 0, "a GPU", results)).items()
    assert place == (Part.SPEED, "base_text_cuda")
    assert "| `mdlm` | 0.250 | 4,096 | 2.0 | 50 |" in text
    assert f"1 samples of {LENGTH:,} positions, bfloat16" in text
    assert "thread" not in text

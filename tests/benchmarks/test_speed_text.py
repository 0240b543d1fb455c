"""The networks that ``dit`` is compared with on text: the same function of the same weights."""

from __future__ import annotations

import pytest
import torch

from speed_text import LENGTHS, NETWORKS, model_of, text_table


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

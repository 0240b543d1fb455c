"""Where the time of a training step goes, by kind of operation, as ``speed.py`` measures it."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from speed_variants import Plans, Trainee, Variant

KINDS = {
    "matrix products": r"(add)?mm|(badd)?bmm|.*convolution.*",
    "attention": r".*scaled_dot_product.*|.*softmax.*",
    "GELU": r"gelu.*",
    "layer norm": r".*layer_norm.*",
    "dropout": r".*dropout.*|bernoulli.*",
    "copies": r"copy_|cat|clone|.*pad.*|fill_|zero_",
    "optimiser and clipping": r".*adamw.*|.*foreach.*|.*vector_norm.*",
}
"""Kind -> the names of PyTorch's operations, without ``aten::``; the first that fits counts."""

REST = "elementwise and the rest"


def profiles(
    variants: list[Variant], plans: Plans, device: torch.device, *, steps: int, seed: int
) -> dict[str, Any]:
    """Milliseconds of an average step by kind of operation, for each variant; ``device`` a CPU."""
    rows = []
    for variant in variants:
        trainee = Trainee(variant, plans, device, seed)
        batches = trainee.rows(0, steps)
        trainee.train(batches[:2])
        with profile(activities=[ProfilerActivity.CPU]) as found:
            trainee.train(batches)
        spent = dict.fromkeys([*KINDS, REST], 0.0)
        for event in found.key_averages():
            spent[kind_of(event.key)] += event.self_cpu_time_total / 1e3 / len(batches)
        rows.append({"name": variant.name, "milliseconds": spent})
        print(rows[-1], flush=True)
    return {"steps": steps, "batch_size": plans.batch_size, "rows": rows}


def kind_of(name: str) -> str:
    """The kind of an operation, e.g. of ``aten::addmm``."""
    short = name.lower().removeprefix("aten::")
    return next((kind for kind, names in KINDS.items() if re.fullmatch(names, short)), REST)

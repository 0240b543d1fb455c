"""What sampling with ``bd3lm`` costs when finished blocks are computed once, and all in every call.

    python benchmarks/speed_blocks.py [--models dit_tiny dit_small] [--all dit_tiny] [--repeats 2]

Eight samples of 512 tokens of untrained models with random weights, ``first-hitting``, one thread;
``autoregressive`` for comparison. ``--all``: models that also compute all columns in every call.
The tokens of both must be equal. Writes ``benchmarks/results/speed_blocks.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from clock import Spent, interleaved, rates, ratio_words, timed
from discrete_diffusion.algorithms import TokenAlgorithm, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.partial_samples import PartialSamples
from record import Part, Record, Sections, command_line, markdown_table, publish, typed

NUM, LENGTH, NUM_IDS, SEED = 8, 512, 102, 0
AR = "autoregressive"
BLOCKS = (4, 16, 64)
DATA = (
    "data=text",
    "data.token_unit=ids",
    f"data.vocab_size={NUM_IDS}",
    f"data.length={LENGTH}",
    f"data.mask_id={NUM_IDS - 1}",
)


def built(model: str, block: int | None) -> TokenAlgorithm:
    """An untrained model with blocks of so many positions; None: an autoregressive one."""
    words = ["algo=ar"] if block is None else ["algo=bd3lm", f"algo.block_size={block}"]
    config = compose("train", [*DATA, *words, "algo.backbone=dit", f"model={model}"])
    algorithm, generator = build_algorithm(config).eval(), make_generator(SEED)
    assert isinstance(algorithm, TokenAlgorithm)
    with torch.no_grad():
        for parameter in algorithm.parameters():
            parameter.normal_(generator=generator)
            parameter.div_(parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1)
    return algorithm


def measured(model: str, repeats: int, whole: bool) -> list[dict[str, Any]]:
    """A row for each way to sample; ``whole``: also with all columns in every call."""
    real = torch.ones(NUM, LENGTH, dtype=torch.bool)
    drawn: dict[str, Tensor] = {}

    def sample(name: str, sampler: str, algorithm: TokenAlgorithm, all_: bool) -> int:
        with patch.object(PartialSamples, "keeps_blocks", False) if all_ else nullcontext():
            request = {"generator": make_generator(SEED)}
            drawn[name] = build_sampler({"name": sampler}).sample(algorithm, real, **request).x0
        return NUM

    def way(*given: Any) -> Callable[[int], Spent]:
        return lambda repeat: timed(partial(sample, *given), torch.device("cpu"))

    ways = {AR: way(AR, AR, built(model, None), False)}
    for block in BLOCKS:
        algorithm = built(model, block)
        for all_ in (False, True) if whole else (False,):
            name = f"blocks of {block}" + ", all columns" * all_
            ways[name] = way(name, "first-hitting", algorithm, all_)
    spent = interleaved(ways, repeats)
    rows = []
    for name, found in spent.items():
        other = f"{name}, all columns"
        row = {"model": model, "name": name, "cpu_seconds": median(one.cpu for one in found)}
        if other in spent:
            assert torch.equal(drawn[name], drawn[other]), f"{name}: other tokens"
            row["ratio"] = rates(found, spent[other])["per_cpu_second_ratio"]
        row["ratio_to_ar"] = rates(spent[AR], found)["per_cpu_second_ratio"]
        rows.append(row)
    return rows


def sections(record: Record) -> Sections:
    head = ["model", "sampling", "CPU-seconds", "times as fast as with all columns", "AR = 1"]
    rows = [
        [
            row["model"],
            row["name"],
            f"{row['cpu_seconds']:.2f}",
            ratio_words(row["ratio"]) if "ratio" in row else "",
            ratio_words(row["ratio_to_ar"]),
        ]
        for row in record.results["rows"]
    ]
    facts = (
        f"{NUM} samples of {LENGTH} tokens, {NUM_IDS} ids, float32, one thread: medians of "
        f"{record.results['repeats']} repeats, ratios within a repeat with the lowest and the "
        "highest. The tokens are equal with and without the cache."
    )
    return {(Part.SPEED, "speed blocks"): f"{facts}\n\n{markdown_table(head, rows, left=2)}"}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--models", nargs="+", default=["dit_tiny", "dit_small"])
    parser.add_argument("--all", nargs="*", default=["dit_tiny"])
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [
        row for model in given.models for row in measured(model, given.repeats, model in given.all)
    ]
    results = {"repeats": given.repeats, "rows": rows}
    publish("speed_blocks", command=typed(), seed=SEED, results=results)


if __name__ == "__main__":
    main()

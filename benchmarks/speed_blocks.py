"""What sampling with ``bd3lm`` costs when finished blocks are computed once, and all in every call.

    python benchmarks/speed_blocks.py [--models dit_tiny dit_small] [--all dit_tiny] [--repeats 2]
    python benchmarks/speed_blocks.py --call dit_tiny dit_small

Eight samples of 512 tokens of untrained models with random weights, ``first-hitting``, one thread;
``autoregressive`` for comparison. ``--all``: models that also compute all columns in every call.
The tokens of both must be equal. Writes ``benchmarks/results/speed_blocks.json``. ``--call``
measures one call for a token of the block in the middle, and the memory of the cache, with the ids
of GPT-2, and writes ``speed_blocks_call.json``.
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

from clock import MIB, Spent, interleaved, rates, ratio_words, timed
from discrete_diffusion.algorithms import TokenAlgorithm, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.partial_samples import PartialSamples
from record import Part, Record, Sections, command_line, markdown_table, publish, typed

NUM, LENGTH, NUM_IDS, SEED = 8, 512, 102, 0
AR, CALL = "autoregressive", "speed_blocks_call"
BLOCKS = (4, 16, 64)
GPT2_IDS, GPT2_LENGTH = 50_258, 1024
"""GPT-2's ids and MASK, and positions."""


def built(
    model: str, block: int | None, num_ids: int = NUM_IDS, length: int = LENGTH
) -> TokenAlgorithm:
    """An untrained model with blocks of so many positions; None: an autoregressive one."""
    words = ["algo=ar"] if block is None else ["algo=bd3lm", f"algo.block_size={block}"]
    words += ["data=text", "data.token_unit=ids", f"data.vocab_size={num_ids}"]
    words += [f"data.length={length}", f"data.mask_id={num_ids - 1}"]
    config = compose("train", [*words, "algo.backbone=dit", f"model={model}"])
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


def of_a_call(model: str, block: int, repeats: int) -> dict[str, Any]:
    """CPU-milliseconds of a call that predicts one token of the block in the middle of each sample,
    with all columns and with the cache; mebibytes of the cache."""
    algorithm = built(model, block, GPT2_IDS, GPT2_LENGTH)
    real, middle = torch.ones(NUM, GPT2_LENGTH, dtype=torch.bool), GPT2_LENGTH // 2
    clamp, generator = torch.full(real.shape, -1), make_generator(SEED)
    samples = PartialSamples.start(algorithm, real, clamp, generator)
    samples.x[:, :middle] = torch.randint(GPT2_IDS - 1, (NUM, middle), generator=generator)
    here = torch.arange(GPT2_LENGTH).expand(NUM, -1) == middle
    rows, t = torch.arange(NUM), torch.full((NUM,), 0.5, dtype=torch.float64)
    sampler, found = build_sampler({"name": "first-hitting"}), {}

    def call() -> int:
        found["log_d0"] = sampler.log_d0(samples, rows, t, here)  # type: ignore[attr-defined]
        return NUM

    row: dict[str, Any] = {"model": model, "block": block}
    for kept in (False, True):
        with (
            torch.no_grad(),
            nullcontext() if kept else patch.object(PartialSamples, "keeps_blocks", False),
        ):
            call()
            spent = [timed(call, torch.device("cpu")).cpu for _ in range(repeats)]
            row["kept" if kept else "all"] = 1000 * median(spent)
        drawn = found["log_d0"].exp()
        other = found.setdefault("other", drawn)
        assert torch.allclose(drawn, other, atol=1e-5), "other predictions"
    layers = samples.readers[0].caches[0].layers
    return {**row, "mib": sum(layer._kept.nbytes for layer in layers) / MIB}


def sections(record: Record) -> Sections:
    if record.name == CALL:
        lines = [
            [
                row["model"],
                str(row["block"]),
                f"{row['all']:,.1f}",
                f"{row['kept']:.1f}",
                f"{row['mib']:.0f}",
            ]
            for row in record.results["rows"]
        ]
        said = (
            f"One call for a token of each of {NUM} samples of {GPT2_LENGTH:,} positions, half of "
            f"them finished; {GPT2_IDS:,} ids, random weights, float32, one thread; medians of "
            f"{record.results['repeats']} calls. The last layer is applied at the {NUM} positions "
            "that are read, either way."
        )
        table = ("model", "block", "all columns, CPU-ms", "cache, CPU-ms", "cache, MiB")
        return {(Part.SPEED, CALL): f"{said}\n\n{markdown_table(table, lines)}"}
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
    parser.add_argument("--call", nargs="+", metavar="MODEL", help="one call of these alone")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.call:
        found = [of_a_call(model, block, 3) for model in given.call for block in BLOCKS]
        publish(CALL, command=typed(), seed=SEED, results={"repeats": 3, "rows": found})
        return
    rows = [
        row for model in given.models for row in measured(model, given.repeats, model in given.all)
    ]
    results = {"repeats": given.repeats, "rows": rows}
    publish("speed_blocks", command=typed(), seed=SEED, results=results)


if __name__ == "__main__":
    main()

"""What models of one text are worth: bounds, exact likelihood, and samples under a judge.

    python benchmarks/text_worth.py NAME FOLDER [FOLDER ...] [--num 60] [--orders 4] [--samples 64]
        [--threads 1]

Of every model in folders that ``discrete-diffusion compare`` made of one text by one tokenizer,
such as ``compare.py letters FILE --folder FOLDER`` keeps; that of ``algo=ar`` judges all samples.
Writes ``benchmarks/results/text_worth_NAME.json`` and its section of the docs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from record import Part, Record, Sections, command_line, markdown_table, publish, typed
from runs import evaluate

JUDGE = "ar"
ORDER = "left-to-right"
MASKED = ("mdlm", "meld", "sedd", "bd3lm")
"""Algorithms of masks alone: of other noise there is neither a bound of orders nor a -log p."""

HEAD = (
    "algorithm",
    "bound",
    "bound, {} orders",
    f"-log p, `{ORDER}`",
    "samples under the judge",
    "entropy",
    "distinct-1/2",
    "calls",
)


def measure(cell: Path, judge: Path, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """What ``evaluate`` says of one model; numbers of samples are of the judge's reading."""
    config = OmegaConf.load(cell / "config.yaml")
    words = [f"checkpoint={cell / 'checkpoints' / 'last.ckpt'}", f"num_held_out={given.num}"]
    words += [
        f"perplexity_model={judge / 'checkpoints' / 'last.ckpt'}",
        f"num_samples={given.samples}",
    ]
    words += [f"threads={given.threads}", "noise_samples=64"]
    if config.algo.name in MASKED:
        words += [f"num_orders={given.orders}", f"likelihood_order={ORDER}"]
    found = evaluate(folder, *words)
    kept = (
        *("nelbo_plain", "nelbo_standard_error", "bits_per_byte", "gen_bits_per_byte"),
        *("unigram_entropy", "distinct_1", "distinct_2", "network_calls_per_sample"),
        *("nelbo_by_orders", "nll_plain_left_to_right"),
        *("nll_plain_left_to_right_standard_error", "num_held_out", "num_samples"),
        *("gen_bits_per_byte_real_data", "unigram_entropy_real_data"),
        *("distinct_1_real_data", "distinct_2_real_data"),
    )
    block = config.algo.get("block_size") if config.algo.name == "bd3lm" else None
    row = {key: found[key] for key in kept if key in found}
    return {"algorithm": config.algo.name, "block_size": block, **row}


def sections(record: Record) -> Sections:
    found = record.results
    first = found["rows"][0]
    about = (
        f"bits per byte of {first['num_held_out']} held-out "
        f"windows, the same for all, ± a standard error over them; {first['num_samples']} samples "
        f"of each by its default sampler, read by the model of `{JUDGE}`."
    )
    head = [each.format(found["orders"]) for each in HEAD]
    real = ("held-out text", "", "", "", *_texts(first, "_real_data"), "")
    table = markdown_table(head, [real, *map(_of_a_model, found["rows"])])
    return {(Part.TEXT, record.name): f"{about}\n\n{table}"}


def _of_a_model(row: dict[str, Any]) -> tuple[str, ...]:
    """Cells of one model."""
    name, is_judge = f"`{row['algorithm']}`", row["algorithm"] == JUDGE
    if row["block_size"] is not None:
        name += f", blocks of {row['block_size']}"
    bound = _bits(row, row["nelbo_plain"], row["nelbo_standard_error"])
    of_orders, exact = "", bound if is_judge else ""
    if "nelbo_by_orders" in row:
        by = row["nelbo_by_orders"]
        of_orders = _bits(row, by["nelbo"][-1], by["standard_error"][-1])
        error = row["nll_plain_left_to_right_standard_error"]
        exact = _bits(row, row["nll_plain_left_to_right"], error)
    calls = f"{row['network_calls_per_sample']:.0f}"
    return (name, "" if is_judge else bound, of_orders, exact, *_texts(row), calls)


def _bits(row: dict[str, Any], nats: float, error: float) -> str:
    """Nats of all of the text as bits per byte."""
    scale = row["bits_per_byte"] / row["nelbo_plain"]
    return f"{scale * nats:.3f} ± {scale * error:.3f}"


def _texts(row: dict[str, Any], suffix: str = "") -> tuple[str, str, str]:
    """What the judge reads in samples, or in real text, and how varied the words are."""
    distinct = "/".join(f"{row[f'distinct_{n}{suffix}']:.2f}" for n in (1, 2))
    return (
        f"{row[f'gen_bits_per_byte{suffix}']:.3f}",
        f"{row[f'unigram_entropy{suffix}']:.3f}",
        distinct,
    )


def main() -> None:
    parser = command_line(__doc__, threads=1)
    parser.add_argument("name", help="of the results")
    parser.add_argument("folders", nargs="+", type=Path, help="that compare made")
    parser.add_argument("--num", type=int, default=60, help="held-out windows")
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument("--samples", type=int, default=64)
    given = parser.parse_args()
    cells = [cell.absolute() for each in given.folders for cell in sorted(each.glob("cells/*"))]
    judge = next((cell for cell in cells if cell.name.startswith(f"{JUDGE}-")), None)
    if judge is None:
        parser.error(f"no folder has a model of algo={JUDGE}, the judge of the samples")
    cells.sort(key=lambda cell: cell != judge)
    with tempfile.TemporaryDirectory() as scratch:
        rows = [measure(cell, judge, Path(scratch) / f"{k}", given) for k, cell in enumerate(cells)]
    results = {"orders": given.orders, "rows": rows}
    publish(f"text_worth_{given.name}", command=typed(), seed=0, results=results)


if __name__ == "__main__":
    main()

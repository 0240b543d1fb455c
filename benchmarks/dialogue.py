"""Summaries of dialogues through latent vectors: the recipe several times, and its choices.

    python benchmarks/dialogue.py [--seeds 3] [--threads 1] [--runs runs/dialogue] [--quick]

Writes ``benchmarks/results/dialogue.json`` and its tables in the docs. Everything is measured on
the test split, of which nothing is chosen. Runs are kept in ``--runs``; one that is there and whole
is measured again and not made again. ``--quick`` makes a few steps of everything in a temporary
folder and writes nothing.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from continuous_states.dialogue.summaries import (
    Summaries,
    score_summarising,
    source_gap,
    summarise_held_out,
)
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.domains import build_data
from discrete_diffusion.sampling import Model, build_sampler
from record import Part, Record, Sections, command_line, markdown_table, percent, publish
from runs import facts, kept_run

EXPERIMENT = "experiment=dialogue"
VARIANTS: dict[str, tuple[str, ...]] = {
    "as the recipe": (),
    "mean pooling": ("model.pool=mean",),
    "cross-entropy alone": ("algo.latent_weight=0",),
    "squared error without InfoNCE": ("algo.infonce_weight=0",),
}
SEVERAL = ("as the recipe", "mean pooling")
"""Variants that are run with every seed; the others with the first."""

BATCH = 256
SHORT_RUN = (
    *("trainer.max_steps=2", "trainer.val_check_interval=2", "data.num_samples=400"),
    *("callbacks.num_samples=2", "eval.num_samples=2"),
)


def measure(folder: Path) -> tuple[Summaries, dict[str, float]]:
    """The averaged weights of the last step on the whole test split."""
    checkpoint = read_checkpoint(folder / "checkpoints" / "last.ckpt")
    data = build_data(checkpoint.config)
    model = Model(checkpoint.algorithm, build_sampler(checkpoint.config), batch_size=BATCH)
    found = summarise_held_out(model, data, "test", num=None, seed=0)
    gap = source_gap(
        model, data, "test", torch.arange(len(data.pairs["test"])), draws=1, entropy=(0,)
    )
    return found, {**score_summarising(found, data), **gap.as_dict()}


def table(results: dict[str, Any], hardware: str) -> str:
    """What is known without a network, then a line for every run."""
    heads = ("nats per token", "of another dialogue", "ROUGE-L", "of another dialogue")
    heads += ("exact match", "slots", "day and part of it", "CPU-minutes", "parameters")
    rows, first = [], results["runs"][0]["test"]
    for key, said in (("most_frequent", "most frequent summary"), ("another", "another summary")):
        cells = [said, "", "", "", f"{first[f'{key}_rouge_l']:.3f}", ""]
        cells += [percent(first[f"{key}_{name}"]) for name in ("exact_match", "slot_accuracy")]
        rows.append([*cells, "", "", ""])
    for run in results["runs"]:
        test = run["test"]
        cells = [
            run["name"],
            str(run["seed"]),
            f"{test['nelbo_own_source_per_token']:.4f}",
            f"{test['nelbo_shuffled_source_per_token']:.2f}",
            f"{test['rouge_l']:.3f}",
            f"{test['shuffled_rouge_l']:.3f}",
            *(percent(test[name]) for name in ("exact_match", "slot_accuracy", "slot_when")),
            f"{run['cpu_seconds'] / 60:.1f}",
            f"{run['parameters']:,}",
        ]
        rows.append(cells)
    steps, num = results["runs"][0]["steps"], first["num_summaries"]
    said = f"{steps:,} steps, {num:,} dialogues of the test split, {hardware}."
    return f"{markdown_table(['', 'seed', *heads], rows)}\n\n{said}"


def sections(record: Record) -> Sections:
    return {
        (Part.OTHER_DATA, "dialogue"): table(record.results, record.hardware),
        (Part.OTHER_DATA, "dialogue examples"): f"```\n{record.results['examples']}\n```",
    }


def main() -> None:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs/dialogue"), help="kept there")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    runs, examples = [], ""
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(given.seeds):
            for name, words in VARIANTS.items():
                if seed > 0 and name not in SEVERAL:
                    continue
                folder = Path(scratch) if given.quick else given.runs
                folder /= f"{name.replace(' ', '_')}_seed{seed}"
                short = SHORT_RUN if given.quick else ()
                own = [EXPERIMENT, *words, f"seed={seed}", f"threads={given.threads}", *short]
                found, test = measure(kept_run(folder, own))
                examples = examples or found.examples()
                runs.append({"name": name, "words": [*words], **facts(folder), "test": test})
                print(name, seed, json.dumps(test), flush=True)
    if given.quick:
        return
    runs.sort(key=lambda run: list(VARIANTS).index(run["name"]))
    results = {"threads": given.threads, "runs": runs, "examples": examples}
    command = f"python benchmarks/dialogue.py --seeds {given.seeds} --threads {given.threads}"
    publish("dialogue", command=command, seed=list(range(given.seeds)), results=results)


if __name__ == "__main__":
    main()

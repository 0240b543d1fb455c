"""Measure the choices behind the defaults: each variant changes one thing of a short run.

    python benchmarks/choices.py [--seeds 2] [--steps 400]
    python benchmarks/choices.py node_order --steps 1500
    python benchmarks/choices.py real_plan_choices --steps 1000 --plans plans.jsonl

Writes ``benchmarks/results/<study>.json`` and its table in ``docs/results.md``. The runs of a study
take the same number of steps; the bound is per unordered diagram, so that node orders compare.
With ``--keep FOLDER`` the runs are kept there, and those that are there are not trained again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kept_runs import kept_run
from record import write_result, write_section

BATCH_SIZE = 64
SHORT_RUN = (
    "model.dropout=0",
    f"data.batch_size={BATCH_SIZE}",
    "optim.lr=1e-3",
    "optim.warmup_steps=50",
    "callbacks.ema_decay=0.999",
    "callbacks.num_samples=0",
    "logger=none",
    "eval.num_samples=1000",
    "eval.bound_draws=4",
)
STUDIES: dict[str, dict[str, list[str]]] = {
    "choices": {
        "default": [],
        "node order given by the source": ["data.node_order=given"],
        "node order random": ["data.node_order=random"],
        "masks drawn by low discrepancy": ["algo.draw=low_discrepancy"],
        "time scale 1": ["model.time_scale=1"],
        "no time conditioning": ["algo.time_conditioning=false"],
    },
    "node_order": {
        "canonical (default)": ["data.node_order=canonical"],
        "given by the source": ["data.node_order=given"],
        "random": ["data.node_order=random"],
    },
    "real_plan_choices": {
        "the recipe": [],
        "without mirror images": ["data.symmetry=none"],
        "all eight images of the square": ["data.symmetry=square"],
        "node order given by the source": ["data.node_order=given"],
        "node order random": ["data.node_order=random"],
        "learning rate 5e-4": ["optim.lr=5e-4"],
        "learning rate 2e-3": ["optim.lr=2e-3"],
        "batches of 64 (a quarter of the samples)": ["data.batch_size=64"],
    },
}
RECIPES: dict[str, Sequence[str]] = {
    "choices": SHORT_RUN,
    "node_order": SHORT_RUN,
    "real_plan_choices": (
        *("experiment=real_plans", "trainer.precision=bf16-mixed"),
        *("callbacks.num_samples=0", "logger=none", "eval.num_samples=1000"),
    ),
}
COLUMNS: dict[str, dict[str, str]] = {
    "choices": {
        "valid": "valid",
        "transitive": "transitive",
        "relation_tv": "relation TV",
        "node_tv": "node TV",
    },
    "node_order": {
        "valid": "valid",
        "transitive": "transitive",
        "inside_valid": "inside-valid",
        "edges_per_diagram": "edges",
        "node_tv": "node TV",
        "relation_tv": "relation TV",
        "conditional_pair_tv": "conditional pair TV",
        "degree_tv": "degree TV",
    },
    "real_plan_choices": {
        "valid": "valid",
        "transitive": "transitive",
        "edges_per_diagram": "edges",
        "node_tv": "node TV",
        "relation_tv": "relation TV",
        "conditional_pair_tv": "conditional pair TV",
    },
}


def run(folder: Path, words: Sequence[str], steps: int) -> dict[str, Any]:
    """What ``metrics.json`` of a run says."""
    length = [f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}"]
    kept_run(folder, [*words, *length])
    return json.loads((folder / "metrics.json").read_text())


def table(columns: dict[str, str], results: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        f"| | NELBO, nats (each seed) | {' | '.join(columns.values())} |",
        f"|---|---:|{'---:|' * len(columns)}",
    ]
    for name, runs in results.items():
        bounds = [r["nelbo_unordered"] for r in runs]
        each = " / ".join(f"{bound:.2f}" for bound in bounds)
        means = [statistics.fmean(r[column] for r in runs) for column in columns]
        cells = [f"{statistics.fmean(bounds):.2f} ({each})", *(f"{mean:.3f}" for mean in means)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", nargs="?", choices=list(STUDIES), default="choices")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--plans", type=Path, help="of real_plan_choices: the file of plans")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder of runs to keep")
    arguments = parser.parse_args()
    study, seeds = arguments.study, range(arguments.seeds)
    words = [*RECIPES[study], f"threads={arguments.threads}"]
    if arguments.plans is not None:
        words.append(f"data.path={arguments.plans.resolve()}")
    kept = ("nelbo_unordered", "nelbo_standard_error", *COLUMNS[study])
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.keep or Path(scratch)) / study
        for seed in seeds:
            for k, (name, overrides) in enumerate(STUDIES[study].items()):
                found = run(
                    folder / f"{k}-{seed}", [*words, f"seed={seed}", *overrides], arguments.steps
                )
                results.setdefault(name, []).append({key: found[key] for key in kept})
    command = f"python benchmarks/choices.py {study} --seeds {arguments.seeds}"
    command += f" --steps {arguments.steps}" + (" --plans plans.jsonl" if arguments.plans else "")
    write_result(study, command=command, seed=list(seeds), results=results)
    write_section("results.md", study, table(COLUMNS[study], results))


if __name__ == "__main__":
    main()

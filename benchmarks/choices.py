"""Measure the choices behind the defaults: each variant changes one thing of a short run.

    python benchmarks/choices.py [--seeds 2] [--steps 400]
    python benchmarks/choices.py node_order --steps 1500

Writes ``benchmarks/results/<study>.json`` and its table in ``docs/results.md``. All runs of a study
see the same number of diagrams; the bound is per unordered diagram, so that node orders compare.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import train
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
}


def run(overrides: list[str], seed: int, steps: int) -> dict[str, Any]:
    words = [f"seed={seed}", f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}"]
    with tempfile.TemporaryDirectory() as folder:
        return train(compose("train", [*SHORT_RUN, *words, *overrides]), Path(folder))


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
    arguments = parser.parse_args()
    study, seeds = arguments.study, range(arguments.seeds)
    kept = ("nelbo_unordered", "nelbo_standard_error", *COLUMNS[study])
    results: dict[str, list[dict[str, Any]]] = {}
    for name, overrides in STUDIES[study].items():
        found = [run(overrides, seed, arguments.steps) for seed in seeds]
        results[name] = [{key: metrics[key] for key in kept} for metrics in found]
    words = f"{study} --seeds {arguments.seeds} --steps {arguments.steps}"
    write_result(
        study, command=f"python benchmarks/choices.py {words}", seed=list(seeds), results=results
    )
    write_section("results.md", study, table(COLUMNS[study], results))


if __name__ == "__main__":
    main()

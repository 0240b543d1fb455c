"""Measure the choices behind the defaults: each changes one thing of a short run.

    python benchmarks/choices.py [--seeds 2] [--steps 400]

Writes ``benchmarks/results/choices.json`` and the table of ``docs/results.md``. Every run sees the
same number of diagrams; the bound is per unordered diagram, so that node orders compare.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import train
from record import write_result

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- choices: start -->", "<!-- choices: end -->"
VARIANTS: dict[str, list[str]] = {
    "default": [],
    "node order given by the source": ["data.node_order=given"],
    "node order random": ["data.node_order=random"],
    "masks drawn by low discrepancy": ["algo.draw=low_discrepancy"],
    "time scale 1": ["model.time_scale=1"],
    "no time conditioning": ["algo.time_conditioning=false"],
}
SHORT_RUN = (
    "model.dropout=0",
    "data.batch_size=64",
    "optim.lr=1e-3",
    "optim.warmup_steps=50",
    "callbacks.ema_decay=0.999",
    "callbacks.num_samples=0",
    "logger=none",
    "eval.num_samples=1000",
    "eval.bound_draws=4",
)
COLUMNS = ("nelbo_unordered", "valid", "transitive", "relation_tv", "node_tv")


def run(overrides: list[str], seed: int, diagrams: int) -> dict[str, Any]:
    config = compose("train", [*SHORT_RUN, f"seed={seed}", *overrides])
    config.trainer.max_steps = diagrams // config.data.batch_size
    config.trainer.val_check_interval = config.trainer.max_steps
    with tempfile.TemporaryDirectory() as folder:
        metrics = train(config, Path(folder))
    return {name: metrics[name] for name in (*COLUMNS, "nelbo_standard_error")}


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        "| one change | NELBO, nats (each seed) | valid | transitive | relation TV | node TV |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, runs in results.items():
        means = [statistics.fmean(r[c] for r in runs) for c in COLUMNS]
        bounds = " / ".join(f"{r['nelbo_unordered']:.2f}" for r in runs)
        cells = [f"{means[0]:.2f} ({bounds})", f"{means[1]:.3f}", f"{means[2]:.3f}"]
        lines.append(f"| {name} | {' | '.join([*cells, *(f'{m:.3f}' for m in means[3:])])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    results = {
        name: [run(overrides, seed, 64 * arguments.steps) for seed in range(arguments.seeds)]
        for name, overrides in VARIANTS.items()
    }
    command = f"python benchmarks/choices.py --seeds {arguments.seeds} --steps {arguments.steps}"
    write_result("choices", command=command, seed=list(range(arguments.seeds)), results=results)
    page = ROOT / "docs" / "results.md"
    before, _, rest = page.read_text().partition(START)
    page.write_text(f"{before}{START}\n{table(results)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()

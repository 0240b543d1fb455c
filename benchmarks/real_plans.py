"""Train on a file of real plans and record the held-out bound beside its baselines.

    python benchmarks/real_plans.py plans.jsonl [--seeds 3] [--threads 2] [override ...]

Writes ``benchmarks/results/real_plans.json`` and a table of ``docs/results.md``, samples of the
first seed's model beside the held-out plans. The held-out fifth is chosen by distinct diagram, up
to relabelling; the bound is of the averaged weights at the end of training, so nothing is selected
on the held-out plans.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import train
from evaluations import by_size_table, evaluate, table
from record import write_result, write_section

KEPT = (
    "nelbo_uniform",
    "nelbo_blind",
    "nelbo_unordered",
    "nelbo_standard_error",
    "nelbo_num_samples",
    "num_samples",
    "valid",
    "exactly_one_living_room",
    "transitive",
    "relation_tv",
    "node_tv",
    "edges_per_diagram",
    "edges_per_diagram_reference",
    "steps",
    "parameters",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("plans", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_intermixed_args()
    fixed = ["experiment=real_plans", *arguments.overrides]
    runs: list[dict[str, Any]] = []
    evaluation: dict[str, Any] = {}
    for seed in range(arguments.seeds):
        where = [f"data.path={arguments.plans.resolve()}", f"threads={arguments.threads}"]
        config = compose("train", [*fixed, *where, f"seed={seed}"])
        with tempfile.TemporaryDirectory() as folder:
            metrics = train(config, Path(folder) / "run")
            if seed == 0:
                checkpoint = Path(folder) / "run" / "checkpoints" / "last.ckpt"
                evaluation = evaluate(
                    Path(folder) / "evaluation",
                    f"checkpoint={checkpoint}",
                    "num_samples=1000",
                    "bound_draws=16",
                )
        runs.append({name: metrics[name] for name in KEPT})
    bounds = [run["nelbo_unordered"] for run in runs]
    results = {
        "train": " ".join(["discrete-diffusion train", *fixed, "data.path=plans.jsonl"]),
        "nelbo_unordered_mean": statistics.fmean(bounds),
        "nelbo_unordered_sd_over_seeds": statistics.stdev(bounds) if len(bounds) > 1 else None,
        "runs": runs,
        "evaluation": evaluation,
    }
    options = f"--seeds {arguments.seeds} --threads {arguments.threads}"
    words = ["python benchmarks/real_plans.py plans.jsonl", options, *arguments.overrides]
    path = write_result(
        "real_plans", command=" ".join(words), seed=list(range(arguments.seeds)), results=results
    )
    first = runs[0]
    seeds = (
        "one seed" if len(runs) == 1 else f"mean of seeds {', '.join(f'{b:.2f}' for b in bounds)}"
    )
    facts = (
        f"The held-out bound is {results['nelbo_unordered_mean']:.2f} nats per unordered diagram "
        f"({seeds}; the standard error over held-out diagrams is "
        f"{first['nelbo_standard_error']:.2f}), blind {first['nelbo_blind']:.2f}, untrained "
        f"{first['nelbo_uniform']:.2f}."
    )
    write_section("results.md", "real plans facts", facts)
    write_section("results.md", "real plans", table(evaluation))
    write_section("results.md", "real plans by rooms", by_size_table(evaluation))
    print(path.read_text())


if __name__ == "__main__":
    main()

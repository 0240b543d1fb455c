"""Measure the choices behind the defaults: each variant changes one thing of a short run.

    python benchmarks/choices.py [--seeds 2] [--steps 400]
    python benchmarks/choices.py node_order --steps 1500
    python benchmarks/choices.py optimizers --steps 600
    python benchmarks/choices.py real_plan_choices --steps 1000 --plans plans.jsonl
    python benchmarks/choices.py half_hour_choices --steps 20000 --seeds 1
    python benchmarks/choices.py plan_features --steps 600 --plans plans.jsonl
    python benchmarks/choices.py large_plan_features --steps 800 --plans data.json.gz

Writes ``benchmarks/results/<study>.json`` and its table in the docs. The runs of a study take the
same number of steps; the bound is per unordered diagram, so that node orders compare. With ``--keep
FOLDER`` the runs are kept there, and those that are there are not trained again. Two processes can
share a folder, one with ``--share 0/2``, one with ``--share 1/2``; the call after them writes the
results. ``--finished`` writes those of the runs that are there, and trains none.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from record import Part, Record, Sections, command_line, markdown_table, publish
from runs import evaluate_run, kept_folder, kept_run, validations

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
    "eval.noise_samples=4",
)
FEATURES = {
    "the recipe, without features": ["model.features=[]"],
    "features of the revealed graph": ["model.features=[reach,resistance,walks,cycles]"],
}
REAL_PLAN_CHOICES = {
    "the recipe": [],
    "flat: `bd-denoiser`": ["algo.backbone=bd-denoiser"],
    "no triangles, pairs 88 wide (as many parameters)": [
        "model.triangles=[]",
        "model.d_pair=88",
    ],
    "outgoing triangles alone": ["model.triangles=[outgoing]"],
    "no index embeddings": ["model.index_embeddings=false"],
    "node order random": ["data.node_order=random"],
    "without mirror images": ["data.symmetry=none"],
    "no dropout": ["model.dropout=0"],
    "no time conditioning": ["algo.time_conditioning=false"],
    "uniform noise: `udlm`": ["algo=udlm"],
    "marginal noise: `marginal`": ["algo=marginal"],
    "6 layers, 80 and 52 wide": [
        *("model.n_layers=6", "model.d_model=80", "model.cond_dim=80", "model.d_pair=52")
    ],
    "2 layers, 128 and 96 wide": [
        *("model.n_layers=2", "model.d_model=128", "model.cond_dim=128", "model.d_pair=96")
    ],
    "all eight images of the square": ["data.symmetry=square"],
    "no index embeddings, node order random": [
        "model.index_embeddings=false",
        "data.node_order=random",
    ],
}
OF_HALF_HOURS = (
    *("the recipe", "flat: `bd-denoiser`"),
    "no triangles, pairs 88 wide (as many parameters)",
    "no index embeddings, node order random",
)
STUDIES: dict[str, dict[str, list[str]]] = {
    "plan_features": FEATURES,
    "large_plan_features": FEATURES,
    "choices": {
        "default": [],
        "node order given by the source": ["data.node_order=given"],
        "node order random": ["data.node_order=random"],
        "masks drawn by low discrepancy": ["algo.time_sampling=low_discrepancy"],
        "time scale 1": ["model.time_scale=1"],
        "no time conditioning": ["algo.time_conditioning=false"],
    },
    "optimizers": {
        "`optim=adamw` (default)": [],
        "`optim=adamw`, twice the rate": ["optim.lr=2e-3"],
        "`optim=muon`": ["optim=muon"],
        "`optim=muon`, twice the rate": ["optim=muon", "optim.lr=2e-3"],
    },
    "node_order": {
        "canonical (default)": ["data.node_order=canonical"],
        "given by the source": ["data.node_order=given"],
        "random": ["data.node_order=random"],
    },
    "real_plan_choices": REAL_PLAN_CHOICES,
    "half_hour_choices": {name: REAL_PLAN_CHOICES[name] for name in OF_HALF_HOURS},
}
UNSAMPLED = ("callbacks.num_samples=0", "eval.num_samples=0", "eval.noise_samples=1")
RECIPES: dict[str, Sequence[str]] = {
    "plan_features": ("experiment=plans_small", "data.batch_size=64", *UNSAMPLED),
    "large_plan_features": ("experiment=plans_large", *UNSAMPLED),
    "choices": SHORT_RUN,
    "node_order": SHORT_RUN,
    "optimizers": SHORT_RUN,
    "real_plan_choices": ("experiment=plans_small", "trainer.precision=bf16-mixed", *UNSAMPLED),
    "half_hour_choices": ("experiment=plans_full", "trainer.precision=bf16-mixed", *UNSAMPLED),
}
OF_SHORT_RUNS = {
    "valid": "valid",
    "transitive": "transitive",
    "relation_tv": "relation TV",
    "node_tv": "node TV",
}
OF_REAL_PLANS = {
    "valid": "valid",
    "transitive": "transitive",
    "relation_tv": "relation TV",
    "conditional_pair_tv": "conditional pair TV",
    "mmd_clustering": "clustering MMD",
}
COLUMNS: dict[str, dict[str, str]] = {
    "plan_features": {
        "connected": "connected",
        "buildable": "buildable",
        "relation_tv": "relation TV",
    },
    "large_plan_features": {  # their relations have no directions, so none is buildable or not
        "connected": "connected",
        "relation_tv": "relation TV",
        "degree_tv": "degree TV",
    },
    "choices": OF_SHORT_RUNS,
    "optimizers": OF_SHORT_RUNS,
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
    "real_plan_choices": OF_REAL_PLANS,
    "half_hour_choices": OF_REAL_PLANS,
}
EVALUATED = (
    "num_samples=1000",
    "num_seeds=1",
    "noise_samples=16",
    "reference_repeats=0",
    "pictures=false",
)


def run(folder: Path, words: Sequence[str], steps: int) -> dict[str, Any]:
    """What ``metrics.json`` of a run says."""
    length = [f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}"]
    kept_run(folder, [*words, *length])
    return json.loads((folder / "metrics.json").read_text())


def run_watched(folder: Path, words: Sequence[str], steps: int) -> dict[str, Any]:
    """What ``evaluate`` says of a run at its end, by number of rooms too, and the step at which the
    held-out bound was lowest."""
    length = [f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps // 10}"]
    kept_run(folder, [*words, *length])
    found = evaluate_run(folder, *EVALUATED)
    watched = validations(folder, ["nelbo_unordered"])
    lowest = min(zip(watched["nelbo_unordered"], watched["step"], strict=True))[1]
    return found | {"lowest_at": lowest, "nelbo_by_rooms": found["nelbo_by_size"]["nelbo"]}


def table(columns: dict[str, str], results: dict[str, list[dict[str, Any]]]) -> str:
    by_rooms = "nelbo_by_rooms" in next(iter(results.values()))[0]
    heads = ["", "NELBO, nats (each seed)"]
    heads += ["by rooms, fewest first", "lowest at step"] if by_rooms else []
    heads += columns.values()
    rows = []
    for name, runs in results.items():
        bounds = [r["nelbo_unordered"] for r in runs]
        each = " / ".join(f"{bound:.2f}" for bound in bounds)
        cells = [name, f"{statistics.fmean(bounds):.2f} ({each})"]
        if by_rooms:
            sizes = zip(*(r["nelbo_by_rooms"] for r in runs), strict=True)
            cells.append(" / ".join(f"{statistics.fmean(bound):.1f}" for bound in sizes))
            cells.append(" / ".join(f"{r['lowest_at']:,}" for r in runs))
        cells += [f"{statistics.fmean(r[column] for r in runs):.3f}" for column in columns]
        rows.append(cells)
    return markdown_table(heads, rows)


def sections(record: Record) -> Sections:
    return {(Part.NETWORKS, record.name): table(COLUMNS[record.name], record.results)}


def main() -> None:
    parser = command_line(__doc__, threads=2, keep=True)
    parser.add_argument("study", nargs="?", choices=list(STUDIES), default="choices")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--plans", type=Path, help="of studies of real plans: their file")
    parser.add_argument("--share", default="0/1", help="k/n: every n-th run from the k-th on")
    parser.add_argument("--finished", action="store_true", help="tabulate the kept runs alone")
    arguments = parser.parse_args()
    first, every = map(int, arguments.share.split("/"))
    study, seeds = arguments.study, range(arguments.seeds)
    words = [*RECIPES[study], f"threads={arguments.threads}"]
    if arguments.plans is not None:
        words.append(f"data.path={arguments.plans.resolve()}")
    watched = RECIPES[study] is not SHORT_RUN
    train_and_read = run_watched if watched else run
    kept = ["nelbo_unordered", "nelbo_standard_error", *COLUMNS[study]]
    kept += ["nelbo_by_rooms", "lowest_at"] if watched else []
    results: dict[str, list[dict[str, Any]]] = {}
    with kept_folder(arguments.keep) as folder:
        for seed in seeds:
            for k, (name, overrides) in enumerate(STUDIES[study].items()):
                run_folder = folder / study / f"{k}-{seed}"
                measured_in = run_folder / "evaluation" if watched else run_folder
                there = (measured_in / "metrics.json").exists()
                if k % every != first or (arguments.finished and not there):
                    continue
                found = train_and_read(
                    run_folder, [*words, f"seed={seed}", *overrides], arguments.steps
                )
                results.setdefault(name, []).append({key: found[key] for key in kept})
    if every > 1:
        return
    command = f"python benchmarks/choices.py {study} --seeds {arguments.seeds}"
    command += f" --steps {arguments.steps}" + (
        f" --plans {arguments.plans.name}" if arguments.plans else ""
    )
    publish(study, command=command, seed=list(seeds), results=results)


if __name__ == "__main__":
    main()

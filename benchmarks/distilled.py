"""Students of few calls beside their teacher, on the embedded plans: quality, calls and time.

    python benchmarks/distilled.py [--teacher plans-small] [--calls 4 6] [--steps 4000 ...]
        [--seeds 5] [--threads 1] [--keep runs/distilled] [--quick]

Trains a student for each number of calls, from the teacher's weights on the teacher's data, all for
``--steps`` or, of several, each for its own. The reference is the test split, which training never
saw. Runs, and every cell (sampler, steps, seed) as soon as it is measured, are kept in ``--keep``,
so that a call that adds a student trains and measures that alone. Writes
``benchmarks/results/distilled.json``, its tables in the docs and their figure; with ``--quick``,
few steps and samples, into the folder only.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from buildable import buildable
from discrete_diffusion.data import SplitBatches
from discrete_diffusion.evaluation import (
    MeasurementSettings,
    confidence_interval,
    real_vs_real,
    share_interval,
)
from discrete_diffusion.evaluation.bound import estimate_bound
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import bubble_metrics
from floor_plans.diagrams.tokens import decode
from record import Figures, Part, Record, Sections, command_line, markdown_table, publish
from runs import facts as cost
from runs import kept_run
from sampler_cells import BATCH, NUM, QUICK_NUM, Cell, Model, fill
from sampler_figures import CostPanel, CostPoint, QualityRow, draw_costs

TEACHER, FIGURE = "teacher", "distilled.png"
STEPS = (12, 8, 6, 5, 4)
"""In which the teacher is sampled too."""
RECIPE = (
    *("algo=distill", "data.batch_size=64", "optim.lr=1e-3", "optim.warmup_steps=50"),
    *("callbacks.ema_decay=0.999", "callbacks.num_samples=0", "eval.num_samples=0", "logger=none"),
)
BOUND_DRAWS, VERDICTS, KNOWN, REFERENCE_REPEATS = 4, 300, 20_000, 20
QUICK_STEPS, QUICK_VERDICTS = [4], 10
FLOORS = ("relation_tv", "node_tv", "valid", "transitive", "mode_coverage_weighted")
Cells = Sequence[Mapping[str, Any]]

QUALITY = {
    "relation_tv": "relation TV ↓",
    "node_tv": "node TV ↓",
    "valid": "valid, % ↑",
    "transitive": "transitive, % ↑",
    "mode_coverage_weighted": "coverage, % ↑",
}
NAMES = {"first-hitting": "teacher, first-hitting", "student": "student, few-call"}
SERIES = {
    "first-hitting": "teacher, first-hitting",
    "entropy-bounded": "teacher, entropy-bounded",
    "student": "students, few-call",
}
COSTS = (
    CostPanel("calls", "network calls"),
    CostPanel("cpu_ms", "CPU-milliseconds per sample"),
)
ROWS = (
    QualityRow("not_transitive", "Not transitive, %"),
    QualityRow("relation_tv", "Relation TV"),
)


def trained(given: argparse.Namespace, folder: Path) -> list[Path]:
    """The run of a student for each number of calls."""
    found = []
    each = given.steps if len(given.steps) > 1 else given.steps * len(given.calls)
    for calls, steps in zip(given.calls, each, strict=True):
        words = (*RECIPE, f"init.checkpoint={given.teacher}", f"calls={calls}")
        words += (f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}")
        words += (f"threads={given.threads}",)
        found.append(kept_run(folder / f"calls_{calls}", words))
    return found


def cells_of(students: Sequence[str], num_seeds: int) -> list[Cell]:
    """Seed after seed, so that what runs beside slows all samplers alike."""
    cells = []
    for seed in range(num_seeds):
        cells.append(Cell(TEACHER, "first-hitting", "first-hitting", seed=seed))
        bounded = (("entropy_budget", 1.2),)
        cells.append(Cell(TEACHER, "entropy-bounded", "entropy-bounded", bounded, seed=seed))
        cells += [
            Cell(TEACHER, "first-hitting", "first-hitting", steps=k, seed=seed) for k in STEPS
        ]
        cells += [Cell(name, "student", "few-call", seed=seed) for name in students]
    return cells


def is_judged(cell: Cell, calls: Sequence[int]) -> bool:
    """Whether it is asked which of its samples can be built: one seed of the teacher, of students,
    and of the teacher in as many steps."""
    return cell.seed == 0 and cell.steps in (None, *calls)


def nats(model: Model, folder: Path) -> dict[str, Any]:
    """Of the test split; measured once for the same weights."""
    place = folder / "nats" / f"{model.digest}.json"
    if not place.exists():
        data = model.data
        found = estimate_bound(
            model.checkpoint.algorithm,
            SplitBatches(data, "test", batch_size=BATCH, seed=0),
            quantity=data.bound,
            draws=BOUND_DRAWS,
            settings=MeasurementSettings((0,)),
        )
        _, mean, error = found.headline
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"nats": mean, "nats_standard_error": error}) + "\n")
    return json.loads(place.read_text())


def floors(model: Model, num: int, known: int, draws: int, verdicts: int) -> dict[str, float]:
    """What real plans score against the like of them, in sets of these sizes."""
    vocab = VocabConfig(n_max=model.checkpoint.config.data.max_nodes)
    real = DiagramSet(decode(model.data.splits["train"].x0[:known], vocab)).prepare()
    sizes = {"num_samples": num, "num_reference": len(model.reference), "draws": draws}
    mean = real_vs_real(real, bubble_metrics, **sizes).mean
    some = [model.reference[k] for k in range(verdicts)]
    return {**{key: mean[key] for key in FLOORS}, "buildable": len(buildable(some)) / verdicts}


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    num, verdicts = (QUICK_NUM, QUICK_VERDICTS) if given.quick else (NUM, VERDICTS)
    teacher = Model.read(given.teacher)
    runs = {str(calls): run for calls, run in zip(given.calls, trained(given, folder), strict=True)}
    models = {TEACHER: teacher}
    models |= {calls: Model.read(run / "checkpoints" / "last.ckpt") for calls, run in runs.items()}
    cells = cells_of(list(runs), given.seeds)
    asked = {cell: verdicts for cell in cells if is_judged(cell, given.calls)}
    found = fill(models, cells, folder, "0/1", num, asked)
    assert found is not None  # one share
    known, draws = (1000, 2) if given.quick else (KNOWN, REFERENCE_REPEATS)
    return {
        "num_samples": num,
        "num_reference": len(teacher.reference),
        "num_verdicts": verdicts,
        "floors": floors(teacher, num, known, draws, verdicts),
        "models": {
            TEACHER: {"name": Path(given.teacher).name, **facts(teacher), **nats(teacher, folder)},
            **{
                calls: {
                    "cpu_minutes": cost(run)["cpu_seconds"] / 60,
                    **facts(models[calls]),
                    **nats(models[calls], folder),
                }
                for calls, run in runs.items()
            },
        },
        "cells": found,
    }


def facts(model: Model) -> dict[str, Any]:
    checkpoint = model.checkpoint
    return {
        "weights": model.digest,
        "steps": checkpoint.step,
        "batch_size": checkpoint.config.data.batch_size,
        "parameters": sum(p.numel() for p in checkpoint.algorithm.parameters()),
    }


def groups(results: Mapping[str, Any]) -> list[Cells]:
    """Cells that differ in nothing but the seed."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for cell in results["cells"]:
        found.setdefault((cell["model"], cell["line"], cell["steps"]), []).append(cell)
    order = list(SERIES)
    return sorted(found.values(), key=lambda g: (order.index(g[0]["line"]), -g[0]["calls"]))


def values(group: Cells, key: str, num: int) -> list[float]:
    """A number per seed, in the unit that it is shown in."""
    derived: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "cpu_ms": lambda cell: 1000 * cell["cpu_seconds"] / num,
        "not_transitive": lambda cell: 100 * (1 - cell["transitive"]),
    }
    scale = 1 if key.endswith("_tv") or key in derived or key == "calls" else 100
    return [derived[key](c) if key in derived else scale * c[key] for c in group]


def shown(found: Sequence[float], digits: int) -> str:
    """The mean, and its standard error where there are several seeds."""
    return confidence_interval(found).text(digits)


def share(found: float, num: int) -> str:
    interval = share_interval([found], num)
    return f"{100 * found:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def table(results: Mapping[str, Any]) -> str:
    num, judged, floor = results["num_samples"], results["num_verdicts"], results["floors"]
    heads = ["sampler", "calls", "nats ↓", *QUALITY.values()]
    heads += ["buildable, % ↑", "CPU-s for 1,000 ↓"]
    digits = {key: 4 if key.endswith("_tv") else 2 if key == "valid" else 1 for key in QUALITY}
    rows = []
    for group in groups(results):
        first = group[0]
        measured = first["steps"] is None and first["line"] in NAMES
        model = results["models"][first["model"]]
        buildable = [cell["buildable"] for cell in group if "buildable" in cell]
        name = NAMES.get(first["line"], f"teacher, {first['line']}")
        name += "" if first["steps"] is None else f", steps={first['steps']}"
        bound = "≤ " if first["model"] == TEACHER else ""
        shown_bound = f"{bound}{model['nats']:.2f} ± {model['nats_standard_error']:.2f}"
        rows.append(
            [
                name,
                f"{confidence_interval(values(group, 'calls', num)).mean:.1f}",
                shown_bound if measured else "",
                *(shown(values(group, key, num), digits[key]) for key in QUALITY),
                share(buildable[0], judged) if buildable else "",
                shown(values(group, "cpu_ms", num), 1),
            ]
        )
    real = [f"{(1 if d == 4 else 100) * floor[key]:.{d}f}" for key, d in digits.items()]
    rows.append(["real plans", "", "", *real, share(floor["buildable"], judged), ""])
    return markdown_table(heads, rows)


def training(results: Mapping[str, Any]) -> str:
    """What each student is, and took."""
    lines = []
    for calls, model in results["models"].items():
        if calls == TEACHER:
            continue
        lines.append(
            f"* {calls} calls: {model['parameters']:,} parameters, {model['steps']:,} steps of "
            f"{model['batch_size']}, {model['cpu_minutes']:.0f} CPU-minutes with its own "
            "evaluation."
        )
    return "\n".join(lines)


def sections(record: Record) -> Sections:
    results, part = record.results, Part.SAMPLERS
    seeds = record.seed if isinstance(record.seed, list) else [record.seed]
    said = (
        f"{len(seeds)} sampling seeds of {results['num_samples']:,} samples, against "
        f"{results['num_reference']:,} test diagrams; one thread."
    )
    return {
        (part, "distilled"): f"{table(results)}\n\n{said}",
        (part, "distilled training"): training(results),
    }


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Quality over cost, a curve per sampler, beside what real plans score."""
    num, points = results["num_samples"], {}
    keys = [panel.key for panel in (*COSTS, *ROWS)]
    for group in groups(results):
        intervals = {key: confidence_interval(values(group, key, num)) for key in keys}
        points.setdefault(SERIES[group[0]["line"]], []).append(
            CostPoint(
                {key: found.mean for key, found in intervals.items()},
                {
                    key: 0.0 if found.high is None else found.high - found.mean
                    for key, found in intervals.items()
                },
            )
        )
    floor = {"relation_tv": results["floors"]["relation_tv"]}
    draw_costs(points, COSTS, ROWS, path, floors=floor)


def figures(record: Record) -> Figures:
    return {FIGURE: partial(draw, record.results)}


def main() -> None:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--teacher", default="plans-small")
    parser.add_argument("--calls", type=int, nargs="+", default=[4, 6])
    parser.add_argument("--steps", type=int, nargs="+", default=[4000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--keep", type=Path, default=Path("runs/distilled"))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folder = given.keep / "quick" if given.quick else given.keep
    if given.quick:
        given.steps, given.seeds = QUICK_STEPS, 2
    results = measure(given, folder)
    if given.quick:
        (folder / "distilled.json").write_text(json.dumps(results, indent=1) + "\n")
        draw(results, folder / FIGURE)
        return
    calls = [name for name in results["models"] if name != TEACHER]
    steps = [str(results["models"][name]["steps"]) for name in calls]
    command = f"python benchmarks/distilled.py --teacher {Path(given.teacher).name}"
    command += f" --calls {' '.join(calls)} --steps {' '.join(steps)}"
    command += f" --seeds {given.seeds} --threads {given.threads}"
    publish("distilled", command=command, seed=list(range(given.seeds)), results=results)


if __name__ == "__main__":
    main()

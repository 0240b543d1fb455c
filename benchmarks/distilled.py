"""Students of few calls beside their teacher, on the embedded plans: quality, calls and time.

    python benchmarks/distilled.py [--teacher plans-small] [--calls 4 6] [--steps 4000 ...]
        [--seeds 5] [--threads 1] [--keep runs/distilled] [--quick]
        [--students RUN ... [--cpu-minutes N ...]]

Trains a student for each number of calls, from the teacher's weights on the teacher's data, all for
``--steps`` or, of several, each for its own; unless ``--students`` names runs of the same words.
``--cpu-minutes`` then says what each of them took, if its run does not. The reference is the test
split, which training never saw. Every cell (sampler, steps, seed) is kept in ``--keep`` as soon as
it is measured, so that a call that adds a student measures that alone. Writes
``benchmarks/results/distilled.json``, the tables of ``docs/results_samplers.md`` and their figure;
with ``--quick``, few steps and samples, into the folder only.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from buildable import buildable
from discrete_diffusion.data import SplitBatches
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.diagrams import bubble_metrics
from discrete_diffusion.domains.bubble_diagrams.tokens import decode
from discrete_diffusion.evaluation.bound import estimate_bound
from discrete_diffusion.evaluation.floors import metric_floors
from discrete_diffusion.layout import VocabConfig
from distilled_report import FIGURE, FLOORS, TEACHER, draw
from kept_runs import kept_run
from record import publish
from sampler_cells import Cell
from samplers import BATCH, NUM, QUICK_NUM, Model, fill

STEPS = (12, 8, 6, 5, 4)
"""In which the teacher is sampled too."""
RECIPE = (
    *("algo=distill", "data.batch_size=64", "optim.lr=1e-3", "optim.warmup_steps=50"),
    *("callbacks.ema_decay=0.999", "callbacks.num_samples=0", "eval.num_samples=0", "logger=none"),
)
BOUND_DRAWS, VERDICTS, KNOWN, FLOOR_DRAWS = 4, 300, 20_000, 20
QUICK_STEPS, QUICK_VERDICTS = [4], 10


@dataclass(frozen=True)
class Student:
    """A run, and the CPU-minutes of its training, if they are known."""

    run: Path
    cpu_minutes: float | None

    def read(self, teacher: Model) -> Model:
        """Raises ``ValueError`` for one that was trained on other data than the teacher."""
        model = Model.read(self.run / "checkpoints" / "last.ckpt")
        if model.data.fingerprint() != teacher.data.fingerprint():
            raise ValueError(f"{self.run} was not trained on the data of the teacher")
        return model


def trained(given: argparse.Namespace, folder: Path) -> list[Student]:
    """A student for each number of calls."""
    found = []
    each = given.steps if len(given.steps) > 1 else given.steps * len(given.calls)
    for calls, steps in zip(given.calls, each, strict=True):
        words = (*RECIPE, f"init.checkpoint={given.teacher}", f"calls={calls}")
        words += (f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}")
        run = kept_run(folder / f"calls_{calls}", (*words, f"threads={given.threads}"))
        found.append(Student(run, cpu_minutes(run)))
    return found


def cpu_minutes(run: Path) -> float | None:
    """What ``kept_run`` took down; None of another run."""
    spent = run / "spent.json"
    return json.loads(spent.read_text())["cpu_seconds"] / 60 if spent.exists() else None


def cells_of(students: Sequence[str], num_seeds: int) -> list[Cell]:
    """Seed after seed, so that what runs beside slows all samplers alike. Speculative sampling, the
    slowest, has one seed: its samples are of the distribution of first-hitting."""
    cells = []
    for seed in range(num_seeds):
        cells.append(Cell(TEACHER, "first-hitting", "first-hitting", seed=seed))
        bounded = (("budget", 1.2),)
        cells.append(Cell(TEACHER, "entropy-bounded", "entropy-bounded", bounded, seed=seed))
        if seed == 0:
            cells.append(Cell(TEACHER, "speculative", "speculative"))
        cells += [
            Cell(TEACHER, "first-hitting", "first-hitting", steps=k, seed=seed) for k in STEPS
        ]
        cells += [Cell(name, "student", "few-call", seed=seed) for name in students]
    return cells


def is_judged(cell: Cell, calls: Sequence[int]) -> bool:
    """Whether it is asked which of its samples can be built: one seed of the teacher, of students,
    and of the teacher in as many steps."""
    return cell.seed == 0 and cell.name != "speculative" and cell.steps in (None, *calls)


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
            seed=0,
        )
        _, mean, error = found.headline
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"nats": mean, "nats_standard_error": error}) + "\n")
    return json.loads(place.read_text())


def floors(model: Model, num: int, known: int, draws: int, verdicts: int) -> dict[str, float]:
    """What real plans score against the like of them, in sets of these sizes."""
    vocab = VocabConfig(n_max=model.checkpoint.config.data.n_max)
    real = DiagramSet(decode(model.data.splits["train"].x0[:known], vocab)).prepare()
    sizes = {"num_samples": num, "num_reference": len(model.reference), "draws": draws}
    mean = metric_floors(real, bubble_metrics, **sizes).mean
    some = [model.reference[k] for k in range(verdicts)]
    return {**{key: mean[key] for key in FLOORS}, "buildable": len(buildable(some)) / verdicts}


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    num, verdicts = (QUICK_NUM, QUICK_VERDICTS) if given.quick else (NUM, VERDICTS)
    teacher = Model.read(given.teacher)
    if given.students:
        minutes = zip_longest(given.students, given.cpu_minutes[: len(given.students)])
        students = [Student(run, cpu_minutes(run) or said) for run, said in minutes]
    else:
        students = trained(given, folder)
    read: dict[str, tuple[Student, Model]] = {}
    for student in students:
        model = student.read(teacher)
        read[str(model.checkpoint.algorithm.calls)] = student, model
    models = {TEACHER: teacher} | {calls: model for calls, (_, model) in read.items()}
    cells = cells_of(list(read), given.seeds)
    asked = {cell: verdicts for cell in cells if is_judged(cell, [int(k) for k in read])}
    found = fill(models, cells, folder, "0/1", num, asked)
    assert found is not None  # one share
    known, draws = (1000, 2) if given.quick else (KNOWN, FLOOR_DRAWS)
    return {
        "num_samples": num,
        "num_reference": len(teacher.reference),
        "num_verdicts": verdicts,
        "floors": floors(teacher, num, known, draws, verdicts),
        "models": {
            TEACHER: {"name": Path(given.teacher).name, **facts(teacher), **nats(teacher, folder)},
            **{
                calls: {"cpu_minutes": s.cpu_minutes, **facts(model), **nats(model, folder)}
                for calls, (s, model) in read.items()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--teacher", default="plans-small")
    parser.add_argument("--calls", type=int, nargs="+", default=[4, 6])
    parser.add_argument("--steps", type=int, nargs="+", default=[4000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("runs/distilled"))
    parser.add_argument("--students", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--cpu-minutes", type=float, nargs="+", default=[], metavar="N")
    parser.add_argument("--quick", action="store_true", help="only check that it runs")
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

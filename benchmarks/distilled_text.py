"""Students of few calls beside their teacher, on the characters of a text.

    python benchmarks/distilled_text.py FILE [--calls 8 16 32] [--steps 2000]
        [--student-steps 500] [--samples 256] [--components 64] [--threads 1]
        [--keep runs/distilled_text] [--quick]

The teacher, masked diffusion, and a judge, an autoregressive model, are trained by the words that
``compare.py text`` has, for ``--steps``; then a student of the teacher for each number of calls.
The judge says how many bits a character of generated text takes, which is also few of text that
repeats itself: the entropy of the characters and the share of distinct runs of four say that,
beside real windows, as many. Runs that are in ``--keep`` are not trained again. Writes
``benchmarks/results/distilled_text.json`` and its table in the docs; with ``--quick``, few steps
and samples, into the folder only.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clock import Stopwatch
from compare import SHARED
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints import Checkpoint, read_checkpoint
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data import SplitBatches, TokenDataset, with_fewer
from discrete_diffusion.domains import build_data
from discrete_diffusion.evaluation import MeasurementSettings, standard_error
from discrete_diffusion.evaluation.bound import estimate_bound
from discrete_diffusion.sampling import Model, build_sampler, sample_in_batches
from record import Part, Record, Sections, command_line, markdown_table, percent, publish
from runs import facts, kept_run

SEED, BATCH, BOUND_DRAWS, RUN_OF, HELD_OUT = 0, 64, 4, 4, 256
TEXT = (
    *(*SHARED, "data=text", "data.length=128", "data.batch_size=32"),
    *("algo.backbone=dit", "model=dit_tiny"),
)
TRAINED = {"teacher": "mdlm", "judge": "ar"}
QUICK = {"steps": 4, "student_steps": 4, "samples": 8, "calls": [8], "components": 4}


def trained(given: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """Runs of the teacher, the judge and, by their calls, the students."""

    def run(name: str, steps: int, *words: str) -> Path:
        ends = (f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}")
        quiet = ("eval.num_samples=0", f"threads={given.threads}")
        return kept_run(folder / name, (*words, *ends, *quiet))

    path = f"data.path={given.file.absolute()}"
    found = {
        name: run(name, given.steps, *TEXT, path, f"algo={algorithm}")
        for name, algorithm in TRAINED.items()
    }
    start = f"init.checkpoint={weights(found['teacher'])}"
    for calls in given.calls:
        words = (*SHARED, "data.batch_size=32", "algo=distill", start, f"calls={calls}")
        words += (f"algo.components={given.components}",)
        found[str(calls)] = run(f"calls_{calls}", given.student_steps, *words)
    return found


def weights(run: Path) -> Path:
    return run.absolute() / "checkpoints" / "last.ckpt"


def about(run: Path, model: Checkpoint, data: TokenDataset) -> dict[str, Any]:
    """What a run was, and its bits per character of ``HELD_OUT`` windows of the test split, with
    their standard error."""
    batches = SplitBatches(
        with_fewer(data, "test", HELD_OUT, SEED), "test", batch_size=BATCH, seed=SEED
    )
    found = estimate_bound(
        model.algorithm,
        batches,
        quantity=data.bound,
        draws=BOUND_DRAWS,
        settings=MeasurementSettings((SEED,)),
    )
    bits = found.per_token / math.log(2)
    return facts(run) | {
        "bits": bits,
        "bits_standard_error": bits * found.standard_error / found.per_sample,
    }


def judged(judge: Checkpoint, x0: Tensor) -> dict[str, float]:
    """Of windows Int[B, L]: bits per character under the judge with their standard error, bits of a
    character by frequency, share of distinct runs of characters."""
    parts = []
    with torch.no_grad():
        for rows in x0.split(BATCH):
            batch = Batch(rows, torch.ones_like(rows, dtype=torch.bool))
            parts.append(judge.algorithm.loss(batch, make_generator(SEED)).nelbo)
    bits = torch.cat(parts).double() / (x0.shape[1] * math.log(2))
    share = x0.flatten().bincount().double() / x0.numel()
    runs = Counter(tuple(run) for run in x0.unfold(1, RUN_OF, 1).flatten(0, 1).tolist())
    return {
        "judged_bits": float(bits.mean()),
        "judged_bits_standard_error": standard_error(bits),
        "entropy": float(torch.special.entr(share).sum()) / math.log(2),
        "distinct": len(runs) / runs.total(),
    }


def sampled(
    model: Checkpoint, judge: Checkpoint, num: int, sampler: str, steps: int | None = None
) -> dict[str, float]:
    """What ``num`` samples took, and are."""
    real = torch.ones(num, model.algorithm.layout.length, dtype=torch.bool)
    watch = Stopwatch(torch.device("cpu"))
    output = sample_in_batches(
        Model(model.algorithm, build_sampler({"name": sampler}), steps=steps),
        real,
        generator=make_generator(SEED),
    )
    spent = watch.stop(num)
    calls = float(output.nfe.double().mean())
    return {"calls": calls, "cpu_seconds": spent.cpu, **judged(judge, output.x0)}


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    runs = trained(given, folder)
    models = {name: read_checkpoint(weights(run)) for name, run in runs.items()}
    data = build_data(models["teacher"].config)
    test, judge, num = data.splits["test"], models["judge"], given.samples
    whole = test.x0[test.real.all(dim=1)]
    some = torch.randperm(len(whole), generator=make_generator(SEED))[:num]
    rows = {"real text": judged(judge, whole[some]) | {"num": len(some)}}
    teacher = models["teacher"]
    rows["teacher"] = sampled(teacher, judge, num, "first-hitting")
    for calls in given.calls:
        rows[f"teacher {calls}"] = sampled(teacher, judge, num, "first-hitting", calls)
    for calls in given.calls:
        rows[str(calls)] = sampled(models[str(calls)], judge, num, "few-call")
    return {
        "data": given.file.name,
        "num_samples": num,
        "components": given.components,
        "models": {name: about(run, models[name], data) for name, run in runs.items()},
        "rows": rows,
    }


def table(results: Mapping[str, Any]) -> str:
    heads = ["sampler", "calls", "bits of held-out text ↓", "bits under the judge"]
    heads += ["bits by frequency", f"distinct runs of {RUN_OF}", "CPU-s for 1,000 ↓"]
    rows = []
    for name, row in results["rows"].items():
        first, _, steps = name.partition(" ")
        model = results["models"].get(name)
        said = {"teacher": "teacher, first-hitting", "real": "real text"}.get(first)
        said = said or "student, few-call"
        said += f", steps={steps}" if first == "teacher" and steps else ""
        rows.append(
            [
                said,
                f"{row['calls']:.0f}" if "calls" in row else "",
                "" if model is None else _bits(model, "bits", "≤ " * (name == "teacher")),
                _bits(row, "judged_bits"),
                f"{row['entropy']:.3f}",
                percent(row["distinct"]),
                _seconds(row, results["num_samples"]),
            ]
        )
    return markdown_table(heads, rows)


def _bits(found: Mapping[str, float], key: str, bound: str = "") -> str:
    return f"{bound}{found[key]:.3f} ± {found[f'{key}_standard_error']:.3f}"


def _seconds(row: Mapping[str, float], num: int) -> str:
    return f"{1000 * row['cpu_seconds'] / num:.0f}" if "cpu_seconds" in row else ""


def sections(record: Record) -> Sections:
    results, models = record.results, record.results["models"]
    judge, teacher = models["judge"], models["teacher"]
    students: Sequence[Mapping[str, Any]] = [m for k, m in models.items() if k not in TRAINED]
    minutes = ", ".join(f"{student['cpu_seconds'] / 60:.1f}" for student in students)
    said = (
        f"{results['num_samples']:,} samples, {results['rows']['real text']['num']:,} windows of "
        f"{results['data']}. Teacher and judge: {teacher['steps']:,} steps; the judge takes "
        f"{_bits(judge, 'bits')} bits per character of {HELD_OUT} held-out windows. Students: "
        f"{results['components']} components, {students[0]['steps']:,} steps, {minutes} "
        f"CPU-minutes with the choice of their sets. One thread."
    )
    return {(Part.SAMPLERS, "distilled text"): f"{table(results)}\n\n{said}"}


def main() -> None:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("file", type=Path, help="UTF-8, plain or .gz")
    parser.add_argument("--calls", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--student-steps", type=int, default=500)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--keep", type=Path, default=Path("runs/distilled_text"))
    given = parser.parse_args()
    if given.quick:
        vars(given).update(QUICK)
    torch.set_num_threads(given.threads)
    folder = given.keep / "quick" if given.quick else given.keep
    results = measure(given, folder)
    if given.quick:
        (folder / "distilled_text.json").write_text(json.dumps(results, indent=1) + "\n")
        print(table(results))
        return
    command = f"python benchmarks/distilled_text.py {given.file.name} --calls "
    command += f"{' '.join(map(str, given.calls))} --steps {given.steps} --student-steps "
    command += f"{given.student_steps} --samples {given.samples} --components "
    command += f"{given.components} --threads {given.threads}"
    publish("distilled_text", command=command, seed=SEED, results=results)


if __name__ == "__main__":
    main()

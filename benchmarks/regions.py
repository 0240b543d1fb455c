"""Regions hidden and predicted: the recipe several times, and its choices one by one.

    python benchmarks/regions.py [--seeds 3] [--steps 800] [--early-steps 300] [--threads 1]
        [--only recipe arms early] [--quick]

Writes ``benchmarks/results/regions.json``, after every run, and its tables in the docs. Everything
is measured on the test split, of which nothing is chosen, under masks that are the same for all.
``--quick`` makes a few steps of everything once and writes nothing.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from continuous_states.regions.dataset import RegionDataset
from continuous_states.regions.row_report import RowReport
from continuous_states.regions.row_scores import Filling
from continuous_states.sampling import RowAncestral
from discrete_diffusion import load
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.sampling import Model
from record import (
    Part,
    Record,
    Sections,
    command_line,
    earlier,
    markdown_table,
    publish,
    write_result,
)
from runs import facts, kept_run

PARTS = ("recipe", "arms", "early")
MEASURED = ("per_motif_r", "per_motif_r2", "masked_mse", "flat_r")
BASELINES = ("column_mean", "neighbour_mean", "window_mean", "oracle")
MEASURED_ATAC, CONSTANT_ATAC = "accessibility measured", "accessibility 1 everywhere"
EXPERIMENT = "experiment=regions"
MASK_RATE, MASK_SEEDS = 0.5, range(4)
DRAWS, DRAW_STEPS = 16, 20
SHORT_RUN = ("callbacks.num_samples=1", "logger=none", "eval.num_samples=1", "eval.noise_samples=1")
LITERAL_SIZE = (
    "model.d_model=64",
    "model.n_layers=2",
    "model.n_heads=4",
    "data.rows=64",
    "data.num_motifs=32",
)


@dataclass(frozen=True)
class Arm:
    """A variant of the short run: what it changes, and how many seeds it is run with."""

    overrides: tuple[str, ...] = ()
    seeds: int = 2
    experiment: str = EXPERIMENT


ARMS = {
    "as the recipe": Arm(seeds=4),
    "random t": Arm(("algo.network_time=random",), seeds=4),
    "no positions": Arm(("model.position_embedding=none",)),
    "divided by the maximum": Arm(("algo.normalise=max",)),
    "divided by the maximum, no positions": Arm(
        ("algo.normalise=max", "model.position_embedding=none")
    ),
    "noised (ddpm)": Arm(("algo.objective=ddpm",)),
    "published choices": Arm(
        (
            "algo.network_time=random",
            "algo.mask_rate=0.5",
            "algo.normalise=max",
            "model.position_embedding=none",
            "model.zero_init_head=false",
            "data.quantitative_atac=false",
        )
    ),
    "published recipe": Arm(LITERAL_SIZE, experiment="experiment=get_region_as_published"),
}
EARLY, EARLY_SEEDS = ("as the recipe", "random t"), 8
"""Variants that are compared once more while they still learn."""


class HeldOut:
    """The test split of a data set under four draws of masks, and what scores a prediction."""

    def __init__(self, data: RegionDataset) -> None:
        self.report = RowReport(data, "test", MASK_RATE)
        train_rows = data.splits["train"].x0[data.splits["train"].real]
        self.scale = train_rows.amax(dim=0)
        self.mean = train_rows.mean(dim=0)
        self.of_baselines: dict[str, float] = {}

    def measure(self, algorithm: Any) -> dict[str, float]:
        """Of one network call; the means over the draws of masks. Those of the baselines, which are
        the same every time, go to ``of_baselines``."""
        draws = [self.scores(filling) for filling in self.predictions(algorithm)]
        found = {key: statistics.fmean(scores[key] for scores in draws) for key in draws[0]}
        self.of_baselines = {k: x for k, x in found.items() if k not in MEASURED}
        return {k: found[k] for k in MEASURED}

    def measure_draws(self, algorithm: Any) -> dict[str, float]:
        """Of the mean of ``DRAWS`` samples, under the first draw of masks alone."""
        filling = next(iter(self.predictions(algorithm)))
        given = filling.truth.masked_fill(filling.masked.unsqueeze(-1), torch.nan)
        sampler = RowAncestral()
        drawn = [
            sampler.sample(
                algorithm,
                filling.real,
                clamp=given,
                generator=make_generator(0, k),
                steps=DRAW_STEPS,
            ).x0
            for k in range(DRAWS)
        ]
        found = self.scores(replace(filling, predicted=torch.stack(drawn).mean(dim=0)))
        return {k: found[k] for k in MEASURED}

    def predictions(self, algorithm: Any) -> list[Filling]:
        model = Model(algorithm, None, batch_size=256)
        return [self.report.fill(model, None, seed) for seed in MASK_SEEDS]

    def scores(self, filling: Filling) -> dict[str, float]:
        """The model's and the baselines', and the one correlation of all numbers at once."""
        column_mean = self.mean.expand_as(filling.truth)
        return self.report.measure(filling) | {
            "flat_r": self.flat_r(filling.predicted, filling),
            "column_mean_flat_r": self.flat_r(column_mean, filling),
        }

    def flat_r(self, predicted: Tensor, filling: Filling) -> float:
        """Pearson's r over all hidden rows and columns together, each divided by its maximum."""
        scaled = [(x[filling.masked] / self.scale).flatten() for x in (predicted, filling.truth)]
        return float(torch.corrcoef(torch.stack(scaled).double())[0, 1])


def run(held_out: HeldOut, words: list[str], *, draws: bool = False) -> dict[str, Any]:
    """Train, and measure the averaged weights (the last ones without averaging)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = kept_run(Path(scratch) / "run", words)
        algorithm = load(folder / "checkpoints" / "last.ckpt")
        found = facts(folder) | {"test": held_out.measure(algorithm)}
    if draws:
        found["test_of_drawn"] = held_out.measure_draws(algorithm)
    return found


def short_run(arm: Arm, steps: int) -> list[str]:
    words = [arm.experiment, *SHORT_RUN, *arm.overrides]
    words += [f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}"]
    if arm.experiment != EXPERIMENT:
        words.append(f"optim.warmup_steps={steps // 2}")  # half of the steps, as published
    return words


class Benchmark:
    """Trains, measures and keeps; what is not in ``only`` is taken from the file, as it stands."""

    def __init__(self, command: str, threads: int, quick: bool, only: Sequence[str]) -> None:
        self.command, self.threads, self.quick = command, threads, quick
        self.data = {}
        for name, value in ((MEASURED_ATAC, "true"), (CONSTANT_ATAC, "false")):
            config = compose("train", [EXPERIMENT, f"data.quantitative_atac={value}"])
            self.data[name] = HeldOut(build_data(complete_data(config)))
        former = {} if set(only) == set(PARTS) or quick else earlier("regions")
        self.results: dict[str, Any] = {"baselines": {}, **former} | {
            "train": f"discrete-diffusion train {EXPERIMENT}",
            "threads": threads,
            "mask_rate": MASK_RATE,
            "draws": DRAWS,
        }
        if "recipe" in only:
            self.results["recipe"] = []

    def add(self, words: list[str], runs: list[dict[str, Any]], *, draws: bool = False) -> None:
        """Run, append to ``runs`` and write all there is so far."""
        words = [*words, f"threads={self.threads}"]
        quantitative = compose("train", words).data.quantitative_atac
        name = MEASURED_ATAC if quantitative else CONSTANT_ATAC
        runs.append(run(self.data[name], words, draws=draws))
        self.results["baselines"][name] = self.data[name].of_baselines
        print(json.dumps(runs[-1]), flush=True)
        self.write()

    def write(self, keep: Callable[..., Path] = write_result) -> None:
        """``keep``: ``publish`` once all is there."""
        if self.quick:
            return
        runs = list(self.results.get("recipe", []))
        for part in ("arms", "early"):
            runs += [r for arm in self.results.get(part, {}).values() for r in arm["runs"]]
        seeds = sorted({run["seed"] for run in runs})
        keep("regions", command=self.command, seed=seeds, results=self.results)


def train_arms(benchmark: Benchmark, part: str, arms: dict[str, Arm], steps: int) -> None:
    """All variants with the first seed, then with the next."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in arms}
    benchmark.results[part] = {
        name: {"overrides": [arm.experiment, *arm.overrides], "runs": runs[name]}
        for name, arm in arms.items()
    }
    for seed in range(1 if benchmark.quick else max(arm.seeds for arm in arms.values())):
        for name, arm in arms.items():
            if seed < arm.seeds:
                words = short_run(arm, 4 if benchmark.quick else steps)
                draws = "algo.objective=ddpm" in arm.overrides
                benchmark.add([*words, f"seed={seed}"], runs[name], draws=draws)


def sections(record: Record) -> Sections:
    """The recipe, the variants and what the flat correlation hides."""
    results = record.results
    return {
        (Part.OTHER_DATA, "regions"): (
            f"{_facts(results, record.hardware)}\n\n{_table_of_arms(results, 'arms')}"
        ),
        (Part.OTHER_DATA, "regions early"): _table_of_arms(results, "early"),
        (Part.OTHER_DATA, "regions flat"): _table_of_flat(results),
    }


def difference(runs: list[dict[str, Any]], others: list[dict[str, Any]], key: str) -> str:
    """Mean of ``runs`` less ``others`` over the seeds that both have, with its standard error."""
    base = {run["seed"]: run["test"][key] for run in others}
    less = [run["test"][key] - base[run["seed"]] for run in runs if run["seed"] in base]
    error = statistics.stdev(less) / len(less) ** 0.5 if len(less) > 1 else float("nan")
    return f"{statistics.fmean(less):+.4f} ± {error:.4f}"


def _facts(results: dict[str, Any], hardware: str) -> str:
    runs, known = results["recipe"], results["baselines"][MEASURED_ATAC]
    parts = []
    for key, what in (("per_motif_r", "r"), ("per_motif_r2", "R²")):
        each = ", ".join(f"{run['test'][key]:.3f}" for run in runs)
        parts.append(
            f"per-motif {what} {each} (neighbour mean {known[f'neighbour_mean_{key}']:.3f}, oracle "
            f"{known[f'oracle_{key}']:.3f})"
        )
    cpu, wall = (
        " to ".join(f"{f(run[key] for run in runs):.0f}" for f in (min, max))
        for key in ("cpu_seconds", "seconds")
    )
    return (
        f"{len(runs)} seeds, test split: {'; '.join(parts)}. A run, data and its own evaluation "
        f"included, took {cpu} CPU-seconds on {results['threads']} thread and {wall} seconds of a "
        f"busy machine ({hardware})."
    )


def _table_of_arms(results: dict[str, Any], part: str) -> str:
    """Every variant beside the first, and at the top of the longer ones the baselines."""
    rows, known = [], results["baselines"][MEASURED_ATAC]
    for who in BASELINES if part == "arms" else ():
        cells = [_shown(known[f"{who}_{key}"]) for key in MEASURED[:3]]
        rows.append([who.replace("_", " "), *cells, "", ""])
    first = next(iter(results[part].values()))["runs"]
    for name, arm in results[part].items():
        keys = () if arm["runs"] is first else ("per_motif_r", "per_motif_r2")
        less = [difference(arm["runs"], first, key) for key in keys] or ["", ""]
        rows.append([name, *_cells([run["test"] for run in arm["runs"]]), *less])
        if drawn := [run["test_of_drawn"] for run in arm["runs"] if "test_of_drawn" in run]:
            rows.append([f"{name}, mean of {results['draws']} draws", *_cells(drawn), "", ""])
    heads = ["", "per-motif r (each seed)", "R²", "masked MSE", "less the first: r", "R²"]
    return markdown_table(heads, rows)


def _cells(found: list[dict[str, float]]) -> list[str]:
    each = " / ".join(_shown(scores["per_motif_r"]) for scores in found)
    others = [_mean(found, key) for key in ("per_motif_r2", "masked_mse")]
    return [f"{_mean(found, 'per_motif_r')} ({each})", *others]


def _table_of_flat(results: dict[str, Any]) -> str:
    """The flat correlation beside the one by column, with and without a constant column."""
    keys, rows = ("flat_r", "per_motif_r"), []
    arms = {
        MEASURED_ATAC: ("as the recipe",),
        CONSTANT_ATAC: ("published choices", "published recipe"),
    }
    for data, names in arms.items():
        known = results["baselines"][data]
        which = data.removeprefix("accessibility ")
        rows.append(["column mean", which, *(_shown(known[f"column_mean_{key}"]) for key in keys)])
        for name in names:
            found = [run["test"] for run in results["arms"][name]["runs"]]
            rows.append([name, which, *(_mean(found, key) for key in keys)])
    return markdown_table(["", "accessibility", "flat r", "per-motif r"], rows, left=2)


def _mean(found: list[dict[str, float]], key: str) -> str:
    return _shown(statistics.fmean(scores[key] for scores in found))


def _shown(value: float) -> str:
    """Three decimals, without a sign of 0."""
    return f"{round(value, 3) + 0.0:.3f}"


def main() -> None:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=3, help="runs of the recipe")
    parser.add_argument("--steps", type=int, default=800, help="of every variant")
    parser.add_argument("--early-steps", type=int, default=300, help="of two of them once more")
    given = parser.parse_args()
    command = f"--seeds {given.seeds} --steps {given.steps} --early-steps {given.early_steps}"
    command = f"python benchmarks/regions.py {command} --threads {given.threads}"
    benchmark = Benchmark(command, given.threads, given.quick, given.only)
    if "recipe" in given.only:
        for seed in range(1 if given.quick else given.seeds):
            words = [EXPERIMENT, f"seed={seed}", "logger=none"]
            words += ["trainer.max_steps=4"] if given.quick else []
            benchmark.add(words, benchmark.results["recipe"])
    if "arms" in given.only:
        train_arms(benchmark, "arms", ARMS, given.steps)
    if "early" in given.only:
        early = {name: replace(ARMS[name], seeds=EARLY_SEEDS) for name in EARLY}
        train_arms(benchmark, "early", early, given.early_steps)
        benchmark.results["early_steps"] = given.early_steps
    benchmark.write(publish)


if __name__ == "__main__":
    main()

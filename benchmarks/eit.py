"""Images from Dirichlet-to-Neumann maps: the recipes for fields and for ids, and their choices.

    python benchmarks/eit.py [--steps 1000] [--threads 1] [--runs runs/eit]
        [--only simulator recipes arms] [--quick]

Writes ``benchmarks/results/eit.json`` and its tables in the docs. Everything is measured on the
test split, of which nothing is chosen. Runs are kept in ``--runs``; one that is there and whole is
measured again and not made again. ``--quick`` makes a few steps of everything in a temporary folder
and writes nothing.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from clock import Stopwatch
from continuous_states.eit.image_report import ImageReport
from continuous_states.eit.image_scores import reconstruct_held_out
from continuous_states.eit.simulator import SimulationSettings, simulate_phantoms
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.sampling import Model, build_sampler
from record import Part, Record, Sections, command_line, earlier, markdown_table, percent, publish
from runs import facts, kept_run

PARTS = ("simulator", "recipes", "arms")
NUM_IMAGES, FEWER_IMAGES, DRAWS, BATCH = 200, 100, 8, 256
SHORT_RUN = ("callbacks.num_samples=1", "logger=none", "eval.num_samples=1", "eval.noise_samples=1")
SHIFTS: dict[str, dict[str, Any]] = {
    "none": {},
    "tubes": {"phantoms": "tubes"},
    "noise of 1 %": {"noise_level": 0.01},
    "noise of 5 %": {"noise_level": 0.05},
}
"""What the recipes never saw, beside the same images of what they did."""
FIELDS, IDS, PRETRAINED = "experiment=eit", "experiment=eit_levels", "pre-training"
BASELINES = {"mean_image": "mean image", "ridge": "ridge regression"}
SCORES = ("relative L2", "of one draw", "gap")


@dataclass(frozen=True)
class Run:
    """Words of ``train``; ``after``: the run whose encoder it starts with."""

    words: tuple[str, ...]
    after: str | None = None


RECIPES = {"fields": Run((FIELDS,)), "ids": Run((IDS,))}
PRETRAINING = {PRETRAINED: Run(("experiment=eit_pretrain",))}
ARMS = {
    "as the recipe": Run((FIELDS,)),
    "no cross-attention": Run((FIELDS, "model.cross_attention=false")),
    "no cross-attention, gate at 0.018": Run(
        (FIELDS, "model.cross_attention=false", "model.cond_gate_init=-4.0")
    ),
    "errors weighted as velocities": Run(
        (FIELDS, "algo.weighting=velocity", "algo.time_sampling=logit_normal")
    ),
    "pre-trained encoder": Run((FIELDS,), after=PRETRAINED),
    "regression": Run(
        (
            *("algo=regression", "algo.backbone=dtn-unet", "model.cross_attention=true"),
            *("model.cond_gate_init=0", "optim.warmup_steps=200", "callbacks.ema_decay=0.999"),
        )
    ),
    "ids, as the recipe": Run((IDS,)),
    "ids, no cross-attention": Run((IDS, "model.cross_attention=false")),
}


class Benchmark:
    """Trains into ``folder`` what is not there, and measures."""

    def __init__(self, folder: Path, threads: int, *, quick: bool = False) -> None:
        self.folder, self.threads, self.quick = folder, threads, quick
        self.reports: dict[str, ImageReport] = {}

    def train(self, name: str, run: Run, *settings: str) -> Path:
        """The run's folder."""
        folder = self.folder / name.replace(" ", "_").replace(",", "")
        words = [*run.words, *settings, f"threads={self.threads}"]
        if self.quick:
            words += ["trainer.max_steps=2", "trainer.val_check_interval=2", *SHORT_RUN]
        if run.after is not None:
            start = self.folder / run.after.replace(" ", "_") / "checkpoints" / "best.ckpt"
            words += [f"init.checkpoint={start}", "init.modules=[encoder]"]
        return kept_run(folder, words)

    def measure(
        self, folder: Path, shift: Mapping[str, Any] | None = None, num: int = FEWER_IMAGES
    ) -> dict[str, Any]:
        """Scores of the averaged weights on the first ``num`` of the test split, with data as
        trained on but for ``shift``."""
        checkpoint = read_checkpoint(folder / "checkpoints" / "last.ckpt")
        config = checkpoint.config
        own = config.data.name
        report = self.reports.setdefault(own, ImageReport(build_data(config)))
        data = report.data
        if shift is not None:
            data = build_data(OmegaConf.merge(config, {"data": dict(shift)}))
        model = Model(checkpoint.algorithm, build_sampler(config), batch_size=BATCH)
        found = reconstruct_held_out(
            model,
            data,
            "test",
            num=4 if self.quick else num,
            draws=2 if self.quick else DRAWS,
            seed=0,
        )
        return report.measure(found)


def time_simulator(num: int = 1000) -> dict[str, float]:
    """Simulating ``num`` discs at the size of ``data=eit``, one thread."""
    data = complete_data(compose("train", [FIELDS])).data
    settings = SimulationSettings(
        num_samples=num,
        **{
            k: data[k] for k in ("size", "phantoms", "mesh_rings", "num_boundary", "generator_seed")
        },
    )
    watch = Stopwatch(torch.device("cpu"))
    simulate_phantoms(settings)
    spent = watch.stop(num)
    return {"samples": num, "cpu_seconds": spent.cpu, "seconds": spent.wall}


def recipes(benchmark: Benchmark) -> dict[str, Any]:
    found = {}
    for name, run in RECIPES.items():
        folder = benchmark.train(name, run, "logger=none")
        found[name] = {
            **facts(folder),
            "train": f"discrete-diffusion train {' '.join(run.words)}",
            "test": benchmark.measure(folder, num=NUM_IMAGES),
            "shifts": {what: benchmark.measure(folder, shift) for what, shift in SHIFTS.items()},
        }
        print(name, json.dumps(found[name]), flush=True)
    return found


def arms(benchmark: Benchmark, steps: int) -> dict[str, Any]:
    found = {}
    length = (f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}", *SHORT_RUN)
    for name, run in PRETRAINING.items():
        folder = benchmark.train(name, run)
        found[name] = {**facts(folder), "test": benchmark.measure(folder)}
    for name, run in ARMS.items():
        folder = benchmark.train(f"short {name}", run, *length)
        found[name] = {
            **facts(folder),
            "overrides": [*run.words[1:]],
            "test": benchmark.measure(folder),
        }
        print(name, json.dumps(found[name]), flush=True)
    return found


def sections(record: Record) -> Sections:
    """What is there of the simulator's time, the two recipes and the variants."""
    results, texts = record.results, dict[str, str]()
    if "simulator" in results:
        texts["eit simulator"] = _simulator(results["simulator"], record.hardware)
    if "recipes" in results:
        texts["eit recipes"] = _recipes(results)
        texts["eit shifts"] = _shifts(results["recipes"])
    if "arms" in results:
        texts["eit arms"] = _arms(results)
    return {(Part.OTHER_DATA, name): text for name, text in texts.items()}


def _simulator(found: dict[str, float], hardware: str) -> str:
    return (
        f"{found['samples']:,} phantoms and their maps: {found['cpu_seconds']:.2f} CPU-seconds of "
        f"one thread ({hardware})."
    )


def _recipes(results: dict[str, Any]) -> str:
    first = next(iter(results["recipes"].values()))["test"]
    heads = ["", *SCORES, "spread", "pixel accuracy", "CPU-minutes", "parameters"]
    rows = []
    for key, name in BASELINES.items():
        accuracy = percent(first[f"{key}_pixel_accuracy"])
        rows.append([name, f"{first[f'{key}_relative_l2']:.3f}", "", "", "", accuracy, "", ""])
    for name, found in results["recipes"].items():
        cells = [
            name,
            *_scores(found["test"]),
            f"{found['test']['spread_ratio']:.2f}",
            percent(found["test"]["pixel_accuracy"]),
            f"{found['cpu_seconds'] / 60:.1f}",
            f"{found['parameters']:,}",
        ]
        rows.append(cells)
    return markdown_table(heads, rows)


def _shifts(recipes: dict[str, Any]) -> str:
    """Relative L2 of everybody, a shift per line."""
    whose = [*BASELINES.values(), *recipes]
    rows = []
    for what in next(iter(recipes.values()))["shifts"]:
        found = [recipe["shifts"][what] for recipe in recipes.values()]
        cells = [f"{found[0][f'{key}_relative_l2']:.3f}" for key in BASELINES]
        cells += [f"{each['relative_l2']:.3f}" for each in found]
        rows.append([what, *cells])
    return markdown_table(["relative L2", *whose], rows)


def _arms(results: dict[str, Any]) -> str:
    rows = [
        [
            name,
            *_scores(found["test"]),
            f"{found['steps']:,}",
            f"{found['cpu_seconds'] / 60:.1f}",
        ]
        for name, found in results["arms"].items()
    ]
    return markdown_table(["", *SCORES, "steps", "CPU-minutes"], rows)


def _scores(test: dict[str, float]) -> list[str]:
    """The columns of ``SCORES``."""
    return [
        f"{test['relative_l2']:.3f} ± {test['relative_l2_standard_error']:.3f}",
        f"{test['relative_l2_single']:.3f}",
        f"{test['condition_gap']:.3f} ± {test['condition_gap_standard_error']:.3f}",
    ]


def main() -> None:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--steps", type=int, default=1000, help="of every variant")
    parser.add_argument("--runs", type=Path, default=Path("runs/eit"), help="where runs are kept")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.quick:
        with tempfile.TemporaryDirectory() as folder:
            benchmark = Benchmark(Path(folder), given.threads, quick=True)
            print(time_simulator(20), recipes(benchmark), arms(benchmark, 2))
        return
    results = earlier("eit") | {"threads": given.threads, "draws": DRAWS}
    benchmark = Benchmark(given.runs, given.threads)
    if "simulator" in given.only:
        results["simulator"] = time_simulator()
    if "recipes" in given.only:
        results["recipes"] = recipes(benchmark)
    if "arms" in given.only:
        results["arms"], results["arm_steps"] = arms(benchmark, given.steps), given.steps
    command = f"python benchmarks/eit.py --steps {given.steps} --threads {given.threads}"
    publish("eit", command=command, seed=0, results=results)


if __name__ == "__main__":
    main()

"""Compare the algorithms on equal terms: on the embedded plans, or on a text.

    python benchmarks/compare.py diagrams [--steps 5000] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py dit [--steps 5000] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py text FILE [--steps 4000] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py subwords FILE [--steps 1000] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py wikitext FILE [--steps 600] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py letters FILE [--steps 600] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py dialogue [--steps 4000] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py early [--steps 1500] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py levels [--steps 600] [--threads 2] [--folder runs/compared]
    python benchmarks/compare.py levels_gaussian [--steps 600] [--threads 2] [--folder ...]

``diagrams`` has the flat and the pair denoiser wherever they can be used, ``dit`` one backbone for
all algorithms, ``subwords`` and ``wikitext`` text by a tokenizer, ``letters`` by that of text8,
``dialogue`` latent vectors and ids, ``early`` the same while they still learn, ``levels`` noise of
three kinds on ids that have an order, ``levels_gaussian`` one more.
Writes ``benchmarks/results/comparison_STUDY.json``, a table of the report and its
figure. With ``--folder`` an interrupted run goes on where it was when called again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from discrete_diffusion.cli import compose
from discrete_diffusion.cli.compare import CompareRequest, run_comparison
from discrete_diffusion.domains import CellMeasurement, build_data, complete_data
from discrete_diffusion.domains.registry import get_domain
from discrete_diffusion.evaluation import Baseline, Comparison
from discrete_diffusion.evaluation.comparison import ComparedModel, Estimate
from discrete_diffusion.evaluation.comparison_figure import plot_comparison
from discrete_diffusion.evaluation.comparison_table import comparison_table
from record import Figures, Part, Record, Sections, command_line, publish
from runs import kept_folder

QUIET = ("callbacks.num_samples=0", "logger=none")
SHARED = (
    *("model.dropout=0", "optim.lr=1e-3", "optim.warmup_steps=50", "callbacks.ema_decay=0.999"),
    *QUIET,
)
ON_DIAGRAMS = (
    *SHARED,
    "algos=[mdlm,udlm,marginal,sedd,gidd,d3pm,bd3lm,ar]",
    *("data.batch_size=64", "eval.num_samples=1000"),
)
ON_DIALOGUES = (
    *("algos=[latent-seq2seq,mdlm,udlm,ar]", "experiment=dialogue"),
    *("eval.num_samples=500", *QUIET),
)
ON_LEVELS = (
    *("experiment=eit_levels", "data.size=16", "data.num_samples=4000", "data.batch_size=16"),
    *(
        "optim.warmup_steps=50",
        "eval.num_samples=20",
        "eval.samples_per_condition=4",
        "num_held_out=200",
        *QUIET,
    ),
)
ON_TEXT = (
    *("backbones=[dit]", "model=dit_tiny", "data=text", "data.length=128", "data.batch_size=32"),
    *("eval.num_samples=100", "num_held_out=400", *SHARED),
)
_ON_TEXT_ALL = (*ON_TEXT, "algos=[ar,mdlm,meld,sedd,gidd,udlm,bd3lm]")
STUDIES: dict[str, tuple[str, ...]] = {
    "diagrams": (*ON_DIAGRAMS, "backbones=[bd-denoiser,bd-denoiser-pair]", "model=bd_tiny"),
    "dit": (*ON_DIAGRAMS, "backbones=[dit]", "model=dit_tiny"),
    "text": (*ON_TEXT, "algos=[ar,mdlm,sedd,gidd,udlm,bd3lm]"),
    "subwords": (*_ON_TEXT_ALL, "data.tokenizer=bpe:1024"),
    "wikitext": (
        *(*_ON_TEXT_ALL, "data.tokenizer=bpe:4096", "algo.block_size=16"),
        *("eval.num_samples=32", "num_held_out=100"),
    ),
    "letters": (*_ON_TEXT_ALL, "data.tokenizer=text8", "algo.block_size=4"),
    "dialogue": ON_DIALOGUES,
    "early": ON_DIALOGUES,
    "levels": (*ON_LEVELS, "algos=[mdlm,udlm,ctmc]"),
    "levels_gaussian": (
        *ON_LEVELS,
        "algos=[ctmc]",
        "forward_process=matrix",
        "forward_process.kind=gaussian",
    ),
}
STEPS = {"diagrams": 5000, "dit": 5000, "text": 4000, "dialogue": 4000, "early": 1500}
STEPS |= {"subwords": 1000, "wikitext": 600, "letters": 600, "levels": 600, "levels_gaussian": 600}
Row = Mapping[str, Any]
_OF_OTHER_DATA = dict.fromkeys(
    (f"comparison {study}" for study in ("early", "dialogue", "levels", "levels_gaussian")),
    Part.OTHER_DATA,
)
"""Sections that stand beside what else was measured on their data."""


def run(study: str, words: list[str], folder: Path) -> dict[str, Any]:
    """What ``results.json`` holds, less the command with its paths."""
    results = run_comparison(CompareRequest([*STUDIES[study], *words, f"out={folder}"]))
    results = {name: value for name, value in results.items() if name != "command"}
    if study.startswith("levels"):
        results["notes"] = [*results["notes"], blind_note()]
    return results


def blind_note() -> str:
    """What the levels of a test image cost without a network."""
    words = [word for word in ON_LEVELS if word.startswith(("experiment=", "data."))]
    data = build_data(complete_data(compose("train", words)))
    train, test = (data.splits[name].x0 for name in ("train", "test"))
    num = int(data.layout.num_legal[0])
    counts = torch.stack([(train == level).sum(dim=0) for level in range(num)], dim=1) + 1.0
    log_p = (counts / counts.sum(dim=1, keepdim=True)).log()  # (L, K)
    blind = -log_p[torch.arange(test.shape[1]), test].sum(dim=1).mean()
    uniform = test.shape[1] * math.log(num)
    return (
        f"An image costs {uniform:.1f} nats if nothing is known, {blind:.1f} by how frequent each "
        "level is at each pixel of the training images."
    )


def sections(record: Record) -> Sections:
    results = record.results
    table = comparison_table(_comparison(results), results["real_data"].get("metrics", {}))
    minutes = sum(cell["metrics"]["seconds_training"] for cell in results["cells"].values()) / 60
    notes = [*results["notes"], f"Training took {minutes:.0f} minutes in all."]
    listed = "\n".join(f"* {note}" for note in notes)
    shown = f"![Bounds and samples by algorithm](../docs/images/{record.name}.png)"
    text = f"{table.markdown()}\n{listed}\n\n{shown}"
    name = record.name.replace("_", " ", 1)
    return {(_OF_OTHER_DATA.get(name, Part.ALGORITHMS), name): text}


def figures(record: Record) -> Figures:
    results, axes = record.results, _measurement(record.results).axes
    draw = partial(plot_comparison, _comparison(results), axes, setting=results["setting"])
    return {f"{record.name}.png": draw}


@dataclass(frozen=True)
class RecordedComparison(Comparison):
    """A comparison without the values of its samples: means and errors are those of ``found``, the
    rows of ``results.json``, by ``_key``."""

    found: Mapping[tuple[str, ...], Row] = field(default_factory=dict)

    def value(self, model: ComparedModel | Baseline, measure: str) -> Estimate | None:
        return self._recorded(model, measure) if measure in model.values else None

    def difference(self, model: ComparedModel | Baseline, measure: str) -> Estimate | None:
        of = "difference" if measure == "nelbo" else f"{measure}_difference"
        return self._recorded(model, of) if measure in model.values else None

    def _recorded(self, model: ComparedModel | Baseline, name: str) -> Estimate | None:
        row = self.found[_key(vars(model))]
        if row[name] is None:
            return None
        return Estimate(row[name], row[f"{name}_standard_error"], over_seeds=None)


def _key(of: Row) -> tuple[str, ...]:
    """Of a model, or of a baseline."""
    return (of["name"],) if "name" in of else (of["algorithm"], of["backbone"])


def _measurement(results: Row) -> CellMeasurement:
    return get_domain(results["domain"]).cell_measurement()


def _comparison(results: Row) -> RecordedComparison:
    measurement = _measurement(results)
    models, baselines = results["models"], results.get("baselines", ())

    def values(row: Row) -> dict[str, torch.Tensor]:
        """Which measures there are of it."""
        there = [name for name in measurement.measures if row.get(name) is not None]
        return dict.fromkeys(there, torch.empty(0))

    return RecordedComparison(
        models=tuple(
            ComparedModel(
                **{key: row[key] for key in ("algorithm", "backbone", "model", "instead_of")},
                parameters=row["parameters"],
                quantity=row["quantity"],
                values=values(row),
                metrics=_metrics(results, row),
                config=OmegaConf.create(),
                folder=Path(),
            )
            for row in models
        ),
        seeds=tuple(results["seeds"]),
        measured=measurement.measures,
        columns=measurement.columns,
        split=results["split"],
        noise_samples=results["terms"]["bound_draws"],
        baselines=tuple(Baseline(row["name"], values(row), row) for row in baselines),
        found={_key(row): row for row in (*models, *baselines)},
    )


def _metrics(results: Row, row: Row) -> dict[str, list[float]]:
    """A number per seed, of those metrics that there are of all."""
    names = (f"{row['algorithm']}-{row['backbone']}-seed{seed}" for seed in results["seeds"])
    first, *others = [results["cells"][name]["metrics"] for name in names]
    return {
        name: [math.nan if (v := m[name]) is None else v for m in (first, *others)]
        for name in first
        if all(name in other for other in others)
    }


def main() -> None:
    parser = command_line(__doc__, threads=2)
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("file", nargs="?", help="text: UTF-8, plain or .gz")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="kept, so that a run can go on")
    arguments = parser.parse_args()
    study, seeds = arguments.study, list(range(arguments.seeds))
    of_a_file = "data=text" in STUDIES[study]
    if of_a_file != (arguments.file is not None):
        parser.error(f"{study} {'needs a FILE' if of_a_file else 'takes no FILE'}")
    steps = arguments.steps or STEPS[study]
    words = [f"seeds={seeds}", f"threads={arguments.threads}", f"trainer.max_steps={steps}"]
    words.append(f"trainer.val_check_interval={steps}")
    words += [] if arguments.file is None else [f"data.path={Path(arguments.file).absolute()}"]
    with kept_folder(arguments.folder) as folder:
        results = run(study, words, folder / study)
        given = [study, *([] if arguments.file is None else [Path(arguments.file).name])]
        options = f"--steps {steps} --seeds {arguments.seeds} --threads {arguments.threads}"
        command = f"python benchmarks/compare.py {' '.join(given)} {options}"
        publish(f"comparison_{study}", command=command, seed=seeds, results=results)


if __name__ == "__main__":
    main()

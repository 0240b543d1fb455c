"""Train a recipe on a data set of the literature, and measure it by the literature's protocol.

    python benchmarks/standard_sets.py RECIPE FILE [--threads 1] [--keep FOLDER]
        [--networks NAME ...] [--row NAME] [override ...]

RECIPE is qm9, zinc, planar, tree, community_small, ego_small or plans_large: ``experiment=RECIPE
data.path=FILE``, with its own network or those of ``--networks``, sampled in the precision in which
it is trained. Writes
``benchmarks/results/standard_RECIPE.json``, the samples of the last network's run into
``docs/images/RECIPE_samples.png``, and its sections of the docs: published rows beside ours, and
the numbers over training time. ``--keep FOLDER`` keeps the runs; those that are there are not
trained again. ``--row NAME`` is another training, on a GPU, say: a row beside those of the file,
with free samples alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from PIL import Image

from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.domains.molecules.molecule_files import write_molecules
from record import (
    DOCS,
    Part,
    Record,
    Sections,
    command_line,
    earlier,
    hardware,
    markdown_table,
    publish,
)
from runs import evaluate, evaluate_run, kept_folder, kept_run, validations
from runs import facts as cost
from structure_controls import CONTROLS, share_of_trees, write_controls

_COLOURS = 48
"""Of pictures of samples, which makes them a third as large."""


@dataclass(frozen=True)
class Column:
    """``key``: of ``metrics.json``. ``scale``, ``digits``: how it is shown."""

    key: str
    head: str
    scale: float = 1
    digits: int = 2

    def shown(self, value: float | None) -> str:
        return "" if value is None else f"{self.scale * value:.{self.digits}f}"


@dataclass(frozen=True)
class Standard:
    """A data set of the literature: what is measured of a model of it, and what was published.

    ``published``: by the name of the method, numbers by key of the columns, as they are printed.
    ``followed``: of the validations, shown over training time. ``options``: of ``evaluate``.
    ``split``: writes the papers' split of a file that has none, and says where. ``narrowed``: words
    of ``evaluate`` of rows of narrowed samples, beside the controls of ``structure_controls`` that
    have the structure without a network. ``samplers``: of the curve of calls, from samples by
    ``curve_options``; a student of ``student_calls`` is there too.
    """

    protocol: str
    columns: tuple[Column, ...]
    published: Mapping[str, Mapping[str, float]]
    followed: tuple[Column, ...]
    options: tuple[str, ...]
    split: Callable[[Path, Path], Path] | None = None
    narrowed: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    curve_options: tuple[str, ...] = ()
    student_calls: int | None = None

    def real(self, evaluation: Mapping[str, Any], key: str) -> float | None:
        """Of real data, by the same code: training data, or what ``evaluate`` has beside it."""
        found = evaluation.get(f"{key}_training", evaluation.get("real", {}).get(key))
        return None if found is None else float(found)


def first_fifth(file: Path, folder: Path) -> Path:
    """GDSS's split of its small sets: the first fifth is held out, equal graphs on both sides."""
    with gzip.open(file, "rt") as text:
        graphs = json.load(text)["all"]
    held_out = len(graphs) // 5
    test, train = graphs[:held_out], graphs[held_out:]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "first_fifth.json"
    path.write_text(json.dumps({"train": train, "val": test, "test": test}))
    return path


MOLECULES = {"qm9": 10_000, "zinc": 3_000}
"""Recipes on molecules, and the samples that are measured."""


_ROUGH_BOUND = ("noise_samples=1", "time_bins=2")
"""Options of ``evaluate`` where tens of thousands are held out."""

_VALID = Column("valid", "valid, %", 100, 1)
_RELAXED = Column("valid_relaxed", "relaxed, %", 100, 1)
_UNIQUE = Column("unique", "unique, %", 100, 1)
_FCD = Column("fcd", "FCD")
_NSPDK = Column("nspdk_mmd", "NSPDK MMD", digits=4)
_VUN = Column("valid_unique_novel", "V.U.N., %", 100, 1)
_RATIO = Column("ratio", "ratio")
_MMD = Column("mmd_average", "mean MMD", digits=3)
_SMALL_SETS = (
    _MMD,
    Column("mmd_degree", "degree", digits=3),
    Column("mmd_clustering", "clustering", digits=3),
    Column("mmd_orbit", "orbit", digits=3),
    Column("novel", "not in training, %", 100, 0),
)
_GDSS = (
    "GDSS protocol: the first fifth held out, equal graphs on both sides; mean squared MMD of "
    "degrees, clustering and orbits, earth mover's kernels; five sets of"
)
_CONNECTED = Column("connected", "connected, %", 100, 1)

STANDARDS: dict[str, Standard] = {
    "qm9": Standard(
        "DiGress protocol: heavy atoms alone, no correction, largest fragments",
        (_VALID, _RELAXED, _UNIQUE, _FCD, _NSPDK),
        {
            "training set, as published": {
                "valid": 99.3,
                "valid_relaxed": 99.5,
                "unique": 99.2,
                "fcd": 0.03,
            },
            "plain masked diffusion (of the SID paper, GDSS protocol)": {
                "valid": 48.4,
                "fcd": 3.76,
            },
            "marginal noise (of the SID paper, GDSS protocol)": {"valid": 95.7, "fcd": 1.09},
            "DiGress": {"valid": 99.0, "unique": 96.2},
            "DeFoG, 50 steps": {"valid": 98.9, "valid_relaxed": 99.2, "unique": 96.2, "fcd": 0.26},
            "DeFoG, 500 steps": {"valid": 99.3, "valid_relaxed": 99.4, "unique": 96.3, "fcd": 0.12},
        },
        (_VALID, _RELAXED, _UNIQUE),
        (f"num_samples={MOLECULES['qm9']}", *_ROUGH_BOUND),
        narrowed=("structure=connected", "structure=connected sampling=entropy"),
        samplers=(
            "sampling=first-hitting",
            *(f"sampling=first-hitting sampling.tokens_per_call={k}" for k in (4, 8)),
            *(f"sampling={name}" for name in ("confidence", "entropy", "entropy-bounded")),
            "sampling=entropy num_samples=10000",
            "sampling=entropy sampling.temperature=0.95 num_samples=10000",
            "sampling=entropy sampling.temperature=0.9 num_samples=10000",
            "sampling=renoise steps=100",
        ),
        curve_options=("num_samples=1000",),
        student_calls=8,
    ),
    "zinc": Standard(
        "GDSS protocol without correction, but fewer samples, which makes FCD larger than 10,000 "
        "would",
        (_VALID, _UNIQUE, _FCD, _NSPDK),
        {
            "plain masked diffusion (of the SID paper)": {"valid": 8.96, "fcd": 25.0},
            "DiGress": {"valid": 94.99, "fcd": 3.48},
            "GruM": {"valid": 98.65, "fcd": 2.26, "nspdk_mmd": 0.0015},
            "DeFoG, 500 steps": {"valid": 99.22, "fcd": 1.43, "nspdk_mmd": 0.0008},
        },
        (_VALID, _RELAXED, _UNIQUE),
        (f"num_samples={MOLECULES['zinc']}", *_ROUGH_BOUND),
        narrowed=(
            "structure=connected num_samples=1000",
            "structure=connected sampling=entropy sampling.tokens_per_call=4 num_samples=1000",
        ),
    ),
    "planar": Standard(
        "SPECTRE protocol: 40 graphs of 64 nodes, five times",
        (_VUN, _RATIO),
        {
            "SPECTRE": {"valid_unique_novel": 25.0, "ratio": 3.0},
            "DiGress": {"valid_unique_novel": 77.5, "ratio": 5.1},
            "HSpectre": {"valid_unique_novel": 95.0, "ratio": 2.1},
            "DeFoG, 50 steps": {"valid_unique_novel": 95.0, "ratio": 3.2},
            "DeFoG, 1,000 steps": {"valid_unique_novel": 99.5, "ratio": 1.6},
        },
        (_VALID, _VUN),
        ("num_samples=40", "num_seeds=5"),
        narrowed=("structure=planar",),
    ),
    "tree": Standard(
        "SPECTRE protocol: 40 graphs of 64 nodes, five times",
        (_VUN, _RATIO),
        {
            "DiGress": {"valid_unique_novel": 90.0, "ratio": 1.6},
            "HSpectre": {"valid_unique_novel": 100.0, "ratio": 4.0},
            "DeFoG, 50 steps": {"valid_unique_novel": 73.5, "ratio": 2.5},
            "DeFoG, 1,000 steps": {"valid_unique_novel": 96.5, "ratio": 1.6},
        },
        (_VALID, _VUN),
        ("num_samples=40", "num_seeds=5"),
        # fewest calls: a tree is a tree anyway
        narrowed=("structure=tree sampling.tokens_per_call=20",),
        samplers=(
            *(f"sampling.tokens_per_call={k}" for k in (20, 8, 4)),
            *(f"sampling={name} sampling.tokens_per_call=8" for name in ("entropy", "confidence")),
            "sampling=entropy-bounded",
        ),
        curve_options=("num_seeds=1",),
    ),
    "community_small": Standard(
        f"{_GDSS} 20 graphs",
        _SMALL_SETS,
        {
            "GDSS": {"mmd_average": 0.046},
            "DiGress": {"mmd_average": 0.038},
            "HOG-Diff": {"mmd_average": 0.010},
        },
        (_MMD,),
        ("num_samples=20", "num_seeds=5"),
        first_fifth,
    ),
    "ego_small": Standard(
        f"{_GDSS} 40 graphs",
        _SMALL_SETS,
        {
            "GDSS": {"mmd_average": 0.0173},
            "HGDM": {"mmd_average": 0.0137},
            "GGBall": {"mmd_average": 0.0117},
        },
        (_MMD,),
        ("num_samples=40", "num_seeds=5"),
        first_fifth,
    ),
    "plans_large": Standard(
        "CubiGraph5K, up to 20 rooms; 500 samples beside the test split, total variation (TV) and "
        "MMD beside floors: as many real plans in the samples' place",
        (
            _CONNECTED,
            Column("edges_per_diagram", "relations", digits=1),
            Column("node_tv", "types, TV", digits=3),
            Column("relation_tv", "relations, TV", digits=3),
            Column("degree_tv", "degrees, TV", digits=3),
            Column("mmd_degree", "degrees, MMD", digits=4),
            Column("mmd_clustering", "clustering, MMD", digits=4),
            Column("mmd_spectrum", "spectrum, MMD", digits=4),
        ),
        {},
        (_CONNECTED,),
        ("num_samples=500", "num_seeds=2"),
    ),
}
"""Source: the tables of DeFoG (arXiv 2410.04263) and of the papers named; one row can mix what a
paper measured with what it copied, so differences of a point or of a tenth of FCD mean little."""


def table(standard: Standard, results: Mapping[str, Any]) -> str:
    """A row per method: published ones, real data by our code, ours with intervals, free and
    narrowed, and controls without a network."""
    rows = []
    for name, values in standard.published.items():
        cells = []
        for column in standard.columns:
            value = values.get(column.key)
            cells.append(column.shown(None if value is None else value / column.scale))
        rows.append([name, *cells])
    first = next(iter(_networks(results).values()))["evaluation"]
    real = [column.shown(standard.real(first, column.key)) for column in standard.columns]
    rows.append(["real data, by the same code", *real])
    for name, found in _networks(results).items():
        free, title = found["evaluation"], f"**{name}**"
        values = [_ours(free, column) for column in standard.columns]
        rows.append([title + _unlike(free, first), *values])
        for narrowed in found.get("narrowed", []):
            calls = f"{narrowed['network_calls_per_sample']:,.0f} calls"
            forced = f"{narrowed['forced_draws_per_sample']:.2f} forced draws"
            sampler = _sampler(narrowed["sampling"])
            how = f", `structure={narrowed['structure']}`, {sampler}, {calls}, {forced}"
            values = [_ours(narrowed, column) for column in standard.columns]
            rows.append([title + how + _unlike(narrowed, first), *values])
    for name, found in results.get("controls", {}).items():
        rows.append([f"no network: {name}", *(_ours(found, column) for column in standard.columns)])
    return markdown_table(["", *(column.head for column in standard.columns)], rows)


def _networks(results: Mapping[str, Any]) -> dict[str, Any]:
    """Results by network, without the controls."""
    return {name: found for name, found in results.items() if name != "controls"}


def calls_table(standard: Standard, results: Mapping[str, Any]) -> str:
    """Samplers and their network calls a sample against what is measured; of trees, beside the
    exact posterior."""
    rows = []
    of_trees = False
    for name, found in _networks(results).items():
        if "by_calls" not in found:
            continue
        for each in (*found["by_calls"], found):
            measured = each["evaluation"]
            calls = f"{measured['network_calls_per_sample']:,.0f}"
            cells = [_ours(measured, column) for column in standard.columns]
            network = f"{name}, {each['student']}" if "student" in each else name
            rows.append(
                [network, _sampler(measured["sampling"]), calls, _num_samples(measured), *cells]
            )
            if "exact_posterior" in each:
                of_trees = True
                rows[-1].append(f"{100 * each['exact_posterior']:.0f}")
    heads = ["", "sampler", "calls", "samples", *(column.head for column in standard.columns)]
    heads += ["exact posterior, trees, %"] if of_trees else []
    return markdown_table(heads, rows, left=2)


def _num_samples(measured: Mapping[str, Any]) -> str:
    return f"{measured['num_samples'] * len(measured['seeds']):,}"


def _unlike(measured: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """The number of samples, where it is not that of the first row."""
    num = _num_samples(measured)
    return "" if num == _num_samples(first) else f", {num} samples"


def _sampler(settings: Mapping[str, Any]) -> str:
    """Its name, with what decides its calls and what it draws."""
    name = str(settings["name"])
    if (tokens := settings.get("tokens_per_call", 1)) > 1:
        name += f", {tokens} tokens a call"
    if "entropy_budget" in settings:
        name += f", budget {settings['entropy_budget']}"
    if (temperature := settings.get("temperature") or 1) != 1:
        name += f", temperature {temperature:g}"
    return name


def _ours(evaluation: Mapping[str, Any], column: Column) -> str:
    """The mean over sampling seeds, in brackets their 95 % interval if there are several."""
    if column.key not in evaluation:
        return ""
    shown = column.shown(evaluation[column.key])
    low, high = evaluation.get("intervals", {}).get(column.key, (None, None))
    return shown if low is None else f"{shown} ({column.shown(low)} to {column.shown(high)})"


def training_times(standard: Standard, networks: Mapping[str, Any]) -> str:
    """What the validations said, with the minutes of training so far, by steps: the bound of the
    unordered graph, where there is one."""
    rows = []
    for name, found in _networks(networks).items():
        curve, total = found["validations"], found["training"]
        for k, step in enumerate(curve["step"]):
            minutes = _minutes(total) * step / total["steps"]
            bound = f"{curve.get('nelbo_unordered', curve['nelbo'])[k]:.2f}"
            if "nelbo_standard_error" in curve:  # older results have none
                bound += f" ± {curve['nelbo_standard_error'][k]:.2f}"
            rows.append([name, f"{step:,}", f"{minutes:.0f}", bound])
            rows[-1] += [column.shown(curve[column.key][k]) for column in standard.followed]
    on_gpu = any("device" in found["training"] for found in _networks(networks).values())
    minutes = "minutes of a CPU core or GPU" if on_gpu else "CPU-minutes"
    heads = ["", "steps", minutes, "bound, nats", *(c.head for c in standard.followed)]
    return markdown_table(heads, rows)


def _minutes(training: Mapping[str, Any]) -> float:
    """Of CPU time, or of time on a GPU."""
    return float(training["seconds" if "device" in training else "cpu_seconds"]) / 60


def facts(record: Record, standard: Standard) -> str:
    lines = [f"{standard.protocol}.", ""]
    for name, found in _networks(record.results).items():
        trained, measured = found["training"], found["evaluation"]
        device = trained.get("device")
        minutes = "CPU-minutes" if device is None else f"minutes on one {device}"
        lines.append(
            f"* {name}: {trained['parameters']:,} parameters, {trained['steps']:,} steps, "
            f"{_minutes(trained):.0f} {minutes} of training and its validations; "
            f"{measured['nelbo_unordered']:.2f} nats per unordered graph (blind "
            f"{measured['nelbo_blind']:.2f}); {_num_samples(measured)} samples of "
            f"{measured['network_calls_per_sample']:,.0f} network calls"
            + (f". `{found['command']}`, {found['hardware']}" if "command" in found else "")
        )
    return "\n".join(lines)


def sections(record: Record) -> Sections:
    name = record.name.removeprefix("standard_")
    standard = STANDARDS[name]
    texts = {
        name: f"{facts(record, standard)}\n\n{table(standard, record.results)}",
        f"{name} over time": training_times(standard, record.results),
    }
    if any(found.get("by_calls") for found in _networks(record.results).values()):
        texts[f"{name} by calls"] = calls_table(standard, record.results)
    return {(Part.GRAPHS, title): text for title, text in texts.items()}


def measure_network(
    recipe: str, run: Path, options: Sequence[str], words: Sequence[str], file: Path
) -> dict[str, Any]:
    """A kept run: free samples, narrowed ones, and those of fewer calls. ``options``: of
    ``evaluate``; ``words``: of its training."""
    standard = STANDARDS[recipe]
    found = _measured(standard, run, options)
    if standard.student_calls is not None:
        found["by_calls"].append(measure_student(standard, run, options, words))
    for each in (*found["by_calls"], found) if recipe == "tree" else ():
        calls = round(each["evaluation"]["network_calls_per_sample"])
        each["exact_posterior"] = share_of_trees(file, calls, num=80, seed=0)
    return found


def measure_row(recipe: str, run: Path, options: Sequence[str]) -> dict[str, Any]:
    """A kept run of another training: free samples, and as many by other samplers."""
    standard = STANDARDS[recipe]
    as_many = tuple(each for each in standard.samplers if "num_samples=" in each)
    return _measured(replace(standard, narrowed=(), samplers=as_many), run, options)


def _measured(standard: Standard, run: Path, options: Sequence[str]) -> dict[str, Any]:
    bounds = ("nelbo", "nelbo_unordered", "nelbo_standard_error")
    found: dict[str, Any] = {
        "training": cost(run),
        "validations": validations(run, (*bounds, *(c.key for c in standard.followed))),
        "evaluation": evaluate_run(run, *options),
        "narrowed": [
            evaluate_run(run, *chosen, name=f"narrowed_{name}")
            for name, chosen in sampled_parts(standard.narrowed, options)
        ],
        "by_calls": [
            {"evaluation": evaluate_run(run, *chosen, name=name)}
            for name, chosen in sampled_parts(standard.samplers, options, standard.curve_options)
        ],
    }
    return found


def measure_student(
    standard: Standard, run: Path, options: Sequence[str], words: Sequence[str]
) -> dict[str, Any]:
    """A student of few calls of a kept run, its samples as many as those of the curve."""
    teacher = run / "checkpoints" / "last.ckpt"
    student = kept_run(
        run.with_name(f"{run.name}_student"),
        [
            *(*words, "algo=distill", f"init.checkpoint={teacher}"),
            *(f"calls={standard.student_calls}", f"trainer.max_steps={_STUDENT_STEPS}"),
            *(f"trainer.val_check_interval={_STUDENT_STEPS}", "optim.lr=1e-3"),
            *("callbacks.num_samples=0", "eval.num_samples=0"),
        ],
    )
    chosen = (*standard.curve_options, _SAMPLES_ALONE)
    measured = evaluate_run(student, *_replaced(options, chosen))
    return {"student": f"student after {_STUDENT_STEPS:,} steps", "evaluation": measured}


_STUDENT_STEPS = 500


def _replaced(options: Sequence[str], by: Sequence[str]) -> list[str]:
    """Options, those with keys of ``by`` replaced."""
    keys = {word.partition("=")[0] for word in by}
    return [*(word for word in options if word.partition("=")[0] not in keys), *by]


def sampled_parts(
    rows: Sequence[str], options: Sequence[str], others: Sequence[str] = ()
) -> Iterator[tuple[str, list[str]]]:
    """Names and words of evaluations of samples alone, a row of words each, in the place of
    ``options`` of ``evaluate``; ``others`` of all rows, unless a row has its own."""
    for row in rows:
        chosen = [*_replaced(others, row.split()), _SAMPLES_ALONE]
        yield re.sub(r"\W+", "_", row), _replaced(options, chosen)


_SAMPLES_ALONE = "noise_samples=0"
"""Option of ``evaluate`` for rows whose bound is that of another row."""


def measure_controls(recipe: str, file: Path, folder: Path, config: DictConfig) -> dict[str, Any]:
    """Samples that have the structure of ``recipe`` without a network, measured like ours."""
    if recipe in MOLECULES:  # atoms of real molecules, bonds at random
        kind, words = "molecules", ["domain=molecules", f"charges={config.data.charges}"]
        data: Any = build_data(config)
        write_molecules(data.molecules("test"), folder / "test")
        reference = folder / "test" / "samples.smi"
        paths = write_controls(kind, file, folder, num=MOLECULES[recipe], seeds=1)
    else:
        kind, words, reference = recipe, ["domain=graphs", f"kind={recipe}"], file
        paths = write_controls(kind, file, folder, num=40, seeds=5)
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.stem.rpartition("_")[0], []).append(str(path))
    found = {}
    for name, of_seeds in by_name.items():
        samples = f"samples=[{','.join(of_seeds)}]"
        measured = evaluate(folder / name, samples, f"reference={reference}", *words)
        del measured["samples"]  # paths of this machine
        found[name.replace("_", " ")] = measured | {"reference": f"the test split of {file.name}"}
    return found


def main() -> None:
    parser = command_line(__doc__, threads=1, keep=True)
    parser.add_argument("recipe", choices=list(STANDARDS))
    parser.add_argument("file", type=Path)
    parser.add_argument("--networks", nargs="+", default=["bd-denoiser-pair"])
    parser.add_argument("--row", help="of another training, beside those of the file")
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_intermixed_args()
    standard, name = STANDARDS[given.recipe], f"standard_{given.recipe}"
    words = [*given.overrides, f"experiment={given.recipe}", f"threads={given.threads}"]
    options = [f"threads={given.threads}", *standard.options]
    key = "trainer.precision="
    options += [word.removeprefix("trainer.") for word in given.overrides if word.startswith(key)]
    command, found = command_of(given), earlier(name)
    with kept_folder(given.keep) as kept:
        folder = kept / given.recipe
        file = standard.split(given.file, folder) if standard.split else given.file
        words.append(f"data.path={file.resolve()}")
        compose("train", words)  # refused before the clock starts
        for network in given.networks:
            run_words = [*words, f"algo.backbone={network}"]
            run = kept_run(folder / network, run_words)
            if given.row:
                measured = measure_row(given.recipe, run, options)
                of_row = {"command": command, "hardware": hardware()}
                found[f"`{network}`, {given.row}"] = measured | of_row
                continue
            found[f"`{network}`"] = measure_network(given.recipe, run, options, run_words, file)
            picture = Image.open(run / "samples.png").convert("RGB").quantize(_COLOURS)
            picture.save(DOCS / "images" / f"{given.recipe}_samples.png", optimize=True)
        made_on = None
        if given.row:
            others = Record.read(name)
            command, made_on = others.command, others.hardware
        elif given.recipe in (*CONTROLS, *MOLECULES):
            config = complete_data(compose("train", words))
            found["controls"] = measure_controls(given.recipe, file, folder / "controls", config)
    publish(name, command=command, seed=0, results=found, made_on=made_on)


def command_of(given: argparse.Namespace) -> str:
    """What was typed, without the places of files."""
    words = [given.recipe, given.file.name, *given.overrides, f"--threads {given.threads}"]
    words += [f"--networks {' '.join(given.networks)}"]
    words += [f"--row '{given.row}'"] if given.row else []
    return " ".join(["python benchmarks/standard_sets.py", *words])


if __name__ == "__main__":
    main()

"""What it costs to meet the briefs of ``examples/briefs``: particles, beside rejection.

    python benchmarks/briefs.py --checkpoint RUN [--num 16] [--particles 256] [--threads 1]
        [--briefs family hard ...] [--kinds counts group ...] [--measured family ...]
    python benchmarks/briefs.py told --told RUN --plain RUN [--num 16] [--particles 256] ...

RUN: a model of the embedded plans, such as ``plans-small``, or what ``make demo`` leaves.
``--briefs`` are answered by particles, and by rejection where more than one sample in fifty meets
them; ``--kinds``, a brief for each kind of rule, by the method that ``sample`` chooses;
``--measured`` are compared with the data that meet them, 256 samples each. What the options leave
out stays as it is.

``told``: the briefs by particles of two models, ``experiment=plans_conditional`` and
``experiment=plans_full``, and what the first makes of the facts that it is given, as ``evaluate``
measures it: nats with right and wrong facts, and counts obeyed. Writes
``benchmarks/results/briefs.json`` or ``told.json``, their sections of the docs, and pictures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image

from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.sample import run
from discrete_diffusion.hub import published
from floor_plans import read_diagrams
from floor_plans.briefs.reading import read_brief
from floor_plans.diagrams.pictures.diagram_pictures import plot_grid
from record import (
    DOCS,
    ROOT,
    Part,
    Record,
    Sections,
    command_line,
    earlier,
    markdown_table,
    publish,
)
from runs import evaluate

EXAMPLES = ROOT / "examples" / "briefs"
BRIEFS = ("family", "family_placed", "hard", "hard_placed")
KINDS = tuple(sorted(path.stem for path in (EXAMPLES / "kinds").glob("*.yaml")))
MEASURED = BRIEFS[:2]
COMMON = 0.02
MODELS = ("told", "plain")
ASKED = (*BRIEFS, "kinds/counts")
"""Of ``told``; the last says exact counts, which are facts."""
KEPT = (
    *("distinct", "probability", "probability_standard_error", "network_calls_per_sample"),
    *("effective_samples", "moves_accepted", "num_samples", "method"),
)
DISTANCES = ("node_tv", "relation_tv", "degree_tv", "room_count_w1")
COVERAGE = "mode_coverage_weighted"
_COLOURS = 64
_SHOWN = 5


def answer(name: str, words: list[str], out: Path) -> dict[str, Any]:
    """Numbers of ``sample brief=``; all that it wrote is read again and judged."""
    file = EXAMPLES / f"{name}.yaml"
    start = time.process_time()
    run(compose("sample", [*words, f"brief={file}", f"out={out}"]))
    seconds = time.process_time() - start
    metrics = json.loads((out / "metrics.json").read_text())
    brief, drawn = read_brief(file), read_diagrams(out / "samples.jsonl")
    met = sum(not brief.unmet(diagram) for diagram in drawn)
    found = {key: metrics[key] for key in KEPT if key in metrics}
    return {**found, "met": met / len(drawn), "cpu_seconds": seconds}


def measure(name: str, words: list[str], out: Path) -> dict[str, Any]:
    """Of each method, what ``evaluate brief=`` says against the data that meet the brief."""
    options = ["num_samples=256", "pictures=false", f"brief={EXAMPLES / name}.yaml", f"out={out}"]
    metrics = evaluate(out, *words, *options)
    methods = {}
    for method, found in metrics["methods"].items():
        kept = {key: found[key] for key in ("num_samples", "share_met", "network_calls_per_met")}
        of = {key: found["metrics"].get(key) for key in (*DISTANCES, COVERAGE)}
        floors = found.get("floors", {})
        methods[method] = {**kept, "metrics": of, "floors": {key: floors.get(key) for key in of}}
    return {"reference": metrics["reference"], "num": metrics["num_reference"], "methods": methods}


def measure_told(run: Path, threads: int, folder: Path) -> dict[str, Any]:
    """What ``evaluate`` says of facts, and what the model is."""
    options = (
        "num_samples=200",
        "num_seeds=1",
        "reference_repeats=0",
        "num_solver_checks=0",
        "pictures=false",
    )
    found = evaluate(folder, f"checkpoint={run}", f"threads={threads}", *options)
    config = read_checkpoint(run).config
    kept = ("told", "told_num_held_out", "nelbo_unordered")
    kept += tuple(key for key in found if key.startswith("obeyed"))
    return {
        "backbone": config.algo.backbone,
        "steps": found["step"],
        **{key: found[key] for key in kept if key in found},
    }


def picture(found: Path, name: str) -> None:
    """The first diagrams of a kind side by side."""
    path = DOCS / "images" / f"brief_{name}.png"
    diagrams = list(read_diagrams(found / "samples.jsonl"))[:_SHOWN]
    plot_grid(diagrams, path, columns=_SHOWN, legend=False, dpi=110)
    Image.open(path).convert("RGB").quantize(_COLOURS).save(path, optimize=True)


def sections(record: Record) -> Sections:
    """A row per brief and method; per kind of rule; and per brief that is measured."""
    found = record.results
    if record.name == "told":
        return _told_sections(record)
    made = {(Part.PLANS, "briefs"): _costs(record)}
    if "kinds" in found:
        made[Part.PLANS, "brief kinds"] = _kinds(found["kinds"])
    if "measured" in found:
        made[Part.PLANS, "brief distances"] = _distances(found["measured"])
    return made


def _costs(record: Record) -> str:
    model, rows = record.results["model"], []
    for name, methods in record.results["briefs"].items():
        for method, found in methods.items():
            p, error = found["probability"], found["probability_standard_error"]
            rows.append(
                [
                    f"[{name}](../examples/briefs/{name}.yaml)",
                    method,
                    f"{p:.2g} ± {error:.1g}",
                    f"{100 * found['met']:.0f}",
                    f"{found['distinct']} of {found['num_samples']}",
                    f"{found['network_calls_per_sample']:,.0f}",
                    f"{model['calls'] / p:,.0f}",
                    f"{found['cpu_seconds']:.0f}",
                ]
            )
    heads = ["", "method", "share of the model's diagrams", "met, %", "distinct"]
    heads += ["calls a diagram", "rejection would take", "CPU-seconds in all"]
    about = (
        f"{model['algorithm']} with {model['backbone']}, "
        f"{model['steps']:,} steps, {model['calls']:.1f} calls a diagram without a brief."
    )
    return f"{about}\n\n{markdown_table(heads, rows, left=2)}"


def _kinds(kinds: dict[str, Any]) -> str:
    rows = [
        [
            f"[{name}](../examples/briefs/kinds/{name}.yaml)",
            f"![{name}](../docs/images/brief_{name}.png)",
            found["method"],
            f"{found['probability']:.2g}",
            f"{100 * found['met']:.0f}",
            f"{found['network_calls_per_sample']:,.0f}",
        ]
        for name, found in kinds.items()
    ]
    heads = ["", "", "method", "share of the model's", "met, %", "calls a diagram"]
    return markdown_table(heads, rows, left=3)


def _distances(measured: dict[str, Any]) -> str:
    rows = []
    for name, found in measured.items():
        for method, of in found["methods"].items():
            value, floor = of["metrics"][COVERAGE], of["floors"][COVERAGE]
            cells = []
            for key in DISTANCES:
                distance, real = of["metrics"][key], of["floors"][key]
                cells.append(f"{distance:.3f} ({f'{distance / real:.1f}' if real else 'no floor'})")
            shown = f"{value:.3f} of {floor:.3f}"
            met = f"{100 * of['share_met']:.0f}"
            rows.append([name, method.replace("_", " "), of["num_samples"], met, shown, *cells])
    heads = ["", "method", "diagrams", "met, %", "weight of the rooms covered, of real ones'"]
    heads += ["types, TV", "relations, TV", "degrees, TV", "number of rooms, W1"]
    return markdown_table(heads, [[str(cell) for cell in row] for row in rows], left=2)


def _told_sections(record: Record) -> Sections:
    """Facts right, hidden and wrong; then a row per brief and model."""
    told = record.results["models"]["told"]
    facts = [
        [name, f"{each['nats_more']:.2f} ± {each['standard_error']:.2f}"]
        for name, each in told["told"].items()
    ]
    obeyed = ", ".join(
        f"{100 * value:.1f} % at guidance {key.rpartition('_')[2]}"
        for key, value in told.items()
        if key.startswith("obeyed")
    )
    about = (
        f"{told['backbone']}, {told['steps']:,} steps; "
        f"{told['told_num_held_out']} held-out diagrams. All counts that it was given: {obeyed}."
    )
    rows = [
        [
            f"[{name.rpartition('/')[2]}](../examples/briefs/{name}.yaml)",
            model,
            f"{found['effective_samples']:.0f}",
            f"{found['network_calls_per_sample']:,.0f}",
            f"{found['distinct']} of {found['num_samples']}",
            f"{found['cpu_seconds']:.0f}",
        ]
        for name, models in record.results["briefs"].items()
        for model, found in models.items()
    ]
    heads = ["", "model", f"effective of {4 * record.results['particles']} particles"]
    heads += ["calls a diagram", "distinct", "CPU-seconds"]
    return {
        (Part.PLANS, "told"): f"{about}\n\n{markdown_table(['', 'nats more'], facts)}",
        (Part.PLANS, "told briefs"): markdown_table(heads, rows, left=2),
    }


def costs(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What the briefs, kinds and measurements that are asked for cost, beside those of before."""
    words = [f"checkpoint={published(given.checkpoint).absolute()}", f"threads={given.threads}"]
    num = [*words, f"num_samples={given.num}"]
    particles = [*num, f"particles={given.particles}"]
    found = earlier("briefs")
    briefs, kinds, measured = (found.setdefault(key, {}) for key in ("briefs", "kinds", "measured"))
    for name in given.briefs:
        out = folder / f"{name}_particles"
        briefs[name] = {"particles": answer(name, [*particles, "method=smc"], out)}
        if briefs[name]["particles"]["probability"] > COMMON:
            rejecting = [*num, "method=rejection"]
            briefs[name]["rejection"] = answer(name, rejecting, folder / f"{name}_rejection")
    if given.briefs:
        drawn = Image.open(out / "samples.png").convert("RGB")
        drawn.quantize(_COLOURS).save(DOCS / "images" / "brief.png", optimize=True)
    for name in given.kinds:
        kinds[name] = answer(f"kinds/{name}", particles, folder / f"kind_{name}")
        picture(folder / f"kind_{name}", name)
    for name in given.measured:
        measured[name] = measure(name, words, folder / f"{name}_measured")
    checkpoint = read_checkpoint(given.checkpoint)
    counts, config = checkpoint.size_counts, checkpoint.config
    calls = sum(n * (n + 1) / 2 * count for n, count in enumerate(counts)) / sum(counts)
    model = {"algorithm": config.algo.name, "backbone": config.algo.backbone}
    return {**found, "model": {**model, "steps": checkpoint.step, "calls": calls}}


def told(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The two models, and each brief answered by particles of both."""
    runs = {name: published(getattr(given, name)).absolute() for name in MODELS}
    models = {k: measure_told(path, given.threads, folder / k) for k, path in runs.items()}
    briefs: dict[str, Any] = {name: {} for name in ASKED}
    for name in ASKED:
        for model, folder_of_run in runs.items():
            words = [f"checkpoint={folder_of_run}", f"num_samples={given.num}"]
            words += [f"threads={given.threads}", f"particles={given.particles}"]
            out = folder / f"{model}_{name.replace('/', '_')}"
            briefs[name][model] = answer(name, [*words, "method=smc"], out)
    return {"models": models, "briefs": briefs, "particles": given.particles}


def main() -> None:
    parser = command_line(__doc__, threads=1)
    parser.add_argument("study", nargs="?", choices=("briefs", "told"), default="briefs")
    parser.add_argument("--checkpoint", type=Path, help="of briefs: the model")
    parser.add_argument("--told", type=Path, help="of told: a run that is told facts")
    parser.add_argument("--plain", type=Path, help="of told: one that is not")
    parser.add_argument("--num", type=int, default=16)
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--briefs", nargs="*", choices=BRIEFS, default=list(BRIEFS))
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--measured", nargs="*", choices=BRIEFS, default=list(MEASURED))
    given = parser.parse_args()
    study = given.study
    needed = ("checkpoint",) if study == "briefs" else MODELS
    if missing := [f"--{name}" for name in needed if getattr(given, name) is None]:
        parser.error(f"{study} needs {' and '.join(missing)}")
    with tempfile.TemporaryDirectory() as scratch:
        results = (costs if study == "briefs" else told)(given, Path(scratch))
    command = "python benchmarks/briefs.py" + (" told" if study == "told" else "")
    command += "".join(f" --{name} {getattr(given, name).name}" for name in needed)
    command += f" --num {given.num} --particles {given.particles} --threads {given.threads}"
    publish(study, command=command, seed=0, results=results)


if __name__ == "__main__":
    main()

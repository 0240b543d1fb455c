"""Train the pair and the flat network on a file of real plans and record both beside baselines.

    python benchmarks/real_plans.py plans.jsonl [--seeds 3] [--threads 2] [--keep FOLDER]
        [--networks NAME ...] [override ...]

Writes ``benchmarks/results/real_plans.json``, its tables in the docs and the figure of the curves;
samples are of the first seed's models, beside the held-out plans. The held-out fifth is chosen by
distinct diagram, up to relabelling; the bound is of the averaged weights at the end of training, so
nothing is selected on the held-out plans.

``--keep FOLDER`` keeps the runs; those that are there are not trained again.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from discrete_diffusion.viz import GROUP_COLOURS, add_legend, new_figure, save_figure, style_axes
from floor_plans import BubbleDiagram, read_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from record import Figures, Part, Record, Sections, command_line, markdown_table, publish
from runs import NETWORKS, by_size_table, evaluate_run, kept_folder, kept_run, table, validations
from runs import facts as cost

WATCHED = ("trainer.val_check_interval=100", "callbacks.num_samples=200", "logger=csv")
CURVES = {"nelbo_unordered": "held-out NELBO, nats", "transitive": "transitive, % of 200 samples"}
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
)


def transitive_by_rooms(samples: Sequence[BubbleDiagram]) -> dict[int, dict[str, float]]:
    """The share of samples without a contradiction, by number of rooms."""
    found = {}
    for num_rooms in sorted({len(diagram.rooms) for diagram in samples}):
        same = DiagramSet([diagram for diagram in samples if len(diagram.rooms) == num_rooms])
        agrees = same.horizontally_transitive & same.vertically_transitive
        found[num_rooms] = {"transitive": float(agrees.mean()), "num_samples": len(same)}
    return found


def measured(folder: Path, network: str, seeds: Sequence[int], words: list[str]) -> dict[str, Any]:
    """A network's runs with every seed, and an evaluation of the first's."""
    runs, curves = [], []
    for seed in seeds:
        run = folder / f"{network}-{seed}"
        kept_run(run, [*words, *WATCHED, f"algo.backbone={network}", f"seed={seed}"])
        metrics = json.loads((run / "metrics.json").read_text())
        runs.append({name: metrics[name] for name in KEPT} | cost(run))
        curves.append(validations(run, list(CURVES)))
    first = folder / f"{network}-{seeds[0]}"
    options = ("num_samples=1000", "noise_samples=16")
    bounds = [run["nelbo_unordered"] for run in runs]
    return {
        "nelbo_unordered_mean": statistics.fmean(bounds),
        "nelbo_unordered_sd_over_seeds": statistics.stdev(bounds) if len(bounds) > 1 else None,
        "runs": runs,
        "curves": curves,
        "evaluation": evaluate_run(first, *options),
        "by_rooms": transitive_by_rooms(read_diagrams(first / "evaluation" / "samples.jsonl")),
    }


def facts(found: Mapping[str, Any]) -> str:
    """The bounds of all networks in a sentence, and what the runs cost."""
    parts = []
    for network, results in found.items():
        bounds = ", ".join(f"{run['nelbo_unordered']:.2f}" for run in results["runs"])
        seeds = "one seed" if len(results["runs"]) == 1 else f"mean of seeds {bounds}"
        minutes = statistics.fmean(run["cpu_seconds"] for run in results["runs"]) / 60
        parts.append(
            f"{results['nelbo_unordered_mean']:.2f} nats per unordered diagram with `{network}` "
            f"({seeds}; {minutes:.0f} CPU-minutes a run)"
        )
    run = next(iter(found.values()))["runs"][0]
    return (
        f"The held-out bound is {' and '.join(parts)}; the standard error over held-out diagrams "
        f"is {run['nelbo_standard_error']:.2f}, blind {run['nelbo_blind']:.2f}, untrained "
        f"{run['nelbo_uniform']:.2f}."
    )


def transitive_table(found: Mapping[str, Any]) -> str:
    """Transitive samples by number of rooms, in percent with the standard error."""
    sizes = next(iter(found.values()))["by_rooms"]
    rows = []
    for size in sizes:
        cells = [str(size)]
        for results in found.values():
            share, num = (results["by_rooms"][size][key] for key in ("transitive", "num_samples"))
            error = (share * (1 - share) / num) ** 0.5
            cells.append(f"{100 * share:.1f} ± {100 * error:.1f} % of {num:,}")
        rows.append(cells)
    return markdown_table(["rooms", *(f"`{network}`" for network in found)], rows, left=0)


def summary(found: Mapping[str, Any]) -> str:
    """What tells the networks apart, a column each."""
    most = max(next(iter(found.values()))["by_rooms"], key=int)
    rows: dict[str, list[str]] = {}
    for results in found.values():
        model, first = results["evaluation"], results["runs"][0]
        largest = results["by_rooms"][most]["transitive"]
        cells = {
            "parameters": f"{first['parameters']:,}",
            "held-out NELBO, nats": f"{results['nelbo_unordered_mean']:.2f}",
            "transitive": f"{100 * model['transitive']:.1f} %",
            f"transitive, of {most} rooms": f"{100 * largest:.1f} %",
            "valid": f"{100 * model['valid']:.1f} %",
            "MMD of clustering": f"{model['mmd_clustering']:.3f}",
            "CPU-minutes of a run": f"{first['cpu_seconds'] / 60:.0f}",
        }
        for name, cell in cells.items():
            rows.setdefault(name, []).append(cell)
    head = ["", *(f"`{network}`" for network in found)]
    return markdown_table(head, [[name, *cells] for name, cells in rows.items()])


def draw_curves(found: Mapping[str, Any], path: Path) -> None:
    """What validations said against steps: a panel per quantity, a line per network and seed."""
    figure = new_figure(9.6, 3.9)
    for axes, (name, label) in zip(figure.subplots(1, 2), CURVES.items(), strict=True):
        percent = 100 if name == "transitive" else 1
        for colour, (network, results) in zip(cycle(GROUP_COLOURS), found.items(), strict=False):
            for k, run in enumerate(results["curves"]):
                values = [percent * value for value in run[name]]
                axes.plot(
                    run["step"],
                    values,
                    color=colour,
                    marker="o",
                    markersize=3.6,
                    label=network if k == 0 else None,
                )
        style_axes(axes, title=label, xlabel="training steps of 256 plans", ylabel="")
        axes.set_xlim(left=0)
    add_legend(axes, loc="lower right")
    save_figure(figure, path)


def sections(record: Record) -> Sections:
    found = record.results["networks"]
    evaluations = {network: results["evaluation"] for network, results in found.items()}
    return {
        (Part.NETWORKS, "real plans"): f"{facts(found)}\n\n{table(evaluations)}",
        (Part.NETWORKS, "real plans by rooms"): by_size_table(evaluations),
        (Part.NETWORKS, "real plans transitive by rooms"): transitive_table(found),
        (Part.NETWORKS, "flat and pair"): summary(found),
    }


def figures(record: Record) -> Figures:
    return {"flat_and_pair.png": partial(draw_curves, record.results["networks"])}


def main() -> None:
    parser = command_line(__doc__, threads=2, keep=True)
    parser.add_argument("plans", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_intermixed_args()
    fixed = ["experiment=plans_small", *arguments.overrides]
    words = [*fixed, f"data.path={arguments.plans.resolve()}", f"threads={arguments.threads}"]
    seeds = range(arguments.seeds)
    with kept_folder(arguments.keep) as folder:
        found = {network: measured(folder, network, seeds, words) for network in arguments.networks}
    results = {
        "train": " ".join(["discrete-diffusion train", *fixed, "data.path=plans.jsonl"]),
        "networks": found,
    }
    options = f"--seeds {arguments.seeds} --threads {arguments.threads}"
    options += f" --networks {' '.join(found)}"
    command = ["python benchmarks/real_plans.py plans.jsonl", *arguments.overrides, options]
    publish("real_plans", command=" ".join(command), seed=list(seeds), results=results)


if __name__ == "__main__":
    main()

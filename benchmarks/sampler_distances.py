"""How far from the truth samplers end with an exact network, by network calls.

    python benchmarks/sampler_distances.py --text FILE [--worlds NAME ...] [--samplers NAME ...]
    python benchmarks/sampler_distances.py particles [--sets 2000]

The worlds are those of ``discrete_diffusion.evaluation.oracles``: Markov chains of order 1 and 2
with the transition counts of the letters of a text, the first of them seen through noise, and
uniform random trees; each with masks and with uniform noise. All registered samplers are measured
that fit. ``--worlds`` and ``--samplers`` measure these alone, and keep what else the record has.

Of ``particles`` it is the distance of few of them from the exact conditional, under the constraints
and look-aheads of ``toy_constraints.py``, both of ``tests/discrete_diffusion/sampling``. Writes
``benchmarks/results/sampler_distances.json`` or ``particle_errors.json``, its text in the docs, and
the figure. ``--quick`` checks that it runs, and writes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from matplotlib.ticker import NullFormatter

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import read_text
from discrete_diffusion.evaluation import HiddenMarkov, OracleWorld, UniformTrees, sampler_distances
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.registry import SAMPLERS, sampler_state
from discrete_diffusion.viz import chart_style
from floor_plans.briefs.particles import Particles
from record import Figures, Part, Record, Sections, command_line, earlier, markdown_table, publish

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "discrete_diffusion" / "sampling")]

from toy_constraints import Toy, conditional  # noqa: E402
from toy_samplers import exact  # noqa: E402
from toy_world import FULL, total_variation  # noqa: E402

LENGTH, NODES, NUM, FLOOR_SEEDS = 128, 17, 1024, 16
"""Tokens of a sequence, nodes of a tree, samples per seed, and seeds of exact draws."""
SEEDS = {"order 1": 2, "order 2": 1, "hidden": 1, "trees": 2}
"""Worlds, and the sampling seeds of each sampler there."""
STEPS = (2, 4, 8, 16)
SLOW = ("order 1", "trees")
"""Worlds where ``first-hitting`` with one token per call, and samplers that take no steps, are
measured too."""
NATS = {"order 1": 300.0, "order 2": 270.0, "hidden": 360.0, "trees": 45.0}
"""Budgets of ``entropy-bounded`` are these over the number of calls."""
NOISES = {"masks": False, "uniform": True}
CURVES = {
    ("first-hitting", "masks"): ("#0072b2", "o", "-"),
    ("ancestral", "masks"): ("#56b4e9", "s", "-"),
    ("entropy", "masks"): ("#d55e00", "^", "-"),
    ("confidence", "masks"): ("#e69f00", "v", "-"),
    ("entropy-bounded", "masks"): ("#cc79a7", "D", "-"),
    ("planned", "masks"): ("#009e73", "P", "-"),
    ("dilated", "masks"): ("#000000", "X", "-"),
    ("ancestral", "uniform"): ("#56b4e9", "s", "--"),
}
"""Samplers of the figure: colour (Okabe and Ito), marker and line."""
FIGURE = "sampler_distances.png"
CONSTRAINTS = {"one three": "exactly one position is 3", "equal": "two positions equal"}
GUESSES = {"factorised": "as the network predicts", "possible": "1 if it can be met"}
"""What h is, and how the figure calls it."""
NUMBERS = (1, 2, 4, 8, 16, 32, 64)
PANELS = {
    "total_variation": ("Distance from the exact conditional", "total variation"),
    "estimate_spread": ("Spread of the estimate of p(C)", "standard deviation / p(C)"),
}


def mean_floor(prob: torch.Tensor, num: int, draws: int = 20) -> float:
    """Mean total variation of ``num`` exact draws from a law."""
    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(draws):
        drawn = torch.multinomial(prob, num, True, generator=generator)
        share = torch.bincount(drawn, minlength=len(prob)).double() / num
        found.append(total_variation(share, prob))
    return sum(found) / draws


def measure_particles(name: str, guess: str, num: int, sets: int) -> dict[str, float]:
    """Of ``sets`` independent sets of ``num`` particles: the total variation to the conditional of
    a sample that is drawn from a set by its weights, and p(C) as the sets estimate it."""
    world, law, p = conditional(name)
    found, estimates = torch.zeros_like(law), torch.zeros(sets, dtype=torch.float64)
    sampler, algorithm = Particles(constraint=Toy(name, guess, FULL)), exact("mdlm")
    for seed in range(sets):
        output = sampler.sample(algorithm, FULL.expand(num, -1), generator=make_generator(seed))
        weights = output.log_weights.exp()
        estimates[seed] = weights.mean()
        found += world.distribution(output.x0, weights)
    return {
        "num_particles": num,
        "total_variation": total_variation(found / sets, law),
        "floor": mean_floor(law, num * sets),
        "estimate": float(estimates.mean()) / p,
        "estimate_standard_error": float(estimates.std()) / sets**0.5 / p,
        "estimate_spread": float(estimates.std()) / p,
    }


def sections(record: Record) -> Sections:
    """Of samplers, or of particles."""
    found = record.results
    if record.name == "sampler_distances":
        text = "\n\n".join([table(found["worlds"]), refusals(found["worlds"]), found_with(found)])
        return {(Part.SAMPLERS, "sampler distances"): text}
    cells = [cell for rows in found["curves"].values() for cell in rows]
    off = max(abs(c["estimate"] - 1) / c["estimate_standard_error"] for c in cells)
    text = (
        f"{found['sets']:,} sets of each number of particles. "
        f"The mean of {len(cells)} estimates of p(C) is at most {off:.1f} standard errors from the "
        "enumerated one, whatever the number of particles and the look-ahead."
    )
    return {(Part.PLANS, "particle errors"): text}


def figures(record: Record) -> Figures:
    if record.name == "sampler_distances":
        return {FIGURE: partial(draw_distances, record.results["worlds"])}
    return {"particle_errors.png": partial(draw, record.results["curves"])}


def draw(curves: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Total variation, and the spread of the estimate of p(C), by number of particles."""
    figure = chart_style.new_figure(9.6, 4.1)
    colours = (chart_style.REAL, chart_style.SAMPLED)
    looks = [(style, colour) for style in ("-", "--") for colour in colours]
    for axes, (key, (title, ylabel)) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        for (name, rows), (style, colour) in zip(curves.items(), looks, strict=True):
            y = [row[key] for row in rows]
            axes.plot(NUMBERS, y, style, color=colour, marker="o", markersize=4, label=name)
            if key == "total_variation" and colour == colours[0]:
                floor = [row["floor"] for row in rows]
                label = f"as many exact draws of {name.partition(',')[0]}"
                axes.plot(NUMBERS, floor, style, color=chart_style.LINE, label=label)
        if key == "total_variation":
            shown = axes.get_legend_handles_labels()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(NUMBERS, [str(num) for num in NUMBERS])
        chart_style.style_axes(axes, title=title, xlabel="particles", ylabel=ylabel, grid="both")
    chart_style.add_legend(
        figure, handles=shown[0], labels=shown[1], loc="outside lower center", ncols=2
    )
    chart_style.save_figure(figure, path)


def letters(text: str) -> torch.Tensor:
    """Int[N]: 0 for a run of anything but letters, 1 to 26."""
    ids = torch.tensor([ord(c) - 96 if "a" <= c <= "z" else 0 for c in text.lower()])
    return ids[torch.cat([torch.ones(1, dtype=torch.bool), (ids[1:] > 0) | (ids[:-1] > 0)])]


def world_of(name: str, text: torch.Tensor, uniform: bool, quick: bool = False) -> OracleWorld:
    """A world by name."""
    if name == "trees":
        return UniformTrees(5 if quick else NODES, uniform=uniform)
    order, length = 2 if name == "order 2" else 1, 8 if quick else LENGTH
    world = HiddenMarkov.from_text(text, order=order, length=length, vocab_size=27)
    if name == "hidden":  # a letter in five is any
        emission = 0.8 * torch.eye(27).double() + 0.2 / 27
        world = HiddenMarkov(world.start, world.transition, emission, length=length)
    world.uniform = uniform
    return world.float()


def requests(world: str, name: str) -> list[tuple[str, dict[str, Any], int | None]]:
    """Column of the table, settings and steps of each run of a sampler."""
    sampler = build_sampler({"name": name})
    if name == "entropy-bounded":
        return [(str(n), {"name": name, "entropy_budget": NATS[world] / n}, None) for n in STEPS]
    own: list[tuple[str, dict[str, Any], int | None]] = [("default", {"name": name}, None)]
    if getattr(sampler, "takes_no_steps", ""):
        return own * (world in SLOW)
    # two calls a step but the first and the last
    steps = [n // 2 + 1 if name == "predictor-corrector" else n for n in STEPS]
    runs = [(str(n), {"name": name}, k) for n, k in zip(STEPS, steps, strict=True)]
    return runs + own * (world in SLOW and name == "first-hitting")


def measure_world(
    name: str,
    text: torch.Tensor,
    quick: bool = False,
    samplers: Sequence[str] | None = None,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Exact draws, and every sampler with every noise that it fits, by column. With ``samplers``
    these alone; other rows are those ``known``."""
    num = 20 if quick else NUM
    world = world_of(name, text, False, quick)
    floor = sampler_distances(world, [], num=num, seeds=range(100, 100 + FLOOR_SEEDS))[0]
    rows, refused = [], []
    for noise, uniform in NOISES.items():
        world = world_of(name, text, uniform, quick)
        for sampler in SAMPLERS.names():
            if sampler_state(sampler) != "tokens":
                continue
            if known and samplers and sampler not in samplers:
                for kept, new in ((known["rows"], rows), (known["refused"], refused)):
                    new += [row for row in kept if (row["name"], row["noise"]) == (sampler, noise)]
                continue
            for column, sampling, steps in requests(name, sampler)[:: 3 if quick else 1]:
                options: Any = {"num": num, "seeds": range(SEEDS[name]), "batch_size": 512}
                row = asdict(sampler_distances(world, [sampling], steps=(steps,), **options)[1])
                row |= {"noise": noise, "column": column}
                print(json.dumps({"world": name, **row}), flush=True)
                if row["refused"]:
                    refused.append(row)
                    break
                rows.append(row)
    return {"floor": floor.distances, "rows": rows, "refused": refused}


SHOWN = {
    ("order 1", "pairs at distance 1"): "order 1",
    ("order 2", "pairs at distance 1"): "order 2",
    ("order 2", "pairs at distance 2"): "order 2, distance 2",
    ("hidden", "pairs at distance 1"): "hidden",
    ("trees", "being a tree"): "trees",
}
"""World and statistic, and what the table calls them."""
SECONDARY = ("order 2", "pairs at distance 1")
"""What has no panel of its own: pairs with a letter between them show more of order 2."""


def found_with(found: dict[str, Any]) -> str:
    """Sentence on samples and seeds."""
    seeds = [
        f"{len(next(iter(world['rows'][0]['distances'].values())))} of {name}"
        for name, world in found["worlds"].items()
    ]
    return (
        f"{found['samples']:,} samples per seed; {found['floor_seeds']} seeds of exact draws, "
        f"{', '.join(seeds)}. {found['letters']} letters, {found['nodes']} nodes. One thread."
    )


def table(worlds: Mapping[str, Any]) -> str:
    """A row per statistic and sampler, a column per number of calls."""
    columns = [*map(str, STEPS), "default"]
    lines = []
    for (world, key), title in SHOWN.items():
        if world not in worlds:
            continue
        floor, rows = worlds[world]["floor"][key], worlds[world]["rows"]
        least = f"{fmean(floor):.4f} ± {stdev(floor):.4f}"
        lines.append([title, "exact draws", *[""] * len(STEPS), least, ""])
        for name, noise in dict.fromkeys((row["name"], row["noise"]) for row in rows):
            runs = {r["column"]: r for r in rows if (r["name"], r["noise"]) == (name, noise)}
            cells = [cell(runs[c], key, floor) if c in runs else "" for c in columns]
            seconds = f"{runs['8']['cpu_seconds']:.1f}" if "8" in runs else ""
            lines.append([title, f"{name}{', uniform' * (noise == 'uniform')}", *cells, seconds])
    head = ["world", "sampler", *(f"{c} calls" for c in STEPS), "default", "CPU-s of 8 calls"]
    return markdown_table(head, lines, left=2)


def cell(row: Mapping[str, Any], key: str, floor: Sequence[float]) -> str:
    """Distance, = if exact draws are as far, and calls where they are not those of the column."""
    values = row["distances"][key]
    # two errors of a mean of as many seeds of exact draws, and of their own mean
    error = stdev(floor) * (1 / len(values) + 1 / len(floor)) ** 0.5
    mean, same = fmean(values), " =" * (fmean(values) <= fmean(floor) + 2 * error + 1e-9)
    calls = f"{row['calls']:.1f}".removesuffix(".0")
    shown = "" if calls == row["column"] else f" ({calls})"
    return f"{mean:.{4 if mean < 0.1 else 3}f}{same}{shown}"


def refusals(worlds: Mapping[str, Any]) -> str:
    """Samplers that are not in the table, by noise and reason."""
    reasons: dict[str, dict[str, None]] = {}
    for found in worlds.values():
        for row in found["refused"]:
            name, said = row["name"], row["refused"].partition(";")[0]
            reason = said.replace(f"{name} sampling", "it").replace(name, "it")
            reasons.setdefault(f"{row['noise']}, {reason}", {})[f"`{name}`"] = None
    lines = [f"* {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return "\n".join(["Not measured:", "", *lines])


def draw_distances(worlds: Mapping[str, Any], path: Path) -> None:
    """A panel per world: distance over calls, and exact draws as a band of two deviations."""
    figure = chart_style.new_figure(9.6, 7.4)
    panels = [panel for panel in SHOWN if panel[0] in worlds and panel != SECONDARY]
    for axes, (world, key) in zip(figure.subplots(2, 2).flat, panels, strict=False):
        floor, rows = worlds[world]["floor"][key], worlds[world]["rows"]
        top = fmean(floor) + 2 * stdev(floor)
        axes.axhspan(0, top, color=chart_style.FAINT_LINE, zorder=0, label="exact draws")
        for (name, noise), (colour, marker, style) in CURVES.items():
            points = sorted(
                (row["calls"], fmean(row["distances"][key]))
                for row in rows
                if (row["name"], row["noise"]) == (name, noise)
            )
            label = name if noise == "masks" else f"{name}, uniform noise"
            x, y = [calls for calls, _ in points], [distance for _, distance in points]
            axes.plot(x, y, style, color=colour, marker=marker, markersize=4.5, label=label)
        axes.set(xscale="log", yscale="log", xlim=(1.7, 160), ylim=(0.8 * fmean(floor), None))
        axes.set_xticks([2, 4, 8, 16, 32, 64, 128], ["2", "4", "8", "16", "32", "64", "128"])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        labels = {"title": f"{world}: {key}", "xlabel": "network calls", "ylabel": "KL, nats"}
        chart_style.style_axes(axes, **labels, grid="both")
        shown = axes.get_legend_handles_labels()
    chart_style.add_legend(
        figure, handles=shown[0], labels=shown[1], loc="outside lower center", ncols=3
    )
    chart_style.save_figure(figure, path)


def measure_all_particles(sets: int) -> dict[str, Any]:
    """A curve over the number of particles for every constraint and look-ahead."""
    curves: dict[str, list[dict[str, float]]] = {}
    for name, constraint in CONSTRAINTS.items():
        for guess, said in GUESSES.items():
            key = f"{constraint}, h: {said}"
            curves[key] = [measure_particles(name, guess, num, sets) for num in NUMBERS]
            print(key, f"{curves[key][-1]['total_variation']:.4f}", flush=True)
    return {"sets": sets, "curves": curves}


def main() -> None:
    parser = command_line(__doc__, quick=True)
    parser.add_argument("study", nargs="?", choices=("samplers", "particles"), default="samplers")
    parser.add_argument("--text", type=Path, help="whose letters the chains are of")
    parser.add_argument("--worlds", nargs="+", choices=[*SEEDS], default=[*SEEDS])
    parser.add_argument("--samplers", nargs="+", help="to measure; default: all")
    parser.add_argument("--sets", type=int, default=2000, help="of each number of particles")
    given = parser.parse_args()
    torch.set_num_threads(1)
    script = "python benchmarks/sampler_distances.py"
    if given.study == "particles":
        results = measure_all_particles(given.sets)
        command = f"{script} particles --sets {given.sets}"
        publish("particle_errors", command=command, seed=0, results=results)
        return
    if given.text is None:
        parser.error("--text FILE is missing")
    text = letters(read_text(given.text).text)
    worlds = {} if given.quick else earlier("sampler_distances").get("worlds", {})
    for name in given.worlds:
        worlds[name] = measure_world(name, text, given.quick, given.samplers, worlds.get(name))
        if given.quick:
            continue
        results = {
            "samples": NUM,
            "floor_seeds": FLOOR_SEEDS,
            "letters": LENGTH,
            "nodes": NODES,
            "worlds": {known: worlds[known] for known in SEEDS if known in worlds},
        }
        command = f"{script} --text {given.text.name}"
        publish(
            "sampler_distances",
            command=command,
            seed=list(range(max(SEEDS.values()))),
            results=results,
        )
    if given.quick:
        print(table(worlds), refusals(worlds), sep="\n\n")


if __name__ == "__main__":
    main()

"""How far from the truth samplers end with a perfect network, on a world that can be enumerated.

    python benchmarks/sampler_distances.py [--samples 200000]
    python benchmarks/sampler_distances.py particles [--sets 2000]

The world, its four processes and the Bayes-optimal denoiser are those of the tests
(``tests/toy_world.py``): 3 positions, 24 sequences. What a sampler on a grid draws is enumerated,
state by state (``laws.py``, to which tests hold its samples); the others are drawn from. Of
``particles`` it is the distance of few of them from the exact conditional, under the constraints
and look-aheads of ``toy_constraints.py``, both of ``tests/discrete_diffusion/sampling``. Writes
``benchmarks/results/sampler_distances.json`` or ``particle_errors.json``, its text in the docs, and
the figure of particles.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.ticker import NullFormatter

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.viz import chart_style
from floor_plans.briefs.particles import Particles
from record import Figures, Part, Record, Sections, command_line, markdown_table, publish

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "discrete_diffusion" / "sampling")]

from laws import grid, grid_law  # noqa: E402
from toy_constraints import Toy, conditional  # noqa: E402
from toy_samplers import draw_from, exact  # noqa: E402
from toy_world import FULL, ToyWorld, total_variation  # noqa: E402

PROCESSES = {"absorbing": "mdlm", "uniform": "udlm", "marginal": "marginal", "hybrid": "gidd"}
STEPS = (4, 16, 64)
CALLS_FROM = 2000
"""Samples whose network calls are averaged where the distances are enumerated."""
DEFAULTS = {"corrector_steps": 0, "eta": 0.1}
IN_STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "ancestral, uniform grid": ("ancestral", {"grid": "uniform"}),
    "ancestral, squared grid": ("ancestral", {"grid": "quadratic"}),
    "predictor-corrector": ("predictor-corrector", {"corrector_steps": 1}),
    "renoise": ("renoise", {}),
    "remdm, cap": ("remdm", {"strategy": "cap"}),
    "remdm, rescale": ("remdm", {"strategy": "rescale"}),
}
IN_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{name}, k = {k}": (name, {"tokens_per_call": k})
    for name in ("first-hitting", "margin", "entropy", "confidence")
    for k in (1, 2)
} | {
    f"entropy-bounded, budget {budget}": (
        "entropy-bounded",
        {"entropy_budget": budget, "order": "random"},
    )
    for budget in (0.0, 0.5, 0.9)
}
CONSTRAINTS = {"one three": "exactly one position is 3", "equal": "two positions equal"}
GUESSES = {"factorised": "as the network predicts", "possible": "1 if it can be met"}
"""What h is, and how the figure calls it."""
NUMBERS = (1, 2, 4, 8, 16, 32, 64)
PANELS = {
    "total_variation": ("Distance from the exact conditional", "total variation"),
    "estimate_spread": ("Spread of the estimate of p(C)", "standard deviation / p(C)"),
}


def measure(
    world: ToyWorld, process: str, sampler: str, num: int, **options: Any
) -> dict[str, float]:
    """Total variation to the data, and network calls per sample."""
    algorithm, enumerated = exact(PROCESSES[process]), "steps" in options
    output = draw_from(algorithm, sampler, min(num, CALLS_FROM) if enumerated else num, **options)
    law = world.distribution(output.x0)
    if enumerated:
        times = grid(algorithm, options["steps"], options.get("grid", "auto"))
        law = grid_law(algorithm, world, times, sampler, **{**DEFAULTS, **options})
    calls = output.nfe.double().mean().item()
    return {"total_variation": total_variation(law, world.prob), "calls": calls}


def mean_floor(prob: torch.Tensor, num: int, draws: int = 20) -> float:
    """Mean total variation of ``num`` exact draws from a law."""
    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(draws):
        drawn = torch.multinomial(prob, num, True, generator=generator)
        share = torch.bincount(drawn, minlength=len(prob)).double() / num
        found.append(total_variation(share, prob))
    return sum(found) / draws


def table(rows: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = []
    for name, row in rows.items():  # calls in brackets
        cells = [
            f"{row[p]['total_variation']:.4f} ({row[p]['calls']:.1f})" if p in row else ""
            for p in PROCESSES
        ]
        lines.append([name, *cells])
    return markdown_table(["", *PROCESSES], lines)


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
        drawn = "Samplers without steps, and `remdm` by confidence or in a loop: "
        drawn += f"{found['samples']:,} samples, of which exact ones have a total variation of "
        drawn += f"{found['floor']:.4f}. The rest is enumerated."
        return {(Part.SAMPLERS, "sampler distances"): f"{table(found['rows'])}\n\n{drawn}"}
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
        return {}
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


def measure_all(num: int) -> dict[str, Any]:
    """Every sampler on every process that it is for."""
    world = ToyWorld.make()
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, (sampler, options) in IN_CALLS.items():
        rows[name] = {"absorbing": measure(world, "absorbing", sampler, num, **options)}
    for name, (sampler, options) in IN_STEPS.items():
        for steps in STEPS:
            processes = ["absorbing"] if sampler == "remdm" else list(PROCESSES)
            rows[f"{name}, {steps} steps"] = {
                process: measure(world, process, sampler, num, steps=steps, **options)
                for process in processes
            }
            print(name, steps, flush=True)
    return {"samples": num, "floor": mean_floor(world.prob, num), "rows": rows}


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
    parser = command_line(__doc__)
    parser.add_argument("study", nargs="?", choices=("samplers", "particles"), default="samplers")
    parser.add_argument("--samples", type=int, default=200_000, help="of each sampler")
    parser.add_argument("--sets", type=int, default=2000, help="of each number of particles")
    given = parser.parse_args()
    torch.set_num_threads(1)
    script = "python benchmarks/sampler_distances.py"
    if given.study == "particles":
        results = measure_all_particles(given.sets)
        command = f"{script} particles --sets {given.sets}"
        publish("particle_errors", command=command, seed=0, results=results)
    else:
        results, command = measure_all(given.samples), f"{script} --samples {given.samples}"
        publish("sampler_distances", command=command, seed=1, results=results)


if __name__ == "__main__":
    main()

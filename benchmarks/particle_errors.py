"""How far samples of few particles are from the exact conditional, on a world that is enumerated.

    python benchmarks/particle_errors.py [--sets 2000]

The world and its perfect denoiser are those of the tests (``tests/toy_world.py``), the constraints
and look-aheads those of ``tests/sampling/toy_constraints.py``. Writes
``benchmarks/results/particle_errors.json``, ``docs/images/particle_errors.png`` and a sentence of
``docs/briefs.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from matplotlib.ticker import NullFormatter

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.sampling.particles import Particles
from discrete_diffusion.viz import chart_style
from record import Page, Record, Sections, publish
from sampler_distances import mean_floor

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "sampling")]

from toy_constraints import Toy, conditional  # noqa: E402
from toy_samplers import exact  # noqa: E402

from toy_world import FULL, total_variation  # noqa: E402

CONSTRAINTS = {"one three": "exactly one position is 3", "equal": "two positions equal"}
GUESSES = {"factorised": "as the network predicts", "possible": "1 if it can be met"}
"""What h is, and how the figure calls it."""
NUMBERS = (1, 2, 4, 8, 16, 32, 64)


def measure(name: str, guess: str, num: int, sets: int) -> dict[str, float]:
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
    cells = [cell for rows in record.results["curves"].values() for cell in rows]
    off = max(abs(c["estimate"] - 1) / c["estimate_standard_error"] for c in cells)
    text = (
        f"`{record.command}`: {record.results['sets']:,} sets of each number of particles. "
        f"The mean of {len(cells)} estimates of p(C) is at most {off:.1f} standard errors from the "
        "enumerated one, whatever the number of particles and the look-ahead."
    )
    return {(Page.BRIEFS, "particle errors"): text}


def figures(record: Record) -> dict[str, Callable[[Path], object]]:
    return {"particle_errors.png": lambda path: draw(record.results["curves"], path)}


PANELS = {
    "total_variation": ("Distance from the exact conditional", "total variation"),
    "estimate_spread": ("Spread of the estimate of p(C)", "standard deviation / p(C)"),
}


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
    chart_style.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", type=int, default=2000)
    sets = parser.parse_args().sets
    torch.set_num_threads(1)
    curves: dict[str, list[dict[str, float]]] = {}
    for name, constraint in CONSTRAINTS.items():
        for guess, said in GUESSES.items():
            key = f"{constraint}, h: {said}"
            curves[key] = [measure(name, guess, num, sets) for num in NUMBERS]
            print(key, f"{curves[key][-1]['total_variation']:.4f}", flush=True)
    publish(
        "particle_errors",
        command=f"python benchmarks/particle_errors.py --sets {sets}",
        seed=0,
        results={"sets": sets, "curves": curves},
    )


if __name__ == "__main__":
    main()

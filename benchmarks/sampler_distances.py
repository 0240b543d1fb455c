"""How far from the data samplers end with a perfect network, on a world that can be enumerated.

    python benchmarks/sampler_distances.py [--samples 200000]

The world, its four processes and the Bayes-optimal denoiser are those of the tests
(``tests/toy_world.py``): 3 positions, 24 sequences. What a sampler on a grid draws is enumerated,
state by state (``tests/sampling/laws.py``, to which tests hold its samples); the others are drawn
from. Writes ``benchmarks/results/sampler_distances.json`` and a table of
``docs/results_samplers.md``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

from record import Page, Record, Sections, markdown_table, publish

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "sampling")]

from laws import grid, grid_law  # noqa: E402
from toy_samplers import draw_from, exact  # noqa: E402

from toy_world import ToyWorld, total_variation  # noqa: E402

PROCESSES = {"absorbing": "mdlm", "uniform": "udlm", "marginal": "marginal", "hybrid": "gidd"}
STEPS = (4, 16, 64)
CALLS_FROM = 2000
"""Samples whose network calls are averaged where the distances are enumerated."""
DEFAULTS = {"corrections": 0, "eta": 0.1}
IN_STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "ancestral, uniform grid": ("ancestral", {"grid": "uniform"}),
    "ancestral, squared grid": ("ancestral", {"grid": "squared"}),
    "predictor-corrector": ("predictor-corrector", {"corrections": 1}),
    "renoise": ("renoise", {}),
    "remdm, cap": ("remdm", {"strategy": "cap"}),
    "remdm, rescale": ("remdm", {"strategy": "rescale"}),
    "remdm, confidence": ("remdm", {"strategy": "confidence"}),
    "remdm, loop": ("remdm", {"strategy": "loop"}),
}
IN_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{name}, k = {k}": (name, {"tokens_per_call": k})
    for name in ("first-hitting", "margin", "entropy", "confidence")
    for k in (1, 2)
} | {
    f"entropy-bounded, budget {budget}": ("entropy-bounded", {"budget": budget, "order": "random"})
    for budget in (0.0, 0.5, 0.9)
}


def has_a_law(options: dict[str, Any]) -> bool:
    """True for a sampler on a grid, unless what it does depends on more than the state."""
    return "steps" in options and options.get("strategy") not in ("confidence", "loop")


def measure(
    world: ToyWorld, process: str, sampler: str, num: int, **options: Any
) -> dict[str, float]:
    """Total variation to the data, and network calls per sample."""
    algorithm, enumerated = exact(PROCESSES[process]), has_a_law(options)
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


def sections(record: Record) -> Sections:
    found = record.results
    drawn = "Samplers without steps, and `remdm` by confidence or in a loop: "
    drawn += f"{found['samples']:,} samples, of which exact ones have a total variation of "
    drawn += f"{found['floor']:.4f}. The rest is enumerated."
    return {(Page.SAMPLERS, "sampler distances"): f"{table(found['rows'])}\n\n{drawn}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=200_000)
    num = parser.parse_args().samples
    torch.set_num_threads(1)
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
    publish(
        "sampler_distances",
        command=f"python benchmarks/sampler_distances.py --samples {num}",
        seed=1,
        results={"samples": num, "floor": mean_floor(world.prob, num), "rows": rows},
    )


if __name__ == "__main__":
    main()

"""What a model makes of what it is told, and how many particles that saves.

    python benchmarks/told.py --told RUN --plain RUN [--num 16] [--particles 256] [--threads 1]

Of two models, ``experiment=bubble_told`` and ``experiment=bubble_mdlm``: nats with right and wrong
facts and counts obeyed, as ``evaluate`` measures them, and the briefs of ``benchmarks/briefs.py``
answered by particles of each. Writes ``benchmarks/results/told.json`` and a section of
``docs/briefs.md``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from briefs import BRIEFS, answer
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.published import published
from record import Page, Record, Sections, markdown_table, publish
from runs import evaluate

NAME = "told"
MODELS = ("told", "plain")
ASKED = (*BRIEFS, "kinds/counts")
"""The last says exact counts, which are facts."""


def measure(run: Path, threads: int, folder: Path) -> dict[str, Any]:
    """What ``evaluate`` says of facts, and what the model is."""
    options = ("num_samples=200", "seeds=1", "floor_draws=0", "verdicts=0", "pictures=false")
    found = evaluate(folder, f"checkpoint={run}", f"threads={threads}", *options)
    config = read_checkpoint(run).config
    kept = ("told", "told_num_held_out", "nelbo_unordered")
    kept += tuple(key for key in found if key.startswith("obeyed"))
    return {
        "backbone": config.algo.backbone,
        "steps": found["step"],
        **{key: found[key] for key in kept if key in found},
    }


def sections(record: Record) -> Sections:
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
        f"`{record.command}`, {record.hardware}: {told['backbone']}, {told['steps']:,} steps; "
        f"{told['told_num_held_out']} held-out diagrams. All counts that it was told: {obeyed}."
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
        (Page.BRIEFS, "told"): f"{about}\n\n{markdown_table(['', 'nats more'], facts)}",
        (Page.BRIEFS, "told briefs"): markdown_table(heads, rows, left=2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--told", type=Path, required=True)
    parser.add_argument("--plain", type=Path, required=True)
    parser.add_argument("--num", type=int, default=16)
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    runs = {name: published(getattr(given, name)).absolute() for name in MODELS}
    briefs: dict[str, Any] = {name: {} for name in ASKED}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        models = {name: measure(run, given.threads, folder / name) for name, run in runs.items()}
        for name in ASKED:
            for model, run in runs.items():
                words = [f"checkpoint={run}", f"num_samples={given.num}"]
                words += [f"threads={given.threads}", f"particles={given.particles}"]
                out = folder / f"{model}_{name.replace('/', '_')}"
                briefs[name][model] = answer(name, [*words, "method=particles"], out)
    options = f"--num {given.num} --particles {given.particles} --threads {given.threads}"
    command = f"python benchmarks/told.py --told {given.told.name} --plain {given.plain.name}"
    results = {"models": models, "briefs": briefs, "particles": given.particles}
    publish(NAME, command=f"{command} {options}", seed=0, results=results)


if __name__ == "__main__":
    main()

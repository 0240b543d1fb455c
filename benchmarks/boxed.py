"""Put the model ``plans-small`` into the box, and measure it as it is there.

    python benchmarks/boxed.py [--run RUN] [--threads 1] [--keep FOLDER]

RUN is a run of the recipe below; without it, the recipe is trained first, half an hour. The weights
go into ``src/floor_plans/box/plans-small`` in bfloat16, with a card. Writes
``benchmarks/results/boxed.json`` and its section of the docs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discrete_diffusion import load
from discrete_diffusion.checkpoints import read_checkpoint
from record import ROOT, Part, Record, Sections, command_line, publish
from runs import evaluate, kept_folder, kept_run, table

NAME = "plans-small"
BOX = ROOT / "src" / "floor_plans" / "box" / NAME
RECIPE = ("experiment=plans_full", "data.livable=true", "trainer.precision=bf16-mixed")
RECIPE += ("threads=1", "seed=0")
LIMITS = (
    "Floor-plan bubble diagrams of a procedural generator, not of real homes: room types, numbers "
    "and neighbours follow its rules, and those of livable plans (docs/floor_plans/files.md)."
)
BOUND = ("num_samples=2", "reference_repeats=0", "num_solver_checks=0", "pictures=false")


def measure(run: Path, folder: Path, threads: int) -> dict[str, Any]:
    """The box as ``evaluate`` sees it, and the bound of the run that it was made from."""
    about = {
        "name": NAME,
        "licence": "mit",
        "recipe": " ".join(["discrete-diffusion train", *RECIPE]),
        "limits": LIMITS,
    }
    options = (f"threads={threads}", *BOUND)
    trained = evaluate(folder / "trained", f"checkpoint={run}", *options)
    model = load(run)
    model.save_pretrained(BOX, dtype="bfloat16", overwrite=True, metrics={}, **about)
    options = (f"threads={threads}", "num_samples=2000", "num_seeds=5")
    boxed = evaluate(folder / "boxed", f"checkpoint={BOX}", *options)
    model.save_pretrained(BOX, dtype="bfloat16", overwrite=True, metrics=boxed, **about)
    return {
        "digest": read_checkpoint(BOX).info["digest"],
        "bytes": sum(file.stat().st_size for file in BOX.iterdir()),
        "nelbo_in_float32": trained["nelbo_unordered"],
        "evaluation": boxed,
    }


def sections(record: Record) -> Sections:
    found = record.results
    boxed = found["evaluation"]
    about = (
        f"{found['bytes'] / 1e6:.1f} MB; "
        f"{boxed['nelbo_unordered']:.3f} ± {boxed['nelbo_unordered_standard_error']:.3f} nats per "
        f"unordered diagram, {found['nelbo_in_float32']:.3f} in float32; "
        f"{boxed['network_calls_per_sample']:.1f} network calls a sample."
    )
    return {(Part.DEMO, "boxed"): f"{about}\n\n{table({NAME: boxed})}"}


def main() -> None:
    parser = command_line(__doc__, threads=1, keep=True)
    parser.add_argument("--run", type=Path, help="of the recipe; without it, it is trained")
    given = parser.parse_args()
    with kept_folder(given.keep) as folder:
        run = given.run or kept_run(folder / NAME, RECIPE)
        results = measure(run, folder, given.threads)
    command = f"python benchmarks/boxed.py --threads {given.threads}"
    publish("boxed", command=command, seed=0, results=results)


if __name__ == "__main__":
    main()

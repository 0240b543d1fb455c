"""Molecules are said to be where plain masking is worst: is it the noise, the weight of the bound,
the order of the atoms, the network, or the sampler? One thing at a time, on QM9.

    python benchmarks/masked_molecules.py FILE [--steps 1500] [--threads 1] [--keep FOLDER]
        [--trained FOLDER] [--only NAME ...]

FILE: SMILES, as for ``experiment=qm9``. Short runs of that recipe, each but for one thing like the
first; then one model by several samplers: that of ``--trained``, a run folder such as the one
``standard_sets.py --keep`` leaves, else the first of the short ones. Writes
``benchmarks/results/masked_molecules.json`` and its sections of the docs. What ``--keep FOLDER``
holds is not done again; ``--only`` does some runs, and leaves the others as the JSON has them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from record import Part, Record, Sections, command_line, earlier, markdown_table, publish
from runs import evaluate_run, facts, kept_folder, kept_run

NAME = "masked_molecules"
PAIR = "algo.backbone=bd-denoiser-pair"
RANDOM_ORDER = ("data.node_order=random", "model.index_embeddings=false")
FEATURES = "model.features=[reach,resistance,walks,cycles]"
RUNS: dict[str, tuple[str, ...]] = {
    "mdlm": (),
    "mdlm, atoms in random order": RANDOM_ORDER,
    "mdlm, random order, features of the revealed graph": (*RANDOM_ORDER, FEATURES),
    "mdlm, flat network": ("algo.backbone=bd-denoiser",),
    "meld: masked at rates that differ": ("algo=meld", PAIR),
    "marginal noise": ("algo=marginal", PAIR),
    "gidd: masks and uniform noise": ("algo=gidd", PAIR),
    "gidd with the weight of the bound": ("algo=gidd", PAIR, "algo.weighting=elbo"),
}
"""What differs from ``experiment=qm9`` without features, by its name in the table."""
NARROWED = "first-hitting, structure=valence"
ONE_BY_ONE = ("sampling=first-hitting",)
AT_ONCE = ("sampling=ancestral", "steps=100")
MASKED = ("mdlm", "meld")
SAMPLERS = {
    "first-hitting, one token a call": ONE_BY_ONE,
    **{f"ancestral, {k} steps": ("sampling=ancestral", f"steps={k}") for k in (100, 25, 10)},
}
MEASURED = ("num_samples=1000", "num_held_out=2000", "noise_samples=1", "pictures=false")


def measure(
    file: Path, steps: int, threads: int, folder: Path, trained: Path | None, only: list[str]
) -> dict[str, Any]:
    """Runs and samplers by name; those ``only``, and the samplers if there is a model for them."""
    words = ["experiment=qm9", f"data.path={file.resolve()}", f"threads={threads}"]
    words += [f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}"]
    words += ["model.features=[]", "data.node_order=smiles", "model.index_embeddings=true"]
    words += ["callbacks.num_samples=0", "eval.num_samples=2", "logger=none"]
    runs = {}
    for name in only:
        run = kept_run(folder / _folder(name), [*words, *RUNS[name]])
        samplers = {"ancestral, 100 steps": AT_ONCE}
        if name.startswith(MASKED):
            samplers["first-hitting, one token a call"] = ONE_BY_ONE
        if FEATURES in RUNS[name]:
            samplers[NARROWED] = (*ONE_BY_ONE, "structure=valence")
        found = {key: _measured(run, key, options, threads) for key, options in samplers.items()}
        runs[name] = {"training": facts(run), "samplers": found}
    run = trained or folder / "mdlm"
    if not run.exists():
        return {"runs": runs}
    found = {key: _measured(run, key, options, threads) for key, options in SAMPLERS.items()}
    return {"runs": runs, "one model": {"training": facts(run), "samplers": found}}


def _measured(run: Path, sampler: str, options: tuple[str, ...], threads: int) -> dict[str, Any]:
    name = f"evaluation_{_folder(sampler)}"
    return evaluate_run(run, f"threads={threads}", *MEASURED, *options, name=name)


def _folder(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def _cells(found: dict[str, Any]) -> list[str]:
    shares = [f"{100 * found[key]:.1f}" for key in ("valid", "valid_relaxed", "unique")]
    return [f"{found['network_calls_per_sample']:.0f}", *shares, f"{found['fcd']:.2f}"]


def sections(record: Record) -> Sections:
    """Runs that differ in one thing, and the samplers of one model."""
    runs, one = record.results["runs"], record.results["one model"]
    heads = ["calls", "valid, %", "relaxed, %", "unique, %", "FCD"]
    by_run = [
        [
            name,
            sampler,
            *_cells(found),
            f"{found['nelbo_unordered']:.2f}",
            f"{run['training']['cpu_seconds'] / 60:.0f}",
        ]
        for name, run in runs.items()
        for sampler, found in run["samplers"].items()
    ]
    by_sampler = [[sampler, *_cells(found)] for sampler, found in one["samplers"].items()]
    steps = next(iter(runs.values()))["training"]["steps"]
    about = f"{steps:,} steps each, 1,000 samples, FCD to "
    about += "2,000 held-out molecules (it grows as samples get fewer: compare it within this "
    about += f"table). The model of several samplers took {one['training']['steps']:,} steps."
    more = ["bound, nats", "CPU-minutes"]
    texts = {
        "masked molecules": (
            f"{about}\n\n{markdown_table(['', 'sampler', *heads, *more], by_run, left=2)}"
        ),
        "masked molecules samplers": markdown_table(["", *heads], by_sampler),
    }
    return {(Part.GRAPHS, name): text for name, text in texts.items()}


def main() -> None:
    parser = command_line(__doc__, threads=1, keep=True)
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--trained", type=Path, help="run folder of a longer run")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    given = parser.parse_args()
    with kept_folder(given.keep) as folder:
        results = measure(given.file, given.steps, given.threads, folder, given.trained, given.only)
    before = earlier(NAME)
    runs = before.get("runs", {}) | results["runs"]
    results = before | results | {"runs": {name: runs[name] for name in RUNS if name in runs}}
    command = f"python benchmarks/masked_molecules.py {given.file.name}"
    command += f" --steps {given.steps} --threads {given.threads}"
    publish(NAME, command=command, seed=0, results=results)


if __name__ == "__main__":
    main()

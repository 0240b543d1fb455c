"""Solved puzzles against network calls, by sampler: Sudoku of 4x4 and 9x9.

    python benchmarks/puzzles.py [--keep FOLDER] [--quick]

A small network is trained on each size, on one thread, and every sampler solves the same
held-out puzzles. Two controls need no network: *random* draws each open cell among all values,
*blind* from the values of its position in the training data. Writes
``benchmarks/results/puzzles.json`` and its tables, but for ``--quick``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import one_hot

from discrete_diffusion.categorical import make_generator, sample_categorical
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.data import SPLITS
from discrete_diffusion.domains import build_data
from discrete_diffusion.sampling import Model, build_sampler, sample_in_batches
from record import Part, Record, Sections, command_line, markdown_table, percent, publish
from runs import facts, kept_folder, kept_run

SEED, COMMAND = 0, "python benchmarks/puzzles.py"
COMMON = (
    *("algo=mdlm", "algo.backbone=my-transformer", "model=my_transformer_tiny", "threads=1"),
    *("logger=none", "callbacks.ema_decay=0.999", "callbacks.num_samples=0", "optim.lr=2e-3"),
    *("eval.num_samples=1", "eval.num_held_out=100"),
)
TRAINING: dict[str, tuple[str, ...]] = {
    "Sudoku, 4x4": ("data=sudoku", "trainer.max_steps=2500"),
    "Sudoku, 9x9": (
        *("data=sudoku", "data.box=3", "data.num_puzzles=20000", "data.batch_size=32"),
        *("model.n_blocks=4", "model.dropout=0", "trainer.max_steps=2000"),
    ),
}
"""Words of the training by title."""
NUM = {"Sudoku, 4x4": 290, "Sudoku, 9x9": 100}
"""Number of held-out puzzles that are solved."""
OTHER_CLUES = {
    "Sudoku, 4x4, without clues": ("Sudoku, 4x4", 0.0, 500),
    "Sudoku, 9x9, four fifths given": ("Sudoku, 9x9", 0.8, 100),
}
"""Further puzzles for a network: its title, the share of clues, the number of puzzles."""
STEPS = (None, 8, 4, 2)
SAMPLERS: dict[str, tuple[dict[str, Any], tuple[int | None, ...]]] = {
    "first-hitting": ({"name": "first-hitting"}, (*STEPS, 1)),
    "entropy": ({"name": "entropy"}, STEPS),
    "margin": ({"name": "margin"}, STEPS),
    "confidence": ({"name": "confidence"}, STEPS),
    **{
        f"entropy-bounded, {budget} nats": (
            {"name": "entropy-bounded", "entropy_budget": budget, "order": "entropy"},
            (None,),
        )
        for budget in (0.1, 0.5, 1.2)
    },
    "planned": ({"name": "planned"}, STEPS[1:]),
    "dilated": ({"name": "dilated"}, STEPS[1:]),
    "left to right": (
        {"name": "entropy-bounded", "entropy_budget": 0.0, "order": "left-to-right"},
        (None,),
    ),
}
"""Options and steps by sampler; None is one token a call, or as many as the budget allows."""


def measure(
    folder: Path, title: str, *, quick: bool, num: int, share: float | None = None
) -> dict[str, Any]:
    """Solve ``num`` held-out puzzles with every sampler, and score the controls.

    ``share``: another share of clues; with 0 whole grids are sampled, of which the solved ones that
    differ are counted.
    """
    few = ("trainer.max_steps=3", "data.num_puzzles=100") if quick else ()
    run = kept_run(folder, (*TRAINING[title], *COMMON, *few))
    checkpoint = read_checkpoint(run / "checkpoints" / "last.ckpt")
    if share is not None:
        checkpoint.config.data.share_of_clues = share
    data: Any = build_data(checkpoint.config)
    known = data.splits["test"].x0
    solved, clamp = known[torch.arange(num) % len(known)], data.clamp("test", num)
    if share == 0:
        known = torch.cat([data.splits[name].x0 for name in SPLITS])
        solved = known[torch.randint(len(known), (num,), generator=make_generator(SEED))]
    free = clamp < 0
    real = data.real_positions(torch.full((num,), len(data.puzzle.rules)))

    def score(x: torch.Tensor) -> dict[str, float]:
        """Share of solved puzzles, and, of whole grids, the number of different solved ones; of
        grids with clues, the share of open cells that are as in the only solution."""
        assert torch.equal(x[~free], clamp[~free])
        solved_rows = ~data.puzzle.conflicts(x).any(dim=2).any(dim=1)
        found = {"solved": float(solved_rows.double().mean())}
        if share == 0:
            return found | {"distinct": len(x[solved_rows].unique(dim=0))}
        return found | {"right": float((x == solved)[free].double().mean())}

    def draw(log_p: torch.Tensor) -> dict[str, float]:
        x = sample_categorical(log_p.expand(num, -1, -1), make_generator(SEED))
        return score(x.where(free, clamp))

    # draws that read no clue: of all values, or of those of the position in the training data
    counts = one_hot(data.splits["train"].x0, data.layout.vocab_size).sum(dim=0)
    controls = {
        "random": draw(data.layout.uniform_log_probs()),
        "blind": draw(counts.double().log()),
        "known solutions": score(solved),
    }
    found: dict[str, Any] = {
        "training": facts(run),
        "words": TRAINING[title],
        "num": num,
        "open": float(free.sum(dim=1).double().mean()),
        "controls": controls,
        "rows": [],
    }
    for name, (options, all_steps) in SAMPLERS.items():
        for steps in all_steps[-1:] if quick else all_steps:
            model = Model(checkpoint.algorithm, build_sampler(options), steps=steps)
            output = sample_in_batches(model, real, generator=make_generator(SEED), clamp=clamp)
            row = {"sampler": name, "steps": steps, "calls": float(output.nfe.double().mean())}
            found["rows"].append(row | score(output.x0))
            print(title, found["rows"][-1], flush=True)
    return found


HEADS = {
    "distinct": "different solved grids",
    "right": "open cells as in the solution",
}


def table(found: Mapping[str, Any]) -> str:
    """A row per control and sampler."""
    (second,) = HEADS.keys() & found["rows"][0]
    show = str if second == "distinct" else percent
    rows = [(name, "", each) for name, each in found["controls"].items()]
    rows += [(f"`{row['sampler']}`", f"{row['calls']:.1f}", row) for row in found["rows"]]
    cells = [
        (name, calls, percent(each["solved"]), show(each[second])) for name, calls, each in rows
    ]
    training = found["training"]
    said = (
        f"{found['num']} puzzles of {found['open']:.1f} open cells in the mean. "
        f"`train {' '.join(found['words'])}`: {training['parameters']:,} parameters, "
        f"{training['cpu_seconds']:.0f} CPU-seconds."
    )
    return f"{said}\n\n{markdown_table(('', 'calls', 'solved', HEADS[second]), cells)}"


def sections(record: Record) -> Sections:
    return {(Part.SAMPLERS, title): table(found) for title, found in record.results.items()}


def main() -> None:
    given = command_line(__doc__, keep=True, quick=True).parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    with kept_folder(given.keep) as folder:
        folders = {title: folder / f"run_{k}" for k, title in enumerate(TRAINING)}
        wanted = {title: (title, None, NUM[title]) for title in TRAINING} | OTHER_CLUES
        for name, (title, share, num) in wanted.items():
            run = folders[title]
            results[name] = measure(run, title, quick=given.quick, num=num, share=share)
            if not given.quick:  # the rest is to come
                publish("puzzles", command=COMMAND, seed=SEED, results=results)


if __name__ == "__main__":
    main()

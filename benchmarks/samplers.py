"""Quality of the samplers of few calls, of temperature, and of other noise, on the embedded plans.

    python benchmarks/samplers.py [--checkpoint FILE] [--non-absorbing FILE] [--threads 1]
        [--folder runs/samplers] [--share 0/2] [--quick]

Without checkpoints it trains the flat network for 10,000 steps, by ``mdlm`` and by ``marginal``,
into the folder, half an hour each on two cores. The reference is the test split, which training
never saw.

Every cell (sampler, steps, seed) is written into the folder as soon as it is measured, and is not
measured again for the same weights and the same code of samplers: an interrupted sweep goes on when
called again, and two processes can share it, one with ``--share 0/2``, one with ``--share 1/2``.
The call that finds all cells measured writes ``benchmarks/results/samplers.json`` and the tables of
the docs; with ``--quick``, a small model and few samples, all goes into the folder. ``seconds`` are
those of the machine as it was, whatever else ran on it. How far samplers end from the truth, by
network calls, is the question of ``sampler_distances.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import torch
from scipy.stats import ttest_ind

from record import Part, Record, Sections, command_line, markdown_table, publish
from sampler_cells import (
    FLAT,
    NUM,
    QUICK_NUM,
    REFERENCE,
    Model,
    all_cells,
    fill,
    quick_cells,
    trained,
)

QUICK = ("model=bd_tiny", "trainer.max_steps=300", "data.num_plans=5000", "eval.num_samples=0")

Measured = dict[str, Any]
"""A cell with its numbers."""

COLUMNS = {
    "relation_tv": "relation TV ↓",
    "conditional_pair_tv": "conditional pair TV ↓",
    "node_tv": "node TV ↓",
    "valid": "valid, % ↑",
    "transitive": "transitive, % ↑",
    "mode_coverage_weighted": "coverage, % ↑",
    "diversity": "diversity, % ↑",
}
COMPARED = ("relation_tv", "valid", "transitive", "mode_coverage_weighted")


def sections(record: Record) -> Sections:
    cells = record.results["cells"]
    absorbing = [cell for cell in cells if cell["model"] == "mdlm"]
    lines = list(dict.fromkeys(cell["line"] for cell in absorbing))
    once = [cell for cell in absorbing if cell["seed"] == 0]
    once.sort(key=lambda cell: (lines.index(cell["line"]), _sharpened(cell), -cell["calls"]))
    shown = [c for c in once if c["line"] == "confidence" or _has_sharpened_peer(c, once)]
    texts = {
        "samplers seeds": _seeds_table(absorbing),
        "samplers noise": _noise(absorbing),
        "samplers sharpened": _table(shown),
        "samplers other noise": _table([cell for cell in cells if cell["model"] != "mdlm"]),
    }
    return {(Part.SAMPLERS, name): text for name, text in texts.items()}


def _seeds_table(cells: Sequence[Measured]) -> str:
    """Candidates with several seeds, and their differences to the reference."""
    reference = _seeds_of(cells, _reference(cells))
    titles = [COLUMNS[key] for key in COMPARED]
    head = ["sampler", "calls (most)"]
    for title in titles:
        head += [title, "less the reference's"]
    rows = []
    for cell in cells:
        group = _seeds_of(cells, cell)
        if cell["seed"] != group[0]["seed"] or len(group) < 2:
            continue
        row = [_name(cell), _calls(group)]
        for key in COMPARED:
            number = _number(key)
            row.append(number(_mean(group, key)))
            row.append("" if group == reference else _difference(group, reference, key))
        rows.append(row)
    return markdown_table(head, rows)


def _noise(cells: Sequence[Measured]) -> str:
    """What one number of one seed is worth: the standard deviation over seeds, pooled."""
    groups = [_seeds_of(cells, cell) for cell in cells if cell["seed"] == 0]
    groups = [group for group in groups if len(group) > 1]
    words = []
    for key, title in COLUMNS.items():
        pooled = fmean(variance(cell[key] for cell in group) for group in groups) ** 0.5
        words.append(f"{title.rstrip('↑↓ ')} {_number(key)(pooled)}")
    return (
        f"Standard deviation of one number over seeds, pooled over these rows: {'; '.join(words)}."
    )


def _table(cells: Sequence[Measured]) -> str:
    """A row per cell, in the order given."""
    head = ["sampler", "calls (most)", *COLUMNS.values()]
    rows = [
        [_name(cell), _calls([cell]), *(_number(key)(cell[key]) for key in COLUMNS)]
        for cell in cells
    ]
    return markdown_table(head, rows)


def _reference(cells: Sequence[Measured]) -> Measured:
    return next(c for c in cells if c["line"] == REFERENCE and _setting(c) == "one token per call")


def _seeds_of(cells: Sequence[Measured], like: Measured) -> list[Measured]:
    """The cells that differ from one in nothing but the seed, by seed."""
    same = [c for c in cells if all(c[key] == like[key] for key in ("model", "sampling", "steps"))]
    return sorted(same, key=lambda cell: cell["seed"])


def _sharpened(cell: Measured) -> bool:
    return bool({"temperature", "top_p"} & cell["sampling"].keys())


def _has_sharpened_peer(cell: Measured, cells: Sequence[Measured]) -> bool:
    """True if it is sharpened, or the same sampler at temperature 1 as one that is."""

    def plain(c: Measured) -> dict[str, Any]:
        kept = {k: v for k, v in c["sampling"].items() if k not in ("temperature", "top_p")}
        return {**kept, "steps": c["steps"]}

    return any(_sharpened(other) and plain(other) == plain(cell) for other in cells)


def _name(cell: Measured) -> str:
    return f"{cell['line']}, {_setting(cell)}"


def _setting(cell: Measured) -> str:
    """Steps, budget, temperature and top-p, as one types them."""
    shown = [] if cell["steps"] is None else [f"steps={cell['steps']}"]
    for key in ("entropy_budget", "temperature", "top_p"):
        if key in cell["sampling"]:
            shown.append(f"{key}={cell['sampling'][key]:g}")
    if not {"entropy_budget"} & cell["sampling"].keys() and cell["steps"] is None:
        shown.insert(0, "one token per call")
    return ", ".join(shown)


def _calls(cells: Sequence[Measured]) -> str:
    return f"{_mean(cells, 'calls'):.1f} ({max(cell['most_calls'] for cell in cells)})"


def _mean(cells: Sequence[Measured], key: str) -> float:
    return fmean(cell[key] for cell in cells)


def _difference(group: Sequence[Measured], reference: Sequence[Measured], key: str) -> str:
    """Of the means over seeds, with Welch's 95 % interval."""
    ours, theirs = ([cell[key] for cell in cells] for cells in (group, reference))
    found = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    number = _number(key)
    mean = _mean(group, key) - _mean(reference, key)
    return f"{number(mean)} ({number(found.low)} to {number(found.high)})"


def _number(key: str) -> Callable[[float], str]:
    if key.endswith("_tv"):
        return lambda x: f"{x:.4f}"
    return (lambda x: f"{100 * x:.2f}") if key == "valid" else (lambda x: f"{100 * x:.1f}")


def main() -> None:
    parser = command_line(__doc__, threads=1, quick=True)
    parser.add_argument("--checkpoint", type=Path, help="of absorbing noise; trained if not given")
    parser.add_argument("--non-absorbing", type=Path, help="of other noise; trained if not given")
    parser.add_argument("--folder", type=Path, default=Path("runs/samplers"))
    parser.add_argument("--share", default="0/1", help="k/n: every n-th cell from the k-th on")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folder = given.folder / "quick" if given.quick else given.folder
    words = [*FLAT, f"threads={given.threads}", *(QUICK if given.quick else ())]
    paths = {
        "mdlm": given.checkpoint or trained(folder, "mdlm", words),
        "marginal": given.non_absorbing or trained(folder, "marginal", words),
    }
    models = {name: Model.read(path) for name, path in paths.items()}
    num, cells = (QUICK_NUM, quick_cells()) if given.quick else (NUM, all_cells())
    found = fill(models, cells, folder, given.share, num)
    if found is None:
        return
    results = {
        "num_samples": num,
        "num_reference": {name: len(model.reference) for name, model in models.items()},
        "weights": {name: model.digest for name, model in models.items()},
        "steps_trained": {name: model.checkpoint.step for name, model in models.items()},
        "cells": found,
    }
    if given.quick:
        (folder / "samplers.json").write_text(json.dumps(results, indent=1) + "\n")
        return
    command = f"python benchmarks/samplers.py --threads {given.threads}"
    seeds = sorted({cell.seed for cell in cells})
    publish("samplers", command=command, seed=seeds, results=results)


if __name__ == "__main__":
    main()

"""Large plans: those of the generator beside the real ones of CubiGraph5K, and what they cost.

    python benchmarks/large_plans.py --real data.json.gz

Writes ``benchmarks/results/large_plans.json`` and a section of ``docs/generator.md``. Rooms are
counted by the coarser types of CubiGraph5K.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram, encode, read_diagrams
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.diagrams import bubble_metrics
from discrete_diffusion.domains.bubble_diagrams.metrics.structure import structure_metrics
from discrete_diffusion.domains.bubble_diagrams.pictures.diagram_pictures import draw_grid
from discrete_diffusion.domains.bubble_diagrams.procedural.generator import generate_plans
from record import Record, Sections, markdown_table, publish

SIZES = (9, 20)
PICTURED = 36

COARSE = {
    **dict.fromkeys(("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom"), "Bedroom"),
    "Balcony": "Outdoor",
    "Wall-in": "Storage",
    "StudyRoom": "Other",
}
"""What a type of the generator is in CubiGraph5K."""


def describe(plans: Sequence[BubbleDiagram]) -> dict[str, float]:
    """Means per plan."""
    types = Counter(COARSE.get(name, name) for plan in plans for name in plan.room_names)
    structure = structure_metrics(plans)
    return {
        "plans": len(plans),
        "rooms": float(np.mean([plan.num_rooms for plan in plans])),
        "relations": structure["edges_per_diagram"],
        "connected": structure["connected"],
        "repeats up to relabelling": 1 - len(DiagramSet(plans).canonical_key_set) / len(plans),
        **{name: count / len(plans) for name, count in sorted(types.items())},
    }


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def costs(plans: Sequence[BubbleDiagram]) -> dict[str, float]:
    """Seconds that each step takes of as many plans."""
    vocab = DiagramSet(plans).vocabulary.graph(max(plan.num_rooms for plan in plans))
    encoded = encode(plans, vocab)
    half = len(plans) // 2
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "plans.png"
        return {
            "canonical orders": seconds(
                lambda: canonical_orders(encoded.x0, encoded.num_nodes, vocab)
            ),
            "metrics of one half against the other": seconds(
                lambda: bubble_metrics(plans[:half], plans[half:])
            ),
            f"a picture of {PICTURED}": seconds(lambda: draw_grid(plans[:PICTURED], picture)),
        }


def measure(num: int, seed: int, real_file: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    least, most = SIZES
    start = time.perf_counter()
    generated = generate_plans(num, seed, SIZES)
    drawing = time.perf_counter() - start
    start = time.perf_counter()
    everything = read_diagrams(real_file, n_max=33)
    reading = time.perf_counter() - start
    real = [plan for plan in everything if least <= plan.num_rooms <= most]
    return {
        "sizes": list(SIZES),
        "generated": describe(generated),
        "real": describe(real),
        "seconds of the generator": {"drawing": drawing, **costs(generated)},
        "seconds of all real plans": {"reading": reading, **costs(everything)},
        "real plans": len(everything),
    }


def sections(record: Record) -> Sections:
    """The generator beside real plans."""
    found = record.results
    columns = [found["generated"], found["real"]]
    rows = [
        [row, *("" if row not in column else _cell(column[row]) for column in columns)]
        for row in {**columns[1], **columns[0]}
    ]
    least, most = found["sizes"]
    ours, theirs = (found[f"seconds of {name}"] for name in ("the generator", "all real plans"))
    steps = [
        [step, *(f"{took[step]:.2f}" if step in took else "" for took in (ours, theirs))]
        for step in {**ours, **theirs}
    ]
    parts = [
        f"`{record.command}`, seed {record.seed}, {record.hardware}, one thread. Plans of "
        f"{least} to {most} rooms, means per plan:",
        markdown_table(["", "generator", "CubiGraph5K"], rows),
        "Seconds of each step, of these plans of the generator and of all "
        f"{found['real plans']:,} of CubiGraph5K:",
        markdown_table(["", "generator", "CubiGraph5K"], steps),
    ]
    return {("generator.md", "large_plans"): "\n\n".join(parts)}


def _cell(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--real", type=Path, required=True, help="data.json.gz of CubiGraph5K")
    parser.add_argument("--num", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    command = shlex.join(["python", "benchmarks/large_plans.py", *words])
    results = measure(arguments.num, arguments.seed, arguments.real)
    publish("large_plans", command=command, seed=arguments.seed, results=results)


if __name__ == "__main__":
    main()

"""Compare the procedural floor plans with real ones; write numbers and a table.

    python benchmarks/generator_statistics.py [--real plans.jsonl]
    python benchmarks/generator_statistics.py large --real data.json.gz

Writes ``benchmarks/results/generator_statistics.json`` or ``large_plans.json``, and their tables in
the docs. Real plans come one JSON object per line with ``room_type`` (coarse codes: 0 living,
1 bedroom, 2 kitchen, 3 bathroom, 4 balcony, 5 storage) and ``boxes``; lines with
``"duplicate": true`` are left out. Without a file, the real columns stay empty. ``large``: plans of
9 to 20 rooms beside those of CubiGraph5K, rooms counted by its coarser types, and what they cost.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discrete_diffusion.data import canonical_orders
from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram, encode, read_diagrams
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    bubble_metrics,
    coverage_metrics,
    structure_metrics,
)
from floor_plans.diagrams.pictures.diagram_pictures import plot_grid
from floor_plans.diagrams.procedural.generator import PlanArrays, generate_plans, sample_plans
from floor_plans.diagrams.procedural.livable import METRE
from floor_plans.diagrams.procedural.programme import N_MAX, PAD
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING
from record import Part, Record, Sections, command_line, markdown_table, publish, typed

COARSE_OF_TYPE = np.array([0, 6, 2, 3, 0, 1, 1, 1, 1, 4, 0, 5, 5, PAD, PAD])
"""The codes of the real file, where dining and entrance are "living", and 6: master bedrooms."""
FINE_OF_COARSE = np.array([0, 7, 2, 3, 9, 11])
BEDROOM, MASTER_ROOM = 1, ROOM_TYPES.index("MasterRoom")
MEASURED = [ROOM_TYPES.index(f"{name}Room") for name in ("Living", "Second")]
MEASURED += [ROOM_TYPES.index(name) for name in ("Kitchen", "Bathroom", "Balcony")]

DISTANCE_ROWS = {
    "node TV": "node_tv",
    "relation TV": "relation_tv",
    "conditional relation TV": "conditional_relation_tv",
    "conditional pair TV": "conditional_pair_tv",
    "type-conditioned degree TV": "degree_tv",
}
"""Rows of the table of distances, and the metrics they hold."""
METRE_OF_REAL = 277 / 18
"""Pixels of a metre in the renderings, if theirs are of 18 m too."""
LARGE = (9, 20)
PICTURED = 36

COARSE_OF_LARGE = {
    **dict.fromkeys(("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom"), "Bedroom"),
    "Balcony": "Outdoor",
    "Wall-in": "Storage",
    "StudyRoom": "Other",
}
"""What a type of the generator is in CubiGraph5K."""


def read_real(path: Path, grown: bool) -> PlanArrays:
    """Real plans as arrays; the largest bedroom is the master bedroom.

    ``grown``: the living room's box is half a pixel larger on every side and a bedroom's a quarter,
    so that a box within another is surrounded by it even where their edges coincide.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line for line in lines if not line.get("duplicate")]
    types = np.full((len(lines), N_MAX), PAD)
    boxes = np.zeros((len(lines), N_MAX, 4))
    relations = np.full((len(lines), N_MAX, N_MAX), NO_EDGE)
    for k, line in enumerate(lines):
        coarse, box = np.array(line["room_type"]), np.array(line["boxes"], dtype=float)
        n = len(coarse)
        margin = np.array([0.5, 0.25, 0, 0, 0, 0])[coarse][:, None] * grown
        box = box + margin * np.array([-1, -1, 1, 1])
        types[k, :n], boxes[k, :n] = FINE_OF_COARSE[coarse], box
        area = np.where(coarse == BEDROOM, (box[:, 2:] - box[:, :2]).prod(1), 0.0)
        if area.any():
            types[k, area.argmax()] = MASTER_ROOM
        relations[k, :n, :n] = relations_from_boxes(box)
    return PlanArrays(types, (types != PAD).sum(1), boxes.astype(np.int64), relations)


def coarse(plans: PlanArrays) -> DiagramSet:
    """The plans as diagrams whose room codes are the seven coarse ones."""
    return DiagramSet(replace(plans, room_types=COARSE_OF_TYPE[plans.room_types]).to_diagrams())


def mean_over_draws(
    plans: DiagramSet, real: DiagramSet, size: int, draws: int, rng: np.random.Generator
) -> dict[str, float]:
    """Distances of ``size`` plans to ``size`` disjoint real ones, averaged over draws."""
    found: list[dict[str, float]] = []
    for _ in range(draws):
        order = rng.permutation(len(real))
        ours = order[:size] if plans is real else rng.permutation(len(plans))[:size]
        found.append(bubble_metrics(plans.select(ours), real.select(order[size : 2 * size])))
    return {row: float(np.mean([f[name] for f in found])) for row, name in DISTANCE_ROWS.items()}


def describe(plans: PlanArrays) -> dict[str, Any]:
    edges = (plans.relations != NO_EDGE).sum((1, 2))
    present = plans.relations[plans.relations != NO_EDGE]
    shares = np.bincount(plans.num_rooms, minlength=N_MAX + 1)[4:] / len(plans)
    diagrams = DiagramSet(plans.to_diagrams())
    structure, coverage = structure_metrics(diagrams), coverage_metrics(diagrams, diagrams)
    return {
        "plans": len(plans),
        "share with 4 to 8 rooms": shares.tolist(),
        "relations per plan": float(edges.mean()),
        "relations per plan, s.d.": float(edges.std()),
        "relations per plan, range": [int(edges.min()), int(edges.max())],
        "relations per plan, by rooms": [
            float(edges[plans.num_rooms == n].mean()) for n in range(4, N_MAX + 1)
        ],
        "inside or surrounding, share": float(np.isin(present, [INSIDE, SURROUNDING]).mean()),
        "connected": structure["connected"],
        "transitive": structure["transitive"],
        "inside validity": structure["inside_valid"],
        "distinct room multisets": int(coverage["distinct_multisets"]),
        "repeats up to relabelling": 1 - coverage["diversity"],
    }


def seconds(num: int, seed: int) -> dict[str, float]:
    start = time.perf_counter()
    sample_plans(num, seed)
    arrays = time.perf_counter()
    generate_plans(num, seed)
    diagrams = time.perf_counter()
    sample_plans(num, seed, livable=True)
    return {
        "arrays": arrays - start,
        "list of diagrams": diagrams - arrays,
        "livable, as arrays": time.perf_counter() - diagrams,
    }


def sides(plans: PlanArrays, metre: float = METRE) -> dict[str, list[float]]:
    """Metres of the shorter side of the boxes of some types: 5, 25 and 50 %; ``metre``: pixels."""
    shorter = (plans.boxes[..., 2:] - plans.boxes[..., :2]).min(-1) / metre
    return {
        ROOM_TYPES[code]: np.quantile(shorter[plans.room_types == code], (0.05, 0.25, 0.5)).tolist()
        for code in MEASURED
    }


def measure(num: int, seed: int, draws: int, real_file: Path | None) -> dict[str, Any]:
    plans, livable = sample_plans(num, seed), sample_plans(num, seed, livable=True)
    counts = np.bincount(plans.room_types[plans.room_types != PAD], minlength=len(ROOM_TYPES))
    results: dict[str, Any] = {
        "seconds": seconds(num, seed),
        "generator": describe(plans),
        "livable": describe(livable),
        "rooms per plan": dict(zip(ROOM_TYPES, (counts / len(plans)).tolist(), strict=True)),
        "sides": {"generator": sides(plans), "livable": sides(livable)},
    }
    if real_file is not None:
        rng = np.random.default_rng(seed)
        real = read_real(real_file, grown=True)
        size = len(real) // 2
        theirs = coarse(real).prepare()
        results["real"] = describe(real)
        as_drawn = read_real(real_file, grown=False)
        results["real, boxes as drawn"] = describe(as_drawn)
        results["sides"]["real, boxes as drawn"] = sides(as_drawn, METRE_OF_REAL)
        results["distance"] = {
            "size of each side": size,
            "draws": draws,
            **{
                f"{name} against real": mean_over_draws(each, theirs, size, draws, rng)
                for name, each in (
                    ("generator", coarse(plans).prepare()),
                    ("real", theirs),
                    ("livable", coarse(livable).prepare()),
                )
            },
        }
    return results


def describe_large(plans: Sequence[BubbleDiagram]) -> dict[str, float]:
    """Means per plan."""
    types = Counter(COARSE_OF_LARGE.get(name, name) for plan in plans for name in plan.room_names)
    structure = structure_metrics(plans)
    return {
        "plans": len(plans),
        "rooms": float(np.mean([plan.num_rooms for plan in plans])),
        "relations": structure["edges_per_diagram"],
        "connected": structure["connected"],
        "repeats up to relabelling": 1 - len(DiagramSet(plans).canonical_key_set) / len(plans),
        **{name: count / len(plans) for name, count in sorted(types.items())},
    }


def seconds_of(act: Callable[[], object]) -> float:
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
            "canonical orders": seconds_of(
                lambda: canonical_orders(encoded.x0, encoded.num_nodes, vocab)
            ),
            "metrics of one half against the other": seconds_of(
                lambda: bubble_metrics(plans[:half], plans[half:])
            ),
            f"a picture of {PICTURED}": seconds_of(lambda: plot_grid(plans[:PICTURED], picture)),
        }


def measure_large(num: int, seed: int, real_file: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    least, most = LARGE
    start = time.perf_counter()
    generated = generate_plans(num, seed, LARGE)
    drawing = time.perf_counter() - start
    start = time.perf_counter()
    everything = read_diagrams(real_file, max_nodes=33)
    reading = time.perf_counter() - start
    real = [plan for plan in everything if least <= plan.num_rooms <= most]
    return {
        "sizes": list(LARGE),
        "generated": describe_large(generated),
        "real": describe_large(real),
        "seconds of the generator": {"drawing": drawing, **costs(generated)},
        "seconds of all real plans": {"reading": reading, **costs(everything)},
        "real plans": len(everything),
    }


def cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(cell(v) for v in value)
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def table(columns: dict[str, dict[str, Any]]) -> str:
    names = next(iter(columns.values()))
    rows = [[name, *(cell(column[name]) for column in columns.values())] for name in names]
    return markdown_table(["", *columns], rows)


def sections(record: Record) -> Sections:
    """The generator beside real plans, distances, rooms per plan."""
    if record.name == "large_plans":
        return _large_sections(record)
    results = record.results
    took = results["seconds"]
    columns = ("generator", "livable", "real", "real, boxes as drawn")
    parts = [
        f"{cell(results['generator']['plans'])} plans in {took['arrays']:.1f} s as arrays, "
        f"{took['list of diagrams']:.1f} s as diagrams; livable ones in "
        f"{took['livable, as arrays']:.1f} s as arrays.",
        table({name: results[name] for name in columns if name in results}),
    ]
    if "distance" in results:
        found = results["distance"]
        names = ("generator against real", "livable against real", "real against real")
        distances = {name: found[name] for name in names}
        parts.append(
            f"Total variation distances, order-free, between {found['size of each side']} plans on "
            f"each side, mean of {found['draws']} draws:"
        )
        parts.append(table(distances))
    parts.append("Shorter side of the boxes, without walls, 5, 25 and 50 % of the rooms, metres:")
    parts.append(table(results["sides"]))
    parts.append(table({"rooms per generated plan": results["rooms per plan"]}))
    return {(Part.PLANS, "statistics"): "\n\n".join(parts)}


def _large_sections(record: Record) -> Sections:
    """Plans of many rooms beside real ones, and seconds."""
    found = record.results
    columns = [found["generated"], found["real"]]
    rows = [
        [row, *("" if row not in column else cell(column[row]) for column in columns)]
        for row in {**columns[1], **columns[0]}
    ]
    least, most = found["sizes"]
    ours, theirs = (found[f"seconds of {name}"] for name in ("the generator", "all real plans"))
    steps = [
        [step, *(f"{took[step]:.2f}" if step in took else "" for took in (ours, theirs))]
        for step in {**ours, **theirs}
    ]
    parts = [
        f"One thread. Plans of {least} to {most} rooms, means per plan:",
        markdown_table(["", "generator", "CubiGraph5K"], rows),
        "Seconds of each step, of these plans of the generator and of all "
        f"{found['real plans']:,} of CubiGraph5K:",
        markdown_table(["", "generator", "CubiGraph5K"], steps),
    ]
    return {(Part.PLANS, "large_plans"): "\n\n".join(parts)}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("plans", nargs="?", choices=("small", "large"), default="small")
    parser.add_argument("--real", type=Path, help="plans, one JSON per line; data.json.gz of large")
    parser.add_argument("--num", type=int, help="plans of the generator: 20,000, or 2,000 large")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    if given.plans == "small":
        results = measure(given.num or 20_000, given.seed, given.draws, given.real)
    elif given.real is None:
        parser.error("large needs --real, the data.json.gz of CubiGraph5K")
    else:
        results = measure_large(given.num or 2_000, given.seed, given.real)
    name = "generator_statistics" if given.plans == "small" else "large_plans"
    publish(name, command=typed(), seed=given.seed, results=results)


if __name__ == "__main__":
    main()

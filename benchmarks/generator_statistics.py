"""Compare the procedural floor plans with real ones; write numbers and a table.

    python benchmarks/generator_statistics.py [--real plans.jsonl]

Writes ``benchmarks/results/generator_statistics.json`` and the tables of ``docs/generator.md``.
Real plans come one JSON object per line with ``room_type`` (coarse codes: 0 living, 1 bedroom,
2 kitchen, 3 bathroom, 4 balcony, 5 storage) and ``boxes``; lines with ``"duplicate": true`` are
left out.
Without a file, the real columns stay empty.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discrete_diffusion.data.bubble_diagrams.canonical import canonical_orders
from discrete_diffusion.data.bubble_diagrams.diagram import NO_EDGE
from discrete_diffusion.data.bubble_diagrams.generator import PlanArrays, draw_plans, generate_plans
from discrete_diffusion.data.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.data.bubble_diagrams.programme import N_MAX, PAD
from discrete_diffusion.data.bubble_diagrams.tokens import relabel
from discrete_diffusion.rooms import (
    FORBIDDEN_INSIDE,
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    ROOM_TYPES,
)
from record import write_result

ROOT = Path(__file__).resolve().parents[1]
Floats = NDArray[np.float64]

NUM_COARSE = 7
COARSE_OF_TYPE = np.array([0, 6, 2, 3, 0, 1, 1, 1, 1, 4, 0, 5, 5, -1, -1])
"""The codes of the real file, where dining and entrance are "living", and 6: master bedrooms."""
FINE_OF_COARSE = np.array([0, 7, 2, 3, 9, 11])
BEDROOM, MASTER_ROOM = 1, ROOM_TYPES.index("MasterRoom")
INSIDE, SURROUNDING = RELATIONS.index("inside"), RELATIONS.index("surrounding")


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


def pair_histogram(plans: PlanArrays) -> Floats:
    """Float[7, 7, 11]: relations of every unordered pair of coarse types, "no-edge" included;
    the lower type first (swap: 9 - r), equal types symmetrised."""
    i, j = np.triu_indices(N_MAX, k=1)
    coarse = COARSE_OF_TYPE[plans.room_types]
    a, b, r = coarse[:, i], coarse[:, j], plans.relations[:, i, j]
    real = (a >= 0) & (b >= 0)
    a, b, r = a[real], b[real], r[real]
    flipped = np.where(r == NO_EDGE, r, NO_EDGE - 1 - r)
    counts = np.zeros((NUM_COARSE, NUM_COARSE, NO_EDGE + 1))
    np.add.at(counts, (np.minimum(a, b), np.maximum(a, b), np.where(a > b, flipped, r)), 1.0)
    same = np.arange(NUM_COARSE)
    counts[same, same, :NO_EDGE] += counts[same, same, :NO_EDGE][:, ::-1].copy()
    counts[same, same, :NO_EDGE] /= 2
    return counts


def degree_histogram(plans: PlanArrays) -> Floats:
    """Float[7, 8]: number of relations of a room, by coarse type."""
    edge = plans.relations != NO_EDGE
    degree = (edge | edge.transpose(0, 2, 1)).sum(2)
    real = plans.room_types != PAD
    counts = np.zeros((NUM_COARSE, N_MAX))
    np.add.at(counts, (COARSE_OF_TYPE[plans.room_types[real]], degree[real]), 1.0)
    return counts


def total_variation(p: Floats, q: Floats) -> Floats:
    """Half the L1 distance of histograms (..., K); 1 if one of them is empty."""
    p_sum, q_sum = p.sum(-1, keepdims=True), q.sum(-1, keepdims=True)
    p, q = p / np.maximum(p_sum, 1e-12), q / np.maximum(q_sum, 1e-12)
    both = (p_sum[..., 0] > 0) & (q_sum[..., 0] > 0)
    return np.where(both, np.abs(p - q).sum(-1) / 2, 1.0)


def weighted(distance: Floats, reference: Floats) -> float:
    """Mean of distances (...) weighted by the mass of the reference histograms (..., K)."""
    return float(np.average(distance, weights=reference.sum(-1)))


def distances(plans: PlanArrays, reference: PlanArrays) -> dict[str, float]:
    pair, ref_pair = pair_histogram(plans), pair_histogram(reference)
    related, ref_related = pair[..., :NO_EDGE], ref_pair[..., :NO_EDGE]
    degree, ref_degree = degree_histogram(plans), degree_histogram(reference)
    return {
        "node TV": float(total_variation(degree.sum(1), ref_degree.sum(1))),
        "relation TV": float(total_variation(related.sum((0, 1)), ref_related.sum((0, 1)))),
        "conditional relation TV": weighted(total_variation(related, ref_related), ref_related),
        "conditional pair TV": weighted(total_variation(pair, ref_pair), ref_pair),
        "type-conditioned degree TV": weighted(total_variation(degree, ref_degree), ref_degree),
    }


def mean_over_draws(
    plans: PlanArrays, real: PlanArrays, size: int, draws: int, rng: np.random.Generator
) -> dict[str, float]:
    """Distances of ``size`` plans to ``size`` disjoint real ones, averaged over draws."""
    found: list[dict[str, float]] = []
    for _ in range(draws):
        order = rng.permutation(len(real))
        ours = real[order[:size]] if plans is real else plans[rng.permutation(len(plans))[:size]]
        found.append(distances(ours, real[order[size : 2 * size]]))
    return {name: float(np.mean([f[name] for f in found])) for name in found[0]}


def closure(adjacent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    for _ in range(3):
        adjacent = adjacent | (adjacent[..., :, :, None] & adjacent[..., None, :, :]).any(-2)
    return adjacent


def soundness(plans: PlanArrays) -> dict[str, float]:
    """Shares of plans that are connected, transitive, and free of forbidden containment."""
    edge = plans.relations != NO_EDGE
    reach = closure(edge | edge.transpose(0, 2, 1))[:, 0] | (np.arange(N_MAX) == 0)
    connected = (reach | (plans.room_types == PAD)).all(1)
    transitive = np.ones(len(plans), dtype=bool)
    for order in (RELATION_X_ORDER, RELATION_Y_ORDER):
        sign = np.array(order)[plans.relations]
        before = (sign < 0) | (sign > 0).transpose(0, 2, 1)
        transitive &= ~closure(before).diagonal(axis1=1, axis2=2).any(1)
    forbidden = np.zeros((PAD + 1, PAD + 1), dtype=bool)
    for inner, outer in FORBIDDEN_INSIDE.items():
        forbidden[inner, list(outer)] = True
    u, v = plans.room_types[:, :, None], plans.room_types[:, None, :]
    wrong = (plans.relations == INSIDE) & forbidden[u, v]
    wrong |= (plans.relations == SURROUNDING) & forbidden[v, u]
    return {
        "connected": float(connected.mean()),
        "transitive": float(transitive.mean()),
        "inside validity": float(1 - wrong.any((1, 2)).mean()),
    }


def describe(plans: PlanArrays) -> dict[str, Any]:
    edges = (plans.relations != NO_EDGE).sum((1, 2))
    present = plans.relations[plans.relations != NO_EDGE]
    shares = np.bincount(plans.num_rooms, minlength=N_MAX + 1)[4:] / len(plans)
    encoded = plans.encode()
    orders = canonical_orders(encoded.x0, encoded.num_rooms).orders
    distinct = len(torch.unique(relabel(encoded.x0, encoded.num_rooms, orders), dim=0))
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
        **soundness(plans),
        "distinct room multisets": len(np.unique(np.sort(plans.room_types, axis=1), axis=0)),
        "repeats up to relabelling": 1 - distinct / len(plans),
    }


def rooms_per_plan(plans: PlanArrays) -> dict[str, float]:
    counts = np.bincount(plans.room_types[plans.room_types != PAD], minlength=len(ROOM_TYPES))
    return dict(zip(ROOM_TYPES, (counts / len(plans)).tolist(), strict=True))


def seconds(num: int, seed: int) -> dict[str, float]:
    start = time.perf_counter()
    draw_plans(num, seed)
    arrays = time.perf_counter()
    generate_plans(num, seed)
    return {"arrays": arrays - start, "list of diagrams": time.perf_counter() - arrays}


def measure(num: int, seed: int, draws: int, real_file: Path | None) -> dict[str, Any]:
    plans = draw_plans(num, seed)
    results: dict[str, Any] = {
        "seconds": seconds(num, seed),
        "generator": describe(plans),
        "rooms per plan": rooms_per_plan(plans),
    }
    if real_file is not None:
        rng = np.random.default_rng(seed)
        real = read_real(real_file, grown=True)
        size = len(real) // 2
        results["real"] = describe(real)
        results["real, boxes as drawn"] = describe(read_real(real_file, grown=False))
        results["distance"] = {
            "size of each side": size,
            "draws": draws,
            "generator against real": mean_over_draws(plans, real, size, draws, rng),
            "real against real": mean_over_draws(real, real, size, draws, rng),
        }
    return results


START, END = "<!-- statistics: start -->", "<!-- statistics: end -->"  # tables go between them


def cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(cell(v) for v in value)
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def table(columns: dict[str, dict[str, Any]]) -> str:
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in next(iter(columns.values())):
        values = [cell(column[row]) for column in columns.values()]
        lines.append(f"| {row} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def tables(report: dict[str, Any]) -> str:
    """Markdown: the generator beside real plans, distances, rooms per plan."""
    results = report["results"]
    took = results["seconds"]
    columns = ("generator", "real", "real, boxes as drawn")
    parts = [
        f"`{report['command']}`, seed {report['seed']}, {report['hardware']}: "
        f"{cell(results['generator']['plans'])} plans in {took['arrays']:.1f} s as arrays, "
        f"{took['list of diagrams']:.1f} s as diagrams.",
        table({name: results[name] for name in columns if name in results}),
    ]
    if "distance" in results:
        found = results["distance"]
        sides = {name: found[name] for name in ("generator against real", "real against real")}
        parts.append(
            f"Total variation distances, order-free, between {found['size of each side']} plans on "
            f"each side, mean of {found['draws']} draws:"
        )
        parts.append(table(sides))
    parts.append(table({"rooms per generated plan": results["rooms per plan"]}))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--real", type=Path, default=None, help="real plans, one JSON per line")
    parser.add_argument("--num", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    command = shlex.join(["python", "benchmarks/generator_statistics.py", *words])
    results = measure(arguments.num, arguments.seed, arguments.draws, arguments.real)
    path = write_result(
        "generator_statistics", command=command, seed=arguments.seed, results=results
    )
    report = json.loads(path.read_text())
    page = ROOT / "docs" / "generator.md"
    before, _, rest = page.read_text().partition(START)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{START}\n{tables(report)}\n{END}{after}")


if __name__ == "__main__":
    main()

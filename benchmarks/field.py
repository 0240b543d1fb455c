"""Graphs read back from our plans, in the protocols of published systems, beside their numbers.

    python benchmarks/field.py plans.jsonl HOUSEGANPP_FOLDER [--num 25] [--seeds 10]

*Related rooms*: diagrams of real plans, ``--num`` of each number of rooms, are realised, and the
pairs of rooms whose floors are close are compared with the relations that were asked for. *Doors*:
the diagrams of plans of House-GAN++ are realised ``--seeds`` times, and the doors compared with
those of the real plan, which were not asked for; once as the plan states them, and once as the
reader of arXiv 2605.14117 finds them in the polygons of the exported drawing. Writes
``benchmarks/results/field.json`` and its tables in the report.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from shapely import Polygon

from floor_plans import BubbleDiagram, read_diagrams
from floor_plans.diagrams.metrics.access import RoomGraph, edit_distance, space_syntax, wrong_pairs
from floor_plans.drawings.houseganpp import nearest_type, rlvr_of
from floor_plans.drawings.realise_file import door_graph, relation_graphs
from floor_plans.plans.floor_plan import FRONT_DOOR, FloorPlan
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest
from record import Part, Record, Sections, command_line, markdown_table, publish

SIZES = (5, 6, 7, 8)
_GAP, _FAR, _OVERLAP = 0.2, 0.3, 0.3
"""Metres around a door in which rooms are, metres from a room's border to the door's middle, and
the share of a door in a room, in the reader of arXiv 2605.14117."""

PUBLISHED = {
    "House-GAN++": ("doors", [None, None, None, 3.9]),
    "HouseDiffusion": ("doors", [1.5, 1.2, 1.7, 2.5]),
    "language model of 70B, best of 10": ("doors by types", [0.01, 0.02, 0.10, 0.15]),
}
"""Graph, and wrong pairs by number of rooms (``SIZES``)."""

CAVEATS = """
* *House-GAN++, HouseDiffusion*: rooms and doors are asked for by number, on RPLAN; a door joins the
  two rooms that it overlaps most.
* *Language model*: the same graph, compared by the types of rooms alone, so that two bedrooms may
  change places; plans of another number of rooms do not count.
* *Related rooms*: our diagrams state directions too. Related floors are at most 0.63 m apart. Added
  halls, and diagrams without a plan, do not count.
* *Doors, not asked for*: the diagrams are those of six plans, and say nothing about doors.
* *Graph edit distance* is the least number of edits whatever the numbers of the rooms. FMLM prints
  1.21 and Graph2Plan 3.43 for graphs of their own (from a note of the papers).
* *FID* is not measured: it needs weights of Inception, which pytorch-fid, clean-fid and
  torch-fidelity download, and no package on PyPI was found that contains them.
"""
"""What each protocol compares."""


def planned(
    diagrams: Iterable[BubbleDiagram], seeds: Iterable[int]
) -> Iterator[tuple[int, FloorPlan, float]]:
    """Number of the diagram, plan and CPU-seconds, for each that has one."""
    bare = [BubbleDiagram(each.rooms, each.relations) for each in diagrams]
    for seed in seeds:
        jobs = PlanRequest(rules=read_rules("default"), seed=seed).jobs(bare)
        for number, job in enumerate(jobs):
            began = time.process_time()
            found = realise(job)
            if found.plans:
                yield number, found.plans[0], time.process_time() - began


def drawn_graph(plan: FloorPlan) -> tuple[RoomGraph, int]:
    """Graph of doors that the reader of arXiv 2605.14117 finds in the drawing, and the doors that
    lead nowhere."""
    spaces = json.loads(rlvr_of(plan))["spaces"]
    shapes = [Polygon([(at["x"], at["y"]) for at in each["floor_polygon"]]) for each in spaces]
    kinds = [each["room_type"] for each in spaces]
    rooms = [k for k, kind in enumerate(kinds) if not kind.endswith("_door")]
    by_pair: dict[tuple[int, int], int] = defaultdict(int)
    floating = 0
    for k in (k for k, kind in enumerate(kinds) if kind == "interior_door"):
        door = shapes[k]
        near = [room for room in rooms if door.buffer(_GAP).intersects(shapes[room])]
        floating += len(near) < 2
        over = [shapes[room] for room in rooms if door.overlaps(shapes[room])]
        in_room = max((door.intersection(each).area for each in over), default=0.0) / door.area
        for i, j in combinations(near, 2):
            away = max(shapes[room].boundary.distance(door.centroid) for room in (i, j))
            nested = shapes[i].contains(shapes[j]) or shapes[j].contains(shapes[i])
            by_pair[i, j] += away <= _FAR and in_room <= _OVERLAP and not nested
    pairs = [pair for pair, num in by_pair.items() if num == 1]
    for k in (k for k, kind in enumerate(kinds) if kind == "front_door"):
        nearest = min(rooms, key=lambda room: shapes[k].distance(shapes[room]))
        pairs += [(nearest, FRONT_DOOR)] * (shapes[k].distance(shapes[nearest]) < _FAR)
    return RoomGraph.of({FRONT_DOOR: "front_door", **{k: kinds[k] for k in rooms}}, pairs), floating


def plain_graph(graph: RoomGraph) -> RoomGraph:
    """The graph with the room types of House-GAN++; an added hall is an entrance."""
    types = {k: "Entrance" if kind == "Hall" else kind for k, kind in graph.types.items()}
    return RoomGraph.of({k: nearest_type(kind) for k, kind in types.items()}, graph.pairs)


def wrong_typed_pairs(wanted: RoomGraph, found: RoomGraph) -> int:
    """Sum over pairs of types of |n_wanted - n_found|: the compatibility of arXiv 2605.14117, less
    its doors that lead nowhere. Never more than ``wrong_pairs``."""
    one, other = (
        Counter(tuple(sorted(graph.types[room] for room in pair)) for pair in graph.pairs)
        for graph in (wanted, found)
    )
    return ((one - other) + (other - one)).total()


def related(diagrams: list[BubbleDiagram], num: int) -> dict[str, Any]:
    """Related rooms, by number of rooms."""
    found = {}
    for size in SIZES:
        taken = list(islice((each for each in diagrams if each.num_rooms == size), num))
        plans = [(plan, seconds) for _, plan, seconds in planned(taken, [0])]
        graphs = [relation_graphs(plan) for plan, _ in plans]
        found[str(size)] = {
            "num": len(taken),
            "found": len(plans),
            "halls": sum(plan.diagram.num_rooms > size for plan, _ in plans),
            "wrong_pairs": statistics.fmean(wrong_pairs(*each) for each in graphs),
            "edit_distance": statistics.fmean(edit_distance(*each) for each in graphs),
            "seconds": statistics.median(seconds for _, seconds in plans),
        }
        print("related", size, found[str(size)], flush=True)
    return found


def syntax(graphs: Iterable[RoomGraph]) -> dict[str, float]:
    """Means of the rooms' depth from outside, and of integration of living rooms and of others."""
    rooms = [
        (graph.types[room], each)
        for graph in graphs
        for room, each in space_syntax(graph, FRONT_DOOR).items()
        if room != FRONT_DOOR
    ]
    depths = [each["depth"] for _, each in rooms if each["depth"] is not None]
    lived, others = (
        [
            each["integration"]
            for kind, each in rooms
            if each["integration"] is not None and (kind == "LivingRoom") == is_lived
        ]
        for is_lived in (True, False)
    )
    return {
        "depth": statistics.fmean(depths),
        "integration_living": statistics.fmean(lived) if lived else 0.0,
        "integration_others": statistics.fmean(others),
    }


def doors(diagrams: list[BubbleDiagram], seeds: int) -> dict[str, Any]:
    """Doors against those of the real plans, by number of rooms, and space syntax of both."""
    real = [door_graph(FloorPlan.of(each, "pixels")) for each in diagrams]
    scores: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    ours, floating, unread = [], 0, 0
    for number, plan, _ in planned(diagrams, range(seeds)):
        stated, wanted = plain_graph(door_graph(plan)), plain_graph(real[number])
        drawn, nowhere = drawn_graph(plan)
        ours.append(door_graph(plan))
        floating += nowhere
        unread += wrong_pairs(stated, drawn)
        scores[diagrams[number].num_rooms].append(
            (
                wrong_pairs(wanted, stated),
                wrong_typed_pairs(wanted, stated),
                edit_distance(wanted, stated),
            )
        )
    names = ("wrong_pairs", "wrong_typed_pairs", "edit_distance")
    found: dict[str, Any] = {
        str(size): {"num": len(each)}
        | {name: statistics.fmean(of[k] for of in each) for k, name in enumerate(names)}
        for size, each in sorted(scores.items())
    }
    print("doors", found, flush=True)
    return {
        "sizes": found,
        "num_diagrams": len(diagrams),
        "num_plans": len(ours),
        "unread_pairs": unread,
        "floating": floating,
        "syntax": {"real": syntax(real), "ours": syntax(ours)},
    }


def sections(record: Record) -> Sections:
    related, doors = record.results["related"], record.results["doors"]
    rows = [
        [name, graph, *("" if each is None else f"{each:g}" for each in numbers)]
        for name, (graph, numbers) in PUBLISHED.items()
    ]

    def row(title: str, graph: str, of: Mapping[str, Any], key: str) -> list[str]:
        numbers = [of.get(str(size), {}).get(key) for size in SIZES]
        return [title, graph, *("" if each is None else f"{each:.2f}" for each in numbers)]

    rows += [
        row("ours", "related rooms, asked for", related, "wrong_pairs"),
        row("ours, graph edit distance", "related rooms, asked for", related, "edit_distance"),
        row("ours", "doors, not asked for", doors["sizes"], "wrong_pairs"),
        row("ours", "doors by types, not asked for", doors["sizes"], "wrong_typed_pairs"),
        row("ours, graph edit distance", "doors, not asked for", doors["sizes"], "edit_distance"),
    ]
    head = ["", "graph", *(f"{size} rooms" for size in SIZES)]
    syntax = [
        [title, *(f"{each[key]:.2f}" for key in each)]
        for title, each in (
            (f"{doors['num_diagrams']} real plans", doors["syntax"]["real"]),
            (f"{doors['num_plans']} of ours", doors["syntax"]["ours"]),
        )
    ]
    columns = ["", "depth from outside", "integration, living rooms", "integration, other rooms"]
    return {
        (Part.PLANS, "field"): f"{markdown_table(head, rows, left=2)}\n{CAVEATS.rstrip()}",
        (Part.PLANS, "space syntax"): markdown_table(columns, syntax),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("plans")
    parser.add_argument("houseganpp", type=Path)
    parser.add_argument("--num", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    results = {
        "doors": doors(list(read_diagrams(options.houseganpp)), options.seeds),
        "related": related(list(read_diagrams(options.plans)), options.num),
    }
    command = "python benchmarks/field.py plans.jsonl HOUSEGANPP_FOLDER"
    command += f" --num {options.num} --seeds {options.seeds}"
    publish("field", command=command, seed=list(range(options.seeds)), results=results)


if __name__ == "__main__":
    main()

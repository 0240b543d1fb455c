"""What real plans, and generated ones, score against others of their kind, and against each other.

    python benchmarks/floors.py plans.jsonl [--draws 20]

Writes ``benchmarks/results/floors.json`` and two tables of the docs. Structural metrics
are of the diagrams as they are read. Distances use seven coarse room types, the ones the real file
tells apart: living, dining and entrance are one, all bedrooms but the largest are one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from discrete_diffusion.evaluation import real_vs_real
from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram, generate_plans, read_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import DISTANCES, bubble_metrics
from record import Part, Record, Sections, command_line, markdown_table, publish

SIZE, LARGE = 489, 2000
COARSE = {
    "DiningRoom": "LivingRoom",
    "Entrance": "LivingRoom",
    "Wall-in": "Storage",
} | dict.fromkeys(("ChildRoom", "StudyRoom", "GuestRoom"), "SecondRoom")
STRUCTURE = (
    "valid",
    "exactly_one_living_room",
    "transitive",
    "inside_valid",
    "edges_per_diagram",
    "edge_presence",
    "diversity",
    "distinct_multisets",
    "mode_coverage",
    "mode_coverage_weighted",
)
PLAIN_DISTANCES = tuple(name for name in DISTANCES if not name.endswith("_unweighted"))


def coarse(diagrams: list[BubbleDiagram]) -> list[BubbleDiagram]:
    code = [ROOM_TYPES.index(COARSE.get(name, name)) for name in ROOM_TYPES]
    return [replace(d, rooms=tuple(code[room] for room in d.rooms)) for d in diagrams]


def across(ours: list[BubbleDiagram], theirs: list[BubbleDiagram], draws: int) -> dict[str, float]:
    """Metrics of ``SIZE`` of ours against ``SIZE`` of theirs, mean over draws."""
    sets = [DiagramSet(diagrams).prepare() for diagrams in (ours, theirs)]
    found = []
    for draw in range(draws):
        rng = np.random.default_rng([1, draw])
        a, b = (s.select(rng.permutation(len(s))[:SIZE]) for s in sets)
        found.append(bubble_metrics(a, b))
    return {name: float(np.mean([f[name] for f in found])) for name in found[0]}


def table(columns: dict[str, dict[str, float]], names: tuple[str, ...]) -> str:
    rows = [[name, *(f"{column[name]:.4g}" for column in columns.values())] for name in names]
    return markdown_table(["", *columns], rows)


def sections(record: Record) -> Sections:
    found = record.results
    return {
        (Part.DEMO, "floors of structure"): table(found["as_read"], STRUCTURE),
        (Part.DEMO, "floors of distances"): table(found["coarse_types"], PLAIN_DISTANCES),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("plans", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    real, generated = read_diagrams(arguments.plans), list(generate_plans(20_000, seed=0))

    def floors(diagrams: list[BubbleDiagram], size: int) -> dict[str, float]:
        real = DiagramSet.of(diagrams).prepare()
        sizes = {"num_samples": size, "num_reference": size, "draws": arguments.draws}
        return real_vs_real(real, bubble_metrics, **sizes).mean

    structure = {
        f"real ({SIZE} + {SIZE})": floors(real, SIZE),
        f"generator ({SIZE} + {SIZE})": floors(generated, SIZE),
        f"generator ({LARGE} + {LARGE})": floors(generated, LARGE),
    }
    real_coarse, generated_coarse = coarse(real), coarse(generated)
    distances = {
        f"real against real ({SIZE} + {SIZE})": floors(real_coarse, SIZE),
        f"generator against generator ({SIZE} + {SIZE})": floors(generated_coarse, SIZE),
        f"generator against real ({SIZE} + {SIZE})": across(
            generated_coarse, real_coarse, arguments.draws
        ),
        f"generator, all 13 types ({LARGE} + {LARGE})": structure[f"generator ({LARGE} + {LARGE})"],
    }
    command = f"python benchmarks/floors.py {arguments.plans.name} --draws {arguments.draws}"
    results = {"num_real": len(real), "as_read": structure, "coarse_types": distances}
    publish("floors", command=command, seed=0, results=results)


if __name__ == "__main__":
    main()

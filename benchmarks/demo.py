"""Run the demo's training several times and record how long it takes and how good it is.

    python benchmarks/demo.py [--seeds 3]

Writes ``benchmarks/results/demo.json`` and the README's picture, the first twelve samples of the
first seed. Installation is not part of the time, everything after it (generating the data,
training, evaluating, sampling, drawing) is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from floor_plans import read_diagrams
from floor_plans.diagrams.pictures.diagram_pictures import plot_grid
from record import DOCS, Part, Record, Sections, command_line, markdown_table, percent, publish

PICTURE = DOCS / "images" / "samples.png"


def sections(record: Record) -> Sections:
    """A row per training seed."""
    rows = [
        [
            str(run["seed"]),
            f"{run['seconds'] / 60:.1f}",
            f"{run['num_samples']:,}",
            percent(run["valid"]),
            percent(run["transitive"]),
            f"{run['nelbo_unordered']:.2f} ± {run['nelbo_standard_error']:.2f}",
        ]
        for run in record.results
    ]
    heads = ["training seed", "minutes", "samples", "valid", "transitive", "bound, nats"]
    return {(Part.DEMO, "demo"): markdown_table(heads, rows)}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    runs = []
    for seed in range(arguments.seeds):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            words = ["train", "experiment=demo", f"seed={seed}", f"hydra.run.dir={folder}"]
            subprocess.run([sys.executable, "-m", "discrete_diffusion", *words], check=True)
            seconds = time.perf_counter() - start
            metrics = json.loads((Path(folder) / "metrics.json").read_text())
            if seed == 0:
                PICTURE.parent.mkdir(parents=True, exist_ok=True)
                plot_grid(
                    read_diagrams(Path(folder) / "samples.jsonl")[:12], PICTURE, columns=6, dpi=120
                )
        runs.append({"seconds": seconds, **metrics})
    command = f"python benchmarks/demo.py --seeds {arguments.seeds}"
    path = publish("demo", command=command, seed=list(range(arguments.seeds)), results=runs)
    print(path.read_text())


if __name__ == "__main__":
    main()

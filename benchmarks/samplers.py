"""Quality of samples against network calls: samplers x steps x temperature, on the embedded plans.

    python benchmarks/samplers.py [--checkpoint FILE] [--non-absorbing FILE] [--threads 1]
        [--folder runs/samplers] [--share 0/2] [--quick]

Without checkpoints it trains the flat network for 10,000 steps, by ``mdlm`` and by ``marginal``,
into the folder, half an hour each on two cores. The reference is the test split, which training
never saw.

Every cell (sampler, steps, seed) is written into the folder as soon as it is measured, and is not
measured again for the same weights and the same code of samplers: an interrupted sweep goes on when
called again, and two processes can share it, one with ``--share 0/2``, one with ``--share 1/2``.
The call that finds all cells measured writes ``benchmarks/results/samplers.json``, the tables of
``docs/results_samplers.md`` and the figure beside them; with ``--quick``, a small model and few
samples, all goes into the folder. ``seconds`` are those of the machine as it was, whatever else ran
on it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import discrete_diffusion
from buildable import buildable
from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints import Checkpoint, read_checkpoint
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import train
from discrete_diffusion.data import TokenDataset, draw_sizes
from discrete_diffusion.domains import build_data, domain_of
from discrete_diffusion.domains.bubble_diagrams import decode
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.diagrams import bubble_metrics
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import build_sampler, draw_samples
from record import publish
from sampler_cells import Cell, all_cells, quick_cells
from samplers_report import FIGURE, draw
from speculative import counted
from speed_clock import Stopwatch

NUM, QUICK_NUM, BATCH = 2000, 100, 256
FLAT = (
    *("experiment=bubble_mdlm", "algo.backbone=bd-denoiser"),
    *("data.batch_size=64", "optim.lr=1e-3", "trainer.max_steps=10000"),
)
"""The run that the samplers' numbers come from."""
METRICS = (
    *("relation_tv", "conditional_pair_tv", "node_tv", "valid", "transitive"),
    *("mode_coverage_weighted", "diversity"),
)
QUICK = ("model=bd_tiny", "trainer.max_steps=300", "data.num_plans=5000", "eval.num_samples=0")


@dataclass(frozen=True)
class Model:
    """A trained model, what its weights are called in cells, its data, and the plans it is measured
    on."""

    checkpoint: Checkpoint
    digest: str
    data: TokenDataset
    reference: DiagramSet

    @classmethod
    def read(cls, path: str | Path) -> Model:
        """Of a run, a file, or the name of a model in the box."""
        checkpoint = read_checkpoint(path)
        data = build_data(checkpoint.config)
        vocab = VocabConfig(n_max=checkpoint.config.data.n_max)
        reference = DiagramSet(decode(data.splits["test"].x0, vocab)).prepare()
        return cls(checkpoint, digest_of(checkpoint.algorithm), data, reference)

    def measure(self, cell: Cell, num: int, verdicts: int = 0) -> dict[str, float]:
        """Draw and measure; the room counts are a function of the seed alone. ``verdicts``: of how
        many samples it is asked whether they can be built."""
        checkpoint, data = self.checkpoint, self.checkpoint.config.data
        sizes = draw_sizes(checkpoint.size_counts, num, make_generator(cell.seed, 0))
        real = domain_of(data).real_positions(data, sizes)
        in_rounds, watch = cell.name == "speculative", Stopwatch(torch.device("cpu"))
        output = draw_samples(
            build_sampler(cell.sampling),
            checkpoint.algorithm,
            real,
            generator=make_generator(cell.seed, 1),
            steps=cell.steps,
            batch_size=BATCH,
            trajectories=num if in_rounds else 0,
        )
        spent = watch.stop(num)
        diagrams = decode(output.x0, VocabConfig(n_max=data.n_max))
        found = bubble_metrics(DiagramSet(diagrams), self.reference)
        numbers = {
            "calls": float(output.nfe.double().mean()),
            "most_calls": int(output.nfe.max()),
            **{name: found[name] for name in METRICS},
            "seconds": spent.wall,
            "cpu_seconds": spent.cpu,
        }
        if in_rounds:
            most = cell.sampling.get("tokens_per_round", 8)
            numbers["rounds"] = counted(output, real.sum(dim=1), most)["rounds"]
        if verdicts:
            some = diagrams[:verdicts]
            numbers["buildable"] = len(buildable(some)) / len(some)
        return numbers


def digest_of(algorithm: TokenAlgorithm) -> str:
    """16 hex digits that say which weights these are."""
    digest = hashlib.sha256(algorithm.name.encode())
    for name, tensor in sorted(algorithm.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def trained(folder: Path, algorithm: str, words: Sequence[str]) -> Path:
    """The last checkpoint of a training run, which is made if it is not there or not finished."""
    run = folder / algorithm
    if not (run / "metrics.json").exists():
        train(compose("train", [f"algo={algorithm}", "logger=none", *words]), run)
    return run / "checkpoints" / "last.ckpt"


@cache
def digest_of_code() -> str:
    """Of the modules that the draws depend on."""
    package = Path(discrete_diffusion.__file__).parent
    digest = hashlib.sha256()
    for part in ("sampling", "forward_process"):
        for path in sorted((package / part).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def place_of(folder: Path, cell: Cell, digest: str, num: int, verdicts: int = 0) -> Path:
    """The file of a cell: named by all that its numbers depend on, code included."""
    facts = {
        **cell.facts,
        "weights": digest,
        "samples": num,
        "batch": BATCH,
        "code": digest_of_code(),
        **({"verdicts": verdicts} if verdicts else {}),
    }
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return folder / "cells" / f"{name}.json"


def share_of(cells: Sequence[Cell], share: str) -> Iterator[Cell]:
    """Every n-th cell from the k-th on, for the share ``k/n``."""
    k, _, n = share.partition("/")
    yield from cells[int(k) :: int(n)]


def fill(
    models: Mapping[str, Model],
    cells: Sequence[Cell],
    folder: Path,
    share: str,
    num: int,
    verdicts: Mapping[Cell, int] | None = None,
) -> list[dict[str, Any]] | None:
    """Measure what this share lacks; all cells with their numbers, or None if any is lacking.

    ``verdicts``: of the cells that it is not 0 for, see ``Model.measure``."""
    asked = verdicts or {}
    places = {
        cell: place_of(folder, cell, models[cell.model].digest, num, asked.get(cell, 0))
        for cell in cells
    }
    for cell in share_of(cells, share):
        if places[cell].exists():
            continue
        numbers = models[cell.model].measure(cell, num, asked.get(cell, 0))
        places[cell].parent.mkdir(parents=True, exist_ok=True)
        half = places[cell].with_suffix(".part")
        half.write_text(json.dumps({**cell.facts, **numbers}, indent=1) + "\n")
        half.rename(places[cell])
        print(f"{cell}: {numbers}", flush=True)
    if missing := [cell for cell in cells if not places[cell].exists()]:
        print(f"{len(missing)} of {len(cells)} cells are another share's and not measured yet")
        return None
    return [{"line": cell.line, **json.loads(places[cell].read_text())} for cell in cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, help="of absorbing noise; trained if not given")
    parser.add_argument("--non-absorbing", type=Path, help="of other noise; trained if not given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs/samplers"))
    parser.add_argument("--share", default="0/1", help="k/n: every n-th cell from the k-th on")
    parser.add_argument("--quick", action="store_true", help="a small model, few samples")
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
        draw(found, folder / FIGURE)
        (folder / "samplers.json").write_text(json.dumps(results, indent=1) + "\n")
        return
    command = f"python benchmarks/samplers.py --threads {given.threads}"
    seeds = sorted({cell.seed for cell in cells})
    publish("samplers", command=command, seed=seeds, results=results)


if __name__ == "__main__":
    main()

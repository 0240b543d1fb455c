"""Cells of the benchmarks of samplers: a sampler at its steps, drawn from a trained model with one
seed, measured once and kept; and the cells that ``samplers.py`` measures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from buildable import buildable
from clock import Stopwatch
from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints import Checkpoint, read_checkpoint
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import TrainRequest, run_training
from discrete_diffusion.data import TokenDataset, sample_sizes
from discrete_diffusion.domains import build_data, domain_of
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import Model as SampledModel
from discrete_diffusion.sampling import build_sampler, sample_in_batches
from floor_plans import decode
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import bubble_metrics
from record import digest_of_code

NUM, QUICK_NUM, BATCH = 2000, 100, 256
FLAT = (
    *("experiment=plans_full", "algo.backbone=bd-denoiser"),
    *("data.batch_size=64", "optim.lr=1e-3", "trainer.max_steps=10000"),
)
"""The run that the samplers' numbers come from."""
METRICS = (
    *("relation_tv", "conditional_pair_tv", "node_tv", "valid", "transitive"),
    *("mode_coverage_weighted", "diversity"),
)
REFERENCE = "first-hitting"
"""The line whose first setting, one token per call, is the one to compare with."""
SEEDS = range(5)


@dataclass(frozen=True)
class Cell:
    """One sampler with its options and steps, drawn from one model with one seed.

    ``line``: the name it has in tables, and the curve it belongs to. ``options``: names and values,
    in the order given.
    """

    model: str
    line: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    steps: int | None = None
    seed: int = 0

    @property
    def sampling(self) -> dict[str, Any]:
        """What ``build_sampler`` takes."""
        return {"name": self.name, **dict(self.options)}

    @property
    def facts(self) -> dict[str, Any]:
        """What the numbers depend on, weights and sample size aside."""
        return {
            "model": self.model,
            "sampling": self.sampling,
            "steps": self.steps,
            "seed": self.seed,
        }


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
        vocab = VocabConfig(n_max=checkpoint.config.data.max_nodes)
        reference = DiagramSet(decode(data.splits["test"].x0, vocab)).prepare()
        return cls(checkpoint, digest_of(checkpoint.algorithm), data, reference)

    def measure(self, cell: Cell, num: int, verdicts: int = 0) -> dict[str, float]:
        """Draw and measure; the room counts are a function of the seed alone. ``verdicts``: of how
        many samples it is asked whether they can be built."""
        checkpoint, data = self.checkpoint, self.checkpoint.config.data
        sizes = sample_sizes(checkpoint.size_counts, num, make_generator(cell.seed, 0))
        real = domain_of(data).vocabulary(data).real_positions(sizes)
        watch = Stopwatch(torch.device("cpu"))
        output = sample_in_batches(
            SampledModel(
                checkpoint.algorithm,
                build_sampler(cell.sampling),
                steps=cell.steps,
                batch_size=BATCH,
            ),
            real,
            generator=make_generator(cell.seed, 1),
        )
        spent = watch.stop(num)
        diagrams = decode(output.x0, VocabConfig(n_max=data.max_nodes))
        found = bubble_metrics(DiagramSet(diagrams), self.reference)
        numbers = {
            "calls": float(output.nfe.double().mean()),
            "most_calls": int(output.nfe.max()),
            **{name: found[name] for name in METRICS},
            "seconds": spent.wall,
            "cpu_seconds": spent.cpu,
        }
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
        run_training(
            TrainRequest(compose("train", [f"algo={algorithm}", "logger=none", *words]), run)
        )
    return run / "checkpoints" / "last.ckpt"


def place_of(folder: Path, cell: Cell, digest: str, num: int, verdicts: int = 0) -> Path:
    """The file of a cell: named by all that its numbers depend on, code included."""
    facts = {
        **cell.facts,
        "weights": digest,
        "samples": num,
        "batch": BATCH,
        "code": digest_of_code("sampling", "forward_process"),
        **({"verdicts": verdicts} if verdicts else {}),
    }
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return folder / "cells" / f"{name}.json"


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
    # of the share k/n every n-th cell from the k-th on
    k, _, n = share.partition("/")
    for cell in cells[int(k) :: int(n)]:
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


def _cells(model: str, line: str, name: str, settings: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """A cell per setting: options of the sampler, and ``steps``."""
    cells = []
    for setting in settings:
        options = tuple((key, value) for key, value in setting.items() if key != "steps")
        cells.append(Cell(model, line, name, options, setting.get("steps")))
    return cells


def _steps(*numbers: int, **options: Any) -> list[dict[str, Any]]:
    return [{**options, "steps": number} for number in numbers]


def sharpened() -> list[Cell]:
    """Temperatures below 1, a nucleus, and ``confidence``, which sharpens by itself."""
    temperatures: list[dict[str, Any]] = [{"temperature": t} for t in (0.9, 0.8, 0.7)]
    few: list[dict[str, Any]] = [{"top_p": 0.9}]
    ahead = {"order": "random", "entropy_budget": 1.2}
    return [
        *_cells("mdlm", "confidence", "confidence", [{}]),
        *_cells("mdlm", REFERENCE, "first-hitting", temperatures + few),
        *_cells(
            "mdlm",
            "entropy-bounded",
            "entropy-bounded",
            [{**ahead, **change} for change in (temperatures[0], temperatures[1], few[0])],
        ),
        *_cells("mdlm", "renoise", "renoise", _steps(12) + _steps(12, temperature=0.8)),
    ]


def other_noise() -> list[Cell]:
    """The model of marginal noise: every step asks the network about every diagram."""
    return [
        *_cells("marginal", "ancestral", "ancestral", _steps(50, 24, 12)),
        *_cells("marginal", "ancestral, uniform grid", "ancestral", _steps(24, grid="uniform")),
        *_cells("marginal", "renoise", "renoise", _steps(24, 12)),
        *_cells("marginal", "predictor-corrector", "predictor-corrector", _steps(12)),
    ]


def candidates() -> list[Cell]:
    """The reference and what comes closest to it in few calls, one seed each."""
    return [
        *_cells("mdlm", REFERENCE, "first-hitting", [{}, {"steps": 12}]),
        *_cells(
            "mdlm",
            "entropy-bounded",
            "entropy-bounded",
            [
                {"order": "random", "entropy_budget": 1},
                {"order": "random", "entropy_budget": 1.2},
                {"order": "random", "entropy_budget": 1.2, "temperature": 0.9},
            ],
        ),
    ]


def all_cells() -> list[Cell]:
    """Each once, the candidates' seeds first."""
    seeded = [replace(cell, seed=seed) for seed in SEEDS for cell in candidates()]
    return list(dict.fromkeys([*seeded, *sharpened(), *other_noise()]))


def quick_cells() -> list[Cell]:
    """A few of every kind."""
    seeded = [replace(cell, seed=seed) for seed in (0, 1) for cell in candidates()]
    return list(dict.fromkeys([*seeded, *sharpened()[:2], *other_noise()[-1:]]))

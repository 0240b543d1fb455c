"""Sampling, as ``speed.py`` measures it: a ladder from the baseline, with quality beside it; and
students of few calls beside the same baseline.

The students are untrained, because what one costs does not depend on its weights; what its samples
are worth, ``distilled.py`` measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor

from clock import (
    Spent,
    interleaved,
    product_rates,
    product_rows,
    products,
    rate_cells,
    rate_titles,
    rates,
    shares_of_products,
    timed,
)
from discrete_diffusion.algorithms import TokenAlgorithm, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.data import sample_sizes
from discrete_diffusion.domains import build_data, domain_of
from discrete_diffusion.evaluation import share_interval
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import Model as SampledModel
from discrete_diffusion.sampling import build_sampler, sample_in_batches
from floor_plans import decode
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import relation_distance, structure_metrics
from record import markdown_table
from sampler_cells import FLAT, Model
from speed_baseline import DenseDenoiser, dense_ancestral
from speed_variants import plain_layers, precision

DENSE_STEPS = 100
BOOTSTRAPS = 200
SIZE_STREAM, DRAW_STREAM, BOOTSTRAP_STREAM = 40, 41, 42


@dataclass(frozen=True)
class Way:
    """``sampler``: a name of the package's; None is the baseline's dense ancestral sampling.
    ``plain``: which of the package's layers are PyTorch's own instead."""

    name: str
    sampler: str | None
    steps: int | None = None
    plain: tuple[str, ...] = ()
    bfloat16: bool = False


WAYS = (
    Way("dense baseline, 100 steps", None, DENSE_STEPS),
    Way("ancestral, 100 steps, PyTorch's layers", "ancestral", 100, ("attention", "linear")),
    Way("ancestral, 100 steps", "ancestral", 100),
    Way("first-hitting, PyTorch's layers", "first-hitting", None, ("attention", "linear")),
    Way("first-hitting, PyTorch's linear layers", "first-hitting", None, ("linear",)),
    Way("first-hitting", "first-hitting"),
    Way("first-hitting, steps=12", "first-hitting", 12),
    Way("entropy-bounded", "entropy-bounded"),
    Way("first-hitting, bfloat16", "first-hitting", bfloat16=True),
    Way("first-hitting, steps=12, bfloat16", "first-hitting", 12, bfloat16=True),
    Way("entropy-bounded, bfloat16", "entropy-bounded", bfloat16=True),
)
PAIR = ("experiment=plans_full",)
"""The same data with the pair denoiser; the baseline and ``FLAT`` have the flat network."""
CALLS = (6, 4)


@dataclass(frozen=True)
class Painter:
    """Draws diagrams from one algorithm in the ways of ``WAYS``.

    ``batch_size``: of the baseline, and of the package on a GPU; on the CPU the package's is as
    shipped.
    """

    config: DictConfig
    algorithm: TokenAlgorithm
    size_counts: Sequence[int]
    device: torch.device
    seed: int
    batch_size: int

    @cached_property
    def dense(self) -> DenseDenoiser:
        return DenseDenoiser(self.algorithm.backbone.denoiser).eval()

    def real(self, num: int, *stream: int) -> Tensor:
        """Bool[num, L]: sizes at the mix of the training data."""
        generator = make_generator(self.seed, SIZE_STREAM, *stream)
        sizes = sample_sizes(self.size_counts, num, generator)
        return domain_of(self.config.data).vocabulary(self.config.data).real_positions(sizes)

    def draw(self, way: Way, real: Tensor, *stream: int) -> tuple[Tensor, float]:
        """Tokens Int[M, L] on the CPU, and network calls per diagram."""
        generator = make_generator(self.seed, DRAW_STREAM, *stream, device=self.device)
        with plain_layers(way.plain), precision(way.bfloat16, self.device):
            if way.sampler is None:
                assert way.steps is not None
                parts = [
                    dense_ancestral(
                        self.dense, rows.to(self.device), steps=way.steps, generator=generator
                    )
                    for rows in real.split(self.batch_size)
                ]
                return torch.cat(parts).cpu(), float(way.steps)
            sampled = SampledModel(
                self.algorithm,
                build_sampler({"name": way.sampler}),
                steps=way.steps,
                batch_size=None if self.device.type == "cpu" else self.batch_size,
            )
            output = sample_in_batches(sampled, real, generator=generator)
        return output.x0, float(output.nfe.double().mean())

    def timing(self, way: Way, num: int) -> Callable[[int], Spent]:
        """Of ``num`` diagrams, other ones in every repeat."""

        def one(repeat: int) -> Spent:
            real = self.real(num, 1, repeat)
            return timed(lambda: len(self.draw(way, real, 1, repeat)[0]), self.device)

        return one


def quality(model: Model, tokens: Tensor, seed: int) -> dict[str, Any]:
    """Against the test split: shares with Wilson's 95 % intervals; relation TV with 1.96
    bootstrap standard deviations over the samples (the reference held fixed)."""
    samples = DiagramSet(
        decode(tokens, VocabConfig(n_max=model.checkpoint.config.data.max_nodes))
    ).prepare()
    reference, num = model.reference, len(samples)
    rng = np.random.default_rng([seed, BOOTSTRAP_STREAM])
    resampled = [
        relation_distance(samples.select(rng.integers(num, size=num)), reference)["relation_tv"]
        for _ in range(BOOTSTRAPS)
    ]
    tv = relation_distance(samples, reference)["relation_tv"]
    margin = 1.96 * float(np.std(resampled, ddof=1))
    structure = structure_metrics(samples)
    return {
        "relation_tv": [tv, max(tv - margin, 0.0), tv + margin],
        "valid": _share(structure["valid"], num),
        "transitive": _share(structure["transitive"], num),
    }


def sampling(
    checkpoint: Path,
    device: torch.device,
    *,
    repeats: int,
    diagrams: int,
    num: int,
    seed: int,
) -> dict[str, Any]:
    """Diagrams per second in batches of ``diagrams``, and the quality of ``num`` of them."""
    model = Model.read(checkpoint)
    read = model.checkpoint
    algorithm = read.algorithm.to(device).eval()
    painter = Painter(read.config, algorithm, read.size_counts, device, seed, diagrams)
    for way in WAYS:  # allocator and caches
        painter.draw(way, painter.real(diagrams, 0), 0)
    spent = interleaved({way.name: painter.timing(way, diagrams) for way in WAYS}, repeats)
    rows = []
    for way in WAYS:
        tokens, calls = painter.draw(way, painter.real(num, 2), 2)
        row = {
            "name": way.name,
            "calls": calls,
            **rates(spent[way.name], spent[WAYS[0].name]),
            **quality(model, tokens, seed),
        }
        rows.append(row)
        print(f"{way.name}: {calls:.1f} calls", flush=True)
    each = {}
    for way in WAYS:
        real = painter.real(diagrams, 1, 0)
        each[way.name] = products(lambda w=way, r=real: painter.draw(w, r, 1, 0)) / diagrams
    low = {way.name for way in WAYS if way.bfloat16}
    return {
        "product_rate": shares_of_products(rows, each, low, device),
        "product_rows": product_rows(device),
        "diagrams": diagrams,
        "repeats": repeats,
        "num_samples": num,
        "num_reference": len(model.reference),
        "weights": model.digest,
        "steps_trained": model.checkpoint.step,
        "rows": rows,
    }


def _share(share: float, num: int) -> list[float]:
    """A share of ``num`` and its Wilson interval."""
    interval = share_interval([share], num)
    return [share, interval.low, interval.high]


def student_ways(bfloat16: bool) -> list[tuple[Way, tuple[str, ...]]]:
    """What is measured, and the words of its config; the baseline is the first."""
    found = [(Way("dense baseline, 100 steps", None, DENSE_STEPS), FLAT)]
    for narrow in (False, True) if bfloat16 else (False,):
        said = ", bfloat16" if narrow else ""
        for network, words in (("flat", FLAT), ("pair", PAIR)):
            name = f"{network} network, first-hitting{said}"
            found.append((Way(name, "first-hitting", bfloat16=narrow), words))
            for calls in CALLS:
                way = Way(f"{network} network, {calls} calls{said}", "few-call", bfloat16=narrow)
                found.append((way, (*words, "algo=distill", f"calls={calls}")))
    return found


def students(
    more: Sequence[str],
    device: torch.device,
    *,
    repeats: int,
    diagrams: int,
    seed: int,
    bfloat16: bool,
) -> dict[str, Any]:
    """Diagrams per second in batches of ``diagrams``, and network calls. ``more``: words of every
    config."""
    torch.manual_seed(seed)
    size_counts = build_data(compose("train", [*FLAT, *more])).size_counts()
    painters = {}
    for way, words in student_ways(bfloat16):
        config = compose("train", [*words, *more])
        algorithm = build_algorithm(config).to(device).eval()
        painters[way] = Painter(config, algorithm, size_counts, device, seed, diagrams)
    rows = []
    for way, painter in painters.items():  # allocator and caches
        real = painter.real(diagrams, 0)
        rows.append({"name": way.name, "calls": painter.draw(way, real, 0)[1]})
    works = {way.name: painter.timing(way, diagrams) for way, painter in painters.items()}
    spent = interleaved(works, repeats)
    each = {}
    for (way, painter), row in zip(painters.items(), rows, strict=True):
        row |= rates(spent[way.name], spent[rows[0]["name"]])
        real = painter.real(diagrams, 1, 0)
        each[way.name] = products(lambda w=way, p=painter, r=real: p.draw(w, r, 1, 0)) / diagrams
    low = {way.name for way in painters if way.bfloat16}
    reached = shares_of_products(rows, each, low, device)
    return {
        "product_rate": reached,
        "product_rows": product_rows(device),
        "diagrams": diagrams,
        "repeats": repeats,
        "rows": rows,
    }


def sampling_table(found: Mapping[str, Any]) -> str:
    facts = (
        f"{found['diagrams']} diagrams at the mix of room counts of the training data, medians of "
        f"{found['repeats']} repeats, ratios as above; a model of {found['steps_trained']:,} "
        "training steps. "
        f"Quality of {found['num_samples']:,} samples against {found['num_reference']:,} held-out "
        "diagrams, with 95 % intervals over samples." + product_rates(found)
    )
    head = [
        "sampling",
        "calls",
        *rate_titles(found),
        "relation TV ↓",
        "valid, % ↑",
        "transitive, % ↑",
    ]
    rows = [
        [
            row["name"],
            f"{row['calls']:.1f}",
            *rate_cells(found, row),
            *(
                _interval(row[name], scale, digits)
                for name, scale, digits in (
                    ("relation_tv", 1, 4),
                    ("valid", 100, 1),
                    ("transitive", 100, 1),
                )
            ),
        ]
        for row in found["rows"]
    ]
    return f"{facts}\n\n{markdown_table(head, rows)}"


def _interval(values: Sequence[float], scale: float, digits: int) -> str:
    middle, low, high = (f"{scale * value:.{digits}f}" for value in values)
    return f"{middle} ({low} to {high})"


def students_table(found: Mapping[str, Any]) -> str:
    facts = (
        f"{found['diagrams']} diagrams at the mix of room counts of the training data, medians of "
        f"{found['repeats']} repeats, ratios as above; `bd_small` and `bd_pair_small`, untrained."
        + product_rates(found)
    )
    head = ["sampling", "calls", *rate_titles(found)]
    rows = [[row["name"], f"{row['calls']:.1f}", *rate_cells(found, row)] for row in found["rows"]]
    return f"{facts}\n\n{markdown_table(head, rows)}"

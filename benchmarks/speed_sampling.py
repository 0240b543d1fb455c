"""Sampling, as ``speed.py`` measures it: a ladder from the baseline, with quality beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig
from scipy.stats import binomtest
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import draw_sizes
from discrete_diffusion.domains import domain_of
from discrete_diffusion.domains.bubble_diagrams import decode
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.distances import relation_distance
from discrete_diffusion.domains.bubble_diagrams.metrics.structure import structure_metrics
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import build_sampler, draw_samples
from samplers import Model
from speed_baseline import DenseDenoiser, dense_ancestral
from speed_clock import Spent, interleaved, products, rates, shares_of_products, timed
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
    Way("speculative", "speculative"),
    Way("first-hitting, bfloat16", "first-hitting", bfloat16=True),
    Way("first-hitting, steps=12, bfloat16", "first-hitting", 12, bfloat16=True),
    Way("entropy-bounded, bfloat16", "entropy-bounded", bfloat16=True),
)


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
        sizes = draw_sizes(self.size_counts, num, generator)
        return domain_of(self.config.data).real_positions(self.config.data, sizes)

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
            output = draw_samples(
                build_sampler({"name": way.sampler}),
                self.algorithm,
                real,
                generator=generator,
                steps=way.steps,
                **({} if self.device.type == "cpu" else {"batch_size": self.batch_size}),
            )
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
        decode(tokens, VocabConfig(n_max=model.checkpoint.config.data.n_max))
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
    interval = binomtest(round(share * num), num).proportion_ci(method="wilson")
    return [share, float(interval.low), float(interval.high)]

"""One measurement for models that are compared: the same rows, the same draws, the same sizes."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import Dataset, TokenDataset, bucket_batches, draw_sizes
from discrete_diffusion.domains.domain import Report
from discrete_diffusion.evaluation.bound import sample_bounds
from discrete_diffusion.evaluation.held_out import HELD_OUT
from discrete_diffusion.sampling import TokenSampler, draw_samples
from discrete_diffusion.types import Batch

_ROWS, _ORDERS, _BOUND, _SIZES, _SAMPLES, _REAL = (30,), (31,), (32,), (33,), (34,), (35,)
"""Keep the draws of a comparison apart from each other, and from those of training."""

DIVERGED = 20.0
"""A bound that many times what knowing nothing costs is of a training that has diverged."""

REAL_DRAWS = 3
"""Sets of training samples that real data is measured on."""


@dataclass(frozen=True)
class EqualTerms:
    """How every model of a comparison is measured.

    ``bound_samples``: held-out samples at most; ``bound_draws``: noise draws of the bound for each;
    ``num_samples``: samples drawn, 0 for none; of images with maps, held-out ones, from whose maps
    ``draws`` each are drawn (0 for data without maps); ``seed``: of which rows, noise and samples,
    the same for all models whatever seed they were trained with.
    """

    bound_samples: int = 600
    bound_draws: int = 16
    num_samples: int = 1000
    batch_size: int = 256
    seed: int = 0
    draws: int = 0

    def as_dict(self) -> dict[str, int]:
        """For ``cell.json``; without ``draws`` where there are none."""
        return {name: n for name, n in asdict(self).items() if n or name != "draws"}


@dataclass(frozen=True)
class HeldOutBounds:
    """The bound of each held-out sample, Float64[M], in the unit that ``quantity`` names.

    ``quantity``: ``nats per sequence``, ``nats per image``, ``nats
    per summary`` or ``bits per character``; ``ordering``: what the data set says its bound is of.
    ``rows``: Int[M], of ``split``. ``uniform``: what knowing nothing costs, the mean of
    sum_l log K_l in that unit.
    """

    quantity: str
    ordering: str
    split: str
    rows: Tensor
    values: Tensor
    uniform: float

    def as_dict(self) -> dict[str, Any]:
        """For ``cell.json``."""
        return {
            "quantity": self.quantity,
            "ordering": self.ordering,
            "rows": self.rows.tolist(),
            "bounds": self.values.tolist(),
        }

    def check(self) -> None:
        """``ValueError`` if the bound is not finite, or ``DIVERGED`` times ``uniform``."""
        mean = float(self.values.mean())
        if not mean <= DIVERGED * self.uniform:
            raise ValueError(
                f"training has diverged: the bound is {mean:.4g} {self.quantity}, knowing nothing "
                f"costs {self.uniform:.4g}; take a smaller optim.lr"
            )


def held_out_split(data: Dataset) -> str:
    """The test split, or validation if that is empty."""
    return next((name for name in HELD_OUT if len(data.splits[name])), HELD_OUT[-1])


def held_out_rows(num: int, terms: EqualTerms) -> Tensor:
    """Int[M], ascending: all of ``num``, or a random choice of ``terms.bound_samples`` that depends
    on the seed alone."""
    chosen = torch.randperm(num, generator=make_generator(terms.seed, *_ROWS))
    return chosen[: terms.bound_samples].sort().values


def held_out_bounds(
    algorithm: TokenAlgorithm,
    data: TokenDataset,
    terms: EqualTerms,
    *,
    device: torch.device | str = "cpu",
) -> HeldOutBounds:
    """The bound of at most ``terms.bound_samples`` held-out samples, a function of data and seed.

    Rows, node orders and noise streams do not depend on the algorithm, so differences between two
    models are paired by row.
    """
    split = held_out_split(data)
    rows = held_out_rows(len(data.splits[split]), terms)
    chunks = _chunks(data, split, rows, terms)
    found = sample_bounds(
        algorithm,
        [batch for _, batch in chunks],
        draws=terms.bound_draws,
        seed=terms.seed,
        stream=_BOUND,
        device=device,
    )
    back = torch.cat([part for part, _ in chunks]).argsort()
    uniform = data.splits[split][rows].real.double() @ data.layout.num_legal.double().log()
    quantity, unit = data.unit_of_bound(split, float(found.num_real.double().mean()))
    return HeldOutBounds(
        quantity,
        data.bound,
        split,
        rows,
        found.unordered[back] / unit,
        uniform=float(uniform.mean()) / unit,
    )


def score_samples_drawn(
    algorithm: TokenAlgorithm,
    sampler: TokenSampler,
    data: TokenDataset,
    terms: EqualTerms,
    report: Report,
    *,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """Metrics of ``terms.num_samples`` fresh samples, their network calls and seconds; {} for 0."""
    if terms.num_samples == 0:
        return {}
    sizes = draw_sizes(data.size_counts(), terms.num_samples, make_generator(terms.seed, *_SIZES))
    start = time.perf_counter()
    output = draw_samples(
        sampler,
        algorithm,
        data.real_positions(sizes),
        generator=make_generator(terms.seed, *_SAMPLES, device=device),
    )
    seconds = time.perf_counter() - start
    return {
        "num_samples": terms.num_samples,
        "network_calls": float(output.nfe.double().mean()),
        "seconds_per_1000_samples": 1000 * seconds / terms.num_samples,
        **report.measure(output.x0),
    }


def score_real_data(
    data: TokenDataset, num_samples: int, report: Report, *, seed: int = 0
) -> dict[str, float]:
    """What a model could hope for: metrics of ``num_samples`` training samples, mean of
    ``REAL_DRAWS`` draws, against the same reference as ``score_samples_drawn``; {} for none.

    All of the training split if it holds fewer.
    """
    train = data.splits["train"]
    if num_samples == 0 or len(train) == 0:
        return {}
    found = []
    for draw in range(REAL_DRAWS):
        order = torch.randperm(len(train), generator=make_generator(seed, *_REAL, draw))
        found.append(report.measure(train[order[:num_samples]].x0))
    return {name: sum(f[name] for f in found) / REAL_DRAWS for name in found[0]}


def _chunks(
    data: TokenDataset, split: str, rows: Tensor, terms: EqualTerms
) -> list[tuple[Tensor, Batch]]:
    """Batches of one size each as far as possible, with the places of their rows in ``rows``."""
    examples = data.splits[split][rows]
    sizes = data.sizes(examples)
    return [
        (part, data.augment(examples[part], make_generator(terms.seed, *_ORDERS, k)))
        for k, part in enumerate(bucket_batches(sizes, terms.batch_size))
    ]

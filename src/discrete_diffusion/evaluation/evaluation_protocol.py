"""One protocol for compared models: the same rows, noise and sizes."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import TokenDataset, sample_sizes
from discrete_diffusion.data.batches import bucket_batches
from discrete_diffusion.evaluation.bound import DrawTail, MeasurementSettings, sample_bounds
from discrete_diffusion.evaluation.measured_data import held_out_split
from discrete_diffusion.sampling.model import Model, sample_in_batches

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.report import Report

_ROWS, _ORDERS, _BOUND, _SIZES, _SAMPLES, _REAL = (30,), (31,), (32,), (33,), (34,), (35,)
"""Keep the noise of parts of a comparison apart, and from that of training."""

DIVERGED = 20.0
"""Times the bound of uniform guesses: a larger bound means that training has diverged."""

REAL_DRAWS = 3
"""Number of sets of training samples for the metrics of real data."""


@dataclass(frozen=True)
class EvaluationProtocol:
    """Measurements that are the same for every model of a comparison.

    ``bound_samples``: largest number of held-out samples; ``bound_draws``: noise samples of the
    bound for each; ``num_samples``: number of samples, 0 for none. ``draws``: with conditions,
    number of samples for each of the first ``num_samples`` held-out samples; else 0. ``verdicts``:
    number of samples on which a slow metric is measured, or 0. ``seed``: seed of rows, noise and
    samples, independent of training seeds.
    """

    bound_samples: int = 600
    bound_draws: int = 16
    num_samples: int = 1000
    batch_size: int = 256
    seed: int = 0
    draws: int = 0
    verdicts: int = 0

    def as_dict(self) -> dict[str, int]:
        """Values for ``cell.json``, without ``draws`` and ``verdicts`` of 0."""
        optional = ("draws", "verdicts")
        return {name: n for name, n in asdict(self).items() if n or name not in optional}

    def rows(self, num: int) -> Tensor:
        """Choose ``bound_samples`` of ``num`` rows by the seed alone, Int[M], ascending."""
        chosen = torch.randperm(num, generator=make_generator(self.seed, *_ROWS))
        return chosen[: self.bound_samples].sort().values


@dataclass(frozen=True)
class HeldOutBounds:
    """Bound of each of M held-out samples.

    ``quantity``: unit, such as ``nats per sequence`` or ``bits per character``; ``ordering``: the
    data set's ``bound``. ``rows``: Int[M], rows of the split; ``values``: Float64[M], bounds.
    ``uniform``: the cost of uniform guesses, the mean of sum_l log K_l in that unit. ``tail``: tail
    over the noise samples, or None.

    Raises ``ValueError`` if the mean bound is not finite, or above ``DIVERGED`` times ``uniform``.
    """

    quantity: str
    ordering: str
    rows: Tensor
    values: Tensor
    uniform: float
    tail: DrawTail | None = None

    def __post_init__(self) -> None:
        mean = float(self.values.mean())
        if not mean <= DIVERGED * self.uniform:
            raise ValueError(
                f"training has diverged: the bound is {mean:.4g} {self.quantity}, that of "
                f"uniform guesses {self.uniform:.4g}; take a smaller optim.lr"
            )

    def as_dict(self) -> dict[str, Any]:
        """Values for ``cell.json``."""
        return {
            "quantity": self.quantity,
            "ordering": self.ordering,
            "rows": self.rows.tolist(),
            "bounds": self.values.tolist(),
            "tail": None if self.tail is None else asdict(self.tail),
        }


def held_out_bounds(
    algorithm: TokenAlgorithm,
    data: TokenDataset,
    protocol: EvaluationProtocol,
    *,
    device: torch.device | str = "cpu",
) -> HeldOutBounds:
    """Measure the bound of at most ``protocol.bound_samples`` held-out samples.

    Rows, node orders and noise streams do not depend on the algorithm, so differences between two
    models are paired by row.
    """
    # rows in batches of similar size
    split = held_out_split(data)
    rows = protocol.rows(len(data.splits[split]))
    examples = data.splits[split][rows]
    parts = bucket_batches(data.sizes(examples), protocol.batch_size)
    batches = [
        data.augment(examples[part], make_generator(protocol.seed, *_ORDERS, k))
        for k, part in enumerate(parts)
    ]
    # their bounds, and that of uniform guesses
    bounds = sample_bounds(
        algorithm,
        batches,
        draws=protocol.bound_draws,
        settings=MeasurementSettings((protocol.seed, *_BOUND), device),
    )
    uniform = examples.real.double() @ data.layout.num_legal.double().log()
    quantity, unit = data.unit_of_bound(split, float(bounds.num_real.double().mean()))
    return HeldOutBounds(
        quantity,
        data.bound,
        rows,
        bounds.unordered[torch.cat(parts).argsort()] / unit,
        uniform=float(uniform.mean()) / unit,
        tail=bounds.tail,
    )


def score_samples(
    model: Model, data: TokenDataset, protocol: EvaluationProtocol, report: Report
) -> dict[str, Any]:
    """Measure ``protocol.num_samples`` fresh samples: metrics, calls and seconds; {} if 0."""
    if protocol.num_samples == 0:
        return {}
    generator = make_generator(protocol.seed, *_SIZES)
    sizes = sample_sizes(data.size_counts(), protocol.num_samples, generator)
    # time the sampling alone
    start = time.perf_counter()
    output = sample_in_batches(
        Model(model.algorithm, model.sampler, model.device),
        data.real_positions(sizes),
        generator=make_generator(protocol.seed, *_SAMPLES, device=model.device),
        clamp=data.clamp(held_out_split(data), protocol.num_samples),
    )
    seconds = time.perf_counter() - start
    return {
        "num_samples": protocol.num_samples,
        "num_distinct": len(output.x0.unique(dim=0)),
        "network_calls": float(output.nfe.double().mean()),
        "seconds_per_1000_samples": 1000 * seconds / protocol.num_samples,
        **report.measure(output.x0),
    }


def score_real_data(data: TokenDataset, num_samples: int, report: Report) -> dict[str, float]:
    """Measure ``num_samples`` training samples; mean over ``REAL_DRAWS`` choices; {} for 0 samples.

    If there are fewer, all are measured. A perfect model would score the same.
    """
    train, scores = data.splits["train"], []
    if num_samples == 0 or len(train) == 0:
        return {}
    for draw in range(REAL_DRAWS):
        order = torch.randperm(len(train), generator=make_generator(0, *_REAL, draw))
        scores.append(report.measure(train[order[:num_samples]].x0))
    return {name: sum(each[name] for each in scores) / REAL_DRAWS for name in scores[0]}

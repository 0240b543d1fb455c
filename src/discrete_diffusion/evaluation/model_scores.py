"""Scores of a model on held-out data: bound, calibration, likelihoods along paths of samplers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.data.base import TokenDataset
from discrete_diffusion.data.batches import SplitBatches
from discrete_diffusion.evaluation.bound import (
    BoundBySize,
    DrawTail,
    MeasurementSettings,
    SampleBounds,
    blind_bounds,
    sample_bounds,
)
from discrete_diffusion.evaluation.noise_levels import (
    BoundByTime,
    Calibration,
    bound_by_time,
    measure_calibration,
)
from discrete_diffusion.evaluation.sample_scores import plus_minus, standard_error
from discrete_diffusion.evaluation.tables import TableRow, TableSection
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling.likelihood import (
    Order,
    check_orders,
    order_draws,
    order_log_probs,
    order_sampler,
    random_order_log_probs,
)
from discrete_diffusion.sampling.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
    from discrete_diffusion.contracts import Batch
    from discrete_diffusion.data.base import Examples
    from discrete_diffusion.evaluation.requests import EvaluateRequest


_FORM, _DRAWS = 25, 26
"""Keep the forms of samples, such as the order of nodes, and the orders of tokens apart from the
noise of other measurements."""

_SHARE = 256
"""Number of samples that a process measures at once."""


@dataclass(frozen=True)
class OrderLikelihood:
    """Mean NLL in nats of held-out samples, under the sampler with this ``order``.

    ``nll``: the NLL, of one representation of each sample, such as one node order. ``sampler``:
    settings of the sampler.
    """

    order: Order
    sampler: str
    nll: BoundEstimate

    @property
    def name(self) -> str:
        """Name of the order in names of metrics."""
        return self.order.replace("-", "_") if isinstance(self.order, str) else "given_order"

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``.

        ``nelbo_unordered_...`` is a bound, as it counts one representation of a sample, not all.
        """
        nll, name = self.nll, self.name
        values = {
            f"nll_{nll.quantity}_{name}": nll.per_sample,
            f"nll_{nll.quantity}_{name}_standard_error": nll.standard_error,
            f"nll_{nll.quantity}_{name}_per_token": nll.per_token,
            "likelihood_sampler": self.sampler,
        }
        if nll.unordered is not None:
            values[f"nelbo_unordered_{name}"] = nll.unordered
            values[f"nelbo_unordered_{name}_standard_error"] = nll.unordered_standard_error
        return values


@dataclass(frozen=True)
class BoundByOrders:
    """Bounds -log of the mean of p(x | order) over K random orders, by K.

    ``bounds``: bound by K, K = 1 first. ``below``: by K, the mean decrease from the bound for K =
    1, and its standard error.
    """

    bounds: dict[int, BoundEstimate]
    below: dict[int, tuple[float, float]]

    @property
    def quantity(self) -> str:
        """Quantity that is bounded."""
        return self.bounds[1].headline[0]

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``: the bound for the largest K, and lists of all bounds."""
        most = max(self.bounds)
        name = f"nelbo_{self.quantity}_{most}_orders"
        values = [bound.headline for bound in self.bounds.values()]
        return {
            name: values[-1][1],
            f"{name}_standard_error": values[-1][2],
            "nelbo_by_orders": {
                "quantity": self.quantity,
                "orders": list(self.bounds),
                "nelbo": [value for _, value, _ in values],
                "standard_error": [error for *_, error in values],
                "below_one_order": [mean for mean, _ in self.below.values()],
                "below_one_order_standard_error": [error for _, error in self.below.values()],
            },
        }


def check_paths(request: EvaluateRequest, algorithm: TokenAlgorithm) -> None:
    """Raise ``ValueError`` if the model cannot measure a requested ``likelihood_order`` or
    ``num_orders``.

    Also raised if one is requested with ``noise_samples=0``, which measures samples only.
    """
    for name in ("likelihood_order", "num_orders"):
        if request.noise_samples == 0 and (value := request.get(name)) is not None:
            raise ValueError(
                f"noise_samples=0 measures samples alone, {name}={value} the model; leave one out"
            )
    # orders that the model has
    if (order := request.get("likelihood_order")) is not None:
        order_sampler(algorithm, order)
    if request.get("num_orders") is not None:
        check_orders(algorithm)


def measure_likelihood(
    model: Model, data: TokenDataset, split: str, order: Order, seed: int
) -> OrderLikelihood:
    """Measure the NLL of the samples of a split, in the representation that ``data`` gives."""
    # the sampler that has this order
    algorithm, sampler = model.algorithm, order_sampler(model.algorithm, order)
    forms = _Forms.of(data, split, 1, seed)

    def score(some: Batch, draws: Tensor) -> Tensor:
        return order_log_probs(algorithm, some, order)

    [log_p] = _score_forms(model, forms, score)
    # its settings, for the record
    shown = order if isinstance(order, str) else str([*order]).replace(" ", "")
    settings = algorithm.name
    if sampler is not None:
        settings = f"sampling={sampler.name} sampling.entropy_budget=0 sampling.order={shown}"
    return OrderLikelihood(order, settings, forms.bounds(-log_p).estimate(data.bound))


def measure_orders(
    model: Model, data: TokenDataset, split: str, num: int, seed: int
) -> BoundByOrders:
    """Measure the bounds by 1, 2, 4, ... and ``num`` orders.

        -log mean_k p(x | order k) - log(n!/|Aut|),     relabelled anew for each k if
                                                        ``data.bound`` is ``ordered_random``

    Its expectation is never below -log p(x) under first-hitting and falls to it as orders grow
    (arXiv 1509.00519). For fewer than ``num`` orders it is the mean over all groups of orders.
    """
    # log p by order
    forms = _Forms.of(data, split, num, seed)
    log_p = _score_forms(model, forms, partial(random_order_log_probs, model.algorithm))  # (K, M)
    # bounds by number of orders, and differences to one order
    by_number = {n: bound_of_orders(log_p, n) for n in numbers_up_to(num)}
    gains = {n: by_number[1] - bound for n, bound in by_number.items()}
    return BoundByOrders(
        {n: forms.bounds(bound).estimate(data.bound) for n, bound in by_number.items()},
        {n: (float(gain.mean()), standard_error(gain)) for n, gain in gains.items()},
    )


def numbers_up_to(num: int) -> list[int]:
    """Numbers 1, 2, 4, ... and ``num``."""
    return [*(2**k for k in range((num - 1).bit_length())), num]


def bound_of_orders(log_p: Tensor, num: int) -> Tensor:
    """-log of the mean of p over ``num`` orders, Float64[M].

    ``log_p``: Float64[K, M], log p in K orders. The result is averaged over groups of ``num``.
    """
    groups = log_p[: len(log_p) // num * num].unflatten(0, (-1, num))
    return (math.log(num) - groups.logsumexp(dim=1)).mean(dim=0)


@dataclass(frozen=True)
class _Forms:
    """Samples of a split, smallest first, in ``num`` random representations (node orders).

    Index k computes the k-th representation, so only one is in memory.
    """

    data: TokenDataset
    examples: Examples
    num: int
    seed: int

    @classmethod
    def of(cls, data: TokenDataset, split: str, num: int, seed: int) -> _Forms:
        examples = data.splits[split]
        return cls(data, examples[data.sizes(examples).argsort(stable=True)], num, seed)

    def __getitem__(self, k: int) -> Batch:
        return self.data.augment(self.examples, make_generator(self.seed, _FORM, k))

    def draws(self, k: int) -> Tensor:
        """Random numbers of the order of each sample, see ``order_draws``."""
        return order_draws(self.examples.real, k, (self.seed, _DRAWS))

    def bounds(self, nelbo: Tensor) -> SampleBounds:
        """Bounds of the samples, from ``nelbo`` Float64[M]."""
        batch = self[0]
        return SampleBounds(nelbo, batch.real.sum(dim=1), batch.log_num_orders)


def _score_forms(model: Model, forms: _Forms, score: Callable[[Batch, Tensor], Tensor]) -> Tensor:
    """Scores of all forms, Float64[num, M], by ``score`` of samples and their order's numbers."""
    shares, scores = torch.arange(len(forms.examples)).split(_SHARE), []

    def score_rows(batch: Batch, draws: Tensor, rows: Tensor) -> Tensor:
        scored = score(batch.rows(rows).to(model.device), draws[rows]).cpu()
        measuring.advance(model.shard.world_size)
        return scored

    with progress.task("likelihoods", forms.num * len(shares), "batches") as measuring:
        for k in range(forms.num):
            score_share = partial(score_rows, forms[k], forms.draws(k))
            scores.append(torch.cat(model.shard.map(score_share, shares)))
    return torch.stack(scores)


_BASELINES, _BOUND, _BY_TIME, _CALIBRATION = (20,), (21,), (22,), (23,)
"""Keep the noise of the measurements apart from each other, and from batches and samples."""


@dataclass(frozen=True)
class ModelScores:
    """Measurements of a model on a split.

    ``by_size``: the bound by size; ``baselines``: the blind and uniform bounds; ``further``: the
    bound in further units; ``tail``: tail of the bound over noise samples, None if they are too
    few. ``likelihood``, ``orders``: measurements along paths of samplers, None unless requested.
    """

    bound: BoundEstimate
    by_size: BoundBySize
    further: dict[str, float]
    baselines: dict[str, float]
    by_time: BoundByTime
    calibration: Calibration
    tail: DrawTail | None = None
    likelihood: OrderLikelihood | None = None
    orders: BoundByOrders | None = None

    def as_dict(self) -> dict[str, Any]:
        """Scores by name; ``calibration_error_GROUP`` is the mean over masked shares."""
        error = self.calibration.error.nanmean(dim=0)
        return {
            **self.bound.as_dict(),
            **({} if self.tail is None else self.tail.as_dict()),
            **self.further,
            **self.baselines,
            **{
                f"calibration_error_{group}": float(error[g])
                for g, group in enumerate(self.calibration.groups)
                if not error[g].isnan()
            },
            "calibration": self.calibration.as_dict(),
            "nelbo_by_size": self.by_size.as_dict(),
            "nelbo_by_t": self.by_time.as_dict(),
            **({} if self.likelihood is None else self.likelihood.as_dict()),
            **({} if self.orders is None else self.orders.as_dict()),
        }


def score_model(
    model: Model, data: TokenDataset, split: str, *, noise_samples: int, time_bins: int, seed: int
) -> ModelScores:
    """Measure the algorithm of ``model`` on every sample of a split, on its device.

    ``noise_samples``: noise samples per sample for the bound; ``time_bins``: number of bins of the
    bound by time, with one noise sample each. The blind bound needs training data.
    Raises ``ValueError`` if the split is empty.
    """
    algorithm = model.algorithm

    def batches() -> SplitBatches:
        return SplitBatches(data, split, batch_size=model.rows_at_once, seed=seed)

    def settings(stream: tuple[int, ...]) -> MeasurementSettings:
        return MeasurementSettings((seed, *stream), model.device, model.shard)

    # baselines, then the bound
    [baselines] = model.shard.map(partial(blind_bounds, data, stream=_BASELINES), [split])
    if len(data.splits["train"]) == 0:
        baselines = {k: v for k, v in baselines.items() if not k.startswith("nelbo_blind")}
    # the bound of every sample
    bounds = sample_bounds(algorithm, batches(), draws=noise_samples, settings=settings(_BOUND))
    bound = bounds.estimate(data.bound)
    return ModelScores(
        # bounds by size and in other units
        bound=bound,
        by_size=bounds.estimate_by_size(batches().sizes, data.bound, unit=data.size_unit),
        further=data.further_bounds(split, bound),
        baselines=baselines,
        # by noise level
        by_time=bound_by_time(
            algorithm, batches(), num_bins=time_bins, settings=settings(_BY_TIME)
        ),
        calibration=measure_calibration(algorithm, batches(), settings=settings(_CALIBRATION)),
        tail=bounds.tail,
    )


def model_sections(scores: ModelScores | None) -> list[TableSection]:
    """Tables of the bound and the calibration errors, and of the bound by size if sizes differ."""
    if scores is None:
        return []
    heads: tuple[str, ...]
    sections = [_model_section(scores)]
    # a row per size
    if len(scores.by_size.estimates) > 1:
        unit, rows = scores.by_size.unit, []
        for size, estimate in scores.by_size.estimates.items():
            quantity, value, error = estimate.headline
            num, per_token = f"{estimate.num_samples:,}", f"{estimate.headline_per_token:.4f}"
            rows.append(TableRow(str(size), plus_minus(value, error), num, per_token))
        heads = (unit, f"nelbo_{quantity}", "held-out samples", "per token")
        sections.append(TableSection(f"the model by number of {unit}", tuple(rows), heads))
    # a row per number of orders
    if (by_orders := scores.orders) is not None:
        rows = []
        for each, bound in by_orders.bounds.items():
            _, value, error = bound.headline
            below = plus_minus(*by_orders.below[each]) if each > 1 else ""
            rows.append(TableRow(str(each), plus_minus(value, error), below))
        heads = ("num_orders", f"nelbo_{by_orders.quantity}", "below one order")
        sections.append(TableSection("the bound by number of orders", tuple(rows), heads))
    return sections


_MEANINGS = {
    "bits_per_character": "the bound per character in bits, each window by itself",
    "bits_per_character_standard_error": "its standard error over windows",
    "bits_per_byte": "the bound per byte in bits",
    "perplexity_per_word": "exp of the bound per word, each window by itself",
    "nelbo_blind": "what knowing only the frequencies of ids costs, nats",
    "nelbo_uniform": "what knowing nothing costs, nats",
    "nelbo_blind_ordered_fixed": "the same in one order, as the bound of the model is, nats",
    "nelbo_uniform_ordered_fixed": "the same in one order: the model before training, nats",
}
"""Meanings of bounds in further units and of baselines."""


def _model_section(scores: ModelScores) -> TableSection:
    bound = scores.bound
    quantity, value, error = bound.headline
    # the bound
    of = "the unordered sample" if quantity == "unordered" else "the sequence"
    rows = [
        TableRow(
            f"nelbo_{quantity}",
            plus_minus(value, error),
            meaning=f"held-out bound on -log p of {of}, nats (± standard error)",
        ),
        TableRow(
            f"nelbo_{bound.quantity}_per_token",
            f"{bound.per_token:.4f}",
            meaning="the bound of the sequence in its node order, nats per token",
        ),
    ]
    # a doubtful bound
    if scores.tail is not None and scores.tail.is_doubtful:
        meaning = "effective number of noise samples of the bound; see below"
        shown = f"{scores.tail.effective:.1f}"
        rows.append(TableRow("nelbo_effective_draws", shown, meaning=meaning))
    # the likelihood of the sequence, and of the unordered sample
    if (likelihood := scores.likelihood) is not None:
        nll, name = likelihood.nll, likelihood.name
        shown = plus_minus(nll.per_sample, nll.standard_error)
        meaning = f"-log p of the sequence under {likelihood.sampler}, nats (± standard error)"
        rows.append(TableRow(f"nll_{nll.quantity}_{name}", shown, meaning=meaning))
        if nll.unordered is not None:
            shown = plus_minus(nll.unordered, nll.unordered_standard_error)
            meaning = "the bound on -log p of the unordered sample that follows, nats"
            rows.append(TableRow(f"nelbo_unordered_{name}", shown, meaning=meaning))
    # other units, and baselines
    others = {k: f"{v:.4f}" for k, v in scores.further.items()}
    others |= {k: f"{v:.3f}" for k, v in scores.baselines.items()}
    rows += [TableRow(k, shown, meaning=_MEANINGS.get(k, "")) for k, shown in others.items()]
    # calibration
    gaps = scores.calibration.error.nanmean(dim=0)
    rows += [
        TableRow(
            f"calibration_error_{group}",
            f"{float(gaps[g]):.4f}",
            meaning=f"expected gap between predicted and observed ({group}), mean over shares",
        )
        for g, group in enumerate(scores.calibration.groups)
        if not gaps[g].isnan()
    ]
    return TableSection("the model on held-out data", tuple(rows))


def model_notes(scores: ModelScores | None) -> list[str]:
    """Notes on the numbers of ``model_sections``, in sentences."""
    if scores is None:
        return ["noise_samples=0: the samples alone were measured, not the model on held-out data."]
    num = scores.bound.num_samples
    notes = [f"± of the bound is its standard error over {num:,} held-out samples."]
    if scores.tail is not None and scores.tail.is_doubtful:
        notes.append(scores.tail.warning())
    return notes

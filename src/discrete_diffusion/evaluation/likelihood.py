"""-log p of held-out samples under one sampler, and their bound by several orders at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation.bound import SampleBounds
from discrete_diffusion.evaluation.intervals import standard_error
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling.likelihood import (
    Order,
    check_orders,
    order_draws,
    order_log_probs,
    order_sampler,
    random_order_log_probs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
    from discrete_diffusion.contracts import Batch
    from discrete_diffusion.data.base import Examples, TokenDataset
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.sampling.model import Model

_FORM, _DRAWS = 25, 26
"""Keep the forms of samples, such as the order of nodes, and the orders of tokens apart from the
noise of other measurements."""

_SHARE = 256
"""Samples that one of several processes measures at once."""


@dataclass(frozen=True)
class OrderLikelihood:
    """Mean -log p of samples in their form under the sampler of an ``order``, nats: ``nll``.
    ``sampler``: its settings."""

    order: Order
    sampler: str
    nll: BoundEstimate

    @property
    def name(self) -> str:
        """The order in a name of a metric."""
        return self.order.replace("-", "_") if isinstance(self.order, str) else "given_order"

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``. ``nelbo_unordered_...`` is a bound: it knows one form of
        each sample, or the mean over forms, in the place of all."""
        nll, name = self.nll, self.name
        found = {
            f"nll_{nll.quantity}_{name}": nll.per_sample,
            f"nll_{nll.quantity}_{name}_standard_error": nll.standard_error,
            f"nll_{nll.quantity}_{name}_per_token": nll.per_token,
            "likelihood_sampler": self.sampler,
        }
        if nll.unordered is not None:
            found[f"nelbo_unordered_{name}"] = nll.unordered
            found[f"nelbo_unordered_{name}_standard_error"] = nll.unordered_standard_error
        return found


@dataclass(frozen=True)
class BoundByOrders:
    """The bound by number of orders: -log of the mean over so many orders of p(x | order).

    ``bounds``: by number, 1 first. ``below``: by number, how much less it is than by one order,
    mean over samples, and its standard error.
    """

    bounds: dict[int, BoundEstimate]
    below: dict[int, tuple[float, float]]

    @property
    def quantity(self) -> str:
        """What is bounded."""
        return self.bounds[1].headline[0]

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``: those of the most orders, and a list per column."""
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


@dataclass(frozen=True)
class PathScores:
    """What was measured along paths; None for what was not."""

    likelihood: OrderLikelihood | None = None
    orders: BoundByOrders | None = None

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        made = [each.as_dict() for each in (self.likelihood, self.orders) if each is not None]
        return {name: value for part in made for name, value in part.items()}


def check_paths(request: EvaluateRequest, algorithm: TokenAlgorithm) -> None:
    """Raise ``ValueError`` for a ``likelihood`` or ``orders`` that the model does not have, or that
    ``bound_draws=0`` leaves no place for."""
    for name in ("likelihood", "orders"):
        if request.bound_draws == 0 and (value := request.get(name)) is not None:
            raise ValueError(
                f"bound_draws=0 measures samples alone, {name}={value} the model; leave one out"
            )
    if (order := request.get("likelihood")) is not None:
        order_sampler(algorithm, order)
    if request.get("orders") is not None:
        check_orders(algorithm)


def num_path_passes(request: EvaluateRequest, length: int) -> int:
    """Number of times that the network sees each held-out sample of ``length`` tokens, at most."""
    paths = (request.get("likelihood") is not None) + (request.get("orders") or 0)
    return int(paths * length)


def measure_paths(
    request: EvaluateRequest, model: Model, data: TokenDataset, split: str
) -> PathScores:
    """``likelihood`` and ``orders`` of a request, on every sample of a split.

    Forms and orders are a function of ``seed``, the data and the number of the order: those of two
    models are the same, and the batch size changes nothing.
    """
    order, orders = request.get("likelihood"), request.get("orders")
    found = None if order is None else measure_likelihood(model, data, split, order, request.seed)
    bound = None if orders is None else measure_orders(model, data, split, orders, request.seed)
    return PathScores(found, bound)


def measure_likelihood(
    model: Model, data: TokenDataset, split: str, order: Order, seed: int
) -> OrderLikelihood:
    """-log p of the samples of a split in the order that ``data`` has, or one at random."""
    algorithm, sampler = model.algorithm, order_sampler(model.algorithm, order)
    forms = _Forms.of(data, split, 1, seed)

    def score(some: Batch, draws: Tensor) -> Tensor:
        return order_log_probs(algorithm, some, order)

    [log_p] = _measured(model, forms, score)
    settings = None if sampler is None else f"sampling={sampler.name} sampling.budget=0"
    return OrderLikelihood(
        order,
        algorithm.name if settings is None else f"{settings} sampling.order={_shown(order)}",
        forms.bounds(-log_p).estimate(data.bound),
    )


def measure_orders(
    model: Model, data: TokenDataset, split: str, num: int, seed: int
) -> BoundByOrders:
    """The bounds by 1, 2, 4, ... and ``num`` orders.

        -log mean_k p(x | order k) - log(n!/|Aut|),     relabelled by itself for each k if
                                                        ``data.bound`` is ``ordered_random``

    Its expectation is never below -log p(x) under first-hitting and falls to it as orders grow
    (arXiv 1509.00519). By fewer than ``num`` it is the mean over as many groups of orders as there
    are, which are all used.
    """
    forms = _Forms.of(data, split, num, seed)
    log_p = _measured(model, forms, partial(random_order_log_probs, model.algorithm))  # (K, M)
    by_number = {n: bound_of_orders(log_p, n) for n in numbers_up_to(num)}
    gains = {n: by_number[1] - bound for n, bound in by_number.items()}
    return BoundByOrders(
        {n: forms.bounds(bound).estimate(data.bound) for n, bound in by_number.items()},
        {n: (float(gain.mean()), standard_error(gain)) for n, gain in gains.items()},
    )


def numbers_up_to(num: int) -> list[int]:
    """1, 2, 4, ... and ``num``."""
    return [*(2**k for k in range((num - 1).bit_length())), num]


def bound_of_orders(log_p: Tensor, num: int) -> Tensor:
    """-log of the mean p of ``num`` orders: Float64[M], the mean over as many groups as there are
    among the K of ``log_p`` Float64[K, M]."""
    groups = log_p[: len(log_p) // num * num].unflatten(0, (-1, num))
    return (math.log(num) - groups.logsumexp(dim=1)).mean(dim=0)


@dataclass(frozen=True)
class _Forms:
    """Samples of a split, smallest first, ``num`` times, each time in a form of its own if they
    have several: made when they are read, so that one of them is in memory."""

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
        """Draws of the order of each sample, see ``order_draws``."""
        return order_draws(self.examples.real, k, (self.seed, _DRAWS))

    def bounds(self, nelbo: Tensor) -> SampleBounds:
        """Bounds Float64[M] of the samples."""
        batch = self[0]
        return SampleBounds(nelbo, batch.real.sum(dim=1), batch.log_num_orders)


def _measured(model: Model, forms: _Forms, score: Callable[[Batch, Tensor], Tensor]) -> Tensor:
    """``score`` of samples, on the device, and of the draws of their orders: Float64[num, M]."""
    shares, found = torch.arange(len(forms.examples)).split(_SHARE), []

    def of(batch: Batch, draws: Tensor, rows: Tensor) -> Tensor:
        scored = score(batch.rows(rows).to(model.device), draws[rows]).cpu()
        measuring.advance(model.shard.world_size)
        return scored

    with progress.task("likelihoods", forms.num * len(shares), "batches") as measuring:
        for k in range(forms.num):
            share = partial(of, forms[k], forms.draws(k))
            found.append(torch.cat(model.shard.map(share, shares)))
    return torch.stack(found)


def _shown(order: Order) -> str:
    return order if isinstance(order, str) else str([*order]).replace(" ", "")

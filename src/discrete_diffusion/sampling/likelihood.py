"""Likelihood: the path of a sampler to tokens that are known, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm, eval_mode
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.config.values import are_whole_numbers, unknown_name
from discrete_diffusion.contracts import Batch, Conditions
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.sampling.draft import Draft
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.tokens import TokenSampler
from discrete_diffusion.sampling.unmasking import (
    ONE_PATH,
    READ_TOKENS,
    EntropyBounded,
    check_positions,
)

AT_ONCE = 2**22
"""Numbers of log D in memory at once, unless a single sample has more."""
_ROWS = 32
"""Rows of a forward pass at most, a power of 2."""

Order = str | Sequence[int]
"""A name, or all positions, the first to reveal first."""


def order_sampler(
    algorithm: TokenAlgorithm, order: Order, key: str = "likelihood"
) -> EntropyBounded | None:
    """The sampler whose likelihood an order has: ``entropy-bounded`` of budget 0, one token a call
    but for those that are certain; None for ``own_order``, whose -log p is the algorithm's loss.

    Raises ``ValueError``, naming the ``key`` and what to do, for an order that leads to a sample by
    many paths, an unknown one, and a model that does not sample in that order.
    """
    name, own = order if isinstance(order, str) else None, own_order(algorithm)
    known = ONE_PATH if own is None else (own,)
    if name in READ_TOKENS:
        raise ValueError(
            f"{key}={name}: this order compares tokens that are sampled already, so that many "
            f"paths lead to a sample; choose {' or '.join(known)}"
        )
    if name in ("random", FirstHitting.name):
        raise ValueError(
            f"{key}={name}: every order of the tokens leads to a sample; evaluate with orders=K, "
            "which bounds -log p by K of them"
        )
    if own is not None and order != own:
        raise ValueError(
            f"{key}={order}: {algorithm.name} samples in an order of its own; set {key}={own}"
        )
    if own is not None:
        return None
    if name not in known and not (isinstance(order, Sequence) and are_whole_numbers(order)):
        raise ValueError(
            f"{unknown_name(key, order, known)}; approximate samplers reach a sample by "
            "many paths and have no likelihood"
        )
    refuse_other_noise(algorithm, f"{key}={order}")
    if not isinstance(order, str):
        check_positions(key, order, algorithm.layout.length, known)
    sampler = EntropyBounded(order=order, budget=0.0)
    sampler.check(algorithm)
    return sampler


def own_order(algorithm: Algorithm) -> str | None:
    """The only order of a model whose loss is -log p itself: ``left-to-right``, or of a student
    ``plan``, its plan of calls; None of others."""
    if algorithm.evaluation_draw != "exact":
        return None
    return "left-to-right" if "causal" in algorithm.backbone_needs else "plan"


def check_orders(algorithm: TokenAlgorithm) -> None:
    """Raise ``ValueError``, naming the key ``orders``, for a model without random orders."""
    if own_order(algorithm) is not None:
        raise ValueError(
            f"orders=K: {algorithm.name} has one order, and its bound is its -log p already; leave "
            "orders out"
        )
    refuse_other_noise(algorithm, "orders=K")
    if algorithm.num_steps is not None:
        raise ValueError(
            f"orders=K: {algorithm.name} has discrete steps that reveal several tokens; leave "
            "orders out, or train with algo=mdlm"
        )


def refuse_other_noise(algorithm: TokenAlgorithm, shown: str) -> None:
    """Raise ``ValueError`` unless each token is revealed once."""
    if not algorithm.process.absorbing:
        raise ValueError(
            f"{shown}: {algorithm.name} with {algorithm.process.name} noise reaches a sample by "
            "many paths, on which tokens change several times; leave it out and read the bound"
        )


def order_log_probs(algorithm: TokenAlgorithm, batch: Batch, order: Order) -> Tensor:
    """log p of samples under the sampler of an order, see ``order_sampler``: Float64[M], nats.

        log p(x) = sum over calls of  log D_l(x_l | what is visible),   l revealed by that call

    What is visible decides which tokens come next, so one path leads to each x and the sum over
    all x of p(x) is 1 (arXiv 2603.01367). A network that is told t gets the time of the masked
    share. In eval mode and in parts, see ``path_log_prob``. Raises ``ValueError`` as
    ``order_sampler`` does.
    """
    sampler = order_sampler(algorithm, order)

    def score(rows: Tensor) -> Tensor:
        some = batch.rows(rows)
        if sampler is None:
            return _own_log_prob(algorithm, some)
        return path_log_prob(sampler, algorithm, some)

    return _measured(algorithm, batch, score)


def random_order_log_probs(algorithm: TokenAlgorithm, batch: Batch, u: Tensor) -> Tensor:
    """log p(x | order) of samples on one path each of ``first-hitting``: Float64[M], nats.

    ``u``: Float64[M, L], see ``order_draws``, decides the unmask times, 1 - alpha_l(T_l) = 1 - u_l,
    and the order by them. The mean of p(x | order) over u is p(x). In eval mode and in parts.
    """

    def score(rows: Tensor) -> Tensor:
        sampler = _AtTimes(u=u[rows].to(batch.x0.device))
        return path_log_prob(sampler, algorithm, batch.rows(rows))

    return _measured(algorithm, batch, score)


def order_draws(real: Tensor, number: int, entropy: tuple[int, ...]) -> Tensor:
    """Float64[M, L] in [0, 1): the draws of order ``number`` = 0, 1, ... of each sample.

    Each number by itself is independent and uniform for every position of ``real`` Bool[M, L],
    which makes a mean over orders right; of n numbers in a row every one of a sample's n positions
    is first once (stratified), which makes it vary less. A function of ``entropy`` and number.
    """
    shape = tuple(real.shape)
    keys = uniform_draws(shape, make_generator(*entropy, 0)).masked_fill(~real, 2.0)
    u = uniform_draws(shape, make_generator(*entropy, 1, number))
    turn = number % real.sum(dim=1, keepdim=True).clamp(min=1)
    first = keys.argsort(dim=1, stable=True).gather(1, turn)  # (M, 1)
    least = u.masked_fill(~real, 2.0).argmin(dim=1, keepdim=True)
    at_first, at_least = u.gather(1, first), u.gather(1, least)
    return u.scatter(1, least, at_first).scatter(1, first, at_least)


def path_log_prob(sampler: TokenSampler, algorithm: TokenAlgorithm, batch: Batch) -> Tensor:
    """log p of samples on the path that a sampler takes to them: Float64[B], nats.

    The sampler itself runs, and reads each token where it would sample it (``Draft.known``). The
    network sees parts of equal shape, so that, on a CPU by one thread, the bits of a sample's log p
    do not depend on the samples beside it. Gradients flow unless the caller turns them off.
    """
    given = torch.where(batch.real, -1, batch.x0)
    generator = make_generator(0, device=batch.x0.device)
    in_parts = cast(TokenAlgorithm, _InParts(algorithm))
    draft = Draft.start(in_parts, batch.real, given, generator)
    draft.known, draft.conditions = batch.x0, algorithm.accepted(batch.conditions)
    sampler.run(draft)
    return draft.log_weights


@dataclass(kw_only=True)
class _AtTimes(FirstHitting):
    """First-hitting at unmask times that ``u`` Float64[B, L] decides."""

    u: Tensor

    def uniform(self, draft: Draft, where: Tensor) -> Tensor:
        return self.u[where.to(self.u.device)]


def _own_log_prob(algorithm: TokenAlgorithm, batch: Batch) -> Tensor:
    """log p that is the loss of an algorithm itself: Float64[B]."""
    generator, found = make_generator(0, device=batch.x0.device), batch.x0.new_zeros(len(batch))
    found = found.double()
    for part, filled in _parts(algorithm.layout, batch.x0):
        output = algorithm.loss(batch.rows(filled), generator, algorithm.evaluation_draw)
        found[part] = -output.nelbo[: len(part)].double()
    return found


class _InParts:
    """An algorithm whose network sees parts of equal shape, whatever it is asked."""

    def __init__(self, algorithm: TokenAlgorithm) -> None:
        self.algorithm = algorithm

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)

    def denoise(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """``TokenAlgorithm.denoise``."""
        rows, found = [], []
        for part, filled in _parts(self.algorithm.layout, x_t):
            given = {name: value[filled] for name, value in (conditions or {}).items()}
            times = t[filled]
            # a network may compute once what depends on t alone, if all rows have the same: none do
            times[-1] = torch.where(times[0] < 0.5, (1 + times[0]) / 2, times[0] / 2)
            log_d0 = self.algorithm.denoise(x_t[filled], times, real[filled], given)
            found.append(log_d0[: len(part)])
            rows.append(part)
        return torch.cat(found)[torch.cat(rows).argsort()]


def _parts(layout: TokenLayout, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows of x Int[B, L] in parts that hold PAD at the same positions, and the same rows
    filled up to as many in every part, at least by one, by repeating the first."""
    num = 2 ** (min(_ROWS, max(2, _samples_at_once(layout))).bit_length() - 1)
    kinds = layout.is_real(x).unique(dim=0, return_inverse=True)[1]
    for kind in kinds.unique():
        for part in (kinds == kind).nonzero().squeeze(1).split(num - 1):
            yield part, torch.cat([part, part[:1].expand(num - len(part))])


def _samples_at_once(layout: TokenLayout) -> int:
    return max(1, AT_ONCE // (layout.length * layout.vocab_size))


def _measured(algorithm: TokenAlgorithm, batch: Batch, score: Callable[[Tensor], Tensor]) -> Tensor:
    """``score`` of the rows of a batch, as many at once as ``AT_ONCE`` allows: Float64[M].

    In eval mode and, on a CPU, by one thread: where threads share a tensor, bits depend on the
    place in it.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if batch.x0.device.type == "cpu" else threads)
    try:
        with eval_mode(algorithm):
            rows = torch.arange(len(batch)).split(_samples_at_once(algorithm.layout))
            return torch.cat([score(part) for part in rows])
    finally:
        torch.set_num_threads(threads)

"""Log-probabilities: of whole samples along a sampler's path, and of some known tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm, eval_mode
from discrete_diffusion.algorithms.many_ids import LazyLogD
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_prob_at, make_generator, uniform_draws
from discrete_diffusion.config.values import are_whole_numbers, unknown_name
from discrete_diffusion.contracts import Batch, Conditions
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.sampling.exactness import unseen_position
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.model import not_finite
from discrete_diffusion.sampling.partial_samples import PartialSamples, time_of_masked_share
from discrete_diffusion.sampling.tokens import TokenSampler
from discrete_diffusion.sampling.unmasking import (
    ONE_PATH,
    READ_TOKENS,
    EntropyBounded,
    check_positions,
)

AT_ONCE = 2**22
"""Most entries of log D in memory at once, unless a single sample has more."""
_ROWS = 32
"""Most rows of a forward pass, a power of 2."""

Order = str | Sequence[int]
"""Name of an order, or a list of all positions in the order of revealing."""


def order_sampler(
    algorithm: TokenAlgorithm, order: Order, key: str = "likelihood_order"
) -> EntropyBounded | None:
    """Build the sampler whose likelihood is measured for an order.

    It is ``entropy-bounded`` with budget 0: one token per call, except that certain tokens come
    together. None for the order ``own_order``, for which the algorithm's loss is -log p.

    Raises ``ValueError``, naming the ``key`` and a remedy, for an unknown order, an order in which
    many paths lead to a sample, and a model that does not sample in that order.
    """
    # orders that lead to a sample by many paths
    name, own = order if isinstance(order, str) else None, own_order(algorithm)
    known = ONE_PATH if own is None else (own,)
    if name in READ_TOKENS:
        raise ValueError(
            f"{key}={name}: this order compares tokens that are sampled already, so that many "
            f"paths lead to a sample; choose {' or '.join(known)}"
        )
    if name in ("random", FirstHitting.name):
        raise ValueError(
            f"{key}={name}: every order of the tokens leads to a sample; evaluate with "
            "num_orders=K, which bounds -log p by K of them"
        )
    # an algorithm that has one order
    if own is not None and order != own:
        raise ValueError(
            f"{key}={order}: {algorithm.name} samples in an order of its own; set {key}={own}"
        )
    if own is not None:
        return None
    # names, or all positions
    if name not in known and not (isinstance(order, Sequence) and are_whole_numbers(order)):
        raise ValueError(
            f"{unknown_name(key, order, known)}; approximate samplers reach a sample by "
            "many paths and have no likelihood"
        )
    refuse_other_noise(algorithm, f"{key}={order}")
    if not isinstance(order, str):
        check_positions(key, order, algorithm.layout.length, known)
    sampler = EntropyBounded(order=order, entropy_budget=0.0)
    sampler.check(algorithm)
    return sampler


def own_order(algorithm: Algorithm) -> str | None:
    """Return the only order of a model whose loss is -log p itself; None for other models.

    The order is ``left-to-right``, or, for a distilled student, ``plan``: its plan of calls.
    """
    if algorithm.evaluation_draw != "exact":
        return None
    return "left-to-right" if "causal" in algorithm.backbone_needs else "plan"


def check_orders(algorithm: TokenAlgorithm) -> None:
    """Raise ``ValueError`` naming ``num_orders`` unless a model samples in random orders."""
    # models of one order
    if own_order(algorithm) is not None:
        raise ValueError(
            f"num_orders=K: {algorithm.name} has one order, and its bound is its -log p already; "
            "leave orders out"
        )
    refuse_other_noise(algorithm, "num_orders=K")
    # steps that reveal several tokens
    if algorithm.num_steps is not None:
        raise ValueError(
            f"num_orders=K: {algorithm.name} has discrete steps that reveal several tokens; leave "
            "orders out, or train with algo=mdlm"
        )


def refuse_other_noise(algorithm: TokenAlgorithm, shown: str) -> None:
    """Raise ``ValueError`` unless the noise is absorbing, so that a token changes only once."""
    if not algorithm.process.absorbing:
        raise ValueError(
            f"{shown}: {algorithm.name} with {algorithm.process.name} noise reaches a sample by "
            "many paths, on which tokens change several times; leave it out and read the bound"
        )


def order_log_probs(algorithm: TokenAlgorithm, batch: Batch, order: Order) -> Tensor:
    """Return log p of samples under the ``order_sampler`` of an order: Float64[M], nats.

        log p(x) = sum over calls of  log D_l(x_l | visible tokens),   l revealed by that call

    The visible tokens decide which tokens come next, so one path leads to each x and the sum over
    all x of p(x) is 1 (arXiv 2603.01367). A network conditioned on t gets the time of the masked
    share. The model is in eval mode and called in parts, see ``path_log_prob``. Raises
    ``ValueError`` as ``order_sampler`` does.
    """
    sampler = order_sampler(algorithm, order)

    def score(rows: Tensor) -> Tensor:
        some = batch.rows(rows)
        if sampler is not None:
            return path_log_prob(sampler, algorithm, some)
        # the loss of an algorithm with one order is -log p
        generator = make_generator(0, device=some.x0.device)
        log_p = some.x0.new_zeros(len(some)).double()
        for part, filled in _parts_of_equal_pad(algorithm.layout, some.x0):
            output = algorithm.loss(some.rows(filled), generator, algorithm.evaluation_draw)
            log_p[part] = -output.nelbo[: len(part)].double()
        return log_p

    return _score_in_batches(algorithm, batch, score)


def random_order_log_probs(algorithm: TokenAlgorithm, batch: Batch, u: Tensor) -> Tensor:
    """Return log p(x | order) on one path of ``first-hitting`` for each sample: Float64[M], nats.

    ``u``: Float64[M, L], see ``order_draws``, decides the unmask times, 1 - alpha_l(T_l) = 1 - u_l,
    and the order by them. The mean of p(x | order) over u is p(x). The model is in eval mode and
    called in parts.
    """

    def score(rows: Tensor) -> Tensor:
        sampler = _AtTimes(u=u[rows].to(batch.x0.device))
        return path_log_prob(sampler, algorithm, batch.rows(rows))

    return _score_in_batches(algorithm, batch, score)


def order_draws(real: Tensor, number: int, entropy: tuple[int, ...]) -> Tensor:
    """Random numbers of the order ``number`` = 0, 1, ... of each sample, Float64[M, L] in [0, 1).

    In each order the random numbers are independent and uniform over the positions ``real`` Bool[M,
    L], so a mean over orders is unbiased. In n successive orders each of a sample's n positions
    comes first once (stratified), which reduces the variance. The result is a function of
    ``entropy`` and ``number``.
    """
    shape = tuple(real.shape)
    keys = uniform_draws(shape, make_generator(*entropy, 0)).masked_fill(~real, 2.0)
    u = uniform_draws(shape, make_generator(*entropy, 1, number))
    # swap the least number to the position whose turn it is to be first
    turn = number % real.sum(dim=1, keepdim=True).clamp(min=1)
    first = keys.argsort(dim=1, stable=True).gather(1, turn)  # (M, 1)
    least = u.masked_fill(~real, 2.0).argmin(dim=1, keepdim=True)
    at_first, at_least = u.gather(1, first), u.gather(1, least)
    return u.scatter(1, least, at_first).scatter(1, first, at_least)


def path_log_prob(sampler: TokenSampler, algorithm: TokenAlgorithm, batch: Batch) -> Tensor:
    """Return log p of samples on the path that a sampler takes to them: Float64[B], nats.

    The sampler runs, but reads each token instead of sampling it (``PartialSamples.known``). The
    network is called in chunks of a fixed shape, so that on one CPU thread a sample's log p does
    not depend on the other samples, bit for bit. Gradients flow unless turned off.
    """
    # given positions keep their tokens
    given = torch.where(batch.real, -1, batch.x0)
    generator = make_generator(0, device=batch.x0.device)
    in_parts = cast(TokenAlgorithm, _InParts(algorithm))
    samples = PartialSamples.start(in_parts, batch.real, given, generator)
    samples.known, samples.conditions = batch.x0, algorithm.accepted(batch.conditions)
    sampler.run(samples)
    return samples.log_weights


@dataclass(kw_only=True)
class _AtTimes(FirstHitting):
    """First-hitting sampling at the unmask times that ``u`` Float64[B, L] gives."""

    u: Tensor

    def uniform(self, samples: PartialSamples, where: Tensor) -> Tensor:
        return self.u[where.to(self.u.device)]


class _InParts:
    """Wrapper of an algorithm that calls its network in chunks of a fixed shape."""

    def __init__(self, algorithm: TokenAlgorithm) -> None:
        self.algorithm = algorithm

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)

    def lazy_log_d0(
        self, x_t: Tensor, t: Tensor, real: Tensor, at: Tensor, conditions: Conditions | None = None
    ) -> LazyLogD:
        """Predict as ``TokenAlgorithm.lazy_log_d0``, in chunks."""
        row, parts, places = at.nonzero(as_tuple=True)[0], [], []
        # one chunk after the other, in the order of the rows at the end
        for part, filled in _parts_of_equal_pad(self.algorithm.layout, x_t):
            given = {name: value[filled] for name, value in (conditions or {}).items()}
            times = t[filled]
            # unequal times: a network may compute once for all rows what depends on t alone
            times[-1] = torch.where(times[0] < 0.5, (1 + times[0]) / 2, times[0] / 2)
            read = at[filled]
            read[len(part) :] = False
            parts.append(self.algorithm.lazy_log_d0(x_t[filled], times, real[filled], read, given))
            places.append(torch.isin(row, part).nonzero().squeeze(1))
        order = torch.cat(places).argsort()
        values, position = (
            torch.cat(each)[order] for each in zip(*(p[:2] for p in parts), strict=True)
        )
        return parts[0]._replace(values=values, position=position)


def _parts_of_equal_pad(layout: TokenLayout, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows of x Int[B, L] in parts whose rows hold PAD at the same positions.

    Each part comes with a copy filled up to a fixed number of rows, which repeats its first row at
    least once.
    """
    num = 2 ** (min(_ROWS, max(2, _samples_at_once(layout))).bit_length() - 1)
    kinds = layout.is_real(x).unique(dim=0, return_inverse=True)[1]
    for kind in kinds.unique():
        for part in (kinds == kind).nonzero().squeeze(1).split(num - 1):
            yield part, torch.cat([part, part[:1].expand(num - len(part))])


def _samples_at_once(layout: TokenLayout) -> int:
    return max(1, AT_ONCE // (layout.length * layout.vocab_size))


def _score_in_batches(
    algorithm: TokenAlgorithm, batch: Batch, score: Callable[[Tensor], Tensor]
) -> Tensor:
    """Apply ``score`` to the rows of a batch, as many at once as ``AT_ONCE`` allows: Float64[M].

    The model is in eval mode. On a CPU one thread is used, since bits depend on how threads divide
    a tensor.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if batch.x0.device.type == "cpu" else threads)
    try:
        with eval_mode(algorithm):
            rows = torch.arange(len(batch)).split(_samples_at_once(algorithm.layout))
            return torch.cat([score(part) for part in rows])
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class KnownLogProb:
    """Result of ``log_prob_of``.

    ``log_prob``: Float64[B], the log-probability of each row's known tokens, nats. ``likeliest``:
    Bool[B], True if each token was the likeliest at its turn; False for other noise.
    ``num_evaluated``: number of different sequences that the network evaluated for all rows, in
    ``num_batches`` forward passes.
    """

    log_prob: Tensor
    likeliest: Tensor
    num_evaluated: int
    num_batches: int


def log_prob_of(
    algorithm: TokenAlgorithm,
    tokens: Tensor,
    known: Tensor,
    real: Tensor,
    *,
    generator: torch.Generator,
    given: Tensor | None = None,
    batch_size: int = 1024,
) -> KnownLogProb:
    """Return log p of the tokens Int[B, L] at the positions ``known`` Bool[B, L].

    ``real``: Bool[B, L]. For absorbing noise the chain rule, starting from all MASK but for the
    tokens ``given`` Bool[B, L]:

        log p(known) = sum_k log D_{l_k}(x_{l_k} | x_{l_1}, ..., x_{l_{k-1}})

    l_1, l_2, ... ascend by block and position; the network's time is that at which as many tokens
    are masked. The value is exact if the network's predictions belong to one joint distribution;
    those of a trained network depend a little on the order.

    For other noise D is computed once, at t = 1 on noise sampled from the prior, and the
    log-probabilities of the tokens are added: an approximation that takes the tokens for
    independent.

    Raises ``ValueError`` if the algorithm has ``blocks`` and would not see a known token, see
    ``unseen_position``, or for logits that are not finite.
    """
    given = torch.zeros_like(known) if given is None else given
    if (unseen := unseen_position(algorithm, known | given, real)) is not None:
        raise ValueError(
            f"position {unseen[1]} of row {unseen[0]} is known, but {algorithm.name} samples an "
            "earlier block without seeing it"
        )
    if len(tokens) == 0:
        return KnownLogProb(known.new_zeros(0, dtype=torch.float64), known.new_zeros(0), 0, 0)
    with eval_mode(algorithm):
        if algorithm.process.absorbing:
            x = torch.where(given, tokens, algorithm.process.prior_sample(real, generator))
            result = _chain_rule_log_prob(algorithm, tokens, known, real, x, batch_size)
        else:
            # D on noise, once for each set of positions
            distinct, which = real.unique(dim=0, return_inverse=True)
            x = algorithm.process.prior_sample(distinct, generator)
            t = torch.ones(len(x), dtype=torch.float64, device=x.device)
            batches = zip(*(part.split(batch_size) for part in (x, t, distinct)), strict=True)
            log_d0 = [algorithm.denoise(*batch) for batch in batches]
            log_p = log_prob_at(tokens.clamp(min=0), torch.cat(log_d0)[which])
            log_p = log_p.masked_fill(~known, 0.0).sum(dim=1)
            result = KnownLogProb(log_p, known.new_zeros(len(known)), len(distinct), len(log_d0))
    check_weighed(algorithm, result.log_prob)
    return result


def check_weighed(algorithm: TokenAlgorithm, log_probs: Tensor) -> None:
    """Raise ``ValueError`` if log-probabilities of given tokens are NaN: logits were not finite."""
    if log_probs.isnan().any():
        raise not_finite(algorithm.backbone, "while it weighed what is given")


def _chain_rule_log_prob(
    algorithm: TokenAlgorithm, tokens: Tensor, known: Tensor, real: Tensor, x: Tensor, at_once: int
) -> KnownLogProb:
    # known positions of each row, ascending by block
    length = tokens.shape[1]
    blocks = torch.zeros_like(tokens[0]) if algorithm.blocks is None else algorithm.blocks
    place = blocks * length + torch.arange(length, device=tokens.device)
    order = place.masked_fill(~known, length * length).argsort(dim=1, stable=True)  # (B, L)
    count = known.sum(dim=1)
    log_prob, likeliest = known.new_zeros(len(tokens), dtype=torch.float64), count >= 0
    num_evaluated = num_batches = 0
    for k in range(int(count.max())):
        # the k-th known token of every row that has one, equal states computed once
        rows = (count > k).nonzero().squeeze(1)
        position = order[rows, k]
        states = torch.stack([x[rows], real[rows].long()], dim=1)
        states = torch.cat([states.flatten(1), position.unsqueeze(1)], dim=1)
        distinct, which = states.unique(dim=0, return_inverse=True)
        batches = distinct.split(at_once)
        log_d0 = torch.cat([_log_d0_at(algorithm, part, length) for part in batches])
        # add its log-probability, and show it
        token = tokens[rows, position]
        log_prob[rows] += log_d0[which, token].double()
        likeliest[rows] &= log_d0.argmax(dim=1)[which] == token
        x[rows, position] = token
        num_evaluated += len(distinct)
        num_batches += len(batches)
    return KnownLogProb(log_prob, likeliest, num_evaluated, num_batches)


def _log_d0_at(algorithm: TokenAlgorithm, states: Tensor, length: int) -> Tensor:
    """Return log D Float[R, V] at one position; ``states`` Int[R, 2 L + 1]: x, real, position."""
    x, real, position = states[:, :length], states[:, length:-1].bool(), states[:, -1]
    # time of the masked share, of the position's block
    of_block = real
    if algorithm.blocks is not None:
        of_block = real & (algorithm.blocks == algorithm.blocks[position].unsqueeze(1))
    t = time_of_masked_share(algorithm, x == algorithm.layout.mask_id, of_block)
    at = torch.arange(length, device=x.device) == position.unsqueeze(1)
    return algorithm.denoise_at(x, t, real, at)

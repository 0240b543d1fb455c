"""Sampling of arrangements of a partial diagram in proportion to a model's probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discrete_diffusion import sampling
from discrete_diffusion.algorithms import TokenAlgorithm, eval_mode
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.learning.arrangements import Arrangements, ArrangementTree, as_numbered

SCORED_PER_COMPLETION = 60  # sequences that the network evaluates to weigh arrangements, at most
_MOST_LISTED, _FULL_LIST = 4096, 8
"""Default limit on arrangements that are listed before the network weighs them, for at most eight
rooms; it shrinks for more rooms."""


class UnseenError(ValueError):
    """Error for a given token that the algorithm would not see while it samples earlier tokens.
    ``line``: line of the partial diagram. ``reason``: the token and the remedy."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)  # so that it can be sent to other processes
        self.line, self.reason = line, reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True)
class Weighed:
    """Arrangements of a partial diagram with importance weights.

    ``log_weights``: Float64[R], log Z of each up to a constant, where Z is the model's probability
    of the tokens that the arrangement fixes, or the log of weights whose expectation is Z.
    ``num_scored``: number of evaluated sequences, in ``num_batches`` forward passes.
    ``thinnings``: steps at which arrangements were left out at random.
    """

    arrangements: Arrangements
    log_weights: Tensor
    num_scored: int = 0
    num_batches: int = 0
    thinnings: tuple[_Thinning, ...] = ()

    @property
    def error(self) -> float | None:
        """Estimated relative standard error of the sum of weights; None if all arrangements were
        enumerated, since the sum is then exact."""
        if not self.thinnings:
            return None
        shares = self.log_weights.softmax(dim=0)
        return float(sum(thinning.variance(shares) for thinning in self.thinnings)) ** 0.5


@dataclass(frozen=True)
class Arranged:
    """Sampled arrangements of one line. ``tokens``: partial tokens, Int64[num, L]. ``orders``: room
    of each slot, Int64[num, n_max]. The other fields are as in ``Weighed``."""

    partial: PartialDiagram
    line: int
    tokens: Tensor
    orders: Tensor
    num_scored: int
    num_batches: int
    error: float | None


@dataclass(frozen=True)
class Arranger:
    """Sampler of ``num`` arrangements of each partial diagram; see ``complete``."""

    algorithm: TokenAlgorithm
    vocab: VocabConfig
    node_order: str
    max_arrangements: int | None
    batch_size: int
    device: torch.device
    num: int

    def arrange(self, request: tuple[PartialDiagram, int, int]) -> Arranged:
        """Sample arrangements (slots for the rooms of a partial diagram) in proportion to Z. Z is
        the model's probability of the tokens that an arrangement fixes. ``request``: a partial
        diagram, its line number, and a seed. Raises ``UnseenError``."""
        # weigh arrangements: a single one, by the chain rule, or listed ones
        partial, line, seed = request
        generator = make_generator(seed, 1)
        tree = ArrangementTree(partial, self.vocab)
        if self.node_order != "canonical" or partial.is_complete:
            weighed = Weighed(as_numbered(partial, self.vocab), torch.zeros(1).double())
            self._check_seen(weighed.arrangements, line)
        elif self.algorithm.process.absorbing and self.algorithm.blocks is None:
            weighed = weigh_arrangements(
                self.algorithm,
                tree,
                max_scored=SCORED_PER_COMPLETION * self.num,
                max_kept=self.max_arrangements,
                batch_size=self.batch_size,
                generator=generator,
            )
        else:
            most = _MOST_LISTED * _FULL_LIST**2 // max(partial.num_rooms, _FULL_LIST) ** 2
            listed = list_arrangements(tree, self.max_arrangements or most, generator)
            self._check_seen(listed.arrangements, line)
            weighed = self.weigh(listed, make_generator(seed, device=self.device))
        shares = weighed.log_weights.softmax(dim=0)
        rows = torch.multinomial(shares, self.num, replacement=True, generator=generator)
        drawn = weighed.arrangements.select(rows)
        work = (weighed.num_scored, weighed.num_batches, weighed.error)
        return Arranged(partial, line, drawn.tokens, drawn.orders(self.vocab.n_max), *work)

    def weigh(self, listed: Weighed, generator: torch.Generator) -> Weighed:
        """Multiply the weights of arrangements by the model's probability of the tokens that they
        fix. For algorithms that can evaluate a likelihood in one token order only."""
        if len(listed.arrangements) == 1:
            return listed
        tokens, device = listed.arrangements.tokens, self.algorithm.layout.support.device
        scored = sampling.log_prob_of(
            self.algorithm,
            *(part.to(device) for part in (tokens, *known_and_real(tokens, self.vocab))),
            generator=generator,
            batch_size=self.batch_size,
        )
        return replace(
            listed,
            log_weights=listed.log_weights + scored.log_prob.cpu(),
            num_scored=scored.num_evaluated,
            num_batches=scored.num_batches,
        )

    def _check_seen(self, found: Arrangements, line: int) -> None:
        device = self.algorithm.layout.support.device
        known, real = (part.to(device) for part in known_and_real(found.tokens, self.vocab))
        unseen = sampling.unseen_position(self.algorithm, known, real)
        if unseen is None:
            return
        # name the token in the numbers of the file
        row, position = unseen
        order = found.orders(self.vocab.n_max)[row].tolist()
        if position < self.vocab.n_max:
            what = f"rooms[{order[position]}]"
        else:
            i, j = self.vocab.endpoints[position - self.vocab.n_max]
            what = f"the relation of rooms {order[i]} and {order[j]}"
        raise UnseenError(
            line,
            f"{self.algorithm.name} draws tokens from front to back and would not see {what} in "
            "time; give every room and no relation, or use a model trained with algo=mdlm",
        )


def weigh_arrangements(
    algorithm: TokenAlgorithm,
    tree: ArrangementTree,
    *,
    max_scored: int,
    max_kept: int | None,
    batch_size: int,
    generator: torch.Generator,
) -> Weighed:
    """Weigh arrangements by the model's probability Z of the tokens they fix, for absorbing noise.

    Z follows from the chain rule in the order of the tree's steps, with t the masked share: one
    network call on an arrangement gives the probability of every choice of slots for the next
    token. Of more arrangements than ``max_kept``, or than allow about ``max_scored`` sequences in
    all, ``thin_rows`` samples some by their probability so far and the tree's outlook, and each
    weight is divided by the probability of being kept (sequential importance sampling).
    """
    network = _Network(algorithm, batch_size)

    def most(steps_left: int) -> int:
        return max_kept or max(1, (max_scored - network.num_scored) // steps_left)

    with eval_mode(algorithm):
        found = _grow(tree, network.log_d0, most, generator)
    return replace(found, num_scored=network.num_scored, num_batches=network.num_batches)


def list_arrangements(tree: ArrangementTree, max_kept: int, generator: torch.Generator) -> Weighed:
    """List arrangements with equal weights; each step keeps at most ``max_kept``, at random."""

    def log_d0(tokens: Tensor) -> Tensor:
        return torch.zeros(1).double().expand(*tokens.shape, tree.vocab.vocab_size)

    return _grow(tree, log_d0, lambda steps_left: max_kept, generator)


def known_and_real(tokens: Tensor, vocab: VocabConfig) -> tuple[Tensor, Tensor]:
    """Masks Bool[B, L] of known and of real positions, for partial tokens Int[B, L]."""
    real = tokens != vocab.pad_id
    return real & (tokens != vocab.mask_id), real


def _grow(
    tree: ArrangementTree,
    log_d0: Callable[[Tensor], Tensor],
    most: Callable[[int], int],
    generator: torch.Generator,
) -> Weighed:
    """Grow the tree step by step, see ``weigh_arrangements``. ``log_d0``: function from partial
    tokens Int[R, L] to log D, Float64[R, L, V]. ``most``: function from the number of steps left to
    the maximal number of arrangements to keep."""
    now, log_weights = tree.root(), torch.zeros(1, dtype=torch.float64)
    thinnings: list[_Thinning] = []
    for step in range(len(tree.steps)):
        choices = tree.choices(now, step)
        if len(choices) == 1 and not thinnings:  # a common factor of all weights
            now = choices.extend(now, torch.arange(1))
            continue
        # weight of each choice: that of its parent, times the probability of the new token
        log_d = log_d0(now.tokens)
        log_weights = log_weights[choices.parents]
        log_weights = log_weights + log_d[choices.parents, choices.positions, choices.tokens]
        steps_left, rows = len(tree.steps) - 1 - step, torch.arange(len(choices))
        thinnings = [thinning.select(choices.parents) for thinning in thinnings]
        # too many choices: keep a random part, and divide by its chances
        if steps_left and len(choices) > (num := most(steps_left)):
            thinned = thin_rows(
                log_weights + tree.outlook(now, choices, step, log_d), num, generator
            )
            rows, log_weights = thinned.rows, log_weights[thinned.rows] - thinned.log_chances
            thinnings = [thinning.select(rows) for thinning in thinnings]
            thinnings.append(_Thinning(1 - thinned.log_chances.exp(), torch.arange(len(rows))))
        now = choices.extend(now, rows)
    return Weighed(tree.filled(now), log_weights, thinnings=tuple(thinnings))


@dataclass(frozen=True)
class _Thinning:
    """Record of a step at which arrangements were left out at random.

    ``risk``: Float64[K], probability of being left out, for each arrangement that was kept.
    ``origin``: Int[R], index of the kept arrangement that each present arrangement extends.
    """

    risk: Tensor
    origin: Tensor

    def select(self, rows: Tensor) -> _Thinning:
        return replace(self, origin=self.origin[rows])

    def variance(self, weights: Tensor) -> Tensor:
        """Variance of the sum of weights Float64[R] due to thinning. Hajek's estimate for a fixed
        number kept with unequal probabilities: the sum of risk (w - mean w)^2, with the mean
        weighted by risk."""
        sums = torch.zeros_like(self.risk).index_add_(0, self.origin, weights)
        num = int((self.risk > 0).sum())
        if num < 2:
            return (self.risk * sums.square()).sum()
        mean = (self.risk * sums).sum() / self.risk.sum()
        return (self.risk * (sums - mean).square()).sum() * num / (num - 1)


class _Network:
    """Network that evaluates equal rows of a call once, and counts evaluated rows and batches."""

    def __init__(self, algorithm: TokenAlgorithm, batch_size: int) -> None:
        self.algorithm, self.batch_size = algorithm, batch_size
        self.num_scored = self.num_batches = 0

    def log_d0(self, tokens: Tensor) -> Tensor:
        """Log D Float64[R, L, V] of tokens Int[R, L], on the CPU, at the t of their masked share.
        Raises ``ValueError`` for logits that are not finite."""
        distinct, which = tokens.unique(dim=0, return_inverse=True)
        found, layout = [], self.algorithm.layout
        for x in distinct.to(layout.support.device).split(self.batch_size):
            real = layout.is_real(x)
            t = sampling.time_of_masked_share(self.algorithm, x == layout.mask_id, real)
            found.append(self.algorithm.denoise(x, t, real))
        self.num_scored += len(distinct)
        self.num_batches += len(found)
        log_d0 = torch.cat(found).double().cpu()
        sampling.check_weighed(self.algorithm, log_d0)
        return log_d0[which]


@dataclass(frozen=True)
class Thinned:
    """Result of ``thin_rows``. ``rows``: Int64[K], kept rows, ascending. ``log_chances``:
    Float64[K], log-probability of keeping each."""

    rows: Tensor
    log_chances: Tensor


def thin_rows(log_weights: Tensor, num: int, generator: torch.Generator) -> Thinned:
    """Keep at most ``num`` >= 1 distinct rows of weights exp(log_weights Float64[M]), on the CPU.

    Row i is kept with probability p_i = min(1, w_i / c), c such that these add up to ``num``. A sum
    over the kept rows with each term divided by p_i is unbiased for the sum over all rows, with the
    least squared error for the sum of weights (Fearnhead and Clifford, 2003, J. R. Statist. Soc. B
    65 (4), 887-899). Rows lighter than c are sampled systematically, by one random number.
    """
    if len(log_weights) <= num:
        return Thinned(torch.arange(len(log_weights)), torch.zeros_like(log_weights))
    # c follows from the number of rows that are heavier than c, which are certain
    weights = (log_weights - log_weights.max()).exp()
    ordered, order = weights.sort(descending=True, stable=True)
    no_heavier = ordered.flip(0).cumsum(0).flip(0)[:num]  # each with all that follow
    left = num - torch.arange(num)
    num_sure = int((ordered[:num] * left <= no_heavier).long().argmax())
    c = no_heavier[num_sure] / left[num_sure]
    rows, light = order[:num_sure], order[num_sure:].sort().values
    # systematic sampling of the light rows
    if c > 0:
        points = torch.arange(num - num_sure) + uniform_draws((1,), generator, "cpu")
        light = light[weights[light] > 0]  # else rounding at the end could choose one
        found = torch.searchsorted(weights[light].cumsum(0) / c, points, right=True)
        rows = torch.cat([rows, light[found.clamp(max=len(light) - 1)]])
    rows = rows.sort().values
    return Thinned(rows, (weights[rows] / c).clamp(max=1).log())

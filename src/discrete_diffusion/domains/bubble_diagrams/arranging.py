"""The slots of a partial diagram's rooms, drawn by what a model says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import make_generator, thin
from discrete_diffusion.domains.bubble_diagrams.arrangement import (
    Arrangements,
    ArrangementTree,
    as_numbered,
)
from discrete_diffusion.domains.bubble_diagrams.partial import PartialDiagram
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling.calls import time_of_masked_share
from discrete_diffusion.sampling.scoring import first_unseen, log_prob_of

SCORED_PER_COMPLETION = 60
"""Sequences that the network is shown to weigh arrangements, at most, if nobody says otherwise."""
_MOST_LISTED = 4096
"""Arrangements that are kept where the network does not weigh them on the way."""


class UnseenError(ValueError):
    """Something is given that an algorithm would not see before it draws what is unknown."""


@dataclass(frozen=True)
class Weighed:
    """Arrangements of a partial diagram, with weights.

    ``log_weights``: Float64[R], log Z of each, of all arrangements; or of some that were kept by
    chance, such that the expected weight of every arrangement is its Z. But for a factor that all
    have in common.
    ``num_scored``: sequences that the network was shown, in ``num_batches`` forward passes.
    ``thinnings``: the steps at which chance had a say.
    """

    arrangements: Arrangements
    log_weights: Tensor
    num_scored: int = 0
    num_batches: int = 0
    thinnings: tuple[_Thinning, ...] = ()

    @property
    def error(self) -> float | None:
        """By how much the sum of the weights would differ from seed to seed, its standard deviation
        over its mean, estimated; None if chance had no say."""
        if not self.thinnings:
            return None
        shares = self.log_weights.softmax(dim=0)
        return float(sum(thinning.variance(shares) for thinning in self.thinnings)) ** 0.5


@dataclass(frozen=True)
class Arranged:
    """One line's partial tokens Int64[num, L], the ``orders`` of its rooms Int64[num, n_max], and
    what ``Weighed`` says of those that they were drawn from."""

    partial: PartialDiagram
    line: int
    tokens: Tensor
    orders: Tensor
    num_scored: int
    num_batches: int
    error: float | None


@dataclass(frozen=True)
class Arranger:
    """Draws ``num`` arrangements of each partial diagram; see ``complete``."""

    algorithm: TokenAlgorithm
    vocab: VocabConfig
    node_order: str
    max_arrangements: int | None
    batch_size: int
    device: torch.device
    num: int

    def arrange(self, request: tuple[PartialDiagram, int, int]) -> Arranged:
        """In proportion to the model's probability of what they fix.

        ``request``: a partial diagram, what its line is called, and a seed of its own. Raises
        ``UnseenError``.
        """
        partial, line, seed = request
        generator = make_generator(seed, 1)
        tree = ArrangementTree(partial, self.vocab)
        if self.node_order != "canonical" or partial.is_complete:
            weighed = Weighed(as_numbered(partial, self.vocab), torch.zeros(1).double())
            self._check_seen(weighed.arrangements, line)
        elif self.algorithm.process.absorbing and self.algorithm.blocks is None:
            weighed = weigh(
                self.algorithm,
                tree,
                max_scored=SCORED_PER_COMPLETION * self.num,
                max_kept=self.max_arrangements,
                batch_size=self.batch_size,
                generator=generator,
            )
        else:
            listed = listed_alike(tree, self.max_arrangements or _MOST_LISTED, generator)
            self._check_seen(listed.arrangements, line)
            generator_of_z = make_generator(seed, device=self.device)
            weighed = weighed_by_z(
                self.algorithm, self.vocab, listed, generator_of_z, batch_size=self.batch_size
            )
        shares = weighed.log_weights.softmax(dim=0)
        rows = torch.multinomial(shares, self.num, replacement=True, generator=generator)
        drawn = weighed.arrangements.at(rows)
        return Arranged(
            partial=partial,
            line=line,
            tokens=drawn.tokens,
            orders=drawn.orders(self.vocab.n_max),
            num_scored=weighed.num_scored,
            num_batches=weighed.num_batches,
            error=weighed.error,
        )

    def _check_seen(self, found: Arrangements, line: int) -> None:
        device = self.algorithm.layout.support.device
        known, real = (part.to(device) for part in known_and_real(found.tokens, self.vocab))
        unseen = first_unseen(self.algorithm, known, real)
        if unseen is None:
            return
        row, position = unseen
        order = found.orders(self.vocab.n_max)[row].tolist()
        if position < self.vocab.n_max:
            what = f"rooms[{order[position]}]"
        else:
            i, j = self.vocab.endpoints[position - self.vocab.n_max]
            what = f"the relation of rooms {order[i]} and {order[j]}"
        raise UnseenError(
            f"line {line}: {self.algorithm.name} fills a diagram from front to back and would not "
            f"see {what} before it draws what is unknown; give every room and no relation, or take "
            "a model of algo=mdlm"
        )


def weigh(
    algorithm: TokenAlgorithm,
    tree: ArrangementTree,
    *,
    max_scored: int,
    max_kept: int | None,
    batch_size: int,
    generator: torch.Generator,
) -> Weighed:
    """The arrangements and the model's probability Z of the tokens that each fixes, for absorbing
    noise: by the chain rule in the order of the tree's steps, t being the masked share.

    ``max_kept``: arrangements at most that are continued at each step; None: as many as keep the
    sequences that are shown below ``max_scored``, but one at least.

    A call for what some tokens leave of the rest gives the probability of every choice of slots for
    the next, so that arrangements share what they have in common, and the last choice costs no
    call. Where there are too many, those are kept that ``thin`` draws by their probability so far
    and the tree's outlook, and weighed by the chance that they had: sequential importance sampling.
    """
    network = _Network(algorithm, batch_size)

    def most(steps_left: int) -> int:
        return max_kept or max(1, (max_scored - network.num_scored) // steps_left)

    was_training = algorithm.training
    algorithm.eval()
    try:
        found = _grown(tree, network.log_d0, most, generator)
    finally:
        algorithm.train(was_training)
    return replace(found, num_scored=network.num_scored, num_batches=network.num_batches)


def listed_alike(tree: ArrangementTree, max_kept: int, generator: torch.Generator) -> Weighed:
    """The arrangements, of equal weights; ``max_kept`` at each step, one as likely as another."""

    def log_d0(tokens: Tensor) -> Tensor:
        return torch.zeros(1).double().expand(*tokens.shape, tree.vocab.vocab_size)

    return _grown(tree, log_d0, lambda steps_left: max_kept, generator)


def weighed_by_z(
    algorithm: TokenAlgorithm,
    vocab: VocabConfig,
    listed: Weighed,
    generator: torch.Generator,
    *,
    batch_size: int,
) -> Weighed:
    """``listed``, weighed by Z: for an algorithm that knows no tokens in any order."""
    if len(listed.arrangements) == 1:
        return listed
    tokens = listed.arrangements.tokens
    device = algorithm.layout.support.device
    scored = log_prob_of(
        algorithm,
        *(part.to(device) for part in (tokens, *known_and_real(tokens, vocab))),
        generator=generator,
        batch_size=batch_size,
    )
    return replace(
        listed,
        log_weights=listed.log_weights + scored.log_prob.cpu(),
        num_scored=scored.num_evaluated,
        num_batches=scored.num_batches,
    )


def known_and_real(tokens: Tensor, vocab: VocabConfig) -> tuple[Tensor, Tensor]:
    """Bool[B, L] twice for partial tokens Int[B, L]: what is known, and what is real."""
    real = tokens != vocab.pad_id
    return real & (tokens != vocab.mask_id), real


def _grown(
    tree: ArrangementTree,
    log_d0: Callable[[Tensor], Tensor],
    most: Callable[[int], int],
    generator: torch.Generator,
) -> Weighed:
    """See ``weigh``. ``log_d0``: Float64[R, L, V] of partial tokens Int[R, L]. ``most``: how many
    are kept if so many steps are left."""
    now, log_weights = tree.root(), torch.zeros(1, dtype=torch.float64)
    thinnings: list[_Thinning] = []
    for step in range(len(tree.steps)):
        choices = tree.choices(now, step)
        if len(choices) == 1 and not thinnings:  # even those left out have it in common
            now = choices.taken(now, torch.arange(1))
            continue
        log_d = log_d0(now.tokens)
        log_weights = log_weights[choices.parents]
        log_weights = log_weights + log_d[choices.parents, choices.positions, choices.tokens]
        steps_left, rows = len(tree.steps) - 1 - step, torch.arange(len(choices))
        thinnings = [thinning.at(choices.parents) for thinning in thinnings]
        if steps_left and len(choices) > (num := most(steps_left)):
            thinned = thin(log_weights + tree.outlook(now, choices, step, log_d), num, generator)
            rows, log_weights = thinned.rows, log_weights[thinned.rows] - thinned.log_chances
            thinnings = [thinning.at(rows) for thinning in thinnings]
            thinnings.append(_Thinning(1 - thinned.log_chances.exp(), torch.arange(len(rows))))
        now = choices.taken(now, rows)
    return Weighed(tree.filled(now), log_weights, thinnings=tuple(thinnings))


@dataclass(frozen=True)
class _Thinning:
    """``risk``: Float64[K], of those that were kept, the probability that they were not.
    ``origin``: Int[R], which of them each arrangement came of since."""

    risk: Tensor
    origin: Tensor

    def at(self, rows: Tensor) -> _Thinning:
        """That of the arrangements of the rows Int[R]."""
        return replace(self, origin=self.origin[rows])

    def variance(self, weights: Tensor) -> Tensor:
        """What it adds to the variance of the sum of weights Float64[R]: Hajek's estimate for a
        fixed number kept with unequal probabilities, sum risk (w - mean w)^2, of mean risk."""
        of_each = torch.zeros_like(self.risk).index_add_(0, self.origin, weights)
        num = int((self.risk > 0).sum())
        if num < 2:
            return (self.risk * of_each.square()).sum()
        mean = (self.risk * of_each).sum() / self.risk.sum()
        return (self.risk * (of_each - mean).square()).sum() * num / (num - 1)


class _Network:
    """Log D of partial tokens, and what it took: equal ones of a call are shown once."""

    def __init__(self, algorithm: TokenAlgorithm, batch_size: int) -> None:
        self.algorithm, self.batch_size = algorithm, batch_size
        self.num_scored = self.num_batches = 0

    @torch.no_grad()
    def log_d0(self, tokens: Tensor) -> Tensor:
        """Float64[R, L, V] of Int[R, L], on the CPU, at the times of their masked shares."""
        distinct, which = tokens.unique(dim=0, return_inverse=True)
        batches = distinct.to(self.algorithm.layout.support.device).split(self.batch_size)
        self.num_scored += len(distinct)
        self.num_batches += len(batches)
        return torch.cat([self._denoised(x) for x in batches]).double().cpu()[which]

    def _denoised(self, x: Tensor) -> Tensor:
        layout = self.algorithm.layout
        real = layout.is_real(x)
        t = time_of_masked_share(self.algorithm, x == layout.mask_id, real)
        return self.algorithm.denoise(x, t, real)

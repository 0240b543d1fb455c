"""Worlds whose exact denoiser is known, and how far from the truth samplers end with it.

Markov chains, hidden Markov models and uniform random trees, of any length. The network of a world
is exact, so what separates samples from the truth is the error of the sampler alone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.continuous_time import UDLM
from discrete_diffusion.algorithms.mdlm import MDLM
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import make_generator, neg_inf, pick, uniform_draws
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.forward_process.uniform import Uniform
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.models.graph_features import RevealedGraph, closure, effective_resistance
from discrete_diffusion.noise_schedules.schedules import LogLinear
from discrete_diffusion.sampling.model import Model
from discrete_diffusion.sampling.registry import SAMPLERS, build_sampler, check_sampler


class OracleWorld(nn.Module, ABC):
    """Distribution of sequences of L tokens, and its exact denoiser as a backbone.

    ``forward(x_t, sigma)`` returns log D, the leave-one-out posterior p(x_l | x_t without its
    position l), Float[B, L, V + 1], from tokens Int[B, L]. Ids are 0 to V - 1, MASK is V and
    carries no information. Any other token is certain, or with ``uniform`` it is observed with the
    probabilities of uniform noise at alpha = exp(-sigma).

    ``length``: L; ``vocab_size``: V.
    """

    length: int
    vocab_size: int
    uniform: bool

    def layout(self) -> TokenLayout:
        """Layout of the sequences: L positions of V ids, and MASK."""
        return TokenLayout.flat(self.length, self.vocab_size + 1, mask_id=self.vocab_size)

    def algorithm(self) -> TokenAlgorithm:
        """Algorithm with this network, in eval mode: ``mdlm``, or ``udlm`` with ``uniform``."""
        layout, schedule = self.layout(), LogLinear()
        if self.uniform:
            return UDLM(self, Uniform(layout, schedule)).eval()
        return MDLM(self, Absorbing(layout, schedule), time_conditioning=False).eval()

    @abstractmethod
    def sample(self, num: int, generator: torch.Generator) -> Tensor:
        """Exact samples, Int[num, L]."""

    @abstractmethod
    def log_prob(self, x0: Tensor) -> Tensor:
        """log p of clean sequences Int[B, L]: Float64[B], nats."""

    @abstractmethod
    def distances(self, samples: Tensor) -> dict[str, float]:
        """KL(truth || samples) of some statistics by name, nats, from samples Int[N, L].

        Half a count is added to every value, so that exact samples have a distance above 0 too."""


class HiddenMarkov(OracleWorld):
    """Hidden Markov model of sequences; Markov chains are the special case of ``chain``.

        p(x) = sum over s of  start(s_1) emission(x_1 | s_1)
                              product over l > 1 of  transition(s_l | s_{l-1}) emission(x_l | s_l)

    ``forward`` passes messages from the left and from the right. Of tokens that are impossible
    together every message is 0, and a uniform one takes its place.

    ``start``: Float[S]; ``transition``: Float[S, S], rows sum to 1; ``emission``: Float[S, V], rows
    sum to 1; ``length``: L.

    Raises ``ValueError`` for shapes that do not fit, or rows that are no distributions.
    """

    start: Tensor
    transition: Tensor
    emission: Tensor
    moves: Tensor

    def __init__(
        self,
        start: Tensor,
        transition: Tensor,
        emission: Tensor,
        *,
        length: int,
        uniform: bool = False,
    ) -> None:
        super().__init__()
        states = len(start)
        if transition.shape != (states, states) or emission.shape[:1] != (states,):
            raise ValueError(
                f"start, transition, emission: expected [S], [S, S], [S, V], got "
                f"{tuple(start.shape)}, {tuple(transition.shape)}, {tuple(emission.shape)}"
            )
        for name, table in (("start", start), ("transition", transition), ("emission", emission)):
            sums = table.double().sum(dim=-1)
            if (table < 0).any() or not torch.allclose(sums, torch.ones_like(sums), atol=1e-6):
                raise ValueError(f"{name}: expected probabilities whose rows sum to 1")
            self.register_buffer(name, table.double())
        # a state (a, m) is followed by (m, c): of all models, m has a single value
        self.register_buffer("moves", self.transition.unsqueeze(1), persistent=False)
        self.length, self.vocab_size, self.uniform = length, emission.shape[1], uniform

    @classmethod
    def chain(cls, probs: Tensor, *, length: int, uniform: bool = False) -> HiddenMarkov:
        """Markov chain of order k: p(x_l | x_{l-k}, ..., x_{l-1}), begun in its stationary law.

        ``probs``: Float[V, ..., V], k + 1 axes, the last sums to 1. A state is the last k tokens.
        Of several stationary laws it is the long-run mean of a chain begun uniformly. Raises
        ``ValueError`` for axes of different lengths or fewer than two.
        """
        if probs.ndim < 2 or len(set(probs.shape)) > 1:
            raise ValueError(f"probs: expected [V, ..., V], 2 axes or more, got {[*probs.shape]}")
        order, num = probs.ndim - 1, probs.shape[-1]
        last = torch.arange(num**order)
        rows = probs.double().reshape(num**order, num)
        # the next state drops the oldest token and adds the new one
        follower = (last.unsqueeze(1) * num + torch.arange(num)) % num**order
        transition = torch.zeros(num**order, num**order, dtype=torch.float64)
        transition.scatter_(1, follower, rows)
        start = _stationary(transition)
        emission = torch.eye(num, dtype=torch.float64)[last % num]
        world = cls(start, transition, emission, length=length, uniform=uniform)
        # most transitions are impossible: m, the k - 1 tokens between, leaves V of them
        world.moves = rows.view(num, -1, num)
        return world

    @classmethod
    def from_text(
        cls,
        tokens: Tensor,
        *,
        order: int,
        length: int,
        vocab_size: int | None = None,
        smoothing: float = 0.5,
        uniform: bool = False,
    ) -> HiddenMarkov:
        """Markov chain with the transition counts of a text.

            p(c | the last k tokens) proportional to count(the last k tokens, c) + smoothing

        ``tokens``: Int[N], the text; ``order``: k; ``vocab_size``: V, by default the largest id
        plus 1. Raises ``ValueError`` for a text of at most k tokens, an order below 1, ids below 0
        or from ``vocab_size`` on, or no smoothing, with which some contexts would have no law.
        """
        num = int(tokens.max()) + 1 if vocab_size is None and len(tokens) else vocab_size or 0
        if order < 1 or len(tokens) <= order:
            raise ValueError(f"order={order} with {len(tokens)} tokens: expected 1 <= order < N")
        if int(tokens.min()) < 0 or int(tokens.max()) >= num:
            raise ValueError(f"tokens: expected ids from 0 to {num - 1} (vocab_size={num})")
        if smoothing <= 0:
            raise ValueError(f"smoothing={smoothing:g}: expected more than 0")
        # runs of k + 1 tokens as numbers to the base V
        runs = tokens.unfold(0, order + 1, 1) @ num ** torch.arange(order, -1, -1)
        counts = runs.bincount(minlength=num ** (order + 1)).double() + smoothing
        probs = counts.view([num] * (order + 1))
        return cls.chain(probs / probs.sum(-1, keepdim=True), length=length, uniform=uniform)

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        # messages Float[S, B], samples last; those of a chain emit by the token c they end with
        emission = self.emission[: self.moves.shape[2]]  # (C, V)
        table = torch.cat([emission, torch.ones_like(emission[:, :1])], dim=1)
        alpha = torch.ones_like(self.start[:1])
        if self.uniform:
            assert sigma is not None
            alpha = (-sigma.to(emission)).exp()

        def heard(message: Tensor, place: int) -> Tensor:
            seen = alpha * table[:, x_t[:, place]] + (1 - alpha) / self.vocab_size  # (C, B)
            return (message.view(-1, *seen.shape) * seen).view_as(message)

        # from the left: p(s_l | tokens before l)
        left, before = self.start.unsqueeze(1).repeat(1, len(x_t)), []
        for place in range(self.length):
            before.append(left)
            left = _normalised(self._next(heard(left, place)))
        # from the right: p(tokens after l | s_l)
        right, found = torch.ones_like(left), torch.zeros(*x_t.shape, self.vocab_size + 1).to(left)
        for place in reversed(range(self.length)):
            ends = (before[place] * right).view(-1, len(emission), len(x_t)).sum(dim=0)  # (C, B)
            found[:, place, :-1] = _normalised(ends).T @ emission
            right = _normalised(self._previous(heard(right, place)))
        return found.log()

    def _next(self, left: Tensor) -> Tensor:
        """Float[S, B] over s_l -> over s_{l+1}: a sum over what the next state drops."""
        parts = left.reshape(*self.moves.shape[:2], -1).transpose(0, 1)  # (M, A, B)
        return (self.moves.permute(1, 2, 0) @ parts).flatten(0, 1)

    def _previous(self, right: Tensor) -> Tensor:
        """Float[S, B] over s_{l+1} -> over s_l: a sum over what it adds."""
        parts = right.reshape(*self.moves.shape[1:], -1)  # (M, C, B)
        return (self.moves.transpose(0, 1) @ parts).transpose(0, 1).flatten(0, 1)

    def sample(self, num: int, generator: torch.Generator) -> Tensor:
        tokens = []
        moves = self.moves.flatten(0, 1)  # (S, choices): the next state (m, c) of a state (a, m)
        state = pick(self.start.log().expand(num, -1), uniform_draws((num,), generator))
        for _ in range(self.length):
            u = uniform_draws((2, num), generator, self.start.device)
            tokens.append(pick(self.emission.log()[state], u[0]))
            choice = pick(moves.log()[state], u[1])
            state = state % self.moves.shape[1] * moves.shape[1] + choice
        return torch.stack(tokens, dim=1)

    def log_prob(self, x0: Tensor) -> Tensor:
        total = torch.zeros(len(x0), dtype=torch.float64)
        state = self.start.unsqueeze(1)
        for place in range(self.length):
            state = state * self.emission[:, x0[:, place]]  # (S, B)
            total += state.sum(dim=0).log()
            state = self._next(_normalised(state))
        return total

    def pair_law(self, distance: int = 1) -> Tensor:
        """p(x_l, x_{l + distance}), mean over l: Float[V, V]. ``ValueError`` from L on."""
        if distance >= self.length:
            raise ValueError(f"distance={distance}: expected less than the length {self.length}")
        state, later = self.start.unsqueeze(1), self.emission
        law = torch.zeros_like(state)
        for _ in range(self.length - distance):
            law, state = law + state, self._next(state)
        for _ in range(distance):
            later = self._previous(later)
        return (_normalised(law) * self.emission).T @ later

    def distances(self, samples: Tensor) -> dict[str, float]:
        """Divergences of the pairs of neighbours, and of tokens with one between them; none of
        those that L tokens do not have."""
        return {
            f"pairs at distance {distance}": pair_divergence(
                samples, self.pair_law(distance), distance
            )
            for distance in (1, 2)
            if distance < self.length
        }


def _normalised(values: Tensor) -> Tensor:
    """Float[S, B] with columns that sum to 1; a column of zeros becomes uniform."""
    total = values.sum(dim=0, keepdim=True)
    return torch.where(total == 0, 1 / len(values), values / total)


def _stationary(transition: Tensor) -> Tensor:
    """Stationary law Float[S] of Float[S, S]: the row mean of the limit of ((T + I) / 2)^n, which
    has the stationary laws of T and no period."""
    power = (transition + torch.eye(len(transition)).to(transition)) / 2
    for _ in range(60):
        last, power = power, power @ power
        power = power / power.sum(dim=1, keepdim=True)  # errors of the sums would double
        if (power - last).abs().max() < 1e-15:
            break
    return power.mean(dim=0)


def pair_divergence(samples: Tensor, truth: Tensor, distance: int = 1) -> float:
    """KL(truth || samples) of the pairs (x_l, x_{l + distance}), nats.

    ``samples``: Int[N, L]; ``truth``: Float[V, V], the probabilities of a pair. Half a count is
    added to every pair of the samples.
    """
    num = len(truth)
    pairs = samples[:, :-distance] * num + samples[:, distance:]
    return _divergence(truth.flatten(), pairs.flatten())


def _divergence(truth: Tensor, values: Tensor) -> float:
    """KL(truth Float[K] || values Int[N] below K), half a count added to each."""
    counts = values.bincount(minlength=len(truth)).double() + 0.5
    p, q = truth.double(), counts / counts.sum()
    return float(torch.special.xlogy(p, p / q).sum())


class UniformTrees(OracleWorld):
    """Uniform random labelled trees on N nodes; a token says whether a pair of nodes is an edge.

    L = N (N - 1) / 2 pairs (i, j), i < j, by i and then j; id 1 is an edge, id 0 is none. The
    entropy is (N - 2) log N (Cayley).

    Given x_t, a pair has the likelihood ratio w of being an edge: p(tree | x_t) is proportional to
    the product of w over its edges, a random spanning tree. So with R the effective resistance, if
    pairs conduct w (Kirchhoff; MASK: 1, a certain edge: a wire, certainly none: 0),

        P(edge | x_t) = w R,    D(edge) = R / (1 + (1 - w) R)

    At a position whose token is certain, the token is returned, not the leave-one-out posterior:
    samplers leave it as it is. In a state that no tree has, what is left is a random forest.

    ``num_nodes``: N, at least 2. Raises ``ValueError`` for fewer.
    """

    def __init__(self, num_nodes: int, *, uniform: bool = False) -> None:
        super().__init__()
        if num_nodes < 2:
            raise ValueError(f"num_nodes={num_nodes}: expected at least 2")
        self.num_nodes, self.vocab_size, self.uniform = num_nodes, 2, uniform
        self.length = num_nodes * (num_nodes - 1) // 2
        self.register_buffer("pairs", torch.triu_indices(num_nodes, num_nodes, 1))

    pairs: Tensor

    def layout(self) -> TokenLayout:
        layout = super().layout()
        layout.sites = self.pairs.T
        return layout

    def matrices(self, values: Tensor) -> Tensor:
        """Symmetric matrices Float64[B, N, N] of values of pairs [B, L], 0 on the diagonal."""
        found = torch.zeros(len(values), self.num_nodes, self.num_nodes, dtype=torch.float64)
        found[:, self.pairs[0], self.pairs[1]] = values.double()
        return found + found.mT

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        masked = x_t == self.vocab_size
        certain = ~masked & (not self.uniform)
        weight, least = masked.double(), torch.ones(len(x_t), 1, dtype=torch.float64)
        if self.uniform:
            # w = q(x_t | edge) / q(x_t | none)
            assert sigma is not None
            alpha = (-sigma.double()).exp().clamp(max=1 - 1e-9).unsqueeze(1)
            ratio = (1 + alpha) / (1 - alpha)
            weight, least = torch.where(masked, 1.0, ratio ** (2.0 * x_t - 1)), 1 / ratio
        wires = (certain & (x_t == 1)).double()
        # conductances of at least 1, in units of the least
        graph = RevealedGraph(
            self.matrices(wires).unsqueeze(1),
            self.matrices(weight / least),
            torch.ones(len(x_t), self.num_nodes, dtype=torch.float64),
        )
        ohms = effective_resistance(graph)[0][:, self.pairs[0], self.pairs[1]] / least
        edge = torch.where(certain, wires, ohms / (1 + (1 - weight) * ohms)).clamp(0, 1)
        log_d = torch.stack([1 - edge, edge, torch.zeros_like(edge)], dim=-1).log()
        return log_d.clamp(min=neg_inf(log_d.dtype))

    def sample(self, num: int, generator: torch.Generator) -> Tensor:
        # Pruefer codes: N - 2 nodes, each joined to the first node that is a leaf by then
        nodes, rows = self.num_nodes, torch.arange(num)
        code = (uniform_draws((num, nodes - 2), generator) * nodes).long()
        left = torch.ones(num, nodes, dtype=torch.long)
        left.scatter_add_(1, code, torch.ones_like(code))
        linked = torch.zeros(num, nodes, nodes, dtype=torch.long)
        for node in code.T:
            leaf = (left == 1).byte().argmax(dim=1)
            linked[rows, leaf, node] = 1
            left[rows, leaf] -= 1
            left[rows, node] -= 1
        ends = (left == 1).nonzero()[:, 1].view(num, 2)
        linked[rows, ends[:, 0], ends[:, 1]] = 1
        return (linked + linked.mT)[:, self.pairs[0], self.pairs[1]]

    def is_tree(self, x0: Tensor) -> Tensor:
        """True where the edges of x0 Int[B, L] are a tree: Bool[B]."""
        connected = closure(self.matrices(x0)).amin(dim=(1, 2)) == 1
        return connected & (x0.sum(dim=1) == self.num_nodes - 1)

    def log_prob(self, x0: Tensor) -> Tensor:
        log_p = -(self.num_nodes - 2) * torch.tensor(self.num_nodes).double().log()
        return torch.where(self.is_tree(x0), log_p, -torch.inf)

    def distances(self, samples: Tensor) -> dict[str, float]:
        """Divergences of being a tree, -log of the share of trees, and of the degrees of nodes."""
        degrees = self.matrices(samples).sum(dim=-1).long().flatten()
        # all but one of them are numbers of a node in a Pruefer code
        n = self.num_nodes
        law = torch.distributions.Binomial(n - 2, torch.tensor(1 / n).double())
        truth = torch.zeros(n, dtype=torch.float64)
        truth[1:] = law.log_prob(torch.arange(n - 1.0).double()).exp()
        return {
            "being a tree": _divergence(torch.tensor([0.0, 1.0]), self.is_tree(samples).long()),
            "degrees": _divergence(truth, degrees),
        }


@dataclass(frozen=True)
class SamplerDistance:
    """Distances of a sampler's samples from the truth of a world, and their cost.

    ``name``: the sampler, or ``EXACT_DRAWS``; ``sampling``: what ``build_sampler`` gets; ``steps``:
    the steps requested, or None. ``refused``: why the sampler does not fit; then nothing below is
    measured. ``calls``: mean network calls of a sample; ``cpu_seconds``: CPU time for a seed's
    samples, the least over seeds, so that what is prepared once does not count. ``distances``: by
    name (``OracleWorld.distances``), one value per seed.
    """

    name: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    refused: str = ""
    calls: float = 0.0
    cpu_seconds: float = 0.0
    distances: Mapping[str, Sequence[float]] = field(default_factory=dict)


EXACT_DRAWS = "exact draws"
"""Name of the row of exact samples: the distance that remains with as many perfect ones."""


def sampler_distances(
    world: OracleWorld,
    samplers: Sequence[Mapping[str, Any]] | None = None,
    *,
    steps: Sequence[int | None] = (None,),
    num: int = 1024,
    seeds: Sequence[int] = (0, 1, 2, 3),
    batch_size: int = 256,
) -> list[SamplerDistance]:
    """Measure how far from the truth samplers end with an exact network, and in how many calls.

    Args:
        world: the world to sample from.
        samplers: settings of samplers, ``name`` and options; None: all registered samplers with
            their defaults, those of other packages included.
        steps: numbers of steps to try each sampler with; None: its default.
        num: number of samples per seed.
        seeds: sampling seeds.
        batch_size: number of samples made at once.

    Returns:
        The distances of exact draws, then those of every sampler in every number of steps. A
        sampler that does not fit the noise or the steps has a row with the reason.

    Raises:
        ValueError: ``samplers`` names an unknown sampler or option, or a sampler that fits fails
            (``Model.sample_batch``).
    """
    real = torch.ones(num, world.length, dtype=torch.bool)
    algorithm = world.algorithm()

    def draw_exactly(seed: int) -> tuple[Tensor, float]:
        return world.sample(num, make_generator(seed)), 0.0

    rows = [_measured(world, draw_exactly, seeds, SamplerDistance(EXACT_DRAWS))]
    every = [{"name": name} for name in SAMPLERS.names()]
    for sampling in every if samplers is None else samplers:
        for number in steps:
            row = SamplerDistance(str(sampling["name"]), sampling, number)
            try:
                sampler = build_sampler(sampling)
            except ValueError as error:  # another package's may need options
                if samplers is not None:
                    raise
                rows.append(replace(row, refused=str(error)))
                continue
            try:
                check_sampler(sampler, algorithm, number)
            except ValueError as error:
                rows.append(replace(row, refused=str(error)))
                continue
            model = Model(algorithm, sampler, steps=number)

            def draw(seed: int, model: Model = model) -> tuple[Tensor, float]:
                generator = make_generator(seed)
                outputs = [
                    model.sample_batch(rows, generator=generator) for rows in real.split(batch_size)
                ]
                calls = torch.cat([output.nfe for output in outputs]).double().mean()
                return torch.cat([output.x0 for output in outputs]), float(calls)

            rows.append(_measured(world, draw, seeds, row))
    return rows


def _measured(
    world: OracleWorld,
    draw: Callable[[int], tuple[Tensor, float]],
    seeds: Sequence[int],
    row: SamplerDistance,
) -> SamplerDistance:
    """A row with the numbers of what ``draw`` returns for a seed: samples and network calls."""
    calls, seconds, found = [], [], []
    for seed in seeds:
        began = time.process_time()
        samples, number = draw(seed)
        seconds.append(time.process_time() - began)
        calls.append(number)
        found.append(world.distances(samples))
    return replace(
        row,
        calls=fmean(calls),
        cpu_seconds=min(seconds),
        distances={name: [each[name] for each in found] for name in found[0]},
    )

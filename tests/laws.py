"""The exact distribution of every sampler's output, state by state, from its definition.

Samplers on a grid draw every position for itself, so one of their steps is a *kernel*, the
distribution of the next token at each position given the state: Float64[S, 3, V]. Those that choose
what to reveal are followed through every draw that they can make.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm
from discrete_diffusion.categorical import log_one_hot
from toy_world import LENGTH, MASK, VOCAB_SIZE, ToyWorld, chain

Kernel = Callable[[Tensor, Tensor], Tensor]
POSITIONS = torch.arange(LENGTH)


def grid(algorithm: TokenAlgorithm, steps: int, how: str = "auto") -> Tensor:
    """Float64[T + 1]: uniform for absorbing noise and squared for others, unless ``how`` says."""
    t = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    squared = how == "quadratic" or (how == "auto" and not algorithm.process.absorbing)
    return t.square() if squared else t


class GridLaw:
    """Distributions over the states of a world, moved by kernels.

    ``free``: Bool[3], positions that move; the others hold the tokens ``held`` from the start.
    """

    def __init__(
        self,
        algorithm: TokenAlgorithm,
        world: ToyWorld,
        free: Tensor | None = None,
        held: Tensor | None = None,
    ) -> None:
        self.algorithm, self.world = algorithm, world
        self.free = world.real if free is None else free & world.real
        self.states = world.states(algorithm.process)
        self.real = world.real.expand(len(self.states), -1)
        self.same = log_one_hot(self.states, VOCAB_SIZE, torch.float64).exp()
        prior = algorithm.process.prior()[POSITIONS, self.states]
        fixed = ~world.real if held is None else (self.states == held) | ~world.real
        self.law = torch.where(self.free, prior, fixed.double()).prod(dim=-1)

    def move(self, kernel: Tensor, turn: Tensor | None = None) -> None:
        """By one kernel; ``turn`` Bool[3]: only these positions."""
        turn = self.free if turn is None else self.free & turn
        kernel = torch.where(turn.unsqueeze(-1), kernel, self.same)
        self.law = self.law @ kernel[:, POSITIONS, self.states].prod(dim=-1)

    def share_of(self, position: int, token: int) -> float:
        return float(self.law[self.states[:, position] == token].sum())

    def clean(self) -> Tensor:
        """Float64[K]: the mass of each clean sequence of the world."""
        match = (self.states.unsqueeze(1) == self.world.x0).all(dim=-1)
        return self.law @ match.double()

    # -- kernels ---------------------------------------------------------------------------------

    def at(self, t: Tensor) -> Tensor:
        return t.expand(len(self.states))

    def ancestral(self, t: Tensor, s: Tensor) -> Tensor:
        """p(x_s | x_t)."""
        step = self.algorithm.log_prob_step(self.states, self.at(t), self.at(s), self.real)
        return step.double().exp()

    def noising(self, s: Tensor, t: Tensor) -> Tensor:
        """q(x_t | x_s)."""
        further = chain(self.algorithm.process, s.reshape(1), t.reshape(1))[0]
        return further[POSITIONS, self.states]

    def renoise(self, t: Tensor, s: Tensor) -> Tensor:
        """sum over x0 of P(x0 | x_t) q_s(x_s | x0)."""
        p = self.algorithm.log_prob_x0(self.states, self.at(t), self.real).double().exp()
        s = s.reshape(1)
        later = chain(self.algorithm.process, torch.zeros_like(s), s)[0]
        return torch.einsum("slx,lxy->sly", p, later)

    def remasking(self, t: Tensor, s: Tensor, eta: float, strategy: str) -> Tensor:
        """ReMDM, arXiv 2503.00307: sigma = min(eta, s_max) or eta s_max."""
        process = self.algorithm.process
        t, s = t.reshape(1), s.reshape(1)
        alpha_t, alpha_s = process.alpha(t), process.alpha(s)
        most = torch.where(alpha_t > 0, (1 - alpha_s) / alpha_t, 1.0).clamp(max=1.0)
        sigma = (eta * most if strategy == "rescale" else most.clamp(max=eta)).unsqueeze(-1)
        alpha_t, alpha_s = alpha_t.unsqueeze(-1), alpha_s.unsqueeze(-1)
        reveal = (alpha_s - (1 - sigma) * alpha_t) / (1 - alpha_t)
        hidden = torch.zeros(VOCAB_SIZE).double().index_fill(0, torch.tensor(MASK), 1.0)
        d0 = self.algorithm.denoise(self.states, self.at(t), self.real).double().exp()
        visible = (1 - sigma) * self.same + sigma * hidden
        masked = reveal * d0 + (1 - reveal) * hidden
        return torch.where((self.states == MASK).unsqueeze(-1), masked, visible)


def grid_law(
    algorithm: TokenAlgorithm,
    world: ToyWorld,
    times: Tensor,
    sampler: str,
    *,
    allowed: Tensor | None = None,
    **options: object,
) -> Tensor:
    """Float64[K]: what a sampler on the grid ``times`` draws, with options of its own; with blocks
    one after another, each on the whole grid.

    ``allowed``: Bool[3, V], for absorbing noise the mass of those draws in which no token outside
    it is ever revealed.
    """
    law, blocks = GridLaw(algorithm, world), algorithm.blocks
    kept = torch.ones(()) if allowed is None else allowed.double()

    def move(kernel: Tensor) -> None:
        law.move(kernel * kept, turn)

    for turn in [None] if blocks is None else [blocks == block for block in blocks.unique()]:
        for t, s in pairwise(times):
            if sampler == "renoise":
                move(law.renoise(t, s))
            elif sampler == "remdm":
                move(law.remasking(t, s, options["eta"], options["strategy"]))
            else:
                move(law.ancestral(t, s))
                for _ in range(options.get("corrector_steps", 0) if s > 0 and t < 1 else 0):
                    law.move(law.noising(s, t), turn)
                    move(law.ancestral(t, s))
    return law.clean()


def confidence(d: Tensor, token: int) -> float:
    """Of D Float64[V] and the token drawn; likewise below."""
    return float(d[token])


def margin(d: Tensor, token: int) -> float:
    largest = d.sort(descending=True).values
    return float(largest[0] - largest[1])


def minus_entropy(d: Tensor, token: int) -> float:
    return -float(torch.special.entr(d).sum())


SCORES = {
    "confidence": confidence,
    "margin": margin,
    "entropy": minus_entropy,
    "top_probability": lambda d, token: float(d.max()),
    "most-uncertain": lambda d, token: -minus_entropy(d, token),
    "left-to-right": lambda d, token: 0.0,
}


def order_law(
    algorithm: TokenAlgorithm,
    world: ToyWorld,
    score: str,
    number: int = 1,
    budget: float | None = None,
    surprises: float | None = None,
) -> Tensor:
    """Float64[K]: what drawing all MASKs and keeping the first few by score comes to.

    ``score``: one of ``SCORES``, or ``random``. ``number`` are kept, or with ``budget`` as many as
    leave the sum of entropies less the largest of them within it. With ``surprises`` as many are
    kept as expect no more of them, through the first. D must not depend on t.
    """
    clean = {tuple(row): k for k, row in enumerate(world.x0.tolist())}
    start = tuple(torch.where(world.real, MASK, world.x0[0]).tolist())
    out, todo = torch.zeros(len(world.x0), dtype=torch.float64), {start: 1.0}
    while todo:
        state, mass = todo.popitem()
        hidden = [k for k in range(LENGTH) if state[k] == MASK]
        if not hidden:
            out[clean[state]] += mass
            continue
        x, half = torch.tensor([state]), torch.tensor([0.5], dtype=torch.float64)
        d = algorithm.denoise(x, half, world.real.unsqueeze(0))[0].double().exp()
        for drawn in itertools.product(*(d[k].nonzero().flatten().tolist() for k in hidden)):
            tokens = dict(zip(hidden, drawn, strict=True))
            share = mass
            for k in hidden:
                share *= float(d[k, tokens[k]])
            orders = orders_of(d, tokens, score)
            for order in orders:
                most = number if budget is None else within(d, order, budget)
                if surprises is not None:
                    most = up_to_a_surprise(d, order, tokens, surprises)
                kept = order[:most]
                after = tuple(tokens[k] if k in kept else state[k] for k in range(LENGTH))
                todo[after] = todo.get(after, 0.0) + share / len(orders)
    return out


def orders_of(d: Tensor, tokens: dict[int, int], score: str) -> list[list[int]]:
    """The equally likely orders in which the positions of ``tokens`` are revealed."""
    if score == "random":
        return [list(order) for order in itertools.permutations(tokens)]
    return [sorted(tokens, key=lambda k: -SCORES[score](d[k], tokens[k]))]


def within(d: Tensor, order: list[int], budget: float) -> int:
    """How many may be kept: the longest run whose entropies less the largest fit."""
    entropy = [-minus_entropy(d[k], 0) for k in order]
    fits = [sum(entropy[:n]) - max(entropy[:n]) <= budget for n in range(1, len(order) + 1)]
    return fits.index(False) if False in fits else len(order)


def up_to_a_surprise(d: Tensor, order: list[int], tokens: dict[int, int], surprises: float) -> int:
    """Number of tokens kept: at least one, until a surprise or until more are to be expected."""
    number, doubt = 1, 1 - float(d[order[0]].max())
    for last, place in itertools.pairwise(order):
        doubt += 1 - float(d[place].max())
        if doubt > surprises or tokens[last] != int(d[last].argmax()):
            break
        number += 1
    return number

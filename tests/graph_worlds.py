"""Graphs few enough to enumerate, networks that compute D of them, and laws of narrowed samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator, neg_inf
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.data.graph_tokens import EncodedGraphs, TypedGraph, decode_graphs, relabel
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Narrowing, build_sampler
from toy_world import noise_floor, total_variation

NUM = 5_000


class TabulatedBackbone(nn.Module):
    """log p(x0_l | the tokens that are not MASK) for rows Int[K, L] of probability Float64[K]."""

    def __init__(self, rows: Tensor, prob: Tensor, vocab: VocabConfig) -> None:
        super().__init__()
        self.prob, self.rows, self.vocab = prob, rows, vocab
        self.one_hot = nn.functional.one_hot(rows, vocab.vocab_size).double()  # (K, L, V)

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        states, which = x_t.unique(dim=0, return_inverse=True)  # many samples share a few
        seen, real = states.unsqueeze(1), self.rows != self.vocab.pad_id
        hidden = (seen == self.vocab.mask_id) & real
        fits = (hidden | (seen == self.rows)).all(dim=-1)  # (B, K)
        joint = torch.einsum("bk,klv->blv", fits.double() * self.prob, self.one_hot)
        log_p = joint.clamp(min=1e-300).log().masked_fill(joint == 0, neg_inf(torch.float64))
        return log_p[which]


def tabulated_graphs(graphs: EncodedGraphs, vocab: VocabConfig) -> tuple[MDLM, Tensor, Tensor]:
    """MDLM of the graphs in canonical order, its rows Int[K, L] and their Float64[K] shares."""
    orders = canonical_orders(graphs.x0, graphs.num_nodes, vocab).orders
    rows = relabel(graphs.x0, graphs.num_nodes, orders, vocab).unique(dim=0)
    weights = torch.rand(len(rows), generator=make_generator(9), dtype=torch.float64) ** 2 + 0.01
    prob = weights / weights.sum()
    process = Absorbing(vocab.layout(), LogLinear())
    return MDLM(TabulatedBackbone(rows, prob, vocab), process), rows, prob


def every_graph(vocab: VocabConfig, num_nodes: int, given: Tensor | None = None) -> Tensor:
    """Int[K, L]: graphs of so many nodes with the tokens ``given`` Int[L], negative if free."""
    real = vocab.real_positions(torch.tensor([num_nodes]))[0]
    choices = []
    for position, legal in enumerate(vocab.layout().support):
        ids = legal.nonzero().flatten().tolist() if real[position] else [vocab.pad_id]
        known = given is not None and given[position] >= 0
        choices.append([int(given[position])] if known and real[position] else ids)
    return torch.tensor(list(itertools.product(*choices)))


class Scattered(nn.Module):
    """Logits that are arbitrary functions of the tokens, those of no joint distribution.

    ``edges``: what edges get beside.
    """

    def __init__(self, vocab: VocabConfig, edges: float = 0.0) -> None:
        super().__init__()
        self.shape = (vocab.length, vocab.vocab_size)
        size = (vocab.length, vocab.length * vocab.vocab_size)
        self.weight = 9 * torch.rand(size, generator=make_generator(4), dtype=torch.float64)
        self.bias = torch.zeros(vocab.vocab_size, dtype=torch.float64)
        self.bias[vocab.edge_offset : vocab.edge_offset + vocab.no_edge] = edges

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        return torch.sin(x_t.double() @ self.weight).view(-1, *self.shape) + self.bias


def model_of(backbone: nn.Module, vocab: VocabConfig) -> MDLM:
    return MDLM(backbone, Absorbing(vocab.layout(), LogLinear()))


def tabulated(rows: Tensor, vocab: VocabConfig, seed: int = 0) -> tuple[MDLM, Tensor]:
    """The exact D of a random distribution of the ``rows``, Float64[K]."""
    weights = torch.rand(len(rows), generator=make_generator(seed), dtype=torch.float64) + 0.05
    return model_of(TabulatedBackbone(rows, weights / weights.sum(), vocab), vocab), (
        weights / weights.sum()
    )


def distinct(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of Int[R, L] that differ, and which of them each is, Int[R]: rows as numbers, which
    are sorted sooner."""
    base = int(x.max()) + 1 if len(x) else 1
    assert base ** x.shape[1] < 2**63
    number, which = (x @ base ** torch.arange(x.shape[1])).unique(return_inverse=True)
    one = torch.empty_like(number).scatter_(0, which, torch.arange(len(x)))
    return x[one], which


def law_of_any_order(model: MDLM, rows: Tensor, free: Tensor) -> Tensor:
    """Float64[K]: probability of the ``rows`` Int[K, L], their ``free`` positions revealed one by
    one in uniformly random order, summed over all orders."""
    positions = free.nonzero().flatten().tolist()
    prob = {(): torch.ones(len(rows), dtype=torch.float64)}
    for size in range(len(positions)):
        later: dict[tuple[int, ...], Tensor] = {}
        for seen, mass in ((s, p) for s, p in prob.items() if len(s) == size):
            x = rows.clone()
            hidden = [k for k in positions if k not in seen]
            x[:, hidden] = model.layout.mask_id
            x, which = distinct(x)
            half = torch.full((len(x),), 0.5, dtype=torch.float64)
            log_d0 = model.denoise(x, half, x != model.layout.pad_id)
            for k in hidden:
                here = log_d0[which, k, rows[:, k]].exp()
                key = tuple(sorted((*seen, k)))
                later[key] = later.get(key, 0) + mass * here / len(hidden)
        prob = later
    return prob[tuple(positions)]


def drawn(
    model: MDLM,
    real: Tensor,
    narrowing: Narrowing | None,
    num: int = NUM,
    *,
    sampler: str = "first-hitting",
    clamp: Tensor | None = None,
    seed: int = 3,
    **options: object,
) -> SampleOutput:
    """``real``, ``clamp``: [L], the same for each."""
    steps = options.pop("steps", None)
    return build_sampler({"name": sampler, **options}).sample(
        model,
        real.expand(num, -1),
        generator=make_generator(seed),
        steps=steps,
        clamp=None if clamp is None else clamp.expand(num, -1),
        narrowing=narrowing,
    )


def those(rows: Tensor, vocab: VocabConfig, has: Callable[[TypedGraph], bool]) -> Tensor:
    """Bool[K]: which of the rows are graphs that have a property."""
    return torch.tensor([has(graph) for graph in decode_graphs(rows, vocab)])


def check_law(output: SampleOutput, rows: Tensor, prob: Tensor, allowed: Tensor) -> None:
    """Every sample of a weight is one of those allowed, none of the others is; weighted they are
    distributed as ``prob`` Float64[K] of the ``rows`` given that; the mean weight is its
    probability."""
    index = {tuple(row): k for k, row in enumerate(rows.tolist())}
    which = torch.tensor([index[tuple(row)] for row in output.x0.tolist()])
    assert torch.equal(allowed[which], ~output.log_weights.isneginf())
    law, weights = torch.where(allowed, prob, 0.0), output.log_weights.exp()
    mass, error = float(law.sum()), float(weights.std()) / len(weights) ** 0.5
    assert mass < 1 - 1e-3
    assert weights.mean().item() == pytest.approx(mass, abs=4.5 * error + 1e-12)
    effective = int(weights.sum().square() / weights.square().sum())
    assert effective > 500
    share = torch.zeros(len(rows), dtype=torch.float64).index_add_(0, which, weights)
    law = law / mass
    assert total_variation(share / share.sum(), law) < noise_floor(law, effective)
    assert (output.num_forced.double().mean() > 0) == bool((output.log_weights < -1e-9).any())

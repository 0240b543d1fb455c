"""The features by name: connectivity, effective resistance, random walks and cycles.

Each is a function of a ``RevealedGraph`` that gives features of its nodes, (B, N, F), and of its
pairs, (B, F', N, N). All are equivariant under relabelling of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from discrete_diffusion.models.graph_features.revealed import RevealedGraph, closure

Features = tuple[list[Tensor], list[Tensor]]
"""Of nodes, each Float[B, N], and of pairs, each Float[B, N, N]."""

_CLIP = 1e-5
"""Probabilities are kept this far from 0 and 1 before their logit is taken."""


def base(graph: RevealedGraph) -> Features:
    """Degrees in every graph and the open pairs of each node."""
    degrees = graph.edges.sum(dim=-1) / 4  # (B, G, N)
    return [*degrees.unbind(1), graph.open.sum(dim=-1).log1p() / 4], []


def reach(graph: RevealedGraph) -> Features:
    """What revealed edges connect already, and how many open pairs could connect more.

    C = closure of the edges A,   S = C M C,   out_i = open pairs that leave i's component
    pairs: C_ij, log(1 / out_i + 1 / out_j), log(1 + S_ij), sizes of both components,
           [out_i = 1 or out_j = 1]
    """
    connected, n = graph.components, graph.sizes
    between = connected @ graph.open @ connected  # open pairs from i's component to j's
    inside = between.diagonal(dim1=1, dim2=2)
    leaving = connected @ graph.open.sum(dim=-1, keepdim=True)
    out = (leaving.squeeze(-1) - inside).round()  # (B, N)
    share = connected.sum(dim=-1) / n.squeeze(-1)
    scarcity = 1 / out.clamp(min=1)
    last = (out == 1).to(out.dtype)
    pairs = [
        connected,
        (scarcity.unsqueeze(2) + scarcity.unsqueeze(1)).log(),
        between.log1p() / 4,
        (out.log1p().unsqueeze(2) + out.log1p().unsqueeze(1)) / 8,
        (share.unsqueeze(2) + share.unsqueeze(1)) / 2,
        torch.maximum(last.unsqueeze(2), last.unsqueeze(1)),
    ]
    return [out.log1p() / 4, share, last], pairs


def effective_resistance(graph: RevealedGraph) -> tuple[Tensor, Tensor]:
    """Effective resistance between nodes where open pairs are unit resistors, revealed edges are
    wires and revealed non-edges are cut:

        R_ij = (e_i - e_j)^T L^+ (e_i - e_j),   L: Laplacian of the components joined by open pairs

    For a uniformly drawn spanning tree R_ij is the probability that an open pair is one of its
    edges (Kirchhoff): the exact posterior of uniform labelled trees.

    The inverse is that of L, with each component of A at its first node, plus 1/k for each pair
    among the k that open pairs connect; it differs from L^+ by what cancels in R. In float64 where
    the device has it.

    Returns:
        R Float[B, N, N], 0 where nothing connects i and j, and Bool[B, N, N], where something does.
    """
    # Counts below 2^24 are exact in float32; only the inverse and what cancels in R need more.
    open_, connected = graph.open, graph.components
    first = connected.argmax(dim=-1)  # (B, N): the first node of each one's component
    member = torch.eye(open_.shape[-1], device=open_.device)[first]  # (B, N, N): [i, first_i] = 1
    contracted = member.mT @ open_ @ member  # open pairs between components, at their first nodes
    contracted = contracted - torch.diag_embed(contracted.diagonal(dim1=1, dim2=2))
    laplacian = torch.diag_embed(contracted.sum(dim=-1)) - contracted
    stands = member.amax(dim=1)  # (B, N): 1 at the nodes that stand for a component
    within = closure((graph.all + open_).clamp(max=1))
    joined = within * stands.unsqueeze(1) * stands.unsqueeze(2)
    kind = torch.float32 if open_.device.type == "mps" else torch.float64
    ones = joined.to(kind) / joined.sum(dim=-1, keepdim=True).clamp(min=1)
    inverse = _inverse(laplacian + ones + torch.diag_embed(1 - stands))
    potential = inverse.diagonal(dim1=1, dim2=2)
    resistance = potential.unsqueeze(2) + potential.unsqueeze(1) - 2 * inverse
    rows = first.unsqueeze(2).expand_as(resistance)
    resistance = resistance.gather(1, rows).gather(2, rows.mT)
    return resistance.clamp(min=0) * (within - connected), within.bool()


def _inverse(a: Tensor) -> Tensor:
    """Inverses of positive definite matrices, Float[B, N, N]; in an exported file, which has no
    Cholesky factor, by Gauss-Jordan elimination, which needs no pivoting for these."""
    if not torch.compiler.is_exporting():
        return torch.cholesky_inverse(torch.linalg.cholesky(a))
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    both = torch.cat([a, eye.expand_as(a)], dim=-1)
    for k in range(a.shape[-1]):
        pivot = both[:, k : k + 1] / both[:, k : k + 1, k : k + 1]
        both = both - (both[:, :, k : k + 1] - eye[:, k : k + 1]) * pivot
    return both[..., a.shape[-1] :]


def resistance(graph: RevealedGraph) -> Features:
    """``effective_resistance`` R: R / (1 + R) of pairs, logit R of open ones; of nodes, the edges
    that a spanning tree adds to each in the mean."""
    found = effective_resistance(graph)[0].to(graph.open.dtype)
    chance = found.clamp(_CLIP, 1 - _CLIP)
    logit = torch.logit(chance) * graph.open
    return [(found * graph.open).sum(dim=-1) / 4], [found / (1 + found), logit]


def walks(graph: RevealedGraph, *, length: int) -> Features:
    """Random walks of 1 to K steps: where they are, of nodes whether they are back.

        pairs: (P^k)_ij and (P^k)_ji,  nodes: (P^k)_ii,   P = D^-1 A,   k = 1 ... K

    for every graph of revealed edges A, and for A + density M, which counts each open pair of M
    with its expected number of edges. Rows of degree 0 are 0.

    Source: relative random walk probabilities (RRWP; Ma et al., ICML 2023), as in DeFoG (2024).
    """
    expected = graph.all + graph.density * graph.open
    weights = torch.cat([graph.edges, expected.unsqueeze(1)], dim=1)  # (B, G + 1, N, N)
    step = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-6)
    nodes: list[Tensor] = []
    pairs: list[Tensor] = []
    power = step
    for k in range(length):
        power = power @ step if k else step
        pairs += [*power.unbind(1), *power.mT.unbind(1)]
        nodes += power.diagonal(dim1=-2, dim2=-1).unbind(1)
    return nodes, pairs


def cycles(graph: RevealedGraph) -> Features:
    """Cycles of 3, 4 and 5 edges through each node, and walks of 2 and 3 edges between nodes, which
    an edge between them would close, for every graph of revealed edges:

        c3 = diag(A^3) / 2,   c4 = (diag(A^4) - d (d - 1) - A d) / 2,
        c5 = (diag(A^5) - 2 diag(A^3) d - 2 (A * A^2) d - A diag(A^3) + 5 diag(A^3)) / 2

    divided by 10 and at most 1; walks as log(1 + number).

    Source: DiGress (Vignac et al., ICLR 2023). Deviation: its c5 also counts walks around a
    triangle that step aside at one of the other two corners.
    """
    a = graph.edges  # (B, G, N, N)
    d = a.sum(dim=-1)
    a2 = a @ a
    a3 = a2 @ a
    closed3 = a3.diagonal(dim1=-2, dim2=-1)
    closed4 = (a2 * a2).sum(dim=-1)
    closed5 = (a2 * a3).sum(dim=-1)
    c3 = closed3 / 2
    c4 = (closed4 - d * (d - 1) - (a @ d.unsqueeze(-1)).squeeze(-1)) / 2
    aside = ((a * a2) @ d.unsqueeze(-1)).squeeze(-1)
    beside = (a @ closed3.unsqueeze(-1)).squeeze(-1)
    c5 = (closed5 - 2 * closed3 * d - 2 * aside - beside + 5 * closed3) / 2
    counts = torch.cat([c3, c4, c5], dim=1).div(10).clamp(max=1)
    between = torch.cat([a2, a3], dim=1).log1p() / 2
    return [*counts.unbind(1)], [*between.unbind(1)]


FEATURES: dict[str, Callable[..., Features]] = {
    "reach": reach,
    "resistance": resistance,
    "walks": walks,
    "cycles": cycles,
}
"""What ``model.features`` can name."""

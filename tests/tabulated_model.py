"""A model of a few graphs with known probabilities, whose network computes D by enumeration."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator, neg_inf
from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.data.graph_tokens import EncodedGraphs, relabel
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear


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

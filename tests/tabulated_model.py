"""A model of a few diagrams with known probabilities, whose network computes D by enumeration."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator, neg_inf
from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.data.graph_tokens import relabel
from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram, PartialDiagram, encode
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


def random_diagrams(num: int, num_rooms: int, seed: int) -> list[BubbleDiagram]:
    """Few types and relations, so that there are symmetric ones and many share a part."""
    generator = make_generator(seed)
    pairs = [(i, j) for i in range(num_rooms) for j in range(i + 1, num_rooms)]
    diagrams = []
    for _ in range(num):
        rooms = torch.randint(3, (num_rooms,), generator=generator).tolist()
        codes = torch.randint(5, (len(pairs),), generator=generator).tolist()
        relations = [
            (i, j, (2, 3, 6, 7)[c]) for (i, j), c in zip(pairs, codes, strict=True) if c < 4
        ]
        diagrams.append(BubbleDiagram(tuple(rooms), tuple(relations)))
    return diagrams


def tabulated_mdlm(
    diagrams: list[BubbleDiagram], vocab: VocabConfig
) -> tuple[MDLM, Tensor, Tensor]:
    """MDLM of the diagrams in canonical order, its rows Int[K, L] and their Float64[K] shares."""
    encoded = encode(diagrams, vocab)
    orders = canonical_orders(encoded.x0, encoded.num_nodes, vocab).orders
    rows = relabel(encoded.x0, encoded.num_nodes, orders, vocab).unique(dim=0)
    weights = torch.rand(len(rows), generator=make_generator(9), dtype=torch.float64) ** 2 + 0.01
    prob = weights / weights.sum()
    process = Absorbing(vocab.layout(), LogLinear())
    return MDLM(TabulatedBackbone(rows, prob, vocab), process), rows, prob


def misleading_mdlm() -> tuple[MDLM, PartialDiagram, VocabConfig]:
    """A world where what looks likely half-way is not, and two relations of three rooms in it.

    Of one of their six arrangements the first relation has probability 0.72 and both have 0.02; of
    each of the others 0.05 and 0.04. That one has rooms 0 and 2 in relation 0.
    """
    vocab, given = VocabConfig(n_max=3), ((0, 1, 2), (1, 2, 3))
    diagrams, prob = [], []
    for order in itertools.permutations(range(3)):
        likely = order == (0, 1, 2)
        whole = BubbleDiagram((0, 0, 0), (*given, (0, 2, 0 if likely else 1)))
        diagrams += [d.relabelled(order) for d in (whole, BubbleDiagram((0, 0, 0), given[:1]))]
        prob += [0.02, 0.7] if likely else [0.04, 0.01]
    shares = torch.tensor(prob, dtype=torch.float64)
    backbone = TabulatedBackbone(encode(diagrams, vocab).x0, shares / shares.sum(), vocab)
    model = MDLM(backbone, Absorbing(vocab.layout(), LogLinear()))
    return model, PartialDiagram((None,) * 3, given), vocab

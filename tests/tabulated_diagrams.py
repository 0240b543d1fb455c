"""Models of a few diagrams with known probabilities."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from floor_plans import BubbleDiagram, PartialDiagram, encode
from graph_worlds import TabulatedBackbone, tabulated_graphs


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
    """``tabulated_graphs`` of diagrams."""
    return tabulated_graphs(encode(diagrams, vocab), vocab)


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

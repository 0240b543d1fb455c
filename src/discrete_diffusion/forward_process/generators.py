"""Generators of noise on ordered ids, and what makes one of a user's fit for use."""

from __future__ import annotations

import torch
from torch import Tensor

from discrete_diffusion.layout.token_layout import TokenLayout

REACH = 8.0
"""Widths beyond which the Gaussian has no jumps: their rates would be below 1e-13 of all."""


def neighbours(num: int) -> Tensor:
    """Float64[K, K]: rate 1 to the id above and to the id below, a birth-death chain."""
    return _with_diagonal((_apart(num) == 1).double())


def gaussian(num: int, width: float) -> Tensor:
    """Float64[K, K]: rates in proportion to exp(-(x - y)^2 / (2 width^2)) from x to y, K ids in
    their order, 1 to the next.

    The discretised Gaussian of D3PM (arXiv 2107.03006, appendix A.2.2), symmetric and with uniform
    stationary law as there. Deviation: one width, in ids, at all times, where the paper's grows.
    """
    apart = _apart(num)
    rates = (-(apart.square() - 1) / (2 * width**2)).exp()
    return _with_diagonal(rates * (apart > 0) * (apart <= max(REACH * width, 1.0)))


def on_legal_ids(kind: str, support: Tensor, width: float) -> Tensor:
    """Float64[V, V]: the generator of one ``kind`` among the ids of ``support`` Bool[V], in their
    order; others stay."""
    ids = support.nonzero().squeeze(1)
    among = neighbours(len(ids)) if kind == "neighbours" else gaussian(len(ids), width)
    whole = torch.zeros(len(support), len(support), dtype=torch.float64, device=support.device)
    whole[ids.unsqueeze(1), ids] = among.to(whole)
    return whole


def checked(generator: Tensor, layout: TokenLayout) -> Tensor:
    """A user's generator, Float[V, V] or one for each position, Float[L, V, V], as Float64[L, V, V]
    with exact diagonals, the rows of ids that never occur being 0.

    Raises ``ValueError`` for another shape, a negative rate, rows that do not sum to 0, and rates
    from a legal id of a position to one that is neither legal there nor MASK.
    """
    length, size = layout.length, layout.vocab_size
    if generator.shape not in ((size, size), (length, size, size)):
        raise ValueError(
            f"generator has shape {tuple(generator.shape)}; expected ({size}, {size}), the rates "
            f"from id to id, or ({length}, {size}, {size}), those of each position"
        )
    rates = generator.detach().double().to(layout.support.device).expand(length, -1, -1).clone()
    occurs = layout.support.clone()
    occurs[:, layout.mask_id] = True
    rates[~occurs] = 0.0
    diagonal = rates.diagonal(dim1=1, dim2=2).clone()
    rates.diagonal(dim1=1, dim2=2).zero_()
    if bad := _first((rates < 0) | ~rates.isfinite()):
        position, x, y = bad
        raise ValueError(
            f"generator: the rate from id {x} to id {y} at position {position} is "
            f"{float(rates[position, x, y]):g}; expected at least 0"
        )
    total = rates.sum(dim=-1)
    if bad := _first((total + diagonal).abs() > 1e-6 * (1 + total)):
        position, x = bad
        raise ValueError(
            f"generator: the row of id {x} at position {position} sums to "
            f"{float((total + diagonal)[position, x]):g}; expected 0: the diagonal is minus the "
            "sum of the rates (of a matrix of probabilities Q, take Q - I)"
        )
    if bad := _first((rates > 0) & layout.support.unsqueeze(-1) & ~occurs.unsqueeze(-2)):
        position, x, y = bad
        legal = layout.support[position].nonzero().flatten().tolist()
        raise ValueError(
            f"generator: from id {x} position {position} would jump to id {y}, which is not legal "
            f"there; expected rates among {legal} and into MASK ({layout.mask_id}) only, or a "
            "generator for each position"
        )
    into_mask = (rates[..., layout.mask_id] > 0).any(dim=-1)
    rates[~into_mask, layout.mask_id] = 0.0  # MASK never occurs there
    rates.diagonal(dim1=1, dim2=2).copy_(-rates.sum(dim=-1))
    return rates


def slowest_rate(generator: Tensor, alphabet: Tensor) -> float:
    """The rate at which the slowest mode of a generator Float64[V, V] decays on the ids of
    ``alphabet`` Bool[V]: the spectral gap, the second smallest real part of -R's eigenvalues.

    1 for a single id. Raises ``ValueError`` if a second mode does not decay at all.
    """
    ids = alphabet.nonzero().squeeze(1)
    if len(ids) == 1:
        return 1.0
    decay = -torch.linalg.eigvals(generator[ids.unsqueeze(1), ids]).real
    gap = float(decay.sort().values[1])
    if gap <= 1e-12 * float(decay.max()) or gap <= 0:
        raise ValueError(
            f"generator: among the ids {ids.tolist()} what a token was is never forgotten, because "
            "they fall into parts that no rate connects; give rates by which all of them come to "
            "one law"
        )
    return gap


def _apart(num: int) -> Tensor:
    index = torch.arange(num, dtype=torch.float64)
    return (index.unsqueeze(1) - index).abs()


def _with_diagonal(rates: Tensor) -> Tensor:
    return rates - torch.diag(rates.sum(dim=-1))


def _first(wrong: Tensor) -> list[int] | None:
    """Indices of the first True, None if there is none."""
    return wrong.nonzero()[0].tolist() if wrong.any() else None

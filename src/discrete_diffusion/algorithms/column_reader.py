"""``ColumnReader``: predictions with most columns as earlier calls computed them."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.block_reader import BlockReader, reason_against_columns
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm

logger = logging.getLogger(__name__)


@cache
def _log_approximate(refresh: int) -> None:
    """Log once that samples are approximate."""
    logger.info("sampling.refresh=%d is approximate: columns are kept between calls", refresh)


def check_refresh(algorithm: TokenAlgorithm, refresh: int) -> None:
    """Raise ``ValueError`` if ``ColumnReader`` cannot predict for an algorithm."""
    reason = reason_against_columns(algorithm)
    if algorithm.blocks is not None:
        reason = f"{algorithm.name} keeps finished blocks, exactly, without it"
    elif not algorithm.process.absorbing:
        reason = f"{algorithm.process.name} noise changes most columns in every call"
    elif getattr(algorithm.backbone, "causal", False):
        reason = "the network is causal, which calls of some columns do not heed"
    if reason is not None:
        raise ValueError(f"sampling.refresh={refresh}: {reason}; leave it out")


class ColumnReader(BlockReader):
    """``denoise`` that computes few columns in most calls, approximately, without ``blocks``.

    Every ``refresh``-th call of a sample computes all columns. The calls between compute those that
    are predicted, and those whose tokens changed since they were computed. They see the others as
    these were kept, which is before later tokens and at another time (dKV-Cache, arXiv 2505.15781;
    Fast-dLLM, arXiv 2505.22618). Other arguments as for ``BlockReader``.
    """

    def __init__(self, *given: Any, refresh: int) -> None:
        self.refresh = refresh
        _log_approximate(refresh)
        super().__init__(*given)

    def _start(self, x: Tensor) -> None:
        self.seen, self.num_calls = self.algorithm.layout.is_real(x), x.new_zeros(len(x))
        self.new = torch.zeros_like(self.seen)  # columns to compute
        positions = torch.arange(x.shape[1], device=x.device)
        groups = torch.zeros_like(positions)
        self.caches = [self.algorithm.backbone.new_cache(positions, groups, len(x))]  # type: ignore[operator]

    def _keys(self, rows: Tensor, tokens: Tensor, here: Tensor) -> Tensor:
        # all columns are computed, or some
        some = self.num_calls[rows] % self.refresh > 0
        new = here | (tokens != self.tokens_read[rows]) | ~some.unsqueeze(1)
        self.new[rows] = new & self.seen[rows]
        self.tokens_read[rows] = tokens
        self.num_calls[rows] += 1
        return some.unsqueeze(1).long()

    def _output(
        self, key: tuple[int, ...], rows: Tensor, tokens: Tensor, sigma: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        new, (cache,) = self.new[rows], self.caches
        num = new.sum(dim=1)
        self.num_columns[rows] += num
        # the first column once more in rows that have fewer
        index = new.byte().argsort(dim=1, descending=True, stable=True)[:, : int(num.max())]
        index = torch.where(new.gather(1, index), index, index[:, :1])
        whole = torch.equal(rows, torch.arange(len(self.seen), device=rows.device))
        cache.begin_at(None if whole else rows, index, self.seen[rows])
        return self._call(cache, rows, tokens.gather(1, index), sigma), new.cumsum(dim=1) - 1

"""``BlockReader``: predictions of the block in work, with the columns before it computed once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.many_ids import LazyLogD
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on
from discrete_diffusion.contracts import Conditions


def reason_against_cache(algorithm: TokenAlgorithm, conditions: Conditions) -> str | None:
    """Return why ``BlockReader`` cannot predict as ``algorithm.denoise`` does, or None."""
    if algorithm.blocks is None or not algorithm.is_block_causal:
        return f"{algorithm.name} has no blocks that see earlier ones alone"
    reason = reason_against_columns(algorithm)
    return "document_idxs is of all columns" if "document_idxs" in conditions else reason


def reason_against_columns(algorithm: TokenAlgorithm) -> str | None:
    """Return why a network cannot compute some columns alone, as ``denoise`` does, or None."""
    if not hasattr(algorithm.backbone, "new_cache") or not algorithm.takes("cache"):
        return f"{type(algorithm.backbone).__name__} has no new_cache"
    if not algorithm.reads_backbone:
        return f"{type(algorithm).__name__} has a denoise, logits or apply_backbone of its own"
    return None


class BlockReader:
    """``denoise`` of the blocks in work of samples whose earlier blocks are finished.

    The network is called with the columns of that block alone; it keeps keys and values of the
    columns before (``models.key_value_cache``). The block finished last is read in the first call
    of the next one. Columns are taken from the cache only while their tokens are those that were
    read, so samples may change at any position, or change places. Nothing is kept of a network
    conditioned on t, but columns behind the block are left out.

    ``x``: Int[B, L], the samples at their start; ``real``: Bool[B, L]; ``conditions``: of all B.
    ``num_columns``: Int[B], columns computed so far for each sample.
    """

    def __init__(
        self, algorithm: TokenAlgorithm, x: Tensor, real: Tensor, conditions: Conditions
    ) -> None:
        self.algorithm, self.real = algorithm, real
        self.conditions = algorithm.accepted(conditions)
        self.num_columns = x.new_zeros(len(x))
        self.tokens_read = torch.full_like(x, -1)  # k-th: of the k-th column
        self._start(x)

    def _start(self, x: Tensor) -> None:
        blocks, backbone = self.algorithm.blocks, self.algorithm.backbone
        assert blocks is not None
        # samples with the same columns share a cache
        patterns, self.kind = self.algorithm.layout.is_real(x).unique(dim=0, return_inverse=True)
        self.place = torch.zeros_like(self.kind)  # of a sample in its cache
        self.rows, self.columns, self.groups, self.caches = [], [], [], []
        for k, pattern in enumerate(patterns):
            rows, columns = (self.kind == k).nonzero().squeeze(1), pattern.nonzero().squeeze(1)
            self.rows.append(rows)
            self.place[rows] = torch.arange(len(rows), device=rows.device)
            self.columns.append(columns)
            self.groups.append(blocks[columns].tolist())
            self.caches.append(backbone.new_cache(columns, blocks[columns], len(rows)))  # type: ignore[operator]

    def lazy_log_d0(self, rows: Tensor, x: Tensor, t: Tensor, here: Tensor) -> LazyLogD:
        """log D at the N positions ``here`` Bool[R, L] of x Int[R, L]: Float[N, V], when read.

        ``rows``: Int[R], the sample of each row; ``t``: Float[R], times.
        """
        algorithm, some = self.algorithm, here.any(dim=1)
        support, head = algorithm.layout.support, algorithm.states_head
        if not some.all():  # rows without a position
            rows, x, t, here = rows[some], x[some], t[some], here[some]
        row, position = here.nonzero(as_tuple=True)
        if not len(rows):
            return LazyLogD(t.new_empty(0, support.shape[1]), position, support)
        tokens, sigma = algorithm.backbone_input(x, t, self.real[rows])
        # one call for the samples of equal keys
        calls: dict[tuple[int, ...], list[int]] = {}
        for k, key in enumerate(self._keys(rows, tokens, here).tolist()):
            calls.setdefault(tuple(key), []).append(k)
        values: Tensor | None = None
        wanted: Any = slice(None)
        turn = row
        for key, which in calls.items():
            some = torch.tensor(which, device=x.device)
            if len(calls) > 1:  # the positions of these rows
                wanted = torch.isin(row, some)
                turn = torch.searchsorted(some, row[wanted])
            noise = None if sigma is None else sigma[some]
            output, column = self._output(key, rows[some], tokens[some], noise)
            part = output[turn, column[turn, position[wanted]]].float()
            values = part.new_empty(len(row), part.shape[1]) if values is None else values
            values[wanted] = part
        assert values is not None  # no call without rows
        if head is None:
            values = log_softmax_on(values, support[position])
        return LazyLogD(values, position, support, head)

    def _keys(self, rows: Tensor, tokens: Tensor, here: Tensor) -> Tensor:
        """Keys Int[R, n]; samples of equal ones share a call: equal columns, the same blocks."""
        blocks = self.algorithm.blocks
        assert blocks is not None
        first = torch.where(here, blocks, blocks[-1]).amin(dim=1)
        last = torch.where(here, blocks, blocks[0]).amax(dim=1)
        return torch.stack([self.kind[rows], first, last], dim=1)

    def _output(
        self, key: tuple[int, ...], rows: Tensor, tokens: Tensor, sigma: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Last states of n columns, Float[R, n, D], if ``states_head``, else logits, Float[R, n,
        V]; and the column of each position among them, Int[R, L].

        ``tokens``: Int[R, L], the network's input for the samples ``rows`` Int[R] of equal ``key``.
        """
        # columns of the blocks
        (kind, first, last), algorithm, read = key, self.algorithm, self.tokens_read
        cache, groups, columns = self.caches[kind], self.groups[kind], self.columns[kind]
        begin, end = bisect_left(groups, first), bisect_right(groups, last)
        column = torch.searchsorted(columns[begin:end], torch.arange(tokens.shape[1]).to(columns))
        tokens = tokens[:, columns[:end]]
        # columns that are kept of all these samples, and those to keep
        start, num_kept = 0, 0
        if not (algorithm.reads_own_block and algorithm.time_conditioning):
            same = (tokens[:, :begin] == read[rows, :begin]).all(dim=0)
            start = begin
            if not bool(same.all()):  # from the first block with a change
                changed = self.groups[kind][int(same.byte().argmin())]
                start = bisect_left(self.groups[kind], changed)
            num_kept = begin if algorithm.reads_own_block else end
            if start < num_kept:
                read[rows, start:num_kept] = tokens[:, start:num_kept]
            read[rows, num_kept:] = -1
        whole = torch.equal(rows, self.rows[kind])
        self.num_columns[rows] += end - start
        cache.begin(None if whole else self.place[rows], start, end, num_kept)
        output = self._call(cache, rows, tokens[:, start:], sigma)
        return output[:, begin - start :], column.expand(len(rows), -1)

    def _call(self, cache: Any, rows: Tensor, tokens: Tensor, sigma: Tensor | None) -> Tensor:
        """Call the network with the new columns ``tokens`` Int[R, n] of a prepared cache."""
        algorithm = self.algorithm
        given: dict[str, Any] = {name: value[rows] for name, value in self.conditions.items()}
        given["cache"] = cache
        given |= {} if algorithm.states_head is None else {"states": True}
        output: Tensor = algorithm.call(algorithm.backbone, tokens, sigma, given)
        return output

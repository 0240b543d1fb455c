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
    if not hasattr(algorithm.backbone, "new_cache") or not algorithm.takes("cache"):
        return f"{type(algorithm.backbone).__name__} has no new_cache"
    if not algorithm.reads_backbone:
        return f"{type(algorithm).__name__} has a denoise, logits or apply_backbone of its own"
    return "document_idxs is of all columns" if "document_idxs" in conditions else None


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
        blocks, backbone = algorithm.blocks, algorithm.backbone
        assert blocks is not None
        # samples with the same columns share a cache
        patterns, self.kind = algorithm.layout.is_real(x).unique(dim=0, return_inverse=True)
        self.place = torch.zeros_like(self.kind)  # of a sample in its cache
        self.rows, self.columns, self.groups, self.caches = [], [], [], []
        for k, pattern in enumerate(patterns):
            rows, columns = (self.kind == k).nonzero().squeeze(1), pattern.nonzero().squeeze(1)
            self.rows.append(rows)
            self.place[rows] = torch.arange(len(rows), device=rows.device)
            self.columns.append(columns)
            self.groups.append(blocks[columns].tolist())
            self.caches.append(backbone.new_cache(columns, blocks[columns], len(rows)))  # type: ignore[operator]
        self.num_columns = torch.zeros_like(self.kind)
        self.tokens_read = torch.full_like(x, -1)  # k-th: of the k-th column

    def lazy_log_d0(self, rows: Tensor, x: Tensor, t: Tensor, here: Tensor) -> LazyLogD:
        """log D at the N positions ``here`` Bool[R, L] of x Int[R, L]: Float[N, V], when read.

        ``rows``: Int[R], the sample of each row; ``t``: Float[R], times.
        """
        algorithm, blocks, some = self.algorithm, self.algorithm.blocks, here.any(dim=1)
        assert blocks is not None
        support, head = algorithm.layout.support, algorithm.states_head
        if not some.all():  # rows without a position
            rows, x, t, here = rows[some], x[some], t[some], here[some]
        row, position = here.nonzero(as_tuple=True)
        if not len(rows):
            return LazyLogD(t.new_empty(0, support.shape[1]), position, support)
        real = self.real[rows]
        tokens, sigma = algorithm.backbone_input(x, t, real)
        # one call for the samples with equal columns that are in the same block
        first = torch.where(here, blocks, blocks[-1]).amin(dim=1)
        last = torch.where(here, blocks, blocks[0]).amax(dim=1)
        calls: dict[tuple[int, ...], list[int]] = {}
        for k, call in enumerate(torch.stack([self.kind[rows], first, last], dim=1).tolist()):
            calls.setdefault(tuple(call), []).append(k)
        values: Tensor | None = None
        wanted: Any = slice(None)
        turn = row
        for (kind, begin, end), which in calls.items():
            groups, some = self.groups[kind], torch.tensor(which, device=x.device)
            if len(calls) > 1:  # the positions of these rows
                wanted = torch.isin(row, some)
                turn = torch.searchsorted(some, row[wanted])
            span = slice(bisect_left(groups, begin), bisect_right(groups, end))
            noise = None if sigma is None else sigma[some]
            output = self._output(kind, rows[some], tokens[some], noise, span)
            column = torch.searchsorted(self.columns[kind][span], position[wanted])
            part = output[turn, column].float()
            values = part.new_empty(len(row), part.shape[1]) if values is None else values
            values[wanted] = part
        assert values is not None  # no call without rows
        if head is None:
            values = log_softmax_on(values, support[position])
        return LazyLogD(values, position, support, head)

    def _output(
        self, kind: int, rows: Tensor, tokens: Tensor, sigma: Tensor | None, span: slice
    ) -> Tensor:
        """Last states of the columns ``span`` of a cache, Float[R, n, D], if ``states_head``;
        else logits, Float[R, n, V].

        ``tokens``: Int[R, L], the network's input for the samples ``rows`` Int[R].
        """
        algorithm, cache, begin, end = self.algorithm, self.caches[kind], span.start, span.stop
        tokens, read = tokens[:, self.columns[kind][:end]], self.tokens_read
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
        given: dict[str, Any] = {name: value[rows] for name, value in self.conditions.items()}
        given["cache"] = cache
        given |= {} if algorithm.states_head is None else {"states": True}
        output = algorithm.call(algorithm.backbone, tokens[:, start:], sigma, given)
        return output[:, begin - start :]

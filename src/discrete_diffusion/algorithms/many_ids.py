"""Losses and predictions from a network's last hidden states, for vocabularies of many ids.

The logits of all positions, Float[B, L, V], and what autograd saves of a softmax, take gigabytes at
V = 50,000. Here the head is applied to one chunk at a time of the positions that count, and a
sampler's network to the positions that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from discrete_diffusion.categorical import log_softmax_on, neg_inf
from discrete_diffusion.models.calling import BackboneCall

MANY_IDS = 512
"""Fewest ids of a vocabulary for which logits are computed in chunks: with as many it is faster
even if every position counts (on a CPU, states of width 128)."""

AT_ONCE = 2**23
"""Number of logits in a chunk, 32 MiB in float32: half or twice as many take as long."""

ON_GPU = 8
"""Factor on ``AT_ONCE`` on a GPU. With it a step of ``dit_base`` on an H100 takes .82 of the time
(``python benchmarks/base_text.py --device cuda --at-once``)."""

LEAST_ROWS = 4
"""Fewest rows of a product with the head: of 1 to 3 rows the library's sums have other bits."""

_Logits = TypeVar("_Logits", bound=Callable[..., Tensor])


def passes_states(logits: _Logits) -> _Logits:
    """Mark a method ``logits`` that returns the backbone's output unchanged; with the condition
    ``states`` it then returns the last states. An override counts as unmarked."""
    logits.passes_states = True  # type: ignore[attr-defined]
    return logits


def head_of(backbone: nn.Module, call: BackboneCall, vocab_size: int) -> nn.Linear | None:
    """Output layer of a backbone that can leave it out, if there are many ids; otherwise None.
    With ``states=True`` the ``forward`` of such a backbone returns its last states, Float[B, L, D],
    and ``head(states)`` is its usual output at legal ids."""
    head = getattr(backbone, "head", None)
    offers = "states" in call.conditions and isinstance(head, nn.Linear)
    return head if offers and vocab_size >= MANY_IDS else None


class LazyLogD(NamedTuple):
    """log D at N positions, Float[N, V], of which rows are computed when they are read.

        D_n = softmax of head(values_n) over the legal ids of position n

    ``values``: Float[N, D], states; without ``head`` Float[N, V], log D itself. ``position``:
    Int[N]. ``support``: Bool[L, V], the legal ids.
    """

    values: Tensor
    position: Tensor
    support: Tensor
    head: nn.Linear | None = None

    def read(self, rows: Any = slice(None)) -> Tensor:
        """Compute ``rows``, an index of n of the N: Float[n, V]."""
        values = self.values[rows]
        if self.head is None:
            return values
        # with rows of zeros up to the fewest of a product
        filled = F.pad(values, (0, 0, 0, max(0, LEAST_ROWS - len(values))))
        logits = self.head(filled.to(self.head.weight.dtype))[: len(values)].float()
        return log_softmax_on(logits, legal_at(self.support, self.position[rows]))


def legal_at(support: Tensor, position: Any) -> Tensor:
    """Rows of ``support`` Bool[L, V] at N positions: Bool[N, V], or Bool[1, V] if all are one."""
    return support[:1] if support.stride(0) == 0 else support[position]


def nll_of_states(
    head: nn.Linear, states: Tensor, x0: Tensor, counted: Tensor, support: Tensor
) -> Tensor:
    """-log D_l(x0_l) where ``counted``, 0 elsewhere: Float32[B, L], nats.

        D_l = softmax of head(states_l) over the legal ids of position l

    On the CPU other positions are left out; on a GPU their number would have to be read back.

    ``states``: Float[B, L, D]. ``x0``: Int[B, L]. ``counted``: Bool[B, L]. ``support``:
    Bool[L, V], the legal ids.
    """
    # rows of states to compute, Int[N]
    rows = torch.arange(counted.numel(), device=counted.device)
    if counted.device.type == "cpu":
        rows = rows[counted.flatten()]
    targets = _Targets(x0.flatten()[rows], rows % x0.shape[1], support)
    of_states = states.flatten(0, 1).index_select(0, rows)
    of_rows: Tensor = _NLL.apply(of_states, head.weight, head.bias, targets)
    nll = of_rows.new_zeros(counted.numel()).index_copy(0, rows, of_rows)
    return nll.view_as(x0).masked_fill(~counted, 0.0)


class _Targets(NamedTuple):
    """Clean ids Int[N], their positions Int[N], and the legal ids of each position, Bool[L, V]."""

    ids: Tensor
    position: Tensor
    support: Tensor


class _NLL(torch.autograd.Function):
    """log Z - y(x0) of logits y = W h + b, Z the sum of exp(y) over legal ids, in chunks of rows.

    The backward pass recomputes the logits of a chunk. If g is the gradient with respect to a row's
    result, that with respect to y is g (D - [id = x0]). Matrix products use the dtype of autocast,
    if it is on; later operations and the sums over rows use float32 at least.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, targets: _Targets
    ) -> Tensor:
        ctx.dtype, ctx.targets = product_type(weight), targets
        log_total = states.new_empty(len(states), dtype=torch.float32)
        nll = torch.empty_like(log_total)
        for part, logits in _row_chunks(states, weight.to(ctx.dtype), bias, targets):
            at_x0 = logits.gather(1, targets.ids[part, None]).squeeze(1)
            # log Z, with the largest logit taken out
            top = logits.amax(dim=1, keepdim=True)
            log_total[part] = logits.sub_(top).exp_().sum(dim=1).log() + top.squeeze(1)
            nll[part] = log_total[part] - at_x0
        ctx.save_for_backward(states, weight, bias, log_total)
        return nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, bias, log_total = ctx.saved_tensors
        targets, factor = ctx.targets, weight.to(ctx.dtype)
        slopes = Slopes.zeros(states, weight, states.dtype)
        for part, logits in _row_chunks(states, factor, bias, targets):
            # g (D - [id = x0])
            g = grad[part, None]
            slope = logits.sub_(log_total[part, None]).exp_().mul_(g)
            slope.scatter_add_(1, targets.ids[part, None], -g.to(slope))
            slopes.add(part, slope, states[part].to(ctx.dtype), factor)
        by_bias = None if bias is None else slopes.bias.to(bias)
        return slopes.states, slopes.weight.to(weight), by_bias, None


def _row_chunks(
    states: Tensor, weight: Tensor, bias: Tensor | None, targets: _Targets
) -> Iterator[tuple[slice, Tensor]]:
    """Yield slices of rows and their Float32[n, V] logits, which the next chunk overwrites."""
    # bfloat16 stands beside its logits in float32: half as many at once take as much memory
    at_once = AT_ONCE * ON_GPU if weight.is_cuda else AT_ONCE // (4 // weight.element_size() or 1)
    num, size = len(states), max(1, at_once // len(weight))
    states = states.to(weight)
    offset = states.new_zeros(1) if bias is None else bias.to(weight)
    # buffers for the products of every chunk, and for their logits in float32
    products = states.new_empty(min(size, num), len(weight))
    wide = products.float()
    for start in range(0, num, size):
        part = slice(start, min(start + size, num))
        logits = wide[: part.stop - start]
        torch.addmm(offset, states[part], weight.t(), out=products[: len(logits)])
        if wide is not products:
            logits.copy_(products[: len(logits)])
        legal = legal_at(targets.support, targets.position[part])
        yield part, logits.masked_fill_(~legal, neg_inf(torch.float32))


class Slopes(NamedTuple):
    """Gradients with respect to the states and, summed over rows, weight and bias of the head."""

    states: Tensor
    weight: Tensor
    bias: Tensor

    @classmethod
    def zeros(cls, states: Tensor, weight: Tensor, dtype: torch.dtype) -> Slopes:
        """Zero gradients; ``dtype``: that of the states' gradient. Sums are at least float32."""
        by_weight = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
        bias = by_weight.new_zeros(len(weight))
        return cls(torch.zeros_like(states, dtype=dtype), by_weight, bias)

    def add(
        self, part: slice | tuple[slice, slice], slope: Tensor, rows: Tensor, factor: Tensor
    ) -> None:
        """Add a chunk: states ``rows`` [..., D], and ``slope`` [..., V], gradient of its logits."""
        slope, rows = slope.flatten(0, -2), rows.flatten(0, -2)
        self.bias.add_(slope.sum(dim=0))
        slope = slope.to(factor)
        self.states[part] = (slope @ factor).view_as(self.states[part]).to(self.states)
        # weight += slope^T rows, for any types
        if self.weight.dtype == slope.dtype:
            self.weight.addmm_(slope.t(), rows)
            return
        num = len(self.weight) if slope.is_cuda else 2**12  # ids summed in float32 at once
        for of_ids, total in zip(slope.t().split(num), self.weight.split(num), strict=True):
            total.add_(of_ids @ rows)


def product_type(weight: Tensor) -> torch.dtype:
    """Dtype in which a linear layer computes: that of autocast, if on, else of its weight."""
    kind = weight.device.type
    autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if autocast else weight.dtype

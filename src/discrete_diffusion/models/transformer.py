"""Transformer blocks: attention, perceptron, adaLN-Zero, the embedded time, tokens of facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.config.values import check_divides, check_name
from discrete_diffusion.models.attention import Mask, apply_rotary, attend, causal_mask
from discrete_diffusion.models.key_value_cache import LayerCache

_Module = TypeVar("_Module", bound=nn.Module)


class MultiHeadSelfAttention(nn.Module):
    """softmax(q k^T / sqrt(d)) v over H heads, with one fused projection for q, k and v.

    ``causal``: position l sees positions <= l only. ``bias``: the projections have a bias.
    Raises ``ValueError`` if ``n_heads`` does not divide ``d_model``.
    """

    def __init__(
        self, d_model: int, n_heads: int, *, causal: bool = False, bias: bool = True
    ) -> None:
        super().__init__()
        check_divides(n_heads, d_model, f"d_model={d_model}")
        self.n_heads, self.causal = n_heads, causal
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        mask: Mask = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        cache: LayerCache | None = None,
        num_queries: int | None = None,
    ) -> Tensor:
        """x (B, L, D) -> (B, Q, D), for the first Q = ``num_queries`` columns; None for all L.

        ``mask``: Bool[B, 1, 1, L] or Bool[B or 1, 1, Q, L], True where a key may be seen; None if
        all may; or Float[B, H, Q, L], added to the scores; or a ``BlockMask``. A mask with a query
        axis replaces the mask of a causal layer.
        ``rotary``: the tables of a ``RotaryEmbedding`` for the L positions.
        ``cache``: the columns kept of earlier calls, which stand before x among the keys. A causal
        layer takes all L columns as queries, without ``mask``.
        """
        # queries, keys and values by head, turned by their positions
        q, k, v = rearrange(
            self.qkv(x), "b l (three h d) -> three b h l d", three=3, h=self.n_heads
        ).unbind(0)
        if rotary is not None:
            q, k = apply_rotary(q, rotary), apply_rotary(k, rotary)
        if cache is not None:
            k, v = cache.extend(k, v)
        q = q[:, :, :num_queries]

        # a mask of keys alone, or cached keys, need the causal mask written out
        causal = self.causal and q.shape[2] > 1
        if causal and (
            (mask is None and q.shape[2] < k.shape[2])
            or (isinstance(mask, Tensor) and mask.shape[2] == 1)
        ):
            mask = causal_mask(q.shape[2], k.shape[2], mask, device=q.device)

        # softmax over the keys, then heads side by side
        attended = attend(q, k, v, mask, causal=causal and mask is None)
        return self.out(rearrange(attended, "b h l d -> b l (h d)"))


class MultiHeadCrossAttention(nn.Module):
    """softmax(q k^T / sqrt(d)) v over H heads: queries of x, keys and values of a context.

    Raises ``ValueError`` if ``n_heads`` does not divide ``d_model``.
    """

    def __init__(self, *, d_model: int, context_dim: int, n_heads: int) -> None:
        super().__init__()
        check_divides(n_heads, d_model, f"d_model={d_model}")
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(context_dim, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Tensor,
        context: Tensor,
        mask: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        context_rotary: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """x (B, L, D), context (B, N, D') -> (B, L, D).

        ``mask``: Bool[B, 1, 1, N] or Bool[B or 1, 1, L, N], True where a key may be seen; None if
        all may. ``rotary``, ``context_rotary``: tables of the L and of the N positions.
        """
        # queries of x, keys and values of the context
        q = rearrange(self.query(x), "b l (h d) -> b h l d", h=self.n_heads)
        k, v = rearrange(
            self.key_value(context), "b n (two h d) -> two b h n d", two=2, h=self.n_heads
        ).unbind(0)
        if rotary is not None:
            q = apply_rotary(q, rotary)
        if context_rotary is not None:
            k = apply_rotary(k, context_rotary)
        return self.out(rearrange(attend(q, k, v, mask), "b h l d -> b l (h d)"))


def hidden_width(d_model: int, mlp_ratio: float) -> int:
    """Hidden width of a perceptron; ``ValueError`` if it is 0."""
    hidden = int(mlp_ratio * d_model)
    if hidden < 1:
        raise ValueError(f"mlp_ratio={mlp_ratio} leaves no hidden unit at d_model={d_model}")
    return hidden


ACTIVATIONS = {"gelu": "none", "gelu_tanh": "tanh"}
"""GELU of a perceptron, exact or approximated by tanh, and PyTorch's name of the approximation."""


class MLP(nn.Module):
    """Linear(GELU(Linear(x))), hidden width ``mlp_ratio * d_model``.

    ``activation``: one of ``ACTIVATIONS``; ``ValueError`` for another.
    """

    def __init__(self, d_model: int, mlp_ratio: float = 4, *, activation: str = "gelu") -> None:
        super().__init__()
        hidden = hidden_width(d_model, mlp_ratio)
        self.up = nn.Linear(d_model, hidden)
        check_name("model.activation", activation, ACTIVATIONS)
        self.activation = nn.GELU(approximate=ACTIVATIONS[activation])
        self.down = nn.Linear(hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        return self.down(self.activation(self.up(x)))


class TransformerBlock(nn.Module):
    """A pre-norm block: x <- x + dropout(attention(norm1(x))), x <- x + dropout(mlp(norm2(x))).

    ``norm``, ``mlp``: functions that build a norm and the perceptron.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        norm: Callable[[int], nn.Module],
        mlp: Callable[[], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.norm1 = norm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads)
        self.norm2 = norm(d_model)
        self.mlp = mlp()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """x (B, L, D) -> (B, L, D); ``rotary``: tables of the L positions."""
        x = x + self.dropout(self.attention(self.norm1(x), rotary=rotary))
        return x + self.dropout(self.mlp(self.norm2(x)))


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """x * (1 + scale) + shift, in one pass; x (B, L, D), shift and scale (B, 1, D)."""
    return torch.addcmul(shift, x, 1 + scale)


def zeroed(module: _Module) -> _Module:
    """Set all parameters of a module to 0, and return it."""
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return module


def zero_linear(in_features: int, out_features: int) -> nn.Linear:
    """Linear layer that starts as the constant 0."""
    return zeroed(nn.Linear(in_features, out_features))


class ChannelsFirstLinear(nn.Linear):
    """Linear layer that returns channels first, for all columns: x (B, L, D) -> (D', B L)."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias[:, None], self.weight, x.flatten(0, 1).T)


class AdaLNZeroBlock(nn.Module):
    """A pre-norm block steered by a conditioning vector c (B, cond_dim), adaLN-Zero of DiT
    (Peebles & Xie, arXiv 2212.09748).

        shift1, scale1, gate1, shift2, scale2, gate2 = Linear(c)        each (B, 1, D)
        x <- x + gate1 * dropout(attention(modulate(norm1(x), shift1, scale1)))
        x <- x + gate2 * dropout(mlp(modulate(norm2(x), shift2, scale2)))

    The linear layer starts at 0, so the block starts as the identity.

    ``norm_affine``: both norms have a learned scale and shift, in addition to those made of c.
    ``bias``: the norms have that shift, and the projections of the attention a bias.
    ``activation``: activation of the perceptron. ``cond_dim`` None: a plain pre-norm block.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        cond_dim: int | None,
        *,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        causal: bool = False,
        norm_affine: bool = True,
        norm_eps: float = 1e-5,
        bias: bool = True,
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        norm = partial(
            nn.LayerNorm, d_model, eps=norm_eps, elementwise_affine=norm_affine, bias=bias
        )
        self.norm1 = norm()
        self.attention = MultiHeadSelfAttention(d_model, n_heads, causal=causal, bias=bias)
        self.norm2 = norm()
        self.mlp = MLP(d_model, mlp_ratio, activation=activation)
        self.dropout = nn.Dropout(dropout)
        self.modulation = None if cond_dim is None else zero_linear(cond_dim, 6 * d_model)

    def forward(
        self,
        x: Tensor,
        c: Tensor | None,
        mask: Mask = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        cache: LayerCache | None = None,
        num_queries: int | None = None,
    ) -> Tensor:
        """x (B, L, D), c (B or 1, cond_dim) -> (B, Q, D) for the first Q = ``num_queries`` columns.

        ``num_queries`` None: all L. Other arguments as in the attention. A plain block ignores c.
        """
        # without c, a plain pre-norm block
        if self.modulation is None:
            branch = self.attention(self.norm1(x), mask, rotary, cache, num_queries)
            x = x[:, :num_queries] + self.dropout(branch)
            return x + self.dropout(self.mlp(self.norm2(x)))
        # six vectors of c, (B or 1, 1, D) each
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            self.modulation(c).unsqueeze(1).chunk(6, dim=-1)
        )
        # attention, then perceptron, each modulated before and gated after
        steered = modulate(self.norm1(x), shift1, scale1)
        branch = self.attention(steered, mask, rotary, cache, num_queries)
        x = torch.addcmul(x[:, :num_queries], gate1, self.dropout(branch))
        branch = self.mlp(modulate(self.norm2(x), shift2, scale2))
        return torch.addcmul(x, gate2, self.dropout(branch))


class AdaLNFinal(nn.Module):
    """modulate(norm(x), Linear(c)), the linear layer starting at 0; no residual, so no gate.

    ``bias``: the norm has a learned shift. ``cond_dim`` None: the norm alone, without c.
    """

    def __init__(self, d_model: int, cond_dim: int | None, *, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, bias=bias)
        self.modulation = None if cond_dim is None else zero_linear(cond_dim, 2 * d_model)

    def forward(self, x: Tensor, c: Tensor | None) -> Tensor:
        """x (B, L, D), c (B or 1, cond_dim) -> (B, L, D)."""
        if self.modulation is None:
            return self.norm(x)
        shift, scale = self.modulation(c).unsqueeze(1).chunk(2, dim=-1)
        return modulate(self.norm(x), shift, scale)


def corrupted_share(sigma: Tensor | float | None) -> Tensor | float:
    """Corrupted share of the tokens, t = 1 - exp(-sigma), for every schedule; None -> 0."""
    return 0.0 if sigma is None else -torch.expm1(-level_of(sigma))


def level_of(sigma: Tensor | float) -> Tensor:
    """Noise level as a tensor: () for a number, Float[B] for Float[B, 1], otherwise unchanged."""
    if not isinstance(sigma, Tensor):
        return torch.tensor(float(sigma))
    return sigma[:, 0] if sigma.ndim == 2 and sigma.shape[1] == 1 else sigma


def process_t(t: Tensor | float, batch_size: int, device: torch.device | str | None) -> Tensor:
    """One floating time per sample, Float[B], from a number, a 0-d, (1,) or (B,) tensor.

    Raises ``ValueError`` for any other shape.
    """
    if not isinstance(t, Tensor):
        return torch.full((batch_size,), float(t), device=device)
    if t.ndim > 1 or (t.ndim == 1 and t.shape[0] not in (1, batch_size)):
        raise ValueError(
            f"t has shape {tuple(t.shape)}; expected a number or a tensor of shape (), (1,) "
            f"or ({batch_size},), one time per sample"
        )
    # one time for all samples, or one for each
    t = t.to(device)
    return (t if t.is_floating_point() else t.float()).expand(batch_size)


def distinct_time(t: Tensor) -> Tensor:
    """Float[B] -> Float[1] if all samples have the same time, so that it is embedded once.

    On the CPU only: elsewhere the times would have to be read back. Not in an export, whose graph
    is the same for all values.
    """
    if torch.compiler.is_exporting() or t.device.type != "cpu" or len(t) < 2:
        return t
    return t[:1] if bool((t == t[0]).all()) else t


def sinusoid(t: Tensor, size: int) -> Tensor:
    """[cos(t f_k), sin(t f_k)] for f_k = 10000^(-2k/size): Float[B] -> Float[B, size].

    Computed in float32 at least: bfloat16 cannot tell t = 999 from t = 1000.
    """
    half = size // 2
    t = t.to(torch.promote_types(t.dtype, torch.float32))
    # frequencies from 1 down to 1 / 10,000
    exponent = torch.arange(half, device=t.device, dtype=t.dtype) / half
    angle = t.unsqueeze(-1) * torch.exp(-math.log(10_000.0) * exponent)  # (B, size/2)
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


class TimestepEmbedder(nn.Module):
    """Linear(SiLU(Linear(sinusoid(time_scale * t)))): Float[B] times in [0, 1] -> Float[B, D].

    ``time_scale``: with 1 the fastest of the sinusoids turns by one radian between t = 0 and
    t = 1, so that the two ends look alike (cosine similarity 0.97); 1000 spreads them.
    """

    def __init__(
        self, d_model: int, *, frequency_embedding_size: int = 256, time_scale: float = 1000.0
    ) -> None:
        super().__init__()
        if frequency_embedding_size < 2 or frequency_embedding_size % 2:
            raise ValueError(
                f"frequency_embedding_size={frequency_embedding_size}: expected an even number, "
                "half of it cosines and half sines"
            )
        self.frequency_embedding_size, self.time_scale = frequency_embedding_size, time_scale
        self.mlp = nn.Sequential(
            nn.Linear(frequency_embedding_size, d_model), nn.SiLU(), nn.Linear(d_model, d_model)
        )

    def forward(self, t: Tensor) -> Tensor:
        waves = sinusoid(t * self.time_scale, self.frequency_embedding_size)
        return self.mlp(waves.to(next(self.mlp.parameters()).dtype))


class FactTokens(nn.Module):
    """Tokens of the facts of each sample, and which facts are known.

        token_k = norm(mlp_k(numbers of fact k / sqrt(how many)))        (B, D)

    All tokens have one scale, and a fact of hundreds of numbers learns no faster than one of a few:
    otherwise one large step of its token could exclude it from the softmax for good. Before them
    stands a learned token that is always seen, also where no fact is known.

    ``sizes``: how many numbers each of the N facts has, S in all; NaN marks unknown numbers.
    ``dropout``: the share of facts that training hides, each independently, so that the network
    learns to predict from the rest.

    Raises ``ValueError`` for a fact without numbers.
    """

    def __init__(self, sizes: Sequence[int], d_model: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"condition={list(sizes)}: expected the size of each fact, above 0")
        self.sizes, self.dropout = tuple(sizes), dropout
        self.readers = nn.ModuleList()
        for size in self.sizes:
            first = nn.Linear(size, d_model)
            nn.init.normal_(first.weight)
            self.readers.append(nn.Sequential(first, nn.SiLU(), nn.Linear(d_model, d_model)))
        self.nothing = nn.Parameter(torch.randn(d_model))
        self.norm = nn.LayerNorm(d_model)

    def forward(
        self, condition: Tensor | None, keep: Tensor | None, batch_size: int
    ) -> tuple[Tensor, Tensor]:
        """(tokens (B, 1 + N, D), seen Bool[B, 1, 1, 1 + N]).

        ``condition``: Float[B, S]; None: nothing is known. ``keep``: Bool[B], False for samples
        whose facts are hidden; None for none.
        """
        nothing = self.nothing.expand(batch_size, 1, -1)
        if condition is None:
            always = torch.ones(batch_size, 1, 1, 1, dtype=torch.bool, device=nothing.device)
            return self.norm(nothing), always
        if condition.shape != (batch_size, sum(self.sizes)):
            raise ValueError(
                f"condition has shape {tuple(condition.shape)}; expected "
                f"({batch_size}, {sum(self.sizes)}), the numbers of {len(self.sizes)} facts"
            )
        # a fact is known if all its numbers are, and it is neither hidden nor dropped
        parts = condition.split(self.sizes, dim=1)
        known = torch.stack([~part.isnan().any(dim=1) for part in parts], dim=1)  # (B, N)
        if keep is not None:
            known = known & keep.unsqueeze(1)
        if self.training and self.dropout > 0:
            known = known & (torch.rand(known.shape, device=known.device) >= self.dropout)

        # one token per fact, behind the one that is always seen
        tokens = [
            reader(part.nan_to_num().to(nothing.dtype) / part.shape[1] ** 0.5)
            for reader, part in zip(self.readers, parts, strict=True)
        ]
        seen = torch.cat([torch.ones_like(known[:, :1]), known], dim=1)
        return self.norm(torch.stack([nothing.squeeze(1), *tokens], dim=1)), seen[:, None, None]


class FactAttention(nn.Module):
    """x + attention(norm(x), facts): cross-attention whose last layer starts at 0.

    So it starts as the identity, and a network without it is reproduced bit for bit.

    Source: the gated cross-attention of Flamingo (Alayrac et al., arXiv 2204.14198), the gate being
    the zeros of the last layer.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadCrossAttention(
            d_model=d_model, context_dim=d_model, n_heads=n_heads
        )
        zeroed(self.attention.out)

    def forward(self, x: Tensor, facts: tuple[Tensor, Tensor]) -> Tensor:
        """x (B, L, D), the result of ``FactTokens`` -> (B, L, D)."""
        tokens, seen = facts
        return x + self.attention(self.norm(x), tokens, seen)


class Facts(nn.Module):
    """Facts for a network of ``n_layers`` blocks: tokens, and an attention before every block.

    ``sizes``, ``dropout``: as in ``FactTokens``.
    """

    def __init__(
        self, sizes: Sequence[int], *, d_model: int, n_heads: int, n_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.tokens = FactTokens(sizes, d_model, dropout=dropout)
        self.attention = nn.ModuleList(FactAttention(d_model, n_heads) for _ in range(n_layers))

    def forward(
        self, condition: Tensor | None, keep: Tensor | None, batch_size: int
    ) -> Sequence[Callable[[Tensor], Tensor]]:
        """Functions (B, L, D) -> (B, L, D), one for the input of each block.

        ``condition``, ``keep``: as for ``FactTokens``.
        """
        facts = self.tokens(condition, keep, batch_size)
        return [partial(attention, facts=facts) for attention in self.attention]

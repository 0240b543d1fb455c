"""Text-to-text model through a few latent vectors.

    source ids -> encoder -> compression -> middle -> adapter -> decoder -> target ids
     (B, L)      (B, L, C)    (B, K, D)    (B, K, D)  (B, P, E)  (B, T, V)

Encoder and decoder are in ``text_models``; the parts between them are in this module and need only
torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor, nn

from continuous_states.networks.text_models import TextDecoder, TextEncoder
from discrete_diffusion.config import check_divides, check_name, check_whole_number
from discrete_diffusion.models import (
    MultiHeadCrossAttention,
    RotaryEmbedding,
    TransformerBlock,
    hidden_width,
)

POOLS = ("mean", "attention")
STOPS = ("random_normalized", "zero")

rms_norm = partial(nn.RMSNorm, eps=1e-6)
"""RMSNorm: x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich, arXiv 1910.07467)."""

_SHARPNESS = 4.0
"""Initial standard deviation of attention logits over states of unit scale. So a query first
attends to a few states, as the mean over all states hides a word that occurs once."""


class LatentEncoder(nn.Module):
    """Compression of the states of an encoder to K latent vectors.

        pool=mean:       z = rearrange(W2 GELU(W1 mean_l states_l), "(k d) -> k d")
        pool=attention:  z_k = W2 GELU(W1 (q_k + attention(q_k, states))), K learned queries q

    ``hidden_dim``: width C of the states. ``num_heads``: number of attention heads.
    With ``mean``, all K vectors are functions of one vector of width C.

    Raises ``ValueError`` for an unknown ``pool``, no latent vector, and if ``num_heads`` does not
    divide ``hidden_dim``.
    """

    def __init__(
        self,
        *,
        hidden_dim: int = 768,
        latent_dim: int = 256,
        latent_seq_len: int = 8,
        pool: str = "mean",
        num_heads: int = 4,
    ) -> None:
        super().__init__()
        check_name("model.pool", pool, POOLS)
        check_whole_number("model.latent_seq_len", latent_seq_len, least=1)
        check_whole_number("model.latent_dim", latent_dim, least=1)
        self.hidden_dim, self.latent_dim = hidden_dim, latent_dim
        self.latent_seq_len, self.pool = latent_seq_len, pool
        width = latent_dim * latent_seq_len
        # learned queries that attend to the states
        if pool == "attention":
            what = f"model.encoder.hidden_size={hidden_dim}"
            check_divides(num_heads, hidden_dim, what, key="model.num_heads")
            self.queries = nn.Parameter(0.1 * torch.randn(latent_seq_len, hidden_dim))
            self.attention = MultiHeadCrossAttention(
                d_model=hidden_dim, context_dim=hidden_dim, n_heads=num_heads
            )
            # the initial weights make logits of deviation 0.1 / 3
            with torch.no_grad():
                self.attention.query.weight.mul_(3 * _SHARPNESS / 0.1)
            width = latent_dim
        self.projection = nn.Sequential(
            nn.Linear(hidden_dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, width)
        )

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Compress states Float[B, L, C] to latents Float[B, K, D]. States where ``real`` Bool[B,
        L] is False are ignored."""
        # mean of the real states
        if self.pool == "mean":
            total = states.masked_fill(~real.unsqueeze(-1), 0.0).sum(dim=1)
            mean = total / real.sum(dim=1, keepdim=True).clamp(min=1)
            return rearrange(self.projection(mean), "b (k d) -> b k d", k=self.latent_seq_len)
        # a softmax over no keys is undefined: a text without tokens sees all of its padding
        keys = real | ~real.any(dim=1, keepdim=True)
        queries = repeat(self.queries, "k c -> b k c", b=len(states))
        pooled = self.attention(queries, states, mask=rearrange(keys, "b l -> b 1 1 l"))
        return self.projection(queries + pooled)


class SwiGLU(nn.Module):
    """Feed-forward layer down(dropout(SiLU(a) * b)) with (a, b) = up(x), both of width ``mlp_ratio
    * d_model`` (Shazeer, arXiv 2002.05202). Deviation: both halves have the full width, not two
    thirds of it as in the paper, and biases."""

    def __init__(self, *, d_model: int, mlp_ratio: float = 4, dropout: float = 0.0) -> None:
        super().__init__()
        hidden = hidden_width(d_model, mlp_ratio)
        self.up = nn.Linear(d_model, 2 * hidden)
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(self.dropout(F.silu(gate) * value))


class MiddleTransformer(nn.Module):
    """``num_layers`` blocks of RMSNorm, rotary attention and SwiGLU over the K latent vectors.

    The output is not normalised. Without ``use_rope``, permuted inputs give permuted outputs.

    Raises ``ValueError`` without a layer, if ``num_heads`` does not divide ``latent_dim``, or the
    width per head is odd and ``use_rope``.
    """

    def __init__(
        self,
        *,
        latent_dim: int = 256,
        num_layers: int = 4,
        num_heads: int = 4,
        ffn_multiplier: float = 4,
        dropout: float = 0.1,
        use_rope: bool = True,
        rope_base: float = 10_000.0,
    ) -> None:
        super().__init__()
        check_whole_number("model.num_layers", num_layers, least=1)
        check_divides(
            num_heads, latent_dim, f"model.latent_dim={latent_dim}", key="model.num_heads"
        )
        self.latent_dim = latent_dim
        # blocks without a norm behind the last
        self.blocks = nn.ModuleList(
            TransformerBlock(
                latent_dim,
                num_heads,
                norm=rms_norm,
                mlp=partial(SwiGLU, d_model=latent_dim, mlp_ratio=ffn_multiplier, dropout=dropout),
                dropout=dropout,
            )
            for _ in range(num_layers)
        )
        self.rotary = None
        if use_rope:
            self.rotary = RotaryEmbedding(d_model=latent_dim, n_heads=num_heads, base=rope_base)

    def forward(self, latents: Tensor) -> Tensor:
        """Map latents Float[B, K, D] to Float[B, K, D], each sample independently."""
        rotary = None
        if self.rotary is not None:
            rotary = self.rotary(torch.arange(latents.shape[1], device=latents.device))
        for block in self.blocks:
            latents = block(latents, rotary)
        return latents


class PrefixAdapter(nn.Module):
    """Adapter from K latent vectors to P prefix vectors of the decoder's width E, by learned
    queries.

        x = queries + dropout(attention(queries, z))                     (B, P, E)
        x <- x + dropout(swiglu(norm(x)))

    ``use_rope``: rotary positions of queries and latent vectors.

    Raises ``ValueError`` without a query, if ``num_heads`` does not divide ``decoder_dim``, or the
    width per head is odd and ``use_rope``.
    """

    def __init__(
        self,
        *,
        latent_dim: int = 256,
        decoder_dim: int = 640,
        prefix_len: int = 50,
        num_heads: int = 4,
        ffn_multiplier: float = 4,
        dropout: float = 0.1,
        use_rope: bool = True,
        rope_base: float = 10_000.0,
    ) -> None:
        super().__init__()
        check_whole_number("model.prefix_len", prefix_len, least=1)  # whose last predicts token 0
        what = f"model.decoder.hidden_size={decoder_dim}"
        check_divides(num_heads, decoder_dim, what, key="model.num_heads")
        # queries read the latent vectors
        self.latent_dim, self.decoder_dim = latent_dim, decoder_dim
        self.queries = nn.Parameter(0.02 * torch.randn(prefix_len, decoder_dim))
        self.attention = MultiHeadCrossAttention(
            d_model=decoder_dim, context_dim=latent_dim, n_heads=num_heads
        )
        # a SwiGLU layer after the attention
        self.norm = rms_norm(decoder_dim)
        self.mlp = SwiGLU(d_model=decoder_dim, mlp_ratio=ffn_multiplier, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.rotary = None
        if use_rope:
            self.rotary = RotaryEmbedding(d_model=decoder_dim, n_heads=num_heads, base=rope_base)

    def forward(self, latents: Tensor) -> Tensor:
        """Float[B, K, D] -> Float[B, P, E]."""
        x = repeat(self.queries, "p e -> b p e", b=len(latents))
        # positions of queries and latent vectors
        tables = context_tables = None
        if self.rotary is not None:
            tables = self.rotary(torch.arange(x.shape[1], device=x.device))
            context_tables = self.rotary(torch.arange(latents.shape[1], device=x.device))
        read = self.attention(x, latents, rotary=tables, context_rotary=context_tables)
        x = x + self.dropout(read)
        return x + self.dropout(self.mlp(self.norm(x)))


class StopLatent(nn.Module):
    """K latent vectors that stand for the end of a text.

    ``init``: ``random_normalized``, random rows of norm 1 from ``seed``, or ``zero``.
    ``learnable``: if true, the vectors are a parameter, otherwise a constant buffer; either is
    ``value`` in the state dict.

    Raises ``ValueError`` for an unknown ``init``.
    """

    value: Tensor

    def __init__(
        self,
        *,
        latent_dim: int = 256,
        latent_seq_len: int = 8,
        init: str = "random_normalized",
        seed: int = 1337,
        learnable: bool = True,
    ) -> None:
        super().__init__()
        check_name("model.stop_latent.init", init, STOPS)
        self.latent_dim, self.latent_seq_len = latent_dim, latent_seq_len
        # a fixed seed: all models start with the same rows
        value = torch.zeros(latent_seq_len, latent_dim)
        if init == "random_normalized":
            generator = torch.Generator().manual_seed(seed)
            rows = torch.randn(value.shape, generator=generator, device="cpu")
            value.copy_(F.normalize(rows, dim=-1))
        if learnable:
            self.value = nn.Parameter(value)
        else:
            self.register_buffer("value", value)

    def forward(self) -> Tensor:
        """Latents Float[K, D]."""
        return self.value


_SMALLEST_NORM = 1e-3
"""Smallest norm by which a row is divided, as the gradient at a row of zeros would be unbounded."""


def unit_rows(latents: Tensor) -> Tensor:
    """Normalise each latent vector, z / |z|: (..., K, D) -> (..., K, D)."""
    return F.normalize(latents, dim=-1, eps=_SMALLEST_NORM)


@dataclass(frozen=True)
class LatentOutput:
    """Output of ``LatentSpaceModel``. ``source_latents``: Float[B, K, D], from the encoder.
    ``latents``: Float[B, K, D], from the middle. ``logits``: Float[B, T, V]; those at index t
    predict target token t."""

    source_latents: Tensor
    latents: Tensor
    logits: Tensor


class LatentSpaceModel(nn.Module):
    """A text encoder, a few latent vectors and a text decoder.

        z_in = compression(encoder(source))                              (B, K, D)
        z_out = middle(z_in)                                             (B, K, D)
        prefix = prefix_norm(adapter(z_out / |z_out|, per vector))       (B, P, E)
        logits = decoder([prefix, target]), from prefix position P-1 on  (B, T, V)

    The parts are the attributes ``encoder``, ``compression``, ``middle``, ``adapter``,
    ``prefix_norm``, ``stop_latent`` and ``decoder``.

    Deviation: the compression is trained like the other parts; in the public code it keeps its
    random weights.
    Deviation: the stop latent is learned; in the public code it is a buffer.
    Deviation: attention turns and mixes each head by itself; the public code mixes the heads of
    tokens.
    Deviation: the prefix is not turned by its index after ``prefix_norm``.
    Deviation: ``num_unfrozen_layers`` belongs to the text encoder, and None, all of its layers, is
    the default instead of 0.

    Raises ``ValueError`` if the widths of the parts do not fit each other.
    """

    def __init__(
        self,
        *,
        encoder: TextEncoder,
        decoder: TextDecoder,
        compression: LatentEncoder,
        middle: MiddleTransformer,
        adapter: PrefixAdapter,
        stop_latent: StopLatent,
    ) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.compression, self.middle, self.adapter = compression, middle, adapter
        self.prefix_norm = rms_norm(adapter.decoder_dim)
        self.stop_latent = stop_latent
        # the widths of the parts must fit each other
        latent = [f"{part}.latent_dim" for part in ("compression", "middle", "adapter")]
        shared = {
            "states": ["encoder.hidden_size", "compression.hidden_dim"],
            "latent vectors": [*latent, "stop_latent.latent_dim"],
            "sequences of latent vectors": [
                "compression.latent_seq_len",
                "stop_latent.latent_seq_len",
            ],
            "embeddings": ["adapter.decoder_dim", "decoder.hidden_size"],
        }
        for what, names in shared.items():
            widths = [attrgetter(name)(self) for name in names]
            if len({*widths}) > 1:
                found = ", ".join(f"{n}={width}" for n, width in zip(names, widths, strict=True))
                raise ValueError(f"the parts disagree on their {what}: {found}; make them equal")

    def encode(self, source: Tensor, real: Tensor) -> Tensor:
        """Encode source Int[B, L], where ``real`` Bool[B, L], as latents Float[B, K, D]."""
        return self.compression(self.encoder(source, real), real)

    def with_stop(self, latents: Tensor) -> Tensor:
        """Append the stop latent to latents Float[B, K, D]; returns Float[B + 1, K, D]."""
        return torch.cat([latents, self.stop_latent().to(latents.dtype).unsqueeze(0)])

    def prefix(self, latents: Tensor) -> Tensor:
        """Compute prefix embeddings Float[B, P, E] of latents Float[B, K, D] of any scale."""
        return self.prefix_norm(self.adapter(unit_rows(latents)))

    def token_logits(self, prefix: Tensor, target: Tensor) -> Tensor:
        """Logits Float[B, T, V] of the tokens of target Int[B, T], given the prefix Float[B, P, E].
        The decoder reads the prefix and the tokens 0..T-2; its outputs from position P-1 on are
        returned. As it is causal, padding after a target does not change the logits of its
        tokens."""
        # the last prefix position predicts the first token
        embedded = self.decoder.embed(target[:, :-1])
        joined = torch.cat([prefix.to(embedded.dtype), embedded], dim=1)
        return self.decoder(joined, num_logits=target.shape[1])

    def forward(self, source: Tensor, source_real: Tensor, target: Tensor) -> LatentOutput:
        """Predict target Int[B, T], padded at the end, from source Int[B, L], where ``source_real``
        Bool[B, L]."""
        source_latents = self.encode(source, source_real)
        latents = self.middle(source_latents)
        logits = self.token_logits(self.prefix(latents), target)
        return LatentOutput(source_latents, latents, logits)

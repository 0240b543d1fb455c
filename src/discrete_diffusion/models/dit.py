"""A transformer over plain token sequences: rotary positions, adaLN-Zero conditioning."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.config.values import check_name
from discrete_diffusion.models.attention import KERNELS, Mask, RotaryEmbedding, Visibility
from discrete_diffusion.models.calling import ColumnPacking, pack_columns
from discrete_diffusion.models.key_value_cache import KeyValueCache
from discrete_diffusion.models.transformer import (
    AdaLNFinal,
    AdaLNZeroBlock,
    TimestepEmbedder,
    corrupted_share,
    distinct_time,
    level_of,
    process_t,
    zero_linear,
)

SIGMA_INPUTS = ("share", "sigma")
LARGEST_SIGMA = -math.log(1e-3)
"""Noise level up to which networks that embed sigma itself were trained: the log-linear schedule of
MDLM, SEDD and Duo ends at alpha = 1e-3."""

_LEAST_FLEX_HEAD = 16
"""Fewest features of a head that PyTorch's flex attention takes on a GPU."""


class DiT(nn.Module):
    """Diffusion transformer (Peebles & Xie, arXiv 2212.09748) on tokens of any length.

        x = token_emb(x_t)                                               (B, L, D)
        c = SiLU(timestep_embedder(1 - exp(-sigma)))                     (B, cond_dim)
        x = block(x, c), with rotary queries and keys                    n_blocks times
        logits = head(final(x, c))                                       (B, L, V)

    ``causal``: position l sees positions <= l only, for autoregressive use; without it, the
    condition ``group_idxs`` makes the attention block-causal.
    ``tie_word_embeddings``: the head shares the embedding's weights; otherwise it starts at 0.
    ``pad_id``: an id that is neither attended nor predicted; None if the data has none.
    ``cond_dim``: width of c; None means ``hidden_size``.
    ``bias``: the norms and the projections of the attention have a bias. ``activation``: activation
    of the perceptrons, ``gelu`` or ``gelu_tanh``.
    ``sigma_input``: the embedded number: the corrupted ``share``, 1 - exp(-sigma), or ``sigma``
    itself, at most ``LARGEST_SIGMA``.
    ``adaln``: False leaves c out: plain pre-norm blocks, which read no noise level.
    ``attention``: ``sdpa`` hides blocks and documents from each other by a mask; ``flex`` skips
    them on a GPU, by PyTorch's flex attention, and uses the same mask elsewhere.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        n_blocks: int,
        n_heads: int,
        cond_dim: int | None = None,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        frequency_embedding_size: int = 256,
        time_scale: float = 1000.0,
        causal: bool = False,
        tie_word_embeddings: bool = False,
        pad_id: int | None = None,
        bias: bool = True,
        activation: str = "gelu",
        sigma_input: str = "share",
        adaln: bool = True,
        attention: str = "sdpa",
    ) -> None:
        super().__init__()
        cond_dim = hidden_size if cond_dim is None else cond_dim
        check_name("model.sigma_input", sigma_input, SIGMA_INPUTS)
        check_name("model.attention", attention, KERNELS)
        if pad_id is not None and not 0 <= pad_id < vocab_size:
            raise ValueError(f"pad_id={pad_id} is outside the vocabulary 0..{vocab_size - 1}")
        self.pad_id, self.causal, self.sigma_input = pad_id, causal, sigma_input
        self.attention = attention

        # embedder
        self.token_embedding = nn.Embedding(vocab_size, hidden_size)
        self.timestep_embedder = (
            TimestepEmbedder(
                cond_dim, frequency_embedding_size=frequency_embedding_size, time_scale=time_scale
            )
            if adaln
            else None
        )
        # blocks, which start as the identity
        self.blocks = nn.ModuleList(
            AdaLNZeroBlock(
                hidden_size,
                n_heads,
                cond_dim if adaln else None,
                mlp_ratio=mlp_ratio,
                dropout=dropout,
                causal=causal,
                bias=bias,
                activation=activation,
            )
            for _ in range(n_blocks)
        )
        self.rotary = RotaryEmbedding(d_model=hidden_size, n_heads=n_heads)
        if attention == "flex" and self.rotary.head_dim < _LEAST_FLEX_HEAD:
            raise ValueError(
                f"model.attention=flex needs heads of at least {_LEAST_FLEX_HEAD} features; "
                f"model.hidden_size={hidden_size} has {self.rotary.head_dim} in each of "
                f"model.n_heads={n_heads}: take fewer heads, or model.attention=sdpa"
            )
        # head, which starts at 0; a tied one starts small, or the first logits would have the
        # scale of sqrt(hidden_size)
        self.final = AdaLNFinal(hidden_size, cond_dim if adaln else None, bias=bias)
        self.head = zero_linear(hidden_size, vocab_size)
        if tie_word_embeddings:
            nn.init.normal_(self.token_embedding.weight, std=0.02)
            self.head.weight = self.token_embedding.weight

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        *,
        group_idxs: Tensor | None = None,
        context: Tensor | None = None,
        cache: KeyValueCache | None = None,
        packing: ColumnPacking | None = None,
        states: bool = False,
        document_idxs: Tensor | None = None,
    ) -> Tensor:
        """x_t Int[B, L], sigma Float[B] or None (read as 0) -> logits Float[B, L, V].

        Columns that are PAD in the whole batch are left out of the computation.

        ``group_idxs``: Int[B, L] or Int[L], the block of each position; position i then sees
        position j iff group[j] <= group[i]. If it is expanded from one row, all samples share one
        mask.
        ``context``: Int[B, L], the clean sequence, with ``group_idxs``: what each block sees of
        earlier blocks is their clean tokens instead of x_t (block diffusion, arXiv 2503.09573). One
        call then gives the logits of all blocks; without ``context``, x_t with clean earlier blocks
        gives the logits of one.
        ``document_idxs``: Int[B, L], the document of each position; a position sees its own
        document only. Not with ``cache``.
        ``cache``: a cache of ``new_cache``; x_t then holds the new columns, no PAD.
        ``packing``: which columns hold PAD, if it is known already.
        ``states``: return the input of ``head``, Float[B, L, D], instead of the logits.
        """
        self._check(x_t, group_idxs, context, cache, document_idxs)
        packing = self.packed(x_t, packing, whole=cache is not None)
        x = self.features(
            x_t,
            sigma,
            packing,
            group_idxs=group_idxs,
            context=context,
            cache=cache,
            document_idxs=document_idxs,
        )
        return packing.unpack(x) if states else self.scatter(self.head(x), packing)

    def packed(
        self, x_t: Tensor, packing: ColumnPacking | None, *, whole: bool = False
    ) -> ColumnPacking:
        """Columns that are computed: ``packing`` if it is known; all if no PAD exists.

        ``whole``: keep all.
        """
        if whole or self.pad_id is None:
            return ColumnPacking.full(x_t.shape[1])
        return pack_columns(x_t != self.pad_id) if packing is None else packing

    def features(
        self,
        x_t: Tensor,
        sigma: Tensor | None,
        packing: ColumnPacking,
        *,
        group_idxs: Tensor | None = None,
        context: Tensor | None = None,
        cache: KeyValueCache | None = None,
        document_idxs: Tensor | None = None,
    ) -> Tensor:
        """Features of the columns kept, Float[B, K, D]; arguments as in ``forward``."""
        # a column keeps its own position, whichever are left out
        tokens = packing.pack(x_t)  # (B, K)
        num_columns, num_queries = tokens.shape[1], None
        if packing.columns is not None:
            positions = packing.columns
        else:
            positions = torch.arange(num_columns, device=x_t.device)

        # which columns see which; behind the last block nothing reads the clean columns
        mask: Mask = packing.key_mask
        if cache is not None and not self.causal:
            mask = cache.mask
        last_mask = mask
        if group_idxs is not None or document_idxs is not None:
            # one row of blocks, if all samples share it
            if group_idxs is not None and group_idxs.ndim == 1:
                group_idxs = group_idxs.unsqueeze(0)
            elif group_idxs is not None and group_idxs.stride(0) == 0:
                group_idxs = group_idxs[:1]
            seen = Visibility(
                groups=None if group_idxs is None else packing.pack(group_idxs),
                documents=None if document_idxs is None else packing.pack(document_idxs),
                key_mask=packing.key_mask,
                causal=self.causal,
                with_context=context is not None,
            )
            if self.attention == "flex" and x_t.is_cuda:
                mask = seen.block_mask()
                last_mask = mask if context is None else seen.block_mask(num_columns)
            else:
                mask = seen.mask()
                last_mask = mask[:, :, :num_columns]

        # the clean columns stand behind the noisy ones: (B, 2K)
        if context is not None:
            tokens = torch.cat([tokens, packing.pack(context)], dim=1)
            positions = positions.repeat(2)
        # embedding, rotary positions and the noise level
        x = self.token_embedding(tokens)  # (B, K or 2K, D)
        if cache is None:
            rotary, c = self.rotary(positions), self.level_vector(sigma, x_t)
        else:
            rotary = cache.rotary
            c = cache.c if sigma is None else self.level_vector(sigma, x_t)
        # the last block needs queries of noisy columns alone
        for k, block in enumerate(self.blocks):
            if k == len(self.blocks) - 1:
                mask, num_queries = last_mask, None if context is None else num_columns
            x = block(x, c, mask, rotary, None if cache is None else cache.layers[k], num_queries)
        return self.final(x, c)

    def level_vector(self, sigma: Tensor | None, x_t: Tensor) -> Tensor | None:
        """Embedded noise level c, Float[B or 1, cond_dim]; None without adaLN."""
        if self.timestep_embedder is None:
            return None
        # sigma itself, or the share that it corrupts
        level = corrupted_share(sigma)
        if self.sigma_input == "sigma" and sigma is not None:
            level = level_of(sigma).clamp(max=LARGEST_SIGMA)
        times = distinct_time(process_t(level, x_t.shape[0], x_t.device))  # (B or 1,)
        return F.silu(self.timestep_embedder(times))

    def scatter(self, logits: Tensor, packing: ColumnPacking) -> Tensor:
        """Put the logits of the columns kept at their places: (B, K, V) -> (B, L, V)."""
        logits = packing.unpack(logits)
        if self.pad_id is not None:
            logits[..., self.pad_id] = neg_inf(logits.dtype)
        return logits

    def new_cache(self, positions: Tensor, groups: Tensor, num_samples: int) -> KeyValueCache:
        """An empty cache for columns of ``num_samples`` samples; arguments as there."""
        cache = KeyValueCache(positions, groups, num_samples, num_layers=len(self.blocks))
        # equal in all calls: rotary tables, and c without a noise level
        cache.tables = self.rotary(positions)
        cache.c = self.level_vector(None, positions[:1])
        return cache

    def _check(
        self,
        x_t: Tensor,
        group_idxs: Tensor | None,
        context: Tensor | None,
        cache: KeyValueCache | None,
        document_idxs: Tensor | None,
    ) -> None:
        """Raise ``ValueError`` for arguments of ``forward`` that do not fit each other."""
        # documents are of whole sequences
        if document_idxs is not None and (cache is not None or document_idxs.shape != x_t.shape):
            raise ValueError(
                f"document_idxs has shape {tuple(document_idxs.shape)}; expected "
                f"{tuple(x_t.shape)}, and no cache"
            )
        if group_idxs is None:
            if context is not None:
                raise ValueError("context needs group_idxs, the block of each position")
            return
        # blocks exclude causal attention
        if self.causal or cache is not None:
            raise ValueError(
                "group_idxs makes the attention block-causal; set algo.causal_attention=false, "
                "and give no cache"
            )
        if group_idxs.shape not in (x_t.shape, x_t.shape[1:]):
            raise ValueError(
                f"group_idxs has shape {tuple(group_idxs.shape)}; expected {tuple(x_t.shape)}, or "
                f"{tuple(x_t.shape[1:])} if the samples share their blocks"
            )
        if context is not None and context.shape != x_t.shape:
            raise ValueError(
                f"context has shape {tuple(context.shape)}; expected {tuple(x_t.shape)}"
            )

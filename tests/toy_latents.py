"""A latent space model of a few hundred weights, with an encoder and a decoder that need no
library."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from continuous_states.algorithms.latent_seq2seq import LatentSeq2Seq
from continuous_states.networks.latent_space import (
    LatentEncoder,
    LatentSpaceModel,
    MiddleTransformer,
    PrefixAdapter,
    StopLatent,
)
from discrete_diffusion.contracts import Batch
from toy_world import DROPOUT

C, K, D, P, E, V = 12, 3, 8, 4, 16, 7
EOS, PAD, SOURCE_PAD = 5, 6, 9


class Words(nn.Module):
    """An encoder whose states are embeddings."""

    hidden_size = C

    def __init__(self) -> None:
        super().__init__()
        self.table, self.dropout = nn.Embedding(SOURCE_PAD + 1, C), nn.Dropout(DROPOUT)

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        return self.dropout(self.table(ids))


class SumSoFar:
    """What ``Sums`` keeps of what it has read: Float[B, E], and how many rows it was asked for."""

    def __init__(self) -> None:
        self.sum: Tensor | float = 0.0
        self.num_rows: list[int] = []

    def batch_select_indices(self, rows: Tensor) -> None:
        self.sum = self.sum[rows]


class Sums(nn.Module):
    """A causal decoder: logits of the sum of all embeddings so far, with dropout."""

    hidden_size, vocab_size = E, V

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(V, E), nn.Linear(E, V)
        self.dropout = nn.Dropout(DROPOUT)
        self.cache = SumSoFar()

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    def forward(
        self, embeddings: Tensor, *, num_logits: int, cache: SumSoFar | None = None
    ) -> Tensor:
        sums = embeddings.cumsum(dim=1)
        if cache is not None:
            sums = sums + (cache.sum[:, None] if isinstance(cache.sum, Tensor) else 0.0)
            cache.sum = sums[:, -1]
            cache.num_rows.append(len(sums))
        return self.dropout(self.head(sums))[:, -num_logits:]

    def new_cache(self) -> SumSoFar:
        self.cache = SumSoFar()
        return self.cache


def latent_model(
    *, decoder: nn.Module | None = None, pool: str = "attention", seed: int = 0, **stop
) -> LatentSpaceModel:
    torch.manual_seed(seed)
    sizes = {"latent_dim": D, "latent_seq_len": K}
    return LatentSpaceModel(
        encoder=Words(),
        decoder=Sums() if decoder is None else decoder,
        compression=LatentEncoder(hidden_dim=C, pool=pool, **sizes),
        middle=MiddleTransformer(latent_dim=D, num_layers=1, num_heads=2),
        adapter=PrefixAdapter(latent_dim=D, decoder_dim=E, prefix_len=P, num_heads=2),
        stop_latent=StopLatent(**sizes, **stop),
    )


def latent_algorithm(model: LatentSpaceModel | None = None, **options) -> LatentSeq2Seq:
    ids = {"eos_id": EOS, "pad_id": PAD, "source_pad_id": SOURCE_PAD}
    return LatentSeq2Seq(model or latent_model(), **ids, **options)


def text_pairs(num: int = 4, longest: int = 5) -> Batch:
    """Random dialogues of 1 to 6 ids and summaries of 1 to ``longest``, the EOS of each included,
    all filled up to 7 columns."""
    generator = torch.Generator().manual_seed(num)
    column = torch.arange(7)
    sizes = torch.arange(num)[:, None] % longest  # ids before EOS
    ids = torch.randint(0, EOS, (num, 7), generator=generator)
    source = torch.randint(0, SOURCE_PAD, (num, 7), generator=generator)
    source = source.masked_fill(column > torch.arange(num)[:, None] % 6, SOURCE_PAD)
    targets = torch.where(column < sizes, ids, torch.where(column == sizes, EOS, PAD))
    encoded = ids.masked_fill(column >= sizes, SOURCE_PAD)
    conditions = {"source": source, "encoded_target": encoded}
    return Batch(targets, column <= sizes, conditions=conditions)

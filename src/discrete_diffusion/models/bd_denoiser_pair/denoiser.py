"""The denoiser of bubble diagrams that reasons over triples: a node stream and a pair stream."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.bd_denoiser.denoiser import GraphDenoiser
from discrete_diffusion.models.bd_denoiser_pair.blocks import TRIANGLES, PairBlock
from discrete_diffusion.models.blocks.facts import Facts, NoFacts
from discrete_diffusion.models.blocks.packing import ColumnPacking
from discrete_diffusion.models.blocks.transformer import (
    AdaLNFinal,
    TimestepEmbedder,
    distinct_time,
    process_t,
)
from discrete_diffusion.models.graph_features import Revealed, build_head, graph_features


class BDDenoiserPair(GraphDenoiser):
    """Denoiser of graphs that reasons over triples: a node stream h and a pair stream z.

        h_i = node_emb(node i) + index(i)                                     (B, N, D)
        z_ij = edge_emb(r_ij) + first(i) + second(j)                          (B, N, N, P)
               where r_ji = inverse(r_ij), and r_ii is an id of its own
        c = SiLU(timestep_embedder(t))                                        (B or 1, cond_dim)
        h, z = block(h + attention to facts, z, c)                            n_layers times
        node_logits_i = node_head(final(h_i, c))
        edge_logits_ij[r] = edge_head(final(z_ij, c))[r] + edge_head(final(z_ji, c))[inverse(r)]

    A relation and its inverse at the other end are one fact: it is read in from both ends and read
    out from both. Blocks start as the identity and the heads at 0, so every logit is exactly 0 at
    initialisation. Ids, shapes and calls are those of ``BDDenoiser``.

        model = BDDenoiserPair(
            d_model=96, d_pair=64, n_layers=4, n_heads=4, vocab_config=RPLAN_VOCAB_CONFIG
        )
        node_logits, edge_logits = model(tokens, pad_mask, t=0.5)

    Args:
        d_model: width D of the node stream.
        d_pair: width P of the pair stream.
        n_layers: number of blocks.
        n_heads: attention heads H, a divisor of ``d_model``.
        vocab_config: vocabularies and slots of the graphs.
        cond_dim: width of c; None means ``d_model``.
        mlp_ratio: width of a block's MLPs over D and P.
        dropout: share of each branch's output that training drops.
        triangles: the products of ``TriangleProducts``, of ``TRIANGLES``.
        index_embeddings: nodes know their place in the order. Without, the network is equivariant
            under relabelling: logits of a relabelled diagram are the relabelled logits.
        frequency_embedding_size: width of the sinusoid of t.
        time_scale: t is multiplied by it before its sinusoid.
        condition: how many numbers each fact has that samples may be conditioned on, see
            ``FactTokens``; None: no facts.
        fact_dropout: share of the facts that training hides.
        features: of the revealed graph, of ``FEATURES``, added to both streams and to the logits;
            see ``GraphFeatures``.
        walk_length: steps of the longest walk of the feature ``walks``.

    Raises:
        ValueError: ``triangles`` or ``features`` names another product, or widths do not fit.
    """

    position: Tensor
    side: Tensor
    directed: Tensor
    inverse: Tensor

    def __init__(
        self,
        *,
        d_model: int,
        d_pair: int,
        n_layers: int,
        n_heads: int,
        vocab_config: VocabConfig,
        cond_dim: int | None = None,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        triangles: Sequence[str] = TRIANGLES,
        index_embeddings: bool = True,
        frequency_embedding_size: int = 256,
        time_scale: float = 1000.0,
        condition: Sequence[int] | None = None,
        fact_dropout: float = 0.3,
        features: Sequence[str] = (),
        walk_length: int = 8,
    ) -> None:
        super().__init__()
        if unknown := [name for name in triangles if name not in TRIANGLES]:
            raise ValueError(
                f"triangles={list(triangles)}: unknown {unknown[0]!r}; take {', '.join(TRIANGLES)}"
            )
        cond_dim = d_model if cond_dim is None else cond_dim
        self.vocab_config = vocab_config
        n_max = vocab_config.n_max
        self.node_embedding = nn.Embedding(vocab_config.node_vocab_size, d_model)
        self.edge_embedding = nn.Embedding(vocab_config.edge_vocab_size + 1, d_pair)
        self.index_embeddings = index_embeddings
        if index_embeddings:
            self.node_index = nn.Embedding(n_max, d_model)
            self.first_index = nn.Embedding(n_max, d_pair)
            self.second_index = nn.Embedding(n_max, d_pair)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.2)
        self.timestep_embedder = TimestepEmbedder(
            cond_dim, frequency_embedding_size=frequency_embedding_size, time_scale=time_scale
        )
        self.blocks = nn.ModuleList(
            PairBlock(
                d_model=d_model,
                d_pair=d_pair,
                n_heads=n_heads,
                cond_dim=cond_dim,
                mlp_ratio=mlp_ratio,
                dropout=dropout,
                triangles=triangles,
            )
            for _ in range(n_layers)
        )
        self.node_final = AdaLNFinal(d_model, cond_dim)
        self.pair_final = AdaLNFinal(d_pair, cond_dim)
        self.graph_features = graph_features(
            features, vocab_config, d_node=d_model, d_pair=d_pair, walk_length=walk_length
        )
        node_width, pair_width = self.graph_features.widths
        self.node_head = build_head(d_model, vocab_config.node_vocab_size, node_width)
        self.edge_head = build_head(d_pair, vocab_config.edge_vocab_size, pair_width)
        self._register_pairs(vocab_config)
        self.facts: Facts | NoFacts = NoFacts(n_layers)
        if condition is not None:  # last, so that all else starts as without
            self.facts = Facts(
                condition, d_model=d_model, n_heads=n_heads, n_layers=n_layers, dropout=fact_dropout
            )

    def _register_pairs(self, vocab: VocabConfig) -> None:
        """The tables of pairs: where (i, j) stands in a sequence, and how an id is read there."""
        n_max = vocab.n_max
        same = torch.arange(vocab.edge_vocab_size)
        inverse = same.clone()  # of MASK and PAD: themselves
        inverse[: vocab.num_edge_types] = torch.tensor(vocab.edge_inverse)
        directed = torch.full(
            (3, max(vocab.node_vocab_size, vocab.edge_vocab_size)), vocab.edge_vocab_size
        )  # rows: i < j, i > j, i = j
        directed[0, : len(same)], directed[1, : len(same)] = same, inverse
        index = torch.arange(n_max)
        side = (index[:, None] > index).long() + 2 * (index[:, None] == index).long()
        tables = {
            "position": vocab.edge_positions,
            "side": side,
            "directed": directed,
            "inverse": inverse,
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def features(
        self,
        tokens: Tensor,
        t: Tensor | float,
        packing: ColumnPacking,
        condition: Tensor | None = None,
        *,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Revealed]:
        """Features of the nodes kept, before the heads.

        Args:
            tokens: Int[B, L], as for ``forward``.
            t: the corrupted share, as for ``forward``.
            packing: the columns that are kept.
            condition: the facts of each sample, as for ``forward``.
            keep: samples whose facts are not hidden, as for ``forward``.

        Returns:
            Nodes h Float[B, N, D], their pairs z Float[B, N N, P], and the features of the revealed
            graph, None without ``features``.
        """
        nodes = self._nodes(packing)  # (N,)
        real = None if packing.key_mask is None else packing.key_mask[:, 0, 0, : len(nodes)]
        relations = tokens[:, self.position[nodes][:, nodes]]  # (B, N, N)
        h, z = self.embed(tokens, relations, nodes)  # (B, N, D), (B, N N, P)
        h, z, revealed = self.graph_features(h, z, relations, real)
        times = distinct_time(process_t(t, tokens.shape[0], tokens.device))  # (B or 1,)
        c = F.silu(self.timestep_embedder(times))  # (B or 1, cond_dim)
        attend_facts = self.facts(condition, keep, tokens.shape[0])  # a function for every block
        for attend, block in zip(attend_facts, self.blocks, strict=True):
            h, z = block(attend(h), z, c, real)
        return self.node_final(h, c), self.pair_final(z, c), revealed

    def embed(self, tokens: Tensor, relations: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of the nodes kept and their pairs.

        Args:
            tokens: Int[B, L], ids.
            relations: Int[B, N, N], ids of their pairs as the sequence has them, i < j.
            nodes: Int[N], the nodes kept.

        Returns:
            h Float[B, N, D] and z Float[B, N N, P].
        """
        ids = self.directed[self.side[nodes][:, nodes], relations]  # (B, N, N)
        h, z = self.node_embedding(tokens[:, nodes]), self.edge_embedding(ids)
        if self.index_embeddings:
            h = h + self.node_index(nodes)
            z = z + (self.first_index(nodes).unsqueeze(1) + self.second_index(nodes))
        return h, rearrange(z, "b i j p -> b (i j) p")

    def scatter(
        self, node_logits: Tensor, edge_logits: Tensor, packing: ColumnPacking
    ) -> tuple[Tensor, Tensor]:
        """Add up both directions of a pair, and put logits at their places, 0 elsewhere.

        Args:
            node_logits: Float[B, N, 15], of the nodes kept.
            edge_logits: Float[B, N N, 13], of their pairs in either direction.
            packing: the columns that were kept.

        Returns:
            Float[B, n_max, 15] and Float[B, E, 13].
        """
        nodes, n_max = self._nodes(packing), self.vocab_config.n_max
        n = len(nodes)
        first, second = torch.triu_indices(n, n, offset=1, device=nodes.device)
        ahead, back = edge_logits[:, first * n + second], edge_logits[:, second * n + first]
        edge_logits = ahead + back[..., self.inverse]  # (B, N (N - 1) / 2, 13)
        if packing.columns is not None:
            every = edge_logits.new_zeros(
                len(edge_logits), self.vocab_config.num_edges, edge_logits.shape[-1]
            )
            slots = self.position[nodes[first], nodes[second]] - n_max
            edge_logits = every.index_copy(1, slots, edge_logits)
        return packing.unpack(node_logits, 0, n_max), edge_logits

    def _nodes(self, packing: ColumnPacking) -> Tensor:
        """Int[N]: the nodes kept, ascending."""
        if packing.columns is None:
            return torch.arange(self.vocab_config.n_max, device=self.position.device)
        return packing.columns[: packing.num_kept_before(self.vocab_config.n_max)]

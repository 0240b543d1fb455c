"""The denoiser of bubble diagrams that reasons over triples: a node stream and a pair stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.bd_denoiser import GraphDenoiser
from discrete_diffusion.models.calling import ColumnPacking
from discrete_diffusion.models.graph_features import Revealed, build_head, graph_features
from discrete_diffusion.models.transformer import (
    MLP,
    AdaLNFinal,
    AdaLNZeroBlock,
    ChannelsFirstLinear,
    Facts,
    TimestepEmbedder,
    modulate,
    zero_linear,
)

TRIANGLES = ("outgoing", "incoming")


class TriangleProducts(nn.Module):
    """Products of (i, k) and (k, j) that update (i, j), summed over every node k.

        outgoing_ij = sum_k a(z_ik) * b(z_kj)                            (B, N, N, P)
        incoming_ij = sum_k a'(z_ki) * b'(z_kj)                          (B, N, N, P)
        out_ij = sigmoid(gate(z_ij)) * Linear(norm([outgoing_ij; incoming_ij]))

    a, b, a', b' are linear maps, each times the sigmoid of another. O(N^3 P) time.

    Source: the triangular multiplicative updates of AlphaFold 2 (Jumper et al., Nature 2021).
    Deviation: both directions at once, from the same z, and one norm, output and gate for both.

    ``triangles``: the directions to use, from ``TRIANGLES``.
    """

    def __init__(self, d_pair: int, triangles: Sequence[str] = TRIANGLES) -> None:
        super().__init__()
        self.triangles, self.d_pair = tuple(triangles), d_pair
        width = len(self.triangles) * d_pair
        self.factors = ChannelsFirstLinear(d_pair, 4 * width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, d_pair)
        self.gate = nn.Linear(d_pair, d_pair)

    def forward(self, z: Tensor, real: Tensor | None = None) -> Tensor:
        """Update of the pairs: z (B, N N, P) -> (B, N N, P).

        ``real``: Bool[B, N], the nodes k to sum over; None: all.
        """
        n = round(z.shape[1] ** 0.5)

        # both factors of every direction by one product for all pairs, channels first
        factors = F.glu(self.factors(z), dim=0)
        a, b = factors.unflatten(1, (z.shape[0], n, n)).chunk(2)  # (W, B, N, N) each
        if real is not None:
            b = b * rearrange(real, "b k -> b k 1")

        # sums over k, P channels per direction: a_ik b_kj, or a'_ki as (i, k)
        parts = zip(self.triangles, a.split(self.d_pair), b.split(self.d_pair), strict=True)
        sums = [(a if triangle == "outgoing" else a.mT) @ b for triangle, a, b in parts]

        # channels last again
        together = torch.cat(sums).flatten(1).T.contiguous().unflatten(0, z.shape[:2])
        return self.out(self.norm(together)) * self.gate(z).sigmoid()


class PairBlock(nn.Module):
    """One block of both streams, each branch modulated and gated by c as in adaLN-Zero.

        h <- h + attention(h; scores_ij + bias(z_ij));   h <- h + mlp(h)          (B, N, D)
        z_ij <- z_ij + triangles(z)_ij + first(h_i) + second(h_j);  z <- z + mlp(z)  (B, N N, P)

    The modulation starts at 0, so the block starts as the identity.
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_pair: int,
        n_heads: int,
        cond_dim: int,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        triangles: Sequence[str] = TRIANGLES,
    ) -> None:
        super().__init__()
        self.nodes = AdaLNZeroBlock(
            d_model, n_heads, cond_dim, mlp_ratio=mlp_ratio, dropout=dropout
        )
        self.bias = nn.Linear(d_pair, n_heads, bias=False)  # one for all keys would cancel
        self.norm1 = nn.LayerNorm(d_pair)
        self.triangles = TriangleProducts(d_pair, triangles) if triangles else None
        self.ends = nn.Linear(d_model, 2 * d_pair)
        self.norm2 = nn.LayerNorm(d_pair)
        self.mlp = MLP(d_pair, mlp_ratio)
        self.dropout = nn.Dropout(dropout)
        self.modulation = zero_linear(cond_dim, 6 * d_pair)

    def forward(
        self, h: Tensor, z: Tensor, c: Tensor, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """h (B, N, D), z (B, N N, P), c (B or 1, cond_dim), ``real`` Bool[B, N] or None -> h, z."""
        # nodes: attention with the pair (i, j) as bias of the score of node i for node j
        bias = rearrange(self.bias(z), "b (i j) h -> b h i j", i=h.shape[1])
        if real is not None:
            bias = bias.masked_fill(~real[:, None, None], neg_inf(bias.dtype))
        h = self.nodes(h, c, bias)

        # pairs: triangles and both ends, then the perceptron
        first, second = self.ends(h).chunk(2, dim=-1)  # (B, N, P) each
        ends = rearrange(first.unsqueeze(2) + second.unsqueeze(1), "b i j p -> b (i j) p")
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            self.modulation(c).unsqueeze(1).chunk(6, dim=-1)
        )
        branch = ends
        if self.triangles is not None:
            branch = self.triangles(modulate(self.norm1(z), shift1, scale1), real) + ends
        z = torch.addcmul(z, gate1, self.dropout(branch))
        branch = self.mlp(modulate(self.norm2(z), shift2, scale2))
        return h, torch.addcmul(z, gate2, self.dropout(branch))


class BDDenoiserPair(GraphDenoiser):
    """Denoiser of graphs that reasons over triples: a node stream h and a pair stream z.

        h_i = node_emb(node i) + index(i)                                     (B, N, D)
        z_ij = edge_emb(r_ij) + first(i) + second(j)                          (B, N, N, P)
               where r_ji = inverse(r_ij), and r_ii is an id of its own
        c = SiLU(timestep_embedder(t))                                        (B or 1, cond_dim)
        h, z = block(h + attention to facts, z, c)                            n_layers times
        node_logits_i = node_head(final(h_i, c))
        edge_logits_ij[r] = edge_head(final(z_ij, c))[r] + edge_head(final(z_ji, c))[inverse(r)]

    A relation and its inverse at the other end are one fact: both ends are read, and both predict
    it. Blocks start as the identity and the heads at 0, so every logit is exactly 0 at
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
        triangles: the products of ``TriangleProducts``, from ``TRIANGLES``.
        index_embeddings: True embeds the index of each node. If False, the network is equivariant
            under relabelling: logits of a relabelled diagram are the relabelled logits.
        frequency_embedding_size: width of the sinusoid of t.
        time_scale: t is multiplied by it before its sinusoid.
        condition: number of values of each fact that samples may be conditioned on, see
            ``FactTokens``; None: no facts.
        attribute_dropout: share of the facts that training hides.
        features: features of the revealed graph (``FEATURES``) that are added to both streams and
            to the logits; see ``GraphFeatures``.
        walk_length: steps of the longest walk of the feature ``walks``.

    Raises:
        ValueError: ``triangles`` or ``features`` has an unknown name, or widths do not fit.
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
        attribute_dropout: float = 0.3,
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

        # embedder
        self.node_embedding = nn.Embedding(vocab_config.node_vocab_size, d_model)
        self.edge_embedding = nn.Embedding(vocab_config.edge_vocab_size + 1, d_pair)
        self.index_embeddings = index_embeddings
        if index_embeddings:
            self.node_index = nn.Embedding(n_max, d_model)
            self.first_index = nn.Embedding(n_max, d_pair)
            self.second_index = nn.Embedding(n_max, d_pair)
        # embeddings start small, as short runs then learn faster
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.2)
        self.timestep_embedder = TimestepEmbedder(
            cond_dim, frequency_embedding_size=frequency_embedding_size, time_scale=time_scale
        )
        # blocks, which start as the identity
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
        # heads, which start at 0
        self.node_final = AdaLNFinal(d_model, cond_dim)
        self.pair_final = AdaLNFinal(d_pair, cond_dim)
        self.graph_features, (node_width, pair_width) = graph_features(
            features, vocab_config, d_node=d_model, d_pair=d_pair, walk_length=walk_length
        )
        self.node_head = build_head(d_model, vocab_config.node_vocab_size, node_width)
        self.edge_head = build_head(d_pair, vocab_config.edge_vocab_size, pair_width)
        self._register_pairs(vocab_config)

        # facts come last, so that all else starts as without
        self.facts = None
        if condition is not None:
            self.facts = Facts(
                condition,
                d_model=d_model,
                n_heads=n_heads,
                n_layers=n_layers,
                dropout=attribute_dropout,
            )

    def _register_pairs(self, vocab: VocabConfig) -> None:
        """Register the tables of pairs: the position of (i, j), and the id that is read there."""
        n_max = vocab.n_max
        # inverse of each relation, MASK and PAD being their own
        same = torch.arange(vocab.edge_vocab_size)
        inverse = same.clone()
        inverse[: vocab.num_edge_types] = torch.tensor(vocab.edge_inverse)
        # id as (i, j) reads it; rows: i < j, i > j, i = j
        directed = torch.full(
            (3, max(vocab.node_vocab_size, vocab.edge_vocab_size)), vocab.edge_vocab_size
        )
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

    def _features(
        self,
        tokens: Tensor,
        packing: ColumnPacking,
        c: Tensor,
        attend_facts: Sequence[Callable[[Tensor], Tensor]],
    ) -> tuple[Tensor, Tensor, Revealed]:
        nodes = self._nodes(packing)  # (N,)
        real = None if packing.key_mask is None else packing.key_mask[:, 0, 0, : len(nodes)]
        relations = tokens[:, self.position[nodes][:, nodes]]  # (B, N, N)
        h, z = self._embed(tokens, relations, nodes)  # (B, N, D), (B, N N, P)
        revealed: Revealed = None
        if self.graph_features is not None:
            h, z, revealed = self.graph_features(h, z, relations, real)
        for attend, block in zip(attend_facts, self.blocks, strict=True):
            h, z = block(attend(h), z, c, real)
        return self.node_final(h, c), self.pair_final(z, c), revealed

    def _embed(self, tokens: Tensor, relations: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings of ``nodes``, h Float[B, N, D], and of their pairs, z Float[B, N N, P].

        ``nodes``: Int[N], indices of the kept nodes. ``relations``: Int[B, N, N], token of each
        pair; (j, i) has the token of (i, j), i < j, which is inverted here.
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
        # node_logits (B, N, 15), edge_logits (B, N N, 13): pairs in either direction
        nodes, n_max = self._nodes(packing), self.vocab_config.n_max
        n = len(nodes)

        # (i, j) as both directions say it, for i < j
        first, second = torch.triu_indices(n, n, offset=1, device=nodes.device)
        ahead, back = edge_logits[:, first * n + second], edge_logits[:, second * n + first]
        edge_logits = ahead + back[..., self.inverse]  # (B, N (N - 1) / 2, 13)

        # pairs of nodes that were left out hold 0
        if packing.columns is not None:
            every = edge_logits.new_zeros(
                len(edge_logits), self.vocab_config.num_edges, edge_logits.shape[-1]
            )
            slots = self.position[nodes[first], nodes[second]] - n_max
            edge_logits = every.index_copy(1, slots, edge_logits)
        return packing.unpack(node_logits, 0, n_max), edge_logits

    def _nodes(self, packing: ColumnPacking) -> Tensor:
        """Int[N]: indices of the nodes that are not left out as PAD, ascending."""
        if packing.columns is None:
            return torch.arange(self.vocab_config.n_max, device=self.position.device)
        return packing.columns[: packing.num_kept_before(self.vocab_config.n_max)]

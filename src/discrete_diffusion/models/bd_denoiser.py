"""The denoiser of bubble diagrams: an adaLN-Zero transformer over nodes and edges.

From top to bottom: embeddings, the steps that all denoisers of graphs share, the network, and its
adapter to the contract of backbones.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.layout.vocab_config import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.models.calling import ColumnPacking, pack_columns
from discrete_diffusion.models.graph_features import Revealed, build_head, graph_features
from discrete_diffusion.models.transformer import (
    AdaLNFinal,
    AdaLNZeroBlock,
    Facts,
    TimestepEmbedder,
    corrupted_share,
    distinct_time,
    process_t,
)

TimestepEmbedding = TimestepEmbedder


class NodeEmbedding(nn.Embedding):
    """Embedding of node ids: Int[B, n_max] -> Float[B, n_max, D]."""

    def __init__(self, d_model: int, vocab_config: VocabConfig = RPLAN_VOCAB_CONFIG) -> None:
        super().__init__(vocab_config.node_vocab_size, d_model)


class EdgeEmbedding(nn.Embedding):
    """Embedding of edge ids: Int[B, E] -> Float[B, E, D]."""

    def __init__(self, d_model: int, vocab_config: VocabConfig = RPLAN_VOCAB_CONFIG) -> None:
        super().__init__(vocab_config.edge_vocab_size, d_model)


class CompositePositionalEncoding(nn.Module):
    """Embedding of the place of each of the L positions: Float[L, D].

        node k        entity_type(0) + node_index(k)
        edge (i, j)   entity_type(1) + pair_index(i) + pair_index(j)

    ``pair_index`` is shared by both ends: the relation itself carries the direction.
    """

    entity_types: Tensor
    node_indices: Tensor
    edge_i: Tensor
    edge_j: Tensor

    def __init__(self, vocab_config: VocabConfig, d_model: int) -> None:
        super().__init__()
        n_max, num_edges = vocab_config.n_max, vocab_config.num_edges
        self.entity_type_emb = nn.Embedding(2, d_model)
        self.node_index_emb = nn.Embedding(n_max, d_model)
        self.pair_index_emb = nn.Embedding(n_max, d_model)
        indices = {
            "entity_types": [0] * n_max + [1] * num_edges,
            "node_indices": list(range(n_max)),
            "edge_i": [i for i, _ in vocab_config.endpoints],
            "edge_j": [j for _, j in vocab_config.endpoints],
        }
        for name, values in indices.items():
            index = torch.tensor(values, dtype=torch.long)
            self.register_buffer(name, index, persistent=False)

    def forward(self) -> Tensor:
        """Float[L, D], one embedding per position."""
        nodes = self.node_index_emb(self.node_indices)  # (N, D)
        edges = self.pair_index_emb(self.edge_i) + self.pair_index_emb(self.edge_j)  # (E, D)
        return torch.cat([nodes, edges]) + self.entity_type_emb(self.entity_types)


class GraphDenoiser(nn.Module):
    """A denoiser of graphs in three steps: ``features``, ``head`` and ``scatter``."""

    vocab_config: VocabConfig
    timestep_embedder: TimestepEmbedder
    blocks: nn.ModuleList
    facts: Facts | None
    node_head: nn.Linear
    edge_head: nn.Linear

    def forward(
        self,
        tokens: Tensor,
        pad_mask: Tensor,
        t: Tensor | float,
        condition: Tensor | None = None,
        *,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits of clean nodes Float[B, n_max, 15] and edges Float[B, E, 13] (sizes of rooms).

        Columns that are PAD in the whole batch are left out of the computation, nodes together with
        their pairs.

        ``tokens``: Int[B, L], node ids in the first n_max columns, edge ids in the rest.
        ``pad_mask``: Bool[B, L], True at real positions; logits at others are unspecified. ``t``:
        the corrupted share in [0, 1], a number or a tensor of shape (), (1,) or (B,).
        ``condition``, ``keep``: facts of the samples, as for ``FactTokens``.

        Raises ``ValueError`` for a shape or type that does not fit.
        """
        # shapes of tokens and mask
        length = self.vocab_config.length
        if tokens.ndim != 2 or tokens.shape[1] != length:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}; expected (B, {length}) "
                f"for n_max={self.vocab_config.n_max}"
            )
        if pad_mask.shape != tokens.shape or pad_mask.dtype != torch.bool:
            raise ValueError(
                f"pad_mask is {pad_mask.dtype} {tuple(pad_mask.shape)}; expected torch.bool "
                f"{tuple(tokens.shape)}, True at real positions"
            )
        # features of the columns with data, logits of all
        packing = pack_columns(pad_mask)
        features = self.features(tokens, t, packing, condition, keep=keep)
        return self.scatter(*self.head(*features), packing)

    def features(
        self,
        tokens: Tensor,
        t: Tensor | float,
        packing: ColumnPacking,
        condition: Tensor | None = None,
        *,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Revealed]:
        """Features of the nodes and edges kept, before the heads; arguments as in ``forward``.

        Returns nodes Float[B, N, D], edges Float[B, K - N, D] or pairs Float[B, N N, P], and the
        features of the revealed graph, None without ``features``.
        """
        times = distinct_time(self._process_t(t, tokens.shape[0], tokens.device))  # (B or 1,)
        c = F.silu(self.timestep_embedder(times))  # (B or 1, cond_dim)

        # what each block reads instead of x: x itself, or x with attention to the facts
        if self.facts is not None:
            attend_facts = self.facts(condition, keep, tokens.shape[0])
        elif condition is None and keep is None:
            attend_facts = [lambda x: x] * len(self.blocks)
        else:
            raise ValueError(
                "this denoiser is unconditional; build it with condition=[...], the sizes of "
                "its facts, or pass condition=None"
            )
        return self._features(tokens, packing, c, attend_facts)

    @abstractmethod
    def _features(
        self,
        tokens: Tensor,
        packing: ColumnPacking,
        c: Tensor,
        attend_facts: Sequence[Callable[[Tensor], Tensor]],
    ) -> tuple[Tensor, Tensor, Revealed]:
        """Embedding and blocks of ``features``, for the embedded time c (B or 1, cond_dim).

        ``attend_facts``: a function for every block, from the node stream to the block's input.
        """

    def head(
        self, nodes: Tensor, edges: Tensor, revealed: Revealed = None
    ) -> tuple[Tensor, Tensor]:
        """Logits of ``features``: Float[B, N, 15] and Float[B, ..., 13]."""
        if revealed is None:
            return self.node_head(nodes), self.edge_head(edges)
        of_nodes, of_pairs = revealed
        return self.node_head(nodes, of_nodes), self.edge_head(edges, of_pairs)

    @abstractmethod
    def scatter(
        self, node_logits: Tensor, edge_logits: Tensor, packing: ColumnPacking
    ) -> tuple[Tensor, Tensor]:
        """Put logits of ``head`` at their places, 0 elsewhere: (B, n_max, 15) and (B, E, 13)."""

    @staticmethod
    def _process_t(
        t: Tensor | float, batch_size: int, device: torch.device | str | None = None
    ) -> Tensor:
        return process_t(t, batch_size, device)


class BDDenoiser(GraphDenoiser):
    """Denoiser of graphs: noisy nodes and edges in, logits of every clean node and edge out.

        x = [node_emb(nodes); edge_emb(edges)] + positions               (B, L, D)
        c = SiLU(timestep_embedder(t))                                   (B or 1, cond_dim)
        x = block(x + attention to facts, c)                             n_layers times
        node_logits, edge_logits = heads(final(x, c))

    Columns that are PAD in the whole batch are left out (``ColumnPacking``): K of L are kept, N of
    them nodes.

    Node and edge ids are those of the two *separate* vocabularies of ``vocab_config``. Blocks start
    as the identity and the heads at 0, so every logit is exactly 0 at initialisation. With or
    without ``condition`` it starts as the same function, bit for bit.

    Deviation: ``time_scale`` is 1000, not the literal 1, with which t = 0 and t = 1 look alike.
    Deviation: embeddings start at std 0.2, not at PyTorch's 1, and learn faster in short runs.
    Deviation: the base size (width 256, 6 layers) has 7,389,724 parameters; the 5.0 million of its
    description do not follow from these sizes.
    Deviation: 69 of the 73 parameters of the small size have no gradient at the first step, as the
    zero initialisation implies; the description promises one for every parameter.
    Deviation: ``condition`` is Float[B, sum], facts of a sample, and not (B, tokens, width) of a
    house's boundary.
    Deviation: a data set has ``Batch`` objects of concatenated ids, not a
    ``BubbleDiagramDataset`` of dicts; ``vocab_config.separate(batch.x0)`` has tokens and pad_mask.

        model = BDDenoiser(d_model=128, n_layers=4, n_heads=4, vocab_config=RPLAN_VOCAB_CONFIG)
        node_logits, edge_logits = model(tokens, pad_mask, t=0.5)

    Args:
        d_model: width D of the tokens.
        n_layers: number of blocks.
        n_heads: attention heads H, a divisor of ``d_model``.
        vocab_config: vocabularies and slots of the graphs.
        cond_dim: width of c; None means ``d_model``.
        mlp_ratio: width of a block's MLP over D.
        dropout: share of each branch's output that training drops.
        frequency_embedding_size: width of the sinusoid of t.
        time_scale: t is multiplied by it before its sinusoid.
        condition: number of values of each fact that samples may be conditioned on, see
            ``FactTokens``; None: no facts.
        attribute_dropout: share of the facts that training hides.
        features: features of the revealed graph (``FEATURES``) that are added to the tokens and to
            the logits; see ``GraphFeatures``.
        walk_length: steps of the longest walk of the feature ``walks``.

    Raises:
        ValueError: widths do not fit, or ``features`` has an unknown name.
    """

    position: Tensor
    pairs: Tensor

    def __init__(
        self,
        *,
        d_model: int,
        n_layers: int,
        n_heads: int,
        vocab_config: VocabConfig,
        cond_dim: int | None = None,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        frequency_embedding_size: int = 256,
        time_scale: float = 1000.0,
        condition: Sequence[int] | None = None,
        attribute_dropout: float = 0.3,
        features: Sequence[str] = (),
        walk_length: int = 8,
    ) -> None:
        super().__init__()
        cond_dim = d_model if cond_dim is None else cond_dim
        self.vocab_config = vocab_config

        # embedder
        self.node_embedding = NodeEmbedding(d_model, vocab_config)
        self.edge_embedding = EdgeEmbedding(d_model, vocab_config)
        self.positional_encoding = CompositePositionalEncoding(vocab_config, d_model)
        self.timestep_embedder = TimestepEmbedder(
            cond_dim, frequency_embedding_size=frequency_embedding_size, time_scale=time_scale
        )
        # blocks, which start as the identity
        self.blocks = nn.ModuleList(
            AdaLNZeroBlock(d_model, n_heads, cond_dim, mlp_ratio=mlp_ratio, dropout=dropout)
            for _ in range(n_layers)
        )
        # heads, which start at 0
        self.final = AdaLNFinal(d_model, cond_dim)
        self.graph_features, (node_width, edge_width) = graph_features(
            features, vocab_config, d_node=d_model, d_pair=d_model, walk_length=walk_length
        )
        self.node_head = build_head(d_model, vocab_config.node_vocab_size, node_width)
        self.edge_head = build_head(d_model, vocab_config.edge_vocab_size, edge_width)

        # embeddings start small, as short runs then learn faster
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.2)

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
        # place of each edge among the positions, and among the N N pairs
        pairs = [vocab_config.n_max * i + j for i, j in vocab_config.endpoints]
        self.register_buffer("position", vocab_config.edge_positions, persistent=False)
        self.register_buffer("pairs", torch.tensor(pairs, dtype=torch.long), persistent=False)

    def _features(
        self,
        tokens: Tensor,
        packing: ColumnPacking,
        c: Tensor,
        attend_facts: Sequence[Callable[[Tensor], Tensor]],
    ) -> tuple[Tensor, Tensor, Revealed]:
        x, revealed = self._add_graph(self._embed(tokens, packing), tokens, packing)  # (B, K, D)
        for attend, block in zip(attend_facts, self.blocks, strict=True):
            x = block(attend(x), c, packing.key_mask)
        x = self.final(x, c)
        n = packing.num_kept_before(self.vocab_config.n_max)
        return x[:, :n], x[:, n:], revealed

    def _embed(self, tokens: Tensor, packing: ColumnPacking) -> Tensor:
        """Embed the columns kept, ids and their positions: Int[B, L] -> Float[B, K, D]."""
        # ids of nodes and of edges have separate embeddings
        kept, n = packing.pack(tokens), packing.num_kept_before(self.vocab_config.n_max)
        nodes, edges = self.node_embedding(kept[:, :n]), self.edge_embedding(kept[:, n:])
        positions = packing.pack(self.positional_encoding().unsqueeze(0))  # (1, K, D)
        return torch.cat([nodes, edges], dim=1) + positions

    def _add_graph(
        self, x: Tensor, tokens: Tensor, packing: ColumnPacking
    ) -> tuple[Tensor, Revealed]:
        """Add the features of the revealed graph to x (B, K, D), and return these too."""
        if self.graph_features is None:
            return x, None
        # relations of all nodes, features of the kept ones
        n_max, n = self.vocab_config.n_max, packing.num_kept_before(self.vocab_config.n_max)
        kept = packing.pack(torch.arange(packing.length, device=x.device).unsqueeze(0))[0]
        real = tokens[:, :n_max] != self.vocab_config.node_pad_id
        nodes, edges, revealed = self.graph_features(
            x[:, :n],
            x[:, n:],
            tokens[:, self.position],
            real,
            nodes=kept[:n],
            pairs=self.pairs[kept[n:] - n_max],
        )
        return torch.cat([nodes, edges], dim=1), revealed

    def scatter(
        self, node_logits: Tensor, edge_logits: Tensor, packing: ColumnPacking
    ) -> tuple[Tensor, Tensor]:
        n_max, length = self.vocab_config.n_max, self.vocab_config.length
        return packing.unpack(node_logits, 0, n_max), packing.unpack(edge_logits, n_max, length)


class BDDenoiserBackbone(nn.Module):
    """``forward(x_t, sigma) -> logits (B, L, V)`` over the concatenated vocabulary.

    Node rows hold ``node_logits`` in columns 0..12 and edge rows ``edge_logits`` in columns 15..25
    (room vocabularies); every other column holds ``neg_inf``. Their softmax is that of the
    denoiser's logits over the row's legal ids, exactly.

    ``legal_only=False`` keeps the MASK and PAD columns of the row's own vocabulary as well.

    Deviation: it does not serve every algorithm: ``bd3lm`` and ``ar`` refuse it, as it reads no
    blocks and is not causal.
    """

    lookup: Tensor
    position: Tensor

    def __init__(self, denoiser: GraphDenoiser, *, legal_only: bool = True) -> None:
        super().__init__()
        self.denoiser = denoiser
        self.legal_only = legal_only
        vocab_config = denoiser.vocab_config
        self.register_buffer("lookup", vocab_config.separation_table(), persistent=False)
        self.register_buffer("position", torch.arange(vocab_config.length), persistent=False)

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        *,
        condition: Tensor | None = None,
        keep: Tensor | None = None,
        packing: ColumnPacking | None = None,
    ) -> Tensor:
        """x_t Int[B, L] concatenated ids, sigma Float[B] or None (read as 0) -> Float[B, L, V].

        ``condition``, ``keep``: facts of the samples, see ``GraphDenoiser.forward``. ``packing``:
        which columns hold PAD, if it is known already.
        """
        tokens, packing = self.read(x_t, packing)
        t = corrupted_share(sigma)
        features = self.denoiser.features(tokens, t, packing, condition, keep=keep)
        return self.write(*self.denoiser.head(*features), packing)

    def read(self, x_t: Tensor, packing: ColumnPacking | None) -> tuple[Tensor, ColumnPacking]:
        """Ids of the separate vocabularies, Int[B, L], and which columns hold PAD."""
        vocab = self.denoiser.vocab_config
        if x_t.ndim != 2 or x_t.shape[1] != vocab.length:
            raise ValueError(
                f"x_t has shape {tuple(x_t.shape)}; expected (B, {vocab.length}) "
                f"for n_max={vocab.n_max}"
            )
        if packing is None:
            edge_pad_id = vocab.edge_offset + vocab.edge_pad_id
            packing = pack_columns((x_t != vocab.pad_id) & (x_t != edge_pad_id))
        return self.lookup[self.position, x_t], packing

    def write(self, node_logits: Tensor, edge_logits: Tensor, packing: ColumnPacking) -> Tensor:
        """Logits of the denoiser's ``head`` as one tensor over the concatenated vocabulary.

        Returns Float[B, L, V], each logit in the column of its id.
        """
        vocab = self.denoiser.vocab_config
        node_logits, edge_logits = self.denoiser.scatter(node_logits, edge_logits, packing)
        nodes, edges = vocab.num_node_types, vocab.num_edge_types
        if not self.legal_only:
            nodes, edges = vocab.node_vocab_size, vocab.edge_vocab_size
        n_max, first = vocab.n_max, vocab.edge_offset

        # node rows in front, edge rows behind, illegal ids everywhere else
        shape = (node_logits.shape[0], vocab.length, vocab.vocab_size)
        logits = node_logits.new_full(shape, neg_inf(node_logits.dtype))
        logits[:, :n_max, :nodes] = node_logits[..., :nodes]
        logits[:, n_max:, first : first + edges] = edge_logits[..., :edges]
        return logits

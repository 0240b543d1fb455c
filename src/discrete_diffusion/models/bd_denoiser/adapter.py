"""A denoiser of graphs as a backbone: one concatenated vocabulary in, logits over it out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.models.bd_denoiser.denoiser import GraphDenoiser
from discrete_diffusion.models.blocks.packing import ColumnPacking, pack_columns
from discrete_diffusion.models.blocks.transformer import corrupted_share


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
        lookup = vocab_config.separation_table()
        position = torch.arange(vocab_config.length)
        self.register_buffer("lookup", lookup, persistent=False)
        self.register_buffer("position", position, persistent=False)

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

        ``condition``, ``keep``: what the denoiser is conditioned on, see ``BDDenoiser``.
        ``packing``: which columns hold PAD, if it is known already.
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
        """Logits of the denoiser's ``head`` in the columns of the ids that they are of, in one
        tensor over the concatenated vocabulary: Float[B, L, V]."""
        vocab = self.denoiser.vocab_config
        node_logits, edge_logits = self.denoiser.scatter(node_logits, edge_logits, packing)
        nodes, edges = vocab.num_node_types, vocab.num_edge_types
        if not self.legal_only:
            nodes, edges = vocab.node_vocab_size, vocab.edge_vocab_size
        n_max, first = vocab.n_max, vocab.edge_offset
        shape = (node_logits.shape[0], vocab.length, vocab.vocab_size)
        logits = node_logits.new_full(shape, neg_inf(node_logits.dtype))
        logits[:, :n_max, :nodes] = node_logits[..., :nodes]
        logits[:, n_max:, first : first + edges] = edge_logits[..., :edges]
        return logits

"""The baseline of ``speed.py``: masked diffusion over dense, padded batches, without the tricks.

The network has the weights of a ``BDDenoiser`` and a forward pass of its own: every one of the L
columns is computed, PAD is hidden by an additive float mask, all in float32, by PyTorch's functions
rather than the package's layers. It is tuned as far as that design goes: scaled-dot-product
attention, fused multiply-adds, heads over their own ids only, no Python loop over samples, one
batched draw per sampling step.

Axes: ``B`` batch, ``L`` positions, ``N`` nodes, ``E`` edges, ``D`` width, ``H`` heads.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf, sample_categorical
from discrete_diffusion.models.bd_denoiser import BDDenoiser

SMALLEST_TIME = 1e-3
"""Where t is cut, so that no weight 1 / t exceeds a thousand."""
IGNORED = -100
"""The target of a position without a loss, as ``cross_entropy`` knows it."""


class DenseDenoiser(nn.Module):
    """The function of ``BDDenoiserBackbone`` with ``legal_only``, at every column of the batch.

    ``forward(x_t, sigma)`` takes and gives what the backbone does, so algorithms and samplers of
    the package can use it; its ``state_dict`` is the backbone's. Logits at PAD are unspecified.
    """

    def __init__(self, denoiser: BDDenoiser) -> None:
        super().__init__()
        self.denoiser = denoiser
        self.vocab = denoiser.vocab_config

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        """x_t Int[B, L] of legal ids, MASK and PAD; sigma Float[B] or None -> Float[B, L, V]."""
        t = x_t.new_zeros(len(x_t), dtype=torch.float32)
        nodes, edges = self.heads(x_t, t if sigma is None else -torch.expm1(-sigma))
        n_max, first = self.vocab.n_max, self.vocab.edge_offset
        shape = (*x_t.shape, self.vocab.vocab_size)
        logits = nodes.new_full(shape, neg_inf(nodes.dtype))
        logits[:, :n_max, : nodes.shape[-1]] = nodes
        logits[:, n_max:, first : first + edges.shape[-1]] = edges
        return logits

    def heads(self, x_t: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the legal ids: x_t Int[B, L], t Float[B] -> Float[B, N, 13], Float[B, E, 11],
        sizes of the room vocabularies."""
        net, vocab = self.denoiser, self.vocab
        mask = torch.zeros(x_t.shape, dtype=torch.float32, device=x_t.device)
        mask = mask.masked_fill_(x_t == vocab.pad_id, -math.inf)[:, None, None]  # (B, 1, 1, L)
        ids = x_t[:, vocab.n_max :]
        special = ids - vocab.node_mask_id + vocab.edge_mask_id  # MASK and PAD of the edges
        ids = torch.where(ids < vocab.edge_offset, special, ids - vocab.edge_offset)
        nodes = F.embedding(x_t[:, : vocab.n_max], net.node_embedding.weight)
        edges = F.embedding(ids, net.edge_embedding.weight)
        x = torch.cat([nodes, edges], dim=1) + net.positional_encoding()
        c = F.silu(self._embedded(t))
        for block in net.blocks:
            x = self._block(block, x, c, mask)
        shift, scale = linear(net.final.modulation, c).unsqueeze(1).chunk(2, dim=-1)
        x = torch.addcmul(shift, normalised(net.final.norm, x), 1 + scale)
        nodes = linear(net.node_head, x[:, : vocab.n_max])[..., : vocab.num_node_types]
        return nodes, linear(net.edge_head, x[:, vocab.n_max :])[..., : vocab.num_edge_types]

    def _embedded(self, t: Tensor) -> Tensor:
        """Float[B] -> Float[B, D]: [cos, sin] of the scaled time, then two layers."""
        embedder = self.denoiser.timestep_embedder
        half = embedder.frequency_embedding_size // 2
        exponent = torch.arange(half, device=t.device, dtype=torch.float32) / half
        frequency = torch.exp(-math.log(10_000.0) * exponent)
        angle = (t * embedder.time_scale).float().unsqueeze(-1) * frequency
        first, _, last = embedder.mlp
        return linear(last, F.silu(linear(first, torch.cat([angle.cos(), angle.sin()], dim=-1))))

    @staticmethod
    def _block(block: nn.Module, x: Tensor, c: Tensor, mask: Tensor) -> Tensor:
        """One adaLN-Zero block, (B, L, D) -> (B, L, D), the modulations of every sample its own."""
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            linear(block.modulation, c).unsqueeze(1).chunk(6, dim=-1)
        )
        attention, mlp = block.attention, block.mlp
        normed = torch.addcmul(shift1, normalised(block.norm1, x), 1 + scale1)
        q, k, v = rearrange(
            linear(attention.qkv, normed),
            "b l (three h d) -> three b h l d",
            three=3,
            h=attention.n_heads,
        ).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        branch = linear(attention.out, rearrange(attended, "b h l d -> b l (h d)"))
        x = torch.addcmul(x, gate1, block.dropout(branch))
        normed = torch.addcmul(shift2, normalised(block.norm2, x), 1 + scale2)
        branch = linear(mlp.down, F.gelu(linear(mlp.up, normed)))
        return torch.addcmul(x, gate2, block.dropout(branch))


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """PyTorch's, whatever the package does with the layer."""
    return F.linear(x, layer.weight, layer.bias)


def normalised(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    """PyTorch's, whatever the package does with the layer."""
    return F.layer_norm(x, layer.normalized_shape, layer.weight, layer.bias, layer.eps)


def dense_loss(network: DenseDenoiser, x0: Tensor, generator: torch.Generator) -> Tensor:
    """The bound of masked diffusion at alpha(t) = 1 - t, divided by the constant L:

        E_t  1 / t  sum over masked l of  -log softmax(logits_l)[x0_l]          (arXiv 2406.07524)

    x0 Int[B, L] -> Float[]. t is uniform and of low discrepancy: (u + i / B) mod 1.
    """
    vocab, (num, length), device = network.vocab, x0.shape, x0.device
    offset = torch.rand(1, generator=generator, device=device)
    t = (offset + torch.arange(num, device=device) / num) % 1
    t = t.clamp(min=SMALLEST_TIME)
    coins = torch.rand(x0.shape, generator=generator, device=device)
    masked = (coins < t.unsqueeze(1)) & (x0 != vocab.pad_id)
    nodes, edges = network.heads(x0.masked_fill(masked, vocab.mask_id), t)
    target = x0.masked_fill(~masked, IGNORED)
    of_edges = target[:, vocab.n_max :]
    of_edges = torch.where(of_edges == IGNORED, of_edges, of_edges - vocab.edge_offset)
    cost = _cross_entropy(nodes, target[:, : vocab.n_max]) + _cross_entropy(edges, of_edges)
    return (cost / t).sum() / (num * length)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Summed over positions: (B, K, C) and Int[B, K] -> Float[B]."""
    rows = rearrange(logits, "b k c -> (b k) c")
    cost = F.cross_entropy(
        rows, rearrange(target, "b k -> (b k)"), reduction="none", ignore_index=IGNORED
    )
    return rearrange(cost, "(b k) -> b k", b=len(logits)).sum(dim=1)


@torch.no_grad()
def dense_ancestral(
    network: DenseDenoiser, real: Tensor, *, steps: int, generator: torch.Generator
) -> Tensor:
    """Ancestral sampling on a uniform grid: real Bool[B, L] -> tokens Int[B, L].

    Every step asks the network about every sample, draws all positions in float64, and keeps those
    of them that are revealed: each MASK with probability (t - s) / t.
    """
    vocab, device = network.vocab, real.device
    x = torch.where(real, vocab.mask_id, vocab.pad_id)
    first_id = torch.zeros(vocab.length, dtype=torch.long, device=device)
    first_id[vocab.n_max :] = vocab.edge_offset
    width = max(vocab.num_node_types, vocab.num_edge_types)
    for left in range(steps, 0, -1):
        t = torch.full((len(x),), left / steps, device=device)
        logits = [F.pad(z, (0, width - z.shape[-1]), value=-math.inf) for z in network.heads(x, t)]
        tokens = first_id + sample_categorical(
            torch.log_softmax(torch.cat(logits, dim=1), dim=-1), generator
        )
        coins = torch.rand(x.shape, generator=generator, device=device)
        x = torch.where((x == vocab.mask_id) & (coins < 1 / left), tokens, x)
    return x

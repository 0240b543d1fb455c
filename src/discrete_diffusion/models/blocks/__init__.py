"""Shared parts of networks, one concept per file."""

from discrete_diffusion.models.blocks.adaln import AdaLNFinal, AdaLNZeroBlock, modulate
from discrete_diffusion.models.blocks.attention import MultiHeadSelfAttention
from discrete_diffusion.models.blocks.cache import KeyValueCache, LayerCache
from discrete_diffusion.models.blocks.cross_attention import CrossAttention, MultiHeadCrossAttention
from discrete_diffusion.models.blocks.film import ConditionalResBlock
from discrete_diffusion.models.blocks.mlp import MLP
from discrete_diffusion.models.blocks.packing import ColumnPacking, pack_columns
from discrete_diffusion.models.blocks.pooling import AttentionPooling, Pooled
from discrete_diffusion.models.blocks.rms_norm import RMSNorm
from discrete_diffusion.models.blocks.rotary import (
    RotaryEmbedding,
    apply_rotary,
    rotary_tables,
)
from discrete_diffusion.models.blocks.swiglu import SwiGLU
from discrete_diffusion.models.blocks.timestep import (
    TimestepEmbedder,
    corrupted_share,
    process_t,
    sinusoid,
)
from discrete_diffusion.models.blocks.transformer import TransformerBlock
from discrete_diffusion.models.blocks.visibility import block_causal_mask, causal_mask

__all__ = [
    "MLP",
    "AdaLNFinal",
    "AdaLNZeroBlock",
    "AttentionPooling",
    "ColumnPacking",
    "ConditionalResBlock",
    "CrossAttention",
    "KeyValueCache",
    "LayerCache",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "Pooled",
    "RMSNorm",
    "RotaryEmbedding",
    "SwiGLU",
    "TimestepEmbedder",
    "TransformerBlock",
    "apply_rotary",
    "block_causal_mask",
    "causal_mask",
    "corrupted_share",
    "modulate",
    "pack_columns",
    "process_t",
    "rotary_tables",
    "sinusoid",
]

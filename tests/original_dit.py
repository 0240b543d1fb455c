"""The network that MDLM, SEDD and Duo share, written out on tensors, and files of random ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

V, D, C, HEADS, BLOCKS, L = 12, 16, 8, 2, 2, 6

State = dict[str, Tensor]


def made_state(*, causal: bool = False, num_ids: int = V, seed: int = 0) -> State:
    """Random weights by the names of their code."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * 0.25

    state = {"vocab_embed.embedding": draw(num_ids, D)}
    if not causal:
        state |= {"sigma_map.mlp.0.weight": draw(C, 256), "sigma_map.mlp.0.bias": draw(C)}
        state |= {"sigma_map.mlp.2.weight": draw(C, C), "sigma_map.mlp.2.bias": draw(C)}
    state["rotary_emb.inv_freq"] = 10_000 ** -(torch.arange(0, D // HEADS, 2) / (D // HEADS))
    for k in range(BLOCKS):
        block = {"norm1.weight": 1 + draw(D), "attn_qkv.weight": draw(3 * D, D)}
        block |= {"attn_out.weight": draw(D, D), "norm2.weight": 1 + draw(D)}
        block |= {"mlp.0.weight": draw(4 * D, D), "mlp.0.bias": draw(4 * D)}
        block |= {"mlp.2.weight": draw(D, 4 * D), "mlp.2.bias": draw(D)}
        if not causal:
            block |= {"adaLN_modulation.weight": draw(6 * D, C)}
            block |= {"adaLN_modulation.bias": draw(6 * D)}
        state |= {f"blocks.{k}.{name}": value for name, value in block.items()}
    last = {"norm_final.weight": 1 + draw(D)}
    last |= {"linear.weight": draw(num_ids, D), "linear.bias": draw(num_ids)}
    if not causal:
        last |= {"adaLN_modulation.weight": draw(2 * D, C), "adaLN_modulation.bias": draw(2 * D)}
    return state | {f"output_layer.{name}": value for name, value in last.items()}


def original_logits(state: State, x: Tensor, sigma: Tensor | None = None) -> Tensor:
    """Logits (B, L, V) of ids (B, L) at noise levels (B,); causal without ``sigma``."""
    width = state["vocab_embed.embedding"].shape[1]
    frequencies = state["rotary_emb.inv_freq"]
    turns = torch.arange(x.shape[1])[:, None] * frequencies  # (L, d/2)
    cos, sin = turns.cos().repeat(1, 2), turns.sin().repeat(1, 2)
    c = None if sigma is None else F.silu(_sigma_map(state, sigma))
    h = state["vocab_embed.embedding"][x]
    for k in range(1 + max(int(name.split(".")[1]) for name in state if name[:7] == "blocks.")):
        own = {n.removeprefix(f"blocks.{k}."): v for n, v in state.items() if f"blocks.{k}." in n}
        changes = [0, 0, 1] * 2
        if c is not None:
            made = F.linear(c, own["adaLN_modulation.weight"], own["adaLN_modulation.bias"])
            changes = made[:, None].split(width, dim=-1)
        shift1, scale1, gate1, shift2, scale2, gate2 = changes
        inside = F.layer_norm(h, [width]) * own["norm1.weight"] * (1 + scale1) + shift1
        parts = F.linear(inside, own["attn_qkv.weight"]).split(width, dim=-1)
        q, k_, v = (p.unflatten(-1, (-1, 2 * len(frequencies))).transpose(1, 2) for p in parts)
        q, k_ = (p * cos + _half_turned(p) * sin for p in (q, k_))
        scores = q @ k_.mT / math.sqrt(q.shape[-1])
        if c is None:
            future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        seen = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        h = h + gate1 * F.linear(seen, own["attn_out.weight"])
        inside = F.layer_norm(h, [width]) * own["norm2.weight"] * (1 + scale2) + shift2
        up = F.linear(inside, own["mlp.0.weight"], own["mlp.0.bias"])
        tanh = (math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)).tanh()
        h = h + gate2 * F.linear(up / 2 * (1 + tanh), own["mlp.2.weight"], own["mlp.2.bias"])
    h = F.layer_norm(h, [width]) * state["output_layer.norm_final.weight"]
    if c is not None:
        name = "output_layer.adaLN_modulation"
        shift, scale = F.linear(c, state[f"{name}.weight"], state[f"{name}.bias"])[:, None].chunk(
            2, dim=-1
        )
        h = h * (1 + scale) + shift
    return F.linear(h, state["output_layer.linear.weight"], state["output_layer.linear.bias"])


def _half_turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _sigma_map(state: State, sigma: Tensor) -> Tensor:
    angle = sigma[:, None] * torch.exp(-math.log(10_000) * torch.arange(128) / 128)
    waves = torch.cat([angle.cos(), angle.sin()], dim=-1)
    name = "sigma_map.mlp"
    hidden = F.silu(F.linear(waves, state[f"{name}.0.weight"], state[f"{name}.0.bias"]))
    return F.linear(hidden, state[f"{name}.2.weight"], state[f"{name}.2.bias"])


def parameters(state: State) -> list[Tensor]:
    """What ``parameters()`` of their network gives."""
    return [value for name, value in state.items() if name != "rotary_emb.inv_freq"]


def lightning_file(path: Path, state: State, averaged: State | None = None, **more: Any) -> Path:
    """A ``.ckpt`` as their Lightning module writes it."""
    content: dict[str, Any] = {"state_dict": {f"backbone.{k}": v for k, v in state.items()}}
    if averaged is not None:
        content["ema"] = {"decay": 0.9, "num_updates": 3, "shadow_params": parameters(averaged)}
    torch.save({**content, "global_step": 5, **more}, path)
    return path

"""Weights of the network that MDLM, SEDD and Duo share, their DIT, by their names and by ours.

Theirs is ``DiT`` without biases in norms and attention, with tanh-GELU, and sigma itself embedded.
Their causal networks have no adaLN and no ``sigma_map``. D is the width, C ``cond_dim``:

========================================  ===================================  ===========
theirs                                    ours                                 shape
========================================  ===================================  ===========
``vocab_embed.embedding``                 ``token_embedding.weight``           (V, D)
``sigma_map.mlp.{0,2}``                   ``timestep_embedder.mlp.{0,2}``      256 -> C -> C
``rotary_emb.inv_freq``                   computed                             (D / 2H,)
``blocks.i.norm{1,2}.weight``             the same                             (D,)
``blocks.i.attn_{qkv,out}.weight``        ``blocks.i.attention.{qkv,out}``     (3D, D), (D, D)
``blocks.i.mlp.{0,2}``                    ``blocks.i.mlp.{up,down}``           D -> 4D -> D
``blocks.i.adaLN_modulation``             ``blocks.i.modulation``              C -> 6D
``output_layer.norm_final.weight``        ``final.norm.weight``                (D,)
``output_layer.linear``                   ``head``                             D -> V
``output_layer.adaLN_modulation``         ``final.modulation``                 C -> 2D
========================================  ===================================  ===========
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

EMBEDDING, SIGMA, FREQUENCIES = "vocab_embed.embedding", "sigma_map.mlp.0", "rotary_emb.inv_freq"

_PARTS = {
    "attn_qkv": "attention.qkv",
    "attn_out": "attention.out",
    "mlp.0": "mlp.up",
    "mlp.2": "mlp.down",
    "adaLN_modulation": "modulation",
    "vocab_embed.embedding": "token_embedding.weight",
    "sigma_map": "timestep_embedder",
    "output_layer.norm_final": "final.norm",
    "output_layer.linear": "head",
    "output_layer.adaLN_modulation": "final.modulation",
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network: V, D, number of blocks, hidden units of a perceptron, C, sinusoids of
    sigma. ``cond_dim`` None: a causal network, without adaLN."""

    vocab_size: int
    hidden_size: int
    n_blocks: int
    hidden_units: int
    cond_dim: int | None
    num_waves: int = 256

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Sizes:
        """Sizes of a network with these weights, by their names.

        Raises ``ValueError`` naming a key that is missing, or has another number of axes.
        """
        ids, width = _shape(state, EMBEDDING, 2)
        blocks = [int(found[1]) for key in state if (found := re.match(r"blocks\.(\d+)\.", key))]
        (hidden,) = _shape(state, "blocks.0.mlp.0.bias", 1)
        num = max(blocks) + 1
        if f"{SIGMA}.weight" not in state:
            return cls(ids, width, num, hidden, None)
        cond_dim, waves = _shape(state, f"{SIGMA}.weight", 2)
        return cls(ids, width, num, hidden, cond_dim, waves)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of their parameters by name, in the order of their ``parameters()``."""
        width, c = self.hidden_size, self.cond_dim
        found: dict[str, tuple[int, ...]] = {EMBEDDING: (self.vocab_size, width)}
        if c is not None:
            found |= _linear(SIGMA, self.num_waves, c) | _linear("sigma_map.mlp.2", c, c)
        for k in range(self.n_blocks):
            block = f"blocks.{k}"
            found[f"{block}.norm1.weight"] = (width,)
            found[f"{block}.attn_qkv.weight"] = (3 * width, width)
            found[f"{block}.attn_out.weight"] = (width, width)
            found[f"{block}.norm2.weight"] = (width,)
            found |= _linear(f"{block}.mlp.0", width, self.hidden_units)
            found |= _linear(f"{block}.mlp.2", self.hidden_units, width)
            if c is not None:
                found |= _linear(f"{block}.adaLN_modulation", c, 6 * width)
        found["output_layer.norm_final.weight"] = (width,)
        found |= _linear("output_layer.linear", width, self.vocab_size)
        if c is not None:
            found |= _linear("output_layer.adaLN_modulation", c, 2 * width)
        return found

    def check(self, state: Mapping[str, Tensor]) -> None:
        """``ValueError`` naming a key of theirs that is missing, one that there is not, or one of
        another shape."""
        shapes = self.shapes()
        for key, shape in shapes.items():
            if key not in state:
                raise ValueError(f"{key} is missing, {shape} in such a network")
            if tuple(state[key].shape) != shape:
                raise ValueError(
                    f"{key} is {tuple(state[key].shape)}, but {shape} where {EMBEDDING} is "
                    f"{shapes[EMBEDDING]}"
                )
        for key in state:
            if key not in shapes and key != FREQUENCIES:
                raise ValueError(f"{key} is no weight of the DIT of MDLM, SEDD and Duo")


def _shape(state: Mapping[str, Tensor], key: str, ndim: int) -> tuple[int, ...]:
    if key not in state:
        raise ValueError(f"{key} is missing")
    if state[key].ndim != ndim:
        raise ValueError(f"{key} is {tuple(state[key].shape)}; expected {ndim} axes")
    return tuple(state[key].shape)


def _linear(name: str, num_in: int, num_out: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (num_out, num_in), f"{name}.bias": (num_out,)}


def frequencies(head_dim: int) -> Tensor:
    """Their buffer ``rotary_emb.inv_freq``, Float[head_dim / 2]."""
    return 1 / 10_000 ** (torch.arange(0, head_dim, 2).float() / head_dim)


def ours(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of ``DiT`` in float32, by their name there, of weights by their names."""
    learned = {key: value for key, value in state.items() if key != FREQUENCIES}
    return {_renamed(key, _PARTS): value.float() for key, value in learned.items()}


def theirs(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights in float32 by their names, of those of a ``DiT``."""
    back = {name: key for key, name in _PARTS.items()}
    return {_renamed(name, back): value.float() for name, value in weights.items()}


def _renamed(name: str, parts: Mapping[str, str]) -> str:
    """A name with the part that stands at its start, or behind its block, replaced."""
    block = re.match(r"blocks\.\d+\.", name)
    head = block[0] if block else ""
    rest = name.removeprefix(head)
    for part, other in parts.items():
        if rest == part or rest.startswith(f"{part}."):
            return head + other + rest.removeprefix(part)
    return name


IDS = ("token_embedding.weight", "head.weight", "head.bias")
"""Weights of ``DiT`` with a row for each id."""


def with_mask(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of ``DiT`` with a further id, all 0: MASK, which uniform noise never shows."""
    return {
        name: torch.cat([value, torch.zeros_like(value[:1])]) if name in IDS else value
        for name, value in weights.items()
    }


def without_last_id(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of ``DiT`` without the row of the last id."""
    return {name: value[:-1] if name in IDS else value for name, value in weights.items()}

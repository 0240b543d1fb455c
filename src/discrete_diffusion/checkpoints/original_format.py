"""Checkpoint format of the code of MDLM, SEDD and Duo: names and sizes of weights, and export.

Their network is ``DiT`` without biases in norms and attention, with tanh-GELU, and with sigma
itself as the embedded noise level. Their causal networks lack adaLN and ``sigma_map``. D is the
width, C ``cond_dim``:

========================================  ===================================  ===========
their weight                              weight of ``DiT``                    shape
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.runtime.atomic_files import atomic_write

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm

EMBEDDING, SIGMA, FREQUENCIES = "vocab_embed.embedding", "sigma_map.mlp.0", "rotary_emb.inv_freq"

_NAMES = {
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
"""Parts of the original names of weights, and of the names in ``DiT``."""

IDS = ("token_embedding.weight", "head.weight", "head.bias")
"""Weights of ``DiT`` with a row for each id."""

AS_PUBLISHED = {
    "time_scale": 1.0,
    "tie_word_embeddings": False,
    "bias": False,
    "activation": "gelu_tanh",
    "sigma_input": "sigma",
}
"""Settings with which ``dit`` equals the original network."""


@dataclass(frozen=True)
class Parts:
    """Names of the parts of this package that a kind of checkpoint needs.

    ``time_conditioning``: whether the network reads sigma if the file does not say;
    ``parameterization``: the original name of the algorithm.
    """

    algo: str
    process: str
    sampler: str
    time_conditioning: bool
    parameterization: str


PARTS = {
    "mdlm": Parts("mdlm", "absorbing", "first-hitting", False, "subs"),
    "sedd": Parts("sedd", "absorbing", "first-hitting", True, "sedd"),
    "duo": Parts("udlm", "uniform", "ancestral", True, "mean"),
    "ar": Parts("ar", "absorbing", "autoregressive", False, "ar"),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network: V, D, number of blocks, hidden units of an MLP, C, sinusoids of sigma.

    ``cond_dim`` is None for a causal network, which has no adaLN."""

    vocab_size: int
    hidden_size: int
    n_blocks: int
    hidden_units: int
    cond_dim: int | None
    num_waves: int = 256

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Sizes:
        """Read the sizes of a network off its weights, given by name.

        Raises ``ValueError`` naming a key that is missing or has another number of axes.
        """
        # sizes that every network has
        ids, width = _shape(state, EMBEDDING, 2)
        blocks = [int(match[1]) for key in state if (match := re.match(r"blocks\.(\d+)\.", key))]
        (hidden,) = _shape(state, "blocks.0.mlp.0.bias", 1)
        num = max(blocks) + 1
        # only networks that read sigma have its embedder
        if f"{SIGMA}.weight" not in state:
            return cls(ids, width, num, hidden, None)
        cond_dim, waves = _shape(state, f"{SIGMA}.weight", 2)
        return cls(ids, width, num, hidden, cond_dim, waves)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the original network's parameters by name, in their original order."""
        width, c = self.hidden_size, self.cond_dim
        # embedder
        shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (self.vocab_size, width)}
        if c is not None:
            shapes |= _linear(SIGMA, self.num_waves, c) | _linear("sigma_map.mlp.2", c, c)
        # blocks
        for k in range(self.n_blocks):
            block = f"blocks.{k}"
            shapes[f"{block}.norm1.weight"] = (width,)
            shapes[f"{block}.attn_qkv.weight"] = (3 * width, width)
            shapes[f"{block}.attn_out.weight"] = (width, width)
            shapes[f"{block}.norm2.weight"] = (width,)
            shapes |= _linear(f"{block}.mlp.0", width, self.hidden_units)
            shapes |= _linear(f"{block}.mlp.2", self.hidden_units, width)
            if c is not None:
                shapes |= _linear(f"{block}.adaLN_modulation", c, 6 * width)
        # head
        shapes["output_layer.norm_final.weight"] = (width,)
        shapes |= _linear("output_layer.linear", width, self.vocab_size)
        if c is not None:
            shapes |= _linear("output_layer.adaLN_modulation", c, 2 * width)
        return shapes

    def check(self, state: Mapping[str, Tensor]) -> None:
        """Raise ``ValueError`` naming a key that is missing, unknown, or of another shape."""
        shapes = self.shapes()
        for key, shape in shapes.items():
            if key not in state:
                raise ValueError(f"{key} is missing, {shape} in such a network")
            if tuple(state[key].shape) != shape:
                raise ValueError(
                    f"{key} is {tuple(state[key].shape)}, but {shape} where {EMBEDDING} is "
                    f"{shapes[EMBEDDING]}"
                )
        # no further weights
        for key in state:
            if key not in shapes and key != FREQUENCIES:
                raise ValueError(f"{key} is not a weight of the DIT of MDLM, SEDD and Duo")


def _shape(state: Mapping[str, Tensor], key: str, ndim: int) -> tuple[int, ...]:
    if key not in state:
        raise ValueError(f"{key} is missing")
    if state[key].ndim != ndim:
        raise ValueError(f"{key} is {tuple(state[key].shape)}; expected {ndim} axes")
    return tuple(state[key].shape)


def _linear(name: str, num_in: int, num_out: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (num_out, num_in), f"{name}.bias": (num_out,)}


def to_dit(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert original weights to weights of ``DiT`` in float32, by name."""
    learned = {key: value for key, value in state.items() if key != FREQUENCIES}
    return {_rename(key, _NAMES): value.float() for key, value in learned.items()}


def _rename(name: str, parts: Mapping[str, str]) -> str:
    """Replace the part at the start of a name, or after its ``blocks.i``."""
    block = re.match(r"blocks\.\d+\.", name)
    head = block[0] if block else ""
    rest = name.removeprefix(head)
    for part, other in parts.items():
        if rest == part or rest.startswith(f"{part}."):
            return head + other + rest.removeprefix(part)
    return name


def export_original(
    algorithm: TokenAlgorithm, config: Mapping[str, Any], path: Path, *, step: int
) -> str:
    """Write a Lightning checkpoint that the code of MDLM, or of Duo, loads.

    It holds ``state_dict`` with the prefix ``backbone.``, the same weights again as the moving
    average ``ema``, and the settings of ``model`` under ``hyper_parameters``. PAD is left out, as
    their networks do not have it, and for Duo also MASK. ``algorithm``: a model whose backbone is
    ``dit``; ``config``: config of its run; ``step``: optimiser steps taken.

    Returns the settings to type for their code to read the checkpoint. Raises ``ValueError`` if
    their code has no such model, naming keys to train with.
    """
    # weights by the original names, checked against the original sizes
    kind = _kind_of(algorithm, config)
    names = {name: key for key, name in _NAMES.items()}
    weights = _drop_special_ids(algorithm, kind)
    state = {_rename(name, names): value.float() for name, value in weights.items()}
    sizes = Sizes.of(state)
    sizes.check(state)
    model = config["model"]
    averaged = [state[name] for name in sizes.shapes()]

    # the original buffer of rotary frequencies, (head_dim / 2,)
    head_dim = sizes.hidden_size // model["n_heads"]
    state[FREQUENCIES] = 1 / 10_000 ** (torch.arange(0, head_dim, 2).float() / head_dim)

    # settings that their code needs, and what their version of Lightning expects
    of_model = {
        "hidden_size": sizes.hidden_size,
        "cond_dim": sizes.cond_dim or sizes.hidden_size,
        "length": algorithm.layout.length,
        "n_blocks": sizes.n_blocks,
        "n_heads": model["n_heads"],
        "dropout": float(model.get("dropout", 0.1)),
        "scale_by_sigma": True,
    }
    others = {
        "time_conditioning": algorithm.time_conditioning,
        "parameterization": PARTS[kind].parameterization,
    }
    epochs = {"current": {"completed": 0}}
    content = {
        "state_dict": {f"backbone.{name}": value for name, value in state.items()},
        "ema": {"decay": 0.9999, "num_updates": step, "shadow_params": averaged},
        "hyper_parameters": {"config": {"model": of_model, **others}},
        "global_step": step,
        "epoch": 0,
        "loops": {"fit_loop": {"epoch_progress": epochs, "epoch_loop.batch_progress": epochs}},
        "pytorch-lightning_version": "2.2.1",  # required by MDLM
    }
    with atomic_write(path) as unfinished:
        torch.save(content, unfinished)
    named = {f"model.{key}": value for key, value in of_model.items()} | others
    return " ".join(f"{key}={value}" for key, value in named.items())


def _kind_of(algorithm: TokenAlgorithm, config: Mapping[str, Any]) -> str:
    """Return the kind of checkpoint for a model; ``ValueError`` if their code has no such model."""
    # algorithm and process decide the kind
    algo, model = config["algo"], config["model"]
    named = {(parts.algo, parts.process): kind for kind, parts in PARTS.items()}
    kind = named.get((algo["name"], config["forward_process"]["name"]))
    posterior = algo.get("parameterization") == "posterior"
    if kind is None or algo["backbone"] != "dit" or posterior:
        models = ", ".join(f"{a} of {process} noise" for a, process in named)
        raise ValueError(
            f"format=mdlm takes {models}, with algo.backbone=dit and "
            "algo.parameterization=leave_one_out; this is "
            f"{algo['name']} of {config['forward_process']['name']} noise with {algo['backbone']}"
            f"{', algo.parameterization=posterior' if posterior else ''}"
        )

    # settings of the network that their code cannot change
    needed: dict[str, Any] = {"bias": False, "activation": AS_PUBLISHED["activation"]}
    needed |= {"mlp_ratio": 4, "adaln": kind != "ar"}
    if kind != "ar":
        needed["frequency_embedding_size"] = 256
    if algorithm.time_conditioning:
        needed |= {key: AS_PUBLISHED[key] for key in ("sigma_input", "time_scale")}
    unlike = {key: value for key, value in needed.items() if model.get(key) != value}
    if unlike:
        had = ", ".join(f"model.{key}={model.get(key)}" for key in unlike)
        train = " ".join(f"model.{key}={str(value).lower()}" for key, value in unlike.items())
        raise ValueError(
            f"format=mdlm writes the network of MDLM, SEDD and Duo, and this one has {had}; train "
            f"one with {train}"
        )
    return kind


def _drop_special_ids(algorithm: TokenAlgorithm, kind: str) -> dict[str, Tensor]:
    """Return the weights of the backbone without the ids that the original networks lack."""
    layout, weights = algorithm.layout, dict(algorithm.backbone.state_dict())
    special = {"PAD": layout.pad_id, "MASK": layout.mask_id if kind == "duo" else None}
    num = layout.vocab_size
    # every position must have the same ids
    if not torch.equal(layout.support, layout.support[:1].expand_as(layout.support)):
        raise ValueError(
            "format=mdlm takes plain sequences, with the same ids at every position; in this data "
            "they depend on the position"
        )
    # remove the rows of the last ids, PAD first
    for name, index in special.items():
        if index is None:
            continue
        if index != num - 1:
            raise ValueError(
                f"format=mdlm leaves {name} out, which their networks do not have; it is id {index}"
                f" of {num}, and would have to be the last one"
            )
        weights = {key: value[:-1] if key in IDS else value for key, value in weights.items()}
        num -= 1
    return weights

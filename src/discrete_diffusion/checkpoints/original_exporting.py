"""Networks of ours as files that the code of MDLM, SEDD and Duo loads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.checkpoints.original import AS_THEIRS, PARTS
from discrete_diffusion.checkpoints.original_weights import (
    FREQUENCIES,
    Sizes,
    frequencies,
    theirs,
    without_last_id,
)
from discrete_diffusion.runtime.atomic_files import atomic_write

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm

_PARAMETERIZATIONS = {"mdlm": "subs", "sedd": "sedd", "duo": "mean", "ar": "ar"}
_LIGHTNING = "2.2.1"
"""Version of Lightning that MDLM names, whose checkpoints its code reads."""


def export_original(
    algorithm: TokenAlgorithm, config: Mapping[str, Any], path: Path, *, step: int
) -> str:
    """Write a Lightning checkpoint that the code of MDLM, or of Duo, loads.

    It holds ``state_dict`` with the prefix ``backbone.``, the same weights as their moving average,
    ``ema``, and the settings of ``model`` under ``hyper_parameters``. PAD is left out, which their
    networks do not have, and for Duo MASK.

    Args:
        algorithm: a model whose backbone is ``dit``.
        config: of its run.
        path: the file that is written.
        step: optimiser steps taken.

    Returns:
        The settings with which their code reads it, as it takes them.

    Raises:
        ValueError: their code has no such model; the message names keys to train with.
    """
    kind = _kind(algorithm, config)
    state = theirs(_without_ours(algorithm, kind))
    sizes = Sizes.of(state)
    sizes.check(state)
    model = config["model"]
    averaged = [state[name] for name in sizes.shapes()]
    state[FREQUENCIES] = frequencies(sizes.hidden_size // model["n_heads"])
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
        "parameterization": _PARAMETERIZATIONS[kind],
    }
    epochs = {"current": {"completed": 0}}
    content = {
        "state_dict": {f"backbone.{name}": value for name, value in state.items()},
        "ema": {"decay": 0.9999, "num_updates": step, "shadow_params": averaged},
        "hyper_parameters": {"config": {"model": of_model, **others}},
        "global_step": step,
        "epoch": 0,
        "loops": {"fit_loop": {"epoch_progress": epochs, "epoch_loop.batch_progress": epochs}},
        "pytorch-lightning_version": _LIGHTNING,
    }
    with atomic_write(path) as unfinished:
        torch.save(content, unfinished)
    named = {f"model.{key}": value for key, value in of_model.items()} | others
    return " ".join(f"{key}={value}" for key, value in named.items())


def _kind(algorithm: TokenAlgorithm, config: Mapping[str, Any]) -> str:
    """Kind of checkpoint that a model is; ``ValueError`` if it is none."""
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
    needed: dict[str, Any] = {"bias": False, "activation": AS_THEIRS["activation"]}
    needed |= {"mlp_ratio": 4, "adaln": kind != "ar"}
    if kind != "ar":
        needed["frequency_embedding_size"] = 256
    if algorithm.time_conditioning:
        needed |= {key: AS_THEIRS[key] for key in ("sigma_input", "time_scale")}
    unlike = {key: value for key, value in needed.items() if model.get(key) != value}
    if unlike:
        had = ", ".join(f"model.{key}={model.get(key)}" for key in unlike)
        train = " ".join(f"model.{key}={str(value).lower()}" for key, value in unlike.items())
        raise ValueError(
            f"format=mdlm writes the network of MDLM, SEDD and Duo, and this one has {had}; train "
            f"one with {train}"
        )
    return kind


def _without_ours(algorithm: TokenAlgorithm, kind: str) -> dict[str, Tensor]:
    """Weights of the backbone without the ids that theirs does not have."""
    layout, weights = algorithm.layout, dict(algorithm.backbone.state_dict())
    special = {"PAD": layout.pad_id, "MASK": layout.mask_id if kind == "duo" else None}
    num = layout.vocab_size
    if not torch.equal(layout.support, layout.support[:1].expand_as(layout.support)):
        raise ValueError(
            "format=mdlm takes plain sequences, with the same ids at every position; in this data "
            "they depend on the position"
        )
    for name, index in special.items():
        if index is None:
            continue
        if index != num - 1:
            raise ValueError(
                f"format=mdlm leaves {name} out, which their networks do not have; it is id {index}"
                f" of {num}, and would have to be the last one"
            )
        weights, num = without_last_id(weights), num - 1
    return weights

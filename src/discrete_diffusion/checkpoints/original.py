"""Checkpoints of the code of MDLM, SEDD and Duo as models of ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from discrete_diffusion.checkpoints.original_files import OriginalFile, read_original_file
from discrete_diffusion.checkpoints.original_weights import FREQUENCIES, ours, with_mask
from discrete_diffusion.config.files import shipped_config
from discrete_diffusion.hub.published import OriginalCheckpoint

logger = logging.getLogger(__name__)

LENGTH = 1024
"""Length of the published checkpoints, where neither name nor file says one."""

_SPECIAL = {30_522: (103, 101), 35: (4, 2)}
"""Ids of MASK and of what begins a sequence, by V, of tokenizers that have a MASK: of BERT, for
LM1B, and of text8. To others, such as GPT-2's, the code appends MASK as the last id; what begins a
sequence is the one before, the last of the tokenizer."""


@dataclass(frozen=True)
class Parts:
    """Names of the parts of ours that a kind of checkpoint is made of, and whether its network
    reads sigma where its file does not say."""

    algo: str
    process: str
    sampler: str
    time_conditioning: bool


PARTS = {
    "mdlm": Parts("mdlm", "absorbing", "first-hitting", False),
    "sedd": Parts("sedd", "absorbing", "first-hitting", True),
    "duo": Parts("udlm", "uniform", "ancestral", True),
    "ar": Parts("ar", "absorbing", "autoregressive", False),
}


@dataclass(frozen=True)
class OriginalModel:
    """A checkpoint as a model of ours. ``weights``: of the backbone ``dit``, averaged if the file
    has the average; ``trained``: the network's own; ``config``: as ``train`` would have it."""

    path: Path
    config: dict[str, Any]
    weights: dict[str, Tensor]
    trained: dict[str, Tensor]
    length: int
    step: int


def read_original(checkpoint: OriginalCheckpoint) -> OriginalModel:
    """The model of a checkpoint; errors of ``read_original_file``, and ``ValueError`` for a network
    of another kind, and for settings that do not fit it."""
    file = read_original_file(checkpoint)
    _check_kind(checkpoint.kind, file)
    settings = {**file.facts, **checkpoint.settings}
    config = _config(checkpoint, file, settings)
    data = config["data"]
    trained = ours(file.weights)
    averaged = trained if file.averaged is None else ours(file.averaged)
    if checkpoint.kind == "duo":
        trained, averaged = with_mask(trained), with_mask(averaged)
    logger.info(
        "%s: %s ids, MASK %d, length %d%s%s",
        *(checkpoint.name, f"{data['vocab_size']:,}", data["mask_id"], data["length"]),
        "" if "length" in settings else ", that of the published ones; ?length=N sets another",
        "" if file.averaged is None else "; averaged weights",
    )
    return OriginalModel(file.path, config, averaged, trained, data["length"], file.step)


def _check_kind(kind: str, file: OriginalFile) -> None:
    causal = file.sizes.cond_dim is None
    if causal != (kind == "ar"):
        ones = "no {}, as autoregressive ones" if causal else "{}, as those of diffusion"
        what = ones.format("sigma_map.mlp.0.weight")
        others = "ar:PATH" if causal else "mdlm:PATH, sedd:PATH or duo:PATH"
        raise ValueError(f"{file.path} has {what}; load it as {others}, not as {kind}:")
    if kind == "sedd" and (file.facts.get("noise") == "uniform"):
        raise ValueError(
            f"{file.path} has graph.type=uniform; sedd: reads checkpoints of absorbing noise alone"
        )
    if kind == "sedd" and file.facts.get("scale_by_sigma") is False:
        raise ValueError(
            f"{file.path} has model.scale_by_sigma=false; sedd: reads networks whose output is "
            "scaled, model.scale_by_sigma=true"
        )


def _config(
    checkpoint: OriginalCheckpoint, file: OriginalFile, settings: Mapping[str, Any]
) -> dict[str, Any]:
    kind, sizes = PARTS[checkpoint.kind], file.sizes
    mask_id, begin_id = _SPECIAL.get(sizes.vocab_size, (sizes.vocab_size - 1, sizes.vocab_size - 2))
    vocab_size = sizes.vocab_size
    if checkpoint.kind == "duo":  # all of its ids are noise, so MASK is one more
        mask_id, vocab_size = vocab_size, vocab_size + 1
    data = {
        **shipped_config("data", "text"),
        "tokens": "ids",
        "length": settings.get("length", LENGTH),
        "vocab_size": vocab_size,
        "mask_id": settings.get("mask_id", mask_id),
    }
    timed = kind.time_conditioning
    if checkpoint.kind == "mdlm":
        timed = bool(settings.get("time_conditioning", timed))
    algo = {**shipped_config("algo", kind.algo), "backbone": "dit", "time_conditioning": timed}
    if checkpoint.kind == "ar":
        algo["begin_id"] = settings.get("begin_id", begin_id)
    return {
        "data": data,
        "algo": algo,
        "model": _model(checkpoint, file, settings),
        "noise": shipped_config("noise", "log_linear"),
        "forward_process": shipped_config("forward_process", kind.process),
        "sampling": shipped_config("sampling", kind.sampler),
    }


def _model(
    checkpoint: OriginalCheckpoint, file: OriginalFile, settings: Mapping[str, Any]
) -> dict[str, Any]:
    sizes = file.sizes
    heads = settings.get("n_heads")
    if FREQUENCIES in file.weights:
        given = checkpoint.settings.get("n_heads")
        heads = sizes.hidden_size // (2 * len(file.weights[FREQUENCIES]))
        if given not in (None, heads):
            raise ValueError(
                f"{checkpoint.name}: n_heads={given}, but {FREQUENCIES} in {file.path} is that of "
                f"{heads}; leave it out"
            )
    if heads is None:
        raise ValueError(
            f"{file.path} has no {FREQUENCIES}, which says how many heads there are; give "
            f"{checkpoint.name}{'&' if checkpoint.settings else '?'}n_heads=N"
        )
    return {
        "name": checkpoint.kind,
        "backbones": ["dit"],
        "hidden_size": sizes.hidden_size,
        "n_blocks": sizes.n_blocks,
        "n_heads": heads,
        "cond_dim": sizes.cond_dim,
        "mlp_ratio": sizes.hidden_units / sizes.hidden_size,
        "dropout": settings.get("dropout", 0.1),
        "frequency_embedding_size": sizes.num_waves,
        "adaln": sizes.cond_dim is not None,
        **AS_THEIRS,
    }


AS_THEIRS = {
    "time_scale": 1.0,
    "tie_word_embeddings": False,
    "bias": False,
    "activation": "gelu_tanh",
    "sigma_input": "sigma",
}
"""Settings of ``dit`` with which it is their network."""

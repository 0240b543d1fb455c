"""Networks on tokens as files of others: ONNX, and what the code of MDLM, SEDD and Duo loads."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from discrete_diffusion.categorical import make_generator, neg_inf
from discrete_diffusion.checkpoints.original import AS_THEIRS, PARTS
from discrete_diffusion.checkpoints.original_weights import (
    FREQUENCIES,
    Sizes,
    frequencies,
    theirs,
    without_last_id,
)
from discrete_diffusion.runtime.atomic_files import atomic_write
from discrete_diffusion.runtime.package import install_command

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm

TOLERANCE = 1e-4
"""Most that a logit may differ by, or times the largest one, if that is above 1."""

_CHATTY = ("torch.onnx", "onnxscript", "onnx_ir")

_ROWS = 3
"""Samples of the example that is traced; files take any number."""


class _Network(nn.Module):
    """x_t Int[B, L], sigma Float[B] -> logits Float[B, L, V], as the algorithm calls it."""

    def __init__(self, algorithm: TokenAlgorithm) -> None:
        super().__init__()
        self.algorithm = algorithm

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        told = sigma if self.algorithm.time_conditioning else None
        return self.algorithm.apply_backbone(x_t, told, None)


def export_onnx(algorithm: TokenAlgorithm, vocabulary: Mapping[str, Any], path: Path) -> float:
    """Write the network of ``algorithm``; the largest difference of its logits in onnxruntime.

    The file takes ``x_t`` Int64[B, L] and ``sigma`` Float32[B] for any B and gives ``logits``
    Float32[B, L, V]. Its metadata hold the ``vocabulary``, what ids mean, and ``mask_id`` and
    ``pad_id``, as JSON.

    Raises ``ValueError`` without onnxscript and onnxruntime, for a network that is not on tokens or
    needs more than x_t and sigma, and for logits that differ by more than ``TOLERANCE``.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"format=onnx takes onnxruntime and onnxscript: {install_command('onnx')}"
        ) from error
    layout = getattr(algorithm, "layout", None)
    needed = {*algorithm.call.required, *algorithm.provided_conditions}
    needed |= {*algorithm.encoded_conditions}  # a map, say, which the network takes as None, too
    if layout is None or needed:
        why = f"also needs {', '.join(sorted(needed))}" if needed else "is not on tokens"
        raise ValueError(
            f"format=onnx takes networks of tokens that need x_t and sigma alone; this one {why}"
        )
    network = _Network(algorithm).eval()
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.ERROR)
        program = torch.onnx.export(
            network,
            _example(algorithm, _ROWS),
            dynamo=True,
            dynamic_shapes=({0: batch}, {0: batch}),
            input_names=["x_t", "sigma"],
            output_names=["logits"],
            verbose=False,
        )
    assert program is not None
    ids = {"mask_id": layout.mask_id, "pad_id": layout.pad_id}
    for key, value in {"vocabulary": dict(vocabulary), **ids}.items():
        program.model.metadata_props[key] = json.dumps(value)
    with atomic_write(path) as unfinished:
        program.save(unfinished)
        session = onnxruntime.InferenceSession(str(unfinished), providers=["CPUExecutionProvider"])
        gaps = [_gap(network, session, _example(algorithm, rows)) for rows in (1, _ROWS, 8)]
        gap, largest = (max(each) for each in zip(*gaps, strict=True))
        if not gap <= TOLERANCE * max(1, largest):
            raise ValueError(f"format=onnx: logits of up to {largest:.3g} differ by {gap:.1g}")
    return gap


def _example(algorithm: TokenAlgorithm, rows: int) -> tuple[Tensor, Tensor]:
    """Uniformly random clean samples, with half of their positions masked, at several levels."""
    layout, generator = algorithm.layout, make_generator(0, rows)
    weight = layout.support.float()
    x = torch.multinomial(weight.cpu(), rows, replacement=True, generator=generator).T
    hidden = torch.rand(x.shape, generator=generator) < 0.5
    return x.masked_fill(hidden, layout.mask_id), torch.linspace(0.05, 3.0, rows)


def _gap(network: nn.Module, session: Any, example: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """The largest difference between logits, and the largest logit of an id that may be drawn."""
    x_t, sigma = example
    (found,) = session.run(None, {"x_t": x_t.numpy(), "sigma": sigma.numpy()})
    with torch.no_grad():
        logits = network(x_t, sigma)
    drawn = logits[logits > neg_inf(logits.dtype) / 2]
    return float((torch.from_numpy(found) - logits).abs().max()), float(drawn.abs().max())


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

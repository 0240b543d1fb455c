"""A network on tokens as an ONNX file, which other runtimes and languages call."""

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
from discrete_diffusion.runtime.atomic_files import atomic_write
from discrete_diffusion.runtime.extras import install_command

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

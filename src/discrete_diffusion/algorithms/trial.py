"""A backbone is tried before it is trained: one call on two samples, as training makes it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.leaks import TOLERANCE, ProbedCall, check_leaks, filled
from discrete_diffusion.algorithms.many_ids import head_of
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.models.calling import described

logger = logging.getLogger(__name__)

_SUM_TOLERANCE = 1e-3
_NOTE = (
    "raised while the backbone was tried, on the CPU, before training; if it runs on a GPU only, "
    "check_backbone=false leaves the trial out"
)


def try_backbone(algorithm: Algorithm, batch: Batch, *, causal: bool = False) -> None:
    """Compute the loss of a small batch once, and look at what the backbone returns on the way:
    its shape, its type, whether it is finite and has a gradient; on tokens also whether it reads
    what it must not (``leaks``). ``causal``: whether it is held to it whatever the algorithm needs.
    Whether the algorithm returns a loss and bounds; at last, whether a network that is built anew
    can load what this one saves.

    Nothing is left behind: weights, buffers, modes and torch's random numbers are as they were.
    Modules whose weights are made at the first call have them afterwards.

    Raises ``TypeError`` or ``ValueError`` saying what came and what was expected; logs a warning
    where the numbers look like probabilities, or move with PAD.
    """
    asked: list[ProbedCall] = []

    def watched(x_t: Tensor, sigma: Tensor | None, conditions: Conditions | None = None) -> Tensor:
        given = algorithm.accepted(conditions)
        wants_states = given.pop("states", False)
        call = ProbedCall(algorithm, x_t, sigma, given)
        with _Noting(), torch.enable_grad():
            output = call.answer()
        _check_output(algorithm, call, output, batch)
        _check_gradient(algorithm, output)
        output = output.detach()
        asked.append(call)
        return _states(call) if wants_states else output.float()

    generator = make_generator(0)
    shapes = _shapes(algorithm.backbone.state_dict())
    with undisturbed(algorithm):
        prepared = algorithm.drop_conditions(algorithm.prepared(batch), generator)
        algorithm.apply_backbone = watched  # type: ignore[method-assign]
        try:
            found = algorithm.loss(prepared, generator, algorithm.evaluation_draw)
            _check_loss(algorithm, found, len(batch))
        finally:
            del algorithm.apply_backbone
            _detach_kept(algorithm.backbone)
        if asked and isinstance(algorithm, TokenAlgorithm):
            check_leaks(asked[0], batch.real, causal or "causal" in algorithm.backbone_needs)
    if not any(parameter.requires_grad for parameter in algorithm.parameters()):
        raise ValueError(
            f"{described(algorithm.backbone)} has nothing to train: of its parameters, "
            f"{algorithm.num_parameters:,} numbers, none has requires_grad=True; keep its layers "
            "in attributes, nn.ModuleList or nn.ModuleDict, and leave requires_grad_(False) out"
        )
    _check_loadable(algorithm.backbone, shapes)


def _check_loss(algorithm: Algorithm, found: Any, num: int) -> None:
    """``TypeError`` or ``ValueError`` unless a loss is a number, with bounds of ``num`` samples."""
    which = f"{type(algorithm).__module__}.{type(algorithm).__name__}.loss"
    if not isinstance(found, LossOutput):
        raise TypeError(
            f"{which} returned {type(found).__name__}; expected LossOutput(loss, nelbo, num_real), "
            "as self.output(nelbo, batch, loss) makes it"
        )
    for name, shape in (("loss", []), ("nelbo", [num]), ("num_real", [num])):
        value = getattr(found, name)
        shown = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
        if shown != shape:
            raise ValueError(
                f"{which}: {name} has shape {shown}, of {num} samples; expected {shape}"
            )


def _shapes(saved: Mapping[str, Any]) -> dict[str, tuple[int, ...] | None]:
    """Of all that a module saves; None of what has a shape from the first call on."""
    return {
        name: tuple(value.shape) if isinstance(value, Tensor) and not is_lazy(value) else None
        for name, value in saved.items()
    }


def _check_loadable(backbone: nn.Module, before: Mapping[str, tuple[int, ...] | None]) -> None:
    """``ValueError`` if a network that is built anew could not load what this one saves: its calls
    have changed names or shapes since ``before``, or it saves more than tensors."""
    saved = backbone.state_dict()
    if extra := [name for name, value in saved.items() if not isinstance(value, Tensor)]:
        raise ValueError(
            f"{described(backbone)} saves {extra[0]}, which is no tensor, and checkpoints hold "
            "tensors alone; keep it in a buffer, or make it in __init__, and leave get_extra_state "
            "out"
        )
    after = _shapes(saved)
    for name in dict.fromkeys((*after, *before)):
        now, then = after.get(name, "gone"), before.get(name, "not there")
        if then is not None and now != then:
            raise ValueError(
                f"{described(backbone)} saves {name} in another shape than it was built with "
                f"({now}, when built {then}), so that its checkpoints could not be loaded; make it "
                "whole in __init__; a buffer that is computed takes register_buffer(..., "
                "persistent=False)"
            )


def _detach_kept(module: nn.Module) -> None:
    """Tensors that the parts of a module keep of a call, such as their last attention, lose their
    graphs, which cannot be copied with the module."""
    for part in module.modules():
        for name, value in vars(part).items():
            if not name.startswith("_"):
                vars(part)[name] = _detached(value)


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value if value.is_leaf else value.detach()
    if type(value) is list:
        value[:] = map(_detached, value)
    elif type(value) is dict:
        value.update({key: _detached(each) for key, each in value.items()})
    elif type(value) is tuple:
        return tuple(map(_detached, value))
    return value


def _states(call: ProbedCall) -> Tensor:
    """Last states, whose head must give the logits; parameters that are all 0 hold random numbers
    meanwhile."""
    algorithm = call.algorithm
    assert isinstance(algorithm, TokenAlgorithm)
    head = head_of(algorithm.backbone, algorithm.call, algorithm.layout.vocab_size)
    assert head is not None
    asked = replace(call, conditions={**call.conditions, "states": True})
    with filled(algorithm.backbone):
        logits = call.logits()
        torch.manual_seed(0)
        states = asked.answer()
        expected = (*call.x_t.shape, head.in_features)
        if states.shape != expected:
            raise ValueError(
                f"{described(algorithm.backbone)} returned states of shape {tuple(states.shape)}; "
                f"expected {expected} (samples, positions, inputs of head)"
            )
        found = head(states).float()
        found = found.masked_fill(~algorithm.layout.support, 0.0)
        where = algorithm.layout.is_real(call.x_t)
        difference = (found - logits)[where].abs().max()
    if not difference <= TOLERANCE * logits.abs().max():
        raise ValueError(
            f"head(states) of {described(algorithm.backbone)} differs from its logits by up to "
            f"{float(difference):.3g}; return with states=True what head is applied to, or leave "
            "the argument states out"
        )
    return asked.answer().float()


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Eval mode without gradients or compiling, after which modes, buffers and torch's global
    generator are as before."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers() if not is_lazy(buffer)]
    training = module.training
    module.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), _eager():
            yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        module.train(training)
        for part, mode in modes:
            part.training = mode


def _eager() -> AbstractContextManager[object]:
    """Compiled networks are called as they were written: compiling takes a minute."""
    if "torch._dynamo" not in sys.modules:  # which takes a second to import: nothing is compiled
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


class _Noting(AbstractContextManager[None]):
    """Adds to an error of the network itself when it was raised."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(_NOTE)


def _check_output(algorithm: Algorithm, call: ProbedCall, output: Tensor, batch: Batch) -> None:
    """``ValueError`` for another shape or type than expected, or numbers that are not finite."""
    expected = algorithm.output_shape(call.x_t, call.conditions)
    shape = tuple(output.shape)
    name, axes_named = described(algorithm.backbone), "as x_t"
    if isinstance(algorithm, TokenAlgorithm):
        mixed = "components, " if len(expected) == 4 else ""
        axes_named = f"samples, {mixed}positions, ids"
    if not output.is_floating_point() or shape != expected:
        raise ValueError(
            f"{name} returned {str(output.dtype).removeprefix('torch.')} of shape "
            f"{tuple(output.shape)}; expected floating-point numbers of shape {expected} "
            f"({axes_named}){_remedy(shape, expected)}"
        )
    read = _read(algorithm, output, batch)
    wrong = (~output.isfinite() & read) | output.isnan() & _legal(algorithm, output)
    if wrong.any():
        first = wrong.nonzero()[0].tolist()
        axes = ("sample", "position", "id") if axes_named != "as x_t" else ("sample", "place")
        where = [f"{axis} {k}" for axis, k in zip(axes, [first[0], *first[-2:]], strict=False)]
        raise ValueError(
            f"{name} returned {float(output[tuple(first)])} before any training, in "
            f"{int(wrong.sum())} of {wrong.numel()} numbers, first at {', '.join(where)}; expected "
            "finite numbers: look for a division by 0, or a softmax over nothing but masked keys"
        )
    if isinstance(algorithm, TokenAlgorithm) and _are_probabilities(output, batch.real):
        logger.warning(
            "%s returned probabilities, rows that sum to 1; logits are expected: take the log, or "
            "leave the softmax out",
            name,
        )


def _check_gradient(algorithm: Algorithm, output: Tensor) -> None:
    """``ValueError`` for an output without the gradient that its parameters would need."""
    trained = any(parameter.requires_grad for parameter in algorithm.backbone.parameters())
    if trained and not output.requires_grad:
        raise ValueError(
            f"{described(algorithm.backbone)} returned numbers without a gradient, so it cannot be "
            "trained; leave torch.no_grad(), detach() and argmax out of the way from its "
            "parameters to what it returns"
        )


def _remedy(shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Remedy for a shape of logits, where one is known."""
    if len(expected) != 3:
        return ""
    num, length, vocab_size = expected
    if shape == (num, vocab_size, length):
        return ": transpose the last two axes"
    if shape == (length, num, vocab_size):
        return ": put the samples first"
    if shape == (num, length):
        return ": return a score for every id"
    if shape[:-1] == (num, length):
        return f": the last layer needs {vocab_size} outputs, the vocab_size its builder is given"
    return ""


def _legal(algorithm: Algorithm, output: Tensor) -> Tensor:
    """Bool, broadcastable: numbers that have a meaning; of ids, those that may stand there."""
    if isinstance(algorithm, TokenAlgorithm):
        return algorithm.layout.support
    return torch.ones_like(output, dtype=torch.bool)


def _read(algorithm: Algorithm, output: Tensor, batch: Batch) -> Tensor:
    """Bool, broadcastable: numbers that a loss reads."""
    legal, real = _legal(algorithm, output), batch.real
    if algorithm.state not in ("tokens", "features"):
        return legal
    real = real.view(len(real), *(1,) * (output.ndim - 3), real.shape[1], 1)
    return legal & real


def _are_probabilities(output: Tensor, real: Tensor) -> bool:
    """True if rows (..., V) at the positions ``real`` Bool[B, L] are non-negative with sum 1."""
    if output.ndim != 3 or not real.any():
        return False
    rows = output[real].float()
    return bool((rows >= 0).all() and ((rows.sum(dim=-1) - 1).abs() < _SUM_TOLERANCE).all())

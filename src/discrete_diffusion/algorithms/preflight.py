"""Preflight of a backbone before it is trained: one call on two samples, as training makes it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.leaks import (
    MOST_LOGITS,
    TOLERANCE,
    ProbedCall,
    check_leaks,
    random_where_zero,
)
from discrete_diffusion.algorithms.many_ids import head_of
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.models.calling import described

logger = logging.getLogger(__name__)


def try_backbone(algorithm: Algorithm, batch: Batch, *, causal: bool = False) -> None:
    """Compute the loss of a small batch once, and check the backbone and the algorithm on the way.

    The backbone's output must have the expected shape and type, be finite and have a gradient; on
    tokens it must not depend on tokens that it should not see (``leaks``). ``causal``: check that
    logits do not depend on later tokens, even if the algorithm does not need that. The algorithm
    must return a loss and bounds, and a network that is built anew must be able to load the state
    of this one.

    Nothing is left behind: weights, buffers, modes and torch's random numbers are as they were.
    Modules whose weights are made at the first call have them afterwards.

    Raises ``TypeError`` or ``ValueError`` saying what came and what was expected; logs a warning if
    the numbers look like probabilities, or depend on PAD.
    """
    calls: list[ProbedCall] = []

    def watched(x_t: Tensor, sigma: Tensor | None, conditions: Conditions | None = None) -> Tensor:
        """``apply_backbone`` with checks of its output."""
        given = algorithm.accepted(conditions)
        wants_states = given.pop("states", False)
        call = ProbedCall(algorithm, x_t, sigma, given)
        too_many = wants_states and x_t.numel() * call.layout.vocab_size > MOST_LOGITS
        looked_at, output = _answered(call, in_part=too_many)
        _check_output(algorithm, looked_at, output, batch)
        trained = any(parameter.requires_grad for parameter in algorithm.backbone.parameters())
        if trained and not output.requires_grad:
            raise ValueError(
                f"{described(algorithm.backbone)} returned numbers without a gradient, so it "
                "cannot be trained; leave torch.no_grad(), detach() and argmax out of the way from "
                "its parameters to what it returns"
            )
        output = output.detach()
        if not wants_states:
            calls.append(call)
            return output.float()
        calls.append(call if looked_at is call else call.of_states)
        _check_states(looked_at)
        return call.of_states.answer().float()

    generator = make_generator(0)
    shapes = _saved_shapes(algorithm.backbone.state_dict())
    with undisturbed(algorithm):
        # one loss, as training computes it
        prepared = algorithm.drop_conditions(algorithm.prepare_batch(batch), generator)
        algorithm.apply_backbone = watched  # type: ignore[method-assign]
        try:
            output = algorithm.loss(prepared, generator, algorithm.evaluation_draw)
            _check_loss(algorithm, output, len(batch))
        finally:
            del algorithm.apply_backbone
            # tensors that parts keep from a call, which could not be copied with them
            for part in algorithm.backbone.modules():
                for name, value in vars(part).items():
                    if not name.startswith("_"):
                        vars(part)[name] = _detached(value)
        # the same call with other tokens
        if calls and isinstance(algorithm, TokenAlgorithm):
            check_leaks(calls[0], batch.real, causal or "causal" in algorithm.backbone_needs)
    # something to train, and a state that can be loaded
    if not any(parameter.requires_grad for parameter in algorithm.parameters()):
        raise ValueError(
            f"{described(algorithm.backbone)} has nothing to train: of its parameters, "
            f"{algorithm.num_parameters:,} numbers, none has requires_grad=True; keep its layers "
            "in attributes, nn.ModuleList or nn.ModuleDict, and leave requires_grad_(False) out"
        )
    _check_loadable(algorithm.backbone, shapes)


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Context in eval mode without gradients or compiling; modes, buffers and torch's global
    generator are restored."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers() if not is_lazy(buffer)]
    training = module.training
    # a compiled network is called as it was written: compiling takes a minute, and importing the
    # compiler a second, so that without it nothing can be compiled
    compiling = "torch._dynamo" in sys.modules
    eager = torch.compiler.set_stance("force_eager") if compiling else nullcontext()
    module.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), eager:
            yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        module.train(training)
        for part, mode in modes:
            part.training = mode


def _answered(call: ProbedCall, *, in_part: bool) -> tuple[ProbedCall, Tensor]:
    """Call the backbone with gradients. Returns the call and its output; ``in_part``: those of the
    first columns, if the network takes any length."""
    try:
        with torch.enable_grad():
            if in_part:
                with suppress(RuntimeError, ValueError, IndexError, AssertionError):
                    first = call.first_columns()
                    return first, first.answer()
            return call, call.answer()
    except BaseException as error:
        error.add_note(
            "raised while the backbone was tried, on the CPU, before training; if it runs on a GPU "
            "only, preflight=false leaves the trial out"
        )
        raise


def _check_output(algorithm: Algorithm, call: ProbedCall, output: Tensor, batch: Batch) -> None:
    """Raise ``ValueError`` for an unexpected shape or type, or numbers that are not finite."""
    expected = algorithm.output_shape(call.x_t, call.conditions)
    shape, on_tokens = tuple(output.shape), isinstance(algorithm, TokenAlgorithm)
    # shape and type
    name, axes_named = described(algorithm.backbone), "as x_t"
    if on_tokens:
        mixed = "components, " if len(expected) == 4 else ""
        axes_named = f"samples, {mixed}positions, ids"
    if not output.is_floating_point() or shape != expected:
        raise ValueError(
            f"{name} returned {str(output.dtype).removeprefix('torch.')} of shape "
            f"{tuple(output.shape)}; expected floating-point numbers of shape {expected} "
            f"({axes_named}){_shape_remedy(shape, expected)}"
        )
    # numbers that mean something, and those that a loss reads
    legal, real = torch.ones_like(output, dtype=torch.bool), batch.real
    if isinstance(algorithm, TokenAlgorithm):
        num = call.x_t.shape[1]
        legal, real = algorithm.layout.support[:num], real[:, :num]
    read = legal
    if algorithm.state in ("tokens", "features"):
        ones = (1,) * (output.ndim - 3)
        read = legal & real.view(len(batch), *ones, real.shape[1], 1)
    wrong = (~output.isfinite() & read) | output.isnan() & legal
    if wrong.any():
        first = wrong.nonzero()[0].tolist()
        axes = ("sample", "position", "id") if on_tokens else ("sample", "place")
        where = [f"{axis} {k}" for axis, k in zip(axes, [first[0], *first[-2:]], strict=False)]
        raise ValueError(
            f"{name} returned {float(output[tuple(first)])} before any training, in "
            f"{int(wrong.sum())} of {wrong.numel()} numbers, first at {', '.join(where)}; expected "
            "finite numbers: look for a division by 0, or a softmax over nothing but masked keys"
        )
    # probabilities are not negative and sum to 1
    if on_tokens and output.ndim == 3 and real.any():
        rows = output[real].float()
        if (rows >= 0).all() and ((rows.sum(dim=-1) - 1).abs() < 1e-3).all():
            logger.warning(
                "%s returned probabilities, rows that sum to 1; logits are expected: take the log, "
                "or leave the softmax out",
                name,
            )


def _shape_remedy(shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Remedy for logits of a wrong shape; empty if none is known."""
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


def _check_states(call: ProbedCall) -> None:
    """Check that the backbone's head turns its last states into its logits.

    Parameters that are all 0 hold random numbers during the check.
    """
    algorithm = call.algorithm
    assert isinstance(algorithm, TokenAlgorithm)
    head = head_of(algorithm.backbone, algorithm.call, algorithm.layout.vocab_size)
    assert head is not None
    # logits, and the head of the states of the same call
    with random_where_zero(algorithm.backbone):
        logits = call.logits()
        torch.manual_seed(0)
        states = call.of_states.answer()
        expected = (*call.x_t.shape, head.in_features)
        if states.shape != expected:
            raise ValueError(
                f"{described(algorithm.backbone)} returned states of shape {tuple(states.shape)}; "
                f"expected {expected} (samples, positions, inputs of head)"
            )
        legal = algorithm.layout.support[: states.shape[1]]
        of_states = head(states).float().masked_fill(~legal, 0.0)
        where = algorithm.layout.is_real(call.x_t)
        difference = (of_states - logits)[where].abs().max()
    if not difference <= TOLERANCE * logits.abs().max():
        raise ValueError(
            f"head(states) of {described(algorithm.backbone)} differs from its logits by up to "
            f"{float(difference):.3g}; return with states=True what head is applied to, or leave "
            "the argument states out"
        )


def _check_loss(algorithm: Algorithm, output: Any, num: int) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless it has a loss and bounds of ``num`` samples."""
    which = f"{type(algorithm).__module__}.{type(algorithm).__name__}.loss"
    if not isinstance(output, LossOutput):
        raise TypeError(
            f"{which} returned {type(output).__name__}; expected LossOutput(loss, nelbo, num_real),"
            " as self.output(nelbo, batch, loss) makes it"
        )
    for name, shape in (("loss", []), ("nelbo", [num]), ("num_real", [num])):
        value = getattr(output, name)
        shown = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
        if shown != shape:
            raise ValueError(
                f"{which}: {name} has shape {shown}, of {num} samples; expected {shape}"
            )


def _saved_shapes(saved: Mapping[str, Any]) -> dict[str, tuple[int, ...] | None]:
    """Shapes of the tensors in a module's state; None for lazy tensors and other values."""
    return {
        name: tuple(value.shape) if isinstance(value, Tensor) and not is_lazy(value) else None
        for name, value in saved.items()
    }


def _check_loadable(backbone: nn.Module, before: Mapping[str, tuple[int, ...] | None]) -> None:
    """Raise ``ValueError`` if names or shapes of the saved state changed since ``before``, or it
    holds more than tensors: a new network could not load it."""
    # tensors only
    saved = backbone.state_dict()
    if extra := [name for name, value in saved.items() if not isinstance(value, Tensor)]:
        raise ValueError(
            f"{described(backbone)} saves {extra[0]}, which is not a tensor, and checkpoints hold "
            "tensors alone; keep it in a buffer, or make it in __init__, and leave get_extra_state "
            "out"
        )
    # of the shapes that a new network has
    after = _saved_shapes(saved)
    for name in dict.fromkeys((*after, *before)):
        now, then = after.get(name, "gone"), before.get(name, "not there")
        if then is not None and now != then:
            raise ValueError(
                f"{described(backbone)} saves {name} in another shape than it was built with "
                f"({now}, when built {then}), so that its checkpoints could not be loaded; make it "
                "whole in __init__; a buffer that is computed takes register_buffer(..., "
                "persistent=False)"
            )


def _detached(value: Any) -> Any:
    """Detach a tensor, or all tensors in a list, dict or tuple."""
    if isinstance(value, Tensor):
        return value if value.is_leaf else value.detach()
    if type(value) is list:
        value[:] = map(_detached, value)
    elif type(value) is dict:
        value.update({key: _detached(each) for key, each in value.items()})
    elif type(value) is tuple:
        return tuple(map(_detached, value))
    return value

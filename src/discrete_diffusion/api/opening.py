"""A checkpoint and a sampler, as a request for samples or a measurement asks for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import torch

from discrete_diffusion.api.sampler_settings import defaults_of_sampler, given_settings, sampling_of
from discrete_diffusion.checkpoints.contents import Checkpoint, read_checkpoint
from discrete_diffusion.checkpoints.plugged_in import missing_plugin, modules_note
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.evaluation.requests import Request
from discrete_diffusion.evaluation.trained_model import TrainedModel
from discrete_diffusion.models.compiling import check_compiler, compile_backbone
from discrete_diffusion.runtime.devices import check_units, computed_in
from discrete_diffusion.runtime.processes import Shard
from discrete_diffusion.sampling.registry import SAMPLERS, build_sampler, check_sampler

logger = logging.getLogger(__name__)

Sharing = Callable[[], AbstractContextManager[Shard]]
"""A block inside which processes share the work, see ``TrainedModel``."""


def open_trained_model(
    checkpoint: str,
    request: Request,
    *,
    ema: bool = True,
    compiled: bool | str = False,
    device: str,
    sharing: Sharing,
) -> TrainedModel:
    """The model of a ``checkpoint`` with the sampler of ``sampling_of``, on the device. ``ema``:
    its averaged weights; ``compiled``: see ``compile_backbone``.

    Raises ``ValueError`` for a sampler that does not fit the model, or cannot take ``steps``.
    """
    if compiled:
        check_compiler(torch.device(device))
    found = read_checkpoint(checkpoint, ema=ema, device=device)
    if compiled:
        logger.info("compiling the network at its first calls, which takes a minute or more")
        compile_backbone(found.algorithm.backbone, torch.device(device), compiled)
    return with_sampler(request, found, device=device, sharing=sharing)


def with_sampler(
    request: Request, checkpoint: Checkpoint, *, device: str, sharing: Sharing
) -> TrainedModel:
    """A checkpoint, on the device, with the sampler of ``sampling_of``; the same ``ValueError``."""
    sampling = sampling_of(request.sampling, checkpoint.config)
    given = given_settings(request.sampling)
    defaults = defaults_of_sampler(str(sampling["name"]))
    typed = "steps" in given and ("name" not in given or given["steps"] != defaults.get("steps"))
    if request.steps is not None and typed:
        raise ValueError(
            f"steps={request.steps} and sampling.steps={given['steps']} are one setting; give one"
        )
    try:
        sampler = build_sampler(sampling)
    except ValueError as error:
        if missing := missing_plugin(checkpoint.info, ("sampler",)):
            raise ValueError(
                f"{checkpoint.path} {missing}; or take another sampler, sampling=NAME"
            ) from error
        if str(sampling["name"]) in SAMPLERS.names():
            raise
        raise ValueError(f"{error}{modules_note(checkpoint.info)}") from error
    check_sampler(sampler, checkpoint.algorithm, request.steps)
    return TrainedModel(
        path=str(checkpoint.path),
        algorithm=checkpoint.algorithm,
        config=checkpoint.config,
        domain=domain_of(checkpoint.config.data),
        size_counts=checkpoint.size_counts,
        step=checkpoint.step,
        data_fingerprint=checkpoint.data_fingerprint,
        sampler=sampler,
        sampling=sampling,
        device=device,
        steps=request.steps,
        batch_size=request.batch_size,
        sharing=sharing,
        another=partial(read_checkpoint, device=device),
    )


def trained_model_here(request: Request, checkpoint: Checkpoint) -> TrainedModel:
    """A checkpoint with the requested sampler, where its weights are, for this process alone."""
    device = next(checkpoint.algorithm.parameters()).device
    check_units("precision", request.precision, on_gpu=device.type == "cuda")
    sharing = partial(_alone, request.precision, str(device))
    return with_sampler(request, checkpoint, device=str(device), sharing=sharing)


@contextmanager
def _alone(precision: str, device: str) -> Iterator[Shard]:
    with computed_in(precision, device):
        yield Shard()

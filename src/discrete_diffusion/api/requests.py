"""Execution of requests to sample or measure, with a checkpoint or with files of samples."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints.contents import (
    Checkpoint,
    missing_plugin,
    modules_note,
    read_checkpoint,
)
from discrete_diffusion.composing.parts import defaults_of_sampler, given_settings, sampling_of
from discrete_diffusion.data.base import sample_sizes
from discrete_diffusion.data.files import cache_dir
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.registry import (
    domain_of,
    evaluate_request_of,
    files_request_of,
    options_of,
    sample_request_of,
)
from discrete_diffusion.evaluation.model_scores import check_paths
from discrete_diffusion.evaluation.report import Evaluation, Samples
from discrete_diffusion.evaluation.requests import EvaluateRequest, Request, SampleRequest
from discrete_diffusion.evaluation.trained_model import TrainedModel
from discrete_diffusion.hub import boxed_models
from discrete_diffusion.models.acceleration import check_compiler, compile_backbone
from discrete_diffusion.runtime.devices import check_units, computed_in
from discrete_diffusion.runtime.processes import Shard
from discrete_diffusion.sampling.registry import SAMPLERS, build_sampler, check_sampler

logger = logging.getLogger(__name__)

Sharing = Callable[[], AbstractContextManager[Shard]]
"""Function that opens a context in which processes share the work, see ``TrainedModel``."""


def open_trained_model(
    checkpoint: str,
    request: Request,
    *,
    ema: bool = True,
    compiled: bool | str = False,
    device: str,
    sharing: Sharing,
) -> TrainedModel:
    """Load the model of a ``checkpoint`` onto the device, with the requested sampler.

    ``ema``: whether to use the averaged weights; ``compiled``: see ``compile_backbone``.

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
    """Combine a loaded checkpoint with the requested sampler.

    Raises ``ValueError`` if the sampler does not fit the model, or cannot take ``steps``."""
    # settings of the sampler; steps must not be given twice
    sampling = sampling_of(request.sampling, checkpoint.config)
    given = given_settings(request.sampling)
    defaults = defaults_of_sampler(str(sampling["name"]))
    typed = "steps" in given and ("name" not in given or given["steps"] != defaults.get("steps"))
    if request.steps is not None and typed:
        raise ValueError(
            f"steps={request.steps} and sampling.steps={given['steps']} are one setting; give one"
        )
    # a sampler of a plug-in may be missing
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
    sampler.files = _kept_beside(checkpoint.path)
    sampler.typical = partial(_typical, checkpoint)
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


def _typical(checkpoint: Checkpoint, num: int) -> Tensor:
    """``Sampler.typical`` of a checkpoint, always the same."""
    sizes = sample_sizes(checkpoint.size_counts, num, make_generator(0))
    data = checkpoint.config.data
    real: Tensor = domain_of(data).vocabulary(data).real_positions(sizes)
    return real


def _kept_beside(checkpoint: Path) -> tuple[Path, ...]:
    """``Sampler.files`` of a checkpoint.

    The last is in the cache if the checkpoint came with a package, or its folder is read-only."""
    folder, name = checkpoint.parent, f"{checkpoint.name}.call_orders.json"
    if folder in boxed_models().values() or not os.access(folder, os.W_OK):
        return folder / name, cache_dir() / f"{folder.name}-{name}"
    return (folder / name,)


def trained_model_here(request: Request, checkpoint: Checkpoint) -> TrainedModel:
    """Combine a checkpoint with the requested sampler, to run in this process alone."""
    device = next(checkpoint.algorithm.parameters()).device
    check_units("precision", request.precision, on_gpu=device.type == "cuda")

    @contextmanager
    def single_process_shard() -> Iterator[Shard]:
        with computed_in(request.precision, str(device)):
            yield Shard()

    return with_sampler(request, checkpoint, device=str(device), sharing=single_process_shard)


def sample(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Sample as requested; nothing is written until ``Samples.write`` is called.

    Raises ``ValueError`` if the request does not fit the model, or if the model has diverged.
    """
    domain = domain_of(trained.data_config)
    request = sample_request_of(domain, request, trained.path)
    trained.check_weights()
    return domain.sample(request, trained)


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel
) -> tuple[Evaluation, dict[str, int]]:
    """Measure a model; return the measurements and the settings that ``quick=true`` chose.

    Raises ``ValueError`` for a request that does not fit the model."""
    domain = domain_of(trained.data_config)
    request = evaluate_request_of(domain, request, trained.path)
    check_paths(request, trained.algorithm)
    request, chosen = _with_quick(request, domain)
    return domain.evaluate(request, trained), chosen


def evaluate_files(request: EvaluateRequest, domain: Domain) -> tuple[Evaluation, dict[str, int]]:
    """Measure the files ``request.samples``; return the same as ``evaluate_model``.

    Raises ``ValueError`` if files of this kind of data cannot be measured."""
    if not any(option.of_files for option in options_of(domain, "evaluate").values()):
        raise ValueError(
            f"samples={request.samples}: files of {domain.title} cannot be measured; give "
            "checkpoint=FILE"
        )
    request, chosen = _with_quick(files_request_of(domain, request), domain)
    return domain.evaluate(request, None), chosen


def _with_quick(request: EvaluateRequest, domain: Domain) -> tuple[EvaluateRequest, dict[str, int]]:
    """Fill missing values of a request from ``Domain.quick``; return a copy, and these settings.

    Nothing changes without ``quick``. Raises ``ValueError`` if the kind of data has none."""
    if not request.quick:
        return request, {}
    # settings that apply, to a model or to files
    own = options_of(domain, "evaluate")
    keys = [
        key
        for key in domain.quick
        if not request.samples or key == "num_held_out" or (key in own and own[key].of_files)
    ]
    if not keys:
        raise ValueError(
            f"quick=true: {domain.title} have no quick evaluation; leave it out, and choose "
            "how much is measured by num_samples=, noise_samples= and the like"
        )
    chosen = {key: domain.quick[key] if request[key] is None else request[key] for key in keys}
    # fields of the request, and options of the kind of data
    names = {field.name for field in fields(request)}
    others: dict[str, Any] = {key: value for key, value in chosen.items() if key in names}
    options = {key: value for key, value in chosen.items() if key not in names}
    return replace(request, options={**request.options, **options}, **others), chosen

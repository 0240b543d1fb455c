"""A checkpoint and a sampler, opened as ``sample`` and ``evaluate`` ask for them."""

from __future__ import annotations

import logging
from inspect import signature
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.config.files import RENAMED, plain, sampler_settings
from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.config.options import check_kinds, is_number
from discrete_diffusion.config.plugins import LazyEntry

if TYPE_CHECKING:
    from discrete_diffusion.checkpoints.contents import Checkpoint
    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.evaluation.trained_model import TrainedModel


logger = logging.getLogger(__name__)

_SHARED = ("temperature", "top_p", "guidance")
_ALIKE = ("top_p", "guidance")
"""Of those, what has the same bounds in every sampler; some take a temperature of 0."""


def open_trained_model(config: DictConfig, here: Computing) -> TrainedModel:
    """The model of ``checkpoint`` (``ema``: its averaged weights) with the sampler of
    ``sampling_of``, on the device of ``here``.

    Raises ``ValueError`` for a sampler that does not fit the model, or cannot take ``steps``.
    """
    import torch

    from discrete_diffusion.checkpoints.contents import read_checkpoint
    from discrete_diffusion.models.compiling import check_compiler, compile_backbone
    from discrete_diffusion.sampling import build_sampler

    device = here.device
    if config.compile:
        check_compiler(torch.device(device))
    given = _given(config)
    # a bad value is refused before the checkpoint is read
    if "name" in given:
        build_sampler(given)
    else:
        alike = {key: value for key, value in given.items() if key in _ALIKE}
        build_sampler({"name": "ancestral", **alike})
    checkpoint = read_checkpoint(str(config.checkpoint), ema=config.ema, device=device)
    if config.compile:
        logger.info("compiling the network at its first calls, which takes a minute or more")
        compile_backbone(checkpoint.algorithm.backbone, torch.device(device))
    return with_sampler(config, checkpoint, here)


def with_sampler(config: DictConfig, checkpoint: Checkpoint, here: Computing) -> TrainedModel:
    """A checkpoint on the device of ``here`` with the sampler of ``sampling_of``; the same
    ``ValueError``."""
    from discrete_diffusion.checkpoints.plugged_in import missing_plugin, modules_note
    from discrete_diffusion.domains import domain_of
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.sampling import SAMPLERS, build_sampler, check_sampler

    sampling = sampling_of(config, checkpoint.config)
    given, defaults = _given(config), sampler_settings().get(str(sampling["name"]), {})
    typed = "steps" in given and ("name" not in given or given["steps"] != defaults.get("steps"))
    if config.steps is not None and typed:
        raise ValueError(
            f"steps={config.steps} and sampling.steps={given['steps']} say the same; give one"
        )
    try:
        sampler = build_sampler(sampling)
    except ValueError as error:
        if missing := missing_plugin(checkpoint.info, ("sampler",)):
            raise ValueError(
                f"{checkpoint.path} {missing}; or draw with another, sampling=NAME"
            ) from error
        if str(sampling["name"]) in SAMPLERS.names():
            raise
        raise ValueError(f"{error}{modules_note(checkpoint.info)}") from error
    check_sampler(sampler, checkpoint.algorithm, config.steps)
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
        device=here.device,
        steps=config.steps,
        batch_size=config.batch_size,
        sharing=here.shared,
    )


def sampling_of(config: DictConfig, trained: DictConfig) -> dict[str, Any]:
    """Name and settings of the sampler: of ``config.sampling`` if that names one; else those that
    the model was trained with, changed by ``config.sampling``, with defaults for the rest.

    Raises ``ValueError`` for a setting that the sampler of the model does not have.
    """
    from discrete_diffusion.sampling import sampler_state

    given = _given(config)
    if "name" in given:
        return given
    settings = sampler_settings()
    name = trained.sampling.name
    own = {**settings.get(name, {}), **plain(trained.sampling)}
    if unknown := sorted(given.keys() - own.keys()):
        having = [
            f"sampling={other}"
            for other, has in settings.items()
            if unknown[0] in has and sampler_state(other) == sampler_state(name)
        ]
        remedy = f"; take one that has it: {', '.join(having)}" if having else "; leave it out"
        raise ValueError(
            f"sampling.{unknown[0]}: the model was trained with sampling={name}, which has "
            f"{', '.join(key for key in own if key != 'name')}{remedy}"
        )
    merged = {**own, **given}
    check_kinds(*(OmegaConf.create({"sampling": part}) for part in (merged, own)))
    return merged


def _given(config: DictConfig) -> dict[str, Any]:
    """The settings that are not null; null counts for keys that ``sample.yaml`` does not have."""
    own = ("name", *_SHARED)
    sampling = plain(config.sampling)
    return {k: value for k, value in sampling.items() if value is not None or k not in own}


def check_sampling(config: DictConfig) -> None:
    """``ValueError`` for a setting that no sampler has, and for one of the shared ones that is no
    number, or out of every sampler's bounds. Imports no torch for what samplers of ours have."""
    for key in _SHARED:
        value = config.sampling.get(key)
        if value is not None and not is_number(value):
            raise ValueError(f"sampling.{key}={value}: expected a number")
    temperature, top_p = config.sampling.get("temperature"), config.sampling.get("top_p")
    if temperature is not None and temperature < 0:
        raise ValueError(f"sampling.temperature={temperature}: expected a positive number")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"sampling.top_p={top_p}: expected a number in (0, 1]")
    given = _given(config)
    if "name" not in given:
        _check_names(given)


def _check_names(given: dict[str, Any]) -> None:
    from discrete_diffusion.sampling import SAMPLERS

    known = {key for settings in sampler_settings().values() for key in settings}
    for name in SAMPLERS.names():
        if not isinstance(build := SAMPLERS.entry(name), LazyEntry):
            known |= {*signature(build).parameters}
    for key in sorted(given.keys() - known):
        if key in RENAMED:
            raise ValueError(f"sampling.{key} is called sampling.{RENAMED[key]}, or steps= here")
        raise ValueError(unknown_name("setting of a sampler", key, known))

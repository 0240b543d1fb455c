"""The sampler that a request names, or whose settings it changes; imports nothing slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig

from discrete_diffusion.config.constructors import check_options, signature_of
from discrete_diffusion.config.files import RENAMED, plain
from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.config.signatures import check_value
from discrete_diffusion.sampling.registry import SAMPLERS, sampler_state

_SHARED = ("temperature", "top_p", "guidance")


def sampling_of(asked: Mapping[str, Any], trained: DictConfig) -> dict[str, Any]:
    """Name and settings of the sampler: those ``asked`` for if they name one; else those that the
    model was trained with, changed by what is requested, with defaults for the rest.

    Raises ``ValueError`` for a setting that the sampler of the model does not have.
    """
    given = given_settings(asked)
    if "name" in given:
        return given
    name = trained.sampling.name
    own = {**defaults_of_sampler(name), **plain(trained.sampling)}
    if unknown := sorted(given.keys() - own.keys()):
        having = [
            f"sampling={other}"
            for other in samplers_with(unknown[0])
            if sampler_state(other) == sampler_state(name)
        ]
        remedy = f"; take one that has it: {', '.join(having)}" if having else "; leave it out"
        raise ValueError(
            f"sampling.{unknown[0]}: the model was trained with sampling={name}, which has "
            f"{', '.join(key for key in own if key != 'name')}{remedy}"
        )
    return {**own, **given}


def given_settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not None; None counts for settings that not all samplers have."""
    own = ("name", *_SHARED)
    return {k: value for k, value in asked.items() if value is not None or k not in own}


def check_sampling(asked: Mapping[str, Any]) -> None:
    """``ValueError`` for a setting that the named sampler, or none without a name, has,
    and for a value that none with the setting takes. Imports no torch for samplers of ours."""
    given = given_settings(asked)
    if "name" in given:
        name = given.pop("name")
        check_options("sampling", name, SAMPLERS.entry(name), given)
        return
    for key, value in sorted(given.items()):
        having = samplers_with(key)
        if not having and key in RENAMED:
            raise ValueError(f"sampling.{key} is called sampling.{RENAMED[key]}, or steps= here")
        if not having:
            known = {key for name in SAMPLERS.names() for key in defaults_of_sampler(name)}
            raise ValueError(unknown_name("setting of a sampler", key, known))
        own = [signature_of(SAMPLERS.entry(name))[key].annotation for name in having]
        errors = [error for each in own if (error := _refusal(f"sampling.{key}", value, each))]
        if len(errors) == len(having):
            raise errors[0]


def samplers_with(key: str) -> list[str]:
    """Names of the samplers that have a setting."""
    return [name for name in SAMPLERS.names() if key in signature_of(SAMPLERS.entry(name))]


def defaults_of_sampler(name: str) -> dict[str, Any]:
    """Settings of a sampler with their defaults; none of an unknown one."""
    known = signature_of(SAMPLERS.entry(name)) if name in SAMPLERS.names() else {}
    return {key: each.default for key, each in known.items() if each.default is not each.empty}


def _refusal(key: str, value: Any, annotation: Any) -> ValueError | None:
    try:
        check_value(key, value, annotation)
    except ValueError as error:
        return error
    return None

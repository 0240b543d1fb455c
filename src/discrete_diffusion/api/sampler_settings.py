"""The sampler that a request names, or whose settings it changes; imports nothing slow."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.config.files import RENAMED, plain, sampler_settings
from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.config.options import check_kinds
from discrete_diffusion.config.plugins import LazyEntry
from discrete_diffusion.config.values import is_number
from discrete_diffusion.sampling.registry import SAMPLERS, sampler_state

_SHARED = ("temperature", "top_p", "guidance")
ALIKE = ("top_p", "guidance")
"""Shared settings with the same bounds in every sampler; some take a temperature of 0."""


def sampling_of(asked: Mapping[str, Any], trained: DictConfig) -> dict[str, Any]:
    """Name and settings of the sampler: those ``asked`` for if they name one; else those that the
    model was trained with, changed by what is requested, with defaults for the rest.

    Raises ``ValueError`` for a setting that the sampler of the model does not have.
    """
    given = given_settings(asked)
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


def given_settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not None; None counts for settings that not all samplers have."""
    own = ("name", *_SHARED)
    return {k: value for k, value in asked.items() if value is not None or k not in own}


def check_sampling(asked: Mapping[str, Any]) -> None:
    """``ValueError`` for a setting that no sampler has, and for one of the shared ones that is no
    number, or out of every sampler's bounds. Imports no torch for what samplers of ours have."""
    for key in _SHARED:
        value = asked.get(key)
        if value is not None and not is_number(value):
            raise ValueError(f"sampling.{key}={value}: expected a number")
    temperature, top_p = asked.get("temperature"), asked.get("top_p")
    if temperature is not None and temperature < 0:
        raise ValueError(f"sampling.temperature={temperature}: expected a positive number")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"sampling.top_p={top_p}: expected a number in (0, 1]")
    given = given_settings(asked)
    if "name" not in given:
        _check_names(given)


def _check_names(given: dict[str, Any]) -> None:
    known = {key for settings in sampler_settings().values() for key in settings}
    for name in SAMPLERS.names():
        if not isinstance(build := SAMPLERS.entry(name), LazyEntry):
            known |= {*signature(build).parameters}
    for key in sorted(given.keys() - known):
        if key in RENAMED:
            raise ValueError(f"sampling.{key} is called sampling.{RENAMED[key]}, or steps= here")
        raise ValueError(unknown_name("setting of a sampler", key, known))

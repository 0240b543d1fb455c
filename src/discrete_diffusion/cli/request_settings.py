"""Settings of ``sample`` and ``evaluate`` that mean something for some kinds of data only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.config_files import plain
from discrete_diffusion.domains import available_domains, get_domain

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.domains.domain import Domain
    from discrete_diffusion.evaluation.trained_model import TrainedModel

_OF_CHECKPOINTS = ("bound_draws", "num_samples", "steps")
"""Further keys that say nothing of a file of samples."""

_OFF = {"trajectory": 0}
"""What leaves a key out; of others null, or no keys."""


def refuse_meaningless(config: DictConfig, trained: TrainedModel) -> None:
    """``ValueError`` for the first setting that no sample of this model has a use for."""
    domain, meant_for = trained.domain, _meant_for()
    for key, value in _given(config, meant_for):
        name = key.partition(".")[0]
        if name not in domain.settings:
            raise ValueError(
                f"{key}={value}: {trained.path} was not trained on "
                f"{' or '.join(meant_for[name])}; leave it out"
                + (f"; {domain.remedies[name]}" if name in domain.remedies else "")
            )


def refuse_meaningless_for_files(config: DictConfig, domain: Domain) -> None:
    """The same where files of samples are measured and there is no model."""
    meant_for = _meant_for()
    others = [key for key in meant_for if key not in domain.settings_of_files]
    for key, value in _given(config, (*others, *_OF_CHECKPOINTS)):
        titles = meant_for.get(key.partition(".")[0], [])
        of = f" of {' or '.join(titles)}" if titles else ""
        raise ValueError(
            f"{key}={value} is for checkpoint=FILE of a model{of}; leave it out with samples=FILE"
        )


def refuse_settings_of_files(config: DictConfig) -> None:
    """``ValueError`` for how to read files, where ``evaluate checkpoint=`` reads none."""
    if config.reference is not None or config.training is not None:
        return
    for key, default in (("codes", None), ("unit", "pixels"), ("threshold", None)):
        if config[key] != default:
            raise ValueError(
                f"{key}={config[key]} is for the files of reference=FILE or training=FILE; the "
                "data of the checkpoint are read as in training; leave it out"
            )


def check_given(config: DictConfig, domain: Domain) -> None:
    """``ValueError`` for settings that belong to the other way to sample: with ``given=FILE``, or
    without."""
    if config.given is None:
        for key, instead in domain.of_given.items():
            if config[key] is not None:
                remedy = f"did you mean {instead}={config[key]}?" if instead else "leave it out"
                raise ValueError(f"{key}={config[key]} is for given=FILE; {remedy}")
        return
    for key, instead in domain.not_with_given.items():
        if config[key] is not None:
            raise ValueError(
                f"{key}={config[key]} does not go with given=: {instead.format(config[key])}"
            )


def _meant_for() -> dict[str, list[str]]:
    """Key -> titles of the kinds of data that have a use for it."""
    found: dict[str, list[str]] = {}
    for domain in map(get_domain, available_domains()):
        for key in sorted(domain.settings):
            found.setdefault(key, []).append(domain.title)
    return found


def _given(config: DictConfig, keys: Any) -> list[tuple[str, Any]]:
    """Those of the keys that the command has and was given, with their values; what stands under
    ``data`` by itself."""
    found = {key: config[key] for key in keys if key in config}
    found |= {f"data.{key}": value for key, value in plain(found.pop("data", {})).items()}
    return [(key, value) for key, value in found.items() if value not in (None, _OFF.get(key))]

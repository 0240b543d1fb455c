"""Keys of ``sample`` and ``evaluate`` that mean something for some kinds of data only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.files import as_list, check_exists, plain
from discrete_diffusion.domains import available_domains, domain_of, get_domain
from discrete_diffusion.hub.published import check_model
from discrete_diffusion.runtime.atomic_files import growing_name

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.domains.domain import Domain
    from discrete_diffusion.domains.option import Option
    from discrete_diffusion.evaluation.trained_model import TrainedModel

COMMANDS = ("sample", "evaluate")

_OF_CHECKPOINTS = ("bound_draws", "num_samples", "steps")
"""Further keys that say nothing of a file of samples."""


def offer_options(command: str) -> None:
    """Let Hydra know the options of all kinds of data: ``sample.yaml`` and ``evaluate.yaml`` take
    them in as defaults. Other commands have none."""
    if command not in COMMANDS:
        return
    from hydra.core.config_store import ConfigStore

    node = {name: next(iter(o.values())).default for name, o in options_by_title(command).items()}
    ConfigStore.instance().store(f"{command}_options", node, package="_global_")


def options_by_title(command: str) -> dict[str, dict[str, Option]]:
    """Of ``sample`` or ``evaluate``, by key, then by what the samples of the domain are called; of
    other commands none."""
    if command not in COMMANDS:
        return {}
    found: dict[str, dict[str, Option]] = {}
    for domain in map(get_domain, available_domains()):
        for name, option in domain.options(command).items():
            found.setdefault(name, {})[domain.title] = option
    return found


def sample_files() -> list[str]:
    """What ``sample`` may write beside ``metrics.json`` and the picture, for any kind of data."""
    names: list[str] = []
    for domain in map(get_domain, available_domains()):
        names += domain.sample_files
        if domain.growing is not None:
            names += [domain.growing, growing_name(Path(domain.growing)).name]
    return list(dict.fromkeys(names))


def check_request(config: DictConfig, command: str) -> None:
    """``ValueError`` naming an option whose value no kind of data takes."""
    for name, options in options_by_title(command).items():
        errors = [error for option in options.values() if (error := _error(option, config[name]))]
        if len(errors) == len(options):
            raise errors[0]


def check_inputs(config: DictConfig, command: str) -> None:
    """``FileNotFoundError`` naming the key of a file to read that is missing."""
    check_model("checkpoint", config.checkpoint)
    for key, file in input_files(config, command).items():
        check_exists(key, file)
    for file in as_list(config.get("samples")):
        check_exists("samples", file)
    for key, path in config.data.items():
        if str(key).endswith("path"):
            check_exists(f"data.{key!s}", path)


def _error(option: Option, value: Any) -> ValueError | None:
    try:
        option.check(value)
    except ValueError as error:
        return error
    return None


def input_files(config: DictConfig, command: str) -> dict[str, str]:
    """The options that name a file to read, by key."""
    options = options_by_title(command)
    files = [name for name, each in options.items() if any(o.is_file for o in each.values())]
    return {name: str(config[name]) for name in files if config[name] is not None}


def refuse_meaningless(config: DictConfig, trained: TrainedModel, command: str) -> None:
    """``ValueError`` for the first option that no sample of this model has a use for."""
    domain = domain_of(trained.data_config)
    own = domain.options(command)
    found = _given(config, command)
    for key, value, options in found:
        name = key.partition(".")[0]
        if name not in own:
            remedy = f"; {domain.remedies[name]}" if name in domain.remedies else ""
            raise ValueError(
                f"{key}={value}: {trained.path} was not trained on {' or '.join(options)}; leave "
                f"it out{remedy}"
            )
        own[name].check(value)
    read = [name for name, each in own.items() if each.is_file and each.of_files]
    for key, value, _ in [] if any(config[name] is not None for name in read) else found:
        if key in own and own[key].reading:
            files = " or ".join(f"{name}=FILE" for name in read)
            raise ValueError(
                f"{key}={value} is for the files of {files}; the data of the checkpoint are read "
                "as in training; leave it out"
            )


def refuse_meaningless_for_files(config: DictConfig, domain: Domain) -> None:
    """The same where ``evaluate`` measures files of samples and there is no model."""
    own = domain.options("evaluate")
    found = _given(config, "evaluate")
    found += [(k, config[k], {}) for k in _OF_CHECKPOINTS if config[k] is not None]
    for key, value, options in found:
        name = key.partition(".")[0]
        if name not in own or not own[name].of_files:
            of = f" of {' or '.join(options)}" if options else ""
            instead = "; samples are compared with reference=FILE" if name == "data" else ""
            raise ValueError(
                f"{key}={value} is for checkpoint=FILE of a model{of}; leave it out with "
                f"samples=FILE{instead}"
            )


def check_given(config: DictConfig, domain: Domain) -> None:
    """``ValueError`` for an option that does not go with ``given=FILE``, or needs it."""
    for name, option in domain.options("sample").items():
        said = f"{name}={config[name]}"
        if config.given is None and option.with_given and config[name] != option.default:
            instead = f"did you mean {option.instead_of}={config[name]}?"
            raise ValueError(
                f"{said} is for given=FILE; {instead if option.instead_of else 'leave it out'}"
            )
        if config.given is None or not (option.instead_of or option.without_given):
            continue
        if option.without_given and config[name] != option.default:
            raise ValueError(
                f"{said} does not go with given=: {option.without_given}; leave it out"
            )
        if option.instead_of and (asked := config[option.instead_of]) is not None:
            raise ValueError(
                f"{option.instead_of}={asked} does not go with given=: did you mean {name}={asked} "
                f"({option.meaning})?"
            )


def _given(config: DictConfig, command: str) -> list[tuple[str, Any, Mapping[str, Option]]]:
    """(key, value, options by kind of data) of all that were given; what stands under a key by
    itself, with its dotted key."""
    found: list[tuple[str, Any, Mapping[str, Option]]] = []
    for name, options in options_by_title(command).items():
        value = config[name]
        if all(value != option.default for option in options.values()):
            parts = plain(value) if isinstance(value, Mapping) else {}
            found += [(f"{name}.{key}", part, options) for key, part in parts.items()]
            found += [] if parts else [(name, value, options)]
    return found

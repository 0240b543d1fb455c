"""Keys of ``sample`` and ``evaluate`` that mean something for some kinds of data only."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from discrete_diffusion.config.files import as_list, check_exists, plain
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.domains.request_checks import options_by_title
from discrete_diffusion.evaluation.requests import Request, SampleRequest
from discrete_diffusion.hub.published import check_model
from discrete_diffusion.runtime.atomic_files import growing_name

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.domains.option import Option

_Request = TypeVar("_Request", bound=Request)


def sample_files() -> list[str]:
    """Files that ``sample`` may write beside ``metrics.json`` and the picture, of any domain."""
    names: list[str] = []
    for domain in map(get_domain, available_domains()):
        names += domain.sample_files
        if domain.streamed_file is not None:
            names += [domain.streamed_file, growing_name(Path(domain.streamed_file)).name]
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
    for key, path in (config.get("data") or {}).items():
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


def request_of(kind: type[_Request], config: DictConfig) -> _Request:
    """Request in the config of ``sample`` or ``evaluate``; ``ValueError`` for a number out of its
    range."""
    command = "sample" if issubclass(kind, SampleRequest) else "evaluate"
    options = plain(config)
    own = {name: options.pop(name) for name in options_by_title(command)}
    options["out"] = Path(str(options["out"]))
    for key in ("precision", "picture"):
        if key in options:
            options[key] = str(options[key])
    if "samples" in options:
        options["samples"] = tuple(as_list(options["samples"]))
    named = {field.name for field in fields(kind)}
    given = {key: value for key, value in options.items() if key in named}
    return kind(**given, options=own | input_files(config, command))

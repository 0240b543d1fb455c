"""Keys of ``sample`` and ``evaluate`` that mean something for some kinds of data only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.files import as_list, check_exists, plain
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.domains.request_checks import options_by_title
from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
from discrete_diffusion.hub.published import check_model
from discrete_diffusion.runtime.atomic_files import growing_name

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.domains.option import Option

COMMANDS = ("sample", "evaluate")


def offer_options(command: str) -> None:
    """Let Hydra know the options of all kinds of data: ``sample.yaml``, ``evaluate.yaml`` and,
    under ``eval``, ``train.yaml``, which ``compare.yaml`` begins with, take them in as
    defaults. Other commands have none."""
    command = "train" if command == "compare" else command
    if command not in (*COMMANDS, "train"):
        return
    from hydra.core.config_store import ConfigStore

    node = {name: next(iter(o.values())).default for name, o in options_by_title(command).items()}
    if command == "train":
        node = {"eval": node}
    ConfigStore.instance().store(f"{command}_options", node, package="_global_")


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


def sample_request(config: DictConfig) -> SampleRequest:
    """Request in the config of ``sample``; ``ValueError`` for a number out of its range."""
    return SampleRequest(
        **_fields(config, "sample"), out=Path(str(config.out)), picture=str(config.picture)
    )


def evaluate_request(config: DictConfig) -> EvaluateRequest:
    """Request in the config of ``evaluate``; the same ``ValueError``."""
    return EvaluateRequest(
        **_fields(config, "evaluate"),
        samples=tuple(as_list(config.samples)),
        split=config.split,
        num_held_out=config.num_held_out,
        bound_draws=config.bound_draws,
        quick=config.quick,
        ema=config.ema,
        out=Path(str(config.out)),
    )


def _fields(config: DictConfig, command: str) -> dict[str, Any]:
    """Fields of ``Request``."""
    given = plain(config)
    options = {name: given[name] for name in options_by_title(command)}
    options |= input_files(config, command)
    keys = ("num_samples", "seed", "steps", "sampling", "batch_size")
    return {
        **{key: given[key] for key in keys},
        "precision": str(config.precision),
        "options": options,
    }

"""``discrete-diffusion sample``: sample from a checkpoint's model.

``evaluate`` uses the functions here that check a config and choose devices.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, TypeVar

from omegaconf import DictConfig

from discrete_diffusion.cli.process_setup import end_stopped
from discrete_diffusion.cli.run_folders import reserve_outputs
from discrete_diffusion.composing.parts import check_sampling
from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.files import as_list, check_exists, plain
from discrete_diffusion.config.values import Count, check_name
from discrete_diffusion.domains.registry import (
    available_domains,
    domain_of,
    get_domain,
    options_by_title,
)
from discrete_diffusion.evaluation.requests import Request, SampleRequest
from discrete_diffusion.hub import boxed_model, check_model
from discrete_diffusion.runtime.atomic_files import (
    check_folder,
    growing_file,
    growing_name,
    refuse_overwriting,
)
from discrete_diffusion.runtime.devices import (
    check_compile,
    check_units,
    computed_in,
    num_processes,
)
from discrete_diffusion.runtime.processes import (
    CommandSignals,
    Shard,
    Stop,
    StopSignals,
    connected,
    local_rank,
    silence_nonzero_ranks,
)

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

_Request = TypeVar("_Request", bound=Request)

ACCELERATORS = ("auto", "cpu", "cuda", "gpu")


def run(config: DictConfig) -> None:
    """Sample, and write the samples and ``metrics.json`` into ``out``, see ``Domain.sample``.

    Several processes share the sampling; the first process does the rest."""
    silence_nonzero_ranks()
    if config.checkpoint is None:
        config.checkpoint = boxed_model()
    request = check_values(config)
    with reserve_outputs(config, [*_output_names(), request.picture]):
        _sample_and_write(request, config)


def check_values(config: DictConfig) -> SampleRequest:
    """Return the request of a config; ``ValueError`` or ``FileNotFoundError`` if it is wrong."""
    folder, picture = Path(str(config.out)), Path(str(config.picture))
    check_folder("out", folder)
    if picture.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"picture={picture}: choose a name that ends in .png or .svg")
    outputs = {(folder / name).resolve(): name for name in _output_names()}
    if name := outputs.get((folder / picture).resolve()):
        raise ValueError(f"picture={picture}: {name} is an output too; choose another name")
    return checked_request(SampleRequest, config, [*_output_names(), str(picture)])


def _sample_and_write(request: SampleRequest, config: DictConfig) -> None:
    """Sample, write the files, and log facts of the samples."""
    from discrete_diffusion.api.requests import sample
    from discrete_diffusion.evaluation.tables import write_metrics
    from discrete_diffusion.sampling.exactness import exactness_facts

    here, folder = choose_devices(config), request.out
    trained = opened_model(config, request, here)
    trained.refuse_overwriting_data(folder, _output_names(), request.get("data"))
    facts = {"checkpoint": trained.path, "seed": request.seed, "precision": request.precision}
    # facts of the domain may replace these
    facts |= exactness_facts(trained.approximations())
    # samples of one line each are appended to a file as they are finished
    domain = domain_of(trained.data_config)
    streamed = domain.streamed_file
    growing = (
        nullcontext(lambda text: None) if streamed is None else growing_file(folder / streamed)
    )
    try:
        with CommandSignals() as signals, growing as append:
            done = sample(request, _stopped_between_steps(trained, signals, append)).write()
    except Stop as stop:
        left = [str(path) for path in folder.glob("samples.partial.*")]
        several = here.per_node * here.num_nodes > 1
        nothing = "several processes keep no sample" if several else "no sample was finished"
        end_stopped(stop, f"the finished samples are in {left[0]}" if left else nothing)
    # facts of the samples
    if signals.received is not None:
        facts["stopped_by"] = Signals(signals.received).name
    write_metrics(folder, facts | done.facts)
    logger.info("%s", done.log_line)
    if trained.steps is not None and trained.sampling["name"] == "first-hitting":
        words = f"sampling=planned steps={trained.steps}"
        logger.info("%s: nearer to the model in as many calls, chosen at its first use", words)
    # a signal ended the sampling early: the finished samples were written
    if signals.received is not None:
        num = done.facts["num_samples"]
        name = streamed or next(iter(domain.sample_files), "")
        ended = Stop(signals.received, where=signals.where)
        end_stopped(ended, f"the {num:,} finished samples are in {folder / name}")
    checkpoint = shlex.quote(str(config.checkpoint))
    logger.info("next: discrete-diffusion evaluate checkpoint=%s quick=true", checkpoint)


def _stopped_between_steps(
    trained: TrainedModel, signals: StopSignals, append: Callable[[str], None]
) -> TrainedModel:
    """Copy the model such that a signal ends its sampling, but not the work after it."""

    @contextmanager
    def sharing() -> Iterator[Shard]:
        with trained.sharing() as shard:
            yield shard
        signals.promise = "writing the samples that are finished"
        signals.finish_step = True

    return replace(
        trained,
        sharing=sharing,
        append=append,
        stop_asked=lambda: signals.received is not None,
    )


# --- files ---


def sample_files() -> list[str]:
    """Names of the sample files that ``sample`` may write, for all kinds of data."""
    names: list[str] = []
    for domain in map(get_domain, available_domains()):
        names += domain.sample_files
        if domain.streamed_file is not None:
            names += [domain.streamed_file, growing_name(Path(domain.streamed_file)).name]
    return list(dict.fromkeys(names))


def _output_names() -> list[str]:
    """Names of the files that may be written to ``out``, without ``picture``."""
    return ["metrics.json", *sample_files()]


def input_files(config: DictConfig, command: str) -> dict[str, str]:
    """Input files by key, for options of any kind of data that name a file."""
    options = options_by_title(command)
    files = [name for name, each in options.items() if any(o.is_file for o in each.values())]
    return {name: str(config[name]) for name in files if config[name] is not None}


# --- requests ---


def checked_request(kind: type[_Request], config: DictConfig, outputs: Sequence[str]) -> _Request:
    """Return the request of a config of ``sample`` or ``evaluate``, which writes ``outputs``.

    Raises ``ValueError`` naming a wrong key, or an input that would be overwritten, and
    ``FileNotFoundError`` naming the key of a missing file."""
    request, command = request_of(kind, config), _command_of(kind)
    # an option is wrong if no kind of data takes its value
    for name, options in options_by_title(command).items():
        errors = []
        for option in options.values():
            try:
                option.check(config[name])
            except ValueError as error:
                errors.append(error)
        if len(errors) == len(options):
            raise errors[0]
    check_computing(config)
    if config.get("samples") is None:
        check_sampling(request.sampling)
    # files that are read are there, and not written to
    files = {key: [file] for key, file in input_files(config, command).items()}
    files |= {"samples": as_list(config.get("samples"))}
    for key, paths in files.items():
        refuse_overwriting(Path(str(config.out)), outputs, key, paths)
        for path in paths:
            check_exists(key, path)
    check_model("checkpoint", config.checkpoint)
    for key, path in (config.get("data") or {}).items():
        if str(key).endswith("path"):
            check_exists(f"data.{key!s}", path)
    return request


def _command_of(kind: type[Request]) -> str:
    return "sample" if issubclass(kind, SampleRequest) else "evaluate"


def request_of(kind: type[_Request], config: DictConfig) -> _Request:
    """Convert the config of ``sample`` or ``evaluate`` to a request; ``ValueError`` if wrong."""
    command, options = _command_of(kind), plain(config)
    own = {name: options.pop(name) for name in options_by_title(command)}
    # types of the request's fields
    options["out"] = Path(str(options["out"]))
    for key in ("precision", "picture"):
        if key in options:
            options[key] = str(options[key])
    if "samples" in options:
        options["samples"] = tuple(as_list(options["samples"]))
    named = {field.name for field in fields(kind)}
    given = {key: value for key, value in options.items() if key in named}
    return kind(**given, options=own | input_files(config, command))


# --- devices ---


@dataclass(frozen=True)
class Computing:
    """Device of this process, number of processes, and precision of the network.

    ``threads``: number of CPU threads of a process, or None."""

    device: str
    per_node: int
    num_nodes: int
    precision: str
    threads: int | None

    @contextmanager
    def shared(self) -> Iterator[Shard]:
        """Run all processes during the block, in ``precision``; after it only the first goes on."""
        with ExitStack() as stack:
            shard = Shard()
            if self.per_node * self.num_nodes > 1:
                shard = stack.enter_context(connected(self.per_node, self.num_nodes, self.threads))
            stack.enter_context(computed_in(self.precision, self.device))
            yield shard


def check_computing(config: DictConfig) -> None:
    """Raise ``ValueError`` for an invalid ``compile``, ``accelerator``, ``devices``, ``num_nodes``
    or ``threads``."""
    check_compile(config.compile)
    check_name("accelerator", config.accelerator, ACCELERATORS)
    keys = ("threads", "num_nodes", *(("devices",) if config.devices != "auto" else ()))
    check_keys(config, dict.fromkeys(keys, Count))


def choose_devices(config: DictConfig) -> Computing:
    """Choose the number of processes and the device of this process, and set its CPU threads.

    Raises ``ValueError`` for a precision that the device does not have, more processes than GPUs,
    and numbers that contradict torchrun or srun."""
    import torch

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # use GPUs if there are any
    uses_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    if config.accelerator in ("cuda", "gpu") and not uses_gpu:
        raise ValueError(
            f"accelerator={config.accelerator}: torch finds no GPU here; take accelerator=cpu"
        )
    check_units("precision", str(config.precision), on_gpu=uses_gpu)
    num_gpus = torch.cuda.device_count() if uses_gpu else 0
    # processes, each with its GPU
    per_node, num_nodes = num_processes(
        config, num_gpus, defaults=(None, "auto"), prefix="", sees_own_gpu=True
    )
    device = "cuda" if uses_gpu else "cpu"
    if uses_gpu and per_node * num_nodes > 1:
        # under srun a process may see only its own GPU
        index = local_rank() % num_gpus
        torch.cuda.set_device(index)
        device = f"cuda:{index}"
    return Computing(device, per_node, num_nodes, str(config.precision), config.threads)


def opened_model(config: DictConfig, request: Request, here: Computing) -> TrainedModel:
    """Load the model of ``config.checkpoint`` onto its device, as ``open_trained_model``."""
    from discrete_diffusion.api.requests import open_trained_model

    return open_trained_model(
        str(config.checkpoint),
        request,
        ema=config.ema,
        compiled=config.compile,
        device=here.device,
        sharing=here.shared,
    )

"""``discrete-diffusion sample``: samples from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.api.output_folder import reserve_outputs
from discrete_diffusion.api.sampler_settings import check_sampling
from discrete_diffusion.cli.devices import check_computing, opened_model, where_to_compute
from discrete_diffusion.cli.process_setup import end_stopped
from discrete_diffusion.cli.request_options import (
    check_inputs,
    check_request,
    input_files,
    request_of,
    sample_files,
)
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.evaluation.requests import SampleRequest
from discrete_diffusion.hub.published import boxed_model
from discrete_diffusion.runtime.atomic_files import check_folder, growing_file, refuse_overwriting
from discrete_diffusion.runtime.processes import CommandSignals, silence_nonzero_ranks
from discrete_diffusion.runtime.stopping import Stop, StopSignals

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.runtime.processes import Shard

logger = logging.getLogger(__name__)


def run(config: DictConfig) -> None:
    """Sample, and write the samples and ``metrics.json`` into ``out``, see ``Domain.sample``.
    Several processes share the sampling, the first one does the rest."""
    silence_nonzero_ranks()
    if config.checkpoint is None:
        config.checkpoint = boxed_model()
    request = check_values(config)
    with reserve_outputs(config, [*_outputs(), request.picture]):
        _sample(request, config)


def check_values(config: DictConfig) -> SampleRequest:
    """The request of a config. ``ValueError`` or ``FileNotFoundError`` for what the config alone
    shows to be wrong."""
    request = request_of(SampleRequest, config)
    check_request(config, "sample")
    check_computing(config)
    check_outputs(config)
    check_sampling(request.sampling)
    check_inputs(config, "sample")
    return request


def _sample(request: SampleRequest, config: DictConfig) -> None:
    from discrete_diffusion.api.requests import sample
    from discrete_diffusion.evaluation.json_values import write_metrics
    from discrete_diffusion.sampling.exactness import exactness

    here, folder = where_to_compute(config), request.out
    trained = opened_model(config, request, here)
    trained.refuse_overwriting_data(folder, _outputs(), request.get("data"))
    facts = {"checkpoint": trained.path, "seed": request.seed, "precision": request.precision}
    facts |= exactness(trained.approximations())  # a domain that knows more says so
    try:
        with CommandSignals() as signals, _unfinished(folder, trained) as append:
            done = sample(request, _written_if_stopped(trained, signals, append)).write()
    except Stop as stop:
        left = [str(path) for path in folder.glob("samples.partial.*")]
        several = here.per_node * here.num_nodes > 1
        nothing = "several processes keep no sample" if several else "no sample was finished"
        end_stopped(stop, f"what was drawn is in {left[0]}" if left else nothing)
    if signals.received is not None:
        facts["stopped_by"] = Signals(signals.received).name
    write_metrics(folder, facts | done.facts)
    logger.info("%s", done.log_line)
    if signals.received is not None:
        num = done.facts["num_samples"]
        domain = domain_of(trained.data_config)
        name = domain.streamed_file or next(iter(domain.sample_files), "")
        ended = Stop(signals.received, where=signals.where)
        end_stopped(ended, f"the {num:,} finished samples are in {folder / name}")


def _unfinished(
    folder: Path, trained: TrainedModel
) -> AbstractContextManager[Callable[[str], None]]:
    """Function that appends samples of a model to a file in the folder, if they are lines."""
    name = domain_of(trained.data_config).streamed_file
    return nullcontext(lambda text: None) if name is None else growing_file(folder / name)


def _written_if_stopped(
    trained: TrainedModel, signals: StopSignals, append: Callable[[str], None]
) -> TrainedModel:
    """A signal ends the sampling; what comes after is finished, or asks whether one has come."""

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


def _outputs() -> list[str]:
    """Files that ``out`` may receive beside ``picture``."""
    return ["metrics.json", *sample_files()]


def check_outputs(config: DictConfig) -> None:
    """``ValueError`` for an ``out`` that is no folder, a ``picture`` of another kind or with the
    name of another output, and a file to read that would be overwritten."""
    folder, picture = Path(str(config.out)), Path(str(config.picture))
    check_folder("out", folder)
    if picture.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"picture={picture}: choose a name that ends in .png or .svg")
    taken = {(folder / name).resolve(): name for name in _outputs()}
    if name := taken.get((folder / picture).resolve()):
        raise ValueError(f"picture={picture}: {name} is an output too; choose another name")
    for key, file in input_files(config, "sample").items():
        refuse_overwriting(folder, [*_outputs(), str(picture)], key, [file])

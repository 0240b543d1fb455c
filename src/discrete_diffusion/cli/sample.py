"""``discrete-diffusion sample``: samples from a checkpoint."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.cli.compose import check_counts
from discrete_diffusion.cli.computing import Computing, check_computing, where_to_compute
from discrete_diffusion.cli.launch_environment import hush_other_ranks
from discrete_diffusion.cli.sample_outputs import check_outputs, save_trajectory

if TYPE_CHECKING:
    from discrete_diffusion.cli.sample_source import SampleSource

logger = logging.getLogger(__name__)

NUM_SAMPLES = 64


def run(config: DictConfig) -> None:
    """Draw ``num_samples`` samples, or complete the partial diagrams of ``given``, and write them
    and ``metrics.json`` into ``out``: diagrams as ``samples.jsonl`` and ``samples.png``, text as
    ``samples.txt``; with ``trajectory`` the states on the way. Several processes share the drawing,
    the first one does the rest."""
    hush_other_ranks()
    if config.checkpoint is None:
        raise ValueError(
            "sample needs checkpoint=FILE, e.g. checkpoint=runs/first/checkpoints/best.ckpt"
        )
    check_counts(config, num_samples=1, num_rooms=1, steps=1, batch_size=1, seed=0, threads=1)
    check_counts(config, completions=1, max_arrangements=1, trajectory=0)
    _check_given(config)
    check_computing(config)
    check_outputs(config)
    from discrete_diffusion.cli.sample_source import open_sample_source

    here = where_to_compute(config)
    source = open_sample_source(config, here.device)
    if config.trajectory:
        source.check_diagrams("trajectory", config.trajectory)
    if config.given is None:
        _draw(config, source, here)
    else:
        from discrete_diffusion.cli.completion_files import complete_file

        complete_file(config, source, here)


def _check_given(config: DictConfig) -> None:
    """``ValueError`` for settings that belong to the other way to sample."""
    if config.given is None:
        if config.completions is not None:
            raise ValueError(
                f"completions={config.completions} is for given=FILE; did you mean num_samples="
                f"{config.completions}?"
            )
        return
    if not isinstance(config.given, str | int):
        raise ValueError(
            f"given={config.given}: expected one file of JSON lines; put the lines of several into "
            "one, or run the command for each"
        )
    if config.num_samples is not None:
        raise ValueError(
            f"num_samples={config.num_samples} does not go with given=; say how many completions "
            f"of each partial diagram you want: completions={config.num_samples}"
        )
    if config.num_rooms is not None:
        raise ValueError(
            f"num_rooms={config.num_rooms} does not go with given=: a partial diagram has as many "
            "rooms as it lists, null for those that are unknown; leave num_rooms out"
        )


def _draw(config: DictConfig, source: SampleSource, here: Computing) -> None:
    from discrete_diffusion.evaluation import save_samples
    from discrete_diffusion.evaluation.json_values import write_metrics

    with here.shared() as shard:
        drawn = source.draw(
            NUM_SAMPLES if config.num_samples is None else config.num_samples,
            config.seed,
            num_rooms=config.num_rooms,
            trajectories=config.trajectory,
            shard=shard,
        )
    folder = Path(str(config.out))
    saved = save_samples(drawn.tokens, drawn.data, folder, config.picture)
    metrics = {
        "checkpoint": str(config.checkpoint),
        "seed": config.seed,
        "precision": str(config.precision),
        "num_samples": len(drawn.tokens),
        "network_calls_per_sample": drawn.network_calls,
        "seconds": drawn.seconds,
        **saved.numbers,
    }
    write_metrics(folder, metrics)
    save_trajectory(drawn.trajectory, folder, drawn.data.get("n_max"))
    shares = [f"{k} {100 * metrics[k]:.1f} %" for k in ("valid", "transitive") if k in metrics]
    logger.info(
        "%d samples in %.1f s%s; %s",
        len(drawn.tokens),
        drawn.seconds,
        f": {', '.join(shares)}" if shares else "",
        saved.path,
    )

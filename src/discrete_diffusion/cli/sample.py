"""``discrete-diffusion sample``: samples from a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.cli.compose import check_counts, check_shares
from discrete_diffusion.cli.computing import Computing, check_computing, where_to_compute
from discrete_diffusion.cli.launch_environment import hush_other_ranks
from discrete_diffusion.cli.meant_settings import refuse_meaningless
from discrete_diffusion.cli.sample_outputs import check_outputs
from discrete_diffusion.cli.sample_source import open_sample_source
from discrete_diffusion.states import DIALOGUES, IMAGES

if TYPE_CHECKING:
    from discrete_diffusion.cli.sample_source import SampleSource


def run(config: DictConfig) -> None:
    """Sample, and write the samples and ``metrics.json`` into ``out``: see ``sample_tokens``,
    ``sample_features``, ``sample_fields`` and ``sample_summaries``. Several processes share the
    sampling, the first one does the rest."""
    hush_other_ranks()
    if config.checkpoint is None:
        raise ValueError(
            "sample needs checkpoint=FILE, e.g. checkpoint=runs/first/checkpoints/best.ckpt"
        )
    check_counts(config, num_samples=1, num_rooms=1, steps=1, batch_size=1, seed=0, threads=1)
    check_counts(config, completions=1, max_arrangements=1, trajectory=0, draws=1)
    _check_given(config)
    check_shares(config, "mask_rate")
    check_computing(config)
    check_outputs(config)
    here = where_to_compute(config)
    _sample(config, open_sample_source(config, here.device), here)


def _sample(config: DictConfig, source: SampleSource, here: Computing) -> None:
    """As what the model was trained on has it."""
    from discrete_diffusion.cli.feature_samples import sample_features
    from discrete_diffusion.cli.field_samples import sample_fields
    from discrete_diffusion.cli.summary_samples import sample_summaries
    from discrete_diffusion.cli.token_samples import sample_tokens

    refuse_meaningless(config, source)
    commands = {
        "diagrams": sample_tokens,
        "text": sample_tokens,
        "features": sample_features,
        IMAGES: sample_fields,
        DIALOGUES: sample_summaries,
    }
    commands[source.trained_on](config, source, here)


def _check_given(config: DictConfig) -> None:
    """``ValueError`` for settings that belong to the other way to sample."""
    if config.given is None:
        if config.completions is not None:
            raise ValueError(
                f"completions={config.completions} is for given=FILE; did you mean num_samples="
                f"{config.completions}?"
            )
        if config.max_arrangements is not None:
            raise ValueError(
                f"max_arrangements={config.max_arrangements} is for given=FILE; leave it out"
            )
        if config.codes is not None:
            raise ValueError(f"codes={config.codes} is for given=FILE; leave it out")
        return
    if not isinstance(config.given, str | int):
        raise ValueError(
            f"given={config.given}: expected one file of JSON lines; put the lines of several into "
            "one, or run the command for each"
        )
    if config.num_samples is not None:
        raise ValueError(
            f"num_samples={config.num_samples} does not go with given=; say how many completions "
            "of each dialogue, partial diagram or window you want: "
            f"completions={config.num_samples}"
        )
    if config.num_rooms is not None:
        raise ValueError(
            f"num_rooms={config.num_rooms} does not go with given=: a partial diagram has as many "
            "rooms as it lists, null for those that are unknown; leave num_rooms out"
        )
    if config.mask_rate is not None:
        raise ValueError(
            f"mask_rate={config.mask_rate} does not go with given=: the file says which rows are "
            "to be filled; leave mask_rate out"
        )

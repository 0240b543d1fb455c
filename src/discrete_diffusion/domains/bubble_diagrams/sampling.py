"""``sample`` of a model of diagrams: fresh ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.domains.bubble_diagrams.metrics.structure import structure_metrics
from discrete_diffusion.domains.bubble_diagrams.report import save_diagrams
from discrete_diffusion.domains.bubble_diagrams.tokens import decode
from discrete_diffusion.domains.bubble_diagrams.trajectory_files import save_trajectory
from discrete_diffusion.domains.domain import Sampled
from discrete_diffusion.evaluation.token_samples import draw_fresh
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.options import check_whole_number

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.trained_model import TrainedModel

NUM_SAMPLES = 64


def sample_diagrams(config: DictConfig, trained: TrainedModel) -> Sampled:
    """Draw ``num_samples`` diagrams, all of ``num_rooms`` rooms if that is given.

    Writes ``samples.jsonl`` and ``samples.png``; with ``trajectory`` the states on the way."""
    most, asked = trained.data_config.n_max, config.num_rooms
    if asked is not None:
        check_whole_number("num_rooms", asked, least=1)
        if asked > most:
            raise ValueError(
                f"num_rooms={asked}: {trained.path} was trained on diagrams of at most {most} rooms"
            )
    num = NUM_SAMPLES if config.num_samples is None else config.num_samples
    with trained.sharing() as shard:
        drawn = draw_fresh(
            trained,
            trained.on(shard),
            num,
            config.seed,
            size=asked,
            trajectories=config.trajectory,
        )
    folder, vocab = Path(str(config.out)), VocabConfig(n_max=trained.data_config.n_max)
    diagrams = decode(drawn.tokens, vocab)
    save_diagrams(diagrams, folder, config.picture)
    numbers = structure_metrics(diagrams)
    save_trajectory(drawn.trajectory, folder, vocab)
    facts = {
        "num_samples": len(diagrams),
        "network_calls_per_sample": drawn.network_calls,
        "seconds": drawn.seconds,
        **numbers,
    }
    shares = ", ".join(f"{k} {100 * numbers[k]:.1f} %" for k in ("valid", "transitive"))
    return Sampled(
        facts,
        f"{len(diagrams)} samples in {drawn.seconds:.1f} s: {shares}; {folder / config.picture}",
    )

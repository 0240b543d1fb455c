"""Files of trajectories of samples."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

from torch import Tensor

from discrete_diffusion.config import counted
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.partial import PartialDiagram, decode_partial
from floor_plans.diagrams.pictures.trajectory import MAX_FRAMES, animate, plot_film_strip

logger = logging.getLogger(__name__)

TRAJECTORY = ("trajectory.gif", "trajectory.png")


def save_trajectory(trajectory: Tensor | None, folder: Path, vocab: VocabConfig) -> None:
    """Write trajectories of samples Int[K, M, L]: ``trajectory.gif`` of all samples, and
    ``trajectory.png``, a film strip of the first. Repeated states of a sample are left out.

    Without a trajectory, files of an earlier run are removed, since they show other samples.
    """
    animation, strip = (folder / name for name in TRAJECTORY)
    # no trajectory: remove the files of an earlier run
    if trajectory is None:
        earlier = [path for path in (animation, strip) if path.is_file()]
        for path in earlier:
            path.unlink()
        if earlier:
            logger.info("removed, as they show earlier samples: %s", ", ".join(map(str, earlier)))
        return
    # states of each sample, written as GIF and film strip
    states = [_own_states(decode_partial(x, vocab)) for x in trajectory.unbind(dim=1)]
    count = max(map(len, states))
    shown = f", {MAX_FRAMES} of {count:,} states" if count > MAX_FRAMES else ""
    frames = counted(min(count, MAX_FRAMES), "frame")
    logger.info("drawing %s of %s%s", frames, counted(len(states), "diagram"), shown)
    animate(states, animation)
    plot_film_strip(states[0], strip)
    logger.info("on the way out of the noise: %s, %s", animation, strip)


def _own_states(states: list[PartialDiagram]) -> list[PartialDiagram]:
    """States that differ from the previous one, since other samples may change in between."""
    return states[:1] + [new for old, new in pairwise(states) if new != old]

"""The files that ``sample`` and ``evaluate`` write: refused before anything is computed if they
would take the place of another, and the pictures of a trajectory."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.whole_files import is_same_file

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.data.bubble_diagrams import PartialDiagram

logger = logging.getLogger(__name__)

TRAJECTORY = ("trajectory.gif", "trajectory.png")
OUTPUTS = ("samples.jsonl", "samples.txt", "samples.npz", "metrics.json", *TRAJECTORY)
"""What ``out`` may receive beside ``picture``."""

MAX_TRAJECTORIES = 36
"""Diagrams that an animation shows; more could not be told apart."""


def check_outputs(config: DictConfig) -> None:
    """``ValueError`` for an ``out`` that is no folder, a ``picture`` of another kind or with the
    name of another output, a ``given`` that would be overwritten, and too many trajectories."""
    folder, picture = Path(str(config.out)), Path(str(config.picture))
    for part in (folder, *folder.parents):
        if part.exists() and not part.is_dir():
            raise ValueError(f"out={folder}: {part} is a file; choose a folder")
    if picture.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"picture={picture}: choose a name that ends in .png or .svg")
    taken = {(folder / name).resolve(): name for name in OUTPUTS}
    if name := taken.get((folder / picture).resolve()):
        raise ValueError(f"picture={picture}: {name} is another output; choose another name")
    for target in (*taken, folder / picture):
        if config.given is not None and is_same_file(target, Path(str(config.given))):
            raise ValueError(
                f"given={config.given} would be overwritten by the completions; choose another "
                "out=FOLDER"
            )
    if config.trajectory > MAX_TRAJECTORIES:
        raise ValueError(
            f"trajectory={config.trajectory}: expected at most {MAX_TRAJECTORIES} diagrams, more "
            "are too small to see"
        )


def refuse_overwriting(
    folder: Path, names: Iterable[str], key: str, files: Iterable[str | None]
) -> None:
    """``ValueError`` if one of the ``files`` that ``key`` names, or one in a folder among them, is
    one of the ``names`` that will be written into ``folder``; None names nothing."""
    for path in [Path(file) for file in files if file is not None]:
        read = [path, *path.iterdir()] if path.is_dir() else [path]
        for target in [folder / name for name in names]:
            if any(is_same_file(target, file) for file in read):
                raise ValueError(
                    f"{key}={path}: {target} would be overwritten; choose another out=FOLDER"
                )


def refuse_overwriting_data(folder: Path, names: Iterable[str], data: DictConfig) -> None:
    """The same for the files that a ``config.data`` names."""
    for key, value in data.items():
        if str(key).endswith("path") and isinstance(value, str):
            refuse_overwriting(folder, names, f"data.{key!s}", [value])


def save_trajectory(trajectory: Tensor | None, folder: Path, n_max: int) -> None:
    """Write how samples Int[K, M, L] came out of the noise: ``trajectory.gif``, all of them, and
    ``trajectory.png``, a film strip of the first. Each is shown by the states that are new to it.

    Without any, those of an earlier run are removed: they show other samples.
    """
    if trajectory is None:
        _remove_earlier(folder)
        return
    from discrete_diffusion.data.bubble_diagrams.partial import decode_partial
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.viz.trajectory import animate, draw_film_strip

    vocab = VocabConfig(n_max=n_max)
    states = [_own_states(decode_partial(x, vocab)) for x in trajectory.unbind(dim=1)]
    count = max(map(len, states))
    logger.info("drawing %d frames of %d diagrams", count, len(states))
    animation, strip = (folder / name for name in TRAJECTORY)
    animate(states, animation)
    draw_film_strip(states[0], strip)
    logger.info("on the way out of the noise: %s, %s", animation, strip)


def _own_states(states: list[PartialDiagram]) -> list[PartialDiagram]:
    """Those that differ from the one before: other samples may have changed in between."""
    return states[:1] + [new for old, new in pairwise(states) if new != old]


def _remove_earlier(folder: Path) -> None:
    earlier = [folder / name for name in TRAJECTORY if (folder / name).is_file()]
    for path in earlier:
        path.unlink()
    if earlier:
        logger.info("removed, as they show earlier samples: %s", ", ".join(map(str, earlier)))

"""The files that ``sample`` and ``evaluate`` write: refused before anything is computed if they
would take the place of another."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from discrete_diffusion.whole_files import is_same_file

OUTPUTS = (
    *("samples.jsonl", "samples.txt", "samples.npz", "metrics.json"),
    *("trajectory.gif", "trajectory.png"),
)
"""What ``out`` may receive beside ``picture``."""

MAX_TRAJECTORIES = 36
"""Samples that an animation shows; more could not be told apart."""


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
            f"trajectory={config.trajectory}: expected at most {MAX_TRAJECTORIES} samples, more "
            "are too small to see"
        )

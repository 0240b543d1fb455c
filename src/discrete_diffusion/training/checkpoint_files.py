"""How Lightning reads and writes checkpoint files here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO

from discrete_diffusion.checkpoints import INFO_KEY, read_training_file, write_weights_file
from discrete_diffusion.whole_files import written_whole


class CheckpointFiles(TorchCheckpointIO):
    """Files that are whole at any moment, with the averaged weights as ``.safetensors`` beside.

    Lightning's own goes through the system's temporary folder, from where a move to another disk is
    a copy that can be cut short; it checks no checksums when it reads.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        path = Path(path)
        with written_whole(path) as unfinished:
            torch.save(checkpoint, unfinished)
        if INFO_KEY in checkpoint:
            with written_whole(path.with_suffix(".safetensors")) as unfinished:
                write_weights_file(unfinished, checkpoint)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Onto the CPU and without running code, whatever is asked for."""
        return read_training_file(path)

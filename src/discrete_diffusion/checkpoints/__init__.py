"""Checkpoints: what is in one, how an algorithm comes back out of it, when a run may go on."""

from discrete_diffusion.checkpoints.contents import (
    FORMAT,
    Checkpoint,
    checkpoint_info,
    info_with_digest,
    read_checkpoint,
    read_contents,
)
from discrete_diffusion.checkpoints.exporting import export_onnx
from discrete_diffusion.checkpoints.files import (
    INFO_KEY,
    LAST,
    checkpoint_file,
    read_training_file,
    write_weights_file,
)
from discrete_diffusion.checkpoints.initialising import (
    Initialised,
    StartingWeights,
    initialise,
    other_meanings,
    read_starting_weights,
)
from discrete_diffusion.checkpoints.original_exporting import export_original
from discrete_diffusion.checkpoints.resuming import ResumePoint, check_resumable
from discrete_diffusion.checkpoints.sharing import push_to_hub, save_pretrained

__all__ = [
    "FORMAT",
    "INFO_KEY",
    "LAST",
    "Checkpoint",
    "Initialised",
    "ResumePoint",
    "StartingWeights",
    "check_resumable",
    "checkpoint_file",
    "checkpoint_info",
    "export_onnx",
    "export_original",
    "info_with_digest",
    "initialise",
    "other_meanings",
    "push_to_hub",
    "read_checkpoint",
    "read_contents",
    "read_starting_weights",
    "read_training_file",
    "save_pretrained",
    "write_weights_file",
]

"""The data that a checkpoint was trained on, rebuilt from its config, and the split it held out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from omegaconf.errors import OmegaConfBaseException

from discrete_diffusion.naming import unknown_name

if TYPE_CHECKING:
    from discrete_diffusion.checkpoints import Checkpoint
    from discrete_diffusion.data import Dataset

logger = logging.getLogger(__name__)

HELD_OUT = ("test", "val")
"""Splits to measure on, the preferred one first."""


class UnreadableDataError(ValueError):
    """The data of a checkpoint is not there any more, or cannot be read. ``reason``: why."""

    def __init__(self, path: object, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"the data of {path} cannot be read ({reason})")


def checkpoint_data(path: object, checkpoint: Checkpoint) -> Any:
    """The ``Dataset`` of the checkpoint at ``path``, of the class that its state has; said in the
    log, with a warning if it is not the data that was trained on.

    Raises ``UnreadableDataError``.
    """
    from discrete_diffusion.data import build_data

    try:
        data = build_data(checkpoint.config)
    except (OSError, ValueError, OmegaConfBaseException) as error:
        raise UnreadableDataError(path, str(error).split("\n")[0]) from error
    found, expected = data.fingerprint(), checkpoint.data_fingerprint
    if expected is not None and found != expected:
        logger.warning(
            "this is not the data that %s was trained on (fingerprint %s, then %s): what is held "
            "out here may have been trained on",
            *(path, found, expected),
        )
    logger.info("data: %s", data.summary())
    return data


def held_out_split(
    data: Dataset, split: str | None = None, remedy: str = "choose another split"
) -> str:
    """The split asked for, or the first of ``HELD_OUT`` that is not empty.

    Raises ``ValueError`` for an unknown split, and, with the ``remedy``, for an empty one.
    """
    from discrete_diffusion.data.base import SPLITS

    if split is None:
        split = next((name for name in HELD_OUT if len(data.splits[name])), HELD_OUT[0])
    if split not in SPLITS:
        raise ValueError(unknown_name("split", split, SPLITS))
    if len(data.splits[split]) == 0:
        raise ValueError(f"the {split} split is empty; {remedy}")
    return split

"""``train init.checkpoint=...``: starting from the weights of another run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from discrete_diffusion.config_files import plain
from discrete_diffusion.naming import counted

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.algorithms import Algorithm
    from discrete_diffusion.checkpoints import StartingWeights

logger = logging.getLogger(__name__)

_MAX_NAMED = 4


def starting_weights(config: DictConfig) -> StartingWeights | None:
    """What ``init.checkpoint`` holds; None without one, and for a run that is resumed, whose
    checkpoint has come further. The errors of ``read_starting_weights``."""
    from discrete_diffusion.checkpoints import read_starting_weights

    init = plain(config.init)
    parts = init["parts"]
    if parts is not None and not (isinstance(parts, list) and parts):
        raise ValueError(f"init.parts={parts}: expected a list, as in init.parts=[encoder]")
    if init["checkpoint"] is None:
        if parts is not None:
            raise ValueError("init.parts is of init.checkpoint; give init.checkpoint=FILE too")
        return None
    if config.resume is not None:
        logger.info("init.checkpoint is not read: resume=%s has come further", config.resume)
        return None
    return read_starting_weights(str(init["checkpoint"]), ema=init["ema"])


def start_from(start: StartingWeights, algorithm: Algorithm, config: DictConfig) -> None:
    """Copy ``init.parts`` into the backbone and log what was copied.

    After ``Algorithm.fit``: what a part learnt of the data it was trained on, such as the scale of
    its maps, belongs to its weights and replaces what this data says."""
    from discrete_diffusion.checkpoints import initialise

    parts = config.init.parts
    done = initialise(
        algorithm.backbone,
        start,
        parts=None if parts is None else [str(part) for part in parts],
        config=plain(config),
    )
    what = "the backbone" if parts is None else ", ".join(map(str, parts))
    logger.info("%s starts from %s: %s", what, start.path, counted(len(done.loaded), "tensor"))
    if done.missing:
        logger.warning("not in the file, so as initialised: %s", _named(done.missing))
    if done.unused:
        logger.info("in the file only: %s", _named(done.unused))


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")

"""Keys under ``data`` that ``sample`` and ``evaluate`` take: the same model on other images."""

from __future__ import annotations

import hashlib
import logging
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config_files import config_dir, plain
from discrete_diffusion.evaluation.held_out import readable_data
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_kinds

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data import Dataset, Examples
    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

_SHAPES = ("size", "num_boundary", "channels", "field_size", "length", "vocab_size", "mask_id")
"""Keys that decide what a network takes and returns."""

_ELSEWHERE = {
    "name": "the checkpoint was trained on another data set; train a model on this one",
    "batch_size": "that is the batch size of training; set batch_size=N",
}
"""Keys that cannot be changed here, and what to do instead."""


@dataclass(frozen=True)
class MeasuredData:
    """``data``: what a model is measured on. ``trained_on``: the data of its checkpoint, which
    baselines are fitted on; the same one if nothing was changed. ``changes``: values by key, of
    those under ``data`` that were given."""

    data: Dataset
    trained_on: Dataset
    changes: dict[str, Any]

    def name_of(self, split: str) -> str:
        """A split, with what was changed."""
        given = ", ".join(f"data.{key}={value}" for key, value in self.changes.items())
        name = f"the {split} split of the checkpoint's data"
        return f"{name} with {given}" if given else name

    def facts(self, split: str) -> dict[str, Any]:
        """What ``metrics.json`` says of a split. ``num_trained_on``: its samples that the training
        split of the checkpoint's data holds too, counted if anything was changed."""
        examples = self.data.splits[split]
        facts = {"reference": self.name_of(split), "num_reference": len(examples)}
        if not self.changes:
            return facts
        training = set(_digests(self.trained_on.splits["train"]))
        known = sum(digest in training for digest in _digests(examples))
        if known and split != "train":
            logger.warning(
                "%d of the %d images of the %s split were trained on; data.phantom_seed=N draws "
                "others",
                *(known, len(examples), split),
            )
        return {**facts, "changed_data": self.changes, "num_trained_on": known}


def measured_data(config: DictConfig, trained: TrainedModel) -> MeasuredData:
    """The data of the checkpoint, with the keys of ``config.data`` replaced where there are any.

    The images of a split stay the same ones if only the noise or the transform of their maps
    changes; with other phantoms all are new. Raises ``ValueError`` for a key that the data set does
    not have, one that changes shapes, a value that cannot be, or data that cannot be read.
    """
    from discrete_diffusion.domains import build_data, complete_data

    changes = plain(config.data)
    _check(changes, trained.data_config)
    trained_on = readable_data(trained)
    if not changes:
        return MeasuredData(trained_on, trained_on, {})
    changed = deepcopy(trained.checkpoint.config)
    for key, value in changes.items():
        changed.data[key] = value
    data = build_data(complete_data(changed))
    logger.info("measured on: %s", data.summary())
    return MeasuredData(data, trained_on, changes)


def _check(changes: dict[str, Any], trained: DictConfig) -> None:
    from omegaconf import OmegaConf

    for key, value in changes.items():
        given = f"data.{key}={value}"
        if key in _ELSEWHERE:
            raise ValueError(f"{given}: {_ELSEWHERE[key]}")
        if key not in trained:
            raise ValueError(unknown_name(f"key of data={trained.name}", key, map(str, trained)))
        if key in _SHAPES and value != trained[key]:
            raise ValueError(
                f"{given}: the model was trained with data.{key}={trained[key]} and takes no other "
                "shape; leave it out, or train a model with it"
            )
    default = config_dir() / "data" / f"{trained.name}.yaml"
    if default.is_file():
        config, defaults = ({"data": part} for part in (changes, OmegaConf.load(default)))
        check_kinds(OmegaConf.create(config), OmegaConf.create(defaults))


def _digests(examples: Examples) -> list[bytes]:
    """One per sample, of its numbers without conditions."""
    return [hashlib.blake2b(x.tobytes(), digest_size=16).digest() for x in examples.x0.numpy()]

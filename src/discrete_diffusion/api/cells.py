"""Cells of a comparison: runs with their folders and measurements."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from discrete_diffusion.checkpoints.contents import read_checkpoint
from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.config.constructors import leaves
from discrete_diffusion.config.files import plain
from discrete_diffusion.config.plugins import import_plugins
from discrete_diffusion.data.base import Dataset
from discrete_diffusion.domains.cell_measurement import CellMeasurement
from discrete_diffusion.domains.registry import build_data, complete_data, domain_of
from discrete_diffusion.evaluation.evaluation_protocol import EvaluationProtocol
from discrete_diffusion.evaluation.measured_data import held_out_split
from discrete_diffusion.evaluation.tables import finite_or_none, read_json, write_json
from discrete_diffusion.runtime.atomic_files import put_aside
from discrete_diffusion.runtime.devices import hardware
from discrete_diffusion.runtime.package import __version__
from discrete_diffusion.sampling.exactness import approximations, exactness_facts
from discrete_diffusion.sampling.model import Model
from discrete_diffusion.sampling.registry import build_sampler

logger = logging.getLogger(__name__)

_FREE = (
    *("resume", "overwrite", "threads", "logger", "eval"),
    *("callbacks.num_samples", "trainer.devices"),
    *("plugins", "model.scales_with"),
    # data.name says the same
    "data.domain",
    # measuring depends on it, training does not
    "sampling",
)
"""Config keys that may differ from an earlier run's: the weights do not depend on them, or the
fingerprint of the data shows the difference."""

_NEUTRAL = {
    "algo.condition_dropout": 0.0,
    "data.condition_on": None,
    "model.attribute_dropout": 0.3,
    "trainer.limit_val_batches": None,
    "init": {"checkpoint": None, "modules": None, "ema": True},
}
"""Values with which a run is the same as without the key."""

_MAX_NAMED = 6

_MEASURED = (
    *("digest", "data_fingerprint", "terms", "steps", "quantity", "ordering", "split", "rows"),
    *("bounds", "metrics", "statistics", "versions", "hardware"),
)
"""Keys of ``cell.json``."""

_OF_SAMPLES = ("num_samples", "draws", "verdicts", "sampling")
"""Settings of the samples, ignored if a comparison does not sample."""


@dataclass(frozen=True)
class CellFolder:
    """Folder of a cell: empty, with an interrupted run, or with a finished run.

    ``plan.json``: config of the run and its digest, written before training;
    ``training.json``: seconds of training so far; ``metrics.json``: results of ``train``, written
    at its end; ``cell.json``: measurements of the cell."""

    path: Path

    @property
    def last(self) -> Path:
        """Path of the checkpoint that is resumed and measured."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def is_trained(self) -> bool:
        return self.last.exists() and (self.path / "metrics.json").exists()

    @property
    def result(self) -> dict[str, Any] | None:
        """Contents of ``cell.json``, its ``bounds`` also as ``nelbo``; None if the file is missing
        or lacks keys."""
        found = read_json(self.path / "cell.json", _MEASURED)
        return None if found is None else {**found, "nelbo": found["bounds"]}

    @property
    def is_damaged(self) -> bool:
        """True if the checkpoint cannot be read."""
        if self.last.exists():
            try:
                read_training_file(self.last)
            except ValueError:
                return True
        return False

    def is_finished(self, config: DictConfig, protocol: EvaluationProtocol) -> bool:
        """True if the cell is measured as requested; settings of samples count only if samples are
        requested."""
        # the same config, measured on the same terms
        result = self.result
        if result is None or result["digest"] != config_digest(config):
            return False
        asked = {**protocol.as_dict(), "sampling": _as_json(plain(config.sampling))}
        found = {**result["terms"], "sampling": result.get("sampling")}
        ignored = () if protocol.num_samples else _OF_SAMPLES
        return all(asked.get(k) == found.get(k) for k in asked | found if k not in ignored)

    def changes(self, config: DictConfig) -> list[str]:
        """``key was -> is`` for values that differ from the run in this folder."""
        # values of the plan and of the config
        plan = read_json(self.path / "plan.json", ("digest", "config"))
        if plan is None or plan["digest"] == config_digest(config):
            return []
        was, now = (
            dict(leaves(_config_of_weights(each))) for each in (plan["config"], plain(config))
        )
        lines = [
            f"{key} {was.get(key, 'absent')} -> {now.get(key, 'absent')}"
            for key in was | now
            if was.get(key) != now.get(key)
        ]
        more = [f"{len(lines) - _MAX_NAMED} more"] if len(lines) > _MAX_NAMED else []
        return lines[:_MAX_NAMED] + more

    def write_plan(self, config: DictConfig) -> None:
        """Write ``plan.json``."""
        plan = {"digest": config_digest(config), "config": _config_of_weights(plain(config))}
        write_json(self.path / "plan.json", plan)

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        kept = read_json(self.path / "training.json", ("seconds",)) or {"seconds": 0}
        return float(kept["seconds"])

    def add_seconds(self, seconds: float) -> None:
        """Add seconds of training to those of earlier parts of the run."""
        write_json(self.path / "training.json", {"seconds": self.seconds + seconds})


@dataclass(frozen=True)
class Cell:
    """Run of a comparison: algorithm, backbone and seed, with its ``train`` config.

    ``overrides``: overrides that compose ``config``; ``instead_of``: the requested backbone, if
    ``backbone`` replaces it; ``scaled``: keys of the model preset that were changed to reach a
    number of parameters.
    """

    algorithm: str
    backbone: str
    seed: int
    overrides: tuple[str, ...]
    config: DictConfig
    parameters: int
    out: Path
    instead_of: str | None = None
    scaled: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the cell's folder."""
        return f"{self.algorithm}-{self.backbone}-seed{self.seed}"

    @property
    def folder(self) -> CellFolder:
        return CellFolder(self.out / "cells" / self.name)

    @property
    def preset(self) -> str | None:
        """Name of the model preset; None if the backbone has no preset."""
        fits = self.config.model.get("backbones")
        fitting = fits is None or self.backbone in fits
        return str(self.config.model.get("name", self.backbone)) if fitting else None

    @property
    def model(self) -> str:
        """Name of the model preset with its changed keys: ``mine, width=72``."""
        return ", ".join([self.preset or "no preset", *self.scaled])

    @property
    def data(self) -> str:
        """Name of the data set."""
        return str(self.config.data.name)

    @property
    def measurement(self) -> CellMeasurement:
        """Measurements that its kind of data defines; the same for all cells."""
        return domain_of(self.config.data).cell_measurement()


def read_data(cells: Sequence[Cell]) -> dict[str, Dataset]:
    """Read the data sets of the cells, by name, beginning with the first cell's.

    Raises ``ValueError`` if a data set holds out fewer than two samples, or if two data sets differ
    in their samples.
    """
    # each data set once
    configs: dict[str, DictConfig] = {}
    for cell in cells:
        configs.setdefault(cell.data, cell.config)
    found: dict[str, Dataset] = {}
    for name, config in configs.items():
        data = found[name] = build_data(complete_data(config))
        # at least two held-out samples
        remedy = f"give it a larger share than data.split={config.data.get('split')}, or more data"
        split = held_out_split(data, remedy=remedy)
        if (num := len(data.splits[split])) < 2:
            raise ValueError(
                f"{config.data.get('path') or f'data={name}'}: the {split} split holds {num}, "
                f"expected at least two samples to compare models on; {remedy}"
            )
    first, *others = found
    for name in others:
        cells[0].measurement.check_same(found[first], found[name])
    return found


def check_folders(cells: Sequence[Cell], data: dict[str, Dataset], *, overwrite: bool) -> None:
    """Raise ``ValueError`` listing the cells whose folders hold other runs, with the differences.

    With ``overwrite`` such folders, and folders with a damaged checkpoint, are renamed instead."""
    # differences in the config, the data, or a damaged checkpoint
    fingerprints = {name: each.fingerprint() for name, each in data.items()}
    changed = []
    for cell in cells:
        folder, result, fingerprint = cell.folder, cell.folder.result, fingerprints[cell.data]
        changes = folder.changes(cell.config)
        if result is not None and result["data_fingerprint"] != fingerprint:
            changes.append(f"the data (fingerprint {result['data_fingerprint']} -> {fingerprint})")
        if overwrite and not changes and result is None and folder.is_damaged:
            changes.append(f"{folder.last} cannot be read")
        # put aside, or refuse all at once
        if changes and overwrite:
            aside = put_aside(folder.path)
            logger.info("%s: training anew, for %s", cell.name, ", ".join(changes))
            logger.info("the earlier cell is now %s", aside)
        elif changes:
            changed.append(f"{cell.name}: {', '.join(changes)}")
    if changed:
        listed = "\n  ".join(changed)
        raise ValueError(
            f"{cells[0].out / 'cells'} holds other runs (was -> is); give overwrite=true to train "
            f"them anew, or another out=FOLDER:\n  {listed}"
        )


def config_digest(config: DictConfig) -> str:
    """Digest, 16 hex digits, of the config values that the weights of a run depend on."""
    text = json.dumps(_config_of_weights(plain(config)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _config_of_weights(config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a config, as JSON has it, without the keys ``_FREE``, those that say how data are read,
    and the values ``_NEUTRAL``."""
    # drop keys that the weights do not depend on
    kept: dict[str, Any] = _as_json(config)
    free = [*_FREE]
    if "domain" in kept["data"]:  # a copy of a copy has none of these keys
        free += [f"data.{key}" for key in domain_of(kept["data"]).reading_keys]
    for key in (*free, *_NEUTRAL):
        *parents, name = key.split(".")
        node: Any = kept
        for parent in parents:
            node = node.get(parent, {})
        if key in free or node.get(name) == _NEUTRAL[key]:
            node.pop(name, None)
    return kept


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def measure_cell(
    config: DictConfig, folder: CellFolder, protocol: EvaluationProtocol
) -> dict[str, Any]:
    """Measure the averaged weights of a trained cell's last step; return the contents of
    ``cell.json``.

    Raises ``ValueError`` if training has diverged: weights, samples or bound are not finite.
    """
    # the model of the last step
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # a launcher may run the job in another process, which has not imported them
    import_plugins(config.get("plugins"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    checkpoint = read_checkpoint(folder.last, device=device)
    algorithm = checkpoint.algorithm
    if not all(weight.isfinite().all() for weight in algorithm.parameters()):
        raise ValueError("training has diverged: the weights hold NaN or infinity")
    # the measurements, and everything that they depend on
    data = build_data(checkpoint.config)
    model = Model(algorithm, build_sampler(config), device)
    found = domain_of(config.data).cell_measurement().measure(model, data, protocol, folder.path)
    metrics = {**found.pop("metrics"), "seconds_training": folder.seconds}
    return finite_or_none(
        {
            "digest": config_digest(config),
            "data_fingerprint": data.fingerprint(),
            "terms": protocol.as_dict(),
            "sampling": plain(config.sampling),
            **(
                exactness_facts(approximations(model.sampler, algorithm))
                if protocol.num_samples
                else {}
            ),
            "steps": checkpoint.step,
            "split": held_out_split(data),
            **dict.fromkeys(("quantity", "ordering", "rows", "bounds")),
            **found,
            "metrics": metrics,
            "statistics": dict(algorithm.statistics()),
            "versions": {
                "discrete_diffusion": __version__,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
            "hardware": hardware(),
        }
    )

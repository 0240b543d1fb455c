"""Contents of the folder of a cell: nothing, a run to go on with, or a finished one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.config.files import plain
from discrete_diffusion.config.options import leaves
from discrete_diffusion.runtime.atomic_files import write_text

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.evaluation_protocol import EvaluationProtocol

_FREE = (
    *("resume", "overwrite", "threads", "logger", "eval"),
    *("callbacks.num_samples", "trainer.devices"),
    *("plugins", "data.codes", "data.unit", "data.threshold", "model.scales_with"),
    "data.domain",  # data.name says it too, where it is missing
    "sampling",  # measuring depends on it, training does not
)
"""Config keys that may differ from one call to the next: the weights do not depend on them, or the
fingerprint of the data tells."""

_NEUTRAL = {
    "algo.condition_dropout": 0.0,
    "data.condition": None,
    "model.fact_dropout": 0.3,
    "trainer.limit_val_batches": None,
    "init": {"checkpoint": None, "parts": None, "ema": True},
}
"""Values that say nothing: a run with one is the run of before there was the key."""

_MAX_NAMED = 6

_MEASURED = (
    *("digest", "data_fingerprint", "terms", "steps", "quantity", "ordering", "split", "rows"),
    *("bounds", "metrics", "statistics", "versions", "hardware"),
)
"""Keys of ``cell.json``."""


@dataclass(frozen=True)
class CellFolder:
    """``plan.json``: the config of the run and its digest, written before training;
    ``training.json``: seconds so far; ``metrics.json``: of ``train``, once it is through;
    ``cell.json``: what was measured."""

    path: Path

    @property
    def last(self) -> Path:
        """The checkpoint to go on from, and to measure."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def is_trained(self) -> bool:
        return self.last.exists() and (self.path / "metrics.json").exists()

    @property
    def result(self) -> dict[str, Any] | None:
        """Contents of ``cell.json``, its ``bounds`` as ``nelbo`` too; None without one, or without
        all of its keys."""
        found = read_json(self.path / "cell.json", _MEASURED)
        return None if found is None else {**found, "nelbo": found["bounds"]}

    @property
    def is_damaged(self) -> bool:
        """True if the checkpoint to go on from cannot be read."""
        from discrete_diffusion.checkpoints.files import read_training_file

        try:
            read_training_file(self.last)
        except FileNotFoundError:
            return False
        except ValueError:
            return True
        return False

    def is_finished(self, config: DictConfig, protocol: EvaluationProtocol) -> bool:
        """Measured as requested; where no samples are, those that there are do not matter."""
        result = self.result
        if result is None or result["digest"] != config_digest(config):
            return False
        asked = {**protocol.as_dict(), "sampling": _as_json(plain(config.sampling))}
        found = {**result["terms"], "sampling": result.get("sampling")}
        of_samples = (
            () if protocol.num_samples else ("num_samples", "draws", "verdicts", "sampling")
        )
        return all(
            asked.get(key) == found.get(key) for key in asked | found if key not in of_samples
        )

    def changes(self, config: DictConfig) -> list[str]:
        """``key was -> is`` for every value that differs from the run in this folder."""
        plan = read_json(self.path / "plan.json", ("digest", "config"))
        if plan is None or plan["digest"] == config_digest(config):
            return []
        was, now = (dict(leaves(_kept(each))) for each in (plan["config"], plain(config)))
        lines = [
            f"{key} {was.get(key, 'absent')} -> {now.get(key, 'absent')}"
            for key in was | now
            if was.get(key) != now.get(key)
        ]
        more = [f"{len(lines) - _MAX_NAMED} more"] if len(lines) > _MAX_NAMED else []
        return lines[:_MAX_NAMED] + more

    def write_plan(self, config: DictConfig) -> None:
        """Say what run this is; a folder of the same run is left as it is."""
        plan = {"digest": config_digest(config), "config": _kept(plain(config))}
        write_json(self.path / "plan.json", plan)

    @property
    def seconds(self) -> float:
        """Spent on training, as far as it was recorded."""
        kept = read_json(self.path / "training.json", ("seconds",)) or {"seconds": 0}
        return float(kept["seconds"])

    def add_seconds(self, seconds: float) -> None:
        """Add seconds of training to what earlier parts of the run took."""
        write_json(self.path / "training.json", {"seconds": self.seconds + seconds})


def config_digest(config: DictConfig) -> str:
    """16 hex digits of what the weights of a run depend on."""
    text = json.dumps(_kept(plain(config)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without ``_FREE`` and ``_NEUTRAL``, as JSON gives it back."""
    kept: dict[str, Any] = _as_json(config)
    for key in (*_FREE, *_NEUTRAL):
        *parents, name = key.split(".")
        node: Any = kept
        for parent in parents:
            node = node.get(parent, {})
        if key in _FREE or node.get(name) == _NEUTRAL[key]:
            node.pop(name, None)
    return kept


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def read_json(path: Path, keys: Collection[str]) -> dict[str, Any] | None:
    """A JSON object; None if there is no such file, or one without all of ``keys``."""
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) and {*keys} <= content.keys() else None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")

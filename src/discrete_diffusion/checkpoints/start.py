"""Start of a run from a checkpoint: weights of another run, or state of an interrupted run.

An interrupted run can be resumed only with the same settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.checkpoints.contents import SENSELESS, read_contents, reason_of
from discrete_diffusion.checkpoints.files import LAST
from discrete_diffusion.config.constructors import leaves
from discrete_diffusion.config.values import counted, is_number, unknown_name
from discrete_diffusion.domains.registry import domain_of

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm

logger = logging.getLogger(__name__)

_MAX_NAMED = 4
_BACKBONE = "backbone."
_DATA_SIZES = (
    *("max_nodes", "length", "vocab_size", "num_features"),
    *("channels", "size", "field_size", "num_boundary"),
)
"""Keys of ``config.data`` that decide the shapes of weights."""


@dataclass(frozen=True)
class StartingWeights:
    """Weights of a checkpoint's backbone by name, and the config of its run."""

    path: Path
    weights: dict[str, Tensor]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Initialised:
    """Names of tensors, after weights of a checkpoint were copied into a backbone.

    ``loaded``: replaced tensors of the backbone; ``missing``: tensors of the copied parts that the
    checkpoint lacks; ``unused``: tensors of these parts that only the checkpoint has. ``left``:
    top-level modules of the backbone into which nothing was copied.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    left: tuple[str, ...]


def read_starting_weights(path: str | Path, *, ema: bool = True) -> StartingWeights:
    """Read the weights of a checkpoint; arguments and errors as for ``load``."""
    contents = read_contents(path)
    own = {
        name.removeprefix(_BACKBONE): value
        for name, value in contents.chosen_weights(ema=ema).items()
        if name.startswith(_BACKBONE)
    }
    return StartingWeights(contents.path, own, contents.info["config"])


def start_from(start: StartingWeights, algorithm: Algorithm, config: Mapping[str, Any]) -> None:
    """Copy the parts ``init.modules`` of a run's ``config`` into the backbone, and log them.

    Call it after ``Algorithm.prepare``, whose results, such as the scale of maps, are stored with
    the weights and are replaced too.
    """
    # copy the weights
    chosen = config["init"]["modules"]
    named = None if chosen is None else [*map(str, chosen)]
    done = initialise(algorithm.backbone, start, parts=named, config=config)
    # log what was copied, and what was not
    if other := other_meanings(start.config, config):
        logger.warning(
            "%s of %s differs from this run's: ids or features may have another meaning",
            *(", ".join(other), start.path),
        )
    parts = "the backbone" if named is None else ", ".join(named)
    logger.info("%s starts from %s: %s", parts, start.path, counted(len(done.loaded), "tensor"))
    if done.missing:
        logger.warning("not in the file, so as initialised: %s", _first_of(done.missing))
    if done.unused:
        logger.info("in the file only: %s", _first_of(done.unused))
    if done.left:
        logger.info("not in init.modules, so as initialised: %s", ", ".join(done.left))


def _first_of(names: tuple[str, ...]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def initialise(
    backbone: nn.Module,
    start: StartingWeights,
    *,
    parts: Sequence[str] | None = None,
    config: Mapping[str, Any],
) -> Initialised:
    """Copy weights and buffers into a backbone.

    ``parts``: names of modules or tensors at any depth: ``encoder`` of one backbone is copied into
    ``network.encoder`` of another. Tensors that only one of the two has are left out. None copies
    the whole backbone: both must have the same tensors, but a checkpoint may lack tensors of
    modules that start at 0 (``zero_initialised``). ``config``: config of this run, to name the
    settings that differ.

    Raises ``ValueError`` for a part that one of the two lacks or has several times, for parts
    without a common tensor, for different tensors if ``parts`` is None, and for different shapes.
    """
    renamed: Any = getattr(backbone, "renamed", dict)
    start = replace(start, weights=renamed(start.weights))
    # the name in the checkpoint of each tensor of the backbone
    state = backbone.state_dict()
    sources: dict[str, str] = {}
    unused: list[str] = []
    if parts is None:
        zeros = {
            f"{path}.{name}"
            for path, module in backbone.named_modules()
            if getattr(module, "zero_initialised", False)
            for name in module.state_dict()
        }
        added = zeros - start.weights.keys()
        parts, sources = (), {name: name for name in state if name not in added}
        # settings that explain a difference, then parts to name
        if other := sorted(start.weights.keys() ^ sources.keys()):
            own = ", ".join(sorted({name.split(".")[0] for name in start.weights}))
            differing = _differing_sizes(start.config, config)
            settings = f"set {', '.join(differing)} as it has, or " if differing else ""
            name = start.config["algo"].get("backbone")
            if name != config["algo"].get("backbone"):
                settings = f"set algo.backbone={name}, or "
            raise ValueError(
                f"init.checkpoint={start.path} holds another backbone, {name}: only one of the two "
                f"has {other[0]}; {settings}name parts to take with init.modules=[...], of {own}"
            )
    # a part may be at another depth in the checkpoint
    for part in parts:
        there = _nearest_part(part, start.weights, f"the backbone of {start.path}")
        here = _nearest_part(part, state, "this backbone")
        of_part = {name: there + name.removeprefix(here) for name in _tensors_inside(here, state)}
        inside = _tensors_inside(there, start.weights)
        if {*inside}.isdisjoint(of_part.values()):
            raise ValueError(f"init.modules: '{part}' has no tensor in common with {start.path}")
        unused += [name for name in inside if name not in of_part.values()]
        sources |= of_part

    # copy the tensors, and collect which were not copied
    loaded = {
        name: start.weights[name_there]
        for name, name_there in sources.items()
        if name_there in start.weights
    }
    _check_shapes(start, loaded, state, config)
    backbone.load_state_dict({**state, **loaded})
    missing = tuple(name for name in sources if name not in loaded)
    tops = dict.fromkeys(name.split(".")[0] for name in state)
    reached = {name.split(".")[0] for name in (*loaded, *missing)}
    left = tuple(top for top in tops if top not in reached)
    return Initialised(tuple(loaded), missing, tuple(unused), left)


def _nearest_part(part: str, names: Iterable[str], owner: str) -> str:
    """Path of the module or tensor named ``part`` that is nested least deeply."""
    # every module on the way to a tensor
    paths = {path for name in names for path in accumulate(name.split("."), "{}.{}".format)}
    matches = [path for path in paths if path == part or path.endswith(f".{part}")]
    if not matches:
        tops = {path for path in paths if "." not in path}
        raise ValueError(f"init.modules: {owner}: {unknown_name('part', part, tops)}")
    # the nearest to the top, which must be the only one at its depth
    depth = min(path.count(".") for path in matches)
    nearest = sorted(path for path in matches if path.count(".") == depth)
    if len(nearest) > 1:
        raise ValueError(
            f"init.modules: {owner} has {len(nearest)} parts '{part}': {', '.join(nearest[:4])}"
            f"{', ...' * (len(nearest) > 4)}; give the path of one"
        )
    return nearest[0]


def _tensors_inside(path: str, names: Iterable[str]) -> list[str]:
    """Names of the tensors of the module ``path``, or ``path`` itself if it is a tensor."""
    return [name for name in names if name == path or name.startswith(f"{path}.")]


def _check_shapes(
    start: StartingWeights,
    loaded: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    config: Mapping[str, Any],
) -> None:
    for name, value in loaded.items():
        if value.shape == state[name].shape:
            continue
        # settings that would give the shapes in the file
        remedies = []
        if differing := _differing_sizes(start.config, config):
            remedies.append(f"with {', '.join(differing)} it has that of the file")

        # outermost parts of both whose common tensors have equal shapes
        common = start.weights.keys() & state.keys()
        other = {k.split(".")[0] for k in common if start.weights[k].shape != state[k].shape}
        if fitting := sorted({k.split(".")[0] for k in common} - other):
            remedies.append(f"init.modules=[{','.join(fitting)}] takes the parts that fit")
        raise ValueError(
            f"init.checkpoint={start.path}: {name} is {tuple(value.shape)} there and "
            f"{tuple(state[name].shape)} here{'; ' * bool(remedies)}{', or '.join(remedies)}"
        )


def other_meanings(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Keys of ``data`` that determine the meaning of ids or features and differ in two configs.

    Empty if the configs have different kinds of data.
    """
    domain = domain_of(now["data"])
    if domain_of(was["data"]) is not domain:
        return []
    there, here = was["data"], now["data"]
    keys = [k for k in domain.fixed_keys if None not in (there.get(k), here.get(k))]
    return [f"data.{key}" for key in keys if there[key] != here[key]]


def _differing_sizes(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """User settings ``key=value`` of ``was`` that determine tensor shapes and differ in ``now``."""
    from omegaconf import OmegaConf

    there, here = _sizes_of_network(was), _sizes_of_network(now)
    settings = []
    for key in (k for k in there if k in here and there[k] != here[k]):
        section, _, name = key.partition(".")
        try:
            # the data may decide a value, such as the number of ids of a text
            if section == "data":
                domain_of(now["data"]).complete(OmegaConf.create({**now["data"], name: there[key]}))
            settings.append(f"{key}={there[key]}")
        except (ValueError, OSError):
            continue
    return settings


def _sizes_of_network(config: Mapping[str, Any]) -> dict[str, Any]:
    # keys that do not describe the network are left out
    described = {"name", "parameters", "backbones", "counted_at", "scales_with", "download"}
    model = {
        k: v for k, v in leaves(config["model"], "model.") if described.isdisjoint(k.split("."))
    }
    data = {f"data.{k}": v for k, v in config["data"].items() if k in _DATA_SIZES}
    return {k: v for k, v in {**model, **data}.items() if v is not None}


_KEPT = (
    *("seed", "algo", "model", "schedule", "forward_process", "optim"),
    *("data.batch_size", "data.node_order", "data.symmetry", "data.random_length"),
    "callbacks.ema_decay",
    *("trainer.precision", "trainer.gradient_clip_val", "trainer.gradient_clip_algorithm"),
    *("trainer.accumulate_grad_batches", "trainer.limit_train_batches", "trainer.overfit_batches"),
)
"""Config keys on which the numbers of a run depend; they must not change on resuming."""

_FREE = (
    *("optim.max_skipped_steps", "model.encoder.download", "model.decoder.download"),
    *("model.path", "model.download"),
)
"""Exceptions among these keys: no number depends on them."""

_UNSET = {
    "trainer.precision": "32-true",
    "trainer.gradient_clip_val": 0,
    "trainer.gradient_clip_algorithm": "norm",
    "trainer.accumulate_grad_batches": 1,
    "trainer.limit_train_batches": 1.0,
    "trainer.overfit_batches": 0,
    "data.random_length": 0,
    "algo.condition_dropout": 0.0,
    "algo.weighting": "velocity",
    "model.attribute_dropout": 0.3,
    "model.bias": True,
    "model.activation": "gelu",
    "model.sigma_input": "share",
    "model.adaln": True,
    "model.attention": "sdpa",
}
"""Values that absent or null keys stand for, in Lightning and in earlier versions."""

_NUMBERS = {
    "EMA": ("latest_update_step",),
    "SkippedSteps": ("total",),
    "RunCheckpoints": ("best_score", "best_step"),
}
"""Entries in the states of callbacks that must be numbers or null."""

_MAX_CHANGES = 6
_ABSENT = "absent"


@dataclass(frozen=True)
class ResumePoint:
    """State of an interrupted run.

    ``step``: optimiser steps taken; ``config``, ``machine``: config and machine of the run;
    ``stream``: state of its training ``BatchStream``, or None. ``validation_due``: True if the
    checkpoint was written before a validation, with which the resumed run begins.
    """

    path: Path
    step: int
    config: dict[str, Any]
    machine: dict[str, Any]
    stream: dict[str, int] | None
    validation_due: bool = False

    @property
    def run_folder(self) -> Path | None:
        """Folder of the interrupted run; None if the checkpoint is not in a run folder."""
        folder = self.path.resolve().parent
        return folder.parent if folder.name == "checkpoints" else None

    def announce(self, config: Mapping[str, Any], trainer: Trainer, folder: Path) -> None:
        """Log the step at which the run resumes, and differences from the interrupted run."""
        logger.info("resuming %s at step %d, in %s", self.path, self.step, folder)
        if self.step == (steps := config["trainer"].get("max_steps")):
            logger.info(
                "it has all its trainer.max_steps=%d: no training, only the evaluation", steps
            )
        # a file must not choose which code is run, so the command must name its classes
        now = dict(leaves(config))
        left_out = [
            f"{key.removesuffix('._target_')} of {self.path} is left out: a checkpoint cannot "
            f"choose code; give {'+' * (not key.startswith('optim'))}{key}={value} to have it"
            for key, value in leaves(self.config)
            if key.endswith("_target_") and value is not None and now.get(key) != value
        ]
        for sentence in (*left_out, *machine_changes(self, config, trainer)):
            logger.warning("%s", sentence)


def check_resumable(
    path: str | Path, algorithm: TokenAlgorithm, *, config: Mapping[str, Any], data_fingerprint: str
) -> ResumePoint:
    """Read the state of a run, from a ``.ckpt`` or a run folder, and load its weights.

    The run with this ``config`` must have the same numbers as the interrupted run. The sections
    ``eval``, ``sampling`` and ``logger`` may differ, and so may ``threads``, the paths of the data,
    and the length, validations and machine in ``trainer``.

    Raises the errors of ``load``, and ``ValueError`` naming every differing key with its old and
    new value, or if the weights do not fit ``algorithm``, or if this run is too short.
    """
    contents = read_contents(path, of_folder=LAST)
    path, info, state = contents.path, contents.info, contents.state
    if state is None:
        raise ValueError(f"{path} holds weights only; resume from the .ckpt of its run")

    # settings and data must be the same
    changes = _changed_settings(info["config"], config)
    if info["data_fingerprint"] != data_fingerprint:
        changes.append(f"the data (fingerprint {info['data_fingerprint']} -> {data_fingerprint})")
    if changes:
        named = ", ".join(changes[:_MAX_CHANGES])
        more = f" and {len(changes) - _MAX_CHANGES} more" if len(changes) > _MAX_CHANGES else ""
        raise ValueError(
            f"{path} and this run do not fit: {named}{more} (was -> is); restore these settings, "
            "or start a new run without resume"
        )
    contents.load_into(algorithm)

    # state of the loop and of the callbacks
    if not {"global_step", "loops", "optimizer_states"} <= set(state):
        raise ValueError(f"{path} holds no training state; resume from a run's last.ckpt")
    try:
        loop = state["loops"].get("fit_loop", {}).get("state_dict", {})
        stream = (loop.get("combined_loader") or [None])[0]  # as Lightning keeps it
        callbacks = state.get("callbacks", {})
        saved = callbacks.get("RunCheckpoints", {})
        for name, keys in _NUMBERS.items():
            for key in keys:
                value = (callbacks.get(name) or {}).get(key)
                if value is not None and not is_number(value):
                    raise TypeError(f"{name}.{key} is a {type(value).__name__}; expected a number")
        due, step = bool(saved.get("validation_due", False)), int(state["global_step"])
    except SENSELESS as error:
        raise ValueError(f"{path} holds a broken training state: {reason_of(error)}") from error
    # a run cannot end before its checkpoint
    steps = (config.get("trainer") or {}).get("max_steps")  # null and -1: no limit
    if steps is not None and 0 < steps < step:
        raise ValueError(
            f"{path} is of step {step}, past trainer.max_steps={steps}; give a larger "
            "trainer.max_steps"
        )
    return ResumePoint(path, step, info["config"], info["machine"], stream, due)


def machine_changes(point: ResumePoint, config: Mapping[str, Any], trainer: Trainer) -> list[str]:
    """Sentences about changes of the machine that can change numerical results."""
    now: dict[str, Any] = {"device": trainer.strategy.root_device.type, "torch": torch.__version__}
    # threads of several processes are divided at launch
    if trainer.world_size == 1 or config.get("threads") is not None:
        now["threads"] = torch.get_num_threads()
    # what differs from the machine of the checkpoint
    was = point.machine
    sentences = [
        f"{name} was {was[name]} and is {value}: numbers may differ in their last bits"
        for name, value in now.items()
        if was.get(name, value) != value
    ]
    if (former := was.get("processes", trainer.world_size)) != trainer.world_size:
        sentences.append(
            f"the run had {former} processes and has {trainer.world_size}: each step sees other "
            "batches, so numbers will differ"
        )
    return sentences


def _changed_settings(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences in the keys ``_KEPT``, as ``key was -> is``; absent and null are equal."""
    # settings on which numbers depend
    old, new = dict(leaves(was)), dict(leaves(now))
    keys = [
        k
        for k in {**old, **new}
        if k not in _FREE and any(k == kept or k.startswith(f"{kept}.") for kept in _KEPT)
    ]
    return [
        f"{key} {old.get(key, _ABSENT)} -> {new.get(key, _ABSENT)}"
        for key in keys
        if _setting_meant(key, old.get(key)) != _setting_meant(key, new.get(key))
    ]


def _setting_meant(key: str, value: Any) -> Any:
    """Normalise the value of a key, so that equivalent settings are equal."""
    value = _UNSET.get(key) if value is None else value
    # 1 means one batch, and 1.0 all batches
    if key in ("trainer.limit_train_batches", "trainer.overfit_batches"):
        return value, isinstance(value, int) and value == 1
    return value

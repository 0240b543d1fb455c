"""Contents of a checkpoint, the digest that notices a changed bit, and how an algorithm is loaded.

Both kinds of file, Lightning's ``.ckpt`` and the ``.safetensors`` beside it, carry the same *info*:

=====================  ==========================================================================
``format``             number of this layout; a reader refuses one it does not know
``version``            version of the package that wrote it
``config``             the resolved config, enough to rebuild the algorithm
``plugins``            what others registered of it, see ``plugged_in``; absent if nothing
``vocabulary``         what ids or numbers mean, see ``Domain.vocabulary``
``size_counts``        training samples of each size
``data_fingerprint``   ``TokenDataset.fingerprint()`` of the data trained on; null if unknown
``step``               optimiser steps taken
``scheduled_steps``    optimiser steps after which the run was to end; null without an end
``machine``            what the last bits depend on: threads, processes, device, torch
``digest``             SHA-256 of all of the above and of the averaged weights
=====================  ==========================================================================
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from discrete_diffusion.building.algorithm import build_algorithm
from discrete_diffusion.checkpoints.files import (
    BEST,
    INFO_KEY,
    algorithm_weights,
    checkpoint_file,
    is_weights_file,
    read_training_file,
    read_weights_file,
)
from discrete_diffusion.checkpoints.header import (
    FORMAT,
    check_header,
    check_schema,
    unusual_settings,
    with_new_digest,
)
from discrete_diffusion.checkpoints.original import OriginalModel, read_original
from discrete_diffusion.checkpoints.plugged_in import (
    missing_plugin,
    modules_note,
    modules_of,
    not_imported,
    plugged_in,
)
from discrete_diffusion.config.files import renamed_settings
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.hub.published import original_checkpoint
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime.package import __version__

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.algorithms.base import Algorithm

logger = logging.getLogger(__name__)

SENSELESS = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError),
)
"""Errors that Python, torch and the config library raise for values that fit no model."""

_SCRATCH_TENSORS, _SCRATCH = 1_000, 2**28
"""Tensors, and numbers, that are made besides the weights while a network is built, at most."""


def checkpoint_info(
    config: Mapping[str, Any], size_counts: list[int], *, data_fingerprint: str | None
) -> dict[str, Any]:
    """The part of the info known before training: plain containers, so that no pickle is needed."""
    return {
        "format": FORMAT,
        "version": __version__,
        "config": dict(config),
        **({"plugins": others} if (others := plugged_in(config)) else {}),
        "vocabulary": domain_of(config["data"]).vocabulary(config["data"]).digest(),
        "size_counts": list(size_counts),
        "data_fingerprint": data_fingerprint,
    }


def info_with_digest(
    info: Mapping[str, Any],
    state_dict: Mapping[str, Any],
    *,
    step: int,
    machine: dict[str, Any],
    scheduled_steps: int | None = None,
) -> dict[str, Any]:
    """``info`` with where the run stands and the digest of it all and of the weights."""
    content = {**info, "step": step, "scheduled_steps": scheduled_steps, "machine": machine}
    return with_new_digest(content, algorithm_weights(state_dict))


@dataclass(frozen=True)
class Contents:
    """Contents of a checkpoint. ``weights``: the averaged ones of the algorithm, by name;
    ``state``: all of a ``.ckpt``, None of a ``.safetensors``."""

    path: Path
    info: dict[str, Any]
    weights: dict[str, Tensor]
    state: dict[str, Any] | None

    def chosen_weights(self, *, ema: bool) -> dict[str, Tensor]:
        """The averaged weights or the last training weights, which only a ``.ckpt`` has."""
        if ema:
            return self.weights
        if self.state is None:
            raise ValueError(
                f"{self.path} holds the averaged weights only; ema=false needs the .ckpt"
            )
        return algorithm_weights(self.state.get("current_model_state")) or self.weights

    def load_into(self, algorithm: Algorithm, *, ema: bool = True) -> None:
        """Load the weights, or raise ``ValueError`` saying what does not fit."""
        try:
            algorithm.load_state_dict(self.chosen_weights(ema=ema))
        except RuntimeError as error:
            raise ValueError(
                f"the weights in {self.path} do not fit the config ({self.versions()}): "
                f"{str(error).splitlines()[-1].strip()}{_settings_note(self.info)}"
            ) from error

    def check_plugged_in(self) -> None:
        """``ValueError`` naming the first part of its model that is not registered here, and the
        module or package that has it."""
        if missing := missing_plugin(self.info):
            raise ValueError(f"{self.path} {missing}")

    def versions(self) -> str:
        return f"written by version {self.info.get('version', '?')}, this is {__version__}"


def read_contents(path: str | Path, *, of_folder: str = BEST) -> Contents:
    """Read a ``.ckpt`` or a ``.safetensors``, once its info is known to be ours, readable by this
    version, unchanged, and of the same vocabulary; or, of ``mdlm:PATH`` and such, a checkpoint of
    other code (``original``). ``of_folder``: the file of a run folder that is read, see
    ``checkpoint_file``. Nothing that the file names is imported, see ``plugged_in``.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence otherwise.
    """
    if (original := original_checkpoint(path)) is not None:
        return _contents_of_original(read_original(original))
    path, state = checkpoint_file(path, of_folder), None
    if is_weights_file(path):
        info, weights = read_weights_file(path)
    else:
        state = read_training_file(path)
        info, weights = state.get(INFO_KEY), algorithm_weights(state.get("state_dict"))
    check_header(info, weights, path)
    _check_data(info, path)
    config = _without_downloads(info["config"])
    if "sampling" in config:
        config["sampling"] = renamed_settings(config["sampling"])
    return Contents(path, {**info, "config": config}, weights, state)


def _without_downloads(value: Any) -> Any:
    """A config in which every ``download`` is off: what a file says makes nothing be fetched."""
    if isinstance(value, Mapping):
        return {k: False if k == "download" else _without_downloads(v) for k, v in value.items()}
    return [_without_downloads(each) for each in value] if isinstance(value, list) else value


def _contents_of_original(found: OriginalModel) -> Contents:
    sizes = [0] * found.length + [1]
    info = checkpoint_info(found.config, sizes, data_fingerprint=None)
    info |= {"step": found.step, "scheduled_steps": None, "machine": {}}
    weights = {f"backbone.{name}": value for name, value in found.weights.items()}
    trained = {f"algorithm.backbone.{name}": value for name, value in found.trained.items()}
    state = {"current_model_state": trained}
    return Contents(found.path, with_new_digest(info, weights), weights, state)


def remembered_modules(path: str | Path) -> list[str]:
    """The modules with parts of a checkpoint (``modules_of``), read without importing any; empty
    for a file that cannot be read."""
    try:
        file = checkpoint_file(path)
        weights = is_weights_file(file)
        info: Any = (
            read_weights_file(file)[0] if weights else read_training_file(file).get(INFO_KEY)
        )
        check_schema(info, file)
    except (ValueError, OSError):
        return []
    return modules_of(info)


@dataclass(frozen=True)
class Checkpoint:
    """A run brought back.

    ``algorithm``: in eval mode; a ``TokenAlgorithm`` on tokens, ``MaskedFeatures`` on features.
    ``size_counts``: how many training samples are of size n, for n = 0, 1, ...
    ``step``: optimiser steps taken; ``data_fingerprint``: of the data trained on, None if that is
    not known. ``path``: of the file that was read, ``info``: all that it says of itself. ``ema``:
    its weights are the averaged ones.
    """

    algorithm: Any
    config: DictConfig
    size_counts: list[int]
    step: int
    data_fingerprint: str | None
    path: Path
    info: dict[str, Any]
    ema: bool = True


class _Bounded(TorchDispatchMode):
    """Refuses to make many more tensors and numbers than ``weights`` have, before memory is taken
    for them."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.tensors = _SCRATCH_TENSORS + 16 * len(weights)
        self.numbers = _SCRATCH + 8 * sum(value.numel() for value in weights.values())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if args and isinstance(args[0], list | tuple):  # sizes of a new tensor
            self.tensors -= 1
            self.numbers -= math.prod(size for size in args[0] if isinstance(size, int))
            if min(self.tensors, self.numbers) < 0:
                raise MemoryError("its config asks for a network that is larger than its weights")
        return func(*args, **(kwargs or {}))


def read_checkpoint(
    path: str | Path, *, ema: bool = True, device: torch.device | str = "cpu"
) -> Checkpoint:
    """The algorithm of a ``.ckpt`` or ``.safetensors``, and what else is known of the run.

    ``ema``: the averaged weights or the last training weights, which only a ``.ckpt`` has.
    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence if there is no such file, if it
    is damaged, of a newer format, or not a checkpoint of this package.
    """
    from omegaconf import OmegaConf

    found = read_contents(path)
    found.check_plugged_in()
    info = found.info
    try:
        config = OmegaConf.create(info["config"])
        # its first weights are random, and replaced below
        with torch.random.fork_rng(devices=[]), _Bounded(found.weights):
            algorithm = build_algorithm(config)
    except SENSELESS as error:
        raise ValueError(
            f"the model of {path} ({found.versions()}) cannot be rebuilt: "
            f"{reason_of(error)}{modules_note(info)}"
            f"{'' if type(error) is ValueError else _settings_note(info)}"
        ) from error
    found.load_into(algorithm, ema=ema)
    if unused := not_imported(info):
        logger.info("%s: not imported, nor needed: %s", found.path, ", ".join(map(repr, unused)))
    return Checkpoint(
        algorithm.to(device).eval(),
        config,
        list(info["size_counts"]),
        info["step"],
        info["data_fingerprint"],
        found.path,
        info,
        ema,
    )


def _check_data(info: Mapping[str, Any], path: Path) -> None:
    """Check that the kind of data is known here and that its ids mean what they meant."""
    data, written = info["config"]["data"], info["vocabulary"]
    try:
        domain = domain_of(data)
    except ValueError as error:
        reason = missing_plugin(info) or f"cannot be read: {error}{modules_note(info)}"
        raise ValueError(f"{path} {reason}") from error
    try:
        vocabulary = domain.vocabulary(data)
        ours = vocabulary.digest()
    except SENSELESS as error:
        raise ValueError(f"{path}: its config.data makes no sense: {reason_of(error)}") from error
    sizes = [size for size, count in enumerate(info["size_counts"]) if count]
    graph = vocabulary if isinstance(vocabulary, VocabConfig) else None
    if graph is not None and not 1 <= min(sizes) <= max(sizes) <= graph.n_max:
        raise ValueError(
            f"{path}: size_counts has samples of {min(sizes)} to {max(sizes)} nodes; expected 1 to "
            f"{graph.n_max}, as data.n_max says"
        )
    for key in ours:
        if written.get(key) == ours[key]:
            continue
        raise ValueError(
            f"{path} was written by version {info.get('version', '?')} with other {key}: "
            f"{_first_difference(written.get(key), ours[key])}; read it with that version"
        )


def reason_of(error: BaseException) -> str:
    """First line of a message; the kind of an error that has none."""
    text = str(error).replace(":\n\t", ": ").partition("\n")[0] or type(error).__name__
    return f"there is no {text}" if type(error) is KeyError else text


def _settings_note(info: Mapping[str, Any]) -> str:
    """``; settings that are not the usual ones: ...``, one of which may be the reason."""
    unusual = unusual_settings(info["config"])
    return f"; its settings that are not as shipped: {unusual}" if unusual else ""


def _first_difference(written: Any, ours: Any) -> str:
    if isinstance(written, list) and isinstance(ours, list) and len(written) == len(ours):
        k = next(k for k in range(len(ours)) if written[k] != ours[k])
        return f"number {k} is {written[k]} there and {ours[k]} here"
    return f"{written} there and {ours} here"

"""Contents of a checkpoint, parts of other packages that it needs, and loading of its algorithm.

Reading a file does not import modules that it names. Users name modules by ``plugins``, and
installed packages register themselves by their entry points. For any other module a message says
that the file names it, that it was not imported, and what to type to trust it.

Both kinds of file, Lightning's ``.ckpt`` and its ``.safetensors``, carry the same *info*:

=====================  ==========================================================================
``format``             number of this layout; a reader refuses unknown numbers
``version``            version of the package that wrote it
``config``             the resolved config, enough to rebuild the algorithm
``plugins``            its parts of other packages, see ``plugged_in``; absent if there are none
``vocabulary``         meaning of ids or numbers, see ``Domain.vocabulary``
``size_counts``        training samples of each size
``data_fingerprint``   ``TokenDataset.fingerprint()`` of the data trained on; null if unknown
``step``               optimiser steps taken
``scheduled_steps``    optimiser steps after which the run was to end; null if not set
``machine``            what affects bitwise reproducibility: threads, processes, device, torch
``digest``             SHA-256 of all of the above and of the averaged weights
=====================  ==========================================================================
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.registry import ALGORITHMS
from discrete_diffusion.building.algorithm import build_algorithm
from discrete_diffusion.checkpoints.files import (
    BEST,
    FORMAT,
    INFO_KEY,
    algorithm_weights,
    check_header,
    check_schema,
    checkpoint_file,
    is_weights_file,
    read_training_file,
    read_weights_file,
    unusual_settings,
    with_new_digest,
)
from discrete_diffusion.checkpoints.original import read_original
from discrete_diffusion.config.files import as_list
from discrete_diffusion.config.plugins import own_packages
from discrete_diffusion.domains.registry import domain_of, get_domain
from discrete_diffusion.forward_process.registry import PROCESSES
from discrete_diffusion.hub import original_checkpoint
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.registry import BACKBONES, config_reader
from discrete_diffusion.noise_schedules.registry import SCHEDULES
from discrete_diffusion.runtime.package import __version__
from discrete_diffusion.sampling.registry import SAMPLERS

if TYPE_CHECKING:
    from omegaconf import DictConfig

logger = logging.getLogger(__name__)

SENSELESS = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError),
)
"""Exceptions that Python, torch and the config library raise for values that fit no model."""

_OF_MODELS = ("domain", "backbone", "algorithm", "noise schedule", "forward process")
"""Kinds of parts that a model needs; its sampler can be replaced."""


def checkpoint_info(
    config: Mapping[str, Any], size_counts: list[int], *, data_fingerprint: str | None
) -> dict[str, Any]:
    """Build the part of the info that is known before training, from plain containers."""
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
    """Add the state of the run to ``info``, and a digest of all of it and of the weights."""
    content = {**info, "step": step, "scheduled_steps": scheduled_steps, "machine": machine}
    return with_new_digest(content, algorithm_weights(state_dict))


@dataclass(frozen=True)
class Contents:
    """Contents of a checkpoint.

    ``weights``: averaged weights of the algorithm, by name; ``state``: whole content of a
    ``.ckpt``, None for a ``.safetensors``.
    """

    path: Path
    info: dict[str, Any]
    weights: dict[str, Tensor]
    state: dict[str, Any] | None

    def chosen_weights(self, *, ema: bool) -> dict[str, Tensor]:
        """Return the averaged weights or, from a ``.ckpt`` only, the last training weights."""
        # both kinds of file have the average
        if ema:
            return self.weights
        if self.state is None:
            raise ValueError(
                f"{self.path} holds the averaged weights only; ema=false needs the .ckpt"
            )
        return algorithm_weights(self.state.get("current_model_state")) or self.weights

    def load_into(self, algorithm: Algorithm, *, ema: bool = True) -> None:
        """Load the weights; raise ``ValueError`` naming the first mismatch if they do not fit."""
        try:
            algorithm.load_state_dict(self.chosen_weights(ema=ema))
        except RuntimeError as error:
            raise ValueError(
                f"the weights in {self.path} do not fit the config ({self.versions}): "
                f"{str(error).splitlines()[-1].strip()}{_settings_note(self.info)}"
            ) from error

    def check_plugged_in(self) -> None:
        """Raise ``ValueError`` for a part that is not registered, naming the part's module."""
        if missing := missing_plugin(self.info):
            raise ValueError(f"{self.path} {missing}")

    @property
    def versions(self) -> str:
        return f"written by version {self.info.get('version', '?')}, this is {__version__}"


def read_contents(path: str | Path, *, of_folder: str = BEST) -> Contents:
    """Read a ``.ckpt``, a ``.safetensors``, or a checkpoint of other code such as ``mdlm:PATH``.

    Raises ``FileNotFoundError`` if the file is missing, and ``ValueError`` if it is damaged, its
    format is unsupported, its digest does not match, or its vocabulary differs from that of this
    version. ``of_folder``: name of the file to read in a run folder, see ``checkpoint_file``.
    Modules named in the file are not imported.
    """
    # other code wrote no info
    if (other := original_checkpoint(path)) is not None:
        original = read_original(other)
        sizes = [0] * original.length + [1]
        info = checkpoint_info(original.config, sizes, data_fingerprint=None)
        info |= {"step": original.step, "scheduled_steps": None, "machine": {}}
        weights = {f"backbone.{name}": value for name, value in original.weights.items()}
        trained = {f"algorithm.backbone.{name}": value for name, value in original.trained.items()}
        state = {"current_model_state": trained}
        return Contents(original.path, with_new_digest(info, weights), weights, state)
    # our own info is checked, and renamed settings get their present names
    contents = _unchecked_contents(path, of_folder)
    info = contents.info
    check_header(info, contents.weights, contents.path)
    _check_data(info, contents.path)
    config = _without_sources(info["config"])
    return replace(contents, info={**info, "config": config})


def _unchecked_contents(path: str | Path, of_folder: str = BEST) -> Contents:
    """Read a file of either kind without checking its info."""
    path = checkpoint_file(path, of_folder)
    if is_weights_file(path):
        return Contents(path, *read_weights_file(path), None)
    state = read_training_file(path)
    weights = algorithm_weights(state.get("state_dict"))
    return Contents(path, state.get(INFO_KEY, {}), weights, state)


def _without_sources(config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a config so that nothing is fetched, nor read from a folder whose config it has."""
    copied: dict[str, Any] = _disable_downloads(config)
    if copied["model"].get("config") is not None and config_reader(copied) is not None:
        copied["model"]["path"] = None
    return copied


def _disable_downloads(value: Any) -> Any:
    """Set every ``download`` of a config to false, so that reading a file fetches nothing."""
    if isinstance(value, Mapping):
        return {k: False if k == "download" else _disable_downloads(v) for k, v in value.items()}
    return [_disable_downloads(each) for each in value] if isinstance(value, list) else value


def remembered_modules(path: str | Path) -> list[str]:
    """Names of the modules a checkpoint needs: its ``plugins=[...]`` and modules in no package.

    The modules are not imported. Returns [] if the file cannot be read.
    """
    try:
        contents = _unchecked_contents(path)
        check_schema(contents.info, contents.path)
    except (ValueError, OSError):
        return []
    # each once, without scripts and notebooks
    named = as_list(contents.info["config"].get("plugins"))
    own = [each["module"] for each in contents.info.get("plugins", ()) if "package" not in each]
    return list(dict.fromkeys([*named, *(module for module in own if module != "__main__")]))


@dataclass(frozen=True)
class Checkpoint:
    """Loaded model with facts of its run.

    ``algorithm``: the algorithm in eval mode, a ``TokenAlgorithm`` for tokens, ``MaskedFeatures``
    for features. ``size_counts``: number of training samples of size n, for n = 0, 1, ...
    ``step``: optimiser steps taken; ``data_fingerprint``: fingerprint of the training data, None if
    unknown. ``path``: path of the file; ``info``: header of the file. ``ema``: True if the weights
    are averaged.
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
    """Torch mode that raises ``MemoryError`` if a network is far larger than its ``weights``."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.tensors = 1_000 + 16 * len(weights)
        self.numbers = 2**28 + 8 * sum(value.numel() for value in weights.values())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        # the first argument of a constructor is the size of the new tensor
        if args and isinstance(args[0], list | tuple):
            self.tensors -= 1
            self.numbers -= math.prod(size for size in args[0] if isinstance(size, int))
            if min(self.tensors, self.numbers) < 0:
                raise MemoryError("its config asks for a network that is larger than its weights")
        return func(*args, **(kwargs or {}))


def read_checkpoint(
    path: str | Path, *, ema: bool = True, device: torch.device | str = "cpu"
) -> Checkpoint:
    """Load the algorithm of a ``.ckpt`` or ``.safetensors``, with the facts of its run.

    ``ema``: the averaged weights; False for the last training weights, which only a ``.ckpt`` has.
    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence if the file is missing, if it
    is damaged, of a newer format, or not a checkpoint of this package.
    """
    from omegaconf import OmegaConf

    contents = read_contents(path)
    contents.check_plugged_in()
    info = contents.info

    # a network with random weights, at most somewhat larger than the weights in the file
    try:
        config = OmegaConf.create(info["config"])
        with torch.random.fork_rng(devices=[]), _Bounded(contents.weights):
            algorithm = build_algorithm(config)
    except SENSELESS as error:
        raise ValueError(
            f"the model of {path} ({contents.versions}) cannot be rebuilt: "
            f"{reason_of(error)}{modules_note(info)}"
            f"{'' if type(error) is ValueError else _settings_note(info)}"
        ) from error
    # the weights of the file
    contents.load_into(algorithm, ema=ema)
    if unused := _not_imported(info):
        names = ", ".join(map(repr, unused))
        logger.info("%s: not imported, nor needed: %s", contents.path, names)
    return Checkpoint(
        algorithm.to(device).eval(),
        config,
        list(info["size_counts"]),
        info["step"],
        info["data_fingerprint"],
        contents.path,
        info,
        ema,
    )


def _check_data(info: Mapping[str, Any], path: Path) -> None:
    """Raise ``ValueError`` if the kind of data is unknown, or its ids have another meaning."""
    # the kind of data, which may be from another package
    data, written = info["config"]["data"], info["vocabulary"]
    try:
        domain = domain_of(data)
    except ValueError as error:
        reason = missing_plugin(info) or f"cannot be read: {error}{modules_note(info)}"
        raise ValueError(f"{path} {reason}") from error
    # the meaning of the ids in this version
    try:
        vocabulary = domain.vocabulary(data)
        ours = vocabulary.digest()
    except SENSELESS as error:
        raise ValueError(f"{path}: its config.data makes no sense: {reason_of(error)}") from error

    # sizes of samples that a graph of n_max nodes can have
    sizes = [size for size, count in enumerate(info["size_counts"]) if count]
    graph = vocabulary if isinstance(vocabulary, VocabConfig) else None
    if graph is not None and not 1 <= min(sizes) <= max(sizes) <= graph.n_max:
        raise ValueError(
            f"{path}: size_counts has samples of {min(sizes)} to {max(sizes)} nodes; expected 1 to "
            f"{graph.n_max}, as data.max_nodes says"
        )

    # the vocabulary in the file
    for key in ours:
        there, here = written.get(key), ours[key]
        if there == here:
            continue
        # of lists the first entry that differs
        difference = f"{there} there and {here} here"
        if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
            k = next(k for k in range(len(here)) if there[k] != here[k])
            difference = f"number {k} is {there[k]} there and {here[k]} here"
        raise ValueError(
            f"{path} was written by version {info.get('version', '?')} with other {key}: "
            f"{difference}; read it with that version"
        )


def reason_of(error: BaseException) -> str:
    """First line of an error's message, or the class of an error without a message."""
    text = str(error).replace(":\n\t", ": ").partition("\n")[0] or type(error).__name__
    return f"missing key {text}" if type(error) is KeyError else text


def _settings_note(info: Mapping[str, Any]) -> str:
    """End of an error message: settings that differ from the shipped ones, as possible causes."""
    unusual = unusual_settings(info["config"])
    return f"; its settings that are not as shipped: {unusual}" if unusual else ""


def plugged_in(config: Mapping[str, Any]) -> list[dict[str, str]]:
    """Parts of a config's model, data and sampler that other packages registered.

    Each part is a dict of its kind ``noun``, its ``name``, its ``module`` and, if the module is in
    an installed package, the ``package``.
    """
    parts = []
    for noun, name, find in _named_parts(config):
        # parts of this package need no note
        module = _module_of(find(name))
        top = module.partition(".")[0]
        if top not in own_packages():
            part = {"noun": noun, "name": name, "module": module}
            packages = packages_distributions().get(top, [])
            parts.append({**part, "package": packages[0]} if packages else part)
    return parts


def missing_plugin(info: Mapping[str, Any], nouns: Collection[str] = _OF_MODELS) -> str | None:
    """Return a message about the first missing part of a checkpoint and the remedy, or None.

    Parts of other packages come first; such a part is also missing if only this package has
    registered its name. ``nouns``: kinds of parts to check.
    """
    # parts that other packages had registered
    finders = {noun: (name, find) for noun, name, find in _named_parts(info["config"])}
    for part in info.get("plugins", ()):
        noun, name, module = (part[key] for key in ("noun", "name", "module"))
        used, find = finders.get(noun, (None, None))
        if noun not in nouns or used != name or find is None:
            continue
        try:
            if _module_of(find(name)).partition(".")[0] not in own_packages():
                continue
        except ValueError:
            pass

        # the package to install, the script to make a module of, or the module to trust
        package = part.get("package")
        try:
            if package is not None:
                distribution(package)
        except (PackageNotFoundError, ValueError):
            shown = _printable(package)
            return f"needs the package {shown}, which has its {noun} '{name}'; install it"
        if module == "__main__":
            return (
                f"needs its {noun} '{name}', which a script or notebook registered; put that "
                "into a module and add plugins=[MODULE]"
            )
        own = [each for each in _not_imported(info) if each.split(".")[0] == module.split(".")[0]]
        return f"needs its {noun} '{name}', {_trust_hint(own or [module])}"

    # names that are not known in any package
    for noun, (name, find) in finders.items():
        try:
            if noun in nouns:
                find(name)
        except ValueError as error:
            return f"cannot be rebuilt: {error}{modules_note(info)}"
    return None


def _not_imported(info: Mapping[str, Any]) -> list[str]:
    """Modules in ``plugins`` of a checkpoint's config that this process has not imported."""
    return [name for name in as_list(info["config"].get("plugins")) if name not in sys.modules]


def modules_note(info: Mapping[str, Any]) -> str:
    """Note for an error message on modules that were not imported; empty if all were."""
    names = _not_imported(info)
    return f"; the file names parts of other packages, {_trust_hint(names)}" if names else ""


def _trust_hint(modules: Sequence[str]) -> str:
    shown = [_printable(name) for name in modules]
    noun, it = ("module", "it") if len(shown) == 1 else ("modules", "them")
    quoted = ", ".join(f'"{name}"' for name in shown)
    return (
        f"of the {noun} {', '.join(shown)}, not imported because reading a file runs no code; if "
        f"you trust {it}, add plugins=[{','.join(shown)}], in Python load(path, plugins=[{quoted}])"
    )


def _printable(name: Any) -> str:
    """Format a name from a file without control characters."""
    return str(name) if str(name).isprintable() else repr(name)


def _module_of(builder: Any) -> str:
    return str(getattr(builder, "__module__", __name__))  # a partial function has none


def _named_parts(config: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[[str], Any]]]:
    """Yield the kind and name of each part of a config, and the function that looks it up."""
    finders: dict[str, tuple[str, str, Callable[[str], Any]]] = {
        "domain": ("data", "domain", lambda name: type(get_domain(name))),
        "backbone": ("algo", "backbone", BACKBONES.find),
        "algorithm": ("algo", "name", ALGORITHMS.find),
        "noise schedule": ("schedule", "name", SCHEDULES.find),
        "forward process": ("forward_process", "name", PROCESSES.find),
        "sampler": ("sampling", "name", SAMPLERS.find),
    }
    for noun, (group, key, find) in finders.items():
        if (name := (config.get(group) or {}).get(key)) is not None:
            yield noun, str(name), find

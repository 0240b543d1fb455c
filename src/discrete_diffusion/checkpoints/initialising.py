"""A backbone that starts from the weights of another run."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from discrete_diffusion.checkpoints.contents import read_contents
from discrete_diffusion.config.constructors import leaves
from discrete_diffusion.config.values import counted, unknown_name
from discrete_diffusion.domains.registry import domain_of

if TYPE_CHECKING:
    from torch import nn

    from discrete_diffusion.algorithms.base import Algorithm

logger = logging.getLogger(__name__)

_MAX_NAMED = 4
_BACKBONE = "backbone."
_DATA_SIZES = (
    *("n_max", "length", "vocab_size", "num_features"),
    *("channels", "size", "field_size", "num_boundary"),
)
"""Keys of ``config.data`` that decide the shapes of weights."""


@dataclass(frozen=True)
class StartingWeights:
    """Weights of a checkpoint's backbone, by name inside it, and the config of its run."""

    path: Path
    weights: dict[str, Tensor]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Initialised:
    """Names of tensors. ``loaded``: those replaced in the backbone; ``missing``: those of the same
    parts that the checkpoint lacks, left as they were; ``unused``: those of the same parts that
    only the checkpoint has. ``left``: outermost parts of the backbone of which nothing was
    loaded."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    left: tuple[str, ...]


def read_starting_weights(path: str | Path, *, ema: bool = True) -> StartingWeights:
    """Read the weights of a checkpoint; ``path``, ``ema`` and errors as for ``load``."""
    found = read_contents(path)
    own = {
        name.removeprefix(_BACKBONE): value
        for name, value in found.chosen_weights(ema=ema).items()
        if name.startswith(_BACKBONE)
    }
    return StartingWeights(found.path, own, found.info["config"])


def start_from(start: StartingWeights, algorithm: Algorithm, config: Mapping[str, Any]) -> None:
    """Copy ``init.parts`` of a run's ``config`` into the backbone and log what was copied.

    After ``Algorithm.fit``: what a part learnt from its data, such as the scale of maps, belongs to
    its weights."""
    parts = config["init"]["parts"]
    named = None if parts is None else [*map(str, parts)]
    done = initialise(algorithm.backbone, start, parts=named, config=config)
    if other := other_meanings(start.config, config):
        logger.warning(
            "%s of %s is another than here: ids or features may stand for other things",
            *(", ".join(other), start.path),
        )
    what = "the backbone" if named is None else ", ".join(named)
    logger.info("%s starts from %s: %s", what, start.path, counted(len(done.loaded), "tensor"))
    if done.missing:
        logger.warning("not in the file, so as initialised: %s", _first_of(done.missing))
    if done.unused:
        logger.info("in the file only: %s", _first_of(done.unused))
    if done.left:
        logger.info("not in init.parts, so as initialised: %s", ", ".join(done.left))


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

    ``parts``: names of modules or tensors, wherever they lie: ``encoder`` of one backbone goes into
    ``network.encoder`` of another. Tensors that only one of the two has are left out. None: all of
    the backbone, which must have the same tensors, but for those of modules that start as nothing
    (``zero_initialised``), which a checkpoint may lack. ``config``: of this run, to name the
    settings that differ.

    Raises ``ValueError`` for a part that one of the two does not have, or has several times, parts
    without a common tensor, other tensors if ``parts`` is None, and other shapes.
    """
    state = backbone.state_dict()
    sources: dict[str, str] = {}  # by the name here, the name there
    unused: list[str] = []
    if parts is None:
        added = _added(backbone) - start.weights.keys()
        _check_same(start, state.keys() - added, config)
        parts, sources = (), {name: name for name in state if name not in added}
    for part in parts:
        there = _where(part, start.weights, f"the backbone of {start.path}")
        here = _where(part, state, "this backbone")
        own = {name: there + name.removeprefix(here) for name in _inside(here, state)}
        if start.weights.keys().isdisjoint(own.values()):
            raise ValueError(f"init.parts: '{part}' has no tensor in common with {start.path}")
        unused += [name for name in _inside(there, start.weights) if name not in own.values()]
        sources |= own
    found = {
        name: start.weights[name_there]
        for name, name_there in sources.items()
        if name_there in start.weights
    }
    _check_shapes(start, found, state, config)
    backbone.load_state_dict({**state, **found})
    missing = tuple(name for name in sources if name not in found)
    tops = dict.fromkeys(name.split(".")[0] for name in state)
    reached = {name.split(".")[0] for name in (*found, *missing)}
    left = tuple(top for top in tops if top not in reached)
    return Initialised(tuple(found), missing, tuple(unused), left)


def _added(backbone: nn.Module) -> set[str]:
    """Names of the tensors of modules that start as nothing."""
    return {
        f"{path}.{name}"
        for path, module in backbone.named_modules()
        if getattr(module, "zero_initialised", False)
        for name in module.state_dict()
    }


def _where(part: str, names: Iterable[str], owner: str) -> str:
    """The path of the module or tensor called ``part``, the one nearest to the top."""
    paths = {path for name in names for path in accumulate(name.split("."), "{}.{}".format)}
    found = [path for path in paths if path == part or path.endswith(f".{part}")]
    if not found:
        tops = {path for path in paths if "." not in path}
        raise ValueError(f"init.parts: {owner}: {unknown_name('part', part, tops)}")
    depth = min(path.count(".") for path in found)
    nearest = sorted(path for path in found if path.count(".") == depth)
    if len(nearest) > 1:
        raise ValueError(
            f"init.parts: {owner} has {len(nearest)} parts '{part}': {', '.join(nearest[:4])}"
            f"{', ...' * (len(nearest) > 4)}; give the path of one"
        )
    return nearest[0]


def _inside(path: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name == path or name.startswith(f"{path}.")]


def _check_same(start: StartingWeights, names: Set[str], config: Mapping[str, Any]) -> None:
    if other := sorted(start.weights.keys() ^ names):
        parts = ", ".join(sorted({name.split(".")[0] for name in start.weights}))
        differing = _differing(start.config, config)
        settings = f"set {', '.join(differing)} as it has, or " if differing else ""
        backbone = start.config["algo"].get("backbone")
        if backbone != config["algo"].get("backbone"):
            settings = f"set algo.backbone={backbone}, or "
        raise ValueError(
            f"init.checkpoint={start.path} holds another backbone, {backbone}: only one of the two "
            f"has {other[0]}; {settings}name parts to take with init.parts=[...], of {parts}"
        )


def _check_shapes(
    start: StartingWeights,
    found: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    config: Mapping[str, Any],
) -> None:
    for name, value in found.items():
        if value.shape == state[name].shape:
            continue
        remedies = []
        if differing := _differing(start.config, config):
            remedies.append(f"with {', '.join(differing)} it has that of the file")
        if fitting := _fitting(start.weights, state):
            remedies.append(f"init.parts=[{','.join(fitting)}] takes the parts that fit")
        raise ValueError(
            f"init.checkpoint={start.path}: {name} is {tuple(value.shape)} there and "
            f"{tuple(state[name].shape)} here{'; ' * bool(remedies)}{', or '.join(remedies)}"
        )


def _fitting(there: Mapping[str, Tensor], here: Mapping[str, Tensor]) -> list[str]:
    """The outermost parts that both have, all of whose common tensors have the same shapes."""
    common = there.keys() & here.keys()
    other = {name.split(".")[0] for name in common if there[name].shape != here[name].shape}
    return sorted({name.split(".")[0] for name in common} - other)


def other_meanings(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The keys of ``data`` on which it depends what a network reads and predicts, such as the
    characters of ids, where two configs of one kind of data have other values."""
    domain = domain_of(now["data"])
    if domain_of(was["data"]) is not domain:
        return []
    there, here = was["data"], now["data"]
    keys = [k for k in domain.fixed_keys if None not in (there.get(k), here.get(k))]
    return [f"data.{key}" for key in keys if there[key] != here[key]]


def _differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """``key=value`` of the settings that shapes may depend on, where ``now`` has another value and
    can have that."""
    there, here = _sizes(was), _sizes(now)
    differing = [k for k in there if k in here and there[k] != here[k]]
    return [f"{k}={there[k]}" for k in differing if _can_be(now, k, there[k])]


def _can_be(config: Mapping[str, Any], key: str, value: Any) -> bool:
    """False for what follows from the data, such as the number of ids of a text."""
    from omegaconf import OmegaConf

    section, _, name = key.partition(".")
    if section != "data":
        return True
    data = OmegaConf.create({**config["data"], name: value})
    try:
        domain_of(config["data"]).complete(data)
    except (ValueError, OSError):
        return False
    return True


def _sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    described = {"name", "parameters", "backbones", "counted_at", "scales_with", "download"}
    model = {
        k: v for k, v in leaves(config["model"], "model.") if described.isdisjoint(k.split("."))
    }
    data = {f"data.{k}": v for k, v in config["data"].items() if k in _DATA_SIZES}
    return {k: v for k, v in {**model, **data}.items() if v is not None}

"""Overrides in Hydra's grammar, the search path of configs, and the model presets on it.

Values that name files or folders, and texts, are taken literally after the first ``=``:
``checkpoint=epoch=3-step=6.ckpt``, ``samples=plans (1).jsonl``, ``given=007``. Quotes, ``null``,
``[A,B]`` for a key that takes several files and ``${...}`` keep their meaning in Hydra.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import compress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.files import ModelPreset, config_dir, config_dirs
from discrete_diffusion.domains.registry import (
    WITH_CHECKPOINT,
    available_domains,
    get_domain,
    options_by_title,
)
from discrete_diffusion.models.registry import BACKBONES, backbone_spec, default_models

if TYPE_CHECKING:
    from omegaconf import DictConfig

# --- words of a command ---

_PATHS = (
    *("checkpoint", "samples", "out", "picture", "resume", "init.checkpoint", "reward"),
    *("algo.reward", "data.tokenizer", "hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir"),
)
"""Keys of commands that name a file or folder, apart from keys of kinds of data (``path_keys``) and
keys that end in ``path``."""

SEVERAL = ("samples",)
"""Keys that take a list of files."""

_TEXTS = ("prompt",)
"""Keys that take a text."""

_PLAIN = re.compile(r"(?:\.{0,2}/|[a-z_])[\w./-]*", re.ASCII | re.IGNORECASE)
_CONSTANTS = ("null", "true", "false", "inf", "nan")
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_PART = re.compile(rf"\s*({_QUOTED.pattern}|[^,]*)(?:,|$)", re.DOTALL)
_CALL = re.compile(r"(choice|glob|range|interval|shuffle|sort|tag|extend_list)\(.*\)", re.DOTALL)


def path_keys() -> set[str]:
    """Keys that name files and folders, of commands, of ``data``, and of options of every kind of
    data."""
    domains = [get_domain(name) for name in available_domains()]
    options = [each for command in WITH_CHECKPOINT for each in options_by_title(command).items()]
    files = {name for name, kinds in options if any(each.is_file for each in kinds.values())}
    return {*_PATHS, *files, *(f"data.{key}" for each in domains for key in each.data_files)}


def paths_as_typed(overrides: Sequence[str], *, sweeps: bool = False) -> list[str]:
    """Quote the values of paths and texts, so that Hydra reads them as typed.

    Quoted values stay as they are. ``sweeps``: commas separate the values of a sweep, unless a file
    of that name exists."""
    # imports kinds of data, if a value needs it
    keys = cache(path_keys)
    return [_path_as_typed(word, keys, sweeps=sweeps) for word in overrides]


def _path_as_typed(word: str, keys: Callable[[], set[str]], *, sweeps: bool) -> str:
    key, equals, value = word.partition("=")
    if key.lstrip("+") in _TEXTS and value and value != "null":
        return f"{key}={_quoted_once(value)}"
    # values that Hydra reads as typed, and keys that do not name paths
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _CONSTANTS
    name = key.lstrip("+")
    of_commands = name in _PATHS or re.search(r"(^|[._])path$", name)
    # kinds of data are imported only if the key may be theirs
    if (
        not equals
        or is_plain
        or not (of_commands or (("." not in name or name.startswith("data.")) and name in keys()))
    ):
        return word
    if value in ("", "''", '""'):
        raise ValueError(f"{word} is empty: give a path, or leave the key out")
    if value.lower() == "null" or _QUOTED.fullmatch(value):
        return word
    try:
        there = Path(value).exists()
    except (OSError, ValueError):
        there = False
    # several values: of a sweep, or a list
    if sweeps and not there and (_CALL.fullmatch(value) or "," in value):
        parts = [value] if _CALL.fullmatch(value) else map(_quoted_once, _split_at_commas(value))
        return f"{key}={','.join(parts)}"
    if not there and value.startswith("[") and value.endswith("]"):
        return f"{key}=[{','.join(map(_quoted_once, _split_at_commas(value[1:-1])))}]"
    if not there and "," in value and key.lstrip("+") in SEVERAL:
        # refused later, with advice on writing a list
        return word
    return f"{key}={_quoted_once(value)}"


def _split_at_commas(text: str) -> list[str]:
    """Split a text at the commas outside quotes."""
    return [part.strip() for part in _PART.findall(text + ",")[:-1]] if text.strip() else []


def _quoted_once(value: str) -> str:
    return value if _QUOTED.fullmatch(value) else quoted(value)


def text_of(value: str) -> str:
    """Return the value of an override without the quotes around it."""
    if not _QUOTED.fullmatch(value):
        return value
    mark = value[0]
    return re.sub(rf"(\\+)({mark}|\Z)", lambda m: m[1][: len(m[1]) // 2] + m[2], value[1:-1])


def quoted(text: str) -> str:
    """Quote a text as a value of an override; interpolations in it still work."""
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: 2 * m[1] + ("\\'" if m[2] else ""), text) + "'"


def written(value: Any) -> str:
    """Format a value such that Hydra reads it back from an override."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    return "null" if value is None else str(value)


_OF_SOME = ("algo.", "schedule.", "sampling.", "model.")
"""Prefixes of config keys that only some cells have."""


def key_of(override: str) -> str:
    """Key of an override: ``++algo.time_sampling=uniform`` -> ``algo.time_sampling``."""
    return override.split("=")[0].lstrip("+~")


def is_option(override: str) -> bool:
    """True for an override of cells with its key only; ``+model.KEY`` is for all cells."""
    return key_of(override).startswith(_OF_SOME) and not override.startswith(("~", "+model."))


# --- the search path of configs ---

_HYDRA = RLock()
_OFFERED: set[str] = set()
"""Names of presets that were registered with Hydra from the registry of backbones."""


def checked_dir(user_config_dir: str | Path | None) -> Path | None:
    """Return the absolute path of the user's folder of configs.

    Raises ``ValueError`` for a config in it that has the name of a shipped one, which is read."""
    if user_config_dir is None:
        return None
    for place, shipped in ((d, f) for d in config_dirs() for f in sorted(d.rglob("*.yaml"))):
        own = Path(user_config_dir) / shipped.relative_to(place)
        if own.is_file() and own.read_bytes() != shipped.read_bytes():
            raise ValueError(
                f"{own}: the package has a config of that name, which is read in its place; "
                "give yours another name"
            )
    return Path(user_config_dir).absolute()


@contextmanager
def own_hydra(user_dir: Path | None = None) -> Iterator[list[str]]:
    """Initialise Hydra with our configs for the block, and restore its former state.

    Yields the overrides that add ``user_dir``."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    with _HYDRA:
        offer_default_models()
        running = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(config_dir()), version_base="1.3"):
                folders = [] if user_dir is None else [quoted(f"file://{user_dir}")]
                yield [f"hydra.searchpath=[{folder}]" for folder in folders]
        finally:
            GlobalHydra.instance().hydra = running


def offer_default_models() -> None:
    """Register presets of registered backbones as choices of ``model=``, after files."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    registered = default_models()
    for name in _OFFERED - registered.keys():
        store.repo["model"].pop(f"{name}.yaml", None)
    for name, keys in registered.items():
        store.store(name, keys, group="model")
    _OFFERED.clear()
    _OFFERED.update(registered)


@contextmanager
def config_repository(user_dir: Path | None = None) -> Iterator[Any]:
    """Yield Hydra's repository of all config files on the search path."""
    from hydra.core.global_hydra import GlobalHydra

    with own_hydra(user_dir) as words:
        loader: Any = GlobalHydra.instance().config_loader()
        # Hydra has no public way to list what hydra.searchpath adds
        yield loader._parse_overrides_and_create_caching_repo(None, words)[1]


def choices(group: str, user_dir: Path | None = None, *, files_only: bool = False) -> list[str]:
    """Choices of a config group on the search path; ``files_only``: only those with a file."""
    from hydra.core.object_type import ObjectType

    with config_repository(user_dir) as repository:
        sources = [
            source
            for source in repository.get_sources()
            if source.is_group(group) and not (files_only and source.scheme() == "structured")
        ]
        return sorted({name for each in sources for name in each.list(group, ObjectType.CONFIG)})


def group_overrides(overrides: Sequence[str], user_dir: Path | None = None) -> list[str]:
    """Select the overrides that choose configs of groups: ``model=bd_base``, ``~logger``."""
    with config_repository(user_dir) as repository:
        sources = [*repository.get_sources()]
        groups = [word.split("=")[0].lstrip("+~") for word in overrides]
        of_group = [any(source.is_group(group) for source in sources) for group in groups]
    return [*compress(overrides, of_group)]


# --- model presets ---


def model_presets(user_dir: Path | None = None) -> dict[str, ModelPreset]:
    """Model presets on the search path by name, and those of registered backbones."""
    from hydra import compose
    from hydra.core.object_type import ObjectType
    from omegaconf import OmegaConf

    found = {}
    with config_repository(user_dir) as repository:
        for name in sorted(repository.get_group_options("model", ObjectType.CONFIG)):
            file = repository.load_config(f"model/{name}")
            keys = file.config
            # made of several files
            if file.defaults_list or file.header.get("package"):
                with own_hydra(user_dir) as words:
                    keys = compose("train", [*words, f"model={name}"]).model
            container: Any = OmegaConf.to_container(keys, resolve=False)
            found[name] = ModelPreset.of(name, container)
    return found


def missing_preset(config: DictConfig, chosen: Sequence[str], user_dir: Path | None) -> str | None:
    """Return the model preset to add for ``algo.backbone``; None if the config needs none.

    Raises ``ValueError`` for an unknown backbone, for a ``model=`` that does not fit the backbone,
    and for a backbone whose default preset is not on the search path."""
    if "algo" not in config or "model" not in config or "algos" in config:
        # the cells of compare have different backbones
        return None
    backbone = config.algo.backbone
    BACKBONES.entry(backbone)
    fits = config.model.get("backbones")
    if fits is None or backbone in fits:
        return None
    presets = model_presets(user_dir)
    if any(chooses_model(o) for o in chosen):
        fitting = [name for name, preset in presets.items() if backbone in preset.backbones]
        # a plug-in without a preset reads what it needs
        if not fitting:
            return None
        raise ValueError(
            f"model={config.model.name} is made for {', '.join(fits)}, not for backbone "
            f"'{backbone}'; choose one of model={', model='.join(fitting)}, or "
            f"algo.backbone={' or algo.backbone='.join(fits)}"
        )
    wanted = presets.get(str(config.model.get("name")))
    return next(iter(fitting_presets(backbone, presets, wanted.parameters if wanted else 0)), None)


def fitting_presets(
    backbone: str, presets: Mapping[str, ModelPreset], parameters: int
) -> list[str]:
    """Names of the ``presets`` that a backbone fits, sorted by distance to ``parameters``.

    The backbone's default comes first among equally near presets, or if it states no size.
    Raises ``ValueError`` if no preset fits and the default is missing."""
    default = backbone_spec(backbone).preset
    fitting = [preset for preset in presets.values() if backbone in preset.backbones]
    if default is not None and default not in presets and not fitting:
        raise ValueError(
            f"backbone '{backbone}' has default_model='{default}', and no model preset is called "
            f"that; give its folder of configs by --config-dir FOLDER, which holds "
            f"model/{default}.yaml"
        )
    if default is not None and not fitting:
        return [default]

    def order(preset: ModelPreset) -> tuple[bool, float, bool, str]:
        is_default, size = preset.name == default, preset.parameters
        # |log(size / parameters)|
        distance = abs(math.log(size / parameters)) if size and parameters else math.inf
        distance = distance if parameters else 0.0
        return not (is_default and not size), distance, not is_default, preset.name

    return [preset.name for preset in sorted(fitting, key=order)]


def chooses_model(override: str) -> bool:
    """True for an override ``model=NAME``."""
    return override.lstrip("+").startswith("model=")

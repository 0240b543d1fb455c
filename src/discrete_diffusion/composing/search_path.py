"""Places of configs: ours, a user's folder, the search paths of plug-ins, and registries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from threading import RLock
from typing import Any

from discrete_diffusion.composing.override_words import quoted
from discrete_diffusion.config.files import config_dir, config_dirs
from discrete_diffusion.models.registry import default_models

_HYDRA = RLock()

_SEARCH_PATH = "hydra.searchpath="

_OFFERED: set[str] = set()
"""Presets that Hydra has from the registry of backbones."""


def is_search_path(override: str) -> bool:
    """True for ``hydra.searchpath=[...]``, which adds folders and packages of configs."""
    return override.startswith(_SEARCH_PATH)


Places = tuple[str, ...]
"""Folders and packages of configs besides ours, as Hydra names them."""


def places_of(overrides: Sequence[str], user_config_dir: str | Path | None = None) -> Places:
    """Places of further configs: a user's folder, and what ``hydra.searchpath=[...]`` lists.

    Raises ``ValueError`` for a list that is none, and a config in the folder that has the name of
    one of ours."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    places: list[str] = []
    if user_config_dir is not None:
        _check_names(Path(user_config_dir))
        places.append(f"file://{Path(user_config_dir).absolute()}")
    for word in filter(is_search_path, overrides):
        value: Any = OverridesParser.create().parse_override(word).value()
        if not isinstance(value, list):
            raise ValueError(f"{word}: expected a list, as in hydra.searchpath=[pkg://my_package]")
        places += [str(each) for each in value]
    return tuple(places)


def folders_among(places: Places) -> list[Path]:
    """The places that are folders."""
    named = [each for each in places if not each.startswith("pkg://")]
    return [Path(each.removeprefix("file://")) for each in named]


@contextmanager
def own_hydra(places: Places = ()) -> Iterator[list[str]]:
    """Hydra with our configs inside the block, in one thread at a time, as it is one for all of
    them; afterwards the one that ran before. Yields the override that adds the ``places``."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    with _HYDRA:
        offer_default_models()
        running = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(config_dir()), version_base="1.3"):
                yield [f"{_SEARCH_PATH}[{','.join(map(quoted, places))}]"] if places else []
        finally:
            GlobalHydra.instance().hydra = running


def _check_names(folder: Path) -> None:
    """``ValueError`` for a config of a user's that has the name of one of ours, which Hydra finds
    first, and says something else."""
    files = ((each, ours) for each in config_dirs() for ours in sorted(each.rglob("*.yaml")))
    for place, ours in files:
        own = folder / ours.relative_to(place)
        if own.is_file() and own.read_bytes() != ours.read_bytes():
            raise ValueError(
                f"{own}: the package has a config of that name, which is read in its place; give "
                "yours another name"
            )


def offer_default_models() -> None:
    """Let Hydra know the presets that backbones are registered with, as choices of ``model=``; a
    file of the same name comes first."""
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
def config_repository(places: Places = ()) -> Iterator[Any]:
    """Hydra's repository of all config files that composing would find."""
    from hydra.core.global_hydra import GlobalHydra

    with own_hydra(places) as words:
        loader: Any = GlobalHydra.instance().config_loader()
        # Hydra has no public way to list what hydra.searchpath adds
        yield loader._parse_overrides_and_create_caching_repo(None, words)[1]


def choices(group: str, places: Places = (), *, files_only: bool = False) -> list[str]:
    """The choices of a config group, wherever on the search path they are; ``files_only``: without
    those that Hydra has from a registry."""
    from hydra.core.object_type import ObjectType

    with config_repository(places) as repository:
        return sorted(
            {
                name
                for source in repository.get_sources()
                if source.is_group(group) and not (files_only and source.scheme() == "structured")
                for name in source.list(group, ObjectType.CONFIG)
            }
        )


def group_overrides(overrides: Sequence[str], places: Places = ()) -> list[str]:
    """Overrides that choose a config of a group: ``model=bd_base``, ``~logger``."""
    with config_repository(places) as repository:
        sources = [*repository.get_sources()]
        groups = [word.split("=")[0].lstrip("+~") for word in overrides]
        of_group = [any(source.is_group(group) for source in sources) for group in groups]
    return [*compress(overrides, of_group)]

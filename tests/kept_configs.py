"""Hydra composes our configs once per session: a suite of commands spends most of its time there.

Everything that is kept is kept under all that it depends on (words, registered parts, stored
configs), only for our own folder of configs, and handed out as a copy.
"""

from __future__ import annotations

import copy
import importlib.metadata
import os
import pickle
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import hydra
from hydra._internal import config_loader_impl, defaults_list, utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, flag_override
from omegaconf.errors import OmegaConfBaseException

from discrete_diffusion.composing.parts import PART_GROUPS
from discrete_diffusion.config import plugins
from discrete_diffusion.config.files import CONFIG_GROUP, config_dir
from discrete_diffusion.models import registry

_load_anew = ConfigRepository.load_config
_compose_anew = hydra.compose
_list_anew = config_loader_impl.create_defaults_list
_merge_anew = ConfigLoaderImpl._compose_config_from_defaults_list
_entry_points_anew = importlib.metadata.entry_points
_parse_anew = OverridesParser.parse_rule
_choices_anew = defaults_list._create_interpolation_map

_KEPT: dict[Any, bytes] = {}
_WORDS: dict[tuple[str, str], Any] = {}
_LISTS: dict[Any, DefaultsList] = {}
_ENTRY_POINTS: dict[Any, Any] = {}


def _is_ours(repository: Any) -> bool:
    return [source.path for source in repository.get_sources()] == [
        "hydra.conf",
        str(config_dir()),
        *plugins.packages_of(CONFIG_GROUP),
        "",
    ]


def _stored() -> str:
    return repr(sorted(ConfigStore.instance().repo.items(), key=lambda item: item[0]))


def _load(self: ConfigRepository, config_path: str) -> Any:
    """One of the two dozen files of a config; what a registry offers is read anew."""
    key = ("file", config_path)
    if key not in _KEPT or not _is_ours(self):
        found = _load_anew(self, config_path)
        if found is None or found.is_schema_source or not _is_ours(self):
            return found
        _KEPT[key] = pickle.dumps(found)
    return pickle.loads(_KEPT[key])


def _compose(config_name: str, overrides: Sequence[str], **others: Any) -> DictConfig:
    """``hydra.compose`` of equal words."""
    search_path = GlobalHydra.instance().config_loader().get_search_path().get_path()
    ours = [part.path for part in search_path if part.provider == "main"] == [str(config_dir())]
    if not ours or others or any(word.startswith("hydra.") for word in overrides):
        return _compose_anew(config_name, overrides=[*overrides], **others)
    parts = [ConfigStore.instance().repo.get(group) for group in PART_GROUPS]
    key = (repr(parts), repr(registry.default_models()), config_name, *overrides)
    if key not in _KEPT:
        _KEPT[key] = pickle.dumps(_compose_anew(config_name, overrides=[*overrides]))
    return pickle.loads(_KEPT[key])


def _list(
    repo: Any, config_name: Any, overrides_list: Any, prepend_hydra: bool, skip_missing: bool
) -> DefaultsList:
    """The list of files that equal choices of groups lead to; other words change only values."""
    others = (prepend_hydra, skip_missing)
    if not _is_ours(repo) or any(word.is_sweep_override() for word in overrides_list):
        return _list_anew(repo, config_name, overrides_list, *others)
    values = [
        word
        for word in overrides_list
        if isinstance(word.value(), dict) or not repo.group_exists(word.key_or_group)
    ]
    chosen = [word.input_line for word in overrides_list if not any(word is v for v in values)]
    key = (_stored(), config_name, *chosen, *others)
    if key not in _LISTS:
        _LISTS[key] = _list_anew(repo, config_name, overrides_list, *others)
    kept = copy.copy(_LISTS[key])
    kept.config_overrides = values
    return kept


def _merge(self: ConfigLoaderImpl, defaults: Any, repo: Any) -> DictConfig:
    """The files of equal lists merged, before values are put in."""
    if not _is_ours(repo):
        return _merge_anew(self, defaults, repo)
    key = repr([defaults, _stored()])
    if key not in _KEPT:
        _KEPT[key] = pickle.dumps(_merge_after_hydra(self, defaults, repo))
    return pickle.loads(_KEPT[key])


def _merge_after_hydra(self: ConfigLoaderImpl, defaults: Any, repo: Any) -> DictConfig:
    """The files merged into those of Hydra itself, which come first and are most of them."""
    first = [*takewhile(lambda file: file.config_path.startswith("hydra/"), defaults)]
    config = _merge(self, first, repo) if 0 < len(first) < len(defaults) else None
    if config is None:
        return _merge_anew(self, defaults, repo)
    with flag_override(config, "no_deepcopy_set_nodes", True):
        for file in defaults[len(first) :]:
            try:
                config.merge_with(self._load_single_config(default=file, repo=repo).config)
            except OmegaConfBaseException:
                return _merge_anew(self, defaults, repo)  # which says why it cannot be
    return config


def _repository(self: CachingConfigRepository, delegate: ConfigRepository) -> None:
    """A repository with sources of its own, as Hydra's copy has, which goes deeper than needed."""
    self.delegate = copy.copy(delegate)
    self.delegate.sources = [*delegate.sources]
    self.cache = {}


def _entry_points(**which: str) -> Any:
    """Those of installed packages, read again when a folder of ``sys.path`` changes."""
    folders = [(path, os.stat(path).st_mtime_ns) for path in sys.path if os.path.isdir(path)]
    key = (*folders, *which.items())
    if key not in _ENTRY_POINTS:
        _ENTRY_POINTS[key] = _entry_points_anew(**which)
    return _ENTRY_POINTS[key]


def _parse(self: OverridesParser, word: str, rule: str) -> Any:
    """One word as the grammar reads it."""
    if (word, rule) not in _WORDS:
        _WORDS[word, rule] = _parse_anew(self, word, rule)
    return copy.copy(_WORDS[word, rule])


def _choices(overrides: Any, defaults: Any, self_added: bool) -> DictConfig:
    """What has been chosen so far, only where a choice follows from another one."""
    if any(one.is_interpolation() for one in defaults):
        return _choices_anew(overrides, defaults, self_added)
    return DictConfig({})


def _is_debugged() -> bool:
    """Hydra's own look, at the source of every frame of the stack, takes as long as a small job."""
    return sys.gettrace() is not None


def keep_configs() -> None:
    """Let Hydra, and our look for plug-ins, work as above in this process."""
    ConfigRepository.load_config = _load
    CachingConfigRepository.__init__ = _repository
    ConfigLoaderImpl._compose_config_from_defaults_list = _merge
    config_loader_impl.create_defaults_list = _list
    OverridesParser.parse_rule = _parse
    defaults_list._create_interpolation_map = _choices
    hydra.compose = _compose
    utils.is_under_debugger = _is_debugged
    plugins.entry_points = _entry_points

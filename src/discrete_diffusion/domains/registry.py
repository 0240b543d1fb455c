"""Kinds of data by name. Each is a folder with a class ``Domain``, and a YAML per data set.

Every ``config.data`` names its kind: ``domain: text``. Two ways to add one from outside:

* decorate its class: ``@register_domain``;
* ship it: an entry point of the group ``discrete_diffusion.domains`` in an installed package.

A kind is imported when it is first used, and with it the libraries that it alone needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from discrete_diffusion.config.plugins import load_plugins, refuse_taken
from discrete_diffusion.config.values import check_name, unknown_name
from discrete_diffusion.runtime.inputs import FileKind, register_kinds

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.domain import Domain
    from discrete_diffusion.layout.token_layout import TokenLayout
    from discrete_diffusion.layout.vocab_config import VocabConfig

ENTRY_POINT_GROUP = "discrete_diffusion.domains"

_BUILT_IN = ("graphs", "molecules", "text")
"""Folders here; the module ``domain`` of each registers its class."""

DEFAULT = "bubble_diagrams"
"""Kind of data that ``train`` takes where none is chosen."""

_BROUGHT_BY = {
    **dict.fromkeys(("bubble_diagrams", "cubigraph", "plans"), "floor_plans"),
    **dict.fromkeys(
        ("dialogue", "dialogue-tokens", "eit", "eit-levels", "regions"), "continuous_states"
    ),
}
"""Packages of this distribution that may be missing, by kinds of data and data sets."""

_DOMAINS: dict[str, Domain] = {}

_Class = TypeVar("_Class", bound="type[Domain]")


def register_domain(domain: _Class) -> _Class:
    """Class decorator that makes a kind of data known by its ``name``.

    Args:
        domain: a subclass of ``Domain``.

    Returns:
        The class, unchanged.

    Raises:
        ValueError: another class has the name.
    """
    name, known = domain.name, _DOMAINS.get(domain.name)
    refuse_taken("domain", name, known and type(known), domain)
    _DOMAINS[name] = domain()
    return domain


def get_domain(name: str) -> Domain:
    """The kind of data of that name.

    Args:
        name: value of ``data.domain``.

    Returns:
        Its only instance; the first call imports it.

    Raises:
        ValueError: there is none; the message has the closest match.
    """
    if name in _BUILT_IN and name not in _DOMAINS:
        import_module(f"{__package__}.{name}.domain")
    for only in (name, None):  # that one first: others may be heavy
        if name not in _DOMAINS:
            load_plugins(ENTRY_POINT_GROUP, "domain", only=only)
    if name not in _DOMAINS:
        raise ValueError(unknown_name("domain", name, available_domains()) + missing_package(name))
    return _DOMAINS[name]


def missing_package(name: str) -> str:
    """Name the package that brings a kind of data or a data set, and how to install it.

    Args:
        name: an unknown ``data.domain`` or choice of ``data=``.

    Returns:
        The end of a sentence; empty for a name that no package of ours has.
    """
    package = _BROUGHT_BY.get(name)
    if package is None:
        return ""
    if find_spec(package) is None:
        return f"; the package {package} brings '{name}' and is not installed"
    return f"; {package} brings '{name}' but was added after this install: repeat the pip install"


def available_domains() -> list[str]:
    """Names of all kinds of data, plug-ins included.

    Returns:
        The names, sorted.
    """
    load_plugins(ENTRY_POINT_GROUP, "domain")
    return sorted({*_BUILT_IN, *_DOMAINS})


def domain_of(data_config: Mapping[str, Any]) -> Domain:
    """The kind of data that a ``config.data`` names.

    Args:
        data_config: a ``config.data``.

    Returns:
        Its only instance.

    Raises:
        ValueError: it names none, or an unknown one.
    """
    name = data_config.get("domain")
    if name is None:
        raise ValueError(
            f"data.domain is not set (data.name={data_config.get('name')}); set it to one of "
            f"{', '.join(available_domains())}"
        )
    return get_domain(str(name))


def data_state(data_config: Mapping[str, Any]) -> str:
    """State of the samples of a ``config.data``; of a data set without a name, the first state.

    Args:
        data_config: a ``config.data``.

    Returns:
        One of ``registry.STATES``.
    """
    states = domain_of(data_config).data_sets
    return states.get(str(data_config.get("name"))) or next(iter(states.values()))


def equivalent_data_sets(data_config: Mapping[str, Any]) -> dict[str, str]:
    """Data sets with the samples of a ``config.data``: its own one and those of other states.

    Args:
        data_config: a ``config.data``.

    Returns:
        State -> ``data.name``.
    """
    own, data_sets = data_state(data_config), domain_of(data_config).data_sets
    others = {state: name for name, state in data_sets.items() if state != own}
    return {own: str(data_config.get("name")), **others}


def graph_vocabulary(data_config: Mapping[str, Any]) -> VocabConfig | None:
    """The vocabulary of graphs.

    Args:
        data_config: a completed ``config.data``.

    Returns:
        None of samples that are no graphs.

    Raises:
        ValueError: keys are missing; the message names them.
    """
    from discrete_diffusion.layout.vocab_config import VocabConfig

    found = domain_of(data_config).vocabulary(data_config)
    return found if isinstance(found, VocabConfig) else None


def build_layout(data_config: Mapping[str, Any]) -> TokenLayout:
    """The layout of the samples of a ``config.data``.

    Args:
        data_config: a completed ``config.data``.

    Returns:
        The layout.

    Raises:
        ValueError: keys are missing; the message names them.
    """
    return domain_of(data_config).vocabulary(data_config).layout()


def complete_data(config: DictConfig) -> DictConfig:
    """A config that states what the data decide, such as the layout or the number of features.

    They also decide ``model.features`` where it is null: what a network reads of a revealed graph.

    Call it before anything is built from the config; a checkpoint holds the completed one.

    Args:
        config: a composed config.

    Returns:
        ``config`` itself if there is nothing to add, else a copy.
    """
    completed = deepcopy(config)
    domain, model = domain_of(completed.data), completed.get("model") or {}
    domain.complete(completed.data)
    if "features" in model and model["features"] is None and domain.graph_features:
        model["features"] = [*domain.graph_features]
    return config if completed == config else completed


def build_data(config: DictConfig) -> Dataset:
    """The data set of a completed config, read from ``config.data``.

    Args:
        config: a config of ``complete_data``.

    Returns:
        The data set.

    Raises:
        ValueError: ``data.name`` is none of its kind of data.
    """
    domain = domain_of(config.data)
    check_name("data set", str(config.data.name), domain.data_sets)
    return domain.build(config.data)


@register_kinds
def _file_kinds() -> Iterator[FileKind]:
    """Kinds of files that kinds of data know."""
    for name in available_domains():
        yield from get_domain(name).file_kinds

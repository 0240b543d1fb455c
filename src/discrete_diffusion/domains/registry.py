"""Kinds of data by name, and the options that requests for them may have.

Each kind is a folder with a class ``Domain``, and a YAML per data set. Every ``config.data`` names
its kind: ``domain: text``. Two ways to add a kind from outside:

* decorate its class: ``@register_domain``;
* ship it: an entry point of the group ``discrete_diffusion.domains`` in an installed package.

A kind is imported when it is first used, together with the libraries that only it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from discrete_diffusion.config.plugins import load_plugins, refuse_taken
from discrete_diffusion.config.values import check_name, unknown_name
from discrete_diffusion.domains.commands import Option
from discrete_diffusion.evaluation.requests import EvaluateRequest, Request, SampleRequest
from discrete_diffusion.models.registry import config_reader
from discrete_diffusion.runtime.inputs import FileKind, register_kinds

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.domain import Domain
    from discrete_diffusion.layout.token_layout import TokenLayout
    from discrete_diffusion.layout.vocab_config import VocabConfig

ENTRY_POINT_GROUP = "discrete_diffusion.domains"

_BUILT_IN = ("graphs", "molecules", "puzzles", "text")
"""Folders here; the module ``domain`` of each registers its class."""

DEFAULT = "bubble_diagrams"
"""Kind of data that ``train`` takes where none is chosen."""

_BROUGHT_BY = {
    **dict.fromkeys(("bubble_diagrams", "cubigraph", "plans"), "floor_plans"),
    **dict.fromkeys(
        ("dialogue", "dialogue-tokens", "eit", "eit_quantised", "regions"), "continuous_states"
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
    """Return the only instance of the kind of data called ``name``; the first call imports it.

    Raises ``ValueError`` with the closest name if there is none.
    """
    if name in _BUILT_IN and name not in _DOMAINS:
        import_module(f"{__package__}.{name}.domain")
    for only in (name, None):  # the named one first: others may be heavy
        if name not in _DOMAINS:
            load_plugins(ENTRY_POINT_GROUP, "domain", only=only)
    if name not in _DOMAINS:
        raise ValueError(unknown_name("domain", name, available_domains()) + missing_package(name))
    return _DOMAINS[name]


def missing_package(name: str) -> str:
    """End of an error message: the package that provides ``name``; empty if none is known."""
    package = _BROUGHT_BY.get(name)
    if package is None:
        return ""
    if find_spec(package) is None:
        return f"; the package {package} brings '{name}' and is not installed"
    return f"; {package} brings '{name}' but was added after this install: repeat the pip install"


def available_domains() -> list[str]:
    """Sorted names of all kinds of data, plug-ins included."""
    load_plugins(ENTRY_POINT_GROUP, "domain")
    return sorted({*_BUILT_IN, *_DOMAINS})


def domain_of(data_config: Mapping[str, Any]) -> Domain:
    """Kind of data that a ``config.data`` names.

    Raises ``ValueError`` if it names no kind of data, or an unknown kind.
    """
    name = data_config.get("domain")
    if name is None:
        raise ValueError(
            f"data.domain is not set (data.name={data_config.get('name')}); set it to one of "
            f"{', '.join(available_domains())}"
        )
    return get_domain(str(name))


def data_state(data_config: Mapping[str, Any]) -> str:
    """State of the samples of a ``config.data``; the first state for a data set without a name."""
    states = domain_of(data_config).data_sets
    return states.get(str(data_config.get("name"))) or next(iter(states.values()))


def equivalent_data_sets(data_config: Mapping[str, Any]) -> dict[str, str]:
    """``data.name`` of the data sets with the samples of a ``config.data``, by state of samples."""
    own, data_sets = data_state(data_config), domain_of(data_config).data_sets
    others = {state: name for name, state in data_sets.items() if state != own}
    return {own: str(data_config.get("name")), **others}


def graph_vocabulary(data_config: Mapping[str, Any]) -> VocabConfig | None:
    """Vocabulary of the graphs of a completed ``config.data``; None if samples are not graphs.

    Raises ``ValueError`` naming missing keys.
    """
    from discrete_diffusion.layout.vocab_config import VocabConfig

    vocabulary = domain_of(data_config).vocabulary(data_config)
    return vocabulary if isinstance(vocabulary, VocabConfig) else None


def build_layout(data_config: Mapping[str, Any]) -> TokenLayout:
    """Token layout of the samples of a completed ``config.data``.

    Raises ``ValueError`` naming missing keys.
    """
    return domain_of(data_config).vocabulary(data_config).layout()


def complete_data(config: DictConfig) -> DictConfig:
    """Complete a config with keys that follow from the data, such as the number of features.

    If ``model.features`` is null, it gets the features of a partial graph that a network can read;
    ``model.config`` gets the description in ``model.path`` if the backbone reads one. Call this
    before anything is built from the config; a checkpoint holds the completed config.
    Returns the config itself if it is complete, else a copy.
    """
    completed = deepcopy(config)
    domain, model = domain_of(completed.data), completed.get("model") or {}
    domain.complete(completed.data)
    if "features" in model and model["features"] is None and domain.graph_features:
        model["features"] = [*domain.graph_features]
    if model.get("path") is not None and (read := config_reader(completed)) is not None:
        model["config"] = read(model["path"], download=model.get("download", False))
    return config if completed == config else completed


def build_data(config: DictConfig) -> Dataset:
    """Build the data set of a completed config.

    Raises ``ValueError`` if its kind of data has no data set ``data.name``.
    """
    domain = domain_of(config.data)
    check_name("data set", str(config.data.name), domain.data_sets)
    return domain.build(config.data)


@register_kinds
def _file_kinds() -> Iterator[FileKind]:
    """Kinds of files that only some kinds of data read."""
    for name in available_domains():
        yield from get_domain(name).file_kinds


WITH_CHECKPOINT = ("sample", "evaluate")
"""Commands that open a checkpoint."""

_FOR_CHECKPOINTS = ("noise_samples", "num_samples", "steps")
"""Fields that do not apply to a file of samples."""

_Request = TypeVar("_Request", bound=Request)


def options_of(domain: Domain, command: str) -> dict[str, Option]:
    """Options of ``sample``, ``evaluate`` or ``train`` that a kind of data has, by name."""
    return {option.name: option for option in domain.options.get(command, ())}


def options_by_title(command: str) -> dict[str, dict[str, Option]]:
    """Options of a command, by name and then by the title of the kind of data."""
    options: dict[str, dict[str, Option]] = {}
    for domain in map(get_domain, available_domains()):
        for name, option in options_of(domain, command).items():
            options.setdefault(name, {})[domain.title] = option
    return options


def sample_request_of(domain: Domain, request: SampleRequest, path: str) -> SampleRequest:
    """Complete a request to sample with the defaults of the kind of data.

    ``path``: path of the model. Raises ``ValueError`` for an option that does not apply to this
    model or together with ``given``, and for a value out of its bounds.
    """
    request = _with_options(domain, request, path, "sample")
    given = request.get("given")
    # options that a given sample decides, or that need one
    for name, option in options_of(domain, "sample").items():
        shown = f"{name}={request[name]}"
        if given is None and option.with_given and request[name] != option.default:
            instead = f"did you mean {option.instead_of}={request[name]}?"
            raise ValueError(
                f"{shown} is for given=FILE; {instead if option.instead_of else 'leave it out'}"
            )
        if given is None:
            continue
        refused = option.without_given or (option.is_size and "a given sample says how large it is")
        if refused and request[name] != option.default:
            raise ValueError(f"{shown} does not go with given=: {refused}; leave it out")
        if option.instead_of and (asked := request[option.instead_of]) is not None:
            raise ValueError(
                f"{option.instead_of}={asked} does not go with given=: did you mean {name}={asked} "
                f"({option.meaning})?"
            )
    return request


def evaluate_request_of(domain: Domain, request: EvaluateRequest, path: str) -> EvaluateRequest:
    """Complete a request to measure a model with the defaults of the kind of data."""
    if request.noise_samples == 0 and "time_bins" not in options_of(domain, "evaluate"):
        raise ValueError(
            f"noise_samples=0 (samples alone) does not go with {domain.title}; it takes "
            "noise_samples=1 or more"
        )
    return _with_options(domain, request, path, "evaluate")


def files_request_of(domain: Domain, request: EvaluateRequest) -> EvaluateRequest:
    """Complete a request to measure files of samples with the defaults of the kind of data."""
    own = options_of(domain, "evaluate")
    # options of other kinds of data, and fields of checkpoints
    given = _given_options(request, "evaluate")
    given += [(k, request[k], {}) for k in _FOR_CHECKPOINTS if request[k] is not None]
    for key, value, options in given:
        name = key.partition(".")[0]
        if name not in own or not own[name].of_files:
            of = f" of {' or '.join(options)}" if options else ""
            instead = "; samples are compared with reference=FILE" if name == "data" else ""
            raise ValueError(
                f"{key}={value} is for checkpoint=FILE of a model{of}; leave it out with "
                f"samples=FILE{instead}"
            )
    return _completed(request, own)


def _with_options(domain: Domain, request: _Request, path: str, command: str) -> _Request:
    own, given = options_of(domain, command), _given_options(request, command)
    # options that this model has, with values in their bounds
    for key, value, options in given:
        name = key.partition(".")[0]
        if name not in own:
            remedy = f"; {domain.remedies[name]}" if name in domain.remedies else ""
            raise ValueError(
                f"{key}={value}: {path} was not trained on {' or '.join(options)}; leave it out"
                f"{remedy}"
            )
        own[name].check(value)
    # options on how to read files need a file
    read = [name for name, each in own.items() if each.is_file and each.of_files]
    for key, value, _ in [] if any(request.get(name) is not None for name in read) else given:
        if key in own and own[key].reading:
            files = " or ".join(f"{name}=FILE" for name in read)
            raise ValueError(
                f"{key}={value} is for the files of {files}; the data of the checkpoint are read "
                "as in training; leave it out"
            )
    return _completed(request, own)


def _completed(request: _Request, own: Mapping[str, Option]) -> _Request:
    options = {name: request.get(name, option.default) for name, option in own.items()}
    return replace(request, options=options)


def _given_options(request: Request, command: str) -> list[tuple[str, Any, Mapping[str, Option]]]:
    """Given options: name (parts have dotted names), value, and definitions by kind of data."""
    given: list[tuple[str, Any, Mapping[str, Option]]] = []
    # options that differ from their default
    for name, options in options_by_title(command).items():
        if name not in request.options:
            continue
        value = request.options[name]
        if all(value != option.default for option in options.values()):
            parts = value if isinstance(value, Mapping) else {}
            given += [(f"{name}.{key}", part, options) for key, part in parts.items()]
            given += [] if parts else [(name, value, options)]
    return given

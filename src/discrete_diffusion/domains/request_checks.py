"""Requests beside what a kind of data has a use for: options with their defaults, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.option import Option
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.evaluation.requests import EvaluateRequest, Request, SampleRequest

_Request = TypeVar("_Request", bound=Request)

WITH_CHECKPOINT = ("sample", "evaluate")
"""Commands whose model is that of a checkpoint."""

_OF_CHECKPOINTS = ("bound_draws", "num_samples", "steps")
"""Fields that say nothing of a file of samples."""


def options_of(domain: Domain, command: str) -> dict[str, Option]:
    """Options of ``sample``, ``evaluate`` or ``train``, by name, that mean something for a kind of
    data."""
    return {option.name: option for option in domain.options.get(command, ())}


def options_by_title(command: str) -> dict[str, dict[str, Option]]:
    """Options of ``sample``, ``evaluate`` or ``train``, by name, then by the title of the kind of
    data."""
    found: dict[str, dict[str, Option]] = {}
    for domain in map(get_domain, available_domains()):
        for name, option in options_of(domain, command).items():
            found.setdefault(name, {})[domain.title] = option
    return found


def sample_request_of(domain: Domain, request: SampleRequest, path: str) -> SampleRequest:
    """The request with every option of the kind of data, those that it leaves out by default.

    ``path``: of the model. Raises ``ValueError`` for an option that no sample of this model has a
    use for, a value out of its bounds, and one that does not go with ``given``, or needs it.
    """
    request = _with_options(domain, request, path, "sample")
    _check_given(domain, request)
    return request


def evaluate_request_of(domain: Domain, request: EvaluateRequest, path: str) -> EvaluateRequest:
    """The same of measuring a model."""
    if request.bound_draws == 0 and "time_bins" not in options_of(domain, "evaluate"):
        raise ValueError(
            f"bound_draws=0 (samples alone) does not go with {domain.title}; bound_draws=1 is least"
        )
    return _with_options(domain, request, path, "evaluate")


def files_request_of(domain: Domain, request: EvaluateRequest) -> EvaluateRequest:
    """The same where files of samples are measured and there is no model."""
    own = options_of(domain, "evaluate")
    found = _given(request, "evaluate")
    found += [(k, request[k], {}) for k in _OF_CHECKPOINTS if request[k] is not None]
    for key, value, options in found:
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
    own = options_of(domain, command)
    found = _given(request, command)
    for key, value, options in found:
        name = key.partition(".")[0]
        if name not in own:
            remedy = f"; {domain.remedies[name]}" if name in domain.remedies else ""
            raise ValueError(
                f"{key}={value}: {path} was not trained on {' or '.join(options)}; leave it out"
                f"{remedy}"
            )
        own[name].check(value)
    read = [name for name, each in own.items() if each.is_file and each.of_files]
    for key, value, _ in [] if any(request.get(name) is not None for name in read) else found:
        if key in own and own[key].reading:
            files = " or ".join(f"{name}=FILE" for name in read)
            raise ValueError(
                f"{key}={value} is for the files of {files}; the data of the checkpoint are read "
                "as in training; leave it out"
            )
    return _completed(request, own)


def _completed(request: _Request, own: Mapping[str, Option]) -> _Request:
    """Request with the defaults of options that are left out, without options of other kinds."""
    options = {name: request.get(name, option.default) for name, option in own.items()}
    return replace(request, options=options)


def _check_given(domain: Domain, request: SampleRequest) -> None:
    """``ValueError`` for an option that does not go with ``given=FILE``, or needs it."""
    given = request.get("given")
    for name, option in options_of(domain, "sample").items():
        shown = f"{name}={request[name]}"
        if given is None and option.with_given and request[name] != option.default:
            instead = f"did you mean {option.instead_of}={request[name]}?"
            raise ValueError(
                f"{shown} is for given=FILE; {instead if option.instead_of else 'leave it out'}"
            )
        refused = option.without_given or (option.is_size and "a given sample says how large it is")
        if given is None or not (option.instead_of or refused):
            continue
        if refused and request[name] != option.default:
            raise ValueError(f"{shown} does not go with given=: {refused}; leave it out")
        if option.instead_of and (asked := request[option.instead_of]) is not None:
            raise ValueError(
                f"{option.instead_of}={asked} does not go with given=: did you mean {name}={asked} "
                f"({option.meaning})?"
            )


def _given(request: Request, command: str) -> list[tuple[str, Any, Mapping[str, Option]]]:
    """(name, value, options by kind of data) of all that were given; what stands in an option by
    itself, with its dotted name."""
    found: list[tuple[str, Any, Mapping[str, Option]]] = []
    for name, options in options_by_title(command).items():
        if name not in request.options:
            continue
        value = request.options[name]
        if all(value != option.default for option in options.values()):
            parts = value if isinstance(value, Mapping) else {}
            found += [(f"{name}.{key}", part, options) for key, part in parts.items()]
            found += [] if parts else [(name, value, options)]
    return found

"""Samples and measurements as they are requested, of a model or of files of samples."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.domains.request_checks import (
    evaluate_request_of,
    files_request_of,
    options_of,
    sample_request_of,
)
from discrete_diffusion.evaluation.likelihood import check_paths
from discrete_diffusion.evaluation.report import Evaluation, Samples
from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
from discrete_diffusion.evaluation.trained_model import TrainedModel


def sample(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Samples as requested; nothing is written until ``Samples.write`` is called.

    Raises ``ValueError`` for a request that does not fit the model, or for one that has diverged.
    """
    domain = domain_of(trained.data_config)
    request = sample_request_of(domain, request, trained.path)
    trained.check_weights()
    return domain.sample(request, trained)


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel
) -> tuple[Evaluation, dict[str, int]]:
    """Measure a model; also return what ``quick`` chose, see ``Domain.quick``.

    Raises ``ValueError`` for a request that does not fit the model."""
    domain = domain_of(trained.data_config)
    request = evaluate_request_of(domain, request, trained.path)
    check_paths(request, trained.algorithm)
    chosen = _quick(request, domain)
    return domain.evaluate(_changed(request, chosen), trained), chosen


def evaluate_files(request: EvaluateRequest, domain: Domain) -> tuple[Evaluation, dict[str, int]]:
    """The same of ``request.samples``, where the kind of data has options that are ``of_files``."""
    if not any(option.of_files for option in options_of(domain, "evaluate").values()):
        raise ValueError(
            f"samples={request.samples}: files of {domain.title} cannot be measured; give "
            "checkpoint=FILE"
        )
    request = files_request_of(domain, request)
    chosen = _quick(request, domain)
    return domain.evaluate(_changed(request, chosen), None), chosen


def _quick(request: EvaluateRequest, domain: Domain) -> dict[str, int]:
    """The values of ``Domain.quick``, or those that the request has; none without ``quick``.

    Raises ``ValueError`` if the kind of data has none."""
    if not request.quick:
        return {}
    own = options_of(domain, "evaluate")
    keys = [
        key
        for key in domain.quick
        if not request.samples or key == "num_held_out" or (key in own and own[key].of_files)
    ]
    if not keys:
        raise ValueError(
            f"quick=true: there is no quick evaluation of {domain.title}; leave it out, and choose "
            "how much is measured by num_samples=, bound_draws= and the like"
        )
    return {key: domain.quick[key] if request[key] is None else request[key] for key in keys}


def _changed(request: EvaluateRequest, values: dict[str, int]) -> EvaluateRequest:
    """Request with these values of fields and options."""
    names = {field.name for field in fields(request)}
    options = {key: value for key, value in values.items() if key not in names}
    others: dict[str, Any] = {key: value for key, value in values.items() if key in names}
    return replace(request, options={**request.options, **options}, **others)

"""Samples of a checkpoint that has been read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from discrete_diffusion.api.opening import with_sampler
from discrete_diffusion.checkpoints.contents import Checkpoint
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.domains.request_checks import sample_request_of
from discrete_diffusion.evaluation.report import Samples
from discrete_diffusion.evaluation.requests import Request, SampleRequest
from discrete_diffusion.evaluation.trained_model import TrainedModel
from discrete_diffusion.runtime.precision import check_units, computed_in
from discrete_diffusion.runtime.shards import Shard


def sample(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Samples as requested; nothing is written until ``Samples.write`` is called.

    Raises ``ValueError`` for a request that does not fit the model, or for one that has diverged.
    """
    domain = domain_of(trained.data_config)
    request = sample_request_of(domain, request, trained.path)
    trained.check_weights()
    return domain.sample(request, trained)


def trained_model_here(request: Request, checkpoint: Checkpoint) -> TrainedModel:
    """A checkpoint with the requested sampler, where its weights are, for this process alone."""
    device = next(checkpoint.algorithm.parameters()).device
    check_units("precision", request.precision, on_gpu=device.type == "cuda")
    sharing = partial(_alone, request.precision, str(device))
    return with_sampler(request, checkpoint, device=str(device), sharing=sharing)


@contextmanager
def _alone(precision: str, device: str) -> Iterator[Shard]:
    with computed_in(precision, device):
        yield Shard()

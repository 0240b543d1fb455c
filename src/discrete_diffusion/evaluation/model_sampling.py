"""``sample`` of a model of tokens: fresh samples or completions, as a report writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import SPLITS, TokenDataset
from discrete_diffusion.evaluation.held_out import UnreadableDataError, checkpoint_data
from discrete_diffusion.evaluation.report import Samples, SavedSamples
from discrete_diffusion.evaluation.token_samples import (
    COMPLETIONS,
    NUM_SAMPLES,
    complete_tokens,
    requested_sizes,
    sample_fresh,
)
from discrete_diffusion.runtime.inputs import GivenObjects, place_of_line
from discrete_diffusion.sampling.exactness import exactness_facts

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.report import Report
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)


def sample_token_model(
    request: SampleRequest,
    trained: TrainedModel,
    report: Callable[[Any, str, DictConfig], Report],
) -> Samples:
    """``num_samples`` samples, of the size that an option asks for; or ``completions`` of each line
    of ``given``, as ``Domain.tokens`` reads it, -1 where a token is to be drawn.

    Written and measured by ``report``, see ``Domain.report``, beside the data of the checkpoint;
    without a measurement where these cannot be read.
    """
    domain, data = trained.domain, trained.data_config
    vocabulary = domain.vocabulary(data)
    options = domain.options.get("sample", ())
    asked = {option.name: request[option.name] for option in options if option.is_size}
    size = requested_sizes(trained, vocabulary.largest, **asked) if asked else None
    given, facts = request.get("given"), {}
    if given is not None:
        partial = _given_tokens(trained, given)
        each = request.get("completions") or COMPLETIONS
        facts = {"given": str(given), "num_inputs": len(partial), "completions": each}
        partial = partial.repeat_interleave(each, dim=0)
        real = vocabulary.layout().is_real(partial)
    with trained.sharing() as shard:
        model, entropy = trained.on(shard), (request.seed,)
        if given is None:
            num = request.num_samples or NUM_SAMPLES
            drawn = sample_fresh(trained, model, num, entropy=entropy, size=size)
        else:
            drawn = complete_tokens(model, partial, real, entropy=entropy)
    if given is not None:
        reasons = trained.approximations(real=real, known=real & (partial >= 0))
        facts |= exactness_facts(reasons, of="completions")

    def write() -> SavedSamples:
        measured: dict[str, float] = {}
        try:
            found = checkpoint_data(trained)
            split = next((s for s in reversed(SPLITS) if len(found.splits[s])), SPLITS[-1])
            made = report(found, split, trained.config)
            measured = made.measure(drawn.tokens)
        except UnreadableDataError as error:
            logger.warning("%s: the samples are written and not measured", error)
            made = report(_no_data(trained), SPLITS[-1], trained.config)
        made.save(drawn.tokens, request.out)
        made.plot(drawn.tokens, request.out / request.picture)
        shown = [e.format(measured[e.name]) for e in made.headlines if e.name in measured]
        what = counted(len(drawn.tokens), "sample" if given is None else "completion")
        line = "; ".join([f"{what} in {drawn.seconds:.1f} s", *shown, str(request.out)])
        return SavedSamples({**facts, **drawn.facts, **measured}, line)

    return Samples(domain.decode(data, drawn.tokens), write)


def _given_tokens(trained: TrainedModel, given: str | GivenObjects) -> Tensor:
    """Int[M, L] of the lines of a file, or of objects; ``ValueError`` names the one that is
    wrong."""
    samples: list[Any]
    if isinstance(given, GivenObjects):
        samples = list(given.objects)
    else:
        with Path(given).open(encoding="utf-8") as file:
            samples = [line.rstrip("\n") for line in file]
    if not samples:
        raise ValueError(f"{given} is empty: expected a sample per line")
    found = []
    for number, sample in enumerate(samples, start=1):
        try:
            found.append(trained.domain.tokens(trained.data_config, [sample]))
        except ValueError as error:
            raise ValueError(f"{place_of_line(given, number)}: {error}") from error
    return torch.cat(found)


def _no_data(trained: TrainedModel) -> TokenDataset:
    """Data set of no sample, with the vocabulary of a model."""
    vocabulary = trained.domain.vocabulary(trained.data_config)
    layout = vocabulary.layout()
    nothing = torch.zeros(0, layout.length, dtype=torch.long)
    made = TokenDataset.of_rows(nothing, layout, (0, 0, 1))
    made.vocab = vocabulary
    return made

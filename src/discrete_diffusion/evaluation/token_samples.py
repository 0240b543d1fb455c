"""Samples of a model of tokens: fresh ones, and completions of partial ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import sample_sizes
from discrete_diffusion.sampling.model import sample_in_batches

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.sampling.model import Model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenSamples:
    """``tokens``: Int[num, L]; ``nfe``, ``log_weights``, ``rows``, ``num_forced``: as in
    ``SampleOutput``; ``seconds``: to sample them all; ``trajectory``: the states on the way of the
    first ``trajectories``, Int[K, at most so many, L], or None."""

    tokens: Tensor
    nfe: Tensor
    log_weights: Tensor
    rows: Tensor
    seconds: float
    trajectory: Tensor | None = None
    num_forced: Tensor | None = None

    @property
    def network_calls(self) -> float:
        """Mean number of network calls per sample."""
        return float(self.nfe.double().mean()) if len(self.nfe) else 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """Entries of ``metrics.json``."""
        return {
            "num_samples": len(self.tokens),
            "network_calls_per_sample": self.network_calls,
            "seconds": self.seconds,
        }


def sample_tokens(
    model: Model,
    real: Tensor,
    *,
    entropy: Sequence[int],
    clamp: Tensor | None = None,
    trajectories: int = 0,
) -> TokenSamples:
    """One sample per row of ``real`` Bool[M, L], the positions that carry data; a function of
    ``entropy``. ``clamp``: Int[M, L], ids to keep, -1 where they are sampled."""
    start = time.perf_counter()
    output = sample_in_batches(
        model,
        real,
        generator=make_generator(*entropy, 1, device=model.device),
        clamp=clamp,
        conditions=model.shared_conditions_of(len(real)),
        trajectories=trajectories,
    )
    seconds = time.perf_counter() - start
    assert output.rows is not None
    return TokenSamples(
        output.x0,
        output.nfe,
        output.log_weights,
        output.rows,
        seconds,
        output.trajectory,
        output.num_forced,
    )


def fresh_sizes(
    num: int,
    size_counts: Sequence[int],
    *,
    entropy: Sequence[int],
    size: int | Sequence[int] | None = None,
) -> Tensor:
    """Int[num]: sizes sampled from ``size_counts``, the histogram of the training data, or all of
    one ``size``; of several, as often as in the histogram among these."""
    if isinstance(size, int):
        return torch.full((num,), size)
    counts = [count if size is None or n in size else 0 for n, count in enumerate(size_counts)]
    return sample_sizes(counts, num, make_generator(*entropy, 0))


def sample_fresh(
    trained: TrainedModel,
    model: Model,
    num: int,
    *,
    entropy: Sequence[int],
    size: int | Sequence[int] | None = None,
    trajectories: int = 0,
) -> TokenSamples:
    """``num`` samples of a checkpoint, a function of ``entropy``: a seed, and numbers that keep
    them apart from other samples with it; of sizes as for ``fresh_sizes``."""
    sizes = fresh_sizes(num, trained.size_counts, entropy=entropy, size=size)
    real = trained.domain.vocabulary(trained.data_config).real_positions(sizes)
    return sample_tokens(model, real, entropy=entropy, trajectories=trajectories)


def requested_sizes(
    trained: TrainedModel, n_max: int, **key: int | Sequence[int] | None
) -> int | list[int] | None:
    """Sizes of samples by an option, ``num_nodes=...``: a number of nodes, of sequences tokens, or
    several to sample as often as in the training data among these; None for all.

    Raises ``ValueError`` for one that the model does not know, or, among several, has not seen; one
    alone that it has not seen is warned of.
    """
    ((name, asked),) = key.items()
    one = asked if isinstance(asked, int) else None
    several = [] if asked is None or isinstance(asked, int) else [*asked]
    domain, seen = trained.domain, trained.size_counts
    samples, nodes = domain.title, domain.group_titles.get("node", "tokens")
    largest = "n_max" if "node" in domain.group_titles else "length"
    for size in several or ([] if one is None else [one]):
        if size > n_max:
            raise ValueError(
                f"{name}={size}: {trained.path} was trained on {samples} of at most {n_max} "
                f"{nodes}; ask for fewer, or train with data.{largest}={size}"
            )
        if several and not (size < len(seen) and seen[size]):
            raise ValueError(
                f"{name}={asked}: {trained.path} was trained on no {samples.removesuffix('s')} of "
                f"{size} {nodes}, so none would be drawn among the others; {name}={size} alone "
                "draws them"
            )
    warn_of_sizes(trained, [] if one is None else [one])
    return several or one


def warn_of_sizes(trained: TrainedModel, sizes: Iterable[int]) -> None:
    """Log which of the requested sizes the model was not trained on, and on which it was."""
    seen = [size for size, count in enumerate(trained.size_counts) if count]
    if unseen := sorted({*sizes} - {*seen}):
        logger.warning(
            "%s was trained on %s of %s %s, on none of %s; samples of a size that it has not seen "
            "may be poor: train it on some, or ask for another size",
            *(trained.path, trained.domain.title, ", ".join(map(str, seen))),
            *(trained.domain.group_titles.get("node", "tokens"), ", ".join(map(str, unseen))),
        )


NUM_SAMPLES, COMPLETIONS = 64, 4
"""If ``num_samples`` or ``completions`` of ``sample`` does not say."""


def complete_tokens(
    model: Model, partial: Tensor, real: Tensor, *, entropy: Sequence[int]
) -> TokenSamples:
    """One sample per row of ``partial`` Int[M, L], whose ids are kept; those at -1 are sampled.

    ``real``: Bool[M, L], the positions that carry data; elsewhere ``partial`` is not read. Raises
    ``ValueError`` naming row and position for an id that is not legal there."""
    return sample_tokens(model, real, entropy=entropy, clamp=partial.where(real, -1))

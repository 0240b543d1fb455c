"""Samples of a model of tokens: fresh ones, and completions of partial ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import sample_sizes
from discrete_diffusion.sampling.drawing import sample_in_batches

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import Model, TrainedModel


@dataclass(frozen=True)
class TokenSamples:
    """``tokens``: Int[num, L]; ``nfe``, ``log_weights``, ``num_forced``: as in ``SampleOutput``;
    ``seconds``: to sample them all; ``trajectory``: the states on the way of the first
    ``trajectories``, Int[K, at most so many, L], or None."""

    tokens: Tensor
    nfe: Tensor
    log_weights: Tensor
    seconds: float
    trajectory: Tensor | None = None
    num_forced: Tensor | None = None

    @property
    def network_calls(self) -> float:
        """Per sample, mean."""
        return float(self.nfe.double().mean()) if len(self.nfe) else 0.0


def sample_tokens(
    model: Model,
    real_positions: Callable[[Tensor], Tensor],
    num: int,
    *,
    size_counts: list[int],
    entropy: Sequence[int],
    size: int | Sequence[int] | None = None,
    trajectories: int = 0,
) -> TokenSamples:
    """``num`` samples, a function of ``entropy``, of sizes sampled from ``size_counts``, the
    histogram of the training data, or all of one ``size``; of several, as often as in the histogram
    among these.

    ``real_positions``: Int[num] sizes -> Bool[num, L]."""
    if isinstance(size, int):
        sizes = torch.full((num,), size)
    else:
        counts = [count if size is None or n in size else 0 for n, count in enumerate(size_counts)]
        sizes = sample_sizes(counts, num, make_generator(*entropy, 0))
    return _drawn(model, real_positions(sizes), None, entropy, trajectories)


def sample_fresh(
    trained: TrainedModel,
    model: Model,
    num: int,
    seed: int,
    *,
    stream: tuple[int, ...] = (),
    size: int | Sequence[int] | None = None,
    trajectories: int = 0,
) -> TokenSamples:
    """``num`` samples of a checkpoint, of sizes as for ``sample_tokens``; ``stream`` keeps
    them apart from other samples with that seed."""
    domain, data = trained.domain, trained.data_config
    return sample_tokens(
        model,
        lambda sizes: domain.real_positions(data, sizes),
        num,
        size_counts=trained.size_counts,
        entropy=(seed, *stream),
        size=size,
        trajectories=trajectories,
    )


def asked_sizes(
    trained: TrainedModel, n_max: int, **key: int | Sequence[int] | None
) -> int | list[int] | None:
    """Sizes of a graph's samples by an option, ``num_nodes=...``: a number of nodes, or several to
    sample as often as in the training data among these; None for all.

    Raises ``ValueError`` for one that the model does not know, or, among several, has not seen.
    """
    ((name, asked),) = key.items()
    one = asked if isinstance(asked, int) else None
    several = [] if asked is None or isinstance(asked, int) else [*asked]
    domain, seen = trained.domain, trained.size_counts
    samples, nodes = domain.title, domain.group_titles["node"]
    for size in several or ([] if one is None else [one]):
        if size > n_max:
            raise ValueError(
                f"{name}={size}: {trained.path} was trained on {samples} of at most {n_max} "
                f"{nodes}; ask for fewer, or train with data.n_max={size}"
            )
        if several and not (size < len(seen) and seen[size]):
            raise ValueError(
                f"{name}={asked}: {trained.path} was trained on no {samples.removesuffix('s')} of "
                f"{size} {nodes}, so none would be drawn among the others; {name}={size} alone "
                "draws them"
            )
    return several or one


def complete_tokens(
    model: Model, partial: Tensor, real: Tensor, *, entropy: Sequence[int]
) -> TokenSamples:
    """One sample per row of ``partial`` Int[M, L], whose ids are kept; those at -1 are sampled.

    ``real``: Bool[M, L], the positions that carry data; elsewhere ``partial`` is not read. Raises
    ``ValueError`` naming row and position for an id that is not legal there."""
    return _drawn(model, real, partial.where(real, -1), entropy)


def _drawn(
    model: Model,
    real: Tensor,
    clamp: Tensor | None,
    entropy: Sequence[int],
    trajectories: int = 0,
) -> TokenSamples:
    start = time.perf_counter()
    output = sample_in_batches(
        model.sampler,
        model.algorithm,
        real,
        generator=make_generator(*entropy, 1, device=model.device),
        steps=model.steps,
        batch_size=model.batch_size,
        clamp=clamp,
        narrowing=model.narrowing,
        conditions=model.shared_conditions_of(len(real)),
        trajectories=trajectories,
        shard=model.shard,
        on_sampled=model.on_sampled,
    )
    seconds = time.perf_counter() - start
    return TokenSamples(
        output.x0,
        output.nfe,
        output.log_weights,
        seconds,
        output.trajectory,
        output.num_forced,
    )

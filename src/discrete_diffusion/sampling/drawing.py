"""Many samples, in batches of equal size, by one process or several."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.shards import Shard
from discrete_diffusion.runtime.stopping import Stop
from discrete_diffusion.sampling.narrowing import Narrowing
from discrete_diffusion.sampling.tokens import TokenSampler
from discrete_diffusion.types import Conditions, SampleOutput

logger = logging.getLogger(__name__)

OnSampled = Callable[[Tensor, SampleOutput], None]
"""Told the rows Int[b] of a batch and their samples, as soon as they are drawn."""

_SHARES = 8
_LEAST_SHARE = {"cpu": 32}
"""A request is cut into about ``_SHARES`` batches, so that processes can share it, if they hold
``_LEAST_SHARE`` rows each, by device; 1,024 where a GPU would be idle with fewer."""

_MOST_ROWS = {"cpu": 256}
"""``batch_size`` by device: past that a CPU's caches overflow (``benchmarks/speed.py``)."""


def sample_in_batches(
    sampler: TokenSampler,
    algorithm: TokenAlgorithm,
    real: Tensor,
    *,
    generator: torch.Generator,
    steps: int | None = None,
    batch_size: int | None = None,
    clamp: Tensor | None = None,
    narrowing: Callable[[], Narrowing | None] | None = None,
    conditions: Conditions | None = None,
    trajectories: int = 0,
    shard: Shard | None = None,
    on_sampled: OnSampled | None = None,
) -> SampleOutput:
    """One sample per row of ``real`` Bool[M, L], on the CPU, in the rows' order.

    ``clamp``: Int[M, L], see ``TokenSampler.sample``; ``narrowing``: makes the one of each batch.
    ``conditions``: the condition of each row, tensors with M rows.
    Rows of one size are sampled together, so that their batches hold no PAD; in a trajectory, those
    that are finished early keep their last state.
    ``batch_size``: rows at most, by default those of ``rows_at_once``. ``trajectories``: keep the
    states of the first so many rows, Int[K, min(trajectories, M), L].

    ``shard``: every process makes the same request, samples some of the batches and returns all
    samples. Each batch has a generator of its own, seeded by ``generator``, so a sample does not
    depend on the number of processes. It does on ``batch_size``.

    ``on_sampled``: of a process by itself. With it a ``Stop`` ends the sampling, and the result has
    the rows alone that ``on_sampled`` was given; before the first of them it is raised.
    """
    device = algorithm.layout.support.device
    batch_size = rows_at_once(device) if batch_size is None else batch_size
    batches = _batches(real.sum(dim=1), batch_size, _LEAST_SHARE.get(device.type, 1024))
    seeds = sample_seeds(generator, len(batches))
    shard = shard or Shard()
    drawn: list[tuple[Tensor, SampleOutput]] = []

    def sample(batch: tuple[Tensor, int]) -> SampleOutput:
        rows, seed = batch
        drawing.take(len(rows) * shard.world_size)
        kept = rows < trajectories
        output = sampler.sample(
            algorithm,
            real[rows].to(device),
            generator=make_generator(seed, device=generator.device),
            steps=steps,
            clamp=None if clamp is None else clamp[rows].to(device),
            narrowing=None if narrowing is None else narrowing(),
            conditions={name: x[rows].to(device) for name, x in (conditions or {}).items()},
            keep_trajectory=bool(kept.any()),
        )
        finished = output.cpu()
        if finished.trajectory is not None:
            finished = replace(finished, trajectory=finished.trajectory[:, kept])
        if on_sampled is not None:
            drawn.append((rows, finished))
            on_sampled(rows, finished)
        drawing.advance(len(rows) * shard.world_size)
        return finished

    with progress.task("sampling", len(real), "samples") as drawing:
        try:
            outputs = shard.map(sample, zip(batches, seeds, strict=True))
        except Stop:
            if not drawn:
                raise
            batches, outputs = map(list, zip(*drawn, strict=True))
            logger.warning(
                "%s of %s samples are finished; large ones come first, so small ones are missing",
                *(f"{sum(map(len, batches)):,}", f"{len(real):,}"),
            )
    return _joined(outputs, torch.cat(batches), trajectories)


def rows_at_once(device: torch.device | str) -> int:
    """How many samples are taken at once on ``device`` by default."""
    return _MOST_ROWS.get(torch.device(device).type, 1024)


def sample_seeds(generator: torch.Generator, num: int) -> list[int]:
    """Seeds of other generators, from a generator on any device."""
    return torch.randint(2**62, (num,), generator=generator, device=generator.device).tolist()


def _batches(sizes: Tensor, batch_size: int, least: int) -> list[Tensor]:
    """Rows Int[<= batch_size] that are sampled together, of one size each but for the few of a rare
    size; the costliest first. A function of ``sizes`` Int[M], ``batch_size`` and the device, for
    which ``least`` rows make a batch that is worth its calls; half of them one without PAD."""
    most = min(batch_size, max(least, -(-len(sizes) // _SHARES)))
    groups, rare = [], 0
    for count in sizes.unique(return_counts=True)[1].tolist():
        rare += count
        if rare >= min(least // 2, batch_size):
            groups.append(rare)
            rare = 0
    if rare or not groups:
        groups.append(rare)
    batches = [
        rows
        for group in sizes.argsort(stable=True).split(groups)
        for rows in group.tensor_split(max(1, -(-len(group) // most)))
    ]
    return sorted(batches, key=lambda rows: -int(sizes[rows].sum()))


def _joined(outputs: list[SampleOutput], order: Tensor, trajectories: int) -> SampleOutput:
    """All rows, in their own order again; ``order``: Int[M], the row that each sample is of."""
    back = order.argsort()
    forced = [output.num_forced for output in outputs if output.num_forced is not None]
    states = [output.trajectory for output in outputs if output.trajectory is not None]
    return SampleOutput(
        x0=torch.cat([output.x0 for output in outputs])[back],
        nfe=torch.cat([output.nfe for output in outputs])[back],
        log_weights=torch.cat([output.log_weights for output in outputs])[back],
        trajectory=_joined_trajectories(states, order[order < trajectories].argsort()),
        num_forced=torch.cat(forced)[back] if forced else None,
    )


def _joined_trajectories(parts: list[Tensor], back: Tensor) -> Tensor | None:
    """Int[K, M, L], the shorter of Int[K_i, M_i, L] lengthened by their last state."""
    if not parts:
        return None
    longest = max(map(len, parts))
    full = [torch.cat([part, part[-1:].expand(longest - len(part), -1, -1)]) for part in parts]
    return torch.cat(full, dim=1)[:, back]

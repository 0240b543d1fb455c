"""Many samples, in batches of equal size, by one process or several."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.stopping import Stop
from discrete_diffusion.sampling.model import Model

logger = logging.getLogger(__name__)

_SHARES = 8
_LEAST_SHARE = {"cpu": 32}
"""A request is cut into about ``_SHARES`` batches, so that processes can share it, if they hold
``_LEAST_SHARE`` rows each, by device; 4,096 on a GPU, for which a call of fewer takes as long."""


def sample_in_batches(
    model: Model,
    real: Tensor,
    *,
    generator: torch.Generator,
    clamp: Tensor | None = None,
    conditions: Conditions | None = None,
    trajectories: int = 0,
) -> SampleOutput:
    """One sample of tokens per row of ``real`` Bool[M, L], on the CPU, in the order of the rows.

    ``clamp``, ``conditions``: see ``TokenSampler.sample``; with M rows. ``trajectories``: keep the
    states of the first so many rows, Int[K, min(trajectories, M), L]; those that are finished early
    keep their last state. Rows of one size are sampled together, so that batches hold no PAD.

    The processes of ``model.shard`` make the same request; each samples some of the batches and
    returns all samples. Each batch has a generator of its own, seeded by ``generator``, so a sample
    does not depend on the number of processes. It does on ``model.batch_size``.

    Raises ``ValueError`` as ``Model.sample_batch`` and ``TokenSampler.sample`` do; ``Stop`` before
    the first batch is finished, or without ``model.on_sampled``.
    """
    device, world_size = model.algorithm.layout.support.device, model.shard.world_size
    batches = _batches(real.sum(dim=1), model.rows_at_once, device)
    seeds = sample_seeds(generator, len(batches))
    drawn: list[tuple[Tensor, SampleOutput]] = []

    def sample(batch: tuple[Tensor, int]) -> SampleOutput:
        rows, seed = batch
        drawing.take(len(rows) * world_size)
        kept = rows < trajectories
        output = model.sample_batch(
            real[rows],
            generator=make_generator(seed, device=generator.device),
            clamp=None if clamp is None else clamp[rows],
            conditions={name: x[rows] for name, x in (conditions or {}).items()},
            keep_trajectory=bool(kept.any()),
        )
        finished = _with_trajectories(output, kept)
        if model.on_sampled is not None:
            drawn.append((rows, finished))
            model.on_sampled(rows, finished)
        drawing.advance(len(rows) * world_size)
        return finished

    with progress.task("sampling", len(real), "samples") as drawing:
        try:
            outputs = model.shard.map(sample, zip(batches, seeds, strict=True))
        except Stop:
            if not drawn:
                raise
            batches, outputs = _finished(drawn, len(real))
    return _joined(outputs, torch.cat(batches), trajectories)


def _with_trajectories(output: SampleOutput, rows: Tensor) -> SampleOutput:
    """The samples with the states of those of ``rows`` Bool[B] alone, if they were kept."""
    if output.trajectory is None:
        return output
    return replace(output, trajectory=output.trajectory[:, rows])


def _finished(
    drawn: Sequence[tuple[Tensor, SampleOutput]], asked: int
) -> tuple[list[Tensor], list[SampleOutput]]:
    """Rows and samples of the batches before a ``Stop``, which the log says."""
    batches, outputs = map(list, zip(*drawn, strict=True))
    logger.warning(
        "%s of %s samples are finished; large ones come first, so small ones are missing",
        *(f"{sum(map(len, batches)):,}", f"{asked:,}"),
    )
    return batches, outputs


def sample_seeds(generator: torch.Generator, num: int) -> list[int]:
    """Seeds of other generators, from a generator on any device."""
    return torch.randint(2**62, (num,), generator=generator, device=generator.device).tolist()


def _batches(sizes: Tensor, batch_size: int, device: torch.device) -> list[Tensor]:
    """Rows Int[<= batch_size] that are sampled together, of one size each but for the few of a rare
    size; the costliest first. A function of ``sizes`` Int[M], ``batch_size`` and the device, for
    which ``least`` rows make a batch that is worth its calls; half of them one without PAD."""
    least = _LEAST_SHARE.get(device.type, 4096)
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
        rows=order[back],
    )


def _joined_trajectories(parts: list[Tensor], back: Tensor) -> Tensor | None:
    """Int[K, M, L], the shorter of Int[K_i, M_i, L] lengthened by their last state."""
    if not parts:
        return None
    longest = max(map(len, parts))
    full = [torch.cat([part, part[-1:].expand(longest - len(part), -1, -1)]) for part in parts]
    return torch.cat(full, dim=1)[:, back]

"""``Model``: an algorithm with a sampler and a device; sampling many samples in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.values import check_whole_number
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.models.calling import described
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.processes import Shard, Stop

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Model:
    """An algorithm with a fitting sampler and the device of both.

    ``steps``: number of steps of the sampler, None for its default. ``batch_size``: number of
    samples made at once, None for the default of the device. ``shard``: this process among the
    processes that share the work. ``on_sampled``: called by a single process after every batch,
    with its rows Int[b] and samples. If it is given, a ``Stop`` ends the sampling, and the finished
    samples are returned; if there are none, the ``Stop`` is raised. ``narrowing``: builds the
    ``Narrowing`` of a batch. ``shared_conditions``: conditions that all samples share, tensors of
    one row, by name. The last two are for tokens only.

    Raises ``ValueError`` for ``batch_size`` below 1.
    """

    algorithm: Any
    sampler: Any
    device: torch.device | str = "cpu"
    steps: int | None = None
    batch_size: int | None = None
    shard: Shard = field(default_factory=Shard)
    on_sampled: Callable[[Tensor, Any], None] | None = None
    narrowing: Callable[[], Any] | None = None
    shared_conditions: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_whole_number("batch_size", self.batch_size, least=1)

    def shared_conditions_of(self, num: int) -> dict[str, Tensor]:
        """Repeat ``shared_conditions``, a row for each of ``num`` samples."""
        return {
            name: value.to(self.device).expand(num, -1)
            for name, value in self.shared_conditions.items()
        }

    def sample_batch(
        self,
        real: Tensor,
        *,
        generator: torch.Generator,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
        keep_trajectory: bool = False,
    ) -> SampleOutput:
        """Sample tokens for the rows of ``real`` Bool[B, L], all at once; return them on the CPU.

        The arguments are those of ``TokenSampler.sample``, on any device. Raises ``ValueError``,
        with a remedy, for logits that are not finite and for illegal ids from a sampler of another
        package; ``TypeError`` for a network instead of an algorithm.
        """
        self.sampler.check(self.algorithm, self.steps)
        device = self.algorithm.layout.support.device
        # to the device of the algorithm, and back
        output: SampleOutput = self.sampler.sample(
            self.algorithm,
            real.to(device),
            generator=generator,
            steps=self.steps,
            clamp=None if clamp is None else clamp.to(device),
            narrowing=None if self.narrowing is None else self.narrowing(),
            conditions={name: x.to(device) for name, x in (conditions or {}).items()},
            keep_trajectory=keep_trajectory,
        )
        # illegal ids are errors
        check_drawn(self.algorithm, output.x0, real.to(device), self.sampler)
        return output.cpu()

    @property
    def rows_at_once(self) -> int:
        """``batch_size``, or the default for the device and the number of logits of a sample."""
        layout = getattr(self.algorithm, "layout", None)
        if self.batch_size or layout is None:
            return self.batch_size or rows_at_once(self.device)
        keeps = getattr(self.algorithm, "is_block_causal", False)
        keeps |= getattr(self.sampler, "refresh", 1) > 1
        return rows_at_once(layout.support.device, layout.length, layout.vocab_size, keeps=keeps)


def rows_at_once(
    device: torch.device | str, length: int = 1, vocab_size: int = 1, *, keeps: bool = False
) -> int:
    """Default number of samples of ``length`` tokens in a batch on ``device``.

    ``keeps``: the network keeps keys and values of its columns.
    """
    on_cpu = torch.device(device).type == "cpu"
    # more rows overflow a CPU's caches (``benchmarks/speed.py``); fewer take a GPU as long
    rows = 256 if on_cpu else 4096
    # tokens whose states take a few GiB of a GPU; logits of 256 MB on a CPU, with a few copies
    tokens, logits = 1 << 20, 1 << 26 if on_cpu else 1 << 28
    tokens = 1 << (15 if on_cpu else 17) if keeps else tokens  # 72 KiB each by ``dit_base``
    return max(1, min(rows, tokens // length, logits // (length * vocab_size)))


def check_drawn(algorithm: Any, x0: Tensor, real: Tensor, sampler: Any = None) -> None:
    """Raise ``ValueError`` for an illegal id of x0 Int[B, L] at the positions ``real`` Bool[B, L].

    The message names sample and position. Such an id (MASK may be one) comes only from logits that
    are not finite, or from a ``sampler`` of another package, which the message names; None: the
    sampler is built in.
    """
    # illegal ids
    layout = algorithm.layout
    ids = x0.clamp(0, layout.support.shape[-1] - 1)
    legal = layout.support.gather(-1, ids.T).T & (ids == x0)
    ours = sampler is None or type(sampler).__module__.startswith("discrete_diffusion.")
    wrong = real & ~legal & ((x0 != layout.mask_id) if ours else True)
    if not wrong.any():
        return
    # the network or the sampler is at fault
    sample, position = wrong.nonzero()[0].tolist()
    where, left = f"sample {sample}, position {position}", int(x0[sample, position])
    if ours:
        raise not_finite(algorithm.backbone, f"while it was sampled, first for {where}")
    raise ValueError(
        f"{type(sampler).__module__}.{type(sampler).__name__} left "
        f"{'MASK' if left == layout.mask_id else f'id {left}'} at {where}, where it is not legal; "
        "see that it reveals every real position, and that the network's logits are finite"
    )


def not_finite(backbone: nn.Module, when: str) -> ValueError:
    """Build the error, with a remedy, for logits that were not finite at the moment ``when``."""
    # diverged weights, or a division by 0 in the network
    if all(weight.isfinite().all() for weight in backbone.parameters()):
        remedy = (
            "its weights are finite: look in it for a division by 0, or a softmax over nothing but "
            "masked keys"
        )
    else:
        remedy = (
            "its weights hold NaN or infinity, so training has diverged: take an earlier "
            "checkpoint, or train with a lower optim.lr"
        )
    return ValueError(f"{described(backbone)} returned NaN or infinite logits {when}; {remedy}")


def sample_in_batches(
    model: Model,
    real: Tensor,
    *,
    generator: torch.Generator,
    clamp: Tensor | None = None,
    conditions: Conditions | None = None,
    trajectories: int = 0,
) -> SampleOutput:
    """Sample tokens for every row of ``real`` Bool[M, L]; return them on the CPU, in that order.

    ``clamp``, ``conditions``: see ``TokenSampler.sample``; with M rows. ``trajectories``: number of
    first rows whose states are kept, Int[K, min(trajectories, M), L]; a sample that is finished
    early repeats its last state. Rows of one size are sampled together, so that batches hold no
    PAD.

    The processes of ``model.shard`` make the same request; each samples some of the batches and
    returns all samples. Every batch has its own generator, seeded by ``generator``, so samples
    depend on ``model.batch_size``, but not on the number of processes.

    Raises ``ValueError`` as ``Model.sample_batch`` and ``TokenSampler.sample`` do; ``Stop`` if it
    comes before the first batch is finished, or without ``model.on_sampled``.
    """
    # batches with a seed each
    device, world_size = model.algorithm.layout.support.device, model.shard.world_size
    num = real.sum(dim=1)
    batches = _rows_by_size(num, model.rows_at_once, device)
    seeds = sample_seeds(generator, len(batches))
    # columns computed for each sample, Float[M], by which the time left is told
    steps, (sizes, kind) = model.steps, num.unique(return_inverse=True)
    work = [
        size * min(steps, size) if steps else model.sampler.work(size, model.algorithm)
        for size in sizes.tolist()
    ]
    costs = torch.tensor(work, dtype=torch.float64)[kind.cpu()]
    finished: list[tuple[Tensor, SampleOutput]] = []

    def sample(batch: tuple[Tensor, int]) -> SampleOutput:
        # one batch
        rows, seed = batch
        sampling.take(len(rows) * world_size, float(costs[rows.cpu()].sum()) * world_size)
        kept = rows < trajectories
        output = model.sample_batch(
            real[rows],
            generator=make_generator(seed, device=generator.device),
            clamp=None if clamp is None else clamp[rows],
            conditions={name: x[rows] for name, x in (conditions or {}).items()},
            keep_trajectory=bool(kept.any()),
        )
        # keep trajectories of the first rows alone
        if output.trajectory is not None:
            output = replace(output, trajectory=output.trajectory[:, kept])
        if model.on_sampled is not None:
            finished.append((rows, output))
            model.on_sampled(rows, output)
        sampling.advance(len(rows) * world_size)
        return output

    # the processes share the batches; a stop keeps the finished ones
    with progress.task("sampling", len(real), "samples", float(costs.sum())) as sampling:
        try:
            outputs = model.shard.map(sample, zip(batches, seeds, strict=True))
        except Stop:
            if not finished:
                raise
            batches, outputs = map(list, zip(*finished, strict=True))
            logger.warning(
                "%s of %s samples are finished; large ones come first, so small ones are missing",
                *(f"{sum(map(len, batches)):,}", f"{len(real):,}"),
            )
    return _joined_outputs(outputs, torch.cat(batches), trajectories)


def sample_seeds(generator: torch.Generator, num: int) -> list[int]:
    """Seeds of ``num`` other generators, from a generator on any device."""
    return torch.randint(2**62, (num,), generator=generator, device=generator.device).tolist()


def _rows_by_size(sizes: Tensor, batch_size: int, device: torch.device) -> list[Tensor]:
    """Group rows into batches of at most ``batch_size``, the costliest first.

    A batch holds rows of one size of ``sizes`` Int[M], but rare sizes share a batch. A size is rare
    if it has fewer than half of ``least``, the rows for which calls on the device pay off.
    """
    least = 32 if device.type == "cpu" else 4096
    # eight batches at least, so that processes can share them
    most = min(batch_size, max(least, -(-len(sizes) // 8)))
    # sizes in ascending order, rare ones joined
    groups, rare = [], 0
    for count in sizes.unique(return_counts=True)[1].tolist():
        rare += count
        if rare >= min(least // 2, batch_size):
            groups.append(rare)
            rare = 0
    if rare or not groups:
        groups.append(rare)
    # equal batches within each group
    batches = [
        rows
        for group in sizes.argsort(stable=True).split(groups)
        for rows in group.tensor_split(max(1, -(-len(group) // most)))
    ]
    return sorted(batches, key=lambda rows: -int(sizes[rows].sum()))


def _joined_outputs(outputs: list[SampleOutput], order: Tensor, trajectories: int) -> SampleOutput:
    """Join batches in the order of the request; ``order``: Int[M], the row of each sample."""
    back = order.argsort()
    forced = [output.num_forced for output in outputs if output.num_forced is not None]
    columns = [output.columns for output in outputs if output.columns is not None]
    # trajectories Int[K_i, M_i, L] of one length, the shorter ones with their last state repeated
    states = [output.trajectory for output in outputs if output.trajectory is not None]
    trajectory = None
    if states:
        longest = max(map(len, states))
        full = [torch.cat([x, x[-1:].expand(longest - len(x), -1, -1)]) for x in states]
        trajectory = torch.cat(full, dim=1)[:, order[order < trajectories].argsort()]
    return SampleOutput(
        x0=torch.cat([output.x0 for output in outputs])[back],
        nfe=torch.cat([output.nfe for output in outputs])[back],
        log_weights=torch.cat([output.log_weights for output in outputs])[back],
        trajectory=trajectory,
        num_forced=torch.cat(forced)[back] if forced else None,
        columns=torch.cat(columns)[back] if columns else None,
        rows=order[back],
    )

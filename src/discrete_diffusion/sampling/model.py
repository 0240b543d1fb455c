"""``Model``: an algorithm, a sampler that fits it, and where they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.config.values import check_whole_number
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.models.calling import described
from discrete_diffusion.runtime.shards import Shard

_MOST_ROWS = {"cpu": 256}
"""``batch_size`` by device: past that a CPU's caches overflow (``benchmarks/speed.py``). Others
take 4,096: a call of fewer small samples takes a GPU as long."""

_MOST_LOGITS = {"cpu": 1 << 26}
"""Of all samples at once, by device: 256 MB in float32, of which there are a few copies."""

_MOST_TOKENS = 1 << 20
"""Of all samples at once, for what a network holds of each: a few GiB of a GPU."""


@dataclass(frozen=True)
class Model:
    """An algorithm, a sampler that fits it, and where they compute.

    ``steps``: of the sampler, None for its default. ``batch_size``: samples made at once, None for
    the default of the device. ``shard``: this process among those that share the work.
    ``on_sampled``: of a process by itself, given the rows Int[b] of every batch and its samples,
    as soon as they are there; with it a ``Stop`` ends the sampling and the samples are those that
    were finished by then; before the first of them it is raised.
    ``narrowing``: makes the one of every batch, see ``TokenSampler.sample``; of tokens only.
    ``shared_conditions``: conditions that all samples share, tensors of one row, by name; of
    tokens only.

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
        """``shared_conditions``, a row for each of ``num`` samples."""
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
        """Samples of tokens for the rows of ``real`` Bool[B, L], all at once; on the CPU. The
        arguments as for ``TokenSampler.sample``, on any device.

        Raises ``ValueError``, with a remedy, for ids that come of logits that are not finite, and
        for those that a sampler of another package must not leave; ``TypeError`` for a network
        instead of an algorithm."""
        self.sampler.check(self.algorithm, self.steps)
        device = self.algorithm.layout.support.device
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
        check_drawn(self.algorithm, output.x0, real.to(device), self.sampler)
        return output.cpu()

    @property
    def rows_at_once(self) -> int:
        """``batch_size``, or the default of the device and of how many logits a sample has."""
        layout = getattr(self.algorithm, "layout", None)
        if self.batch_size or layout is None:
            return self.batch_size or rows_at_once(self.device)
        return rows_at_once(layout.support.device, layout.length, layout.vocab_size)


def rows_at_once(device: torch.device | str, length: int = 1, vocab_size: int = 1) -> int:
    """How many samples of ``length`` tokens are taken at once on ``device`` by default."""
    kind = torch.device(device).type
    most = min(_MOST_ROWS.get(kind, 4096), _MOST_TOKENS // length)
    return max(1, min(most, _MOST_LOGITS.get(kind, 1 << 28) // (length * vocab_size)))


def check_drawn(algorithm: Any, x0: Tensor, real: Tensor, sampler: Any = None) -> None:
    """Raise ``ValueError``, naming sample and position, where x0 Int[B, L] is illegal at a position
    of ``real`` Bool[B, L]: only logits that are not finite give such an id, MASK aside, or a
    ``sampler`` of another package (None: it is one of ours), which is named."""
    layout = algorithm.layout
    ids = x0.clamp(0, layout.support.shape[-1] - 1)
    legal = layout.support.gather(-1, ids.T).T & (ids == x0)
    ours = sampler is None or type(sampler).__module__.startswith("discrete_diffusion.")
    wrong = real & ~legal & ((x0 != layout.mask_id) if ours else True)
    if not wrong.any():
        return
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
    """Error of a network whose logits are not finite, with a remedy; ``when`` they were seen."""
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

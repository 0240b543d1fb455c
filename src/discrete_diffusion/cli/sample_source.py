"""Where samples come from: a checkpoint, a sampler, a seed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.compose import plain
from discrete_diffusion.cli.sample_outputs import refuse_overwriting_data
from discrete_diffusion.cli.sampler_settings import sampler_settings
from discrete_diffusion.cli.values import check_kinds
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import is_number
from discrete_diffusion.states import data_kind

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.checkpoints import Checkpoint
    from discrete_diffusion.data.bubble_diagrams import BubbleDiagram
    from discrete_diffusion.shards import Shard


logger = logging.getLogger(__name__)

MASK_RATE = 0.5
"""Of features: the share of the rows of a held-out window that is hidden, if none is given."""


@dataclass(frozen=True)
class DrawnSamples:
    """``tokens``: Int[num, L]; ``data``: the ``config.data`` that says what they mean;
    ``network_calls``: per sample, mean; ``seconds``: to draw them all; ``trajectory``: the states
    on the way of the first ``trajectories``, Int[K, at most so many, L], or None."""

    tokens: Tensor
    data: DictConfig
    network_calls: float
    seconds: float
    trajectory: Tensor | None = None

    @property
    def diagrams(self) -> list[BubbleDiagram]:
        """The samples of a model of diagrams."""
        from discrete_diffusion.data.bubble_diagrams import decode
        from discrete_diffusion.layout import VocabConfig

        return decode(self.tokens, VocabConfig(n_max=self.data.n_max))


@dataclass(frozen=True)
class SampleSource:
    """A trained model with a sampler; see ``open_sample_source``.

    ``device``: where it is. ``sampling``: name and arguments of the sampler. ``batch_size``: None
    is the default of the device.
    """

    path: str
    checkpoint: Checkpoint
    sampler: Any
    sampling: dict[str, Any]
    device: str
    steps: int | None
    batch_size: int | None

    def draw(
        self,
        num: int,
        seed: int,
        *,
        num_rooms: int | None = None,
        trajectories: int = 0,
        shard: Shard | None = None,
    ) -> DrawnSamples:
        """``num`` samples, a function of ``seed``; sizes like those of the training data, or
        ``num_rooms``, of diagrams. The first ``trajectories`` keep the states on their way.
        ``shard``: the processes that share the drawing, see ``draw_samples``.

        Raises ``ValueError`` for a model that has diverged."""
        import torch

        from discrete_diffusion.categorical import make_generator
        from discrete_diffusion.data import draw_sizes
        from discrete_diffusion.layout import real_positions
        from discrete_diffusion.sampling import draw_samples

        data = self.checkpoint.config.data
        self.check_weights()
        if num_rooms is None:
            sizes = draw_sizes(self.checkpoint.size_counts, num, make_generator(seed, 0))
        else:
            sizes = torch.full((num,), num_rooms)
        start = time.perf_counter()
        output = draw_samples(
            self.sampler,
            self.checkpoint.algorithm,
            real_positions(data, sizes),
            generator=make_generator(seed, 1, device=self.device),
            steps=self.steps,
            batch_size=self.batch_size,
            trajectories=trajectories,
            shard=shard,
        )
        seconds = time.perf_counter() - start
        calls = float(output.nfe.double().mean())
        return DrawnSamples(output.tokens, data, calls, seconds, output.trajectory)

    @property
    def trained_on(self) -> str:
        """What its data is, as ``data_kind`` calls it."""
        return data_kind(self.checkpoint.config.data)

    def refuse_overwriting_data(self, config: DictConfig, names: Iterable[str]) -> None:
        """``ValueError`` if one of the ``names``, written into ``config.out``, is a file that the
        model was trained on, or one under ``config.data``."""
        for data in (self.checkpoint.config.data, config.data):
            refuse_overwriting_data(Path(str(config.out)), names, data)

    def check_weights(self) -> None:
        """``ValueError`` for a model that has diverged."""
        if not all(weight.isfinite().all() for weight in self.checkpoint.algorithm.parameters()):
            raise ValueError(
                f"{self.path} cannot be sampled: its weights hold NaN or infinity, training has "
                "diverged; take an earlier checkpoint"
            )


_SHARED = ("temperature", "top_p", "guidance")
_ALIKE = ("top_p", "guidance")
"""Of those, what has the same bounds in every sampler; some take a temperature of 0."""


def open_sample_source(config: DictConfig, device: str = "cpu") -> SampleSource:
    """From ``checkpoint``, ``ema``, ``sampling``, ``steps`` and ``batch_size``, on ``device``.

    The sampler is that of ``sampling_of``. Raises ``ValueError`` if it does not fit the model,
    naming those that do, or makes no such ``steps``.
    """
    import torch

    from discrete_diffusion.checkpoints import read_checkpoint
    from discrete_diffusion.models.compiling import check_compiler, compile_backbone
    from discrete_diffusion.sampling import build_sampler, check_sampler

    if config.compile:
        check_compiler(torch.device(device))
    _check_numbers(config)
    given = _given(config)
    # a bad value is refused before the checkpoint is read
    if "name" in given:
        build_sampler(given)
    else:
        _check_names(given)
        alike = {key: value for key, value in given.items() if key in _ALIKE}
        build_sampler({"name": "ancestral", **alike})
    checkpoint = read_checkpoint(config.checkpoint, ema=config.ema, device=device)
    if config.compile:
        logger.info("compiling the network at its first calls, which takes a minute or more")
        compile_backbone(checkpoint.algorithm.backbone, torch.device(device))
    sampling = sampling_of(config, checkpoint.config)
    sampler = build_sampler(sampling)
    check_sampler(sampler, checkpoint.algorithm, config.steps)
    return SampleSource(
        path=str(config.checkpoint),
        checkpoint=checkpoint,
        sampler=sampler,
        sampling=sampling,
        device=device,
        steps=config.steps,
        batch_size=config.batch_size,
    )


def sampling_of(config: DictConfig, trained: DictConfig) -> dict[str, Any]:
    """Name and arguments of the sampler: what ``config.sampling`` gives, and without a name there
    the rest from ``trained.sampling``, what the model was trained with, and what that
    does not say, because the sampler did not have it yet, by default.

    Raises ``ValueError`` for an argument that the sampler of the model does not have, naming those
    of the same state that do.
    """
    from discrete_diffusion.sampling import sampler_state

    given = _given(config)
    if "name" in given:
        return given
    settings = sampler_settings()
    name = trained.sampling.name
    own = {**settings.get(name, {}), **plain(trained.sampling)}
    if unknown := sorted(given.keys() - own.keys()):
        having = [
            f"sampling={other}"
            for other, has in settings.items()
            if unknown[0] in has and sampler_state(other) == sampler_state(name)
        ]
        remedy = f"; take one that has it: {', '.join(having)}" if having else "; leave it out"
        raise ValueError(
            f"sampling.{unknown[0]}: the model was trained with sampling={name}, which has "
            f"{', '.join(key for key in own if key != 'name')}{remedy}"
        )
    merged = {**own, **given}
    check_kinds(*(OmegaConf.create({"sampling": part}) for part in (merged, own)))
    return merged


def _given(config: DictConfig) -> dict[str, Any]:
    """Null is "not given" for the keys that ``sample.yaml`` has, and a value for any other."""
    own = ("name", *_SHARED)
    sampling = plain(config.sampling)
    return {k: value for k, value in sampling.items() if value is not None or k not in own}


def _check_names(given: dict[str, Any]) -> None:
    """``ValueError`` for a setting that no sampler has, one of a plug-in's among them."""
    from discrete_diffusion.sampling import _SAMPLER_BUILDERS

    known = {key for settings in sampler_settings().values() for key in settings}
    known |= {key for build in _SAMPLER_BUILDERS.values() for key in signature(build).parameters}
    for key in sorted(given.keys() - known):
        raise ValueError(unknown_name("setting of a sampler", key, known))


def _check_numbers(config: DictConfig) -> None:
    for key in _SHARED:
        value = config.sampling.get(key)
        if value is not None and not is_number(value):
            raise ValueError(f"sampling.{key}={value}: expected a number")

"""A run: the parts that a ``train`` config builds, and what is done with them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.building.algorithm import build_algorithm, reward_of
from discrete_diffusion.building.measurements import (
    Work,
    batches_of_epoch,
    sizes_of,
    with_measurements,
)
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints.contents import (
    SENSELESS,
    checkpoint_info,
    read_contents,
    reason_of,
)
from discrete_diffusion.config.files import plain
from discrete_diffusion.data.batches import BatchStream, SplitBatches, with_fewer
from discrete_diffusion.domains.registry import build_data, domain_of
from discrete_diffusion.evaluation.bound import MeasurementSettings, estimate_bound
from discrete_diffusion.models.acceleration import check_compiler
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.processes import distributed_shard
from discrete_diffusion.sampling.exactness import approximations, exactness_facts
from discrete_diffusion.sampling.model import Model
from discrete_diffusion.sampling.registry import build_sampler, check_sampler

if TYPE_CHECKING:
    from lightning.pytorch import Trainer
    from omegaconf import DictConfig

    from discrete_diffusion.checkpoints.start import ResumePoint
    from discrete_diffusion.evaluation.report import Report
    from discrete_diffusion.runtime.processes import Shard
    from discrete_diffusion.training.module import DiffusionModule

logger = logging.getLogger(__name__)

SAMPLE_STREAM, BOUND_STREAM, BEGIN_STREAM, TRIAL_STREAM = 2, 3, 4, 5
"""Keep the noise of samples, of the final bound, of what comes before the first step and of the
trial of the backbone apart from that of training."""

_LOOKED_THROUGH = 256
"""Training samples among which those of the trial are chosen."""


@dataclass(frozen=True)
class Run:
    """Parts that a config builds; the module holds the algorithm, on whatever device it is."""

    config: DictConfig
    data: Any
    """The data set: of the class that its domain has."""
    module: DiffusionModule
    sampler: Any
    """A sampler that fits the algorithm."""
    fingerprint: str
    shortened: list[str]
    """Notes on measurements that are less than all, for their work."""
    num_tried: int
    """Samples that the check before training draws."""

    @property
    def algorithm(self) -> Any:
        return self.module.algorithm

    @property
    def size(self) -> int:
        return int(self.algorithm.num_parameters)

    @cached_property
    def report(self) -> Report:
        """Report that makes, measures and writes samples; made once."""
        return domain_of(self.config.data).report(self.data, "val", self.config)

    @cached_property
    def shard(self) -> Shard:
        """This process among those of the run; first requested by all of them at once."""
        return distributed_shard()

    @property
    def model(self) -> Model:
        """The current weights, where they are now."""
        device = next(self.algorithm.parameters()).device
        return Model(self.algorithm, self.sampler, device, shard=self.shard)

    def draw(self, num: int) -> Any:
        """The same ``num`` samples from the current weights every time, as the report takes them.

        Several processes share the work and all get the samples."""
        return self.report.sample(self.model, num, self.config.seed, (SAMPLE_STREAM,))

    def batches(self, **options: Any) -> BatchStream:
        """Batches to train on; options of ``BatchStream``."""
        config = self.config
        return BatchStream(
            self.data, batch_size=config.data.batch_size, seed=config.seed, **options
        )

    def held_out(self, most: int | None = None, **ranks: int) -> SplitBatches:
        """The validation split, or at most so many samples of it; ``ranks``: as for
        ``SplitBatches``."""
        config = self.config
        data = with_fewer(self.data, "val", most, config.seed)
        return SplitBatches(
            data, "val", batch_size=config.data.batch_size, seed=config.seed, **ranks
        )

    def validated(self, limit: float, **ranks: int) -> SplitBatches:
        """What a validation measures: the validation split or, of a smaller
        ``trainer.limit_val_batches``, samples of all sizes; its first batches are the smallest."""
        every = self.held_out(**ranks)
        num = batches_of_epoch(len(every), limit)
        if not 0 < num < len(every):
            return every
        return self.held_out(num * self.config.data.batch_size * every.world_size, **ranks)

    def begin(self) -> None:
        """``Algorithm.before_first_step`` of a new run, with samples as training shows them,
        relabelled if it relabels."""
        seed, examples = self.config.seed, self.data.splits["train"]
        train = self.data.augment(examples, make_generator(seed, BEGIN_STREAM, 1))
        self.algorithm.before_first_step(train, make_generator(seed, BEGIN_STREAM))

    def fit(self, trainer: Trainer, resumed: ResumePoint | None) -> None:
        """Train, from where ``resumed`` says."""
        ranks = {"rank": trainer.global_rank, "world_size": trainer.world_size}
        train = self.batches(**ranks, accumulate=trainer.accumulate_grad_batches)
        val = self.validated(trainer.limit_val_batches, **ranks)
        if trainer.limit_val_batches:
            trainer.limit_val_batches = 1.0  # of these
        path = None if resumed is None else str(resumed.path)
        try:
            if resumed is not None and resumed.stream is not None:
                train.load_state_dict(resumed.stream)  # Lightning forgets it after a whole epoch
            trainer.fit(self.module, train, val, ckpt_path=path, weights_only=True)
        except SENSELESS as error:
            of_file = resumed is not None and trainer.global_step <= resumed.step + 1
            if not of_file or trainer.world_size > 1 or "memory" in repr(error).lower():
                raise
            raise ValueError(f"the run of {path} cannot go on: {reason_of(error)}") from error

    def final_metrics(self, trainer: Trainer, folder: Path) -> dict[str, Any]:
        """The model of ``best.ckpt``: its bound on the validation split, and fresh samples.

        Several processes share the work; the first one measures the samples and has the result.
        """
        from discrete_diffusion.training.callbacks import TimeOfMeasuring
        from discrete_diffusion.training.sharding import whole_weights

        began = time.monotonic()
        config, device = self.config, trainer.strategy.root_device
        self.algorithm.to(device)
        with whole_weights(trainer), progress.task("final measurements"):
            step = self._take_best(trainer)
            bound = estimate_bound(
                self.algorithm,
                self.held_out(most=config.eval.bound_samples),
                quantity=self.module.bound,
                draws=config.eval.bound_draws,
                settings=MeasurementSettings((config.seed + BOUND_STREAM,), device, self.shard),
            )
            samples = self.draw(config.eval.num_samples)
            statistics = self.algorithm.statistics() | self.report.model_facts(
                self.model,
                config.eval.num_samples,
                draws=config.eval.bound_draws,
                seed=config.seed + BOUND_STREAM,
            )
        if not trainer.is_global_zero:
            return {}
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, TimeOfMeasuring):
                callback.measured(time.monotonic() - began)
        self.report.save(samples, folder)
        drawn = approximations(self.sampler, self.algorithm) if config.eval.num_samples else None
        return {
            "algorithm": config.algo.name,
            "backbone": config.algo.backbone,
            "parameters": self.size,
            "seed": config.seed,
            "steps": trainer.global_step,
            "step": step,
            "skipped_steps": self.module.skipped_steps.total,
            "data_fingerprint": self.fingerprint,
            **self.report.findings(bound, samples),
            **statistics,
            **({} if drawn is None else exactness_facts(drawn)),
        }

    def _take_best(self, trainer: Trainer) -> int:
        """Load the weights of ``best.ckpt``, of which ``sample`` and ``evaluate`` are, unless they
        are here; return the step that they are of."""
        from discrete_diffusion.training.run_checkpoints import RunCheckpoints

        kept, steps = trainer.checkpoint_callback, trainer.global_step
        best = kept.best_step if isinstance(kept, RunCheckpoints) else None
        if best is None or best == steps:
            return steps
        assert isinstance(kept, RunCheckpoints)
        read_contents(kept.best).load_into(self.algorithm)
        if trainer.is_global_zero:
            logger.info("measuring best.ckpt, of step %s of %s", f"{best:,}", f"{steps:,}")
        return best


def new_algorithm(config: DictConfig) -> Any:
    """The algorithm of a run before it has seen data, with weights of ``seed``."""
    torch.manual_seed(config.seed)
    algorithm: Any = build_algorithm(config)
    if algorithm.has_reward:
        algorithm.score = reward_of(config)
    return algorithm


def fit_and_try(algorithm: Any, data: Any, config: DictConfig) -> None:
    """Fit it to the training split, and call its network on a small and a large sample of it,
    unless ``check_backbone=false``."""
    algorithm.prepare(data.splits["train"].batch())
    some = data.splits["train"][:_LOOKED_THROUGH]
    if len(some) == 0 or not config.get("check_backbone", True):
        return  # no samples at all are refused where batches are made
    sizes = some.real.sum(dim=1)
    pair = sizes.argsort(stable=True)[[0, -1]] if len(some) > 1 else slice(0, 1)
    batch = data.augment(some[pair], make_generator(config.seed, TRIAL_STREAM))
    try_backbone(algorithm, batch, causal=bool(config.algo.get("causal_attention")))


def build_run(config: DictConfig, *, on_gpu: bool) -> Run:
    """Build all but the trainer; cheap checks come before the data is read."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if config.compile:
        check_compiler(torch.device("cuda" if on_gpu else "cpu"))
    algorithm = new_algorithm(config)
    sampler = build_sampler(config)
    check_sampler(sampler, algorithm)
    data = build_data(config)
    fit_and_try(algorithm, data, config)
    work = Work.of(sizes_of(data), sampler, algorithm)
    config, shortened = with_measurements(
        config,
        num_train=len(data.splits["train"]),
        num_held_out=len(data.splits["val"]),
        work=work,
    )
    fingerprint = data.fingerprint()
    from discrete_diffusion.training.module import (
        DiffusionModule,  # slow, so after what may be refused
    )

    module = DiffusionModule(
        algorithm,
        bound=algorithm.bound or data.bound,
        seed=config.seed,
        checkpoint_info=checkpoint_info(
            plain(config), data.size_counts(), data_fingerprint=fingerprint
        ),
        compiled=config.compile,
        **plain(config.optim),
    )
    num_tried = work.num_tried(config.callbacks.num_samples)
    return Run(config, data, module, sampler, fingerprint, shortened, num_tried)

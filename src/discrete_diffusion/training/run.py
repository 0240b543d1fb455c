"""Training run: building the parts of a config, training, and the run folder."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import DictConfig, OmegaConf

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
from discrete_diffusion.checkpoints.start import (
    ResumePoint,
    StartingWeights,
    check_resumable,
    start_from,
)
from discrete_diffusion.config.files import plain
from discrete_diffusion.config.values import counted
from discrete_diffusion.data.batches import BatchStream, SplitBatches, with_fewer
from discrete_diffusion.domains.registry import build_data, complete_data, domain_of
from discrete_diffusion.evaluation.bound import MeasurementSettings, estimate_bound
from discrete_diffusion.evaluation.report import Report
from discrete_diffusion.evaluation.tables import finite_or_none, write_metrics
from discrete_diffusion.models.acceleration import check_compiler
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import atomic_write
from discrete_diffusion.runtime.processes import (
    LostProcessError,
    Shard,
    Stop,
    StopSignals,
    all_processes,
    distributed_shard,
)
from discrete_diffusion.sampling.exactness import approximations, exactness_facts
from discrete_diffusion.sampling.model import Model
from discrete_diffusion.sampling.registry import build_sampler, check_sampler

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from discrete_diffusion.training.module import DiffusionModule

logger = logging.getLogger(__name__)

SAMPLE_STREAM, BOUND_STREAM, BEGIN_STREAM, TRIAL_STREAM = 2, 3, 4, 5
"""Random streams other than that of training: for samples, for the final bound, for the preparation
before the first step, and for the check of the backbone."""

_SEARCHED = 256
"""Number of training samples from which the samples to check the backbone are chosen."""


@dataclass(frozen=True)
class Run:
    """Parts of a training run that a config builds; the module holds the algorithm.

    ``shortened``: notes on measurements that were reduced to save time; ``num_tried``: number of
    samples in the check before training."""

    config: DictConfig
    data: Any
    module: DiffusionModule
    sampler: Any
    fingerprint: str
    shortened: list[str]
    num_tried: int

    @property
    def algorithm(self) -> Any:
        return self.module.algorithm

    @cached_property
    def report(self) -> Report:
        """Report that samples, measures and writes; created once."""
        return domain_of(self.config.data).report(self.data, "val", self.config)

    @cached_property
    def shard(self) -> Shard:
        """Shard of this process; all processes of the run must first request it together."""
        return distributed_shard()

    @property
    def model(self) -> Model:
        """Model with the current weights and the sampler, on the device of the weights."""
        device = next(self.algorithm.parameters()).device
        return Model(self.algorithm, self.sampler, device, shard=self.shard)

    def draw(self, num: int) -> Any:
        """Draw ``num`` samples with the current weights and fixed noise; processes share them."""
        return self.report.sample(self.model, num, self.config.seed, (SAMPLE_STREAM,))

    def batches(self, **options: Any) -> BatchStream:
        """Stream of training batches; ``options``: options of ``BatchStream``."""
        config = self.config
        return BatchStream(
            self.data, batch_size=config.data.batch_size, seed=config.seed, **options
        )

    def held_out(self, most: int | None = None, **ranks: int) -> SplitBatches:
        """Batches of a rank from the validation split, cut to ``most`` samples over all ranks."""
        config = self.config
        data = with_fewer(self.data, "val", most, config.seed)
        return SplitBatches(
            data, "val", batch_size=config.data.batch_size, seed=config.seed, **ranks
        )

    def validated(self, limit: float, **ranks: int) -> SplitBatches:
        """Batches of a validation: all, or as many samples as ``trainer.limit_val_batches`` allows.

        The samples are chosen at random, as the first batches hold only the smallest samples.
        """
        # a smaller number takes samples of all sizes
        every = self.held_out(**ranks)
        num = batches_of_epoch(len(every), limit)
        if not 0 < num < len(every):
            return every
        return self.held_out(num * self.config.data.batch_size * every.world_size, **ranks)

    def begin(self) -> None:
        """Call ``Algorithm.before_first_step`` with samples as a training step sees them."""
        seed, examples = self.config.seed, self.data.splits["train"]
        train = self.data.training_batch(examples, make_generator(seed, BEGIN_STREAM, 1))
        self.algorithm.before_first_step(train, make_generator(seed, BEGIN_STREAM))

    def fit(self, trainer: Trainer, resumed: ResumePoint | None) -> None:
        """Train a new run, or go on with an interrupted run."""
        # batches of this process
        ranks = {"rank": trainer.global_rank, "world_size": trainer.world_size}
        train = self.batches(**ranks, accumulate=trainer.accumulate_grad_batches)
        val = self.validated(trainer.limit_val_batches, **ranks)
        if trainer.limit_val_batches:  # they are limited already
            trainer.limit_val_batches = 1.0
        # an invalid state in the file fails at the first step
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
        """Measure the model of ``best.ckpt``: its bound on the validation split, and samples.

        Several processes share the work; the first returns the result, the others {}."""
        from discrete_diffusion.training.callbacks import whole_weights

        # the bound, samples, and other facts of the best weights
        config, device = self.config, trainer.strategy.root_device
        self.algorithm.to(device)
        with whole_weights(trainer), progress.task("final measurements"):
            step = self._take_best(trainer)
            bound = estimate_bound(
                self.algorithm,
                self.held_out(most=config.eval.num_held_out),
                quantity=self.module.bound,
                draws=config.eval.noise_samples,
                settings=MeasurementSettings((config.seed + BOUND_STREAM,), device, self.shard),
            )
            samples = self.draw(config.eval.num_samples)
            statistics = self.algorithm.statistics() | self.report.model_facts(
                self.model,
                config.eval.num_samples,
                draws=config.eval.noise_samples,
                seed=config.seed + BOUND_STREAM,
            )
        if not trainer.is_global_zero:
            return {}

        # files of the run, and the contents of metrics.json
        self.report.save(samples, folder)
        sampled = config.eval.num_samples > 0
        return {
            "algorithm": config.algo.name,
            "backbone": config.algo.backbone,
            "parameters": int(self.algorithm.num_parameters),
            "seed": config.seed,
            "steps": trainer.global_step,
            "step": step,
            "skipped_steps": self.module.skipped_steps.total,
            "data_fingerprint": self.fingerprint,
            **self.report.findings(bound, samples),
            **statistics,
            **(exactness_facts(approximations(self.sampler, self.algorithm)) if sampled else {}),
        }

    def _take_best(self, trainer: Trainer) -> int:
        """Load the weights of ``best.ckpt``, log what is measured, and return their step."""
        from discrete_diffusion.training.run_checkpoints import RunCheckpoints

        # another step may have been the best
        checkpoints, steps = trainer.checkpoint_callback, trainer.global_step
        best = checkpoints.best_step if isinstance(checkpoints, RunCheckpoints) else None
        if isinstance(checkpoints, RunCheckpoints) and best is not None and best != steps:
            read_contents(checkpoints.best).load_into(self.algorithm)
        if trainer.is_global_zero:
            settings, num = self.config.eval, len(self.data.splits["val"])
            held_out = counted(min(settings.num_held_out or num, num), "held-out sample")
            logger.info(
                "measuring best.ckpt, of step %s of %s: the NELBO of %s%s",
                *(f"{steps if best is None else best:,}", f"{steps:,}", held_out),
                f", then {counted(settings.num_samples, 'sample')}" * (settings.num_samples > 0),
            )
        return steps if best is None else best


def new_algorithm(config: DictConfig) -> Any:
    """Build the algorithm of a run, with random weights that ``config.seed`` decides."""
    torch.manual_seed(config.seed)
    algorithm: Any = build_algorithm(config)
    if algorithm.has_reward:
        algorithm.score = reward_of(config)
    return algorithm


def fit_and_try(algorithm: Any, data: Any, config: DictConfig) -> None:
    """Prepare an algorithm on the training split, and call its network with two samples."""
    algorithm.prepare(data.splits["train"].batch())
    some = data.splits["train"][:_SEARCHED]
    if len(some) == 0 or not config.get("preflight", True):
        return  # an empty split is refused where batches are made
    # the smallest and the largest of some samples
    sizes = some.real.sum(dim=1)
    pair = sizes.argsort(stable=True)[[0, -1]] if len(some) > 1 else slice(0, 1)
    batch = data.augment(some[pair], make_generator(config.seed, TRIAL_STREAM))
    try_backbone(algorithm, batch, causal=bool(config.algo.get("causal_attention")))


def build_run(config: DictConfig, *, on_gpu: bool) -> Run:
    """Build all parts but the trainer; cheap checks come before the data is read."""
    # checks that need no data
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if config.compile:
        check_compiler(torch.device("cuda" if on_gpu else "cpu"))
    algorithm = new_algorithm(config)
    sampler = build_sampler(config)
    check_sampler(sampler, algorithm)

    # the data, the prepared algorithm, and the amount of measuring
    data = build_data(config)
    fit_and_try(algorithm, data, config)
    work = Work.of(sizes_of(data), sampler, algorithm)
    config, shortened = with_measurements(
        config, num_train=len(data.splits["train"]), num_held_out=len(data.splits["val"]), work=work
    )
    fingerprint = data.fingerprint()

    # Lightning is slow to import, so it comes after all checks that may fail
    from discrete_diffusion.training.module import DiffusionModule

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


def train(
    config: DictConfig,
    folder: Path,
    *,
    devices: Mapping[str, Any],
    start: StartingWeights | None,
    signals: StopSignals,
    instantiate: Callable[..., Any],
) -> dict[str, Any]:
    """Train, evaluate and sample; everything is written into the folder.

    ``signals``: signals that end the run between two steps. Returns the contents of
    ``metrics.json`` in the first process. After a signal, raises ``Stop`` once the run can go on
    from a checkpoint."""
    config = complete_data(config)
    built = build_run(config, on_gpu=devices["accelerator"] in ("cuda", "gpu"))

    # an interrupted run, weights of another run, or a new run
    resumed = None
    if config.resume is not None:
        resumed = check_resumable(
            config.resume, built.algorithm, config=plain(config), data_fingerprint=built.fingerprint
        )
    else:
        if start is not None:
            start_from(start, built.algorithm, plain(config))
        elif built.algorithm.has_teacher:
            logger.warning(
                "%s without init.checkpoint=TEACHER learns from the data alone", config.algo.name
            )
        built.begin()
    from discrete_diffusion.training.run_checkpoints import RunCheckpoints
    from discrete_diffusion.training.trainer import build_trainer, finishing_loggers

    # the trainer; the first process writes config and log
    trainer = build_trainer(
        *(built.config, devices, folder, built.draw, built.report),
        instantiate=instantiate,
        signals=signals,
        resumed=resumed,
        num_tried=built.num_tried,
    )
    if trainer.is_global_zero:
        _write_config(built, trainer, folder, resumed)

    # ``Stop`` names the checkpoint to go on from
    with all_processes(trainer, config.threads), finishing_loggers(trainer):
        try:
            built.fit(trainer, resumed)
            metrics = built.final_metrics(trainer, folder)
        except Stop as stop:
            files = trainer.checkpoint_callback
            saved = files.last if isinstance(files, RunCheckpoints) and files.holds_run else None
            raise Stop(stop.number, saved, stop.where) from None
        except RuntimeError as error:  # torch has no type for a lost connection
            if trainer.world_size == 1 or "onnection" not in str(error):
                raise
            raise LostProcessError(
                "another process of this run has ended: was it killed, or out of memory? "
                f"{folder / 'checkpoints' / 'last.ckpt'} holds the run so far, see resume="
            ) from error
    # results
    if trainer.is_global_zero:
        write_metrics(folder, metrics)
        logger.info("%s", built.report.summary(metrics))
        logger.info("run folder: %s", folder)
    return finite_or_none(metrics)


def _write_config(built: Run, trainer: Trainer, folder: Path, resumed: ResumePoint | None) -> None:
    """Write ``config.yaml``, pass the config to the loggers, and log model and data."""
    config = built.config
    if resumed is not None:
        resumed.announce(plain(config), trainer, folder)
    # the config as completed, in the folder and in the loggers
    with atomic_write(folder / "config.yaml") as unfinished:
        OmegaConf.save(config, unfinished, resolve=True)
    for each in trainer.loggers:
        each.log_hyperparams(plain(config))
    # data, model, length of an epoch, reduced measurements
    logger.info("data: %s", built.data.summary())
    num = f"{built.algorithm.num_parameters:,}"
    trained = sum(p.numel() for p in built.algorithm.parameters() if p.requires_grad)
    share = f", {trained:,} of them trained" * (trained < built.algorithm.num_parameters)
    logger.info("%s with %s, %s parameters%s", config.algo.name, config.algo.backbone, num, share)
    if features := (config.get("model") or {}).get("features"):
        logger.info("model.features=[%s], of the graph revealed so far", ", ".join(features))
    _announce_steps(built, trainer)
    for line in built.shortened:
        logger.info("%s", line)


def _announce_steps(built: Run, trainer: Trainer) -> None:
    """Log how many samples a step takes, and how many steps an epoch has."""
    processes, accumulated = trainer.world_size, trainer.accumulate_grad_batches
    stream = built.batches(world_size=processes, accumulate=accumulated)
    asked, num = built.config.data.batch_size, len(stream.examples)
    if stream.batch_size < asked:
        logger.info("data.batch_size=%d, but every batch is all %d training samples", asked, num)

    # processes and batches whose gradients make a step
    parts_of_a_step = ""
    if processes * accumulated > 1:
        each = f", {accumulated} batches each" if accumulated > 1 else ""
        several = "processes" if processes > 1 else "process"
        parts_of_a_step = f"{processes} {several} of {stream.batch_size} samples{each}: "
    a_step = stream.batch_size * processes * accumulated

    # length of an epoch, which the config may limit
    batches = batches_of_epoch(len(stream), trainer.limit_train_batches)
    limited = f", by trainer.limit_train_batches={trainer.limit_train_batches}"
    logger.info(
        "%s%s samples a step; an epoch is %s%s, %.2f passes over all training samples",
        *(parts_of_a_step, f"{a_step:,}", counted(math.ceil(batches / accumulated), "step")),
        limited if batches < len(stream) else "",
        batches * stream.batch_size * processes / num,
    )

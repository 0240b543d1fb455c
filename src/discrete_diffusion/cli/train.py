"""``discrete-diffusion train``: from a config to a run folder."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.child_processes import all_processes
from discrete_diffusion.cli.compose import check_counts, plain
from discrete_diffusion.cli.devices import check_strategy, set_devices
from discrete_diffusion.cli.launch_environment import hush_other_ranks, is_first
from discrete_diffusion.cli.launched_signals import stop_signals
from discrete_diffusion.cli.resuming import announce, how_to_go_on, resume_point
from discrete_diffusion.models.registry import check_backbone_name
from discrete_diffusion.shards import LostProcessError
from discrete_diffusion.stopping import Stop, StopSignals

if TYPE_CHECKING:
    from lightning.pytorch import Trainer
    from torch import Tensor

    from discrete_diffusion.algorithms import Algorithm
    from discrete_diffusion.checkpoints import ResumePoint
    from discrete_diffusion.data import BatchStream, TokenDataset
    from discrete_diffusion.evaluation import SampleReport
    from discrete_diffusion.sampling import Sampler
    from discrete_diffusion.shards import Shard
    from discrete_diffusion.training import DiffusionModule

logger = logging.getLogger(__name__)

_SAMPLE_STREAM, _BOUND_STREAM = 2, 3


def run(config: DictConfig) -> None:
    """Train in the folder that Hydra made for this run.

    Ctrl-C and SIGTERM end it with exit status 130 or 143 and a line that says how to go on.
    """
    from hydra.core.hydra_config import HydraConfig

    folder = Path(HydraConfig.get().runtime.output_dir)
    hush_other_ranks()
    try:
        train(config, folder)
    except Stop as stop:
        if not is_first():  # only the first one's exit status tells how the run ended
            raise SystemExit(0) from None
        print(f"discrete-diffusion: {stop}; {how_to_go_on(stop, folder)}", file=sys.stderr)
        raise SystemExit(stop.exit_status) from None


def train(config: DictConfig, folder: Path) -> dict[str, Any]:
    """Train, evaluate and sample as ``config`` says; everything is written into ``folder``.

    Writes ``config.yaml``, ``checkpoints/{best,last}.{ckpt,safetensors}``, ``metrics.json`` and
    the samples: ``samples.jsonl`` and ``samples.png`` of bubble diagrams, ``samples.txt`` of text.
    Returns what ``metrics.json`` holds; in the first process, where there are several.
    Raises ``Stop`` on SIGINT or SIGTERM, as soon as the run can go on from a checkpoint.
    """
    check_values(config)
    with stop_signals() as signals:
        return _train(config, folder, signals)


def check_values(config: DictConfig) -> None:
    """``ValueError`` for an unknown backbone or a count that is none, before any slow import."""
    check_backbone_name(config.algo.backbone)
    check_strategy(config)
    check_counts(
        config,
        trainer__num_nodes=1,
        trainer__accumulate_grad_batches=1,
        seed=0,
        threads=1,
        data__batch_size=1,
        data__length=1,
        callbacks__num_samples=0,
        eval__num_samples=0,
        eval__bound_draws=1,
    )


def _train(config: DictConfig, folder: Path, signals: StopSignals) -> dict[str, Any]:
    from discrete_diffusion.cli.lightning_setup import build_trainer
    from discrete_diffusion.data import complete_data
    from discrete_diffusion.evaluation.json_values import finite, write_metrics
    from discrete_diffusion.training import RunCheckpoints

    set_devices(plain(config.trainer))  # refuses what there is not before data is read
    config = complete_data(config)
    parts = _build_parts(config)
    resumed = None
    if config.resume is not None:
        resumed = resume_point(config, parts.algorithm, parts.fingerprint)
    trainer = build_trainer(
        config, folder, parts.draw, parts.report, signals=signals, resumed=resumed
    )
    if trainer.is_global_zero:
        _begin(parts, trainer, folder, resumed)
    with all_processes(trainer, config.threads):
        try:
            parts.fit(trainer, resumed)
            metrics = parts.final_metrics(trainer, folder)
        except Stop as stop:
            kept = trainer.checkpoint_callback
            saved = kept.last if isinstance(kept, RunCheckpoints) and kept.holds_run else None
            raise Stop(stop.number, saved) from None
        except RuntimeError as error:
            if trainer.world_size == 1 or "onnection" not in str(error):  # torch has no type for it
                raise
            raise LostProcessError(
                "another process of this run has ended: was it killed, or out of memory? "
                f"{folder / 'checkpoints' / 'last.ckpt'} holds the run so far, see resume="
            ) from error
    if trainer.is_global_zero:
        write_metrics(folder, metrics)
        logger.info("%s", _summary(metrics))
        logger.info("run folder: %s", folder)
    return finite(metrics)


def _begin(parts: _Parts, trainer: Trainer, folder: Path, resumed: ResumePoint | None) -> None:
    """Write ``config.yaml`` and log what is about to be trained, and on what."""
    config = parts.config
    if resumed is not None:
        announce(resumed, config, trainer, folder)
    elif (earlier := folder / "checkpoints" / "last.ckpt").exists():
        logger.warning("replacing an earlier run; resume=%s would have gone on with it", earlier)
    folder.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(config, folder / "config.yaml", resolve=True)
    logger.info("data: %s", parts.data.summary())
    logger.info(
        "%s with %s, %s parameters", config.algo.name, config.algo.backbone, f"{parts.size:,}"
    )
    if trainer.world_size > 1:
        batch = config.data.batch_size * trainer.world_size * trainer.accumulate_grad_batches
        logger.info(
            "%d processes of data.batch_size=%d: %d samples a step",
            *(trainer.world_size, config.data.batch_size, batch),
        )


@dataclass(frozen=True)
class _Parts:
    """What a config builds; the module holds the algorithm, on whatever device it is."""

    config: DictConfig
    data: TokenDataset
    module: DiffusionModule
    sampler: Sampler
    report: SampleReport
    fingerprint: str

    @property
    def algorithm(self) -> Algorithm:
        return self.module.algorithm

    @property
    def size(self) -> int:
        return sum(p.numel() for p in self.algorithm.parameters())

    def stream(self, split: str, **ranks: Any) -> BatchStream:
        from discrete_diffusion.data import BatchStream

        config = self.config
        return BatchStream(
            self.data, split, batch_size=config.data.batch_size, seed=config.seed, **ranks
        )

    def fit(self, trainer: Trainer, resumed: ResumePoint | None) -> None:
        """Train, from where ``resumed`` says."""
        ranks = {"rank": trainer.global_rank, "world_size": trainer.world_size}
        train = self.stream("train", **ranks, accumulate=trainer.accumulate_grad_batches)
        if resumed is not None and resumed.stream is not None:
            train.load_state_dict(resumed.stream)  # Lightning forgets it after a whole epoch
        val = self.stream("val", **ranks, even=True)
        trainer.fit(self.module, train, val, ckpt_path=self.config.resume, weights_only=True)

    @cached_property
    def shard(self) -> Shard:
        """This process among those of the run; first asked for by all of them at once."""
        from discrete_diffusion.shards import distributed_shard

        return distributed_shard()

    def draw(self, num: int) -> Tensor:
        """The same ``num`` samples from the current weights every time: Int[num, L].

        Several processes share the work and all get the samples."""
        from discrete_diffusion.categorical import make_generator
        from discrete_diffusion.data import draw_sizes
        from discrete_diffusion.sampling import draw_samples

        seed = self.config.seed
        sizes = draw_sizes(self.data.size_counts(), num, make_generator(seed, _SAMPLE_STREAM, 0))
        device = self.algorithm.layout.support.device
        generator = make_generator(seed, _SAMPLE_STREAM, 1, device=device)
        real = self.data.real_positions(sizes)
        return draw_samples(
            self.sampler, self.algorithm, real, generator=generator, shard=self.shard
        ).tokens

    def final_metrics(self, trainer: Trainer, folder: Path) -> dict[str, Any]:
        """Averaged weights: the bound on the validation split, and fresh samples.

        Several processes share the work; the first one measures the samples and has the result.
        """
        from discrete_diffusion.evaluation import (
            blind_bounds,
            estimate_bound,
            text_bits,
            text_facts,
        )
        from discrete_diffusion.training import whole_weights

        config, device = self.config, trainer.strategy.root_device
        self.algorithm.to(device)
        with whole_weights(trainer):
            bound = estimate_bound(
                self.algorithm,
                self.stream("val"),
                quantity=self.data.bound,
                draws=config.eval.bound_draws,
                seed=config.seed + _BOUND_STREAM,
                device=device,
                shard=self.shard,
            )
            tokens = self.draw(config.eval.num_samples)
            statistics = self.algorithm.statistics()
        if not trainer.is_global_zero:
            return {}
        self.report.save(tokens, folder)
        return {
            "algorithm": config.algo.name,
            "backbone": config.algo.backbone,
            "parameters": self.size,
            "seed": config.seed,
            "steps": trainer.global_step,
            "data_fingerprint": self.fingerprint,
            **text_facts(self.data),
            **bound.as_dict(),
            **text_bits(self.data, "val", bound),
            **blind_bounds(self.data, "val"),
            "num_samples": config.eval.num_samples,
            **self.report.measure(tokens),
            **statistics,
        }


def _build_parts(config: DictConfig) -> _Parts:
    """Everything but the trainer; cheap checks come before the data is read."""
    import torch

    from discrete_diffusion.algorithms import build_algorithm
    from discrete_diffusion.checkpoints import checkpoint_info
    from discrete_diffusion.data import build_data
    from discrete_diffusion.evaluation import SampleReport
    from discrete_diffusion.models.compiling import check_compiler
    from discrete_diffusion.sampling import build_sampler
    from discrete_diffusion.training import DiffusionModule

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if config.compile:
        on_gpu = config.trainer.accelerator != "cpu" and torch.cuda.is_available()
        check_compiler(torch.device("cuda" if on_gpu else "cpu"))
    torch.manual_seed(config.seed)
    algorithm = build_algorithm(config)
    sampler = build_sampler(config)
    sampler.check(algorithm)
    data = build_data(config)
    algorithm.process.fit(data.splits["train"].x0, data.splits["train"].real)
    fingerprint = data.fingerprint()
    module = DiffusionModule(
        algorithm,
        bound=data.bound,
        seed=config.seed,
        checkpoint_info=checkpoint_info(
            plain(config), data.size_counts(), data_fingerprint=fingerprint
        ),
        compiled=config.compile,
        **plain(config.optim),
    )
    return _Parts(config, data, module, sampler, SampleReport(data), fingerprint)


def _summary(metrics: dict[str, Any]) -> str:
    """The last line of a run."""
    bound = next((k for k in metrics if k.startswith("nelbo_unordered")), None) or next(
        k for k in metrics if k.startswith("nelbo_")
    )
    error = metrics.get(f"{bound}_standard_error", metrics["nelbo_standard_error"])
    parts = [
        f"{bound} {metrics[bound]:.2f} ± {error:.2f} nats "
        f"(blind {metrics['nelbo_blind']:.2f}, untrained {metrics['nelbo_uniform']:.2f})"
    ]
    if (bits := metrics.get("bits_per_character")) is not None:
        parts.append(f"{bits:.3f} bits per character")
    shares = ("valid", "exactly_one_living_room", "transitive", "words_in_training")
    parts += [
        f"{name.replace('_', ' ')} {100 * metrics[name]:.1f} %"
        for name in shares
        if name in metrics
    ]
    return f"metrics: {', '.join(parts)}  [{metrics['num_samples']} samples]"

"""What a ``train`` config builds, and what a run does with it whatever the state of its data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.compose import plain
from discrete_diffusion.states import DIALOGUES, IMAGES, data_kind

if TYPE_CHECKING:
    from lightning.pytorch import Trainer
    from omegaconf import DictConfig

    from discrete_diffusion.checkpoints import ResumePoint
    from discrete_diffusion.data import BatchStream, SplitBatches
    from discrete_diffusion.evaluation import BoundEstimate
    from discrete_diffusion.shards import Shard
    from discrete_diffusion.training import DiffusionModule
    from discrete_diffusion.training.callbacks import Report

SAMPLE_STREAM, BOUND_STREAM = 2, 3
"""Keep the draws of samples and of the final bound apart from those of training."""


@dataclass(frozen=True)
class RunParts(ABC):
    """What a config builds; the module holds the algorithm, on whatever device it is."""

    config: DictConfig
    data: Any
    """The data set: of the class that the state has."""
    module: DiffusionModule
    sampler: Any
    """A sampler that fits the algorithm."""
    fingerprint: str

    @property
    def algorithm(self) -> Any:
        return self.module.algorithm

    @property
    def size(self) -> int:
        return sum(p.numel() for p in self.algorithm.parameters())

    @cached_property
    def report(self) -> Report:
        """What measures, draws and writes samples; made once."""
        return self.make_report()

    @cached_property
    def shard(self) -> Shard:
        """This process among those of the run; first asked for by all of them at once."""
        from discrete_diffusion.shards import distributed_shard

        return distributed_shard()

    @abstractmethod
    def make_report(self) -> Report:
        """What ``report`` is."""

    @abstractmethod
    def draw(self, num: int) -> Any:
        """The same ``num`` samples from the current weights every time, as the report takes them.

        Several processes share the work and all get the samples."""

    @abstractmethod
    def findings(self, bound: BoundEstimate, samples: Any) -> dict[str, Any]:
        """What ``metrics.json`` says of the bound and of the samples, in the first process."""

    def model_facts(self) -> dict[str, Any]:
        """What else ``metrics.json`` says of the model; every process asks for it, the first one
        uses it."""
        return {}

    @abstractmethod
    def summary(self, metrics: dict[str, Any]) -> str:
        """The last line of a run."""

    def batches(self, **options: Any) -> BatchStream:
        """What is trained on; options of ``BatchStream``."""
        from discrete_diffusion.data import BatchStream

        config = self.config
        return BatchStream(
            self.data, batch_size=config.data.batch_size, seed=config.seed, **options
        )

    def held_out(self, **options: Any) -> SplitBatches:
        """The validation split; options of ``SplitBatches``."""
        from discrete_diffusion.data import SplitBatches

        config = self.config
        return SplitBatches(
            self.data, "val", batch_size=config.data.batch_size, seed=config.seed, **options
        )

    def fit(self, trainer: Trainer, resumed: ResumePoint | None) -> None:
        """Train, from where ``resumed`` says."""
        ranks = {"rank": trainer.global_rank, "world_size": trainer.world_size}
        train = self.batches(**ranks, accumulate=trainer.accumulate_grad_batches)
        if resumed is not None and resumed.stream is not None:
            train.load_state_dict(resumed.stream)  # Lightning forgets it after a whole epoch
        val = self.held_out(**ranks, even=True)
        trainer.fit(self.module, train, val, ckpt_path=self.config.resume, weights_only=True)

    def final_metrics(self, trainer: Trainer, folder: Path) -> dict[str, Any]:
        """Averaged weights: the bound on the validation split, and fresh samples.

        Several processes share the work; the first one measures the samples and has the result.
        """
        from discrete_diffusion.evaluation import estimate_bound
        from discrete_diffusion.training import whole_weights

        config, device = self.config, trainer.strategy.root_device
        self.algorithm.to(device)
        with whole_weights(trainer):
            bound = estimate_bound(
                self.algorithm,
                self.held_out(),
                quantity=self.module.bound,
                draws=config.eval.bound_draws,
                seed=config.seed + BOUND_STREAM,
                device=device,
                shard=self.shard,
            )
            samples = self.draw(config.eval.num_samples)
            statistics = self.algorithm.statistics() | self.model_facts()
        if not trainer.is_global_zero:
            return {}
        self.report.save(samples, folder)
        return {
            "algorithm": config.algo.name,
            "backbone": config.algo.backbone,
            "parameters": self.size,
            "seed": config.seed,
            "steps": trainer.global_step,
            "skipped_steps": self.module.skipped_steps.total,
            "data_fingerprint": self.fingerprint,
            **self.findings(bound, samples),
            **statistics,
        }


def build_parts(config: DictConfig, *, on_gpu: bool) -> RunParts:
    """Everything but the trainer; cheap checks come before the data is read."""
    import torch

    from discrete_diffusion.algorithms import build_algorithm
    from discrete_diffusion.checkpoints import checkpoint_info
    from discrete_diffusion.cli.feature_parts import FeatureParts
    from discrete_diffusion.cli.field_parts import FieldParts
    from discrete_diffusion.cli.summary_parts import SummaryParts
    from discrete_diffusion.cli.token_parts import TokenParts
    from discrete_diffusion.data import build_data
    from discrete_diffusion.models.compiling import check_compiler
    from discrete_diffusion.sampling import build_sampler, check_sampler
    from discrete_diffusion.training import DiffusionModule

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if config.compile:
        check_compiler(torch.device("cuda" if on_gpu else "cpu"))
    torch.manual_seed(config.seed)
    algorithm = build_algorithm(config)
    sampler = build_sampler(config)
    check_sampler(sampler, algorithm)
    data = build_data(config)
    algorithm.fit(data.splits["train"].batch())
    fingerprint = data.fingerprint()
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
    kinds: dict[str, type[RunParts]] = {
        "diagrams": TokenParts,
        "text": TokenParts,
        "features": FeatureParts,
        "field": FieldParts,
        IMAGES: FieldParts,
        DIALOGUES: SummaryParts,
    }
    return kinds[data_kind(config.data)](config, data, module, sampler, fingerprint)

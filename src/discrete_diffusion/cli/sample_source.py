"""Where samples come from: a checkpoint, a sampler, a seed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omegaconf import DictConfig

if TYPE_CHECKING:
    from discrete_diffusion.checkpoints import Checkpoint
    from discrete_diffusion.data.bubble_diagrams import BubbleDiagram
    from discrete_diffusion.sampling import Sampler


@dataclass(frozen=True)
class DrawnSamples:
    """``network_calls``: per sample, mean; ``seconds``: to draw them all."""

    diagrams: list[BubbleDiagram]
    network_calls: float
    seconds: float


@dataclass(frozen=True)
class SampleSource:
    """A trained model with a sampler, on ``device``; see ``open_sample_source``."""

    path: str
    checkpoint: Checkpoint
    sampler: Sampler
    device: str
    steps: int | None
    batch_size: int

    def draw(self, num: int, seed: int, *, num_rooms: int | None = None) -> DrawnSamples:
        """``num`` diagrams, a function of ``seed``; sizes like those of the training data, or
        ``num_rooms``. Raises ``ValueError`` if the model was not trained on diagrams, or has
        diverged."""
        import torch

        from discrete_diffusion.categorical import make_generator
        from discrete_diffusion.data import draw_sizes
        from discrete_diffusion.data.bubble_diagrams import decode
        from discrete_diffusion.layout import VocabConfig
        from discrete_diffusion.sampling import draw_samples

        vocab = VocabConfig(n_max=self.n_max)
        if not all(weight.isfinite().all() for weight in self.checkpoint.algorithm.parameters()):
            raise ValueError(
                f"{self.path} cannot be sampled: its weights hold NaN or infinity, training has "
                "diverged; take an earlier checkpoint"
            )
        if num_rooms is None:
            sizes = draw_sizes(self.checkpoint.size_counts, num, make_generator(seed, 0))
        else:
            sizes = torch.full((num,), num_rooms)
        start = time.perf_counter()
        output = draw_samples(
            self.sampler,
            self.checkpoint.algorithm,
            vocab.real_positions(sizes),
            generator=make_generator(seed, 1, device=self.device),
            steps=self.steps,
            batch_size=self.batch_size,
        )
        seconds = time.perf_counter() - start
        diagrams = decode(output.tokens, vocab)
        return DrawnSamples(diagrams, float(output.nfe.double().mean()), seconds)

    @property
    def n_max(self) -> int:
        """Room slots of the model; ``ValueError`` if it has none."""
        n_max = self.checkpoint.config.data.get("n_max")
        if n_max is None:
            raise ValueError(f"{self.path} was not trained on diagrams")
        return int(n_max)


def open_sample_source(config: DictConfig) -> SampleSource:
    """From ``checkpoint``, ``ema``, ``sampling``, ``steps``, ``batch_size`` and ``threads``.

    CUDA if there is one. The sampler is built first: a bad value there costs no time.
    """
    import torch

    from discrete_diffusion.checkpoints import read_checkpoint
    from discrete_diffusion.sampling import build_sampler

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sampler = build_sampler(config)
    checkpoint = read_checkpoint(config.checkpoint, ema=config.ema, device=device)
    return SampleSource(
        path=str(config.checkpoint),
        checkpoint=checkpoint,
        sampler=sampler,
        device=device,
        steps=config.steps,
        batch_size=config.batch_size,
    )

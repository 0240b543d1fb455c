"""Text, by characters or bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains import register_domain
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.option import DATA, TIME_BINS
from discrete_diffusion.evaluation.report import Drawn, Report, Sampled

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.types import SampleOutput

NUM_SAMPLES = 64


@register_domain
class Text(Domain):
    """Windows of a text, one after the other."""

    name, title = "text", "text"
    data_sets = {"text": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path")
    growing = "samples.txt"
    quick = {"num_held_out": 100, "bound_draws": 1, "time_bins": 5}
    evaluate_options = (DATA, TIME_BINS)
    fixed_keys = ("tokens", "length", "characters", "vocab_size", "mask_id", "pad_id")

    def complete(self, data: DictConfig) -> None:
        from discrete_diffusion.domains.text.build import complete_text

        complete_text(data)

    def build(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.text.build import build_text

        return build_text(data)

    def test_data(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.text.build import build_test_text

        return build_test_text(data)

    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        from discrete_diffusion.domains.text.report import TextReport

        return TextReport(data, split)

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Drawn:
        """Texts; written as ``samples.txt``."""
        from discrete_diffusion.config.naming import counted
        from discrete_diffusion.domains.text.report import (
            SAMPLE_TEXTS,
            numbered_texts,
            write_texts,
        )
        from discrete_diffusion.domains.text.vocabulary import vocabulary_of
        from discrete_diffusion.evaluation.token_samples import draw_fresh

        vocabulary = vocabulary_of(trained.data_config)

        def numbered(rows: Tensor, output: SampleOutput) -> str:
            return numbered_texts(vocabulary.decode(output.x0), rows.tolist())

        with trained.sharing() as shard:
            num = NUM_SAMPLES if request.num_samples is None else request.num_samples
            drawn = draw_fresh(trained, trained.on(shard, numbered), num, request.seed)
        texts = vocabulary.decode(drawn.tokens)

        def write() -> Sampled:
            path = request.out / SAMPLE_TEXTS
            write_texts(path, texts)
            facts = {
                "num_samples": len(texts),
                "network_calls_per_sample": drawn.network_calls,
                "seconds": drawn.seconds,
            }
            return Sampled(
                facts, f"{counted(len(texts), 'sample')} in {drawn.seconds:.1f} s; {path}"
            )

        return Drawn(texts, write)

    def cell_measurement(self) -> CellMeasurement:
        from discrete_diffusion.domains.text.report import TextCells, TextReport

        return TextCells(TextReport)

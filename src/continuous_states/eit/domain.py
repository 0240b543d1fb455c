"""Electrical impedance tomography: images of conductivity, each with its boundary map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion import layout
from discrete_diffusion.config import Later
from discrete_diffusion.domains import DATA, Domain, Option, data_state, register_domain

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from continuous_states.eit import build, comparing, evaluation, image_report, sampling
    from discrete_diffusion.data import Dataset
    from discrete_diffusion.domains import CellMeasurement
    from discrete_diffusion.evaluation import (
        EvaluateRequest,
        Evaluation,
        Report,
        SampleRequest,
        Samples,
        TrainedModel,
    )
else:
    build = Later("continuous_states.eit.build")
    comparing = Later("continuous_states.eit.comparing")
    evaluation = Later("continuous_states.eit.evaluation")
    image_report = Later("continuous_states.eit.image_report")
    sampling = Later("continuous_states.eit.sampling")


_OPTIONS = (
    DATA,
    Option("draws", "samples given every map, their mean is scored; null is 8", least=1),
)


@register_domain
class EIT(Domain):
    """Images to be found from their Dirichlet-to-Neumann maps, as numbers or as ids of levels."""

    name, title = "eit", "images from maps"
    data_sets = {"eit": "field", "eit-levels": "tokens"}
    data_files = ("path",)
    fixed_keys = (
        *("size", "num_boundary", "channels", "field_size", "length", "vocab_size", "mask_id"),
    )
    options = {
        "sample": _OPTIONS,
        "evaluate": _OPTIONS,
        "train": (
            Option(
                "draws", "drawn from every held-out map, their mean is scored", default=8, least=1
            ),
        ),
    }
    token_steps = 20
    sample_files = ("samples.npz",)
    quick = {"num_held_out": 100, "num_samples": 20, "draws": 2, "bound_draws": 1}

    def conditions(self, data: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
        return {"dtn": ()}

    def complete(self, data: DictConfig) -> None:
        build.complete_eit(data, data_state(data))

    def vocabulary(self, data: Mapping[str, Any]) -> layout.Vocabulary:
        if data_state(data) == "field":
            return layout.Numbers({key: data[key] for key in ("field_size", "channels")})
        return super().vocabulary(data)

    def build(self, data: DictConfig) -> Dataset:
        return build.build_eit(data, data_state(data))

    def test_data(self, data: DictConfig) -> Dataset:
        return build.build_test_images(data, data_state(data))

    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        return image_report.ImageReport(data, split, draws=config.eval.draws)

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        return sampling.sample_images(request, trained)

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel) -> Evaluation:
        return evaluation.evaluate_images(request, trained)

    def cell_measurement(self) -> CellMeasurement:
        return comparing.ImageCells()

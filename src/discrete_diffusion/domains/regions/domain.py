"""Regions of a genome: rows of numbers, some of which are hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains import register_domain
from discrete_diffusion.domains.domain import Domain, Evaluation, Report, Sampled

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data import Dataset
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout import TokenLayout


@register_domain
class Regions(Domain):
    """Windows of neighbouring regions, a row of motif scores each."""

    name, title = "regions", "features"
    data_sets = {"regions": "features"}
    settings = frozenset({"completions", "given", "mask_rate", "seeds"})
    of_given = {"completions": "num_samples"}
    not_with_given = {
        "num_samples": "say how many fillings of each window you want: completions={}",
        "mask_rate": "the file says which rows are to be filled; leave it out",
    }

    def complete(self, data: DictConfig) -> None:
        from discrete_diffusion.domains.regions.build import complete_regions

        complete_regions(data)

    def layout(self, data: Mapping[str, Any]) -> TokenLayout:
        from discrete_diffusion.layout import row_layout

        return row_layout(data["rows"])

    def build(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.regions.build import build_regions

        return build_regions(data)

    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        from discrete_diffusion.domains.regions.row_report import RowReport

        return RowReport(data, split, config.eval.mask_rate, config.seed)

    def sample(self, config: DictConfig, trained: TrainedModel) -> Sampled:
        from discrete_diffusion.domains.regions.sampling import sample_rows

        return sample_rows(config, trained)

    def evaluate(self, config: DictConfig, trained: TrainedModel) -> Evaluation:
        from discrete_diffusion.domains.regions.evaluation import evaluate_rows

        return evaluate_rows(config, trained)

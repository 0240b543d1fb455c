"""Random graphs of rooms under the name of the default data, while their package is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from discrete_diffusion.domains import register_domain
from discrete_diffusion.domains.graphs.domain import Graphs
from discrete_diffusion.layout.room_tables import RELATIONS, ROOM_TYPES

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.layout.vocab_config import VocabConfig

NAMES = {"node_types": [*ROOM_TYPES], "edge_types": [*RELATIONS]}
OmegaConf.register_new_resolver("toy_plans.names", NAMES.__getitem__, replace=True)


@register_domain
class ToyPlans(Graphs):
    """Graphs that read no files."""

    name, title = "bubble_diagrams", "diagrams"
    data_sets = {"bubble_diagrams": "tokens"}
    data_files = ()
    file_kinds = ()
    fixed_keys = ("max_nodes", "node_order")
    graph_features = ()
    group_titles = {"node": "rooms", "edge": "relations"}

    def complete(self, data: DictConfig) -> None:
        """Nothing is left open."""

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        if data.get("max_nodes") is None:
            raise ValueError(
                "data.max_nodes is not set; give the most rooms of a diagram, such as 8"
            )
        from discrete_diffusion.layout.vocab_config import VocabConfig

        return VocabConfig(data["max_nodes"])

    def conditions(self, data: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
        return {"condition": (1,) * len(data["condition_on"])} if data.get("condition_on") else {}

    def build(self, data: DictConfig) -> Dataset:
        from toy_plans.dataset import build_dataset

        return build_dataset(data, self.vocabulary(data))

"""Features of the graph that the tokens of a sample reveal already, for denoisers of graphs."""

from discrete_diffusion.models.graph_features.features import FEATURES
from discrete_diffusion.models.graph_features.module import (
    GraphFeatures,
    NoGraphFeatures,
    Revealed,
    build_head,
    graph_features,
)

__all__ = [
    "FEATURES",
    "GraphFeatures",
    "NoGraphFeatures",
    "Revealed",
    "build_head",
    "graph_features",
]

"""How good samples are."""

from discrete_diffusion.metrics.bubble_diagrams import (
    SpatialTransitivity,
    Validity,
    bubble_metrics,
    edges_per_diagram,
    inside_validity,
    node_tv,
    relation_tv,
    room_count_w1,
    spatial_transitivity,
    structure_metrics,
    validity,
)

__all__ = [
    "SpatialTransitivity",
    "Validity",
    "bubble_metrics",
    "edges_per_diagram",
    "inside_validity",
    "node_tv",
    "relation_tv",
    "room_count_w1",
    "spatial_transitivity",
    "structure_metrics",
    "validity",
]

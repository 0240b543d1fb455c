"""How good samples are."""

from discrete_diffusion.metrics.bubble_diagrams import DISTANCES, METRIC_MEANINGS, bubble_metrics
from discrete_diffusion.metrics.coverage import (
    ModeCoverage,
    distinct_multisets,
    diversity,
    mode_coverage,
    novelty,
)
from discrete_diffusion.metrics.diagram_set import DiagramSet
from discrete_diffusion.metrics.distances import (
    ConditionalDistance,
    HistogramDistance,
    conditional_pair_distance,
    conditional_relation_distance,
    degree_distance,
    node_distance,
    relation_distance,
    room_count_w1,
)
from discrete_diffusion.metrics.field_baselines import ImageBaseline, MeanImage, Ones, Ridge
from discrete_diffusion.metrics.fields import FieldScores, score_images
from discrete_diffusion.metrics.floors import MetricFloors, metric_floors
from discrete_diffusion.metrics.intervals import Interval, confidence_interval
from discrete_diffusion.metrics.mmd import GraphMMD, graph_mmd
from discrete_diffusion.metrics.row_baselines import (
    ColumnMean,
    MaskedWindows,
    NeighbourMean,
    ProgrammeMean,
    RowBaseline,
    WindowMean,
)
from discrete_diffusion.metrics.rows import RowScores, score_rows
from discrete_diffusion.metrics.structure import (
    SpatialTransitivity,
    Validity,
    edge_presence,
    edges_per_diagram,
    inside_validity,
    spatial_transitivity,
    stratified_metrics,
    structure_metrics,
    validity,
)
from discrete_diffusion.metrics.summaries import SummaryScores, most_frequent, score_summaries

__all__ = [
    "DISTANCES",
    "METRIC_MEANINGS",
    "ColumnMean",
    "ConditionalDistance",
    "DiagramSet",
    "FieldScores",
    "GraphMMD",
    "HistogramDistance",
    "ImageBaseline",
    "Interval",
    "MaskedWindows",
    "MeanImage",
    "MetricFloors",
    "ModeCoverage",
    "NeighbourMean",
    "Ones",
    "ProgrammeMean",
    "Ridge",
    "RowBaseline",
    "RowScores",
    "SpatialTransitivity",
    "SummaryScores",
    "Validity",
    "WindowMean",
    "bubble_metrics",
    "conditional_pair_distance",
    "conditional_relation_distance",
    "confidence_interval",
    "degree_distance",
    "distinct_multisets",
    "diversity",
    "edge_presence",
    "edges_per_diagram",
    "graph_mmd",
    "inside_validity",
    "metric_floors",
    "mode_coverage",
    "most_frequent",
    "node_distance",
    "novelty",
    "relation_distance",
    "room_count_w1",
    "score_images",
    "score_rows",
    "score_summaries",
    "spatial_transitivity",
    "stratified_metrics",
    "structure_metrics",
    "validity",
]

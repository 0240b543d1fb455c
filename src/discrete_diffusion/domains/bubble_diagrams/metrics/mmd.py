"""Maximum mean discrepancy of graph descriptors: degrees, clustering, spectrum.

Room types and kinds of relation are left out; only who is related to whom counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.kernel import squared_mmd


@dataclass(frozen=True)
class GraphMMD:
    """MMD^2 per descriptor, unbiased and clipped at 0; Gaussian kernels of fixed bandwidth.

    ``degree``: shares of rooms per degree, bandwidth 0.27. ``clustering``: shares of rooms per
    tenth of the clustering coefficient, 0.27. ``spectrum``: ascending eigenvalues of the normalised
    Laplacian, padded with zeros, 1.2.
    """

    degree: float
    clustering: float
    spectrum: float


def graph_mmd(samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]) -> GraphMMD:
    """MMD^2 between two sets of diagrams; see ``descriptors`` and ``kernel.squared_mmd``."""
    drawn, real = DiagramSet.of(samples), DiagramSet.of(reference)
    return GraphMMD(
        degree=squared_mmd(drawn.degree_points, real.degree_points),
        clustering=squared_mmd(drawn.clustering_points, real.clustering_points),
        spectrum=squared_mmd(drawn.spectrum_points, real.spectrum_points),
    )

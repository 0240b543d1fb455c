"""``DiagramSet``: diagrams with what the metrics ask of them, each computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.descriptors import (
    clustering_shares,
    degree_shares,
    laplacian_spectrum,
)
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_arrays import DiagramArrays, Ints
from discrete_diffusion.domains.bubble_diagrams.metrics.histograms import (
    degree_histogram,
    pair_histogram,
)
from discrete_diffusion.domains.bubble_diagrams.metrics.identity import (
    Keys,
    canonical_keys,
    row_keys,
)
from discrete_diffusion.domains.bubble_diagrams.metrics.kernel import KernelPoints
from discrete_diffusion.domains.bubble_diagrams.metrics.soundness import (
    Flags,
    is_acyclic,
    is_connected,
    is_inside_valid,
)
from discrete_diffusion.rooms import RELATION_X_ORDER, RELATION_Y_ORDER, ROOM_TYPES

Floats = NDArray[np.float64]

DEGREE_BANDWIDTH = 0.27
CLUSTERING_BANDWIDTH = 0.27
SPECTRUM_BANDWIDTH = 1.2
"""Bandwidths of the Gaussian kernels on the three graph descriptors, the same for any sets."""


class DiagramSet(Sequence[BubbleDiagram]):
    """A sequence of diagrams that remembers what was measured of it.

    Every metric takes any sequence of diagrams. Handing a reference over as a ``DiagramSet`` saves
    measuring it again for the next samples:

        reference = DiagramSet(held_out)
        scores = [bubble_metrics(samples, reference) for samples in runs]

    Properties are computed when they are first read. Those with one row per diagram are handed on
    by ``select``, so subsets of a measured set cost little.

    Raises ``ValueError`` without a diagram: no share or histogram is defined then.
    Axes: ``M`` diagrams, ``n`` the largest room count.
    """

    _PER_DIAGRAM = (
        "connected",
        "horizontally_transitive",
        "vertically_transitive",
        "inside_valid",
        "room_counts",
        "canonical_keys",
        "multiset_keys",
        "degree_shares",
        "clustering_shares",
        "spectrum",
    )

    def __init__(self, diagrams: Sequence[BubbleDiagram]) -> None:
        self._diagrams = list(diagrams)
        self.arrays = DiagramArrays.pack(self._diagrams)

    @classmethod
    def of(cls, diagrams: Sequence[BubbleDiagram]) -> DiagramSet:
        """The diagrams as a set; a set is returned as it is."""
        return diagrams if isinstance(diagrams, DiagramSet) else cls(diagrams)

    def __len__(self) -> int:
        return len(self._diagrams)

    @overload
    def __getitem__(self, index: int) -> BubbleDiagram: ...
    @overload
    def __getitem__(self, index: slice) -> DiagramSet: ...
    def __getitem__(self, index: int | slice) -> BubbleDiagram | DiagramSet:
        if isinstance(index, slice):
            return self.select(np.arange(len(self))[index])
        return self._diagrams[index]

    def select(self, rows: Ints) -> DiagramSet:
        """The diagrams ``rows``: Int[K], K >= 1, with what is already known of them."""
        if len(rows) == 0:
            raise ValueError("no diagrams to measure: metrics need at least one")
        chosen = object.__new__(DiagramSet)
        chosen._diagrams = [self._diagrams[row] for row in rows.tolist()]
        chosen.arrays = self.arrays.select(rows)
        for name in self._PER_DIAGRAM:
            if name in self.__dict__:
                chosen.__dict__[name] = self.__dict__[name][rows]
        return chosen

    def prepare(self) -> DiagramSet:
        """Compute everything that ``select`` hands on; returns the set itself."""
        for name in self._PER_DIAGRAM:
            getattr(self, name)
        return self

    @cached_property
    def connected(self) -> Flags:
        """Bool[M]: any room can be reached from any other over listed relations."""
        return is_connected(self.arrays)

    @cached_property
    def horizontally_transitive(self) -> Flags:
        """Bool[M]: left and right do not contradict each other."""
        return is_acyclic(self.arrays, RELATION_X_ORDER)

    @cached_property
    def vertically_transitive(self) -> Flags:
        """Bool[M]: above and below do not contradict each other."""
        return is_acyclic(self.arrays, RELATION_Y_ORDER)

    @cached_property
    def inside_valid(self) -> Flags:
        """Bool[M]: no room lies inside a room of a forbidden type."""
        return is_inside_valid(self.arrays)

    @cached_property
    def room_counts(self) -> Ints:
        """Int[M, 13]: rooms of each type."""
        num_types = len(ROOM_TYPES)
        cell = self.arrays.owner * num_types + self.arrays.rooms
        return np.bincount(cell, minlength=len(self) * num_types).reshape(-1, num_types)

    @cached_property
    def canonical_keys(self) -> Keys:
        """Bytes[M]: equal iff two diagrams are equal up to relabelling."""
        return canonical_keys(self._diagrams)

    @cached_property
    def multiset_keys(self) -> Keys:
        """Bytes[M]: equal iff two diagrams have the same rooms, relations left out."""
        return row_keys(self.room_counts)

    @cached_property
    def degree_shares(self) -> Floats:
        """Float[M, n]: see ``descriptors.degree_shares``."""
        return degree_shares(self.arrays)

    @cached_property
    def clustering_shares(self) -> Floats:
        """Float[M, 10]: see ``descriptors.clustering_shares``."""
        return clustering_shares(self.arrays)

    @cached_property
    def spectrum(self) -> Floats:
        """Float[M, n]: see ``descriptors.laplacian_spectrum``."""
        return laplacian_spectrum(self.arrays)

    @cached_property
    def multisets(self) -> Counter[bytes]:
        """How many diagrams have each multiset of room types."""
        return Counter(self.multiset_keys.tolist())

    @cached_property
    def canonical_key_set(self) -> frozenset[bytes]:
        """The distinct diagrams, up to relabelling."""
        return frozenset(self.canonical_keys.tolist())

    @cached_property
    def pair_histogram(self) -> Floats:
        """Float[13, 13, 11]: see ``histograms.pair_histogram``."""
        return pair_histogram(self.arrays, self.room_counts)

    @cached_property
    def degree_histogram(self) -> Floats:
        """Float[13, n]: see ``histograms.degree_histogram``."""
        return degree_histogram(self.arrays)

    @cached_property
    def degree_points(self) -> KernelPoints:
        return KernelPoints.of(self.degree_shares, DEGREE_BANDWIDTH)

    @cached_property
    def clustering_points(self) -> KernelPoints:
        return KernelPoints.of(self.clustering_shares, CLUSTERING_BANDWIDTH)

    @cached_property
    def spectrum_points(self) -> KernelPoints:
        return KernelPoints.of(self.spectrum, SPECTRUM_BANDWIDTH)

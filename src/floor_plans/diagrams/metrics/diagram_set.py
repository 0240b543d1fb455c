"""``DiagramSet``: diagrams with cached quantities for the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discrete_diffusion.data import canonical_orders, relabel
from discrete_diffusion.layout import RELATION_X_ORDER, RELATION_Y_ORDER
from floor_plans.diagrams import geometry
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import Flags, Floats, Ints
from floor_plans.diagrams.tokens import encode
from floor_plans.diagrams.vocabulary import ADJACENCY, DIRECTIONS, PlanVocabulary

_CHUNK = 1 << 22  # most kernel values in one block
_DECIMALS = 13  # decimals to which equal vectors agree; eigenvalues have rounding noise


@dataclass(frozen=True)
class KernelPoints:
    """Distinct vectors of a set, with counts, for a kernel k(x, y) = exp(-|x - y|^2 / (2 s^2)).

    ``points``: Float[U, K]. ``counts``: number of copies of each, Float[U]. ``bandwidth``: s.

    Deviation: published evaluations often take the bandwidth from medians of the compared sets, so
    that their values are not comparable; here it is fixed.
    """

    points: Floats
    counts: Floats
    bandwidth: float

    @classmethod
    def of(cls, vectors: Floats, bandwidth: float) -> KernelPoints:
        """Build the set of ``vectors`` Float[M, K]."""
        points, counts = np.unique(np.round(vectors, _DECIMALS), axis=0, return_counts=True)
        return cls(points, counts.astype(np.float64), bandwidth)

    @property
    def size(self) -> float:
        """Number M of vectors, counted with repeats."""
        return float(self.counts.sum())

    def total(self, other: KernelPoints) -> float:
        """Sum of k(x, y) over all x of this set and y of the other."""
        # shorter vectors are padded with zeros, as vectors of smaller diagrams in one set are
        width = max(self.points.shape[1], other.points.shape[1])
        ours, theirs = (
            np.pad(points, ((0, 0), (0, width - points.shape[1])))
            for points in (self.points, other.points)
        )
        step = max(1, _CHUNK // len(theirs))
        from scipy.spatial.distance import cdist  # slow, and few runs compare sets

        # sum in blocks of at most _CHUNK kernel values
        total = 0.0
        for start in range(0, len(ours), step):
            squared = cdist(ours[start : start + step], theirs, "sqeuclidean")
            similarity = np.exp(squared / (-2 * self.bandwidth**2))
            total += float(self.counts[start : start + step] @ similarity @ other.counts)
        return total

    @cached_property
    def mean_within(self) -> float:
        """Mean of k(x, x') over pairs of different members; 1 for a single member."""
        size = self.size
        return 1.0 if size == 1 else (self.total(self) - size) / (size * (size - 1))


def squared_mmd(samples: KernelPoints, reference: KernelPoints) -> float:
    """Unbiased estimate of MMD^2, clipped at 0, arXiv 0805.2368, eq. 3 in its unbiased form:

    mean k(x, x') over x != x' + mean k(y, y') over y != y' - 2 mean k(x, y). The mean over a set of
    one member is k(x, x) = 1."""
    between = samples.total(reference) / (samples.size * reference.size)
    return max(0.0, samples.mean_within + reference.mean_within - 2 * between)


Diagrams = Sequence[BubbleDiagram]
Keys = NDArray[np.object_]

CLUSTERING_BINS = 10


class DiagramSet(Sequence[BubbleDiagram]):
    """A sequence of diagrams that caches its measurements.

    Every metric takes any sequence of diagrams. A reference given as a ``DiagramSet`` is measured
    only once for several sets of samples:

        reference = DiagramSet(held_out)
        scores = [bubble_metrics(samples, reference) for samples in runs]

    Properties are computed when first read. ``select`` keeps properties with one row per diagram,
    so subsets of a measured set are cheap. Only ``rooms``, ``relations``, ``related`` and
    ``degree`` depend on the order of rooms.

    ``vocabulary``: vocabulary of all diagrams; by default the first that has all their rooms and
    relations. Codes below are its ids: room types and relations count from 0, "no-edge" is last.

    Raises ``ValueError`` for an empty sequence, and for diagrams of several vocabularies.
    Axes: ``M`` diagrams, ``S`` slots for rooms, ``n`` the largest room count, ``T`` room types,
    ``R`` relations.
    """

    _PER_DIAGRAM = (
        *("tokens", "num_rooms", "rooms", "relations", "related", "degree", "num_relations"),
        *("connected", "horizontally_transitive", "vertically_transitive", "inside_valid"),
        "room_counts",
        *("canonical_orders", "canonical_keys", "multiset_keys"),
        *("degree_shares", "clustering_shares", "spectrum"),
    )
    _OF_DIRECTIONS = ("horizontally_transitive", "vertically_transitive", "inside_valid")
    """Properties that are defined only for relations with directions."""

    def __init__(self, diagrams: Diagrams, vocabulary: PlanVocabulary | None = None) -> None:
        self._diagrams = list(diagrams)
        self._refuse_empty()
        # one plan without directions makes the set one of adjacency
        if vocabulary is None:
            without = any(not d.vocabulary.has_directions for d in self._diagrams)
            vocabulary = ADJACENCY if without else DIRECTIONS
        self.vocabulary = vocabulary
        self._vocab = vocabulary.graph(max(d.num_rooms for d in self._diagrams))
        encoded = encode(self._diagrams, self._vocab)
        self.tokens, self.num_rooms = encoded.x0, encoded.num_nodes.numpy()

    @classmethod
    def of(cls, diagrams: Diagrams, vocabulary: PlanVocabulary | None = None) -> DiagramSet:
        """Convert diagrams to a set; a set with the given vocabulary is returned unchanged."""
        if isinstance(diagrams, DiagramSet) and vocabulary in (None, diagrams.vocabulary):
            return diagrams
        return cls(diagrams, vocabulary)

    def _refuse_empty(self) -> None:
        if not self._diagrams:
            raise ValueError("no diagrams to measure: metrics need at least one")

    def __len__(self) -> int:
        return len(self._diagrams)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.select(np.arange(len(self))[index])
        return self._diagrams[index]

    def select(self, rows: Ints) -> DiagramSet:
        """Return the diagrams ``rows``, Int[K] with K >= 1, with their cached properties."""
        chosen = object.__new__(DiagramSet)
        chosen._diagrams = [self._diagrams[row] for row in rows.tolist()]
        chosen._refuse_empty()
        chosen.vocabulary, chosen._vocab = self.vocabulary, self._vocab
        for name in self._PER_DIAGRAM:
            if name in self.__dict__:
                chosen.__dict__[name] = self.__dict__[name][rows]
        return chosen

    def prepare(self) -> DiagramSet:
        """Compute all properties that ``select`` keeps, and return the set itself."""
        for name in self._PER_DIAGRAM:
            if self.vocabulary.has_directions or name not in self._OF_DIRECTIONS:
                getattr(self, name)
        return self

    # -- one row per diagram

    @cached_property
    def rooms(self) -> Ints:
        """Int[M, S]: type codes, PAD in unused slots."""
        return self.tokens[:, : self._vocab.n_max].numpy()

    @cached_property
    def relations(self) -> Ints:
        """Int[M, S, S]: code of the relation of rooms i < j, "no-edge" everywhere else."""
        vocab = self._vocab
        codes = self.tokens[:, vocab.n_max :].numpy() - vocab.edge_offset
        relations = np.full((len(self), vocab.n_max, vocab.n_max), vocab.no_edge)
        i, j = np.triu_indices(vocab.n_max, k=1)
        relations[:, i, j] = np.where(codes < 0, vocab.no_edge, codes)  # PAD lies below 0
        return relations

    @cached_property
    def related(self) -> Flags:
        """Bool[M, S, S], symmetric: True for rooms with any relation."""
        return geometry.neighbours(self.relations, self._vocab.no_edge)

    @cached_property
    def degree(self) -> Ints:
        """Int[M, S]: number of related rooms of each room."""
        return self.related.sum(axis=2)

    @cached_property
    def num_relations(self) -> Ints:
        """Int[M]: number of listed relations of each diagram."""
        return self.degree.sum(axis=1) // 2

    @cached_property
    def connected(self) -> Flags:
        """Bool[M]: every room can be reached from every other over listed relations."""
        return geometry.is_connected(self.related, self.num_rooms)

    @cached_property
    def horizontally_transitive(self) -> Flags:
        """Bool[M]: left and right do not contradict each other."""
        return geometry.is_acyclic(self.relations, RELATION_X_ORDER)

    @cached_property
    def vertically_transitive(self) -> Flags:
        """Bool[M]: above and below do not contradict each other."""
        return geometry.is_acyclic(self.relations, RELATION_Y_ORDER)

    @cached_property
    def inside_valid(self) -> Flags:
        """Bool[M]: no room lies inside a room of a forbidden type."""
        return geometry.is_inside_valid(self.rooms, self.relations)

    @cached_property
    def room_counts(self) -> Ints:
        """Int[M, T]: number of rooms of each type."""
        return (self.rooms[:, :, None] == np.arange(self._vocab.num_node_types)).sum(axis=1)

    @cached_property
    def canonical_orders(self) -> Ints:
        """Int[M, S]: orders of rooms, first n entries, that give equal diagrams the same form."""
        num_rooms = self.tokens.new_tensor(self.num_rooms)
        return canonical_orders(self.tokens, num_rooms, self._vocab).orders.numpy()

    @cached_property
    def canonical_keys(self) -> Keys:
        """Bytes[M]: keys that two diagrams share iff they are equal up to relabelling."""
        num_rooms = self.tokens.new_tensor(self.num_rooms)
        orders = torch.from_numpy(self.canonical_orders)
        tokens = relabel(self.tokens, num_rooms, orders, self._vocab).numpy().astype(np.uint8)
        return _keys([row[row != self._vocab.pad_id] for row in tokens])

    @cached_property
    def multiset_keys(self) -> Keys:
        """Bytes[M]: keys that two diagrams share iff they have the same multiset of room types."""
        return _keys(self.room_counts)

    @cached_property
    def degree_shares(self) -> Floats:
        """Float[M, n]: share of a diagram's rooms with degree 0, 1, ..., n - 1."""
        return self._room_shares(self.degree, int(self.num_rooms.max()))

    @cached_property
    def clustering_shares(self) -> Floats:
        """Float[M, 10]: histogram of the clustering coefficients of a diagram's rooms, as shares.
        The coefficient of a room with d neighbours and T related pairs among them is 2T / (d (d -
        1)), 0 for d < 2. Bin k holds [k/10, (k + 1)/10), the last one also 1; bins are computed in
        integers, so that 3/10 falls into bin 3."""
        adjacency = self.related.astype(np.float64)
        twice_triangles = ((adjacency @ adjacency) * adjacency).sum(axis=2).round().astype(np.int64)
        pairs = np.maximum(self.degree * (self.degree - 1), 1)
        bins = np.minimum(CLUSTERING_BINS * twice_triangles // pairs, CLUSTERING_BINS - 1)
        return self._room_shares(bins, CLUSTERING_BINS)

    @cached_property
    def spectrum(self) -> Floats:
        """Float[M, n]: ascending eigenvalues of I - D^-1/2 A D^-1/2, then zeros in unused slots.
        They lie in 0..2. The row of a room without neighbours is 0, as in networkx."""
        adjacency = self.related.astype(np.float64)
        scale = np.where(self.degree > 0, 1 / np.sqrt(np.maximum(self.degree, 1)), 0.0)
        laplacian = -scale[:, :, None] * adjacency * scale[:, None, :]
        diagonal = np.arange(adjacency.shape[1])
        laplacian[:, diagonal, diagonal] = self.degree > 0
        spectrum = np.zeros((len(self), int(self.num_rooms.max())))
        for n in np.unique(self.num_rooms).tolist():  # padded rows would add eigenvalues 0 in front
            rows = np.flatnonzero(self.num_rooms == n)
            spectrum[rows, :n] = np.linalg.eigvalsh(laplacian[rows, :n, :n])
        return spectrum

    def _room_shares(self, values: Ints, num_values: int) -> Floats:
        """Float[M, K]: shares of rooms with each value 0..K - 1 of ``values`` Int[M, S]."""
        values = np.where(self.rooms == self._vocab.pad_id, -1, values)
        counts = (values[:, :, None] == np.arange(num_values)).sum(axis=1)
        return counts / self.num_rooms[:, None]

    # -- the set as a whole

    @cached_property
    def multisets(self) -> Counter[bytes]:
        """Number of diagrams with each multiset of room types."""
        return Counter(self.multiset_keys.tolist())

    @cached_property
    def canonical_key_set(self) -> frozenset[bytes]:
        """Keys of the distinct diagrams, up to relabelling."""
        return frozenset(self.canonical_keys.tolist())

    @cached_property
    def pair_histogram(self) -> Floats:
        """Float[T, T, R + 1]: number of pairs of rooms by their types and relation. Entry (a, b, r)
        with a <= b counts pairs of rooms of types a and b in one diagram with relation r, read from
        the room of type a; the last entry, "no-edge", counts unrelated pairs. A pair of equal types
        counts half from either room. Entries with a > b are 0."""
        num_types, no_edge = self._vocab.num_node_types, self._vocab.no_edge
        # related pairs, read from the lower type
        diagram, i, j = (self.relations != no_edge).nonzero()
        source, target = self.rooms[diagram, i], self.rooms[diagram, j]
        relation = self.relations[diagram, i, j]
        flip_y = np.array(self._vocab.edge_inverse)[relation]
        low, high = np.minimum(source, target), np.maximum(source, target)
        histogram = np.zeros((num_types, num_types, no_edge + 1))
        for is_forward in (source <= target, source < target):
            read = np.where(is_forward, relation, flip_y)
            np.add.at(histogram, (low, high, read), 0.5)
        # all pairs by type, of which the rest is unrelated
        together = self.room_counts.T @ self.room_counts
        num_pairs = np.triu(together, k=1)
        np.fill_diagonal(num_pairs, (np.diagonal(together) - self.room_counts.sum(axis=0)) // 2)
        histogram[:, :, no_edge] = num_pairs - histogram.sum(axis=2)
        return histogram

    @property
    def degree_counts(self) -> Floats:
        """Float[K]: number of rooms with degree 0, 1, ..., up to the largest."""
        return np.trim_zeros(self.degree_histogram.sum(axis=0), "b")

    @property
    def relation_counts(self) -> Floats:
        """Float[R]: number of related pairs of rooms by relation, see ``pair_histogram``."""
        return self.pair_histogram[:, :, :-1].sum(axis=(0, 1))

    def share_related(self, least: int) -> Floats:
        """Float[T, T], symmetric: share of related pairs by types; NaN for fewer than ``least``."""
        pairs = self.pair_histogram.sum(axis=2)
        related = pairs - self.pair_histogram[:, :, -1]
        pairs, related = (upper + np.triu(upper, 1).T for upper in (pairs, related))
        enough = pairs >= least
        return np.where(enough, related / np.where(enough, pairs, 1), np.nan)

    @cached_property
    def degree_histogram(self) -> Floats:
        """Float[T, n]: number of rooms of each type with degree 0, 1, ..., n - 1."""
        histogram = np.zeros((self._vocab.num_node_types, int(self.num_rooms.max())))
        real = self.rooms != self._vocab.pad_id
        np.add.at(histogram, (self.rooms[real], self.degree[real]), 1)
        return histogram

    @cached_property
    def kernel_points(self) -> dict[str, KernelPoints]:
        """Three graph descriptors, each with the fixed bandwidth of its kernel."""
        return {
            "degree": KernelPoints.of(self.degree_shares, 0.27),
            "clustering": KernelPoints.of(self.clustering_shares, 0.27),
            "spectrum": KernelPoints.of(self.spectrum, 1.2),
        }


def _keys(rows: Sequence[NDArray[np.generic]] | NDArray[np.generic]) -> Keys:
    keys = np.empty(len(rows), dtype=object)
    keys[:] = [row.tobytes() for row in rows]
    return keys

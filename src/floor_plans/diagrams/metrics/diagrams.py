"""Metrics of bubble diagrams: validity of samples, and distances from a reference.

Metrics ignore the order of rooms, and refuse an empty set with ``ValueError``. The names of
distances end in ``_tv`` for the total variation (0..1) of two histograms, ``_js`` for their
Jensen-Shannon divergence (nats, 0..log 2). A distance of histograms by group is a mean over groups,
weighted by the reference; names of unweighted means end in ``_unweighted``. A distance depends on
the sizes of both sets.
"""

from __future__ import annotations

import numpy as np

from discrete_diffusion.evaluation import Metric
from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.geometry import Flags, Floats, transitive_closure
from floor_plans.diagrams.metrics.diagram_set import Diagrams, DiagramSet, squared_mmd
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.vocabulary import NO_EDGE

LIVING_ROOM, ENTRANCE = ROOM_TYPES.index("LivingRoom"), ROOM_TYPES.index("Entrance")


def structure_metrics(diagrams: Diagrams) -> dict[str, float]:
    """Compute metrics of a set that need no reference, by name.

    Shares of diagrams, in 0..1:
    ``connected``: every room can be reached from every other over listed relations. ``valid``:
    connected, at most one living room and at most one entrance.
    ``transitive``: some arrangement of points obeys all relations. Along each axis, a relation that
    orders its two rooms is an arc from the smaller coordinate to the larger ("left-above" on both
    axes, "above" on y only, "inside" on neither); these arcs have no directed cycle.
    ``inside_valid``: no room lies inside a room of a type in ``FORBIDDEN_INSIDE``; (i, j, inside)
    has i as the inner room, (i, j, surrounding) has j.

    For relations without direction only ``connected`` is computed: such plans may have two living
    rooms, and their relations cannot contradict each other.

    ``edges_per_diagram``: mean number of listed relations. ``edge_presence``: listed relations /
    possible pairs of rooms, both summed over diagrams; 0 for diagrams of one room.

    Deviation: an empty set is an error here, not inside-valid.
    """
    measured = DiagramSet.of(diagrams)
    num_relations = int(measured.num_relations.sum())
    num_pairs = int((measured.num_rooms * (measured.num_rooms - 1) // 2).sum())
    flags = property_flags(measured)
    return {
        **{name: float(flag.mean()) for name, flag in flags.items()},
        "edges_per_diagram": num_relations / len(measured),
        "edge_presence": num_relations / max(num_pairs, 1),
    }


def property_flags(measured: DiagramSet) -> dict[str, Flags]:
    """Properties of each diagram by name, Bool[M]."""
    if not measured.vocabulary.has_directions:
        return {"connected": measured.connected}
    living, entrances = measured.room_counts[:, LIVING_ROOM], measured.room_counts[:, ENTRANCE]
    one_living, one_entrance = living <= 1, entrances <= 1
    horizontal, vertical = measured.horizontally_transitive, measured.vertically_transitive
    return {
        "valid": measured.connected & one_living & one_entrance,
        "connected": measured.connected,
        "at_most_one_living_room": one_living,
        "at_most_one_entrance": one_entrance,
        "exactly_one_living_room": living == 1,
        "transitive": horizontal & vertical,
        "horizontally_transitive": horizontal,
        "vertically_transitive": vertical,
        "inside_valid": measured.inside_valid,
    }


def never_valid(partial: PartialDiagram) -> str | None:
    """Sentence on why no completion of a partial diagram is ``valid``, or None."""
    for room_type in (LIVING_ROOM, ENTRANCE):
        rooms = [f"rooms[{k}]" for k, room in enumerate(partial.rooms) if room == room_type]
        if len(rooms) > 1:
            what = f"{', '.join(rooms)} are each a {ROOM_TYPES[room_type]}"
            return f"{what}, and a plan has one at most"
    # pairs that are not excluded by "no-edge" have to connect all rooms
    may_be_related = ~np.eye(partial.num_rooms, dtype=bool)
    for i, j, relation in partial.relations:
        if relation == NO_EDGE:
            may_be_related[i, j] = may_be_related[j, i] = False
    reached = transitive_closure(may_be_related)[0]
    apart = [str(k) for k in range(1, partial.num_rooms) if not reached[k]]
    if apart:
        rooms_apart = f"room {apart[0]}" if len(apart) == 1 else f"rooms {', '.join(apart)}"
        return f'"no-edge" keeps {rooms_apart} apart from room 0, and a plan is connected'
    return None


def stratified_metrics(diagrams: Diagrams) -> dict[int, dict[str, float]]:
    """``structure_metrics`` by room count, ascending, with ``num_diagrams`` of each count."""
    measured = DiagramSet.of(diagrams)
    strata = {}
    for n in np.unique(measured.num_rooms).tolist():
        stratum = measured.select(np.flatnonzero(measured.num_rooms == n))
        strata[n] = {"num_diagrams": float(len(stratum)), **structure_metrics(stratum)}
    return strata


MIN_PER_TYPE_PAIR, MIN_PER_TYPE = 5, 20
"""Least number of observations in the reference for a pair of room types to count, and of rooms
for a room type to count in degrees."""


def total_variation(counts: Floats, others: Floats) -> Floats:
    """Total variation 1/2 sum_k |p_k - q_k| of histograms of counts (..., K): Float[...] in 0..1.
    An empty histogram is at distance 0 from an empty one and 1 from any other."""
    p, q, both, one = _normalised(counts, others)
    return np.where(both, np.abs(p - q).sum(axis=-1) / 2, one)


def jensen_shannon(counts: Floats, others: Floats) -> Floats:
    """Jensen-Shannon divergence 1/2 KL(p || m) + 1/2 KL(q || m), m = (p + q) / 2, in nats. Takes
    histograms of counts (..., K), returns Float[...] in 0..log 2. An empty histogram is at distance
    0 from an empty one and log 2 from any other."""
    p, q, both, one = _normalised(counts, others)
    middle = (p + q) / 2
    divergence = np.zeros(both.shape)
    for part in (p, q):
        # a subnormal m can round to 0 although a part is positive; such a bin is negligible
        ratio = np.divide(part, middle, out=np.ones_like(part), where=(part > 0) & (middle > 0))
        divergence = divergence + (part * np.log(ratio)).sum(axis=-1) / 2
    return np.where(both, np.maximum(divergence, 0.0), one * np.log(2.0))


def _normalised(counts: Floats, others: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return both histograms as shares, a mask where neither is empty, and 1.0 where one is."""
    p, q = (np.asarray(c, dtype=np.float64) for c in (counts, others))
    p_total, q_total = p.sum(axis=-1, keepdims=True), q.sum(axis=-1, keepdims=True)
    p_held, q_held = p_total[..., 0] > 0, q_total[..., 0] > 0
    p, q = p / np.where(p_total > 0, p_total, 1.0), q / np.where(q_total > 0, q_total, 1.0)
    return p, q, p_held & q_held, (p_held ^ q_held).astype(np.float64)


DIVERGENCES = {"tv": total_variation, "js": jensen_shannon}


def node_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``node_tv``, ``node_js``: distances of room types, pooled over diagrams."""
    rooms = [DiagramSet.of(s).room_counts.sum(axis=0) for s in (samples, reference)]
    return {f"node_{name}": float(of(*rooms)) for name, of in DIVERGENCES.items()}


def relation_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``relation_tv``, ``relation_js``: distances of relations, read from the lower room type.
    Unrelated pairs do not count. If one set alone has no relation, the distance is maximal."""
    pooled = [DiagramSet.of(s).relation_counts for s in (samples, reference)]
    return {f"relation_{name}": float(of(*pooled)) for name, of in DIVERGENCES.items()}


def conditional_relation_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``conditional_relation_tv``, ``_js``: distances of relations per unordered pair of types.
    Type pairs with at least 5 relations in the reference count; if no pair has 5, all pairs with a
    relation count. For a type pair without relations in the samples, uniform relations are assumed.
    Unrelated pairs of rooms do not count."""
    histograms = [DiagramSet.of(s).pair_histogram for s in (samples, reference)]
    tables = [h[:, :, :-1].reshape(-1, h.shape[2] - 1) for h in histograms]
    return _conditional("conditional_relation", *tables, minimum=MIN_PER_TYPE_PAIR, fill=1.0)


def conditional_pair_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``conditional_pair_tv``, ``_js``: as ``conditional_relation_distance``, with "no-edge" as one
    more bin, for type pairs with at least 5 pairs of rooms in the reference, related or not."""
    histograms = [DiagramSet.of(s).pair_histogram for s in (samples, reference)]
    tables = [h.reshape(-1, h.shape[2]) for h in histograms]
    return _conditional("conditional_pair", *tables, minimum=MIN_PER_TYPE_PAIR, fill=1.0)


def degree_distance(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``degree_tv``, ``_js``: distances of degrees (relations of a room) per room type. Types with
    at least 20 rooms in the reference count; if none has 20, all types count. A type that the
    samples lack is at the maximal distance."""
    tables = [DiagramSet.of(s).degree_histogram for s in (samples, reference)]
    size = max(table.shape[1] for table in tables)
    tables = [np.pad(table, ((0, 0), (0, size - table.shape[1]))) for table in tables]
    return _conditional("degree", *tables, minimum=MIN_PER_TYPE)


def room_count_w1(samples: Diagrams, reference: Diagrams) -> float:
    """Wasserstein-1 distance of the room counts, in rooms: sum_n |F(n) - G(n)| of the CDFs."""
    counts = [DiagramSet.of(s).num_rooms for s in (samples, reference)]
    size = int(max(c.max() for c in counts)) + 1
    p, q = (np.bincount(c, minlength=size) / len(c) for c in counts)
    return float(np.abs(np.cumsum(p - q)).sum())


def graph_mmd(samples: Diagrams, reference: Diagrams) -> dict[str, float]:
    """``mmd_degree``, ``mmd_clustering``, ``mmd_spectrum``: ``squared_mmd`` of the graph
    descriptors of ``DiagramSet.kernel_points``; types of rooms and relations are ignored."""
    drawn, real = (DiagramSet.of(s).kernel_points for s in (samples, reference))
    return {f"mmd_{name}": squared_mmd(drawn[name], real[name]) for name in drawn}


def _conditional(
    prefix: str, counts: Floats, reference: Floats, *, minimum: int, fill: float = 0.0
) -> dict[str, float]:
    """Distances of the rows of two tables (G, K), averaged over rows with ``minimum`` counts in the
    reference. ``fill``: value of all bins of an empty row of ``counts``."""
    # rows with enough counts, else all rows with any
    weight = reference.sum(axis=1)
    kept = weight >= minimum
    if not kept.any():
        kept = weight > 0
    if kept.any():
        counts, reference, weight = counts[kept], reference[kept], weight[kept]
        counts = np.where(counts.any(axis=1, keepdims=True), counts, fill)
    else:  # nothing to condition on: the sets agree if the samples are empty too
        counts, reference = counts.sum(axis=0, keepdims=True), reference.sum(axis=0, keepdims=True)
        weight = np.ones(1)
    # means over rows, weighted by the reference and plain
    found = {}
    for name, divergence in DIVERGENCES.items():
        rows = divergence(counts, reference)
        found[f"{prefix}_{name}"] = float(np.average(rows, weights=weight))
        found[f"{prefix}_{name}_unweighted"] = float(rows.mean())
    return found


_DISTANCE_MEANINGS = {
    "node_tv": "total variation between the room types",
    "node_js": "Jensen-Shannon divergence between the room types, nats",
    "relation_tv": "total variation between the relations, read from the lower room type",
    "relation_js": "Jensen-Shannon divergence between the relations, nats",
    "conditional_relation_tv": "relation TV per pair of room types, weighted by the reference",
    "conditional_relation_tv_unweighted": "relation TV per pair of room types, plain mean",
    "conditional_relation_js": "relation JS per pair of room types, weighted, nats",
    "conditional_relation_js_unweighted": "relation JS per pair of room types, plain mean, nats",
    "conditional_pair_tv": "relation TV with no-edge per pair of room types, weighted",
    "conditional_pair_tv_unweighted": "relation TV with no-edge per pair of types, plain mean",
    "conditional_pair_js": "relation JS with no-edge per pair of room types, weighted, nats",
    "conditional_pair_js_unweighted": "relation JS with no-edge per type pair, plain mean, nats",
    "degree_tv": "total variation between the degrees per room type, weighted by the reference",
    "degree_tv_unweighted": "total variation between the degrees per room type, plain mean",
    "room_count_w1": "Wasserstein-1 distance between the room counts, rooms",
    "mmd_degree": "squared MMD of degree histograms, Gaussian kernel of bandwidth 0.27",
    "mmd_clustering": "squared MMD of clustering histograms, bandwidth 0.27",
    "mmd_spectrum": "squared MMD of normalised-Laplacian spectra, bandwidth 1.2",
}

DISTANCES: tuple[str, ...] = tuple(_DISTANCE_MEANINGS)
"""Distances from the reference: 0 is best, and the ratio to a floor is meaningful."""

SIZE_DEPENDENT = (
    *DISTANCES,
    *("mode_coverage", "mode_coverage_weighted", "distinct_multisets", "diversity"),
)
"""Metrics that depend on the number of diagrams; their values for real data are floors."""

_STRUCTURE_MEANINGS = {
    "valid": "share connected, with at most one living room and at most one entrance",
    "connected": "share in which any room can be reached from any other",
    "at_most_one_living_room": "share with at most one living room",
    "at_most_one_entrance": "share with at most one entrance",
    "exactly_one_living_room": "share with exactly one living room (stricter than valid)",
    "transitive": "share whose relations contradict each other on neither axis",
    "horizontally_transitive": "share without a contradiction between left and right",
    "vertically_transitive": "share without a contradiction between above and below",
    "inside_valid": "share with no room inside a room of a forbidden type",
}

METRIC_MEANINGS: dict[str, str] = {
    **_STRUCTURE_MEANINGS,
    "edges_per_diagram": "relations per diagram, mean",
    "edge_presence": "relations / possible pairs of rooms, pooled over diagrams",
    **_DISTANCE_MEANINGS,
    "mode_coverage": "share of the reference's distinct multisets of room types that occur",
    "mode_coverage_weighted": "share of the reference's diagrams whose multiset occurs",
    "distinct_multisets": "different multisets of room types among the samples",
    "diversity": "distinct diagrams / diagrams, relabellings counted as one",
    "novelty": "share that is not a relabelling of a training diagram",
    "edges_per_diagram_reference": "relations per diagram of the reference, mean",
    "edge_presence_reference": "relations / possible pairs of the reference",
}
"""One line on every metric of ``bubble_metrics``, in its order."""

OF_COVERAGE = frozenset(("mode_coverage", "mode_coverage_weighted", "diversity"))
"""Shares that are not of samples, so that Wilson's interval does not apply."""

SHARES = frozenset((*_STRUCTURE_MEANINGS, *OF_COVERAGE, "novelty"))
"""Metrics that are shares, of samples or of what they cover."""

METRICS = {
    name: Metric(
        "distances from the reference (0 is best)"
        if name in DISTANCES
        else "the samples by themselves, and what they cover",
        meaning,
        share=name in SHARES,
        of_each=name not in OF_COVERAGE,
        digits=(5 if name.startswith("mmd_") else 4) if name in DISTANCES else None,
        ratio=1 if name in DISTANCES else None,
        detail=name.endswith("_unweighted"),
    )
    for name, meaning in METRIC_MEANINGS.items()
    if not name.endswith("_reference")  # of the reference itself
}
"""Rows of the table."""


def bubble_metrics(
    samples: Diagrams, reference: Diagrams, *, training: Diagrams | None = None
) -> dict[str, float]:
    """Compute every metric of samples against a reference, by name as in ``METRIC_MEANINGS``.
    ``novelty`` needs ``training``. Distances and coverage depend on the sizes of both sets; report
    them with these sizes and ``real_vs_real``. For several sets against one reference, convert it
    to a ``DiagramSet`` first, so that it is measured only once."""
    real = DiagramSet.of(reference)
    drawn = DiagramSet.of(samples, real.vocabulary)
    own = structure_metrics(real)
    found = {
        **structure_metrics(drawn),
        **node_distance(drawn, real),
        **relation_distance(drawn, real),
        **conditional_relation_distance(drawn, real),
        **conditional_pair_distance(drawn, real),
        **degree_distance(drawn, real),
        "room_count_w1": room_count_w1(drawn, real),
        **graph_mmd(drawn, real),
        **coverage_metrics(drawn, real, training=training),
        **{f"{name}_reference": own[name] for name in ("edges_per_diagram", "edge_presence")},
    }
    return {name: found[name] for name in METRIC_MEANINGS if name in found}


def coverage_metrics(
    samples: Diagrams, reference: Diagrams, *, training: Diagrams | None = None
) -> dict[str, float]:
    """Coverage of the reference, diversity of the samples, and novelty against the training data.

    A "mode" is a multiset of room types. ``mode_coverage``: share of the reference's modes that
    occur among the samples. ``mode_coverage_weighted``: share of its diagrams whose mode occurs.
    Both grow with the number of samples. ``distinct_multisets``: modes of the samples.
    ``diversity``: distinct diagrams / diagrams. ``novelty``: share of samples outside the training
    data.

    Deviation: relabellings of one diagram count as one in diversity and novelty; published
    evaluations often compare token sequences, where another order of rooms is another diagram.
    """
    real = DiagramSet.of(reference)
    drawn = DiagramSet.of(samples, real.vocabulary)
    covered = [count for key, count in real.multisets.items() if key in drawn.multisets]
    found = {
        "mode_coverage": len(covered) / len(real.multisets),
        "mode_coverage_weighted": sum(covered) / len(real),
        "distinct_multisets": float(len(drawn.multisets)),
        "diversity": len(drawn.canonical_key_set) / len(drawn),
    }
    if training is not None:
        known = DiagramSet.of(training, real.vocabulary).canonical_key_set
        found["novelty"] = sum(k not in known for k in drawn.canonical_keys.tolist()) / len(drawn)
    return found

"""Metrics of bubble diagrams by name: are samples sound plans, and do they look like real ones?

Every metric ignores the order in which a diagram lists its rooms. A set without a diagram is
refused with ``ValueError``: no share or histogram is defined for it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from discrete_diffusion.evaluation import Metric
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.distances import (
    Diagrams,
    conditional_pair_distance,
    conditional_relation_distance,
    degree_distance,
    graph_mmd,
    node_distance,
    relation_distance,
    room_count_w1,
)
from floor_plans.diagrams.metrics.structure import structure_metrics

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
"""The metrics that are distances from the reference: 0 is best, and a ratio to a floor makes sense.
"""

SIZE_DEPENDENT = (
    *DISTANCES,
    *("mode_coverage", "mode_coverage_weighted", "distinct_multisets", "diversity"),
)
"""The metrics that depend on the number of diagrams: what real data scores is their floor."""

METRIC_MEANINGS: dict[str, str] = {
    "valid": "share connected, with at most one living room and at most one entrance",
    "connected": "share in which any room can be reached from any other",
    "at_most_one_living_room": "share with at most one living room",
    "at_most_one_entrance": "share with at most one entrance",
    "exactly_one_living_room": "share with exactly one living room (stricter than valid)",
    "transitive": "share whose relations contradict each other on neither axis",
    "horizontally_transitive": "share without a contradiction between left and right",
    "vertically_transitive": "share without a contradiction between above and below",
    "inside_valid": "share with no room inside a room of a forbidden type",
    "edges_per_diagram": "relations per diagram, mean",
    "edge_presence": "relations / possible pairs of rooms, pooled over diagrams",
    **_DISTANCE_MEANINGS,
    "mode_coverage": "share of the reference's distinct multisets of room types that occur",
    "mode_coverage_weighted": "share of the reference's diagrams whose multiset occurs",
    "distinct_multisets": "different multisets of room types among the samples",
    "diversity": "distinct diagrams / diagrams, relabellings counted as one",
    "novelty": "share that is no relabelling of a training diagram",
    "edges_per_diagram_reference": "relations per diagram of the reference, mean",
    "edge_presence_reference": "relations / possible pairs of the reference",
}
"""One line on every metric of ``bubble_metrics``, in its order."""

SHARES = frozenset(
    (
        *("valid", "connected", "at_most_one_living_room", "at_most_one_entrance"),
        *("exactly_one_living_room", "transitive", "horizontally_transitive"),
        *("vertically_transitive", "inside_valid", "mode_coverage", "mode_coverage_weighted"),
        *("diversity", "novelty"),
    )
)
"""Metrics that are shares, of samples or of what they cover."""

OF_COVERAGE = frozenset(("mode_coverage", "mode_coverage_weighted", "diversity"))
"""Those that are not of samples, so that Wilson's interval is not theirs."""

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
    )
    for name, meaning in METRIC_MEANINGS.items()
    if not name.endswith("_reference")  # of the reference itself
}
"""Rows of the table."""


def bubble_metrics(
    samples: Diagrams, reference: Diagrams, *, training: Diagrams | None = None
) -> dict[str, float]:
    """Every metric of samples against a reference, by name; ``METRIC_MEANINGS`` says what each is.

    ``novelty`` is there if ``training`` is given. Distances and coverage depend on the sizes of
    both sets: quote them with it, beside ``metric_floors``. To measure several sets against one
    reference, make it a ``DiagramSet`` first: its side is then computed once.
    """
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
    """Do samples cover the reference without repeating themselves or the training data?

    A "mode" is a multiset of room types. ``mode_coverage``: the share of the reference's modes that
    occur among the samples, ``mode_coverage_weighted``: the share of its diagrams whose mode does;
    more samples cover more. ``distinct_multisets``: modes of the samples. ``diversity``: distinct
    diagrams / diagrams. ``novelty``: the share of samples that are no training diagram.

    Deviation: relabellings of one diagram count as one in diversity and novelty; published
    evaluations often compare token sequences, so that another order makes another diagram.
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


def data_coverage(samples: Diagrams | None, data: Diagrams, num: int) -> dict[str, float]:
    """Share of some data that ``num`` samples contain, by weight and up to relabelling.

    Let w_k be the share of the data that is diagram k. ``coverage``: the sum of w_k over the
    diagrams that are among the samples; None has none. ``coverage_ceiling``: what it is on average
    of ``num`` diagrams that are sampled from the data themselves, sum_k w_k (1 - (1 - w_k)^num).
    ``coverage_ratio``: the first divided by the second.
    """
    real = DiagramSet.of(data)
    keys, counts = np.unique(real.canonical_keys, return_counts=True)
    weights = counts / len(real)
    drawn = frozenset[bytes]()
    if samples is not None and len(samples):
        drawn = DiagramSet.of(samples, real.vocabulary).canonical_key_set
    covered = float(weights[[key in drawn for key in keys]].sum())
    ceiling = float(weights @ (1 - (1 - weights) ** num))
    return {
        "coverage": covered,
        "coverage_ceiling": ceiling,
        "coverage_ratio": covered / ceiling if ceiling else 0.0,
    }


def coverage_by_others(others: Diagrams, data: Diagrams, num: int) -> float:
    """``coverage`` of the data, on average, by ``num`` of ``others``, no two of them the same one:
    a sum over diagrams k of w_k times the chance that one of the c_k copies of k is among these.

    Raises ``ValueError`` for fewer others than that.
    """
    real = DiagramSet.of(data)
    pool = DiagramSet.of(others, real.vocabulary)
    if len(pool) < num:
        raise ValueError(f"{num} of {len(pool)} diagrams: expected at most as many as there are")
    copies = Counter(pool.canonical_keys.tolist())
    c = np.array([copies[key] for key in real.canonical_keys.tolist()])
    left = len(pool) - num - np.arange(c.max(initial=0))  # of which the next copy is one by one
    none = np.cumprod([1.0, *(left.clip(min=0) / (len(pool) - np.arange(len(left))))])
    return float((1 - none[c]).mean())

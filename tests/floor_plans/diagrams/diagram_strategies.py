"""Hypothesis strategies for bubble diagrams."""

from __future__ import annotations

from hypothesis import strategies as st

from floor_plans import BubbleDiagram

NO_EDGE = 10


@st.composite
def boxes(draw):
    side = st.floats(-1e6, 1e6, allow_nan=False)
    x0, x1 = sorted([draw(side), draw(side)])
    y0, y1 = sorted([draw(side), draw(side)])
    return (x0, y0, x1, y1)


@st.composite
def diagrams(draw, max_rooms=8, num_types=13, edge_codes=range(11), decorated=False):
    """A diagram; few types and few edge codes make symmetric ones likely."""
    n = draw(st.integers(1, max_rooms))
    rooms = draw(st.lists(st.integers(0, num_types - 1), min_size=n, max_size=n))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    codes = draw(
        st.lists(st.sampled_from(list(edge_codes)), min_size=len(pairs), max_size=len(pairs))
    )
    relations = [(i, j, r) for (i, j), r in zip(pairs, codes, strict=True) if r != NO_EDGE]
    placed = draw(st.none() | st.lists(boxes(), min_size=n, max_size=n)) if decorated else None
    keys = st.text().filter(lambda key: key not in ("rooms", "relations", "boxes"))
    safe = st.text() | st.integers() | st.booleans() | st.none() | st.floats(-1e9, 1e9)
    metadata = draw(st.dictionaries(keys, safe | st.lists(safe), max_size=2)) if decorated else {}
    return BubbleDiagram(
        rooms=tuple(rooms),
        relations=tuple(relations),
        boxes=None if placed is None else tuple(placed),
        metadata=metadata,
    )


@st.composite
def relabelled_diagrams(draw, **options):
    """A diagram and a permutation of its rooms."""
    diagram = draw(diagrams(**options))
    return diagram, draw(st.permutations(range(diagram.num_rooms)))

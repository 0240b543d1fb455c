"""Placement of the bubbles of a diagram on the page.

A force-directed layout with constraints. Every constraint is a hinge on a pair of rooms: a relation
orders two centres, bubbles keep a distance, an inner bubble stays in its outer one. Adam minimises
the sum of squared hinges from a few fixed starts, then averaged projections enforce the hard ones,
and the best result is chosen. It is deterministic: a diagram always has the same picture.

Axes: ``B`` problems (diagrams times starts), ``n`` rooms, 2 coordinates (x right, y *down*).
Unit: the radius of a living room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from floor_plans.diagrams.geometry import Flags, Floats, Ints, transitive_closure
from floor_plans.diagrams.pictures import bubbles
from floor_plans.diagrams.vocabulary import INSIDE, RELATION_X_ORDER, RELATION_Y_ORDER, SURROUNDING

NUM_STARTS = 6
DESCENT_STEPS = 260
PROJECTION_STEPS = 240
CHUNK = 64  # diagrams of eight rooms in one batch, for speed and cache; fewer of larger diagrams
UNFOLDING_STEPS = 60


@dataclass(frozen=True)
class Placement:
    """Circles for the rooms of one diagram.

    ``centres``: Float[n, 2], x to the right and y *downwards*; the bounding box of the circles is
        centred on the origin.
    ``radii``: Float[n]; a living room without inner rooms has radius 1.
    ``depth``: Int[n], number of bubbles around each bubble.
    ``inside``: Bool[n, n], True where bubble i lies in bubble j, directly or by way of others.
    ``broken``: relations (i, j, r) that the placement violates; empty unless the diagram is
        contradictory (or, rarely, the optimiser fails).
    """

    centres: Floats
    radii: Floats
    depth: Ints
    inside: Flags
    broken: tuple[tuple[int, int, int], ...]

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of the bounding box of the circles."""
        low, high = _bounds(self.centres, self.radii)
        return float(high[0] - low[0]), float(high[1] - low[1])


def _bounds(points: Floats, radii: Floats) -> tuple[Floats, Floats]:
    """Corners Float[..., 2] of the bounding box of circles around points Float[..., n, 2]."""
    return (points - radii[..., None]).min(axis=-2), (points + radii[..., None]).max(axis=-2)


def place_all(diagrams: Sequence[bubbles.Plan]) -> list[Placement]:
    """Place the bubbles of each diagram, independently of other diagrams. "i left-of j" puts the
    centre of i left of that of j, "i above j" puts it higher on the page (smaller y), diagonal
    relations do both. Bubbles do not overlap unless one is inside the other, or a third lies inside
    both. ``broken`` lists the relations that a placement violates."""
    # diagrams of equal size are placed in batches
    by_count: dict[int, list[int]] = {}
    for index, diagram in enumerate(diagrams):
        by_count.setdefault(len(diagram.rooms), []).append(index)
    placements: dict[int, Placement] = {}
    for n, same_count in by_count.items():
        chunk = max(1, CHUNK * 8**3 // max(n, 8) ** 3)
        for start in range(0, len(same_count), chunk):
            indices = same_count[start : start + chunk]
            group = [diagrams[index] for index in indices]
            placements.update(zip(indices, place_together(group), strict=True))
    return [placements[index] for index in range(len(diagrams))]


def place_together(diagrams: Sequence[bubbles.Plan]) -> list[Placement]:
    """Place diagrams with the same number of rooms, together as one batch."""
    problem = bubbles.build_constraints(diagrams)
    # optimise several starts of each diagram, enforce hard constraints, choose the best start
    repeated = problem.repeat(NUM_STARTS)
    points = _descend(_starts(problem), repeated)
    points = _project(points, repeated, PROJECTION_STEPS, orders=True)
    points = _project(points, repeated, PROJECTION_STEPS // 4, orders=False)
    # scale each placement up, at most twofold, until bubbles that must be apart do not overlap;
    # scaling would break containment
    _, distance = _gaps(points)
    clear = np.where(repeated.apart, repeated.touching / distance, 1.0).max(axis=(1, 2))
    scale = np.where(repeated.inside.any(axis=(1, 2)), 1.0, clear.clip(1.0, 2.0) + 1e-9)
    points = points * scale[:, None, None]
    # best start of each diagram
    best = _badness(points, repeated).reshape(len(diagrams), NUM_STARTS).argmin(axis=1)
    chosen = points.reshape(len(diagrams), NUM_STARTS, -1, 2)[np.arange(len(diagrams)), best]
    # centre the bounding boxes on the origin
    low, high = _bounds(chosen, problem.radii)
    chosen = chosen - ((low + high) / 2)[:, None]
    found = []
    for k, diagram in enumerate(diagrams):
        centres, radii, inside = chosen[k], problem.radii[k], problem.inside[k]
        broken = tuple(t for t in diagram.relations if not is_honoured(centres, radii, *t))
        found.append(Placement(centres, radii, inside.sum(axis=1), inside, broken))
    return found


def is_honoured(centres: Floats, radii: Floats, i: int, j: int, relation: int) -> bool:
    """True if the positions of the bubbles i and j satisfy the relation."""
    dx, dy = centres[i] - centres[j]
    if relation in (INSIDE, SURROUNDING):
        slack = radii[j] - radii[i] if relation == INSIDE else radii[i] - radii[j]
        return bool(np.hypot(dx, dy) <= slack)
    x_order, y_order = RELATION_X_ORDER[relation], RELATION_Y_ORDER[relation]
    return bool((x_order == 0 or x_order * dx > 0) and (y_order == 0 or y_order * dy > 0))


def _starts(problem: bubbles.Constraints) -> Floats:
    """Float[B * NUM_STARTS, n, 2]: starting points of the descent. The first start solves the
    relations as springs by least squares. The last one spreads the rooms by their rank in each
    order, which obeys every acyclic order. The others are jittered copies of the first. Diagrams
    without an order start from unfolded jittered points."""
    num, n = problem.radii.shape
    # springs: the solution of a linear system with the Laplacian of related pairs
    length = np.sqrt((problem.order**2).sum(axis=-1, keepdims=True)).clip(min=1.0)
    rest = problem.radii[:, :, None] + problem.radii[:, None, :] + bubbles.GAP
    target = problem.order / length * rest[..., None]  # of p_i - p_j
    weight = problem.related + 0.02
    laplacian = weight.sum(axis=2)[:, :, None] * np.eye(n) - weight + 0.02 * np.eye(n)
    springs = np.linalg.solve(laplacian, (problem.related[..., None] * target).sum(axis=2))
    starts = np.empty((num, NUM_STARTS, n, 2))
    for start in range(NUM_STARTS - 1):
        jitter = np.random.default_rng(start).uniform(-1.0, 1.0, (n, 2))
        starts[:, start] = springs + (0.01 + 0.45 * start) * jitter
    # ranks: number of rooms before each one along each axis
    behind = transitive_closure((problem.order > 0).transpose(0, 3, 1, 2)).sum(3)  # (B, axis, n)
    ranks = behind.argsort(axis=2, kind="stable").argsort(axis=2).swapaxes(1, 2)
    starts[:, -1] = 1.6 * ranks + 0.3 * springs
    for b in np.flatnonzero(~problem.order.any(axis=(1, 2, 3))):
        starts[b] = _unfolded(problem.related[b], problem.radii[b])
    return starts.reshape(-1, n, 2)


def _unfolded(related: Flags, radii: Floats) -> Floats:
    """Float[NUM_STARTS, n, 2]: points with the distances of shortest paths. Stress majorisation
    (Gansner, Koren and North 2004) of the squared relative errors of distances. Disconnected rooms
    are a little farther apart than any connected rooms."""
    # shortest paths between rooms, by Floyd and Warshall
    n = len(radii)
    way = np.where(related, radii[:, None] + radii + bubbles.GAP, np.inf)
    np.fill_diagonal(way, 0.0)
    for k in range(n):
        way = np.minimum(way, way[:, k, None] + way[k])
    # disconnected rooms are a little farther apart
    longest = way[np.isfinite(way)].max(initial=1.0)
    way = np.where(np.isfinite(way), way, longest + 1.0)
    # each iteration solves a linear system for the majorised stress
    weight = 1 / np.maximum(way, 1e-9) ** 2
    np.fill_diagonal(weight, 0.0)
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    jitters = [np.random.default_rng(k).uniform(-1.0, 1.0, (n, 2)) for k in range(NUM_STARTS)]
    points = longest * np.stack(jitters)
    for _ in range(UNFOLDING_STEPS):
        _, distance = _gaps(points)
        ratio = weight * way / distance
        laplacian = ratio.sum(axis=2)[:, :, None] * np.eye(n) - ratio
        points = inverse @ laplacian @ points
    return points


def _gaps(points: Floats) -> tuple[Floats, Floats]:
    """Differences p_i - p_j, Float[B, n, n, 2], and their lengths, Float[B, n, n]."""
    delta = points[:, :, None, :] - points[:, None, :, :]
    return delta, np.sqrt((delta**2).sum(axis=-1) + 1e-12)


def _descend(points: Floats, problem: bubbles.Constraints) -> Floats:
    """Minimise the sum of squared hinges, hard and soft, by Adam."""
    first, second, order = np.zeros_like(points), np.zeros_like(points), problem.order
    for step in range(DESCENT_STEPS):
        progress = step / DESCENT_STEPS
        hardness = 0.3 + 1.7 * progress  # hard constraints gain weight
        # hinges along the axes: ordered centres, and straight corridors
        delta, distance = _gaps(points)
        short = np.maximum(problem.soft_margin - order * delta, 0)
        force = -hardness * order * short * np.abs(order)
        force += 0.25 * np.sign(delta) * np.maximum(np.abs(delta) - problem.corridor, 0)
        # hinges on distances: too close, too far
        too_close = np.maximum(problem.soft_least - distance, 0)
        too_far = np.maximum(distance - problem.soft_most, 0)
        radial = (problem.pull * too_far - hardness * problem.push * too_close) / distance
        gradient = 2 * (force + radial[..., None] * delta).sum(axis=2)
        first = 0.85 * first + 0.15 * gradient
        second = 0.97 * second + 0.03 * gradient**2
        correction = np.sqrt(1 - 0.97 ** (step + 1)) / (1 - 0.85 ** (step + 1))
        rate = 0.12 * (1 - progress) + 0.004
        points = points - rate * correction * first / (np.sqrt(second) + 1e-6)
    return points


def _project(points: Floats, problem: bubbles.Constraints, steps: int, *, orders: bool) -> Floats:
    """Shift bubbles by averaged projections onto violated hard constraints until these hold."""
    order = problem.order if orders else np.zeros_like(problem.order)
    for _ in range(steps):
        delta, distance = _gaps(points)
        # violations of orders, then of distances
        short = np.maximum(bubbles.ORDER_MARGIN - order * delta, 0) * np.abs(order)
        shift = order * short
        radial = np.maximum(problem.least - distance, 0) - np.maximum(distance - problem.most, 0)
        wrong = (short > 1e-9).sum(axis=(2, 3)) + (np.abs(radial) > 1e-9).sum(axis=2)
        if not wrong.any():
            break
        # move by the mean of the violated projections, slightly relaxed
        shift = shift + (radial / distance)[..., None] * delta
        points = points + 0.62 * shift.sum(axis=2) / np.maximum(wrong, 1)[..., None] ** 0.7
    return points


def _badness(points: Floats, problem: bubbles.Constraints) -> Floats:
    """Float[B]: penalty for violated hard constraints, then size, crooked and covered lines."""
    delta, distance = _gaps(points)
    # violated hard constraints
    disorder = (np.abs(problem.order) * (problem.order * delta < 1e-6)).sum(axis=(1, 2, 3)) / 2
    overlap = np.maximum(problem.touching - distance, 0)
    outside = np.maximum(distance - problem.most, 0)
    hard = 20 * disorder + 50 * (overlap + outside).sum(axis=(1, 2))
    low, high = _bounds(points, problem.radii)
    size = (high - low).max(axis=1)
    # crooked lines of straight relations
    astray = np.maximum(np.abs(delta) - problem.corridor, 0).sum(axis=(1, 2, 3)) / 2
    return hard + size + 0.35 * astray + 0.6 * _covered_lines(points, delta, problem)


def _covered_lines(points: Floats, delta: Floats, problem: bubbles.Constraints) -> Floats:
    """Float[B]: total depth to which lines of related pairs lie under bubbles of other rooms."""
    squared = (delta**2).sum(axis=-1) + 1e-12
    # k projected on the segment j -> i: foot = p_j + along (p_i - p_j)
    towards = points[:, None, None, :, :] - points[:, None, :, None, :]
    along = (towards * delta[:, :, :, None, :]).sum(axis=-1) / squared[..., None]
    foot = towards - along.clip(0, 1)[..., None] * delta[:, :, :, None, :]
    depth = np.maximum(problem.radii[:, None, None, :] - np.sqrt((foot**2).sum(axis=-1)), 0)
    # third rooms only, and lines of related rooms outside each other
    ends = np.eye(points.shape[1], dtype=bool)
    third = ~(ends[:, None, :] | ends[None, :, :])
    line = problem.related & problem.apart
    return (depth * third * line[..., None]).sum(axis=(1, 2, 3)) / 2


Pair = tuple[int, int]

BENDS = np.array([0.0, 0.2, -0.2, 0.4, -0.4, 0.65, -0.65, 0.9, -0.9])
"""Candidate bends: offset of the control point, in lengths of the line."""
CLEARANCE = 0.07  # distance to a bubble below which a line is penalised
NUM_POINTS = 41

LINE_HALO = 0.12  # free space kept between a label and a line, in placement units
FLATNESS = 2.2  # weight of vertical against horizontal distances, since labels are wider than high


@dataclass(frozen=True)
class Line:
    """Line of points Float[P, 2] from rim to rim; ``depth``: bubbles around its deeper end."""

    points: Floats
    depth: int


def route_lines(placement: Placement, pairs: Iterable[Pair]) -> dict[Pair, Line]:
    """Route a line for each pair of bubbles, except for nested or touching ones. Lines are
    quadratic Bezier curves between the centres, cut at the rims. Each has the bend of lowest cost:
    its length under other bubbles, its part off the page, and the bend itself."""
    lines = {}
    for i, j in pairs:
        if placement.inside[i, j] or placement.inside[j, i]:
            continue
        points = best_curve(placement, i, j)
        if len(points) > 0:
            lines[i, j] = Line(points, int(max(placement.depth[i], placement.depth[j])))
    return lines


def best_curve(placement: Placement, i: int, j: int) -> Floats:
    """Points Float[P, 2] of the curve that connects two bubbles; empty if they touch."""
    # candidate curves, one for each bend
    centres, radii = placement.centres, placement.radii
    start, end = centres[i], centres[j]
    normal = np.array([start[1] - end[1], end[0] - start[0]])
    t = np.linspace(0, 1, NUM_POINTS)[:, None]
    control = (start + end) / 2 + BENDS[:, None, None] * normal
    curves = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    # cost of a curve: its length under other bubbles, its part off the page, its bend
    surrounding = placement.inside[i] | placement.inside[j]
    others = ~surrounding & ~placement.inside[:, i] & ~placement.inside[:, j]
    others[[i, j]] = False
    away = np.linalg.norm(curves[:, :, None, :] - centres[others], axis=-1)
    hidden = np.maximum(radii[others] + CLEARANCE - away, 0).sum(axis=(1, 2)) / NUM_POINTS
    off_page = np.maximum(np.abs(curves) - max(placement.extent) / 2, 0).sum(axis=(1, 2))
    cost = hidden * np.linalg.norm(normal) + off_page + 0.05 * np.abs(BENDS)
    curve = curves[cost.argmin()]
    # its part outside the discs around its ends; empty if these meet
    from_start = np.linalg.norm(curve - curve[0], axis=1) - radii[i]
    from_end = np.linalg.norm(curve - curve[-1], axis=1) - radii[j]
    outside = np.flatnonzero((from_start > 0) & (from_end > 0))
    if len(outside) == 0:
        return curve[:0]

    def crossing(level: Floats, inner: int, outer: int) -> Floats:
        """Point between two neighbouring points of the curve at which ``level`` is 0."""
        share = level[outer] / (level[outer] - level[inner])
        return curve[outer] + share * (curve[inner] - curve[outer])

    first, last = outside[0], outside[-1]
    rims = crossing(from_start, first - 1, first), crossing(from_end, last + 1, last)
    return np.stack([rims[0], *curve[first : last + 1], rims[1]])


def label_spot(placement: Placement, lines: Collection[Line], room: int) -> tuple[Floats, float]:
    """Centre Float[2] and largest width of the label of a bubble, in placement units. The centre is
    that of the bubble if no other bubbles cover it; else the point of a polar grid with the most
    space to the rim, these bubbles and their lines."""
    centre, radius = placement.centres[room], float(placement.radii[room])
    distance = np.linalg.norm(placement.centres - centre, axis=1)
    covers = (distance < placement.radii + radius) & ~placement.inside[room]
    covers[room] = False
    # nothing covers the bubble
    if not covers.any():
        return centre, 1.7 * radius
    # obstacles: covering bubbles, and lines above this bubble
    over = [line.points for line in lines if line.depth > placement.depth[room]]
    obstacles = np.concatenate([placement.centres[covers], *over])
    sizes = np.full(len(obstacles), LINE_HALO)
    sizes[: covers.sum()] = placement.radii[covers]

    # free space of each grid point: to the obstacles, and to the rim
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False) - np.pi / 2
    reach = np.linspace(0.0, 0.9, 16)[:, None, None] * radius
    spots = (reach * np.stack([np.cos(angles), np.sin(angles)], axis=-1)).reshape(-1, 2)
    towards = (centre + spots)[:, None, :] - obstacles
    length = np.linalg.norm(towards, axis=-1).clip(min=1e-9)
    free = np.linalg.norm(towards * np.array([1.0, FLATNESS]), axis=-1) * (1 - sizes / length)
    # width of the bubble at the height of the label
    chord = np.sqrt(np.maximum(radius**2 - (np.abs(spots[:, 1]) + 0.12) ** 2, 0))
    half_width = np.minimum(free.min(axis=1), chord - np.abs(spots[:, 0]))
    best = int(half_width.argmax())
    return centre + spots[best], float(max(1.8 * half_width[best], 0.5 * radius))

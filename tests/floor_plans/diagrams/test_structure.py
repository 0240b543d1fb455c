"""What a set of diagrams says of itself, against hand-computed values and networkx."""

import itertools

import networkx
import numpy as np
import pytest
from diagram_examples import REL, SOUND, diagram, graph, random_diagrams

from discrete_diffusion.layout import RELATION_X_ORDER, RELATION_Y_ORDER
from floor_plans import BubbleDiagram, PartialDiagram, generate_plans
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import never_valid, stratified_metrics, structure_metrics
from floor_plans.diagrams.vocabulary import FORBIDDEN_INSIDE
from plan_examples import agrees

HORIZONTAL_AND_VERTICAL = ("horizontally_transitive", "vertically_transitive")


def shares(diagrams, *names):
    found = structure_metrics(diagrams)
    return tuple(found[name] for name in names)


def test_each_way_of_being_invalid():
    apart = diagram("LivingRoom Kitchen Bathroom", (0, 1, "above"))
    two_living = diagram("LivingRoom LivingRoom", (0, 1, "above"))
    two_entrances = diagram("LivingRoom Entrance Entrance", (0, 1, "above"), (0, 2, "right-of"))
    no_living = diagram("Kitchen Bathroom", (0, 1, "left-of"))

    found = structure_metrics([SOUND, apart, two_living, two_entrances, no_living])
    assert found["valid"] == 2 / 5  # SOUND, and no_living: zero living rooms are "at most one"
    assert found["connected"] == 4 / 5
    assert found["at_most_one_living_room"] == 4 / 5
    assert found["at_most_one_entrance"] == 4 / 5
    assert found["exactly_one_living_room"] == 3 / 5


@pytest.mark.parametrize("one_at_most", [0, 10])  # a living room, an entrance
def test_never_valid_is_what_no_completion_is(one_at_most):
    pairs = ((0, 1), (0, 2), (1, 2))
    complete = [
        PartialDiagram(rooms, tuple((i, j, r) for (i, j), r in zip(pairs, codes, strict=True)))
        for rooms in itertools.product((one_at_most, 2), repeat=3)
        for codes in itertools.product((2, 10), repeat=3)
    ]
    plans = [BubbleDiagram(p.rooms, tuple(t for t in p.relations if t[2] != 10)) for p in complete]
    valid = [plan for plan in plans if structure_metrics([plan])["valid"] == 1]
    assert 0 < len(valid) < len(plans)
    for rooms in itertools.product((one_at_most, 2, None), repeat=3):
        for codes in itertools.product((2, 10, None), repeat=3):
            told = zip(pairs, codes, strict=True)
            partial = PartialDiagram(rooms, tuple((i, j, r) for (i, j), r in told if r is not None))
            can_be = any(agrees(partial, plan) for plan in valid)
            assert (never_valid(partial) is None) == can_be


def test_one_room_is_connected_and_two_unrelated_rooms_are_not():
    assert shares([BubbleDiagram((0,), ())], "valid") == (1.0,)
    assert shares([BubbleDiagram((0, 1), ())], "connected") == (0.0,)


def test_forbidden_containments_are_the_69_of_the_audit():
    # written the other way round: the types a room of each type may lie in, its own and Wall-in
    # (12) left out
    allowed_outer = {
        0: set(),
        1: {0},
        2: {0, 4},
        3: {0, 1, 2, 4, 5, 6, 7, 8, 9, 11},
        4: {0, 2, 6, 7},
        5: {0, 1, 6, 7, 8},
        6: {0, 1, 2, 4, 5, 7, 8, 11},
        7: {0, 1, 2, 4, 5, 6, 8, 11},
        8: {0, 1, 2, 4, 5, 6, 7, 11},
        9: {0, 1, 4, 5, 7, 8},
        10: {0},
        11: {0, 1, 2, 3, 4, 5, 6, 7, 8, 10},
    }
    for inner, allowed in allowed_outer.items():
        assert set(FORBIDDEN_INSIDE[inner]) == set(range(12)) - {inner} - allowed
    assert sum(map(len, FORBIDDEN_INSIDE.values())) == 69


def test_inside_validity_tries_every_pair_both_ways():
    for inner in range(13):
        for outer in range(13):
            expected = 0.0 if outer in FORBIDDEN_INSIDE.get(inner, ()) else 1.0
            one_way = BubbleDiagram((inner, outer), ((0, 1, REL["inside"]),))
            other_way = BubbleDiagram((outer, inner), ((0, 1, REL["surrounding"]),))
            for way in (one_way, other_way):
                assert shares([way], "inside_valid") == (expected,)


def test_structure_agrees_with_networkx():
    diagrams = random_diagrams(200, seed=11)
    connected, acyclic = [], []
    for d in diagrams:
        graph = networkx.Graph()
        graph.add_nodes_from(range(len(d.rooms)))
        graph.add_edges_from((i, j) for i, j, _ in d.relations)
        connected.append(networkx.is_connected(graph))
        per_axis = []
        for order in (RELATION_X_ORDER, RELATION_Y_ORDER):
            arcs = [((i, j) if order[r] < 0 else (j, i)) for i, j, r in d.relations if order[r]]
            per_axis.append(networkx.is_directed_acyclic_graph(networkx.DiGraph(arcs)))
        acyclic.append(per_axis)
    found = structure_metrics(diagrams)
    assert found["connected"] == np.mean(connected)
    assert [found[name] for name in HORIZONTAL_AND_VERTICAL] == np.mean(acyclic, axis=0).tolist()
    assert found["transitive"] == np.mean(np.all(acyclic, axis=1))


def test_edges_by_hand():
    one, three = BubbleDiagram((0,), ()), SOUND
    assert shares([one, three], "edges_per_diagram", "edge_presence") == (1.0, 2 / 3)  # of 3 pairs
    pooled = [graph(2, (0, 1)), graph(4)]  # not a mean of shares
    assert shares(pooled, "edge_presence") == (1 / 7,)
    assert shares([one], "edge_presence") == (0.0,)
    assert shares([graph(2, (0, 1))], "edge_presence") == (1.0,)


def test_strata_are_the_diagrams_of_each_room_count():
    diagrams = random_diagrams(120, seed=3)
    strata = stratified_metrics(diagrams)
    assert list(strata) == sorted({d.num_rooms for d in diagrams})
    for n, found in strata.items():
        alone = [d for d in diagrams if d.num_rooms == n]
        assert found == {"num_diagrams": len(alone), **structure_metrics(alone)}
    pooled = sum(s["valid"] * s["num_diagrams"] for s in strata.values()) / len(diagrams)
    assert pooled == pytest.approx(structure_metrics(diagrams)["valid"])


LIVING, MASTER, BATH = 0, 1, 3
PLANS = [
    BubbleDiagram((LIVING, BATH, BATH), ((0, 1, 2), (1, 2, 3))),  # right-of read from the bath
    BubbleDiagram((BATH, LIVING), ((0, 1, 0),)),  # the living room is right-below
    BubbleDiagram((MASTER,), ()),
]


def test_counts_by_hand():
    measured = DiagramSet(PLANS)
    assert measured.degree_counts.tolist() == [1, 4, 1]
    assert measured.relation_counts.tolist() == [0, 0, 1, 0.5, 0, 0, 0.5, 0, 0, 1]
    share = measured.share_related(1)
    assert share[LIVING, BATH] == share[BATH, LIVING] == pytest.approx(2 / 3)
    assert share[BATH, BATH] == 1
    assert np.isnan(share[LIVING, MASTER])
    assert np.isnan(measured.share_related(least=2)[BATH, BATH])


def test_counts_do_not_depend_on_the_order_of_rooms():
    plans = generate_plans(200, seed=3)
    rng = np.random.default_rng(0)
    shuffled = [plan.relabelled(rng.permutation(plan.num_rooms)) for plan in plans]
    one, other = DiagramSet(plans), DiagramSet(shuffled)
    for name in ("num_relations", "relation_counts", "pair_histogram", "degree_histogram"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.relation_counts.sum() == sum(len(plan.relations) for plan in plans)
    assert one.pair_histogram.sum() == sum(p.num_rooms * (p.num_rooms - 1) / 2 for p in plans)

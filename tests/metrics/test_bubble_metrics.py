"""Bubble diagram metrics against hand-computed values and independent implementations."""

import networkx
import numpy as np
import pytest

from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.metrics import (
    bubble_metrics,
    edges_per_diagram,
    inside_validity,
    node_tv,
    relation_tv,
    room_count_w1,
    spatial_transitivity,
    validity,
)
from discrete_diffusion.rooms import (
    FORBIDDEN_INSIDE,
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    ROOM_TYPES,
)

ROOM = {name: code for code, name in enumerate(ROOM_TYPES)}
REL = {name: code for code, name in enumerate(RELATIONS)}
SOUND = BubbleDiagram((0, 1, 2), ((0, 1, REL["left-of"]), (1, 2, REL["above"])))


def diagram(rooms: str, *relations: tuple[int, int, str]) -> BubbleDiagram:
    """Rooms by name, relations by name."""
    return BubbleDiagram(
        tuple(ROOM[name] for name in rooms.split()), tuple((i, j, REL[r]) for i, j, r in relations)
    )


def relabelled(original: BubbleDiagram, order: np.ndarray) -> BubbleDiagram:
    """Room k becomes room order[k]; a pair that swaps its ends reads 9 - r."""
    rooms = [0] * len(order)
    for old, new in enumerate(order):
        rooms[new] = original.rooms[old]
    relations = []
    for i, j, r in original.relations:
        u, v = int(order[i]), int(order[j])
        relations.append((u, v, r) if u < v else (v, u, 9 - r))
    return BubbleDiagram(tuple(rooms), tuple(relations))


def random_diagram(rng: np.random.Generator, density: float = 0.45) -> BubbleDiagram:
    n = int(rng.integers(1, 9))
    return BubbleDiagram(
        tuple(int(k) for k in rng.integers(0, len(ROOM_TYPES), n)),
        tuple(
            (i, j, int(rng.integers(0, 10)))
            for i in range(n)
            for j in range(i + 1, n)
            if rng.random() < density
        ),
    )


def test_a_sound_diagram_passes_everything():
    scores = bubble_metrics([SOUND], [SOUND])
    shares = {
        k: v for k, v in scores.items() if "tv" not in k and "w1" not in k and "edges" not in k
    }
    assert shares == dict.fromkeys(shares, 1.0)
    assert scores["node_tv"] == scores["relation_tv"] == scores["room_count_w1"] == 0.0
    assert scores["edges_per_diagram"] == scores["edges_per_diagram_reference"] == 2.0


def test_metric_names_are_stable():
    assert list(bubble_metrics([SOUND], [SOUND])) == [
        "valid",
        "connected",
        "at_most_one_living_room",
        "at_most_one_entrance",
        "exactly_one_living_room",
        "transitive",
        "horizontally_transitive",
        "vertically_transitive",
        "inside_valid",
        "edges_per_diagram",
        "node_tv",
        "relation_tv",
        "room_count_w1",
        "edges_per_diagram_reference",
    ]


def test_each_way_of_being_invalid():
    apart = diagram("LivingRoom Kitchen Bathroom", (0, 1, "above"))
    two_living = diagram("LivingRoom LivingRoom", (0, 1, "above"))
    two_entrances = diagram("LivingRoom Entrance Entrance", (0, 1, "above"), (0, 2, "right-of"))
    no_living = diagram("Kitchen Bathroom", (0, 1, "left-of"))

    result = validity([SOUND, apart, two_living, two_entrances, no_living])
    assert result.overall == 2 / 5  # SOUND, and no_living: zero living rooms are "at most one"
    assert result.connected == 4 / 5
    assert result.at_most_one_living_room == 4 / 5
    assert result.at_most_one_entrance == 4 / 5
    assert result.one_living_room == 3 / 5


def test_one_room_is_connected_and_two_unrelated_rooms_are_not():
    assert validity([BubbleDiagram((0,), ())]).overall == 1.0
    assert validity([BubbleDiagram((0, 1), ())]).connected == 0.0


def test_small_diagrams_stay_connected_beside_large_ones():
    chain = BubbleDiagram((0, 1, 2, 3, 9, 9), tuple((k, k + 1, 2) for k in range(5)))
    assert validity([SOUND, chain]).connected == 1.0


def test_a_left_of_cycle_breaks_only_the_horizontal_order():
    cycle = diagram(
        "LivingRoom Kitchen Bathroom",
        (0, 1, "left-of"),
        (1, 2, "left-of"),
        (0, 2, "right-of"),
    )
    result = spatial_transitivity([cycle])
    assert (result.overall, result.horizontal, result.vertical) == (0.0, 0.0, 1.0)


def test_a_cycle_of_diagonals_breaks_only_the_axis_it_runs_on():
    # y: 0 above 1, 1 above 2, 2 above 0; x: left, right, and nothing said
    cycle = diagram(
        "LivingRoom Kitchen Bathroom",
        (0, 1, "left-above"),
        (1, 2, "right-above"),
        (0, 2, "below"),
    )
    result = spatial_transitivity([cycle, SOUND])
    assert (result.overall, result.horizontal, result.vertical) == (0.5, 1.0, 0.5)


def test_containment_orders_nothing():
    nested = diagram(
        "LivingRoom Bathroom Kitchen", (0, 1, "surrounding"), (1, 2, "left-of"), (0, 2, "right-of")
    )
    assert spatial_transitivity([nested]).overall == 1.0


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
            assert inside_validity([one_way]) == inside_validity([other_way]) == expected


def test_inside_validity_examples():
    living_in_kitchen = diagram("LivingRoom Kitchen", (0, 1, "inside"))
    master_in_living = diagram("LivingRoom MasterRoom", (0, 1, "surrounding"))
    beside = diagram("LivingRoom Kitchen", (0, 1, "left-of"))
    assert inside_validity([living_in_kitchen, master_in_living, beside, beside]) == 0.75


def test_node_tv_by_hand():
    # p = (1/2, 1/2, 0), q = (1/4, 0, 3/4) over living, master, kitchen
    samples = [BubbleDiagram((0, 1), ())]
    reference = [BubbleDiagram((0, 2), ()), BubbleDiagram((2, 2), ())]
    assert node_tv(samples, reference) == pytest.approx(0.75)
    assert node_tv(samples, [BubbleDiagram((5,), ())]) == 1.0


def test_relation_tv_reads_every_edge_from_the_lower_type():
    # the same statement written from either end
    one_way = diagram("LivingRoom Kitchen", (0, 1, "left-of"))
    other_way = diagram("Kitchen LivingRoom", (0, 1, "right-of"))
    assert relation_tv([one_way], [other_way]) == 0.0
    opposite = diagram("Kitchen LivingRoom", (0, 1, "left-of"))
    assert relation_tv([one_way], [opposite]) == 1.0


def test_relation_tv_halves_an_edge_between_equal_types():
    twins = diagram("Bathroom Bathroom", (0, 1, "left-of"))  # half left-of, half right-of
    assert relation_tv([twins], [diagram("Bathroom Bathroom", (0, 1, "right-of"))]) == 0.0
    assert relation_tv([twins], [diagram("LivingRoom Bathroom", (0, 1, "left-of"))]) == 0.5


def test_relation_tv_without_relations():
    bare = BubbleDiagram((0, 1), ())
    assert relation_tv([bare], [bare]) == 0.0
    assert relation_tv([bare], [SOUND]) == relation_tv([SOUND], [bare]) == 1.0


def test_edges_and_room_counts_by_hand():
    one, three = BubbleDiagram((0,), ()), SOUND
    assert edges_per_diagram([one, three]) == 1.0
    assert room_count_w1([one], [three]) == 2.0
    assert room_count_w1([one, three], [three, three]) == 1.0
    assert room_count_w1([one, three], [three, one]) == 0.0


def test_metrics_do_not_depend_on_the_order_of_rooms():
    rng = np.random.default_rng(7)
    samples = [random_diagram(rng) for _ in range(60)]
    reference = [random_diagram(rng, density=0.6) for _ in range(40)]
    expected = bubble_metrics(samples, reference)
    for _ in range(5):
        shuffled = [relabelled(d, rng.permutation(len(d.rooms))) for d in samples]
        assert bubble_metrics(shuffled, reference) == expected
        assert relation_tv(shuffled, samples) == 0.0
    assert 0 < expected["transitive"] < 1
    assert 0 < expected["inside_valid"] < 1
    assert 0 < expected["connected"] < 1


def test_structure_agrees_with_networkx():
    rng = np.random.default_rng(11)
    diagrams = [random_diagram(rng) for _ in range(200)]
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
    assert validity(diagrams).connected == np.mean(connected)
    result = spatial_transitivity(diagrams)
    assert (result.horizontal, result.vertical) == tuple(np.mean(acyclic, axis=0))
    assert result.overall == np.mean(np.all(acyclic, axis=1))


@pytest.mark.parametrize(
    "measure", [validity, spatial_transitivity, inside_validity, edges_per_diagram]
)
def test_no_diagrams_is_an_error(measure):
    with pytest.raises(ValueError, match="no diagrams to measure"):
        measure([])


@pytest.mark.parametrize("compare", [node_tv, relation_tv, room_count_w1, bubble_metrics])
def test_no_diagrams_to_compare_is_an_error(compare):
    with pytest.raises(ValueError, match="no diagrams to measure"):
        compare([SOUND], [])

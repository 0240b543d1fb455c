"""Diagrams of both vocabularies: codes, tokens, files, metrics and pictures."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from discrete_diffusion.data import canonical_orders, relabel
from discrete_diffusion.data.graph_tokens import random_orders
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans import BubbleDiagram, PartialDiagram, decode, encode, read_diagrams, write_diagrams
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.graph_formats import from_graphml, to_graphml
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import bubble_metrics, structure_metrics
from floor_plans.diagrams.partial import decode_partial, encode_partial
from floor_plans.diagrams.pictures.diagram_pictures import plot_grid
from floor_plans.diagrams.tokens import symmetric_images
from floor_plans.diagrams.vocabulary import (
    ADJACENCY,
    ADJACENT,
    DIRECTIONS,
    DOOR,
    RELATIONS,
    ROOM_TYPES,
    vocabulary_named,
    vocabulary_of_graph,
)
from floor_plans.drawings.readers import ReadOptions, numbered_partials, read_report
from floor_plans.learning.arrangements import ArrangementTree
from floor_plans.learning.weighing import list_arrangements
from plan_examples import place_diagram

CODES = [ROOM_TYPES.index(name) for name in ADJACENCY.room_types]
LIVING, KITCHEN, BATH, BEDROOM = (
    ROOM_TYPES.index(name) for name in ("LivingRoom", "Kitchen", "Bathroom", "Bedroom")
)
FLAT = BubbleDiagram(
    (LIVING, KITCHEN, BEDROOM, BATH), ((0, 1, ADJACENT), (0, 2, DOOR), (2, 3, DOOR))
)


def random_plans(num: int, *, least: int = 1, most: int = 20, seed: int = 0) -> list[BubbleDiagram]:
    rng = np.random.default_rng(seed)
    plans = []
    for _ in range(num):
        n = int(rng.integers(least, most, endpoint=True))
        related = np.argwhere(np.triu(rng.random((n, n)) < 2 / n, k=1))
        plans.append(
            BubbleDiagram(
                tuple(rng.choice(CODES, n).tolist()),
                tuple((int(i), int(j), int(rng.choice([ADJACENT, DOOR]))) for i, j in related),
            )
        )
    return plans


def test_the_graph_of_each_vocabulary():
    assert DIRECTIONS.graph(8) == RPLAN_VOCAB_CONFIG  # ids of all earlier checkpoints
    graph = ADJACENCY.graph(20)
    assert (graph.num_node_types, graph.edge_types) == (10, ("adjacent", "door", "no-edge"))
    assert graph.edge_inverse == (0, 1, 2)
    assert graph.length == 210
    for vocabulary in (DIRECTIONS, ADJACENCY):
        assert vocabulary_of_graph(vocabulary.graph(5)) is vocabulary
        assert vocabulary_named(vocabulary.name) is vocabulary
    with pytest.raises(ValueError, match="did you mean 'adjacency'"):
        vocabulary_named("adjacent")
    with pytest.raises(ValueError, match="no vocabulary of diagrams has the types C, N"):
        vocabulary_of_graph(VocabConfig(n_max=3, node_types=("C", "N"), edge_types=("single", "0")))


def test_a_diagram_is_of_one_vocabulary():
    assert FLAT.vocabulary is ADJACENCY
    assert BubbleDiagram((LIVING, KITCHEN), ()).vocabulary is DIRECTIONS  # both have them
    with pytest.raises(DiagramError, match=r"rooms\[1\].*'MasterRoom' is not a room type"):
        BubbleDiagram((LIVING, ROOM_TYPES.index("MasterRoom")), ((0, 1, DOOR),))
    with pytest.raises(DiagramError, match=r"relations\[0\].*'above' is not a relation"):
        BubbleDiagram((0, 2, 2), ((0, 1, RELATIONS.index("above")), (0, 2, DOOR)))
    with pytest.raises(DiagramError, match=r"rooms\[1\].*it may be MasterRoom or SecondRoom"):
        BubbleDiagram((LIVING, BEDROOM), ((0, 1, RELATIONS.index("above")),))


def test_relabelling_keeps_what_has_no_direction():
    moved = FLAT.relabelled([3, 1, 2, 0])
    assert set(moved.relations) == {(1, 3, ADJACENT), (2, 3, DOOR), (0, 2, DOOR)}
    for plan in random_plans(20, seed=1):
        order = np.random.default_rng(2).permutation(plan.num_rooms)
        assert plan.relabelled(order).canonical_key() == plan.canonical_key()
    other = BubbleDiagram(FLAT.rooms, ((0, 1, DOOR), (0, 2, DOOR), (2, 3, DOOR)))
    assert other.canonical_key() != FLAT.canonical_key()


def test_tokens_count_only_the_types_of_their_vocabulary():
    vocab = ADJACENCY.graph(20)
    plans = random_plans(30)
    encoded = encode(plans, vocab)
    vocab.layout().check(encoded.x0, encoded.real)
    assert decode(encoded.x0, vocab) == plans
    partials = [PartialDiagram.from_diagram(plan) for plan in plans]
    assert decode_partial(encode_partial(partials, vocab), vocab) == partials
    with pytest.raises(ValueError, match="diagram 1 has Bedroom, adjacent, door; the vocabulary"):
        encode([BubbleDiagram((LIVING,), ()), FLAT])
    with pytest.raises(ValueError, match="diagram 0 has MasterRoom"):
        encode([BubbleDiagram((1,), ())], vocab)
    with pytest.raises(ValueError, match=r"data\.symmetry=mirror: relations without direction"):
        symmetric_images(encoded, vocab, "mirror")


@pytest.mark.parametrize("vocabulary", [ADJACENCY, DIRECTIONS], ids=lambda v: v.name)
def test_canonical_orders_and_automorphisms_of_large_plans(vocabulary):
    """Cycles, stars and cliques of 33 equal rooms, whose groups are known, and random relabellings
    of plans get the same tokens."""
    n, relation = 33, vocabulary.graph(33).num_edge_types - 2
    code = RELATIONS.index(vocabulary.relations[relation])
    if vocabulary.has_directions:
        graphs = {nx.empty_graph(n): 1.0}
        log_size = float(torch.arange(1, n + 1).double().log().sum())
        expected = [0.0 for _ in graphs]
    else:
        graphs = {nx.cycle_graph(n): 1, nx.star_graph(n - 1): 1, nx.complete_graph(n): 1}
        log_factorial = torch.arange(1, n + 1).double().log().cumsum(0)
        log_size = float(log_factorial[-1])
        expected = [
            log_size - float(torch.tensor(2.0 * n).log()),
            log_size - float(log_factorial[n - 2]),
            0.0,
        ]
    plans = [
        BubbleDiagram((LIVING,) * n, tuple((*sorted(edge), code) for edge in graph.edges))
        for graph in graphs
    ]
    vocab = vocabulary.graph(n)
    encoded = encode(plans, vocab)
    found = canonical_orders(encoded.x0, encoded.num_nodes, vocab)
    assert found.log_num_orders.tolist() == pytest.approx(expected, abs=1e-4)
    encoded = encode(random_plans(25, least=15, most=n), ADJACENCY.graph(n))
    vocab = ADJACENCY.graph(n)
    order = random_orders(encoded.num_nodes, n, torch.Generator().manual_seed(0))
    moved = relabel(encoded.x0, encoded.num_nodes, order, vocab)
    canonical = [
        relabel(x, encoded.num_nodes, canonical_orders(x, encoded.num_nodes, vocab).orders, vocab)
        for x in (encoded.x0, moved)
    ]
    assert not torch.equal(moved, encoded.x0)
    assert torch.equal(*canonical)


def test_files_hold_either(tmp_path):
    plans = [BubbleDiagram((LIVING, KITCHEN), ()), *random_plans(12)]
    path = tmp_path / "plans.jsonl"
    write_diagrams(path, plans)
    assert read_diagrams(path, max_nodes=20) == plans
    assert '"door"' in path.read_text()
    assert '"Bedroom"' in path.read_text()
    assert from_graphml(to_graphml(FLAT)) == FLAT
    with pytest.raises(ValueError, match=r"rooms\[2\]: 'Bedroom' has no code in the table rplan"):
        FLAT.to_json(names=False)
    with pytest.raises(ValueError, match=r"plans.jsonl, line \d+, .*data.relations=adjacency"):
        read_report(path, ReadOptions(max_nodes=20, vocabulary=DIRECTIONS))
    with path.open("a") as file:
        file.write('{"rooms": ["MasterRoom", "Kitchen"], "relations": [[0, 1, "above"]]}\n')
    with pytest.raises(ValueError, match=r"line 14, .*'MasterRoom' is not a room type of plans"):
        read_report(path, ReadOptions(max_nodes=20))
    report = read_report(path, ReadOptions(max_nodes=20, skip_invalid=True))
    assert list(report.diagrams) == plans
    assert len(report.places) == len(plans)
    assert [problem.record for problem in report.problems] == ["line 14"]


def test_partial_plans_say_words_of_the_model(tmp_path):
    path = tmp_path / "partial.jsonl"
    path.write_text('{"rooms": ["bath", "entry", null], "relations": [[1, 0, "door"]]}\n')
    (partial,) = numbered_partials(path, vocabulary=ADJACENCY).values()
    assert partial.relations == ((0, 1, DOOR),)
    with pytest.raises(
        ValueError, match=r"line 1, field 'relations\[0\]': 'door' is not a relation"
    ):
        numbered_partials(path, vocabulary=DIRECTIONS)
    path.write_text('{"rooms": ["bedroom", null]}\n')
    with pytest.raises(ValueError, match=r"it may be MasterRoom or SecondRoom"):
        numbered_partials(path, vocabulary=DIRECTIONS)


def test_every_arrangement_holds_what_is_given():
    rooms = (LIVING, BEDROOM, BEDROOM, None, None)
    partial = PartialDiagram(rooms, ((0, 1, DOOR), (0, 2, ADJACENT), (1, 3, DOOR)))
    vocab = ADJACENCY.graph(6)
    tree, generator = ArrangementTree(partial, vocab), torch.Generator().manual_seed(0)
    listed = list_arrangements(tree, 10_000, generator)
    for states, slots in zip(
        decode_partial(listed.arrangements.tokens, vocab),
        listed.arrangements.slots.tolist(),
        strict=True,
    ):
        assert [states.rooms[slot] for slot in slots] == [*rooms]
        said = {(i, j): r for i, j, r in states.relations}
        placed = {tuple(sorted((slots[i], slots[j]))): r for i, j, r in partial.relations}
        assert said == placed
    rows = (tokens[:5] != vocab.mask_id for tokens in listed.arrangements.tokens)
    assert len({tuple(row.tolist()) for row in rows}) == 10  # of 5 slots 3 show a type
    assert listed.error is None
    some = list_arrangements(tree, 7, generator)
    assert len(some.arrangements) < len(listed.arrangements)
    assert some.error > 0


def test_metrics_leave_out_what_needs_directions():
    plans, others = random_plans(60), random_plans(60, seed=3)
    structure = structure_metrics(plans)
    assert [*structure] == ["connected", "edges_per_diagram", "edge_presence"]
    graphs = [nx.Graph([(i, j) for i, j, _ in plan.relations]) for plan in plans]
    for graph, plan in zip(graphs, plans, strict=True):
        graph.add_nodes_from(range(plan.num_rooms))
    assert structure["connected"] == np.mean([nx.is_connected(graph) for graph in graphs])
    same, other = bubble_metrics(plans, plans), bubble_metrics(others, plans)
    assert "transitive" not in same
    assert same["conditional_relation_tv"] == 0
    assert same["relation_tv"] == 0 < other["relation_tv"]
    walls = [BubbleDiagram((LIVING, BEDROOM), ((0, 1, ADJACENT),))]
    assert bubble_metrics(walls, [FLAT])["relation_tv"] == pytest.approx(2 / 3)


def test_samples_take_the_vocabulary_of_the_reference():
    bare = [BubbleDiagram((LIVING, KITCHEN), ())]  # alone, they could be either's
    assert DiagramSet(bare).vocabulary is DIRECTIONS
    found = bubble_metrics(bare, random_plans(20), training=bare)
    assert found["relation_tv"] == 1
    assert found["novelty"] == 0
    assert "valid" not in found


def test_plans_without_directions_unfold():
    """Neighbours along a path of 20 rooms stand close to each other, others do not, and no bubbles
    overlap."""
    path = BubbleDiagram((BEDROOM,) * 20, tuple((k, k + 1, DOOR) for k in range(19)))
    placement = place_diagram(path)
    distance = np.linalg.norm(placement.centres[:, None] - placement.centres, axis=-1)
    near = distance[np.arange(19), np.arange(1, 20)]
    apart = distance[np.triu_indices(20, k=2)]
    assert near.mean() < np.median(apart) / 2
    clear = distance + 1e-9 - placement.radii[:, None] - placement.radii
    assert clear[np.triu_indices(20, k=1)].min() > 0


@pytest.mark.slow
def test_pictures_tell_walls_from_doors(tmp_path):
    picture = tmp_path / "plans.svg"
    plot_grid([FLAT, *random_plans(2, least=20, most=33)], picture)
    text = picture.read_text()
    assert "Door" in text
    assert "Wall" in text
    assert "#cdd5e0" in text
    plot_grid([BubbleDiagram((0, 1), ((0, 1, 2),))], picture)
    assert "Door" not in picture.read_text()

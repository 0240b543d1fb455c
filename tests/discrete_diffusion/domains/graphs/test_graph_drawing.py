from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graph_examples import PATH3, STAR4, TRIANGLE, TYPED, graph, of_networkx
from matplotlib.image import imread

from discrete_diffusion.domains.graphs.records import GraphTypes
from discrete_diffusion.domains.graphs.samples import node_positions, plot_graphs


@pytest.mark.parametrize(
    "found", [graph(1), graph(3), PATH3, STAR4, of_networkx(nx.gnp_random_graph(30, 0.1, seed=0))]
)
def test_every_node_has_a_place_of_its_own(found):
    points = node_positions(found)
    assert points.shape == (len(found.nodes), 2)
    assert np.isfinite(points).all()
    assert len(np.unique(points.round(6), axis=0)) == len(found.nodes)


def test_the_same_graph_is_placed_the_same():
    found = of_networkx(nx.grid_2d_graph(4, 4))
    np.testing.assert_array_equal(node_positions(found), node_positions(found))


def test_a_page(tmp_path):
    plot_graphs([PATH3, TRIANGLE, graph(1)], tmp_path / "page.png", GraphTypes())
    plain = imread(tmp_path / "page.png")
    for corner in (plain[:300, :300], plain[:300, 400:], plain[400:, :300]):
        assert (corner[..., :3] < 0.9).any()  # each of the three is drawn
    assert (plain[400:, 400:, :3] == 1).all()
    names = {"titles": ["first"], "given": [frozenset({(0, 1)})]}
    plot_graphs([PATH3], tmp_path / "typed.svg", TYPED, **names)
    text = (tmp_path / "typed.svg").read_text()
    assert all(f"<!-- {word} -->" in text for word in ("first", "a", "b", "thin", "thick"))
    assert "#d1495b" in text

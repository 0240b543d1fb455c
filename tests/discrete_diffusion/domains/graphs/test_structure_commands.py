"""``structure=`` of graphs through the commands and from Python."""

from __future__ import annotations

import json
import math
from pathlib import Path

import networkx as nx
import pytest
from graph_examples import train_on_trees

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.domains.graphs.domain import STRUCTURES, register_structure
from discrete_diffusion.domains.graphs.metrics import is_tree
from discrete_diffusion.domains.graphs.readers import read_graphs
from discrete_diffusion.sampling.graph_structures import GraphNarrowing


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train_on_trees(tmp_path_factory.mktemp("structure"), "trainer.max_steps=2")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


def refused(capsys, *words: str) -> str:
    with pytest.raises(SystemExit):
        main([*words])
    return capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["ancestral", "entropy-bounded"])
def test_sample(run, sampler, capsys):
    words = ["num_samples=12", "structure=tree", f"sampling={sampler}"]
    main(["sample", f"checkpoint={run}", *words, "out=s"])
    assert all(map(is_tree, read_graphs("s/samples.jsonl").graphs))
    metrics = read("s/metrics.json")
    assert (metrics["structure"], metrics["valid"]) == ("tree", 1)
    assert metrics["forced_draws_per_sample"] > 0.2
    assert 0 < metrics["mean_weight"] < 1
    assert metrics["log_mean_weight"] == pytest.approx(math.log(metrics["mean_weight"]))
    assert 1 <= metrics["effective_samples"] <= 12
    assert metrics["exact"] is False
    assert "narrowed" in metrics["approximate_because"]
    lines = [json.loads(line) for line in Path("s/samples.jsonl").read_text().splitlines()]
    assert all(line["log_weight"] <= 0 for line in lines)
    assert "says nothing about the model" in capsys.readouterr().out


def test_without_it_nothing_is_said_of_weights(run):
    main(["sample", f"checkpoint={run}", "num_samples=4", "out=s"])
    assert not {"structure", "forced_draws_per_sample", "mean_weight"} & set(read("s/metrics.json"))
    assert "log_weight" not in Path("s/samples.jsonl").read_text()


@pytest.mark.parametrize("name", ["forest", "connected", "planar"])
def test_from_python(run, name):
    graphs = load(run).sample(8, structure=name, nodes_per_graph=6)
    has = {"forest": nx.is_forest, "connected": nx.is_connected, "planar": nx.is_planar}[name]
    for graph in graphs:
        found = nx.empty_graph(6)
        found.add_edges_from((i, j) for i, j, _ in graph.edges)
        assert has(found)


@pytest.mark.slow
def test_evaluate(run):
    words = ["quick=true", "num_samples=6", "num_held_out=4", "reference_repeats=0", "steps=3"]
    main(["evaluate", f"checkpoint={run}", *words, "seeds=2", "structure=tree", "out=e"])
    metrics = read("e/metrics.json")
    assert (metrics["structure"], metrics["valid"]) == ("tree", 1)
    assert {"forced_draws_per_sample", "mean_weight", "effective_samples"} <= set(metrics)
    table = Path("e/table.md").read_text()
    assert "| forced_draws_per_sample |" in table
    assert "says nothing about the model" in table
    main(["evaluate", f"checkpoint={run}", *words, "out=free"])
    free = read("free/metrics.json")
    assert free["nelbo_unordered"] == metrics["nelbo_unordered"]  # the bound is of the model
    assert "structure" not in free


@pytest.mark.slow
def test_completions(run, capsys):
    lines = [{"n": 5, "edges": [[0, 1], [1, 2]], "non_edges": [[3, 4]]}, {"n": 3}]
    Path("some.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["given=some.jsonl", "completions=5", "structure=tree"]
    main(["sample", f"checkpoint={run}", *words, "out=c"])
    graphs = read_graphs("c/samples.jsonl").graphs
    assert all(map(is_tree, graphs))
    for graph in graphs[:5]:
        pairs = {(i, j) for i, j, _ in graph.edges}
        assert {(0, 1), (1, 2)} <= pairs
        assert (3, 4) not in pairs
    assert read("c/metrics.json")["forced_draws_per_sample"] > 0
    Path("some.jsonl").write_text('{"n": 3}\n\n{"n": 4, "edges": [[0, 1], [1, 2], [0, 2]]}')
    error = refused(capsys, "sample", f"checkpoint={run}", *words, "out=no")
    assert all(word in error for word in ("some.jsonl, line 3", "circle", "structure=tree"))
    given = [{"n": 3}, {"n": 3, "edges": [[0, 1], [1, 2], [0, 2]]}]
    with pytest.raises(ValueError, match=r"given\[1\].*circle"):
        load(run).sample(given=given, completions=2, structure="forest")


@pytest.mark.slow
def test_what_is_refused(run, capsys):
    for words, named in (
        (["structure=tre"], ("'tree'", "connected, forest, planar, tree")),
        (["structure=valence"], ("valence", "connected, forest, planar, tree")),
        (["structure=7"], ("7", "tree")),
        (["structure=tree", "sampling=confidence"], ("confidence", "first-hitting")),
        (["structure=tree", "sampling=speculative"], ("speculative", "first-hitting")),
    ):
        error = refused(capsys, "sample", f"checkpoint={run}", *words, "out=no")
        assert all(word in error for word in named), error
    assert not Path("no").exists()


def test_one_of_your_own_is_registered_in_a_line(run):
    @register_structure("empty")
    class Empty(GraphNarrowing):
        """No edge at all."""

        def allows_edge(self, x, i, j):
            return i < 0

    try:
        assert not any(graph.edges for graph in load(run).sample(5, structure="empty"))
    finally:
        del STRUCTURES.builders["empty"]

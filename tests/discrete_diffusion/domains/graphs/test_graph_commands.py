"""``data=graphs`` through the commands, with and without ``structure=``."""

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
from discrete_diffusion.sampling import Ancestral
from discrete_diffusion.sampling.graph_structures import GraphNarrowing
from interrupting import stop_at_call, stop_when_measuring, stopped


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The folder of trees and of a run on them."""
    folder = tmp_path_factory.mktemp("graphs")
    train_on_trees(folder, "trainer.max_steps=4")
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(path: str | Path) -> dict:
    return json.loads(Path(path).read_text())


@pytest.mark.slow
def test_a_run(run):
    metrics = read(run / "run" / "metrics.json")
    assert {"valid", "valid_unique_novel", "ratio", "mmd_orbit", "nelbo_unordered"} <= set(metrics)
    written = read_graphs(run / "run" / "samples.jsonl").graphs
    assert len(written) == metrics["num_samples"]
    assert {len(graph.nodes) for graph in written} <= set(range(3, 8))
    assert (run / "run" / "samples.png").is_file()


@pytest.mark.slow
def test_samples_of_a_size(run):
    words = ["num_samples=3", "nodes_per_graph=6", "steps=4", "out=mine"]
    main(["sample", f"checkpoint={run}/run", *words])
    graphs = read_graphs("mine/samples.jsonl").graphs
    assert [len(graph.nodes) for graph in graphs] == [6, 6, 6]
    metrics = read("mine/metrics.json")
    assert (metrics["num_samples"], metrics["nodes_per_graph"]) == (3, 6)
    assert 0 <= metrics["valid"] <= 1
    drawn = load(run / "run" / "checkpoints" / "best.ckpt").sample(num=3, steps=4)
    assert len(drawn) == 3


@pytest.mark.slow
def test_given_edges_and_missing_edges_are_kept(run):
    Path("partial.jsonl").write_text(
        '{"n": 5, "edges": [[0, 4], [1, 2]], "non_edges": [[0, 1]]}\n{"n": 7, "known_nodes": 4}\n'
    )
    words = ["given=partial.jsonl", "num_completions=3", "steps=5", "out=done", "picture=page.svg"]
    main(["sample", f"checkpoint={run}/run", *words])
    lines = [json.loads(line) for line in Path("done/samples.jsonl").read_text().splitlines()]
    assert [line["given"] for line in lines] == [1, 1, 1, 2, 2, 2]
    for line in lines[:3]:
        assert [0, 4] in line["edges"]
        assert [1, 2] in line["edges"]
        assert [0, 1] not in line["edges"]
    for line in lines[3:]:
        assert all(j >= 4 for _, j in line["edges"])
    metrics = read("done/metrics.json")
    assert (metrics["num_inputs"], metrics["completions"], metrics["exact"]) == (2, 3, False)
    assert metrics["approximate_because"].startswith("sampling=ancestral is approximate")
    assert Path("done/page.svg").read_text().count("line 1") == 3


@pytest.mark.slow
def test_one_token_per_call_is_exact(run, capsys):
    Path("partial.jsonl").write_text('{"n": 3, "edges": [[0, 1]]}\n')
    words = ["given=partial.jsonl", "num_completions=2", "sampling=first-hitting"]
    main(["sample", f"checkpoint={run}/run", *words, "out=exact"])
    metrics = read("exact/metrics.json")
    assert (metrics["exact"], metrics["network_calls_per_sample"]) == (True, 2)
    assert "sampling=planned" not in capsys.readouterr().out
    main(["sample", f"checkpoint={run}/run", *words, "steps=1", "out=fast"])
    assert read("fast/metrics.json")["approximate_because"] == "several tokens are sampled per call"
    assert "sampling=planned steps=1" in capsys.readouterr().out


def test_completions_that_are_finished_when_a_signal_comes_keep_their_lines(
    run, monkeypatch, capsys
):
    lines = [{"n": 3, "edges": [[0, 1]]}, {"n": 6, "edges": [[0, 5], [2, 3]]}]
    Path("partial.jsonl").write_text("\n".join(map(json.dumps, lines)))
    stop_at_call(monkeypatch, Ancestral, 2)
    words = ["given=partial.jsonl", "num_completions=4", "batch_size=4", "steps=3", "out=cut"]
    stopped(capsys, "sample", f"checkpoint={run}/run", *words)
    written = [json.loads(line) for line in Path("cut/samples.jsonl").read_text().splitlines()]
    assert [line["given"] for line in written] == [2] * 4  # the larger ones come first
    assert all([0, 5] in line["edges"] for line in written)


@pytest.mark.slow
def test_sizes_that_a_model_was_not_trained_on(run, capsys):
    Path("pair.jsonl").write_text('{"n": 2}\n{"n": 3}\n')
    main(["sample", f"checkpoint={run}/run", "given=pair.jsonl", "steps=1", "out=few"])
    said = "was trained on graphs of 3, 4, 5, 6, 7 nodes, on none of 2; samples"
    assert said in capsys.readouterr().out
    for words, reason in (
        (["nodes_per_graph=9"], "was trained on graphs of at most 7 nodes; ask for fewer"),
        (["nodes_per_graph=[3,2]"], "was trained on no graph of 2 nodes"),
        (["num_completions=3"], "num_completions=3 is for given=FILE; did you mean num_samples=3?"),
        (["num_atoms=3"], "was not trained on molecules"),
    ):
        with pytest.raises(SystemExit):
            main(["sample", f"checkpoint={run}/run", *words])
        assert reason in capsys.readouterr().err


QUICK = ["quick=true", "num_samples=6", "num_held_out=4", "reference_repeats=2", "steps=3"]


@pytest.mark.slow
def test_evaluate_a_checkpoint(run, capsys):
    main(["evaluate", f"checkpoint={run}/run", *QUICK, "num_seeds=2"])
    metrics = read("evaluation/metrics.json")
    assert (metrics["kind"], metrics["kernel"], metrics["num_training"]) == ("tree", "tv", 24)
    assert len(metrics["per_seed"]["valid_unique_novel"]) == 2
    assert metrics["floor_sizes"] == {"num_samples": 6, "num_reference": 4, "draws": 2}
    assert metrics["real"]["valid"] == metrics["real"]["ratio"] == 1
    assert {"nelbo_unordered", "nelbo_blind", "seeds"} <= set(metrics)
    table = Path("evaluation/table.md").read_text()
    assert "| mmd_wavelet |" in table
    assert "squared MMD with Gaussian kernels of total variation" in table
    assert {path.name for path in Path("evaluation").glob("*.png")} >= {"samples.png"}
    main(
        [
            "evaluate",
            f"checkpoint={run}/run",
            *QUICK,
            "pictures=false",
            "out=other",
            f"reference={run}/samples.jsonl",
            "kernel=emd",
            "likelihood_order=margin",
            "num_orders=3",
        ]
    )
    metrics = read("other/metrics.json")
    assert metrics["nelbo_by_orders"]["orders"] == [1, 2, 3]
    assert "nll_ordered_random_margin" in metrics
    assert (metrics["kernel"], metrics["num_held_out_available"]) == ("emd", 6)


def test_samples_are_kept_if_the_measuring_is_stopped(run, monkeypatch, capsys):
    stop_when_measuring(monkeypatch)
    stopped(capsys, "evaluate", f"checkpoint={run}/run", *QUICK)
    assert len(read_graphs("evaluation/samples.jsonl").graphs) == 6


@pytest.mark.slow
def test_evaluate_files(run, capsys):
    words = [f"samples={run}/samples.jsonl", "domain=graphs", "reference_repeats=0"]
    main(["evaluate", *words, f"reference={run}/trees.json", "kind=tree", "out=one"])
    metrics = read("one/metrics.json")
    assert metrics["valid"] == 1
    assert metrics["num_training"] == 24  # of the file with splits
    assert metrics["num_reference"] == metrics["num_samples"] == 6
    main(["evaluate", *words, f"reference={run}/samples.jsonl", "out=same", "pictures=false"])
    metrics = read("same/metrics.json")
    assert metrics["num_training"] is None
    assert metrics["mmd_spectral"] == pytest.approx(0, abs=1e-12)
    assert "ratio" not in metrics
    capsys.readouterr()
    for more, reason in (
        ([], "samples=FILE needs graphs to compare with: give reference=FILE"),
        ([f"reference={run}/trees.json", "kind=plane"], "expected one of planar, tree"),
        ([f"reference={run}/trees.json", "split=val"], "split=val chooses among the data"),
    ):
        with pytest.raises(SystemExit):
            main(["evaluate", *words, *more, "out=no"])
        assert reason in capsys.readouterr().err


@pytest.mark.slow
def test_compare(run):
    words = ["data=graphs", f"data.path={run}/trees.json", "data.graph_family=tree"]
    words += ["algos=[mdlm]", "backbones=[bd-denoiser-pair]", "model=bd_pair_tiny"]
    words += ["trainer.max_steps=2", "eval.num_samples=4", "eval.num_held_out=3"]
    main(
        ["compare", *words, "sampling=ancestral", "sampling.steps=3", "logger=none", "out=compared"]
    )
    table = Path("compared/table.md").read_text()
    assert "V.U.N." in table
    assert "nats per unordered graph" in table


def test_every_sample_of_a_file_counts(run):
    tree = '{"n": 3, "edges": [[0, 1], [1, 2]]}'
    words = ["domain=graphs", "reference_repeats=0", f"reference={run}/trees.json", "kind=tree"]
    words += ["skip_invalid=true", "pictures=false", "overwrite=true", "out=counted"]
    Path("half.jsonl").write_text(f"{tree}\n\n{tree}\nnull\n")
    main(["evaluate", "samples=half.jsonl", *words])
    metrics = read("counted/metrics.json")
    assert (metrics["num_samples"], metrics["num_unreadable_samples"]) == (4, [2])
    assert (metrics["valid"], metrics["connected"], metrics["unique"]) == (0.5, 0.5, 0.25)
    assert metrics["nodes_per_graph"] == 3
    assert "2 of 4 samples are not graphs" in Path("counted/table.md").read_text()
    Path("bad.jsonl").write_text("null\n\n{}\n")
    main(["evaluate", "samples=bad.jsonl", *words])
    metrics = read("counted/metrics.json")
    assert (metrics["valid"], metrics["valid_unique_novel"], metrics["num_samples"]) == (0, 0, 3)
    assert "mmd_degree" not in metrics
    assert "No distances" in Path("counted/table.md").read_text()


def refused(capsys, *words: str) -> str:
    with pytest.raises(SystemExit):
        main([*words])
    return capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["ancestral", "entropy-bounded"])
def test_samples_with_a_structure(run, sampler, capsys):
    words = ["num_samples=12", "structure=tree", f"sampling={sampler}"]
    main(["sample", f"checkpoint={run}/run", *words, "out=s"])
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


def test_without_a_structure_nothing_is_said_of_weights(run):
    main(["sample", f"checkpoint={run}/run", "num_samples=4", "out=s"])
    assert not {"structure", "forced_draws_per_sample", "mean_weight"} & set(read("s/metrics.json"))
    assert "log_weight" not in Path("s/samples.jsonl").read_text()


@pytest.mark.parametrize("name", ["forest", "connected", "planar"])
def test_a_structure_from_python(run, name):
    graphs = load(run / "run").sample(8, structure=name, nodes_per_graph=6)
    has = {"forest": nx.is_forest, "connected": nx.is_connected, "planar": nx.is_planar}[name]
    for graph in graphs:
        found = nx.empty_graph(6)
        found.add_edges_from((i, j) for i, j, _ in graph.edges)
        assert has(found)


@pytest.mark.slow
def test_evaluating_with_a_structure(run):
    words = ["quick=true", "num_samples=6", "num_held_out=4", "reference_repeats=0", "steps=3"]
    main(["evaluate", f"checkpoint={run}/run", *words, "num_seeds=2", "structure=tree", "out=e"])
    metrics = read("e/metrics.json")
    assert (metrics["structure"], metrics["valid"]) == ("tree", 1)
    assert {"forced_draws_per_sample", "mean_weight", "effective_samples"} <= set(metrics)
    table = Path("e/table.md").read_text()
    assert "| forced_draws_per_sample |" in table
    assert "says nothing about the model" in table
    main(["evaluate", f"checkpoint={run}/run", *words, "out=free"])
    free = read("free/metrics.json")
    assert free["nelbo_unordered"] == metrics["nelbo_unordered"]  # the bound is of the model
    assert "structure" not in free


@pytest.mark.slow
def test_completions_with_a_structure(run, capsys):
    lines = [{"n": 5, "edges": [[0, 1], [1, 2]], "non_edges": [[3, 4]]}, {"n": 3}]
    Path("some.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["given=some.jsonl", "num_completions=5", "structure=tree"]
    main(["sample", f"checkpoint={run}/run", *words, "out=c"])
    graphs = read_graphs("c/samples.jsonl").graphs
    assert all(map(is_tree, graphs))
    for graph in graphs[:5]:
        pairs = {(i, j) for i, j, _ in graph.edges}
        assert {(0, 1), (1, 2)} <= pairs
        assert (3, 4) not in pairs
    assert read("c/metrics.json")["forced_draws_per_sample"] > 0
    Path("some.jsonl").write_text('{"n": 3}\n\n{"n": 4, "edges": [[0, 1], [1, 2], [0, 2]]}')
    error = refused(capsys, "sample", f"checkpoint={run}/run", *words, "out=no")
    assert all(word in error for word in ("some.jsonl, line 3", "circle", "structure=tree"))
    given = [{"n": 3}, {"n": 3, "edges": [[0, 1], [1, 2], [0, 2]]}]
    with pytest.raises(ValueError, match=r"given\[1\].*circle"):
        load(run / "run").sample(given=given, num_completions=2, structure="forest")


@pytest.mark.slow
def test_structures_that_are_refused(run, capsys):
    for words, named in (
        (["structure=tre"], ("'tree'", "connected, forest, planar, tree")),
        (["structure=valence"], ("valence", "connected, forest, planar, tree")),
        (["structure=7"], ("7", "tree")),
        (["structure=tree", "sampling=confidence"], ("confidence", "first-hitting")),
    ):
        error = refused(capsys, "sample", f"checkpoint={run}/run", *words, "out=no")
        assert all(word in error for word in named), error
    assert not Path("no").exists()


def test_a_structure_of_your_own_is_registered_in_a_line(run):
    @register_structure("empty")
    class Empty(GraphNarrowing):
        """No edge at all."""

        def allows_edge(self, x, i, j):
            return i < 0

    try:
        assert not any(graph.edges for graph in load(run / "run").sample(5, structure="empty"))
    finally:
        del STRUCTURES.builders["empty"]

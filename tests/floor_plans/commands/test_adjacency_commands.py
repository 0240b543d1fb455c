"""The commands on plans that say which rooms meet, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram, read_diagrams, write_diagrams
from floor_plans.diagrams.vocabulary import ADJACENCY, ADJACENT, DOOR, ROOM_TYPES

CODES = [ROOM_TYPES.index(name) for name in ADJACENCY.room_types]
QUICK = ["logger=none", "callbacks.num_samples=2", "eval.num_samples=4", "eval.noise_samples=1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run on trees of 9 to 12 rooms, and the file that it was trained on."""
    folder = tmp_path_factory.mktemp("adjacency")
    rng, plans = np.random.default_rng(0), []
    for _ in range(60):
        n = int(rng.integers(9, 13))
        tree = [(int(rng.integers(j)), j, int(rng.choice([ADJACENT, DOOR]))) for j in range(1, n)]
        plans.append(BubbleDiagram(tuple(rng.choice(CODES, n).tolist()), tuple(tree)))
    write_diagrams(folder / "plans.jsonl", plans)
    words = ["data=cubigraph", f"data.path={folder}/plans.jsonl", "data.max_nodes=12"]
    words += ["data.split=[.5,.25,.25]", "algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"]
    words += ["model.d_model=16", "model.d_pair=8"]
    words += ["trainer.max_steps=4", "data.batch_size=8", f"hydra.run.dir={folder}/run"]
    main(["train", *words, *QUICK])
    return folder


@pytest.mark.slow
def test_samples_and_completions(run, capsys):
    metrics = json.loads((run / "run" / "metrics.json").read_text())
    assert {"connected", "nelbo_unordered", "nelbo_blind", "relation_tv"} <= set(metrics)
    assert not {"valid", "transitive", "buildable"} & set(metrics)
    main(["sample", f"checkpoint={run}/run", "num_samples=3", "out=drawn"])
    assert "connected" in capsys.readouterr().out
    assert len(read_diagrams("drawn/samples.jsonl", max_nodes=12)) == 3
    given = {"rooms": ["Bath", "Entry", *[None] * 8], "relations": [[0, 1, "door"]]}
    Path("given.jsonl").write_text(json.dumps(given))
    main(
        [
            "sample",
            f"checkpoint={run}/run",
            "given=given.jsonl",
            "num_completions=2",
            "out=completed",
        ]
    )
    for diagram in read_diagrams("completed/samples.jsonl", max_nodes=12):
        assert diagram.room_names[:2] == ("Bathroom", "Entrance")
        assert (0, 1, DOOR) in diagram.relations


@pytest.mark.slow
def test_what_takes_directions_is_refused(run, capsys):
    model = f"checkpoint={run}/run"
    plans = ["data=plans", f"data.path={run}/plans.jsonl", "data.max_nodes=12"]
    for words, message in (
        (["sample", model, "buildable=true"], "relations without directions"),
        (["sample", model, "livable=true"], "leave livable out"),
        (["sample", model, "realise=true"], "leave realise out"),
        (
            ["data", "realise", f"{run}/plans.jsonl", "out=plans", "--max-nodes=12"],
            "say which rooms meet",
        ),
        (["evaluate", f"samples={run}/plans.jsonl", "max_nodes=12"], "give reference=FILE"),
        (["train", *plans], "data.relations=adj"),
        (["train", *plans, "data.relations=adjacency", "data.symmetry=mirror"], "leave it at none"),
    ):
        with pytest.raises(SystemExit):
            main(words)
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_compares_with_real_plans(run):
    words = [
        "num_samples=8",
        "num_seeds=1",
        "noise_samples=1",
        "reference_repeats=2",
        "time_bins=2",
    ]
    main(["evaluate", f"checkpoint={run}/run", *words, "out=evaluated"])
    metrics = json.loads(Path("evaluated/metrics.json").read_text())
    assert metrics["floors"]["conditional_pair_tv"] > 0
    assert "valid" not in metrics
    assert "The relations have no direction" in Path("evaluated/table.md").read_text()
    for name in ("samples.png", "adjacency.png", "relations.png", "histograms.png"):
        assert Path("evaluated", name).read_bytes()[:4] == b"\x89PNG"
    files = [f"samples={run}/run/samples.jsonl", f"reference={run}/plans.jsonl", "max_nodes=12"]
    main(["evaluate", *files, "reference_repeats=0", "out=files"])
    assert "valid" not in json.loads(Path("files/metrics.json").read_text())


@pytest.mark.slow
def test_a_brief_is_measured_against_plans_without_directions(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("brief.yaml").write_text("rooms:\n  Kitchen: at most 3\nnum_rooms: 10-12\n")
    words = [f"checkpoint={run}/run", "brief=brief.yaml", "num_samples=4", "method=rejection"]
    main(["evaluate", *words, "reference_repeats=2", "pictures=false"])
    found = json.loads(Path("evaluation/metrics.json").read_text())
    assert found["methods"]["rejection"]["num_met"] == 4
    assert "transitive" not in found["methods"]["rejection"]["metrics"]
    assert found["methods"]["soft_guidance"]["num_samples"] == 4

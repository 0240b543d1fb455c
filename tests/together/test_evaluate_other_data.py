"""``evaluate checkpoint=... data.path=FILE``: a model on data that it was not trained on, of every
kind."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from continuous_states.dialogue.texts import sample_dialogues
from continuous_states.regions.files import RegionTable, write_regions
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints import checkpoint_info
from discrete_diffusion.checkpoints.contents import info_with_digest
from discrete_diffusion.checkpoints.files import INFO_KEY, write_weights_file
from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import build_data, complete_data
from floor_plans import BubbleDiagram, generate_plans, write_diagrams

PLANS = ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"]
IMAGES = [
    *("data.num_samples=20", "data.size=16", "data.mesh_rings=6", "data.num_boundary=16"),
    *("model.multipliers=[1,1]", "model.channels=8", "model.groups=4", "model.d_model=16"),
]
DIALOGUES = ["data.num_samples=30", "data.split=[0.8,0.1,0.1]"]
DIT = ["algo.backbone=dit", "model=dit_tiny", "model.hidden_size=16", "model.n_heads=2"]
TRAINED = {
    "plans": ["data=plans", "data.path=plans_train.jsonl", *PLANS],
    "generated plans": ["data=bubble_diagrams", "data.num_plans=200", *PLANS],
    "graphs": [
        *("data=graphs", "data.path=graphs_train.jsonl", "algo.backbone=bd-denoiser-pair"),
        *("model=bd_pair_tiny", "model.d_model=16", "model.d_pair=8", "data.graph_family=tree"),
    ],
    "molecules": ["data=molecules", "data.path=molecules_train.smi", *PLANS],
    "text": ["data=text", "data.path=text_train.txt", "data.length=16", *DIT],
    "regions": [
        *("algo=masked-features", "data.num_windows=20", "data.num_motifs=3", "data.rows=6"),
        *("data.peak_length=40", "data.num_programmes=2", "model.d_model=16", "model.n_layers=1"),
    ],
    "eit": ["algo=flow-matching", "sampling.steps=2", *IMAGES],
    "eit_quantised": ["data=eit_quantised", "algo.backbone=film-unet-tokens", *IMAGES],
    "dialogue": ["algo=latent-seq2seq", *DIALOGUES, "model.num_layers=1"],
    "dialogue-tokens": ["data=dialogue-tokens", *DIT, *DIALOGUES],
}
"""By kind, the config of a tiny model that is not trained."""

QUICK = {
    "plans": [
        "reference_repeats=1",
        "num_solver_checks=0",
        "num_seeds=1",
        "num_samples=4",
        "time_bins=2",
    ],
    "graphs": ["reference_repeats=0", "num_seeds=1", "num_samples=4", "time_bins=2", "steps=2"],
    "molecules": ["num_samples=4", "time_bins=2"],
    "text": ["time_bins=2"],
    "regions": ["num_seeds=1", "num_samples=2"],
    "eit": ["samples_per_condition=1", "num_samples=2", "steps=2"],
    "dialogue": ["num_samples=2"],
}
QUICK |= {"generated plans": QUICK["plans"], "eit_quantised": QUICK["eit"]}
QUICK |= {"dialogue-tokens": [*QUICK["dialogue"], "steps=2"]}

SMILES = ["CCO", "CCN", "C=O", "CC(C)O", "CCOC", "NCC=O", "OCCN", "CNC", "CC=O", "NCCO"]
TEXT = "the quick brown fox jumps over the lazy dog, and again. "


def write_trees(path: Path, seeds: range, most: int = 6) -> None:
    trees = [nx.random_labeled_tree(3 + k % (most - 2), seed=k) for k in seeds]
    lines = [json.dumps({"n": len(t), "edges": [list(e) for e in t.edges]}) for t in trees]
    path.write_text("\n".join(lines))


def write_images(path: Path, num: int, value: float | None = None, size: int = 16) -> None:
    rng = np.random.default_rng(num)
    media = np.ones((num, size, size), np.float32)
    if value is not None:
        media[0, 0, 0] = value
    dtn = rng.normal(size=(num, 16, 16)).astype(np.float32)
    np.savez(path, media=media, dtn=dtn, background=np.ones((16, 16), np.float32))


def write_table(path: Path, num: int, motifs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(num)
    scores = rng.random((num, len(motifs)), dtype=np.float32)
    names = tuple(f"chr1:{1000 * k}-{1000 * k + 500}" for k in range(num))
    write_regions(path, RegionTable(scores, names, motifs))


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"dialogue": dialogue, "summary": text}) for dialogue, text in pairs]
    path.write_text("\n".join(lines))


def pairs(num: int, seed: int) -> list[tuple[str, str]]:
    return [(pair.dialogue, pair.summary) for pair in sample_dialogues(num, seed)]


MOTIFS = ("motif_1", "motif_2", "motif_3")
WRITE = {
    "plans": ("jsonl", lambda path, num: write_diagrams(path, generate_plans(num, seed=7))),
    "graphs": ("jsonl", lambda path, num: write_trees(path, range(100, 100 + num))),
    "molecules": ("smi", lambda path, num: path.write_text("\n".join(SMILES[-num:]))),
    "text": ("txt", lambda path, num: path.write_text((TEXT * num)[: 16 * num])),
    "regions": ("npz", lambda path, num: write_table(path, 6 * num, MOTIFS)),
    "eit": ("npz", write_images),
    "dialogue": ("jsonl", lambda path, num: write_pairs(path, pairs(num, seed=5))),
}
"""By kind, the ending of a file and what writes one of so many samples."""
WRITE |= {"generated plans": WRITE["plans"], "eit_quantised": WRITE["eit"]}
WRITE |= {"dialogue-tokens": WRITE["dialogue"]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoint of a kind, made when first asked for, and the folder of its training data."""
    folder = tmp_path_factory.mktemp("trained")
    write_diagrams(folder / "plans_train.jsonl", generate_plans(30, seed=0))
    write_trees(folder / "graphs_train.jsonl", range(30))
    (folder / "molecules_train.smi").write_text("\n".join(SMILES))
    (folder / "text_train.txt").write_text(TEXT * 30)

    @cache
    def make(kind: str) -> Path:
        words = [word.replace("data.path=", f"data.path={folder}/") for word in TRAINED[kind]]
        config = complete_data(compose("train", words))
        data = build_data(config)
        torch.manual_seed(0)
        algorithm = build_algorithm(config)
        algorithm.prepare(data.splits["train"].batch())
        info = checkpoint_info(
            OmegaConf.to_container(config, resolve=True),
            data.size_counts(),
            data_fingerprint=data.fingerprint(),
        )
        state = {f"algorithm.{name}": value for name, value in algorithm.state_dict().items()}
        info = info_with_digest(info, state, step=0, machine={})
        path = folder / f"{kind.replace(' ', '_')}.safetensors"
        write_weights_file(path, {"state_dict": state, INFO_KEY: info})
        return path

    return make


def run(checkpoint: Path, kind: str, *words: str) -> dict:
    given = ["pictures=false", "threads=1", "noise_samples=1", "overwrite=true", *QUICK[kind]]
    main(["evaluate", f"checkpoint={checkpoint}", *given, *words])
    return json.loads(Path("evaluation/metrics.json").read_text())


def bound_of(found: dict) -> float:
    """Per sample."""
    names = ("nelbo_ordered_fixed", "nelbo_ordered_random", "nelbo_plain", "nelbo_gaussian")
    return next(
        found[name]
        for name in (*names, "nelbo_gaussian_given_observed", *found)
        if name in found and name.startswith("nelbo_")
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRAINED)
def test_a_model_on_another_file(kind, trained, capsys):
    """All of the file is the test set; the file says which, and that nothing of it was trained on
    unless it was."""
    ending, write = WRITE[kind]
    path = Path(f"other.{ending}")
    write(path, 4)
    found = run(trained(kind), kind, f"data.path={path}")
    assert found["reference"] == str(path)
    assert found["changed_data"] == {"path": str(path)}
    assert found["num_held_out"] == found["num_held_out_available"] == 4
    assert found["data_fingerprint"] != found["trained_on_fingerprint"]
    assert 0 <= found["num_trained_on"] <= 4
    assert math.isfinite(bound_of(found))
    assert "the data that was trained on" in Path("evaluation/table.md").read_text()
    assert "not the data that" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plans", "text", "eit", "dialogue"])
def test_one_sample(kind, trained):
    ending, write = WRITE[kind]
    write(Path(f"one.{ending}"), 1)
    found = run(trained(kind), kind, f"data.path=one.{ending}")
    assert found["num_held_out"] == 1
    assert math.isfinite(bound_of(found))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plans", "graphs", "molecules", "text"])
def test_the_training_file_itself(kind, trained, capsys):
    """All of it is measured, and what was trained on is counted."""
    file = next(trained(kind).parent.glob(f"{kind}_train.*"))
    found = run(trained(kind), kind, f"data.path={file}")
    whole = found["num_reference"]
    if kind != "text":
        assert whole == len(file.read_text().strip().split("\n"))
    assert 0.5 * whole < found["num_trained_on"] <= whole
    assert "were trained on" in capsys.readouterr().out


@pytest.mark.slow
def test_other_data_beside_what_was_trained_on(trained):
    """The bound is that of the file by itself; novelty and baselines are of training."""
    plans = generate_plans(6, seed=9)
    write_diagrams("six.jsonl", plans)
    found = run(trained("generated plans"), "generated plans", "data.path=six.jsonl")
    own = run(trained("generated plans"), "generated plans")
    assert own["num_held_out"] != 6 == found["num_held_out"]
    assert own.keys() <= found.keys() | {"real"}
    assert found["novelty"] == own["novelty"]  # the samples are the same ones
    assert found["nelbo_blind"] > 0
    assert found["nelbo_ordered_fixed"] != own["nelbo_ordered_fixed"]
    for word in ("data.test_path=six.jsonl", "reference=six.jsonl"):
        again = run(trained("generated plans"), "generated plans", word)
        assert again["nelbo_ordered_fixed"] == found["nelbo_ordered_fixed"]


def test_what_was_trained_on_is_gone(trained, capsys):
    """What is measured against it is left out, and that is said."""
    gone = trained("text").parent / "text_train.txt"
    gone.rename("text_train.txt")
    try:
        Path("other.txt").write_text(TEXT)
        found = run(trained("text"), "text", "data.path=other.txt")
    finally:
        Path("text_train.txt").rename(gone)
    assert "nelbo_blind" not in found
    assert "num_trained_on" not in found
    assert "left out" in capsys.readouterr().out
    assert "left out" in Path("evaluation/table.md").read_text()


@pytest.mark.slow
def test_unknown_words_are_counted_and_named(trained):
    write_pairs(Path("new.jsonl"), [*pairs(2, 5), ("a zeppelin flew , zeppelin", "a long " * 20)])
    found = run(trained("dialogue-tokens"), "dialogue-tokens", "data.path=new.jsonl")
    losses = found["measured_losses"]
    assert losses["summaries_cut"] == 1
    assert "zeppelin" in losses["most_frequent_unknown_words"]
    assert 0 < losses["unknown_words_share"] < 1
    assert "zeppelin" in Path("evaluation/table.md").read_text()


ZOO = '{"rooms": ["Zoo"], "relations": []}\n'
STRANGE = f"{TEXT}\n{TEXT}é ü"
OTHERS = ("motif_1", "CTCF", "motif_3")


def write_large_plans(path: Path) -> None:
    large = BubbleDiagram((0, *[3] * 8), ((0, 1, 2),))
    write_diagrams(path, [*generate_plans(1, seed=1), large])


def write_large_trees(path: Path) -> None:
    write_trees(path, range(12, 20), 12)


REFUSED = [
    ("plans", "jsonl", lambda p: p.touch(), ("other.jsonl",)),
    ("plans", "jsonl", write_large_plans, ("line 2", "data.skip_invalid=true")),
    ("plans", "jsonl", lambda p: p.write_text(ZOO), ("line 1", "Zoo")),
    ("graphs", "jsonl", lambda p: p.touch(), ("other.jsonl",)),
    ("graphs", "jsonl", write_large_trees, ("max_nodes", "data.skip_invalid=true")),
    ("molecules", "smi", lambda p: p.touch(), ("other.smi",)),
    ("molecules", "smi", lambda p: p.write_text("CC\nCBr"), ("line 2", "Br", "skip_invalid=true")),
    ("molecules", "smi", lambda p: p.write_text("C" * 30), ("line 1", "30 atoms")),
    ("text", "txt", lambda p: p.touch(), ("other.txt", "empty")),
    (
        "text",
        "txt",
        lambda p: p.write_text(STRANGE),
        ("'\\n'", "'é'", "3", "data.token_unit=bytes"),
    ),
    ("text", "txt", lambda p: p.write_text("the fox"), ("7 characters", "window of 16")),
    ("regions", "npz", lambda p: write_table(p, 12, OTHERS), ("feature 2", "CTCF", "motif_2")),
    ("regions", "npz", lambda p: write_table(p, 1, MOTIFS), ("other.npz", "window")),
    ("eit", "npz", lambda p: write_images(p, 2, size=20), ("20 x 20", "data.size=16")),
    ("eit_quantised", "npz", lambda p: write_images(p, 2, value=1.7), ("media[0, 0, 0]", "1.7")),
    ("dialogue", "jsonl", lambda p: p.touch(), ("other.jsonl",)),
]


@pytest.mark.parametrize(("kind", "ending", "write", "names"), REFUSED)
def test_what_the_model_does_not_know_is_refused(kind, ending, write, names, trained, failure):
    path = Path(f"other.{ending}")
    write(path)
    sentence = failure("evaluate", f"checkpoint={trained(kind)}", f"data.path={path}")
    for name in (path.name, *names):
        assert name in sentence
    assert not Path("evaluation").exists() or not [*Path("evaluation").iterdir()]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["data.path=none.jsonl"], ("data.path=none.jsonl", "no file")),
        (["data.num_plan=9"], ("num_plan", "num_plans")),
        (["data.train_path=a.jsonl"], ("data.train_path", "data.path=FILE")),
        (["data.max_nodes=9"], ("data.max_nodes=9", "data.max_nodes=8")),
        (["data.path=a.jsonl", "data.test_path=a.jsonl"], ("not both",)),
        (["data.path=a.jsonl", "split=val"], ("split=val", "leave it out")),
        (["data.path=a.jsonl", "reference=a.jsonl"], ("reference=a.jsonl", "data.path=a.jsonl")),
        (["data.path=a.jsonl", "data.skip_invalid=7"], ("data.skip_invalid=7", "true or false")),
        (["data=plans"], ("data=plans", "data.path=FILE")),
    ],
)
def test_keys_that_make_no_sense(words, names, trained, failure):
    write_diagrams("a.jsonl", generate_plans(2, seed=3))
    sentence = failure("evaluate", f"checkpoint={trained('generated plans')}", *words)
    for name in names:
        assert name in sentence


def test_other_data_is_not_for_files_of_samples(failure):
    write_diagrams("a.jsonl", generate_plans(2, seed=3))
    sentence = failure("evaluate", "samples=a.jsonl", "data.path=a.jsonl")
    assert "data.path=a.jsonl" in sentence
    assert "reference=FILE" in sentence

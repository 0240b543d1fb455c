"""Splits by distinct diagram, node orders, and the configs that name files."""

from __future__ import annotations

import json

import pytest
import torch
from diagram_examples import shuffled

from composed import composed
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import remove_held_out, split_by_graph
from discrete_diffusion.data.graph_tokens import distinct_keys
from discrete_diffusion.domains import build_data
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from floor_plans import decode, generate_plans, write_diagrams
from floor_plans.diagrams.tokens import encode
from floor_plans.learning.build import DiagramDataset


def test_relabellings_never_straddle_splits_and_nothing_is_lost():
    plans = generate_plans(300, seed=0)
    diagrams = encode([*plans, *shuffled(plans, 1), *shuffled(plans, 2)])
    splits = split_by_graph(diagrams, VOCAB, fractions=(0.6, 0.2, 0.2), seed=4)
    keys = {name: {d.canonical_key() for d in decode(part.x0)} for name, part in splits.items()}
    assert sum(len(part) for part in splits.values()) == 900
    assert not keys["train"] & keys["val"]
    assert not keys["train"] & keys["test"]
    assert not keys["val"] & keys["test"]
    distinct = sum(map(len, keys.values()))
    assert len(keys["val"]) == pytest.approx(0.2 * distinct, abs=1)


def test_split_is_a_function_of_its_seed():
    diagrams = encode(generate_plans(100, seed=0))
    parts = [
        split_by_graph(diagrams, VOCAB, fractions=(0.5, 0.25, 0.25), seed=s)["val"].x0
        for s in (0, 0, 1)
    ]
    assert torch.equal(parts[0], parts[1])
    assert not torch.equal(parts[0], parts[2])
    with pytest.raises(ValueError, match="three shares that sum to 1"):
        split_by_graph(diagrams, VOCAB, fractions=(0.5, 0.25, 0.5), seed=0)


def test_held_out_diagrams_leave_training_even_relabelled():
    plans = generate_plans(50, seed=5)
    train, held_out = encode(plans), encode(shuffled(plans[:10], 3))
    kept = remove_held_out(train, [held_out], VOCAB)
    removed = {d.canonical_key() for d in plans[:10]}
    assert {d.canonical_key() for d in decode(kept.x0)} == {
        d.canonical_key() for d in plans
    } - removed


def dataset(node_order: str) -> DiagramDataset:
    plans = generate_plans(120, seed=7)
    splits = split_by_graph(encode(plans), VOCAB, fractions=(0.8, 0.1, 0.1), seed=0)
    return DiagramDataset(splits, VOCAB, node_order=node_order)


def test_node_orders():
    given, canonical, relabelled = map(dataset, ("given", "canonical", "random"))
    train = "train"
    batches = {
        d.node_order: d.augment(d.splits[train], make_generator(0))
        for d in (given, canonical, relabelled)
    }
    assert torch.equal(batches["given"].x0, given.splits[train].x0)
    assert not torch.equal(batches["random"].x0, given.splits[train].x0)
    keys = [[d.canonical_key() for d in decode(b.x0)] for b in batches.values()]
    assert keys[0] == keys[1] == keys[2]  # the same diagrams, in the same rows
    again = relabelled.augment(relabelled.splits[train], make_generator(1))
    assert not torch.equal(again.x0, batches["random"].x0)
    assert (batches["canonical"].log_num_orders == 0).all()
    assert (batches["random"].log_num_orders > 3).all()
    assert (given.bound, canonical.bound, relabelled.bound) == (
        "ordered_fixed",
        "ordered_fixed",
        "ordered_random",
    )
    with pytest.raises(ValueError, match="did you mean 'canonical'"):
        dataset("canonic")


def test_plans_from_files(tmp_path, caplog):
    plans = generate_plans(60, seed=2)
    for name, part in (("a", plans[:40]), ("b", plans[30:])):
        write_diagrams(tmp_path / f"{name}.jsonl", part)
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one = build_data(composed("train", ["data=plans", f"data.path={a}", "data.split=[0.5,0.5,0]"]))
    assert len(one.splits["train"]) + len(one.splits["val"]) == 40
    two = build_data(
        composed("train", ["data=plans", f"data.train_path={a}", f"data.val_path={b}"])
    )
    assert len(two.splits["train"]) == 30
    assert len(two.splits["val"]) == 30
    assert "left out 10 training diagrams" in caplog.text


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "needs data.path=FILE"),
        (["data.path=x.jsonl", "data.train_path=y.jsonl"], "needs data.path=FILE"),
        (["data.train_path=y.jsonl"], "needs data.val_path"),
        (["data.path=x.jsonl", "data.val_path=y.jsonl"], "not both"),
    ],
)
def test_file_configs_that_say_too_little_or_too_much(overrides, message):
    with pytest.raises(ValueError, match=message):
        build_data(composed("train", ["data=plans", *overrides]))


def test_invalid_lines_stop_the_run_or_are_counted(tmp_path, caplog):
    path = tmp_path / "plans.jsonl"
    write_diagrams(path, generate_plans(12, seed=1))
    with path.open("a") as file:
        file.write(json.dumps({"rooms": ["LivingRoom", "Kichen"], "relations": []}) + "\n")
    arguments = ["data=plans", f"data.path={path}"]
    with pytest.raises(ValueError, match=r"plans\.jsonl, line 13"):
        build_data(composed("train", arguments))
    caplog.set_level("INFO")
    data = build_data(composed("train", [*arguments, "data.skip_invalid=true"]))
    assert sum(len(part) for part in data.splits.values()) == 12
    assert "1 invalid left out" in caplog.text


@pytest.mark.slow
def test_real_plans(real_data, caplog):
    """999 rendered plans: 21 flagged duplicates dropped and counted, 943 distinct diagrams."""
    caplog.set_level("INFO")
    path = real_data / "rplan_render_999" / "plans.jsonl"
    data = build_data(composed("train", ["data=plans", f"data.path={path}"]))
    parts = [encode(decode(part.x0)) for part in data.splits.values()]
    assert sum(map(len, parts)) == 978
    assert sum(len(distinct_keys(part, VOCAB).unique()) for part in parts) == 943
    assert "21 flagged as duplicates left out" in caplog.text

"""What the speed benchmark trains: the mix of batches, attention exchanged, equal beginnings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import speed
from discrete_diffusion.models import transformer
from discrete_diffusion.models.acceleration import FastLinear
from speed_account import kind_of
from speed_variants import VARIANTS, Plans, Trainee, plain_layers

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def plans() -> Plans:
    return Plans(["model=bd_tiny", "data.num_plans=2000", "data.batch_size=32"], seed=0)


def test_few_bucketed_batches_have_the_mix_of_all(plans):
    every = plans.bucketed(0)
    mean = float(plans.sizes[torch.cat(every)].double().mean())
    apart = []
    for epoch in range(1, 8):
        few = plans.bucketed(epoch, 8)
        assert [len(rows) for rows in few] == [32] * 8
        apart.append(float(plans.sizes[torch.cat(few)].double().mean() - mean))
    assert max(map(abs, apart)) < 2
    assert abs(sum(apart) / len(apart)) < 0.4
    alike = [plans.sizes[rows].unique().numel() == 1 for rows in every]
    assert sum(alike) >= len(alike) - 3
    shuffled = plans.shuffled(0, 60)  # more than an epoch has
    assert [len(rows) for rows in shuffled] == [32] * 60
    assert min(plans.sizes[rows].unique().numel() for rows in shuffled) >= 3


def test_variants_begin_with_the_same_weights_and_learn(plans):
    begun = {}
    for variant in (VARIANTS[0], VARIANTS[4], VARIANTS[7]):
        trainee = Trainee(variant, plans, CPU, seed=3)
        before = {k: v.clone() for k, v in trainee.algorithm.state_dict().items()}
        begun[variant.name] = before
        assert trainee.train(trainee.rows(0, 1)) == 32
        after = trainee.algorithm.state_dict()
        assert any(not torch.equal(before[k], after[k]) for k in before)
    first, *others = begun.values()
    for other in others:
        assert all(torch.equal(first[k], other[k]) for k in first)


def test_plain_layers_are_pytorchs(plans, monkeypatch):
    """And the package's again afterwards."""
    calls = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def counted(*arguments, **options):
        calls.append(arguments)
        return fused(*arguments, **options)

    def forbidden(layer, x):
        raise AssertionError("the package's linear layer")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(FastLinear, "forward", forbidden)
    shipped = transformer.attend, FastLinear.forward
    trainee = Trainee(VARIANTS[1], plans, CPU, seed=0)
    trainee.train(trainee.rows(0, 2))
    assert len(calls) == 2 * len(trainee.algorithm.backbone.denoiser.blocks)
    assert (transformer.attend, FastLinear.forward) == shipped
    with pytest.raises(AssertionError, match="the package's"):
        Trainee(VARIANTS[3], plans, CPU, seed=0).train(plans.bucketed(0, 1))
    with plain_layers(["linear"]):
        assert transformer.attend is shipped[0]
        assert FastLinear.forward is torch.nn.Linear.forward


def test_every_variant_is_compared_with_the_baseline_of_its_dropout():
    by_name = {variant.name: variant for variant in VARIANTS}
    for variant in VARIANTS:
        baseline = by_name[variant.baseline]
        assert baseline.dense
        assert baseline.dropout == variant.dropout


@pytest.mark.slow
def test_quick_runs_every_part_and_writes_into_its_folder_only(tmp_path):
    results = BENCHMARKS / "results"
    before = {path.name: path.stat().st_mtime_ns for path in results.iterdir()}
    words = [sys.executable, str(BENCHMARKS / "speed.py"), "--quick", "--threads", "1"]
    subprocess.run([*words, "--folder", str(tmp_path / "out")], check=True, cwd=tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in results.iterdir()} == before
    found = json.loads((tmp_path / "out" / "quick" / "speed.json").read_text())["results"]
    parts = ["account", "training", "memory", "curves"]
    parts += ["sampling", "students", "cost", "networks", "text"]
    assert list(found) == parts
    page = (tmp_path / "out" / "speed.md").read_text()
    for part in found.values():
        assert str(tmp_path) not in part["command"]
        assert part["command"] in page


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "products"),
        ("aten::mm", "products"),
        ("aten::convolution_backward", "products"),
        ("mkldnn::_linear_pointwise", "products"),
        ("aten::_softmax", "attention"),
        ("aten::native_layer_norm_backward", "layer norm"),
        ("aten::linalg_vector_norm", "optimiser"),
        ("aten::_fused_adamw_", "optimiser"),
        ("aten::gelu_backward", "GELU, GLU"),
        ("aten::mul", "elementwise, sums"),
    ],
)
def test_operations_are_sorted_into_kinds(name, kind):
    assert kind_of(name) == kind


@pytest.mark.parametrize("other", ["hardware", "threads"])
def test_parts_of_another_machine_are_left_out(tmp_path, monkeypatch, capsys, other):
    monkeypatch.setattr(speed, "WRITERS", dict.fromkeys(speed.PARTS, lambda found: "a table"))
    monkeypatch.setattr(sys, "argv", ["speed.py", "--folder", str(tmp_path)])
    given = speed.options()
    speed.keep(given, "account", "new", {})
    if other == "threads":
        given.threads += 1
    else:
        monkeypatch.setattr(speed, "hardware", lambda: "another processor")
    speed.keep(given, "training", "new", {})
    assert "left out, of another machine or other code: account\n" in capsys.readouterr().out
    stored = json.loads((tmp_path / "speed.json").read_text())["results"]
    assert list(stored) == ["training"]


def test_parts_of_one_machine_and_one_digest_are_published(tmp_path, monkeypatch, capsys):
    published = []
    monkeypatch.setattr(speed, "publish", lambda name, **record: published.append(record))
    monkeypatch.setattr(speed, "WRITERS", dict.fromkeys(speed.PARTS, lambda found: "a table"))
    monkeypatch.setattr(sys, "argv", ["speed.py", "--folder", str(tmp_path)])
    given = speed.options()
    for code in ("old", "new"):
        for part in speed.PARTS[:-1]:
            speed.keep(given, part, code, {})
    assert f"or other code: {speed.PARTS[1]}, " in capsys.readouterr().out
    assert not published
    speed.keep(given, speed.PARTS[-1], "old", {})  # the others, of new code, are left out
    assert not published
    for part in speed.PARTS:
        speed.keep(given, part, "new", {})
    [record] = published
    assert list(record["results"]) == list(speed.PARTS)
    assert {part["code"] for part in record["results"].values()} == {"new"}

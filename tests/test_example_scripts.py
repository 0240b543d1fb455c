"""``examples/train_minimal.py`` trains, samples and draws with the package's parts alone, and
``examples/sample_minimal.py`` samples with a network of its own."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from made_checkpoints import text_checkpoint

EXAMPLES = Path(__file__).parents[1] / "examples"
SHARDS = EXAMPLES / "shards.py"
EXAMPLE, SAMPLING = EXAMPLES / "train_minimal.py", EXAMPLES / "sample_minimal.py"
HEAVY = {"hydra", "omegaconf", "lightning"}


@pytest.mark.slow
def test_a_short_run_prints_its_bound_and_draws_its_plans(tmp_path, capsys):
    picture = tmp_path / "plans.png"
    example = runpy.run_path(str(EXAMPLE))
    words = ["--steps", "3", "--num-plans", "64", "--held-out", "16", "--out", str(picture)]
    example["main"](words)
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    nats = [float(x) for x in re.findall(r"([\d.]+) nats", printed)]
    assert len(nats) == 2  # of the first batch and of held-out plans
    support = example["VOCAB"].layout().support  # all that an untrained network knows
    uniform = [
        float((support.sum(dim=1).log() * plans.real).sum(dim=1).mean())
        for plans in example["load_plans"](64, 16)
    ]
    assert nats == pytest.approx(uniform, rel=0.15)
    assert str(picture) in printed


def test_a_network_of_its_own_is_sampled_exactly(capsys):
    runpy.run_path(str(SAMPLING))["main"](["--num", "200", "--seed", "1"])
    printed = capsys.readouterr().out
    texts = re.findall(r"^([acgt]{24})   24 network calls$", printed, flags=re.MULTILINE)
    assert len(texts) == 200
    pairs = [text[k : k + 2] for text in texts for k in range(23)]
    kept = sum(pair[0] == pair[1] for pair in pairs) / len(pairs)
    assert kept == pytest.approx(0.7, abs=4.5 * (0.21 / len(pairs)) ** 0.5)


def test_a_network_of_its_own_is_short():
    code = ast.unparse(ast.parse(SAMPLING.read_text()))
    assert len([line for line in code.splitlines() if line.strip()]) <= 55


@pytest.mark.parametrize("example", [EXAMPLE, SAMPLING], ids=lambda path: path.stem)
def test_it_needs_neither_configs_nor_a_trainer(example):
    tree = ast.parse(example.read_text())
    found = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert "torch" in found
    assert not HEAVY & found
    named = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    attributes = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    private = {name for name in (*named, *attributes) if name.startswith("_")}
    assert private <= {"__name__", "__doc__", "__init__"}


def test_shards_of_another_size_are_refused(tmp_path):
    checkpoint, folder = text_checkpoint(tmp_path, "mdlm"), str(tmp_path / "parts")
    shards = runpy.run_path(str(SHARDS))["Shards"]
    for _ in range(2):
        shards(checkpoint, folder, 4, 2)
    with pytest.raises(ValueError, match=r"4, 2\], not of .*4, 4\]; give another"):
        shards(checkpoint, folder, 4, 4)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torchrun", "ray"])
def test_shards_are_the_same_by_any_number_of_processes(engine, tmp_path):
    if engine == "ray":
        pytest.importorskip("ray")
    checkpoint = text_checkpoint(tmp_path, "mdlm")
    alone, several = tmp_path / "alone", tmp_path / "several"
    runpy.run_path(str(SHARDS))["main"]([checkpoint, str(alone), "--samples=7", "--size=2"])
    texts = {path.name: path.read_text() for path in sorted(alone.glob("part*"))}
    assert [len(text.splitlines()) for text in texts.values()] == [2, 2, 2, 1]
    # a finished shard is kept, and one that is missing is sampled
    several.mkdir()
    (several / "part-00001.jsonl").write_text("kept")
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node=2", str(SHARDS)]
    command = torchrun if engine == "torchrun" else [str(SHARDS), "--ray=2"]
    command = [sys.executable, *command, checkpoint, str(several), "--samples=7", "--size=2"]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    texts["part-00001.jsonl"] = "kept"
    assert {path.name: path.read_text() for path in several.glob("part*")} == texts

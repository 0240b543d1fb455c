"""Networks of strangers in ``train``: what cannot be trained is refused, the rest trains."""

from __future__ import annotations

import json

import pytest
import torch

import strangers
from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.domains import build_layout
from discrete_diffusion.models.registry import register_backbone

pytestmark = pytest.mark.usefixtures("clean_registry")

DATA = ["data.num_plans=80", "data.batch_size=8", "debug=smoke", "trainer.max_steps=2"]
QUICK = ["logger=none", "callbacks.num_samples=0", "eval.num_samples=2", "eval.num_held_out=4"]
AR = ["algo=ar", "sampling=first-hitting"]
BLOCKS = ["algo=bd3lm"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def train(monkeypatch, tmp_path, cache):
    """Register a network, say what it offers, and train it for two steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(cache))

    def run(name: str, *words: str) -> None:
        kind = getattr(strangers, name)
        wanted = {"context", "group_idxs"} if "algo=bd3lm" in words else set()

        @register_backbone("theirs", causal="algo=ar" in words, conditions=tuple(sorted(wanted)))
        def build(config, vocab_size):
            network = kind(vocab_size, build_layout(config.data).length)
            return torch.compile(network, backend="eager") if name == "Compiled" else network

        words = ("algo.backbone=theirs", *DATA, *QUICK, *words, "hydra.run.dir=run")
        main(["train", *words, "model=bd_tiny"])

    return run


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("OneIdShort", [], "(2, 36, 27); expected"),
        ("Transposed", [], "transpose the last two axes"),
        ("Nan", [], "position 2"),
        ("Integers", [], "int64"),
        ("Pair", [], "a tuple of 2"),
        ("BothWays", AR, "is registered as causal"),
        ("ReadsItsOwnContext", BLOCKS, "(block 0)"),
    ],
)
def test_refused_before_the_first_step(name, words, says, train, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        train(name, *words)
    error = capsys.readouterr().err.strip()
    assert stop.value.code == 1
    assert says in error
    assert f"{name}.forward(" in error
    assert "\n" not in error.strip()
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("Object", [], ""),
        ("Single", [], ""),
        ("Probabilities", [], "take the log"),
        ("SeesPad", [], "move with PAD"),
        ("Blockwise", BLOCKS, ""),
        ("Encoder", [], ""),
        ("UNet", [], "move with PAD"),
        ("Compiled", [], ""),
        ("Normalised", [], ""),
        ("FixedLength", [], ""),
        ("Timeless", ["algo.time_conditioning=false"], ""),
        ("Causal", AR, "move with PAD"),
    ],
)
def test_trained_and_sampled(name, words, says, train, tmp_path, capsys):
    train(name, *words)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["steps"], metrics["backbone"]) == (2, "theirs")
    warned = [line for line in capsys.readouterr().out.splitlines() if ".forward(" in line]
    assert len(warned) == bool(says)
    assert says in "".join(warned)


@pytest.mark.slow
def test_the_trial_can_be_left_out_and_a_trained_network_is_trusted(train, tmp_path):
    train("BothWays", *AR, "preflight=false")
    assert load(tmp_path / "run").sample(num=1, num_rooms=4)

"""``examples/maskgit``, of ``docs/extend.md``, trains, samples and passes its tests."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.algorithms.registry import ALGORITHMS
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose, main
from discrete_diffusion.contracts import Batch
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.sampling import build_sampler
from fake_packages import forget_imports
from guide_code import DOCS, EXAMPLES

EXAMPLE, PAGE = EXAMPLES / "maskgit", DOCS / "extend.md"


pytestmark = pytest.mark.usefixtures("clean_registry")


@pytest.fixture
def module(monkeypatch):
    """Its module, imported; the registries are as before afterwards."""
    monkeypatch.syspath_prepend(EXAMPLE)
    yield importlib.import_module("my_algorithms")
    forget_imports(EXAMPLE)


@pytest.mark.slow
def test_its_tests_pass(module):
    tests = vars(importlib.import_module("test_maskgit"))
    named = [value for name, value in tests.items() if name.startswith("test_")]
    assert len(named) == 2
    for test in named:
        test()


@pytest.mark.slow
def test_its_commands_run_in_processes_of_their_own(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    lines = re.findall(r"^discrete-diffusion .*my_algorithms.*", PAGE.read_text(), re.MULTILINE)
    train, sample = (shlex.split(line)[1:] for line in lines)
    main([*train, "debug=smoke", "data.num_plans=200"])
    del ALGORITHMS.builders["maskgit"]
    forget_imports(tmp_path)
    main([*sample, "checkpoint=runs/mine/checkpoints/last.ckpt", "num_samples=2"])
    assert len((tmp_path / "samples" / "samples.jsonl").read_text().splitlines()) == 2


def test_its_config_builds_trains_and_samples(module):
    words, folder = ["algo=maskgit", "model=bd_tiny"], EXAMPLE / "my_configs"
    config = compose("train", words, user_config_dir=folder)
    assert config.schedule.name == "cosine"
    algorithm = build_algorithm(config)
    assert isinstance(algorithm, module.MaskGIT)

    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor([4, 8]))
    generator = make_generator(0)
    tokens = build_sampler(config).sample(algorithm, real, generator=generator).x0
    algorithm.layout.check(tokens, real)
    output = algorithm.loss(Batch(tokens, real), generator)
    output.loss.backward()
    assert any(
        p.grad.abs().sum() > 0 for p in algorithm.backbone.parameters() if p.grad is not None
    )

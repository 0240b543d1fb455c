"""``docs/add_an_algorithm.md`` does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.algorithms.registry import _ALGORITHM_BUILDERS
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose, main
from discrete_diffusion.contracts import Batch
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.sampling import build_sampler
from fake_packages import forget_imports
from guide_code import blocks, run_python
from toy_algorithms import TOYS

PAGE = "add_an_algorithm.md"


pytestmark = pytest.mark.usefixtures("clean_registry")


@pytest.fixture
def scope(monkeypatch):
    """What the guide defines; the registries are as before afterwards."""
    monkeypatch.setitem(TOYS, "maskgit", None)
    return run_python(PAGE)


@pytest.mark.slow
def test_the_tests_of_the_guide_pass(scope):
    tests = [value for name, value in scope.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def write_config(folder: Path) -> None:
    (yaml,) = blocks(PAGE, "yaml")
    path = folder / re.match(r"# my_configs/(.*)\n", yaml).group(1)
    path.parent.mkdir(parents=True)
    path.write_text(yaml)


@pytest.mark.slow
def test_its_commands_run_in_processes_of_their_own(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    write_config(tmp_path / "my_configs")
    (tmp_path / "my_algorithms.py").write_text(blocks(PAGE, "python")[0])
    words = ["algo=maskgit", "model=bd_tiny", "debug=default", "data.num_plans=200"]
    words += ["plugins=[my_algorithms]", "hydra.run.dir=run"]
    main(["train", "--config-dir", "my_configs", *words])
    del _ALGORITHM_BUILDERS["maskgit"]
    forget_imports(tmp_path)
    words = ["plugins=[my_algorithms]", "checkpoint=run/checkpoints/last.ckpt"]
    main(["sample", *words, "num_samples=2", "out=samples"])
    assert len((tmp_path / "samples" / "samples.jsonl").read_text().splitlines()) == 2


def test_its_config_builds_trains_and_samples(scope, tmp_path):
    write_config(tmp_path)
    config = compose("train", ["algo=maskgit", "model=bd_tiny"], user_config_dir=tmp_path)
    assert config.noise.name == "cosine"
    algorithm = build_algorithm(config)
    assert isinstance(algorithm, scope["MaskGIT"])

    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor([4, 8]))
    generator = make_generator(0)
    tokens = build_sampler(config).sample(algorithm, real, generator=generator).x0
    algorithm.layout.check(tokens, real)
    output = algorithm.loss(Batch(tokens, real), generator)
    output.loss.backward()
    assert any(
        p.grad.abs().sum() > 0 for p in algorithm.backbone.parameters() if p.grad is not None
    )

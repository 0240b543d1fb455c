"""``plugins=[...]``: modules of the user's own, imported before names are checked."""

from __future__ import annotations

import sys

import pytest

from discrete_diffusion import load
from discrete_diffusion.algorithms.registry import ALGORITHMS
from discrete_diffusion.cli import compose, main
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS
from fake_packages import forget_imports

pytestmark = pytest.mark.usefixtures("clean_registry", "site")

CODE = """
from torch import nn

from discrete_diffusion.algorithms import MDLM, register_algorithm
from discrete_diffusion.models.registry import register_backbone


class Mine(nn.Module):
    def __init__(self, vocab_size, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size))

    def forward(self, x_t, sigma=None):
        return self.layers(x_t)


@register_backbone("my-backbone")
def build(config, vocab_size):
    return Mine(vocab_size, config.model.width)


@register_algorithm("my-algorithm")
class MyMDLM(MDLM):
    pass
"""
WORDS = ["plugins=[my_module]", "algo.backbone=my-backbone", "algo.name=my-algorithm"]


@pytest.fixture
def forget(tmp_path):
    """Write ``my_module`` into the current folder; calling it makes what it registered unknown, as
    in a new process."""
    (tmp_path / "my_module.py").write_text(CODE)

    def forget() -> None:
        forget_imports(tmp_path)
        ALGORITHMS.builders.pop("my-algorithm", None)
        _BACKBONE_BUILDERS.pop("my-backbone", None)

    return forget


FEW = ["debug=smoke", "trainer.max_steps=1", "data.num_plans=100", "eval.num_samples=2"]
TRAIN = ["train", *WORDS, "+model.width=8", *FEW, "hydra.run.dir=run"]
LAST = "run/checkpoints/last.ckpt"


@pytest.mark.slow
def test_a_checkpoint_is_read_with_the_modules_that_the_command_names(
    forget, tmp_path, failure, capsys
):
    main(TRAIN)
    forget()
    words = ["sample", f"checkpoint={LAST}", "num_samples=2", "out=samples"]
    error = failure(*words)
    for named in (LAST, "'my-backbone'", "not imported", "plugins=[my_module]", "load(path, "):
        assert named in error
    assert "my_module" not in sys.modules
    main([*words, WORDS[0]])
    assert len((tmp_path / "samples" / "samples.jsonl").read_text().splitlines()) == 2
    forget()
    assert type(load(LAST, plugins=["my_module"])).__name__ == "MyMDLM"


@pytest.mark.slow
def test_a_run_goes_on_with_the_modules_that_its_command_names(forget, failure, capsys):
    """Its folder has them in ``config.yaml``, which does not count: who can write one file of a
    folder can write the other."""
    main(TRAIN)
    forget()
    own = [word for word in TRAIN if word not in WORDS and not word.startswith("+")]
    failure(*own, f"resume={LAST}")
    assert "my_module" not in sys.modules
    longer = [word for word in TRAIN if not word.startswith("trainer.max_steps")]
    main([*longer, "trainer.max_steps=2", f"resume={LAST}"])
    assert load(LAST).backbone is not None


def test_a_key_that_the_preset_lacks_is_told_in_a_sentence(forget, failure):
    error = failure("train", *WORDS, "data.num_plans=100", "trainer.max_steps=1")
    assert "'my-backbone' reads model.width, which model=bd_small does not have" in error
    assert "or +model.width=..." in error
    assert "register_backbone('my-backbone', default_model={'width': ...})" in error


@pytest.mark.slow
def test_they_are_imported_before_names_are_checked(forget, tmp_path, failure, capsys):
    assert "unknown backbone 'my-backbone'" in failure("train", *WORDS[1:])
    (tmp_path / "experiment").mkdir()
    yaml = "# @package _global_\nplugins: [my_module]\nalgo: {backbone: my-backbone}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(yaml)
    config = compose("train", ["experiment=mine"], user_config_dir=tmp_path)
    assert config.algo.backbone == "my-backbone"
    forget()
    main(["list", WORDS[0]])
    listed = capsys.readouterr().out
    assert "my-backbone" in listed
    assert "my-algorithm" in listed


def test_a_failing_import_ends_every_command(tmp_path, failure):
    for command in ("train", "sample", "evaluate", "compare", "list"):
        assert failure(command, "plugins=[no_such_module]").startswith(
            "discrete-diffusion: plugins: no_such_module cannot be imported: ModuleNotFoundError"
        )
    (tmp_path / "ends.py").write_text("raise SystemExit(3)\n")
    assert "plugins: ends cannot be imported: SystemExit: 3" in failure("train", "plugins=[ends]")


OPTIMIZER = """
import numpy as np
import torch


class Logged(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        self.param_groups[0]["norm"] = np.float64(1.0)
        return loss
"""


@pytest.mark.slow
def test_an_optimizer_whose_state_could_not_be_read_back_ends_its_first_step(tmp_path, failure):
    (tmp_path / "my_optimizer.py").write_text(OPTIMIZER)
    words = ["debug=smoke", "trainer.max_steps=3", "data.num_plans=100", "hydra.run.dir=run"]
    error = failure("train", *words, "optim._target_=my_optimizer.Logged", "optim.lr=0.01")
    assert "optimizer_states[0].param_groups[0].norm, a numpy.float64" in error
    assert not (tmp_path / "run" / "checkpoints").exists()

"""``plugins=[...]``: modules of the user's own, imported before names are checked."""

from __future__ import annotations

import pytest

from discrete_diffusion import load
from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS
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
        _ALGORITHM_BUILDERS.pop("my-algorithm", None)
        _BACKBONE_BUILDERS.pop("my-backbone", None)

    return forget


def test_a_checkpoint_imports_them_again(forget, tmp_path, failure, capsys):
    few = ["debug=default", "trainer.max_steps=1", "data.num_plans=100", "eval.num_samples=2"]
    main(["train", *WORDS, "+model.width=8", *few, "hydra.run.dir=run"])
    checkpoint = "run/checkpoints/last.ckpt"
    forget()
    main(["sample", f"checkpoint={checkpoint}", "num_samples=2", "out=samples"])
    assert len((tmp_path / "samples" / "samples.jsonl").read_text().splitlines()) == 2
    forget()
    assert type(load(checkpoint)).__name__ == "MyMDLM"

    forget()
    (tmp_path / "my_module.py").unlink()
    assert failure("sample", f"checkpoint={checkpoint}", "out=other").startswith(
        f"discrete-diffusion: {checkpoint}: plugins: my_module cannot be imported: ModuleNotFound"
    )


def test_a_key_that_the_preset_lacks_is_told_in_a_sentence(forget, failure):
    error = failure("train", *WORDS, "data.num_plans=100", "trainer.max_steps=1")
    assert "'my-backbone' reads model.width, which model=bd_small does not have" in error
    assert "or +model.width=..." in error
    assert "register_backbone('my-backbone', default_model={'width': ...})" in error


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


@pytest.mark.parametrize("command", ["train", "sample", "evaluate", "compare", "list"])
def test_a_failing_import_ends_every_command(command, failure):
    assert failure(command, "plugins=[no_such_module]").startswith(
        "discrete-diffusion: plugins: no_such_module cannot be imported: ModuleNotFoundError"
    )

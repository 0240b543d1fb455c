"""A checkpoint whose plug-in is not there says what has it."""

from __future__ import annotations

import importlib
import shutil
import sys

import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.checkpoints.files import INFO_KEY
from discrete_diffusion.cli import compose
from discrete_diffusion.domains.registry import _DOMAINS
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS
from fake_packages import fake_install, forget_imports
from made_checkpoints import training_state

pytestmark = pytest.mark.usefixtures("clean_registry")

BACKBONE = """
from torch import nn
from discrete_diffusion.models.registry import register_backbone

class Mine(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, x_t, sigma=None):
        return self.table(x_t)

@register_backbone("their-net")
def build(config, vocab_size):
    return Mine(vocab_size)
"""
DOMAIN = """
from discrete_diffusion.domains import register_domain
from discrete_diffusion.domains.graphs.domain import Graphs

@register_domain
class Houses(Graphs):
    name = "houses"
"""


def written(site, path, *overrides, domain="graphs"):
    """A checkpoint of a model with what the packages of ``site`` have; they are gone afterwards."""
    config = compose("train", ["data=graphs", "data.max_nodes=8", "model=bd_tiny", *overrides])
    config.data.domain = domain
    state = training_state(config)
    torch.save(state, path)
    forget_imports(site)
    _BACKBONE_BUILDERS.pop("their-net", None)
    _DOMAINS.pop("houses", None)
    for folder in site.glob("*.dist-info"):
        shutil.rmtree(folder)
    importlib.invalidate_caches()
    return state[INFO_KEY].get("plugins")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "group", "words"),
    [
        ("their-net", BACKBONE, "backbones", ["algo.backbone=their-net"]),
        ("houses", DOMAIN, "domains", []),  # needed before any backbone
    ],
)
def test_its_package_is_named(site, tmp_path, name, code, group, words):
    path, package = tmp_path / "model.ckpt", name.replace("-", "_")
    domain = "graphs" if words else name
    fake_install(site, package, code, f"discrete_diffusion.{group}", {name: package})
    (listed,) = written(site, path, *words, domain=domain)  # ours are not listed
    assert listed["package"] == package
    with pytest.raises(ValueError, match=rf"model\.ckpt needs the package {package}.* '{name}'"):
        load(path)
    importlib.import_module(package)
    assert not words or type(load(path).backbone).__name__ == "Mine"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["their-net", "bd-denoiser", "__main__"])
def test_a_part_that_no_package_holds_is_named_with_its_module(site, tmp_path, name):
    """Of a module, called as one of ours, and of a script."""
    path, ours = tmp_path / "model.ckpt", _BACKBONE_BUILDERS["bd-denoiser"]
    (site / "loose.py").write_text(BACKBONE)
    scope = importlib.import_module("loose")
    says = rf"'{name}', of the module loose, .* plugins=\[loose\]"
    if name == "bd-denoiser":
        _BACKBONE_BUILDERS[name] = _BACKBONE_BUILDERS["their-net"]
    if name == "__main__":
        scope.build.__module__, name = name, "their-net"
        says = r"'their-net', which a script or notebook registered"
    written(site, path, f"algo.backbone={name}")
    _BACKBONE_BUILDERS["bd-denoiser"] = ours
    with pytest.raises(ValueError, match=says):
        load(path)
    assert "loose" not in sys.modules
    if "script" not in says and name == "their-net":
        assert type(load(path, plugins=["loose"]).backbone).__name__ == "Mine"

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
    config = compose("train", ["data=graphs", "data.n_max=8", "model=bd_tiny", *overrides])
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
def test_its_package_is_named(site, tmp_path):
    path = tmp_path / "model.ckpt"
    fake_install(
        site, "their_net", BACKBONE, "discrete_diffusion.backbones", {"their-net": "their_net"}
    )
    (part,) = written(site, path, "algo.backbone=their-net")
    assert part["package"] == "their_net"
    with pytest.raises(ValueError, match=r"model\.ckpt needs the package their_net.* 'their-net'"):
        load(path)
    importlib.import_module("their_net")
    assert type(load(path).backbone).__name__ == "Mine"


@pytest.mark.slow
def test_a_domain_too_which_is_needed_first(site, tmp_path):
    path = tmp_path / "model.ckpt"
    fake_install(site, "houses", DOMAIN, "discrete_diffusion.domains", {"houses": "houses"})
    written(site, path, domain="houses")
    with pytest.raises(ValueError, match=r"model\.ckpt needs the package houses.* 'houses'"):
        load(path)


@pytest.mark.slow
def test_a_module_that_no_package_holds_is_named_with_its_key(site, tmp_path):
    path = tmp_path / "model.ckpt"
    (site / "loose.py").write_text(BACKBONE)
    importlib.import_module("loose")
    written(site, path, "algo.backbone=their-net")
    with pytest.raises(ValueError, match=r"'their-net', of the module loose, .* plugins=\[loose\]"):
        load(path)
    assert "loose" not in sys.modules
    assert type(load(path, plugins=["loose"]).backbone).__name__ == "Mine"


@pytest.mark.slow
def test_a_name_of_ours_does_not_stand_in_for_theirs(site, tmp_path):
    """A network of another module, called as one of ours, which is another function."""
    path = tmp_path / "model.ckpt"
    (site / "loose.py").write_text(BACKBONE)
    importlib.import_module("loose")
    ours = _BACKBONE_BUILDERS["bd-denoiser"]
    _BACKBONE_BUILDERS["bd-denoiser"] = _BACKBONE_BUILDERS["their-net"]
    written(site, path)
    _BACKBONE_BUILDERS["bd-denoiser"] = ours
    with pytest.raises(ValueError, match=r"'bd-denoiser', of the module loose, .*plugins=\[loose"):
        load(path)


@pytest.mark.slow
def test_what_a_script_registered_is_told_apart(site, tmp_path):
    path = tmp_path / "model.ckpt"
    (site / "loose.py").write_text(BACKBONE)
    scope = importlib.import_module("loose")
    scope.build.__module__ = "__main__"
    written(site, path, "algo.backbone=their-net")
    with pytest.raises(ValueError, match=r"'their-net', which a script or notebook registered"):
        load(path)


def test_our_own_parts_are_not_listed(tmp_path):
    assert written(tmp_path, tmp_path / "model.ckpt") is None

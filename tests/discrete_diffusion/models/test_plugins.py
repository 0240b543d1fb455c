"""Backbones from other packages, found through their entry points."""

import importlib
import subprocess
import sys

import pytest

from discrete_diffusion.models.registry import (
    BACKBONES,
    available_backbones,
    backbone_spec,
    build_backbone,
)
from fake_packages import fake_install

pytestmark = pytest.mark.usefixtures("clean_registry")

PLUGIN_CODE = """
from torch import nn
from discrete_diffusion.models.registry import register_backbone

class Plugin(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, x_t, sigma=None):
        return self.table(x_t)

@register_backbone("plugin-decorated", conditions=("group_idxs",))
def build_decorated(config, vocab_size):
    return Plugin(vocab_size)

def build_plain(config, vocab_size):
    return Plugin(vocab_size)
"""


@pytest.mark.slow
def test_a_really_installed_plugin_works(tmp_path, site, make_config):
    project = tmp_path / "project"
    (project / "src" / "tiny_plugin").mkdir(parents=True)
    (project / "src" / "tiny_plugin" / "__init__.py").write_text(PLUGIN_CODE)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "tiny-plugin"\nversion = "1.0"\n'
        f'[project.entry-points."{BACKBONES.group}"]\n'
        'plugin-plain = "tiny_plugin:build_plain"\n'
    )
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", site, project],
        check=True,
        capture_output=True,
    )
    importlib.invalidate_caches()
    backbone = build_backbone(make_config("plugin-plain", "bd_small"), 28)
    assert backbone.table.num_embeddings == 28
    assert {"plugin-plain", "plugin-decorated"} <= set(available_backbones())


@pytest.mark.parametrize(
    "value", ["good_plugin", "good_plugin:build_decorated"], ids=["module", "decorated builder"]
)
def test_entry_point_that_registers_on_import_keeps_its_own_name(site, value):
    fake_install(site, "good_plugin", PLUGIN_CODE, BACKBONES.group, {"other-name": value})
    BACKBONES.entry("plugin-decorated")
    assert backbone_spec("plugin-decorated").conditions == ("group_idxs",)
    assert "other-name" not in available_backbones()


def test_broken_plugins_are_logged_by_name_once_and_disturb_nobody(site, caplog):
    fake_install(
        site,
        "broken_plugin",
        "import no_such_library\n",
        BACKBONES.group,
        {"broken": "broken_plugin"},
    )
    fake_install(site, "odd_plugin", "number = 3\n", BACKBONES.group, {"odd": "odd_plugin:number"})
    fake_install(site, "thief", PLUGIN_CODE, BACKBONES.group, {"dit": "thief:build_plain"})
    BACKBONES.entry("plugin-decorated")
    messages = sorted(record.getMessage() for record in caplog.records)
    assert [m.split(" was left out: ")[0] for m in messages] == [
        "backbone plug-in 'broken' (broken_plugin, from broken_plugin)",
        "backbone plug-in 'dit' (thief:build_plain, from thief)",
        "backbone plug-in 'odd' (odd_plugin:number, from odd_plugin)",
    ]
    assert "No module named 'no_such_library'" in messages[0]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert not any("\n" in message for message in messages)
    caplog.clear()
    assert "dit" in available_backbones()
    assert not caplog.records
    assert backbone_spec("dit").default_model == "dit_small"


def test_built_in_names_are_found_without_loading_plugins(site):
    fake_install(
        site,
        "broken_plugin",
        "raise RuntimeError\n",
        BACKBONES.group,
        {"broken": "broken_plugin"},
    )
    BACKBONES.entry("bd-denoiser")
    assert "broken_plugin" not in sys.modules

"""``compare`` with networks and presets of one's own, as README and the template print it."""

from __future__ import annotations

import csv
import json
import re
import shlex

import pytest
from torch import nn

from comparison_fixtures import plan
from discrete_diffusion.cli import compose, main
from discrete_diffusion.config.files import shipped_presets
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS, register_backbone
from guide_code import DOCS

pytestmark = pytest.mark.usefixtures("clean_registry", "site")

README = (DOCS.parent / "README.md").read_text()

NETWORK = """
from torch import nn


class MyNetwork(nn.Module):
    def __init__(self, vocab_size, width):
        super().__init__()
        self.token = nn.Embedding(vocab_size, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab_size)

    def forward(self, x_t, sigma):
        return self.head(self.mix(self.token(x_t)))


"""
TINY = (
    *("data.num_plans=100", "data.batch_size=16", "trainer.max_steps=1", "logger=none"),
    *("callbacks.num_samples=0", "eval.num_samples=0", "num_held_out=4", "noise_samples=1"),
)


def printed(text: str, *words: str) -> list[str]:
    """The arguments of the only line of a page that begins a command and has all of the words."""
    lines = [line.strip() for line in text.splitlines()]
    (line,) = {x for x in lines if x.startswith("discrete-diffusion") and {*words} <= {*x.split()}}
    return shlex.split(line, comments=True)[1:]


def check_table(out, models: dict[str, str]) -> None:
    """Every row has the preset of its backbone, and the first one's size to 5 %."""
    with (out / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["backbone"]: row["model"] for row in rows} == models
    sizes = [int(row["parameters"]) for row in rows]
    assert all(abs(size / sizes[0] - 1) <= 0.05 for size in sizes)
    table = (out / "table.md").read_text()
    for row in rows:
        assert f"| {row['model']} ({int(row['parameters']):,}) |" in table
    assert [m["model"] for m in json.loads((out / "results.json").read_text())["models"]] == [
        row["model"] for row in rows
    ]


@pytest.mark.slow
def test_the_lines_of_the_readme_run(tmp_path, capsys):
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if '"mine"' in c)
    (tmp_path / "my_module.py").write_text(NETWORK + code)
    assert len([line for line in (NETWORK + code).splitlines() if line]) <= 20
    line = printed(README, "train", "plugins=[my_module]")
    words = [word for word in TINY if not word.startswith(("num_held_out", "noise_samples"))]
    main([*line, *words, "hydra.run.dir=run"])
    line = printed(README, "compare", "plugins=[my_module]")
    main([*line, *TINY, "model=bd_tiny"])
    rows = {"bd-denoiser": "bd_tiny", "mine": "mine, width=400"}
    check_table(tmp_path / "compared", rows)
    said = capsys.readouterr().out
    assert "mdlm with mine: model=mine, width=400 (" in said
    assert "model=bd_tiny: for mdlm with bd-denoiser, udlm with bd-denoiser" in said
    main([*line, *TINY, "model=bd_tiny"])
    assert "nothing to train: 8 cells finished" in capsys.readouterr().out


@pytest.mark.slow
def test_the_line_that_new_prints_runs(tmp_path, monkeypatch, capsys, site):
    main(["new", "plan_net"])
    line = printed(capsys.readouterr().out, "compare")
    template = (tmp_path / "plan_net" / "README.md").read_text()
    assert printed(template, "compare") == line
    monkeypatch.chdir(tmp_path / "plan_net")
    monkeypatch.syspath_prepend(tmp_path / "plan_net")
    info = site / "plan_net-1.0.dist-info"  # as pip install -e leaves it
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plan_net\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[discrete_diffusion.backbones]\nplan_net = plan_net.backbone\n"
    )
    main([*line, *TINY])
    out = tmp_path / "plan_net" / "comparison"
    results = json.loads((out / "results.json").read_text())
    found = {m["backbone"]: m["model"] for m in results["models"]}
    assert found["plan_net"] == "plan_net"
    assert found["bd-denoiser"].startswith("bd_tiny, d_model=")
    check_table(out, found)
    cells = plan(*line[1:-2], "plugins=[plan_net]", user_config_dir="configs")
    assert [cell.model for cell in cells] == [*found.values()]


class Stack(nn.Sequential):
    """Of ``depth`` layers of a ``width``."""

    def __init__(self, vocab_size: int, width: int, depth: int = 1) -> None:
        layers = [nn.Linear(width, width) for _ in range(depth)]
        super().__init__(nn.Embedding(vocab_size, width), *layers, nn.Linear(width, vocab_size))

    def forward(self, x_t, sigma=None):
        return super().forward(x_t)


def register(name: str, default_model=None, build=None):
    def from_config(config, vocab_size):
        return Stack(vocab_size, config.model.width)

    register_backbone(name, default_model=default_model)(build or from_config)


def test_every_backbone_is_tried_before_the_first_run(tmp_path, failure):
    class OneIdShort(Stack):
        def forward(self, x_t, sigma=None):
            return super().forward(x_t)[..., :-1]

    register("good", {"width": 8})
    register("bad", {"width": 8}, lambda config, size: OneIdShort(size, config.model.width))
    words = ["algos=[mdlm,udlm]", "backbones=[good,bad]", "seeds=[0,1]", *TINY]
    said = failure("compare", *words, "out=compared")
    assert "compare refuses 2 of 4 combinations, and ran none" in said
    for algorithm in ("mdlm", "udlm"):
        assert f"{algorithm} with bad: OneIdShort.forward(x_t, sigma=None) returned" in said
    assert not (tmp_path / "compared").exists()


@pytest.mark.slow
def test_conditions_that_are_not_declared_are_read_off_the_signature():
    class Blocks(Stack):
        def forward(self, x_t, group_idxs, sigma):
            return super().forward(x_t)

    _BACKBONE_BUILDERS["plain"] = lambda config, size: Stack(size, 8)
    _BACKBONE_BUILDERS["blocks"] = lambda config, size: Blocks(size, 8)
    words = ["backbones=[plain,blocks]", "model=bd_tiny", "size_tolerance=null"]
    cells = plan("algos=[bd3lm]", *words)
    assert [(c.backbone, c.instead_of) for c in cells] == [("dit", "plain"), ("blocks", None)]


def models(*words: str, **folder) -> list[tuple[str, int]]:
    return [(cell.model, cell.parameters) for cell in plan(*words, **folder)]


@pytest.mark.slow
@pytest.mark.parametrize("width", [2, 3000])
def test_a_network_of_another_size_is_made_equal(width):
    register("mine", {"width": width, "scales_with": "width"})
    (_, size), (model, found) = models("backbones=[bd-denoiser,mine]", "model=bd_tiny")
    assert re.fullmatch(r"mine, width=\d+", model)
    assert abs(found / size - 1) < 0.01


@pytest.mark.slow
def test_sizes_that_a_network_refuses_are_passed_over_and_a_second_key_makes_them_up():
    def build(config, vocab_size):
        layer = nn.TransformerEncoderLayer(config.model.width, nhead=12)  # asserts that 12 divides
        return Stack(vocab_size, config.model.width).insert(1, layer)

    def coarse(config, vocab_size):
        if config.model.width % 64:
            raise ValueError("64 divides the width")
        rest = nn.Linear(1, config.model.rest)
        return Stack(vocab_size, 1).append(Stack(vocab_size, config.model.width)).append(rest)

    register("mine", {"width": 12, "scales_with": "width"}, build)
    (_, size), (model, found) = models("backbones=[bd-denoiser,mine]")
    assert int(model.partition("=")[2]) % 12 == 0
    assert abs(found / size - 1) <= 0.05
    sizes = {"width": 64, "rest": 8, "scales_with": ["width", "rest"]}
    register("coarse", sizes, coarse)
    (_, size), (model, found) = models("backbones=[bd-denoiser,coarse]", "model=bd_tiny")
    assert re.fullmatch(r"coarse, width=\d+, rest=\d+", model)
    assert abs(found / size - 1) <= 0.05


@pytest.mark.slow
def test_a_network_that_cannot_be_made_equal_is_refused_with_the_ways_out(refusal):
    register("fixed", {"width": 64})
    register("deaf", {"width": 64, "scales_with": "width"}, lambda c, v: Stack(v, 10))
    register("none", None, lambda c, v: Stack(v, 10))
    register("mine")
    said = "register_backbone('mine', default_model={'width': ...})"
    assert said in refusal("backbones=[bd-denoiser,mine]")
    for name, remedy in (
        ("fixed", "preset fixed which key scales it, as in scales_with: width"),
        ("deaf", "nothing nearer was found by width"),
        ("none", "default_model={'width': 64, 'scales_with': 'width'}"),
    ):
        error = refusal(f"backbones=[bd-denoiser,{name}]")
        for said in (remedy, "1,281,564", "size_tolerance=0.2", "size_tolerance=null"):
            assert said in error


@pytest.mark.slow
def test_the_size_that_a_command_gives_stays(refusal):
    register("mine", {"width": 64, "scales_with": "width"})
    words = ("backbones=[bd-denoiser,mine]", "model=bd_tiny")
    for option in ("model.width=400", "+model.width=400"):
        assert models(*words, option)[1] == ("mine", 182_828)
    assert "leave out model.width=, and compare finds it" in refusal(*words, "model.width=32")


@pytest.mark.slow
def test_sizes_may_differ_and_the_table_says_how_far(tmp_path, refusal):
    register("mine", {"width": 8, "scales_with": "width"})
    words = ("backbones=[bd-denoiser,mine]", "model=bd_tiny")
    assert models(*words, "size_tolerance=0.999")[1] == ("mine", 548)
    for value in ("2", "-0.1", "few", "true"):
        assert "size_tolerance" in refusal(*words, f"size_tolerance={value}")
    main(["compare", *words, "size_tolerance=null", *TINY])
    table = (tmp_path / "comparison" / "table.md").read_text()
    assert "| mine (548) |" in table
    assert "mdlm (mine) has 99.7% fewer parameters than mdlm (bd-denoiser)." in table


PRESET = "name: mine_wide\nbackbones: [mine]\nscales_with: width\nwidth: 32\n"


def write_preset(folder, text: str = PRESET, name: str = "mine_wide"):
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model" / f"{name}.yaml").write_text(text)
    return folder


@pytest.mark.slow
def test_presets_of_ones_own_folder(tmp_path):
    register("mine", "mine_wide")
    folder = write_preset(tmp_path / "configs")
    write_preset(folder, "defaults: [mine_wide]\nname: mine_deep\nwidth: 400\n", "mine_deep")
    words = ("backbones=[bd-denoiser,mine]", "seeds=[0]")
    assert compose("train", ["algo.backbone=mine"], user_config_dir=folder).model.width == 32
    small = models(*words, "model=bd_tiny", user_config_dir=str(folder))
    assert small[1] == ("mine_deep", 182_828)  # of the size as it is
    chosen = models(*words, "model=mine_wide", user_config_dir=str(folder))
    assert [model.partition(",")[0] for model, _ in chosen] == ["bd_small", "mine_wide"]


def test_a_default_preset_that_is_nowhere_is_named():
    register("mine", "mine_wide")
    with pytest.raises(ValueError, match=r"mine_wide.*--config-dir FOLDER.*model/mine_wide\.yaml"):
        compose("train", ["algo.backbone=mine"])


@pytest.mark.slow
def test_sizes_of_the_registry_are_a_preset_in_train(failure):
    register("mine", {"width": 64, "scales_with": "width"})
    for words in (["model.width=72"], ["+model.width=72"], ["model=mine", "model.width=72"]):
        config = compose("train", ["algo.backbone=mine", *words])
        assert (config.model.name, config.model.width) == ("mine", 72)
    with pytest.raises(ValueError, match="model=mine is made for mine"):
        compose("train", ["model=mine"])
    with pytest.raises(ValueError, match=r"model\.width=wide: expected a number"):
        compose("train", ["algo.backbone=mine", "model.width=wide"])
    with pytest.raises(ValueError, match=r"scales_with names 'wdth'.*: width"):
        register_backbone("other", default_model={"width": 64, "scales_with": "wdth"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "share"),
    [("bd_tiny", 1.6), ("bd_pair_small", 1.6), ("dit_small", 0.8), ("my_transformer_small", 0.7)],
)
def test_the_search_finds_five_percent_with_backbones_of_ours(preset, share):
    ours = shipped_presets()[preset]
    half = round(share * ours.parameters / 2)
    register("first", None, lambda config, vocab_size: Stack(1, 1).append(nn.Linear(1, half)))
    (_, size), (model, found) = models(f"backbones=[first,{ours.backbones[0]}]", f"model={preset}")
    assert model.startswith(f"{preset}, {ours.scales_with[0]}=")
    assert abs(found / size - 1) <= 0.05

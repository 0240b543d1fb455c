"""Parts of one's own are choices of their config groups, without a YAML."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from discrete_diffusion.cli import compose, main
from discrete_diffusion.composing.parts import all_choices, choices
from discrete_diffusion.forward_process.registry import PROCESSES
from discrete_diffusion.sampling.registry import SAMPLERS
from fake_packages import fake_install, forget_imports

CODE = """
from dataclasses import dataclass, field

from discrete_diffusion.algorithms import MDLM, UDLM, register_algorithm
from discrete_diffusion.forward_process import Uniform, register_forward_process
from discrete_diffusion.noise_schedules import Polynomial, register_noise_schedule
from discrete_diffusion.sampling import FirstHitting, register_sampler


@register_forward_process("my-process")
class MyProcess(Uniform):
    name = "my-process"

    def __init__(self, layout, schedule, *, width: float = 2.0, table: object = object()):
        super().__init__(layout, schedule)
        self.width = width


@register_noise_schedule("my-noise")
class MyNoise(Polynomial):
    pass


@register_algorithm("my-algorithm")
class MyAlgorithm(UDLM):
    name = "my-algorithm"
    processes = ("my-process",)


@register_algorithm("my-mdlm")
class MyMDLM(MDLM):
    name = "my-mdlm"


@register_algorithm("my-reader")
class MyReader(MDLM):
    name, samplers, backbone_needs = "my-reader", ("my-sampler",), ("group_idxs",)


@register_sampler("my-sampler")
@dataclass(kw_only=True)
class MySampler(FirstHitting):
    name = "my-sampler"
    absorbing_only = True
    share: float = 0.5
    kept: list = field(default_factory=list)
"""
PLUGIN = "plugins=[my_parts]"
FEW = [
    *("model=bd_tiny", "debug=smoke", "trainer.max_steps=1", "data.num_plans=60"),
    *("eval.num_samples=1", "logger=none", "callbacks.num_samples=0"),
]


@pytest.fixture(autouse=True)
def module(clean_registry, site, tmp_path):
    (tmp_path / "my_parts.py").write_text(CODE)


def test_a_part_has_the_defaults_of_its_constructor():
    words = [PLUGIN, "algo=d3pm", "forward_process=my-process", "schedule=my-noise"]
    config = compose("train", [*words, "forward_process.width=3", "sampling=my-sampler"])
    assert config.forward_process == {"name": "my-process", "width": 3}
    assert config.schedule == {"name": "my-noise", "exponent": 2.0}
    shared = {"temperature": 1.0, "top_p": 1.0, "guidance": 1.0, "refresh": 1}
    own = {"tokens_per_call": 1, "share": 0.5}
    assert config.sampling == {"name": "my-sampler", **shared, **own}
    config = compose("evaluate", [PLUGIN, "sampling=my-sampler", "sampling.share=0.1"])
    assert (config.sampling.name, config.sampling.share) == ("my-sampler", 0.1)


@pytest.mark.parametrize(
    ("algorithm", "backbone", "process", "sampler"),
    [
        ("my-algorithm", "bd-denoiser", "my-process", "ancestral"),
        ("my-mdlm", "bd-denoiser", "absorbing", "first-hitting"),
        ("my-reader", "dit", "absorbing", "my-sampler"),
    ],
)
def test_an_algorithm_brings_what_fits_it(algorithm, backbone, process, sampler):
    config = compose("train", [PLUGIN, f"algo={algorithm}"])
    assert (config.algo.name, config.algo.backbone) == (algorithm, backbone)
    assert (config.algo.time_conditioning, config.algo.condition_dropout) == (True, 0.0)
    assert (config.forward_process.name, config.sampling.name) == (process, sampler)
    config = compose("train", [PLUGIN, f"algo={algorithm}", "sampling=renoise"])
    assert config.sampling.name == "renoise"


@pytest.mark.slow
def test_files_of_ones_own_come_first_and_name_parts(tmp_path):
    for name, text in {
        "forward_process/my-process": "name: my-process\nwidth: 7.0\n",
        "experiment/mine": "# @package _global_\ndefaults:\n  - override /schedule: my-noise\n"
        "plugins: [my_parts]\n",
    }.items():
        path = tmp_path / "configs" / f"{name}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    words = [PLUGIN, "forward_process=my-process"]
    assert compose("train", words).forward_process.width == 2
    config = compose("train", words, user_config_dir=tmp_path / "configs")
    assert config.forward_process.width == 7
    words = ["experiment=mine", "algo=my-algorithm"]
    config = compose("train", words, user_config_dir=tmp_path / "configs")
    assert (config.schedule.name, config.forward_process.name) == ("my-noise", "my-process")


@pytest.mark.slow
def test_those_of_other_packages_are_looked_up_when_they_are_named(site):
    group = {"any": "their_parts"}
    fake_install(site, "their_parts", CODE, "discrete_diffusion.forward_processes", group)
    compose("train", ["forward_process=uniform", "algo=d3pm"])
    assert "my-process" not in PROCESSES.builders
    config = compose("train", ["forward_process=my-process", "algo=d3pm"])
    assert config.forward_process.width == 2


def test_help_shows_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["train", "--help", PLUGIN, "schedule=my-noise"])
    shown = capsys.readouterr().out
    assert re.search(r"schedule=my-noise +.*my-noise", shown)
    assert "schedule.exponent=2.0" in shown


@pytest.mark.slow
def test_jobs_of_a_sweep_take_them():
    words = ["algo=d3pm", "forward_process=uniform,my-process", "sampling.steps=2"]
    main(["train", "--multirun", PLUGIN, *words, *FEW, "hydra.sweep.dir=sweep"])
    assert "my-process" in Path("sweep/1/config.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["forward_process=my-proces"], ["'my-process'", "none of plugins=[my_parts]"]),
        (["forward_process=my-process"], ["my-process", "mdlm", "algo=d3pm"]),
        (["schedule=my-noise", "schedule.exponen=2"], ["'schedule'", "'exponent'"]),
        (["schedule=my-noise", "schedule.exponent=few"], ["schedule.exponent=few", "a number"]),
        (["algo=my-algorithm", "forward_process=uniform"], ["forward_process=my-process"]),
    ],
)
def test_mistakes_are_named(words, named, failure):
    said = failure("train", PLUGIN, *words, "data.num_plans=60")
    assert [part for part in named if part not in said] == []


def test_names_without_a_yaml_are_choices_too(failure):
    assert all_choices("schedule") == choices("schedule")
    assert "plugins=[MODULE]" in failure("train", "schedule=my-noise")
    compose("train", [PLUGIN])
    assert {*all_choices("schedule")} - {*choices("schedule")} == {"my-noise"}
    assert all_choices("optim") == choices("optim")


LAST = "checkpoint=run/checkpoints/last.ckpt"


@pytest.mark.slow
def test_a_missing_sampler_is_named_with_the_modules_that_the_checkpoint_remembers(
    failure, tmp_path
):
    other = CODE[CODE.index("@register_sampler") :].replace("my-sampler", "other-sampler")
    head = CODE[: CODE.index("@register_forward_process")]
    (tmp_path / "other_parts.py").write_text(head + other)
    main(["train", PLUGIN, "sampling=my-sampler", *FEW, "hydra.run.dir=run"])
    forget_imports(tmp_path)
    for table in (SAMPLERS, PROCESSES):
        table.builders.pop("my-sampler" if table is SAMPLERS else "my-process")
    own = failure("sample", LAST, "out=samples")
    assert "needs its sampler 'my-sampler', of the module my_parts" in own
    assert "plugins=[my_parts]" in own
    for command in ("sample", "evaluate"):
        said = failure(command, LAST, "sampling=other-sampler", "out=samples")
        assert "unknown sampling choice 'other-sampler'" in said
        assert f"{LAST.partition('=')[2]} has parts of my_parts" in said
        assert "plugins=[my_parts]" in said
        assert "plugins=[MODULE]" in said
    assert "my_parts" not in sys.modules  # reading imports nothing
    said = failure("sample", LAST, "sampling=another", "plugins=[other_parts]", "out=samples")
    assert "plugins=[other_parts,my_parts]" in said
    assert "plugins=[other_parts,MODULE]" in said
    main(["sample", LAST, "sampling=ancestral", "num_samples=1", "out=samples"])
    main(["sample", LAST, PLUGIN, "num_samples=1", "out=others"])

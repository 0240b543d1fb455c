"""``docs/extend.md`` does what it says, with public names alone."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import torch

import toy_algorithms
from discrete_diffusion.algorithms import D3PM, MatrixDiffusion
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import main
from discrete_diffusion.composing.parts import PART_GROUPS, registry_of
from discrete_diffusion.contracts import Batch
from discrete_diffusion.domains.registry import ENTRY_POINT_GROUP as OF_DOMAINS
from discrete_diffusion.models.registry import BACKBONES
from discrete_diffusion.sampling import Ancestral
from fake_packages import forget_imports
from guide_code import DOCS, blocks, split_excerpts
from toy_algorithms import TOYS, Toy
from toy_world import FULL, PAD, ToyWorld, all_schedules, total_variation, toy_layout

PAGE = "extend.md"
TEXT = (DOCS / PAGE).read_text()
OWN, EXCERPTS = split_excerpts(PAGE)

pytestmark = pytest.mark.usefixtures("clean_registry")


@pytest.fixture
def scope(monkeypatch):
    """What the guide defines, its process among those of the toy world."""
    scope: dict[str, Any] = {}
    exec(compile("\n".join(OWN), PAGE, "exec"), scope)
    monkeypatch.setitem(toy_algorithms.PROCESSES, "mask-or-wrong", scope["MaskOrWrong"])
    return scope


def test_it_uses_public_names_alone():
    for code in blocks(PAGE, "python"):
        assert not re.findall(r"(?<![\w])_(?!_)\w+|\._(?!_)\w+", code)


@pytest.mark.parametrize("file", EXCERPTS)
def test_what_it_shows_of_an_example_is_there(file):
    assert len(EXCERPTS) == 2
    assert EXCERPTS[file].strip("\n") in (DOCS.parent / file).read_text()


def test_the_table_has_every_noun_with_its_group():
    groups = {registry_of(group).group for group in PART_GROUPS} | {OF_DOMAINS, BACKBONES.group}
    rows = [
        row.split("|") for row in TEXT.splitlines() if row.startswith("| ") and "register" in row
    ]
    assert {row[4].strip(" `") for row in rows} == groups
    for row in rows:
        decorator = re.match(r" `(\w+)", row[2])[1]
        scope: dict[str, object] = {}
        exec(f"from {row[3].strip(' `')} import {decorator}", scope)
        assert callable(scope[decorator])


def mean_bound(algorithm, num=20_000):
    """The mean NELBO of samples of the toy world, its standard error, and the entropy."""
    world = ToyWorld.make()
    x0 = world.x0[torch.multinomial(world.prob, num, True, generator=make_generator(0))]
    nelbo = algorithm.loss(Batch(x0, x0 != PAD), make_generator(1)).nelbo.double()
    return float(nelbo.mean()), float(nelbo.std() / num**0.5), world.entropy


@pytest.mark.parametrize("schedule", ["sine", "log_linear", "per_group"])
def test_the_bound_of_the_process_is_the_entropy(scope, schedule):
    noise = scope["Sine"]() if schedule == "sine" else all_schedules(toy_layout())[schedule]
    toy = Toy("mask-or-wrong", MatrixDiffusion)
    mean, error, entropy = mean_bound(toy.exact(noise))
    assert abs(mean - entropy) < 4.5 * error
    mean, _, entropy = mean_bound(toy.exact(noise, tilt=4.0))
    assert mean > entropy + 0.1
    in_steps = Toy("mask-or-wrong", lambda b, p: D3PM(b, p, num_steps=64), steps=True)
    mean, error, entropy = mean_bound(in_steps.exact(noise))
    assert -4.5 * error < mean - entropy < 0.06 + 4.5 * error


@pytest.mark.slow
def test_samples_have_the_distribution_of_the_data(scope):
    world, real = ToyWorld.make(), FULL.expand(8_000, -1)
    process = Toy("mask-or-wrong", MatrixDiffusion).exact(scope["Sine"]())
    ancestral = Ancestral(steps=40)
    # a share that is less than a token draws them one by one, which is exact
    one_by_one = scope["Halves"](share=1e-6)
    for sampler, model in [(ancestral, process), (one_by_one, TOYS["mdlm"].exact(scope["Sine"]()))]:
        output = sampler.sample(model, real, generator=make_generator(2))
        assert total_variation(world.distribution(output.x0), world.prob) < 0.04
    assert (output.nfe == 3).all()
    halves = scope["Halves"]().sample(model, real, generator=make_generator(2))
    assert (halves.nfe == 2).all()


@pytest.mark.parametrize("masked", [0.0, 1.0])
def test_the_edges_of_the_process(scope, masked):
    process = scope["MaskOrWrong"](toy_layout(), scope["Sine"](), masked=masked)
    torch.testing.assert_close(process.prior().sum(dim=-1), torch.ones(3).double())
    with pytest.raises(ValueError, match=r"forward_process\.masked=1\.5"):
        scope["MaskOrWrong"](toy_layout(), scope["Sine"](), masked=1.5)


@pytest.mark.slow
def test_its_commands_run(site, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "my_parts.py").write_text("\n".join(OWN))
    few = ["model=bd_tiny", "debug=smoke", "trainer.max_steps=1", "data.num_plans=60"]
    few += ["eval.num_samples=1", "logger=none", "callbacks.num_samples=0"]
    commands = [shlex.split(x)[1:] for x in re.findall(r"^discrete-diffusion .*", TEXT, re.M)]
    commands = [words for words in commands if "plugins=[my_parts]" in words]
    assert [words[0] for words in commands] == ["list", "train", "train", "train", "sample"]
    for words in commands:
        main([*words, *(few if words[0] == "train" else ())])
    shown = capsys.readouterr().out
    rows = {row[0]: row for row in (line.split() for line in shown.splitlines()) if row}
    assert {"mask-or-wrong", "sine", "halves"} <= rows.keys()
    assert len((tmp_path / "samples" / "samples.jsonl").read_text().splitlines()) == 8
    forget_imports(tmp_path)

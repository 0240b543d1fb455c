"""Every config composes and builds; presets follow the backbone; Hydra is left as it was."""

from __future__ import annotations

import re
from contextlib import nullcontext
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from discrete_diffusion.algorithms import Algorithm, build_algorithm
from discrete_diffusion.cli import compose, config_dir
from discrete_diffusion.cli.train import check_training_values
from discrete_diffusion.composing.compose import compose_plainly, with_open_keys
from discrete_diffusion.config.constructors import check_kinds
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.domains import complete_data, domain_of
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS
from discrete_diffusion.runtime.devices import trainer_devices
from discrete_diffusion.runtime.processes import StopSignals
from discrete_diffusion.sampling import build_sampler, check_sampler
from discrete_diffusion.training.trainer import build_trainer

GROUPS = {
    group.name: [*shipped_files(group.name)]
    for group in sorted(config_dir().iterdir())
    if group.is_dir() and group.name != "hydra"
}
CHOICES = [(group, name) for group, names in GROUPS.items() for name in names]


def trainer_of(config, folder, report):
    devices = trainer_devices(config.trainer)
    return build_trainer(
        *(config, devices, folder, None, report), instantiate=instantiate, signals=StopSignals()
    )


GOES_WITH = {
    ("forward_process", "uniform"): ["algo=udlm"],
    ("forward_process", "marginal"): ["algo=marginal"],
    ("forward_process", "matrix"): ["algo=ctmc"],
    ("forward_process", "hybrid"): ["algo=gidd"],
    ("schedule", "learned"): ["algo=meld"],
    ("sampling", "autoregressive"): ["algo=ar"],
    ("sampling", "few-call"): ["algo=distill"],
    ("data", "text"): ["algo.backbone=dit"],
    ("data", "token_files"): ["algo.backbone=dit"],
    ("data", "dialogue-tokens"): ["algo.backbone=dit"],
    ("data", "sudoku"): ["algo.backbone=my-transformer"],
    ("data", "graph_colouring"): ["algo.backbone=my-transformer"],
    ("data", "graphs"): ["data.max_nodes=20"],
    ("data", "molecules"): ["data.max_nodes=9", "data.atoms=[C,N,O]"],
    ("data", "regions"): ["algo=masked-features"],
    ("sampling", "row-ancestral"): ["algo=masked-features"],
    ("data", "eit"): ["algo=flow-matching"],
    ("data", "eit_quantised"): ["algo.backbone=film-unet-tokens"],
    ("sampling", "ode"): ["algo=flow-matching"],
    ("sampling", "direct"): ["algo=regression"],
    ("data", "dialogue"): ["algo=latent-seq2seq"],
    ("sampling", "generate"): ["algo=latent-seq2seq"],
    ("model", "latent_tiny"): ["algo=latent-seq2seq"],
    ("model", "latent_paper"): ["algo=latent-seq2seq"],
    ("model", "dtn_regressor_tiny"): ["algo=regression"],
    ("model", "dtn_unet_tiny"): ["algo=flow-matching"],
    ("model", "dtn_unet_paper"): ["algo=flow-matching", "data.size=128", "data.num_boundary=128"],
    ("model", "film_unet_tiny"): ["data=eit_quantised"],
    ("model", "transformers"): ["algo.time_conditioning=false"],
    ("model", "get_region_tiny"): ["algo=masked-features"],
    ("model", "get_region_paper"): ["algo=masked-features"],
    ("model", "get_region_as_published"): ["algo=masked-features"],
}
"""Choices that the default algorithm or backbone cannot use, with what they are for."""

OF_IDS = ("token_files", "text8", "lm1b", "owt")
"""Choices that need a file of ids."""


@pytest.mark.parametrize(("group", "name"), CHOICES, ids=lambda value: str(value))
def test_every_choice_composes_and_builds(group, name, tmp_path):
    overrides = [f"{group}={name}", *GOES_WITH.get((group, name), [])]
    if name in OF_IDS:
        np.save(tmp_path / "ids.npy", np.arange(3000) % 30)
        overrides += [f"data.path={tmp_path}/ids.npy", "data.bos_id=0", "data.eos_id=0"]
    if group == "model":
        fits = OmegaConf.load(shipped_files("model")[name]).backbones
        overrides.append(f"algo.backbone={fits[0]}")
    config = complete_data(compose("train", overrides))
    with torch.device("meta"):
        algorithm = build_algorithm(config)
    assert isinstance(algorithm, Algorithm)
    check_sampler(build_sampler(config), algorithm)
    assert config.data.name in domain_of(config.data).data_sets
    report = SimpleNamespace(headlines=())
    if group == "logger" and name in ("mlflow", "trackio", "wandb") and find_spec(name) is None:
        with pytest.raises(ValueError, match=f"logger={name} .* pip install .*{name}"):
            check_training_values(config)
        return
    if name == "fsdp" and not torch.cuda.is_available():
        with pytest.raises(ValueError, match="trainer=ddp"):
            trainer_devices(config.trainer)
        return
    trainer = trainer_of(config, tmp_path, report)
    assert trainer.max_steps == config.trainer.max_steps
    for options in config.logger.values():
        instantiate(options, save_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("words", "interval"),
    [
        (["debug=smoke"], 2),
        (["debug=smoke", "trainer.max_steps=300"], 300),
        (["debug=smoke", "trainer.max_steps=1200"], 500),
        (["debug=smoke", "trainer.max_steps=-1", "trainer.max_epochs=2"], 1.0),
        (["trainer.max_steps=300", "trainer.accumulate_grad_batches=2"], 500),
        (["trainer.max_steps=300", "trainer.val_check_interval=2"], 2),
        (["trainer.max_steps=300", "trainer.val_check_interval=0.5"], 0.5),
    ],
)
def test_a_short_run_is_validated_at_its_end(words, interval, tmp_path):
    config, report = complete_data(compose("train", words)), SimpleNamespace(headlines=())
    trainer = trainer_of(config, tmp_path, report)
    assert trainer.val_check_interval == interval
    assert (trainer.check_val_every_n_epoch == 1) == isinstance(interval, float)


def test_names_are_the_choices():
    """Files are called what users type, and what the registries know."""
    for group in ("schedule", "forward_process", "sampling", "algo"):
        for name in GROUPS[group]:
            config = OmegaConf.load(shipped_files(group)[name])
            own = config.get(group, config)  # a file that sets more has its own under its group
            assert own.name == name
    assert set(GROUPS["data"]) == {
        name for domain in available_domains() for name in get_domain(domain).data_sets
    }


@pytest.mark.parametrize(
    ("overrides", "preset"),
    [
        ([], "bd_small"),
        (["algo.backbone=dit"], "dit_small"),
        (["algo.backbone=my-transformer"], "my_transformer_small"),
        (["algo.backbone=dit", "model=dit_tiny"], "dit_tiny"),
        (["model=bd_tiny"], "bd_tiny"),
    ],
)
def test_a_backbone_brings_its_preset_of_the_nearest_size(overrides, preset):
    assert compose("train", overrides).model.name == preset


@pytest.mark.parametrize(
    ("overrides", "sampler"),
    [
        ([], "first-hitting"),
        (["sampling=margin"], "margin"),
        (["algo=ar"], "autoregressive"),
        (["algo=distill"], "few-call"),
    ],
)
def test_data_brings_its_sampler_unless_the_algorithm_or_the_user_does(overrides, sampler):
    config = compose_plainly("train", ["data=graphs", *overrides])
    assert config.sampling.name == sampler
    assert (config.sampling.get("tokens_per_call") == 4) == (not overrides)  # of graphs alone


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["algo.backbone=dit", "model=bd_small"], "model=dit_mini, model=dit_small"),
        (["+callbacks.mine._target_=package.Mine"], "callbacks.extra.NAME._target_=package.Class"),
        (["+callbacks.ema_dekay=0.5"], "did you mean 'ema_decay'"),
        (["algo.backbone=bd-denoiser-pair", "model.index_embeddings=3"], "index_embeddings=3: "),
    ],
)
def test_words_that_nothing_would_read_are_refused(words, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        compose("train", words)


def test_keys_of_a_preset_and_of_callbacks_are_taken():
    words = ["algo.backbone=bd-denoiser-pair", "model.index_embeddings=false"]
    assert compose("train", words).model.index_embeddings is False
    compose("train", ["+callbacks.extra.mine._target_=package.Mine"])


def test_a_plug_in_takes_any_preset(monkeypatch):
    monkeypatch.setitem(_BACKBONE_BUILDERS, "mine", lambda config, vocab_size: torch.nn.Identity())
    assert compose("train", ["algo.backbone=mine"]).model.name == "bd_small"
    assert compose("train", ["algo.backbone=mine", "model=dit_tiny"]).model.name == "dit_tiny"


def test_compose_leaves_hydra_as_it_was():
    GlobalHydra.instance().clear()
    compose("train")
    assert not GlobalHydra.instance().is_initialized()
    from hydra import initialize_config_dir

    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        running = GlobalHydra.instance().hydra
        compose("sample")
        assert GlobalHydra.instance().hydra is running


def test_a_users_own_folder_of_configs(tmp_path):
    own = tmp_path / "experiment" / "mine.yaml"
    own.parent.mkdir()
    own.write_text("# @package _global_\nseed: 77\ncallbacks: {ema_decay: 0.5}\n")
    found = compose("train", ["experiment=mine"], user_config_dir=tmp_path)
    assert (found.seed, found.callbacks.ema_decay) == (77, 0.5)
    own.write_text("# @package _global_\ncallbacks: {ema_dekay: 0.5}\n")
    with pytest.raises(ValueError, match="did you mean 'ema_decay'"):
        compose("train", ["experiment=mine"], user_config_dir=tmp_path)
    with pytest.raises(HydraException, match="mine"):
        compose("train", ["experiment=mine"])


def test_a_class_of_ones_own_takes_any_key_and_no_default_of_adamw():
    target, words = "optim._target_=torch.optim.SGD", ["optim.momentum=0.9", "optim.lr=0.1"]
    own = {"_target_": "torch.optim.SGD", "lr": 0.1, "momentum": 0.9}
    kept = {key: compose("train").optim[key] for key in ("lr_schedule", "warmup_steps")}
    for chosen in ([target, *words], ["optim=custom", target, *words], [*words, f"++{target}"]):
        config = compose("train", chosen)
        assert {**config.optim, "max_skipped_steps": 5} == {**own, **kept, "max_skipped_steps": 5}
    assert compose("train", ["experiment=planar", target]).optim.warmup_steps == 50
    assert compose("train", ["optim=adamw", target]).optim.betas == [0.9, 0.999]
    assert with_open_keys("compare", [target, "optim.x=1"]) == [
        *("optim=custom", f"++{target}", "++optim.x=1")
    ]
    assert compose("train", ["optim.decay_steps=0.1"]).optim.decay_steps == 0.1
    with pytest.raises(HydraException, match="momentum"):
        compose("train", ["optim.momentum=0.9"])


def test_a_config_of_ones_own_that_would_not_be_read_is_refused(tmp_path):
    own = tmp_path / "model" / "bd_tiny.yaml"
    own.parent.mkdir()
    own.write_bytes((config_dir() / "model" / "bd_tiny.yaml").read_bytes())
    compose("train", ["model=bd_tiny"], user_config_dir=str(tmp_path))  # they say the same
    own.write_text("hidden_size: 48\n")
    with pytest.raises(ValueError, match=r"model/bd_tiny\.yaml.*another name"):
        compose("train", ["model=bd_tiny"], user_config_dir=str(tmp_path))


def test_values_of_another_kind_are_refused_by_name():
    defaults = compose("train", ["data=graphs", "data.max_nodes=${seed}", "+optim.extra=anything"])
    for word, sentence in (
        ("callbacks.ema_decay=null", None),
        ("trainer.val_check_interval=0.5", None),
        ("trainer.devices=2", None),
        ("optim.lr=1", None),
        ("seed=1.5", None),  # a number, though no whole one
        ("seed=abc", "seed=abc: .*seed=0"),
        ("optim.lr=abc", "optim.lr=abc: expected a number"),
        ("optim.lr=null", "optim.lr=null: expected a number"),
        ("optim.betas=0.9", "optim.betas=0.9: expected a list"),
        ("data.split=[0.8,x,0.1]", r"data.split\[1\]=x: expected a number"),
        ("data.skip_invalid=maybe", "expected true or false"),
        ("trainer.max_steps=abc", "trainer.max_steps=abc: "),
        ("trainer.max_steps=null", None),
        ("sampling.tokens_per_call=null", None),  # check_options knows
        ("sampling.tokens_per_call=few", r"sampling\.tokens_per_call=few: "),
        ("algo.name=null", "algo.name=null: expected text"),
    ):
        config = OmegaConf.merge(defaults, OmegaConf.from_dotlist([word]))
        with nullcontext() if sentence is None else pytest.raises(ValueError, match=sentence):
            check_kinds(config, defaults)

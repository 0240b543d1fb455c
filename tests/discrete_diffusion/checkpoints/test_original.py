"""Checkpoints of the code of MDLM, SEDD and Duo: the same logits, and what is refused."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file
from torch import Tensor

from discrete_diffusion import evaluate, load
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints.contents import read_checkpoint
from discrete_diffusion.checkpoints.original_format import export_original
from discrete_diffusion.cli import compose
from discrete_diffusion.config.files import plain
from discrete_diffusion.domains import complete_data
from original_dit import (
    BLOCKS,
    HEADS,
    C,
    D,
    L,
    V,
    lightning_file,
    made_state,
    original_logits,
    parameters,
)

SIGMAS = torch.tensor([0.0, 0.3, 1.7])


def ids(num: int = 3, num_ids: int = V) -> Tensor:
    return torch.randint(0, num_ids, (num, L), generator=torch.Generator().manual_seed(1))


def exported(name: str, path: Path) -> tuple[dict[str, Tensor], str]:
    """What ``export format=mdlm`` writes of a checkpoint, without the prefix."""
    found = read_checkpoint(name)
    said = export_original(found.algorithm, found.info["config"], path, step=found.step)
    state = torch.load(path, weights_only=True)["state_dict"]
    return {name.removeprefix("backbone."): value for name, value in state.items()}, said


def assert_logits(model: Any, x: Tensor, sigma: Tensor | None, expected: Tensor) -> None:
    with torch.no_grad():
        found = model.backbone(x, sigma)[..., : expected.shape[-1]]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def reference(reference_folder: Path) -> dict[str, Tensor]:
    """Weights, ids and logits of the original code."""
    path = reference_folder / "dit_reference.safetensors"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return load_file(path)


@pytest.mark.parametrize("kind", ["mdlm", "ar"])
def test_the_logits_are_those_of_the_original_code(kind, reference, tmp_path):
    start = f"{kind}/state/"
    state = {k.removeprefix(start): v for k, v in reference.items() if k.startswith(start)}
    name = f"{kind}:{lightning_file(tmp_path / 'a.ckpt', state)}?length=24"
    model = load(name + ("&time_conditioning=true" if kind == "mdlm" else ""))
    x = reference[f"{kind}/x_t"]
    assert model.backbone.blocks[0].attention.n_heads == 4
    for value in (0.0, 0.3, 1.7) if kind == "mdlm" else (None,):
        sigma = None if value is None else torch.full((2,), value)
        expected = reference["ar/logits" if value is None else f"mdlm/logits_sigma_{value}"]
        torch.testing.assert_close(original_logits(state, x, sigma), expected, atol=1e-5, rtol=0)
        assert_logits(model, x, sigma, expected)
    back, _ = exported(name, tmp_path / "b.ckpt")
    assert {k: v.shape for k, v in back.items()} == {k: v.shape for k, v in state.items()}
    assert all(torch.equal(back[k], v) or k == "rotary_emb.inv_freq" for k, v in state.items())


@pytest.mark.parametrize("kind", ["mdlm", "sedd", "duo", "ar"])
def test_the_logits_are_those_of_the_network_written_out(kind, tmp_path):
    """Read, and written again."""
    state, sigma = made_state(causal=kind == "ar"), None if kind == "ar" else SIGMAS
    name = f"{kind}:{lightning_file(tmp_path / 'a.ckpt', state)}?length={L}"
    if kind == "duo":  # a student is told from its teacher
        content = {f"backbone.{k}": v for k, v in state.items()}
        content |= {f"teacher.{k}": v for k, v in made_state(seed=3).items()}
        torch.save({"state_dict": content}, tmp_path / "a.ckpt")
    model = load(name)
    assert_logits(model, ids(), sigma, original_logits(state, ids(), sigma))
    assert not model.training
    of_ids = (V + 1, V) if kind == "duo" else (V, V - 1)
    assert (model.layout.vocab_size, model.layout.mask_id) == of_ids
    assert model.layout.support[:, : V - (kind != "duo")].all()
    assert model.time_conditioning == (kind in ("sedd", "duo"))
    back, said = exported(name, tmp_path / "b.ckpt")
    assert back.keys() == state.keys()
    for key, value in state.items():
        torch.testing.assert_close(back[key], value, atol=1e-6, rtol=1e-6)
    for setting in (f"model.length={L}", f"model.n_heads={HEADS}", f"model.n_blocks={BLOCKS}"):
        assert setting in said
    assert (f"model.cond_dim={C}" in said) == (kind != "ar")
    again = load(f"{kind}:{tmp_path / 'b.ckpt'}")  # its settings say the length
    with torch.no_grad():
        assert torch.equal(again.backbone(ids(), sigma), model.backbone(ids(), sigma))
    content = torch.load(tmp_path / "b.ckpt", weights_only=True)
    assert content["loops"]["fit_loop"]["epoch_progress"]["current"]["completed"] == 0
    pairs = zip(content["ema"]["shadow_params"], parameters(state), strict=True)
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs)


def test_mdlm_reads_sigma_zero_unless_its_file_says_otherwise(tmp_path):
    state, x, t = made_state(), ids(), torch.tensor([0.2, 0.5, 0.9])
    real = torch.ones_like(x, dtype=torch.bool)
    path = lightning_file(tmp_path / "a.ckpt", state)
    timed = {"config": {"model": {"length": L}, "algo": {"time_conditioning": True}}}
    of_duo = lightning_file(tmp_path / "b.ckpt", state, hyper_parameters=timed)
    for name, sigma in (
        (f"mdlm:{path}?length={L}", torch.zeros(3)),
        (f"mdlm:{path}?length={L}&time_conditioning=true", -torch.log1p(-t)),
        (f"mdlm:{of_duo}", -torch.log1p(-t)),
    ):
        with torch.no_grad():
            found = load(name).logits(x, t, real)
        torch.testing.assert_close(found, original_logits(state, x, sigma), atol=1e-5, rtol=0)


def test_scores_of_sedd_are_theirs(tmp_path):
    """log s = logit - log(exp(sigma) - 1) - log(V - 1) at MASK; sigma ends where theirs does."""
    state = made_state()
    model = load(f"sedd:{lightning_file(tmp_path / 'a.ckpt', state)}?length={L}")
    last = original_logits(state, ids(2), torch.full((2,), 6.907755))
    assert_logits(model, ids(2), torch.tensor([9.0, 50.0]), last)
    x, t = torch.full((3, L), V - 1), torch.tensor([0.1, 0.4, 0.8])
    real = torch.ones_like(x, dtype=torch.bool)
    with torch.no_grad():
        log_g = model.log_prediction(x, t, real)
    sigma = -torch.log1p(-t)
    theirs = original_logits(state, x, sigma) - sigma.expm1().log()[:, None, None]
    theirs = theirs - torch.tensor(V - 1.0).log()
    ours = log_g - sigma.expm1().log()[:, None, None]  # log(alpha / (1 - alpha)) + log G
    torch.testing.assert_close(ours[..., : V - 1], theirs[..., : V - 1], atol=1e-5, rtol=0)


def test_the_posterior_of_duo_is_theirs(tmp_path):
    """q(x_s | x_t, x0) with the softmax of the logits in the place of x0, over all V ids."""
    state = made_state()
    model = load(f"duo:{lightning_file(tmp_path / 'a.ckpt', state)}?length={L}")
    x_t, t, s = ids(), torch.tensor([0.3, 0.6, 0.9]), torch.tensor([0.1, 0.5, 0.2])
    real = torch.ones_like(x_t, dtype=torch.bool)
    with torch.no_grad():
        found = model.predict(x_t, t, s, real).log_probs.exp()
    x0 = original_logits(state, x_t, -torch.log1p(-t)).softmax(-1).double()
    z = torch.nn.functional.one_hot(x_t, V).double()
    alpha_t, alpha_s = ((1 - each.double())[:, None, None] for each in (t, s))
    step = alpha_t / alpha_s
    above = alpha_t * V * x0 * z + (step - alpha_t) * z + (alpha_s - alpha_t) * x0
    above = above + (1 - step) * (1 - alpha_s) / V
    below = alpha_t * V * x0.gather(-1, x_t[..., None]) + 1 - alpha_t
    torch.testing.assert_close(found[..., :V].double(), above / below, atol=1e-5, rtol=0)
    assert (found[..., V] == 0).all()


def test_ar_begins_with_the_last_id_of_the_tokenizer(tmp_path):
    state = made_state(causal=True)
    path = lightning_file(tmp_path / "a.ckpt", state)
    for name, begin in ((f"ar:{path}?length={L}", V - 2), (f"ar:{path}?length={L}&begin_id=3", 3)):
        model, x = load(name), ids(num_ids=V - 1)
        begun = torch.cat([torch.full((3, 1), begin), x], dim=1)[:, :-1]
        logits = original_logits(state, begun)[..., : V - 1]  # MASK is never predicted
        with torch.no_grad():
            found = model.denoise(x, torch.zeros(3), torch.ones_like(x, dtype=torch.bool))
        torch.testing.assert_close(found[..., : V - 1], logits.log_softmax(-1), atol=1e-5, rtol=0)
        drawn = torch.tensor(model.sample(num=4, seed=2))
        assert drawn.shape == (4, L)
        assert drawn.max() < V - 1


@pytest.mark.parametrize(("num_ids", "mask"), [(30_522, 103), (35, 4)])
def test_tokenizers_that_have_a_mask_keep_theirs(num_ids, mask, tmp_path):
    path = lightning_file(tmp_path / "a.ckpt", made_state(num_ids=num_ids))
    assert load(f"mdlm:{path}?length=4").layout.mask_id == mask
    assert load(f"mdlm:{path}?length=4&mask_id=7").layout.mask_id == 7
    assert load(f"mdlm:{path}").layout.length == 1024  # that of the published ones


def test_averaged_weights_are_a_list_in_the_order_of_parameters(tmp_path):
    state, averaged, x = made_state(), made_state(seed=1), ids()
    path = lightning_file(tmp_path / "a.ckpt", state, averaged)
    with_noise = torch.load(path, weights_only=True)
    with_noise["ema"]["shadow_params"].append(torch.zeros(()))  # of the noise schedule
    torch.save(with_noise, tmp_path / "b.ckpt")
    sedd = {"model": {f"module.{k}": v for k, v in state.items()}, "step": 9}
    (tmp_path / "checkpoints-meta").mkdir()
    ema = {"shadow_params": parameters(averaged)}
    torch.save({**sedd, "ema": ema}, tmp_path / "checkpoints-meta" / "checkpoint.pth")
    for place in (tmp_path / "b.ckpt", tmp_path):
        for ema_too, expected in ((True, averaged), (False, state)):
            model = load(f"sedd:{place}?length={L}", ema=ema_too)
            assert_logits(model, x, SIGMAS, original_logits(expected, x, SIGMAS))
    assert read_checkpoint(f"sedd:{tmp_path}?length={L}").step == 9
    assert read_checkpoint(f"sedd:{path}?length={L}").step == 5


def test_a_folder_of_the_hub_says_what_weights_do_not(tmp_path):
    state = {f"backbone.{k}": v for k, v in made_state().items() if "inv_freq" not in k}
    save_file(state, tmp_path / "model.safetensors")
    config = {"model_length": 5, "n_heads": HEADS, "time_conditioning": True, "dropout": 0.2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load(f"mdlm:{tmp_path}")
    assert (model.layout.length, model.time_conditioning) == (5, True)
    assert model.backbone.blocks[0].dropout.p == 0.2
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors.*rotary_emb\.inv_freq.*\?n_heads=N"):
        load(f"mdlm:{tmp_path}")
    name = f"mdlm:{tmp_path}?length=3&n_heads={HEADS}"
    assert len(load(name).sample(num=1)[0]) == 3


class GPT2TokenizerFast:
    """As pickles of their code hold one: its module is not installed where they are read."""

    def __init__(self) -> None:
        self.vocab = {"a": 0}


def test_settings_and_tokenizers_in_the_pickle_are_not_run(tmp_path, monkeypatch):
    fake = type(sys)("transformers.models.gpt2.fake")
    fake.GPT2TokenizerFast = GPT2TokenizerFast
    monkeypatch.setattr(GPT2TokenizerFast, "__module__", fake.__name__)
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    model = {"length": 7, "n_heads": HEADS}
    config = OmegaConf.create({"model": model, "time_conditioning": True, "some": [1, "${seed}"]})
    types = [int, object, frozenset, defaultdict(dict)]
    held = {"config": config, "tokenizer": GPT2TokenizerFast(), "types": types}
    path = lightning_file(tmp_path / "a.ckpt", made_state(), hyper_parameters=held)
    monkeypatch.setattr(
        GPT2TokenizerFast, "__setstate__", lambda *args: pytest.fail("run"), raising=False
    )
    monkeypatch.setattr(type(config), "__setstate__", lambda *args: pytest.fail("run"))
    model = load(f"mdlm:{path}")
    assert (model.layout.length, model.time_conditioning) == (7, True)


class Harmful:
    def __reduce__(self):
        return (eval, ("1/0",))


class Stranger:
    pass


@pytest.mark.parametrize(
    ("held", "named"),
    [
        (Harmful(), "eval"),
        (Stranger(), "Stranger"),
        (defaultdict(dict, a={}), "SETITEM"),  # torch fills no stand-in
    ],
)
def test_other_pickles_are_refused_with_the_command_that_converts(held, named, tmp_path):
    path = lightning_file(tmp_path / "a.ckpt", made_state(), hyper_parameters={"x": held})
    with pytest.raises(ValueError, match=rf"a\.ckpt.*weights_only=True.*{named}") as caught:
        load(f"mdlm:{path}")
    (code,) = str(caught.value).split('"')[1::2]
    assert "weights_only=False" in code
    if named != "eval":  # the command, in the environment that knows it
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            exec(code, {})
        assert load(f"mdlm:{tmp_path}/weights.ckpt?length=3").layout.length == 3


EMBEDDING, QKV = "vocab_embed.embedding", "blocks.0.attn_qkv.weight"
QKV_SHAPES = rf"attn_qkv\.weight is \({3 * D}, {D + 2}\).*\({3 * D}, {D}\).*{V}, {D}"
AVERAGES = parameters(made_state())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"blocks.1.norm2.weight": None}, r"blocks\.1\.norm2\.weight is miss"),
        ({EMBEDDING: None}, r"no key ends in vocab_embed\.embed"),
        ({EMBEDDING: torch.zeros(D)}, "embedding is .*2 axes"),
        ({QKV: torch.zeros(3 * D, D + 2)}, QKV_SHAPES),
        ({"cond_map.weight": torch.zeros(2)}, r"cond_map\.weight is not a w"),
        (dict.fromkeys(made_state().keys() - made_state(causal=True).keys()), "load it as ar:PATH"),
    ],
)
def test_wrong_weights_name_file_and_key(changes, named, tmp_path):
    state = {k: v for k, v in {**made_state(), **changes}.items() if v is not None}
    path = lightning_file(tmp_path / "a.ckpt", state)
    with pytest.raises(ValueError, match=rf"a\.ckpt.*{named}"):
        load(f"mdlm:{path}?length=4")


@pytest.mark.parametrize(
    ("averages", "config", "named"),
    [
        (AVERAGES[:-1], {}, "29 .*the network 30"),
        (AVERAGES[::-1], {}, r"ema\.shadow_params\[0\].*vocab_embed\.embedding"),
        ([*AVERAGES, torch.ones(3)], {}, "has 31"),
        (AVERAGES, {"graph": {"type": "uniform"}}, r"graph\.type"),
        (AVERAGES, {"model": {"scale_by_sigma": False}}, "scale_by_sigma"),
    ],
)
def test_wrong_averages_and_settings_name_file_and_key(averages, config, named, tmp_path):
    more = {"ema": {"shadow_params": averages}, "hyper_parameters": {"config": config}}
    path = lightning_file(tmp_path / "a.ckpt", made_state(), **more)
    with pytest.raises(ValueError, match=rf"a\.ckpt.*{named}"):
        load(f"sedd:{path}?length=4")


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("mdlm:nowhere.ckpt", r"mdlm:nowhere\.ckpt: no file or folder at /"),
        ("mdlm:{}/a.ckpt?lenght=3", "did you mean 'length'"),
        ("mdlm:{}/a.ckpt?length=long", "length=long.*whole number"),
        ("mdlm:{}/a.ckpt?time_conditioning=1", "time_conditioning=1.*true or false"),
        ("sedd:{}/a.ckpt?time_conditioning=true", "time_conditioning"),
        ("mdlm:{}/a.ckpt?n_heads=4", r"n_heads=4.*rotary_emb\.inv_freq"),
        ("mdlm:{}/a.ckpt?length=4&mask_id=12", "mask_id=12"),
        ("ar:{}/a.ckpt", r"sigma_map.*mdlm:PATH, sedd:PATH or duo:PATH"),
        ("mdlm:", "names no file"),
        ("mdlm:{}/empty", r"checkpoints/best\.ckpt"),
        ("mdlm:{}/text.ckpt", "damaged, or not one"),
    ],
)
def test_wrong_names_say_what_to_write(name, named, tmp_path):
    lightning_file(tmp_path / "a.ckpt", made_state())
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.ckpt").write_text("no checkpoint")
    with pytest.raises((ValueError, FileNotFoundError), match=named):
        load(name.format(tmp_path))


THEIRS = ["model.bias=false", "model.activation=gelu_tanh", "model.sigma_input=sigma"]
SMALL = ["data=text", "data.length=6", "data.characters=abcdefghij", "algo.backbone=dit"]
SMALL += ["model=dit_tiny", "model.hidden_size=16", "model.n_heads=2", "model.time_scale=1"]


def made_here(*words: str) -> tuple[Any, Any]:
    """An algorithm on ten characters, with random weights, and its config."""
    config = complete_data(compose("train", [*SMALL, *words]))
    algorithm = build_algorithm(config).eval()
    for value in algorithm.parameters():
        torch.nn.init.normal_(value, std=0.25)
    return algorithm, plain(config)


@pytest.mark.parametrize(
    ("words", "num_ids"),
    [
        (["algo=mdlm"], 11),
        (["algo=mdlm", "algo.time_conditioning=false", "model.tie_word_embeddings=true"], 11),
        (["algo=udlm"], 10),
        (["algo=ar", "algo.time_conditioning=false", "model.adaln=false"], 11),
    ],
)
def test_models_of_characters_are_theirs_without_pad(words, num_ids, tmp_path):
    algorithm, config = made_here(*THEIRS, *words)
    export_original(algorithm, config, tmp_path / "a.ckpt", step=7)
    content = torch.load(tmp_path / "a.ckpt", weights_only=True)
    state = {k.removeprefix("backbone."): v for k, v in content["state_dict"].items()}
    assert content["global_step"] == 7
    x, sigma = ids(num_ids=num_ids), None if "algo=ar" in words else SIGMAS
    assert_logits(algorithm, x, sigma, original_logits(state, x, sigma)[..., :num_ids])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["algo=mdlm"], "model.bias=false model.activation=gelu_tanh model.sigma_input=sigma"),
        ([*THEIRS, "model.mlp_ratio=2"], "model.mlp_ratio=4"),
        ([*THEIRS, "algo=meld"], "meld of absorbing noise"),
        ([*THEIRS, "algo=udlm", "algo.parameterization=posterior"], "leave_one_out"),
        ([*THEIRS, "algo=ar"], "model.adaln=false"),
        (["algo.backbone=my-transformer", "model=my_transformer_tiny"], "algo.backbone=dit"),
    ],
)
def test_other_models_are_not_written(words, named, tmp_path):
    small = SMALL if "my-transformer" not in str(words) else SMALL[:3]
    config = complete_data(compose("train", [*small, *words]))
    with pytest.raises(ValueError, match=f"format=mdlm.*{named}"):
        export_original(build_algorithm(config), plain(config), tmp_path / "a.ckpt", step=0)
    assert not (tmp_path / "a.ckpt").exists()


def test_it_samples_scores_evaluates_and_is_passed_on(tmp_path):
    path = lightning_file(tmp_path / "a.ckpt", made_state())
    model = load(f"mdlm:{path}?length={L}")
    drawn = model.sample(num=5)
    assert [len(row) for row in drawn] == [L] * 5
    assert {type(each) for row in drawn for each in row} == {int}
    assert (model.log_prob(drawn, "left-to-right") < 0).all()
    np.save(tmp_path / "ids.npy", np.asarray(drawn).reshape(-1))
    found = evaluate(model, data={"path": str(tmp_path / "ids.npy")}, noise_samples=2).metrics()
    assert found["bits_per_token"] > 0
    kept = load(model.save_pretrained(tmp_path / "kept"))
    with torch.no_grad():
        assert torch.equal(kept.backbone(ids()), model.backbone(ids()))
    assert "Fingerprint `unknown`" in (tmp_path / "kept" / "README.md").read_text()

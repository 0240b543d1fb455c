"""Models as folders, on the Hub and as ONNX: the same logits; the card says what they are."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from discrete_diffusion import from_pretrained, load
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints.sharing import TOLERANCE, _weights, export_onnx, licence_of_card
from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import complete_data
from discrete_diffusion.hub import CARD, CONFIG, WEIGHTS, is_published

METRICS = {
    "valid": 0.97,
    "node_tv": 0.0123,
    "nelbo_unordered": 18.1,
    "nelbo_unordered_standard_error": 0.2,
    "step": 7,
    "intervals": {"valid": [0.96, 0.98], "node_tv": [0.01, 0.02]},
    "real": {"node_tv": 0.005},
    "seeds": [0, 1],
}


@pytest.fixture(scope="module")
def model(untrained):
    return load(untrained)


def logits(model):
    layout = model.layout
    x_t = layout.support.int().argmax(dim=-1).expand(3, -1).clone()
    x_t[1:, ::2] = layout.mask_id
    with torch.no_grad():
        return model.backbone(x_t, torch.tensor([0.1, 1.0, 3.0]))


def test_logits_come_back_bit_for_bit(model, tmp_path):
    folder = model.save_pretrained(tmp_path / "first")
    assert sorted(file.name for file in folder.iterdir()) == sorted([CARD, CONFIG, WEIGHTS])
    for way in (folder, str(folder), folder / WEIGHTS):
        assert torch.equal(logits(from_pretrained(way)), logits(model))
    assert from_pretrained(folder).sample(3, seed=1) == model.sample(3, seed=1)


def test_bfloat16_halves_the_file_and_is_float32_in_use(model, tmp_path):
    whole = model.save_pretrained(tmp_path / "whole") / WEIGHTS
    half = model.save_pretrained(tmp_path / "half", dtype="bfloat16") / WEIGHTS
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    for value, other in zip(load(half).parameters(), model.parameters(), strict=True):
        assert value.dtype == torch.float32
        assert torch.equal(value, other.bfloat16().float())
    with pytest.raises(ValueError, match=r"float16.*bfloat16"):
        model.save_pretrained(tmp_path / "other", dtype="float16")


def test_the_card_says_what_it_is_told(model, tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps(METRICS))
    folder = model.save_pretrained(
        tmp_path / "told",
        metrics=tmp_path / "metrics.json",
        name="me/plans",
        licence="mit",
        limits="Of small homes.",
        recipe="discrete-diffusion train",
    )
    card = (folder / CARD).read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["license"] == "mit"
    assert head["library_name"] == "discrete-diffusion"
    rows = ["| valid | 0.97 | 0.96 to 0.98 |  |", "| node_tv | 0.0123 | 0.01 to 0.02 | 0.005 |"]
    rows += ["| nelbo_unordered | 18.1 | ± 0.2 |  |", "2 sampling seeds"]
    for said in ('load("me/plans")', "Of small homes.", "num_plans", "max_steps", "mdlm", *rows):
        assert said in card


def test_the_licence_goes_with_a_model(model, tmp_path, monkeypatch):
    """That of the card beside what was loaded, unless another is named."""
    folders = [model.save_pretrained(tmp_path / "first", licence="mit")]
    folders.append(load(folders[0]).save_pretrained(tmp_path / "second"))
    for folder in folders:
        card = (folder / CARD).read_text()
        assert "Licence: mit." in card
        assert yaml.safe_load(card.split("---")[1])["license"] == "mit"
    own = load(folders[1]).save_pretrained(tmp_path / "third", licence="cc-by-4.0")
    assert "Licence: cc-by-4.0." in (own / CARD).read_text()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    card = (model.save_pretrained(".") / CARD).read_text()
    for said in ("# mine", "Not measured", "Licence: not stated"):
        assert said in card


def test_a_card_without_a_licence_says_none(tmp_path):
    assert licence_of_card(tmp_path / CARD) is None
    for card in (
        "no head",
        "---\n- a list\n---\n",
        "---\nlicense: [mit]\n---\n",
        "---\n: {\n---\n",
    ):
        (tmp_path / CARD).write_text(card)
        assert licence_of_card(tmp_path / CARD) is None


@pytest.mark.parametrize(
    ("steps", "ema", "said"), [(7, True, True), (8, True, False), (7, False, False)]
)
def test_the_numbers_of_a_run_are_taken_if_they_are_of_its_step(files, tmp_path, steps, ema, said):
    """And of its averaged weights."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    path = shutil.copy(files["ckpt"], tmp_path / "run" / "checkpoints" / "last.ckpt")
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(METRICS | {"step": steps}))
    card = (load(Path(path), ema=ema).save_pretrained(tmp_path / "a") / CARD).read_text()
    assert ("| valid | 0.97 |" in card) == said


def test_nothing_is_replaced_unasked(model, tmp_path):
    (tmp_path / CARD).write_text("mine")
    with pytest.raises(ValueError, match=f"{CARD}.*overwrite=True"):
        model.save_pretrained(tmp_path)
    assert (tmp_path / CARD).read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == [CARD]
    model.save_pretrained(tmp_path, overwrite=True)
    assert "# " in (tmp_path / CARD).read_text()


def test_tied_weights_are_halved_under_both_names(tmp_path):
    words = ["algo.backbone=dit", "model=dit_tiny", "model.tie_word_embeddings=true"]
    algorithm = build_algorithm(compose("train", words))
    network = algorithm.backbone
    assert network.head.weight is network.token_embedding.weight
    weights = _weights(algorithm, "bfloat16")
    names = ("backbone.head.weight", "backbone.token_embedding.weight")
    assert [weights[name].dtype for name in names] == [torch.bfloat16] * 2


@pytest.mark.slow
def test_up_to_the_hub_and_back(model, hub, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    address = model.push_to_hub("me/plans", token="hf_none", licence="mit", overwrite=True)
    assert address.endswith("/me/plans")
    assert sorted(hub.models["me/plans"]) == sorted([CARD, CONFIG, WEIGHTS])
    assert b"# me/plans" in hub.models["me/plans"][CARD]
    assert torch.equal(logits(load("me/plans")), logits(model))
    main(["sample", "checkpoint=me/plans", "num_samples=2", "out=drawn"])
    assert (tmp_path / "drawn" / "samples.jsonl").exists()


def test_what_the_hub_has_not_is_said_in_a_sentence(hub, model, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    hub.models["you/other"] = {"config.json": b"{}"}
    with pytest.raises(ValueError, match=r"no file or folder me/none.*Hub has no"):
        load("me/none")
    with pytest.raises(ValueError, match=rf"you/other.*{WEIGHTS}"):
        load("you/other")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"me/plans.*cannot be reached"):
        load("me/plans")
    with pytest.raises(ValueError, match="me/plans"):
        model.push_to_hub("me/plans", token="hf_none")


def test_paths_come_first(hub, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert is_published("runs/first")
    (tmp_path / "runs").mkdir()
    for name in ("runs/first", "a/b/c", "first.ckpt", "x/first.ckpt", "../first", "/tmp/first"):
        assert not is_published(name)
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load("runs/frist")
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load("plans-smal")
    assert not hub.asked


NETWORKS = {
    "bd-denoiser": ["algo.backbone=bd-denoiser", "model=bd_tiny"],
    "graph features": [
        *("algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"),
        "model.features=[reach,resistance,walks,cycles]",
    ],
    "dit": ["algo.backbone=dit", "model=dit_tiny"],
    "not told the time": ["algo.backbone=dit", "model=dit_tiny", "algo.time_conditioning=false"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_exported_logits_are_the_same(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="it runs the file")
    torch.manual_seed(0)
    algorithm = build_algorithm(compose("train", [*NETWORKS[name], "data=bubble_diagrams"])).eval()
    for value in algorithm.parameters():  # heads start at zero
        torch.nn.init.normal_(value, std=0.1)
    path = tmp_path / "network.onnx"
    assert export_onnx(algorithm, {"tokens": ["a"]}, path) < TOLERANCE
    session = onnxruntime.InferenceSession(str(path))
    layout = algorithm.layout
    x_t = layout.support.int().argmax(dim=-1).expand(5, -1).clone()
    x_t[0], x_t[1:, ::3] = layout.mask_id, layout.mask_id
    x_t[2:4, 5:8] = layout.pad_id  # rooms that are not there
    sigma = torch.tensor([4.0, 0.0, 0.3, 1.0, 1.0])
    (found,) = session.run(None, {"x_t": x_t.numpy(), "sigma": sigma.numpy()})
    with torch.no_grad():
        told = sigma if algorithm.time_conditioning else None  # as in training
        expected = algorithm.apply_backbone(x_t, told)
    real = x_t != layout.pad_id
    assert (torch.from_numpy(found) - expected).abs()[real].max() < TOLERANCE
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["vocabulary"]) == {"tokens": ["a"]}
    assert json.loads(said["mask_id"]) == layout.mask_id


def test_a_network_that_needs_more_is_not_exported(tmp_path):
    pytest.importorskip("onnxscript", reason="it writes the file")
    words = ["algo=distill", "model=bd_tiny"]
    algorithm = build_algorithm(complete_data(compose("train", words)))
    with pytest.raises(ValueError, match=r"format=onnx .*x_t and sigma.*component"):
        export_onnx(algorithm, {}, tmp_path / "network.onnx")
    assert not (tmp_path / "network.onnx").exists()
    assert logging.getLogger("onnxscript").level in (logging.NOTSET, logging.ERROR)

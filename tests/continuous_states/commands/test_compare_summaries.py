"""``discrete-diffusion compare`` on dialogues: through latent vectors and as ids, side by side."""

from __future__ import annotations

import csv
import json
import shutil
import sys

import pytest

from comparison_fixtures import plan
from continuous_states.dialogue.summaries import score_summaries
from continuous_states.dialogue.texts import SLOTS, sample_dialogues
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.compare import CompareRequest, run_comparison
from discrete_diffusion.runtime import install_command

BOTH = "algos=[latent-seq2seq,mdlm]"
NAMES = ["latent-seq2seq-latent-space-model-seed0", "mdlm-dit-seed0"]
TINY = (
    *("data.num_samples=40", "data.split=[0.7,0.1,0.2]", "data.batch_size=8", "threads=1"),
    *("logger=none", "trainer.max_steps=1", "eval.num_samples=3", "noise_samples=2"),
    "num_held_out=6",
)
TEST = sample_dialogues(40)[32:]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("summaries") / "out"
    return out, run_comparison(CompareRequest([*TINY, "data=dialogue", BOTH, f"out={out}"]))


@pytest.fixture
def cells(finished) -> list[dict]:
    return [json.loads((finished[0] / "cells" / n / "cell.json").read_text()) for n in NAMES]


def shown(cell):
    return cell.backbone, cell.data, cell.model, cell.config.sampling.name, cell.instead_of


@pytest.mark.slow
def test_every_algorithm_has_the_pairs_in_its_own_form():
    words = ("data.split=[0.8,0.1,0.1]", "data.generator_seed=3", "optim.lr=7e-4")
    cells = plan("algos=[latent-seq2seq,mdlm,udlm,ar]", "data=dialogue", *words)
    assert compose("train", cells[1].overrides) == cells[1].config
    assert [shown(cell) for cell in cells] == [
        ("latent-space-model", "dialogue", "latent_tiny", "generate", None),
        ("dit", "dialogue-tokens", "dit_mini", "first-hitting", None),
        ("dit", "dialogue-tokens", "dit_mini", "ancestral", None),
        ("dit", "dialogue-tokens", "dit_mini", "autoregressive", None),
    ]
    texts, ids = (cell.config.data for cell in cells[:2])
    for key in {*texts} & {*ids} - {"name"}:
        assert texts[key] == ids[key]
    assert (ids.generator_seed, ids.split) == (3, [0.8, 0.1, 0.1])
    assert cells[2].config.sampling.steps == 100  # as train has it
    assert [cell.config.optim.lr for cell in cells] == [7e-4] * 4


@pytest.mark.slow
@pytest.mark.parametrize("words", ["data=dialogue-tokens", "experiment=dialogue"])
def test_the_first_algorithm_does_not_decide_the_size(words):
    cells = plan("algos=[mdlm,latent-seq2seq]", words)
    assert [(c.model, c.instead_of) for c in cells] == [("dit_mini", None), ("latent_tiny", None)]


@pytest.mark.slow
def test_a_setting_of_a_model_goes_to_the_cells_whose_preset_has_it(caplog):
    caplog.set_level("INFO")
    words = ("experiment=dialogue", BOTH)
    before = plan(*words)
    caplog.clear()
    latent, ids = plan(*words, "model.pool=mean")
    assert latent.config.model.pool == "mean"
    assert (ids.config, latent.model) == (before[1].config, "latent_tiny")
    assert compose("train", latent.overrides) == latent.config
    assert "model.pool=mean: for latent-seq2seq" in caplog.messages
    caplog.clear()
    for cell in plan(*words, "model.dropout=0.25"):
        assert cell.config.model.dropout == 0.25
    assert "model.dropout" not in caplog.text


@pytest.mark.slow
def test_what_does_not_fit_is_replaced():
    words = ("data=dialogue", BOTH, "backbones=[dit]", "sampling=ancestral")
    assert [shown(cell) for cell in plan(*words)] == [
        ("latent-space-model", "dialogue", "latent_tiny", "generate", "dit"),
        ("dit", "dialogue-tokens", "dit_mini", "ancestral", None),
    ]
    latent, ids = plan("data=dialogue", BOTH, "sampling=generate", "sampling.temperature=0.5")
    assert (latent.config.sampling.name, ids.config.sampling.name) == ("generate", "first-hitting")
    assert (latent.config.sampling.temperature, ids.config.sampling.temperature) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["algos=[mdlm,latent-seq2seq]"], "latent-seq2seq works on latent, and data=bubble_diagr"),
        (["data=dialogue", "algos=[mdlm,regression]"], "data=dialogue holds latent and tokens"),
        ([BOTH, "algo.stage=adapter"], "algo.stage=adapter has no bound on -log p(summary | dial"),
        (["data=dialogue", BOTH, "model.pol=mean"], "mdlm have no model.pol; unknown key 'pol';"),
        (["data=dialogue", BOTH, "model.encoder.path=a"], "latent-seq2seq: model.encoder.path=a:"),
        (["data=dialogue", BOTH, "model.num_layers=x"], "latent-seq2seq: model.num_layers=x:"),
    ],
)
def test_refusals_come_before_training(words, sentence, refusal):
    assert sentence in refusal(*words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "size", "preset"),
    [("model.num_layers=9", 812_480, "dit_"), ("model=dit_small", 347_008, "dit_small")],
)
def test_a_network_of_ids_gets_the_size_of_that_of_latents(word, size, preset):
    latent, ids = plan("data=dialogue", BOTH, word)
    assert (latent.preset, latent.parameters) == ("latent_tiny", size)
    assert ids.model.startswith(preset)
    assert "hidden_size=" in ids.model
    assert abs(ids.parameters / size - 1) <= 0.05


def test_without_the_extra_the_refusal_names_it(monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "transformers", None)
    error = refusal("data=dialogue", BOTH)
    assert "latent-seq2seq: a text encoder" in error
    assert install_command("text") in error


@pytest.mark.slow
def test_all_cells_are_measured_on_the_same_pairs(finished, cells):
    assert cells[0]["rows"] == cells[1]["rows"]
    for cell, name in zip(cells, NAMES, strict=True):
        assert len(cell["bounds"]) == len(cell["rows"]) == 6
        lines = (finished[0] / "cells" / name / "samples.jsonl").read_text().splitlines()
        written = [json.loads(line) for line in lines]
        pairs = [(pair.dialogue, pair.summary) for pair in TEST[:3]]
        assert [(line["dialogue"], line["reference"]) for line in written] == pairs
        generated = [line["summary"] for line in written]
        scores = score_summaries(generated, [reference for _, reference in pairs], SLOTS)
        assert cell["rouge_l"] == scores.rouge_l.tolist()
        assert cell["metrics"]["slot_accuracy"] == float(scores.slot_accuracy.mean())
        assert cell["metrics"]["num_summaries"] == 3


def test_what_is_written(finished):
    out, results = finished
    table = (out / "table.md").read_text()
    for said in ("ROUGE-L ↑", "| most frequent summary |", "dit_mini (mdlm)"):
        assert said in table
    assert results == json.loads((out / "results.json").read_text())
    assert (results["quantity"], results["real_data"]) == ("nats per summary", {})
    with (out / "table.csv").open() as file:
        assert [row["model"] for row in csv.DictReader(file)] == ["latent_tiny", "dit_mini"]
    files = {"table.md", "table.tex", "table.csv", "results.json", "pareto.png", "summaries.md"}
    assert {path.name for path in out.iterdir()} == files | {"cells"}
    pages = (out / "summaries.md").read_text().split("\n## ")[1:]
    for page, pair in zip(pages, TEST[:3], strict=True):
        assert f"| *reference* | {pair.summary} |" in page


@pytest.mark.slow
def test_a_cell_without_its_summaries_is_named(finished, tmp_path, caplog):
    caplog.set_level("INFO")
    shutil.copytree(finished[0], tmp_path / "copy")
    words = [*TINY, "data=dialogue", BOTH, f"out={tmp_path / 'copy'}"]
    page, texts = tmp_path / "copy" / "summaries.md", "samples.jsonl"
    (tmp_path / "copy" / "cells" / NAMES[1] / texts).unlink()
    run_comparison(CompareRequest(words))
    remedy = "without cell.json too, they are sampled again"
    assert f"{NAMES[1]}: no {texts}, left out of summaries.md; {remedy}" in caplog.messages
    assert "| latent-seq2seq |" in page.read_text()
    assert "| mdlm |" not in page.read_text()
    (tmp_path / "copy" / "cells" / NAMES[0] / texts).unlink()
    page.unlink()
    run_comparison(CompareRequest(words))
    assert f"{', '.join(NAMES)}: no {texts}, summaries.md is not written anew" in caplog.text
    assert not page.exists()


@pytest.mark.slow
def test_without_samples_bounds_are_compared(finished, tmp_path, caplog):
    caplog.set_level("INFO")
    out, results = finished
    shutil.copytree(out, tmp_path / "copy")
    words = [*TINY, "data=dialogue-tokens", BOTH, f"out={tmp_path / 'copy'}"]
    kept = run_comparison(
        CompareRequest([*words, "eval.num_samples=0"])
    )  # those that there are stay
    assert "nothing to train: 2 cells finished" in caplog.messages
    assert kept["models"] == results["models"]
    again = run_comparison(CompareRequest([*words, "eval.num_samples=0", "noise_samples=1"]))
    assert "rouge_l" not in again["models"][0]
    assert again["models"][0]["nelbo"] == pytest.approx(results["models"][0]["nelbo"])  # exact
    assert not (tmp_path / "copy" / "summaries.md").exists()

"""``discrete-diffusion compare`` on dialogues: through latent vectors and as ids, side by side."""

from __future__ import annotations

import csv
import json
import shutil
import sys

import numpy as np
import pytest

from continuous_states.dialogue.summaries import score_summaries
from continuous_states.dialogue.texts import SLOTS, sample_dialogues
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.compare import CompareRequest, run_comparison
from discrete_diffusion.runtime import install_command
from planned import plan

BOTH = "algos=[latent-seq2seq,mdlm]"
NAMES = ["latent-seq2seq-latent-space-model-seed0", "mdlm-dit-seed0"]
TINY = (
    *("data.num_samples=40", "data.split=[0.7,0.1,0.2]", "data.batch_size=8", "threads=1"),
    *("logger=none", "trainer.max_steps=1", "eval.num_samples=3", "bound_draws=2"),
    "bound_samples=6",
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
def test_cells_say_whether_their_samples_are_exact(cells):
    assert [cell["exact"] for cell in cells] == [
        cell["approximate_because"] is None for cell in cells
    ]
    (why,) = (c["approximate_because"] for c in cells if c["sampling"]["name"] == "generate")
    assert "sampling.temperature=0.7" in why


@pytest.mark.slow
def test_every_algorithm_has_the_pairs_in_its_own_form():
    words = ("data.split=[0.8,0.1,0.1]", "data.grammar_seed=3", "optim.lr=7e-4")
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
    assert (ids.grammar_seed, ids.split) == (3, [0.8, 0.1, 0.1])
    assert cells[2].config.sampling.steps == 100  # as train has it
    assert [cell.config.optim.lr for cell in cells] == [7e-4] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["data=dialogue"], ["data=dialogue-tokens"], ["experiment=dialogue"]]
)
def test_the_first_algorithm_does_not_decide_the_size(words):
    cells = plan("algos=[mdlm,latent-seq2seq]", *words)
    assert [(c.model, c.instead_of) for c in cells] == [("dit_mini", None), ("latent_tiny", None)]


@pytest.mark.slow
@pytest.mark.parametrize("words", [["data=dialogue"], ["experiment=dialogue"]])
def test_a_setting_of_a_model_goes_to_the_cells_whose_preset_has_it(words, caplog):
    caplog.set_level("INFO")
    before = plan(*words, BOTH)
    caplog.clear()
    latent, ids = plan(*words, BOTH, "model.pool=mean")
    assert latent.config.model.pool == "mean"
    assert (ids.config, latent.model) == (before[1].config, "latent_tiny")
    assert compose("train", latent.overrides) == latent.config
    assert "model.pool=mean: for latent-seq2seq" in caplog.messages
    caplog.clear()
    for cell in plan(*words, BOTH, "model.dropout=0.25"):
        assert cell.config.model.dropout == 0.25
    assert "model.dropout" not in caplog.text


@pytest.mark.slow
def test_a_setting_of_a_model_needs_no_preset():
    (cell,) = plan("data=dialogue", "algos=[latent-seq2seq]", "model.num_layers=3")
    assert (cell.model, cell.config.model.num_layers) == ("latent_tiny", 3)


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
        (["algos=[mdlm,latent-seq2seq]"], "choose data=dialogue or data=dialogue-tokens, the same"),
        (
            ["data=dialogue", "algos=[mdlm,regression]"],
            "data=dialogue holds latent and tokens only",
        ),
        ([BOTH, "algo.stage=autoencode"], "latent-seq2seq: algo.stage=autoencode has no bound on"),
        (
            [BOTH, "algo.stage=middle"],
            "algo.stage=middle has no bound on -log p(summary | dialogue)",
        ),
        ([BOTH, "algo.stage=adapter"], "algo.stage=adapter has no bound on -log p(summary | dial"),
        (
            ["data=dialogue", BOTH, "model.pol=mean"],
            "mdlm have no model.pol; unknown key 'pol'; did you mean 'pool'",
        ),
        (
            ["data=dialogue", BOTH, "model.encoder.pth=a"],
            "'path'? Available: download, hidden_size, intermediate_",
        ),
        (
            ["data=dialogue", BOTH, "model.encodr.path=a"],
            "unknown key 'encodr'; did you mean 'encoder'? Available",
        ),
        (
            ["data=dialogue", BOTH, "model.encoder.path=a"],
            "latent-seq2seq: model.encoder.path=a: there is no fold",
        ),
        (
            ["data=dialogue", BOTH, "model.num_layers=x"],
            "latent-seq2seq: model.num_layers=x: expected a number",
        ),
        (["data=dialogue", "algos=[mdlm]", "backbones=[bd-denoiser]"], "needs data.n_max"),
    ],
)
def test_refusals_come_before_training(words, sentence, refusal):
    assert sentence in refusal(*words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "size", "preset"),
    [(["model.num_layers=9"], 812_480, "dit_"), (["model=dit_small"], 347_008, "dit_small")],
)
def test_a_network_of_ids_gets_the_size_of_that_of_latents(words, size, preset):
    latent, ids = plan("data=dialogue", BOTH, *words)
    assert (latent.preset, latent.parameters) == ("latent_tiny", size)
    assert ids.model.startswith(preset)
    assert "hidden_size=" in ids.model
    assert abs(ids.parameters / size - 1) <= 0.05


@pytest.mark.slow
def test_an_adapter_of_latents_that_the_middle_moved_takes_part():
    words = ("algo.stage=adapter", "algo.adapter_uses_middle=true")
    assert plan(BOTH, *words)[0].config.algo.stage == "adapter"


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


def test_differences_are_paired_by_pair(finished, cells):
    first, second = finished[1]["models"]
    for key, name, difference in (
        ("bounds", "nelbo", "difference"),
        ("rouge_l", "rouge_l", "rouge_l_difference"),
    ):
        one, other = (np.array(cell[key]) for cell in cells)
        assert first[difference] is None
        assert second[name] == pytest.approx(other.mean())
        assert second[difference] == pytest.approx((other - one).mean())
        error = (other - one).std(ddof=1) / np.sqrt(len(one))
        assert second[f"{difference}_standard_error"] == pytest.approx(error)


def test_baselines_are_of_the_same_dialogues(finished):
    references = [pair.summary for pair in TEST[:3]]
    frequent, another = finished[1]["baselines"]
    assert (frequent["name"], another["name"]) == (
        "most frequent summary",
        "another pair's summary",
    )
    scores = score_summaries([references[2], *references[:2]], references, SLOTS)
    assert another["rouge_l"] == pytest.approx(float(scores.rouge_l.mean()))
    assert another["nelbo"] is None


def test_what_is_written(finished):
    out, results = finished
    table = (out / "table.md").read_text()
    for said in (
        "| bound, nats per summary ↓ | bound, difference to latent-seq2seq ↓ | ROUGE-L ↑ |",
        "| ROUGE-L, difference to latent-seq2seq ↑ | exact match, % ↑ | slots right, % ↑ |",
        *("| rise with dialogues of others, nats ↑ |", "| most frequent summary |  |  | – |"),
        "dialogue and dialogue-tokens, 1 step of batch size 8, "
        "models latent_tiny (latent-seq2seq) and dit_mini (mdlm), seed 0.",
        "latent-seq2seq: data=dialogue, sampling=generate with temperature 0.7, top_k 50, top_p 0.",
        "mdlm: data=dialogue-tokens, sampling=first-hitting with temperature 1.0, top_p 1.0.",
        "per summary and never per token; exact for latent-seq2seq. As ids (mdlm) the dialogue is",
        "and the bound is of all 16 positions of the summary",
    ):
        assert said in table
    assert "real data" not in table
    assert results == json.loads((out / "results.json").read_text())
    assert (results["quantity"], results["real_data"]) == ("nats per summary", {})
    with (out / "table.csv").open() as file:
        assert [row["model"] for row in csv.DictReader(file)] == ["latent_tiny", "dit_mini"]
    assert {path.name for path in out.iterdir()} == {
        *(
            "table.md",
            "table.tex",
            "table.csv",
            "results.json",
            "pareto.png",
            "summaries.md",
            "cells",
        ),
    }


def test_summaries_stand_side_by_side(finished):
    out, _ = finished
    pages = (out / "summaries.md").read_text().split("\n## ")[1:]
    assert len(pages) == 3
    for page, pair in zip(pages, TEST, strict=False):
        said = [line[2:].strip() for line in page.splitlines() if line.startswith("> ")]
        assert said == pair.dialogue.splitlines()
        rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
        assert rows[1:] == ["| *reference*", "| latent-seq2seq", "| mdlm"]
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
    again = run_comparison(CompareRequest([*words, "eval.num_samples=0", "bound_draws=1"]))
    assert "rouge_l" not in again["models"][0]
    assert again["models"][0]["nelbo"] == pytest.approx(results["models"][0]["nelbo"])  # exact
    assert not (tmp_path / "copy" / "summaries.md").exists()

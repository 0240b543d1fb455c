"""Studies of choices: their variants differ, scores are what they say, seeds are paired."""

from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf

import choices
from choices import COLUMNS, RECIPES, STUDIES
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data, complete_data
from regions import ARMS, EXPERIMENT, HeldOut, difference, short_run

SMALL = ("data.num_windows=40", "data.rows=16", "data.num_motifs=4", "data.peak_length=40")


@pytest.mark.parametrize("measured", ["true", "false"])
def test_a_model_that_says_the_column_mean_has_its_flat_correlation(measured):
    """A zero head on standardised rows predicts the column mean, whatever is observed."""
    words = [EXPERIMENT, *SMALL, f"data.quantitative_atac={measured}"]
    config = complete_data(compose("train", words))
    held_out, untrained = HeldOut(build_data(config)), build_algorithm(config)
    train = held_out.report.data.splits["train"]
    untrained.prepare(train.batch())
    found = held_out.measure(untrained)
    assert found["flat_r"] == pytest.approx(held_out.of_baselines["column_mean_flat_r"], abs=1e-5)
    assert found["flat_r"] > 0.1
    assert found["per_motif_r"] == 0
    filling = held_out.predictions(untrained)[0]
    assert held_out.flat_r(filling.truth, filling) == pytest.approx(1)
    assert held_out.flat_r(-filling.truth, filling) == pytest.approx(-1)


def test_differences_are_taken_within_a_seed():
    """Seeds differ by 10, the variants by 1 and 3."""
    first = [{"seed": k, "test": {"r": 10.0 * k}} for k in range(4)]
    other = [{"seed": 1, "test": {"r": 11.0}}, {"seed": 2, "test": {"r": 23.0}}]
    assert difference(other, first, "r") == "+2.0000 ± 1.0000"
    assert difference(other[:1], first, "r") == "+1.0000 ± nan"


@pytest.mark.slow
def test_variants_change_what_they_say():
    made = {name: compose("train", short_run(arm, 8)) for name, arm in ARMS.items()}
    plain = made["as the recipe"]
    for name, config in made.items():
        assert config.trainer.max_steps == 8
        if name != "as the recipe":
            assert (config.algo, config.model) != (plain.algo, plain.model)
    choices, recipe = made["published choices"], made["published recipe"]
    for key in ("objective", "network_time", "mask_rate", "normalise", "weighting"):
        assert choices.algo[key] == recipe.algo[key]
    for config in (choices, recipe):
        assert not config.data.quantitative_atac
        assert (config.data.rows, config.data.num_motifs) == (plain.data.rows, 32)
        with torch.device("meta"):
            sizes = sum(p.numel() for p in build_algorithm(complete_data(config)).parameters())
        assert sizes == 174561
        assert (config.model.position_embedding, config.model.zero_init_head) == ("none", False)


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_each_variant_of_a_study_trains_something_else(study):
    of_all = [compose("train", [*RECIPES[study], *each]) for each in STUDIES[study].values()]
    told = [OmegaConf.to_yaml(config) for config in of_all]
    assert len({*told}) == len(told)


def test_two_processes_share_the_runs_of_a_study_and_the_last_call_publishes(tmp_path, monkeypatch):
    made, published = [], []

    def run(folder, words, steps):
        made.append(folder.relative_to(tmp_path).as_posix())
        kept = ("nelbo_unordered", "nelbo_standard_error", *COLUMNS["choices"])
        return dict.fromkeys(kept, float(steps)) | {"more": 0}

    monkeypatch.setattr(choices, "run", run)
    monkeypatch.setattr(choices, "publish", lambda name, **record: published.append(record))
    words = ["choices.py", "--seeds", "1", "--steps", "2", "--keep", str(tmp_path), "--share"]
    for share in ("0/2", "1/2", "0/1"):
        monkeypatch.setattr("sys.argv", [*words, share])
        choices.main()
    assert sorted(made) == sorted(2 * [f"choices/{k}-0" for k in range(len(STUDIES["choices"]))])
    [record] = published
    assert list(record["results"]) == list(STUDIES["choices"])
    assert "more" not in record["results"]["default"][0]

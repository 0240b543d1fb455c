"""Model, sampler and baselines on hidden rows: numbers that are known, files that can be read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_regions import SHARES, ChainModel, SpreadSampler, changed, toy_regions

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import Examples
from discrete_diffusion.domains.regions import RegionDataset
from discrete_diffusion.domains.regions.baselines import ProgrammeMean
from discrete_diffusion.domains.regions.filling import fill_held_out
from discrete_diffusion.domains.regions.row_report import RowReport, draw_filling_scores
from discrete_diffusion.domains.regions.row_scores import (
    ScoresByMaskRate,
    fit_baselines,
    score_filling,
    scores_by_mask_rate,
)
from discrete_diffusion.domains.regions.row_table import (
    number,
    rate_section,
    row_notes,
    row_section,
)
from discrete_diffusion.evaluation.table import markdown
from discrete_diffusion.evaluation.trained_model import Model

DATA = toy_regions()
BASELINES = ("column_mean", "neighbour_mean", "window_mean", "oracle")


def filled(data=DATA, sampler=None, algorithm=None, rate=0.5, **options):
    model = Model(algorithm or ChainModel(), sampler, batch_size=options.pop("batch_size", 8))
    options = {"num": None, "seed": 1} | options
    return fill_held_out(model, data, "val", mask_rate=rate, **options)


def chains(rho: float, num: int = 500, rows: int = 6) -> RegionDataset:
    """Two columns, each a chain that ``ChainModel(rho)`` knows exactly."""
    factor = torch.linalg.cholesky(ChainModel(rho).covariance(rows))
    splits = {}
    for k, name in enumerate(SHARES):
        noise = torch.randn(num, rows, 2, generator=make_generator(8, k), dtype=torch.float64)
        x0 = (4 + torch.einsum("ij,wjm->wim", factor, noise)).float()
        splits[name] = Examples(x0, torch.ones(num, rows, dtype=torch.bool))
    return RegionDataset(splits, feature_names=("a", "b"), source="toy")


def test_the_exact_model_explains_what_can_be_explained():
    """Rows of a Gaussian chain: the expected explained share is that of the conditional variances,
    no baseline is better, and a draw has twice the error of an expectation."""
    rho, data = 0.9, chains(0.9)
    algorithm = ChainModel(rho)

    class ExactSampler(SpreadSampler):
        def sample(self, algorithm, real, *, clamp, generator, steps=None):
            output = super().sample(algorithm, real, clamp=clamp, generator=generator)
            rows, masked = clamp.nan_to_num(0.0), clamp.isnan().all(dim=-1)
            expected, covariance = algorithm.predict(rows, masked, real), algorithm.covariance(6)
            for w in range(len(rows)):
                hidden, seen = masked[w].nonzero()[:, 0], (~masked[w]).nonzero()[:, 0]
                between = covariance[seen][:, hidden]
                left = covariance[hidden][:, hidden] - between.T @ torch.linalg.solve(
                    covariance[seen][:, seen], between
                )
                noise = (output.x0 - expected)[w, hidden].double()
                drawn = expected[w, hidden].double() + torch.linalg.cholesky(left) @ noise
                output.x0[w, hidden] = drawn.float()
                variances.append(left.diagonal())
            return output

    variances: list[torch.Tensor] = []
    scores = score_filling(filled(data, ExactSampler(), algorithm), data, "val", 0.5)
    unexplained = float(torch.cat(variances).mean())
    assert scores.predicted.masked_mse == pytest.approx(unexplained, rel=0.1)
    assert scores.predicted.per_motif_r2 == pytest.approx(1 - unexplained, abs=0.03)
    assert scores.predicted.per_motif_r == pytest.approx((1 - unexplained) ** 0.5, abs=0.03)
    assert scores.filled.masked_mse == pytest.approx(2 * scores.predicted.masked_mse, rel=0.1)
    assert scores.oracle is None
    assert all(scores.predicted.masked_mse < each.masked_mse for each in scores.baselines.values())


def test_the_oracle_is_above_all_others_on_rows_of_programmes():
    data = toy_regions(24)
    scores = score_filling(filled(data), data, "val", 0.5)
    assert list(scores.baselines) == list(BASELINES)
    for name in BASELINES[:3]:
        assert scores.oracle.per_motif_r > scores.baselines[name].per_motif_r
        assert scores.oracle.per_motif_r2 > scores.baselines[name].per_motif_r2
    column = scores.baselines["column_mean"]
    assert column.per_motif_r == 0.0
    assert column.per_motif_r2 == pytest.approx(0.0, abs=1e-6)


def test_the_oracle_is_given_the_programmes_of_the_windows_measured():
    train = DATA.splits["train"]
    oracle = ProgrammeMean.fit(train.x0, train.real, DATA.programmes["train"])

    class Knowing(ChainModel):
        """Is told the programmes of the first windows of the split, in one batch."""

        def predict(self, rows, masked, real):
            of = DATA.programmes["val"][order]
            return torch.where(masked.unsqueeze(-1), oracle.means[of].float(), rows)

    real = DATA.splits["val"].real[:7]
    order = real.sum(dim=1).argsort(stable=True)  # the batch: windows of one size together
    scores = score_filling(filled(algorithm=Knowing(), num=7, batch_size=7), DATA, "val", 0.5)
    assert scores.oracle.as_dict() == pytest.approx(scores.predicted.as_dict(), rel=1e-6)


def test_numbers_have_flat_names():
    filling = filled(sampler=SpreadSampler())
    numbers = score_filling(filling, DATA, "val", 0.5).as_dict()
    expected = {
        f"{who}{what}"
        for who in ("", "filled_", *(f"{name}_" for name in BASELINES))
        for what in ("per_motif_r", "per_motif_r2", "masked_mse")
    }
    counts = {"num_windows", "num_masked_rows", "num_columns", "dropped_columns", "mask_rate"}
    assert set(numbers) == expected | counts
    assert numbers["num_masked_rows"] == int(filling.masked.sum())
    assert (numbers["num_columns"], numbers["dropped_columns"]) == (5, 1)
    assert (numbers["num_windows"], numbers["mask_rate"]) == (12, 0.5)
    assert numbers["filled_masked_mse"] > numbers["masked_mse"]
    data = changed(DATA, programmes=None)
    without = score_filling(filled(), data, "val", 0.5).as_dict()
    assert set(without) == {n for n in numbers if not n.startswith(("filled_", "oracle_"))}


def test_errors_are_in_training_standard_deviations():
    """The same data in other units has the same scores."""
    splits = {name: Examples(10 * e.x0, e.real) for name, e in DATA.splits.items()}
    data = changed(DATA, splits=splits)
    one = score_filling(filled(), DATA, "val", 0.5).as_dict()
    other = score_filling(filled(data, algorithm=Tenfold()), data, "val", 0.5).as_dict()
    assert other == pytest.approx(one, rel=1e-5, abs=1e-6)


class Tenfold(ChainModel):
    def predict(self, rows, masked, real):
        return 10 * super().predict(rows / 10, masked, real)


def test_baselines_are_fitted_on_the_training_split_alone():
    fitted = fit_baselines(DATA, 0.5)
    others = {
        name: e if name == "train" else Examples(e.x0 + 1, e.real)
        for name, e in DATA.splits.items()
    }
    again = fit_baselines(changed(DATA, splits=others), 0.5)
    assert torch.equal(fitted.mean, again.mean)
    for name in ("neighbour_mean", "window_mean"):
        assert torch.equal(fitted.by_name[name].slope, again.by_name[name].slope)
    rare = fit_baselines(DATA, 0.1).by_name["neighbour_mean"].slope
    assert not torch.equal(rare, fitted.by_name["neighbour_mean"].slope)
    rows = DATA.splits["train"].x0[DATA.splits["train"].real].double()
    assert torch.allclose(fitted.scale, rows.std(dim=0, correction=0))


def by_mask_rate(rates: tuple[float, ...], data=DATA) -> ScoresByMaskRate:
    """Beside baselines that were fitted at another rate and under other masks."""
    return scores_by_mask_rate(
        Model(ChainModel(), None, batch_size=8),
        data,
        "val",
        baselines=fit_baselines(data, 0.4, seed=7),
        rates=rates,
        num=None,
        seed=1,
    )


def test_scores_by_mask_rate_are_those_of_each_rate():
    rates = (0.2, 0.5, 0.8)
    found = by_mask_rate(rates)
    assert list(found.by_name) == ["model", "neighbour_mean", "oracle"]
    records = found.as_dict()
    assert [record["mask_rate"] for record in records] == list(rates)
    for rate, record in zip(rates, records, strict=True):
        alone = score_filling(filled(rate=rate), DATA, "val", rate, seed=1).as_dict()
        assert len(record) == 10
        assert record == {name: alone[name] for name in record}
    without = by_mask_rate((0.5,), changed(DATA, programmes=None))
    assert list(without.by_name) == ["model", "neighbour_mean"]


def test_the_table_says_who_and_what():
    scores = score_filling(filled(), DATA, "val", 0.5)
    shown = {name: number(value) for name, value in scores.as_dict().items()}
    rates = ScoresByMaskRate(
        (0.3, 0.5), {"model": (scores.predicted,) * 2, "oracle": (scores.oracle,) * 2}
    )
    text = markdown([row_section(shown), rate_section(rates)], row_notes(scores))
    [line] = [line for line in text.splitlines() if line.startswith("| oracle |")]
    of_oracle = (scores.oracle.per_motif_r, scores.oracle.per_motif_r2, scores.oracle.masked_mse)
    assert line.split(" | ")[1:4] == [f"{value:.4f}" for value in of_oracle]
    assert "| hidden rows predicted by | per_motif_r | per_motif_r2 | masked_mse |" in text
    assert "filled" not in text
    assert "| hidden | per_motif_r | oracle |" in text
    model = f"{scores.predicted.per_motif_r:.4f}"
    assert f"| 30 % | {model} | {scores.oracle.per_motif_r:.4f} |" in text
    assert number(-1e-9) == "0.0000"  # without a sign
    assert f"{scores.predicted.num_rows} rows hidden in 12 windows at mask rate 0.5" in text
    assert "5 columns, 1 constant" in text


def test_a_report_measures_saves_and_draws(tmp_path):
    report = RowReport(DATA, "val", 0.5, seed=3)
    filling = filled(sampler=SpreadSampler())
    assert report.measure(filling) == score_filling(filling, DATA, "val", 0.5, seed=3).as_dict()
    report.save(filling, tmp_path / "run")
    names = ["samples.npz", "samples.png"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == names
    with np.load(tmp_path / "run" / "samples.npz", allow_pickle=False) as saved:
        assert tuple(saved["feature_names"]) == DATA.feature_names
        for name in ("truth", "real", "masked", "predicted", "filled"):
            assert np.array_equal(saved[name], getattr(filling, name).numpy()), name


class Counting:
    """A baseline that says how often it was asked."""

    def __init__(self, baseline) -> None:
        self.baseline, self.times = baseline, 0

    def predict(self, windows):
        self.times += 1
        return self.baseline.predict(windows)


def test_a_report_scores_baselines_once_while_the_masks_are_the_same():
    report = RowReport(DATA, "val", 0.5, seed=3)
    counting = {name: Counting(x) for name, x in report.baselines.by_name.items()}
    report.baselines = replace(report.baselines, by_name=counting)
    first, few = filled(), filled(num=5)
    other_model = filled(algorithm=ChainModel(0.2), sampler=SpreadSampler())
    other_masks = filled(seed=2)
    assert torch.equal(first.masked, other_model.masked)
    for filling, times in (
        *((first, 1), (other_model, 1), (other_masks, 2), (few, 3), (few, 3), (first, 4)),
    ):
        expected = score_filling(filling, DATA, "val", 0.5, seed=3).as_dict()
        assert report.measure(filling) == expected
        assert {each.times for each in counting.values()} == {times}


def test_a_report_without_a_sampler_or_without_windows(tmp_path):
    report = RowReport(DATA, "val", 0.5)
    filling = filled(num=2)
    report.save(filling, tmp_path)
    with np.load(tmp_path / "samples.npz", allow_pickle=False) as saved:
        assert "filled" not in saved
    nothing = replace(
        filling,
        truth=filling.truth[:0],
        real=filling.real[:0],
        masked=filling.masked[:0],
        predicted=filling.predicted[:0],
    )
    assert report.measure(nothing) == {}
    report.save(nothing, tmp_path / "none")
    report.draw(nothing, tmp_path / "none.png")
    assert not (tmp_path / "none").exists()
    assert not (tmp_path / "none.png").exists()


def test_scores_are_drawn(tmp_path):
    scores = score_filling(filled(), DATA, "val", 0.5)
    by_rate = by_mask_rate((0.3, 0.6))
    for path, given in ((tmp_path / "a.png", by_rate), (tmp_path / "b.png", None)):
        draw_filling_scores(scores, DATA.feature_names, path, given)
        assert path.read_bytes().startswith(b"\x89PNG")

"""Features on one scale."""

from __future__ import annotations

import pytest
import torch

from continuous_states.algorithms.gaussian import RowScaling


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Windows of which the last row of the first is not there; feature 2 is constant."""
    x0 = torch.rand(20, 6, 3, generator=torch.Generator().manual_seed(0)) * 4 + 1
    x0[..., 2] = 1.0
    real = torch.ones(20, 6, dtype=torch.bool)
    real[0, 5] = False
    x0[0, 5] = 1e6
    return x0, real


def test_zscore_has_mean_0_and_deviation_1_on_the_rows_that_are_there():
    x0, real = rows()
    scaling = RowScaling("zscore", 3)
    scaling.fit(x0, real)
    scaled = scaling(x0)[real]
    assert torch.allclose(scaled.mean(dim=0), torch.zeros(3), atol=1e-5)
    expected = torch.tensor([1.0, 1.0, 0.0])  # a constant feature becomes 0
    assert torch.allclose(scaled.std(dim=0, correction=0), expected, atol=1e-5)
    assert torch.allclose(scaling.inverse(scaling(x0))[real], x0[real], atol=1e-5)


def test_max_divides_by_the_largest_value():
    x0, real = rows()
    x0[..., 2] = 0.0
    scaling = RowScaling("max", 3)
    scaling.fit(x0, real)
    assert torch.allclose(scaling(x0)[real].amax(dim=0), torch.tensor([1.0, 1.0, 0.0]))
    assert torch.equal(scaling.shift, torch.zeros(3))


def test_none_leaves_values_as_they_are():
    x0, real = rows()
    scaling = RowScaling("none", 3)
    scaling.fit(x0, real)
    assert torch.equal(scaling(x0), x0)


@pytest.mark.parametrize("how", ["zscore", "max"])
def test_the_size_of_chunks_changes_nothing(how, monkeypatch):
    x0, real = rows()
    x0[..., 1] -= 1e4  # below 0, and far from it
    real[4:6] = False
    expected = x0[real].double()
    shift, scale = expected.mean(dim=0), expected.std(dim=0, correction=0)
    if how == "max":
        shift, scale = torch.zeros(3), expected.amax(dim=0)
    scale = torch.where(scale > 0, scale, 1.0).float()
    for size in (1, 2, 3, 100):
        monkeypatch.setattr("continuous_states.algorithms.gaussian.CHUNK", size)
        scaling = RowScaling(how, 3)
        scaling.fit(x0, real)
        assert torch.allclose(scaling.shift, shift.float(), rtol=1e-7)
        assert torch.allclose(scaling.scale, scale, rtol=1e-6)
    scaling.fit(x0, real & False)
    assert torch.allclose(scaling.scale, scale, rtol=1e-6)  # nothing to fit to


def test_other_features_and_names_are_refused():
    x0, real = rows()
    with pytest.raises(ValueError, match=r"the data has 3 features, the model 5; .*num_features"):
        RowScaling("none", 5).fit(x0, real)
    with pytest.raises(ValueError, match="did you mean 'zscore'"):
        RowScaling("zscor", 3)

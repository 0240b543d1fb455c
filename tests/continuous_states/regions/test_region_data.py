"""``data=regions``: the data set that a config makes, and its cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from region_tables import region_config

from continuous_states.regions import simulator
from continuous_states.regions.dataset import RegionDataset, build_regions, complete_regions
from continuous_states.regions.simulator import SimulationSettings, cached_windows
from discrete_diffusion.data import Dataset, SplitBatches
from discrete_diffusion.data.files import cached_files, clear_cache

SETTINGS = SimulationSettings(
    num_windows=9, rows=12, num_motifs=4, num_programmes=3, peak_length=40, region_seed=0
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, with everything worth caching."""
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(simulator, "WORDS_WORTH_CACHING", 0)
    return tmp_path / "cache"


def test_a_simulated_data_set() -> None:
    data = build_regions(region_config())
    assert isinstance(data, RegionDataset)
    assert isinstance(data, Dataset)
    assert (data.state, data.bound) == ("features", "gaussian")
    assert data.feature_names == ("motif_1", "motif_2", "motif_3", "motif_4", "accessibility")
    assert [len(data.splits[name]) for name in ("train", "val", "test")] == [16, 2, 2]
    for name, examples in data.splits.items():
        num = len(examples)
        assert examples.x0.shape == (num, 10, 5)
        assert examples.x0.dtype == torch.float32
        assert examples.real.shape == (num, 10)
        assert examples.real.all()
        assert data.programmes[name].shape == (num, 10)
        assert data.programmes[name].dtype == torch.int64
        assert data.programmes[name].min() >= 0
    assert data.size_counts() == [0] * 10 + [16]
    assert data.summary() == (
        "simulated regions of seed 0: 16 train, 2 val, 2 test windows of up to 10 regions, "
        "5 features each"
    )


def test_batches_hold_raw_rows() -> None:
    data = build_regions(region_config())
    batch = next(iter(SplitBatches(data, "val", batch_size=2, seed=0)))
    assert torch.equal(batch.x0, data.splits["val"].x0)
    assert batch.real.all()


def test_accessibility_is_constant_unless_quantitative() -> None:
    real, constant = (build_regions(region_config(quantitative_atac=q)) for q in (True, False))
    for name in ("train", "val", "test"):
        ours, theirs = real.splits[name].x0, constant.splits[name].x0
        assert torch.equal(ours[..., :-1], theirs[..., :-1])
        assert (theirs[..., -1] == 1).all()
    assert constant.summary().endswith(", 5 features each, 1 constant (accessibility)")
    assert real.splits["train"].x0[..., -1].std() > 0.1
    assert real.fingerprint() != constant.fingerprint()


def test_the_fingerprint_is_that_of_the_data() -> None:
    first = build_regions(region_config()).fingerprint()
    assert build_regions(region_config(batch_size=7)).fingerprint() == first
    assert build_regions(region_config(region_seed=1)).fingerprint() != first
    data = build_regions(region_config())
    data.feature_names = ("other", *data.feature_names[1:])
    assert data.fingerprint() != first


def test_completing_counts_the_features() -> None:
    config = region_config(num_motifs=7)
    complete_regions(config)
    assert config.num_features == 8
    assert config.feature_names == [*(f"motif_{k}" for k in range(1, 8)), "accessibility"]
    complete_regions(config)  # a right one stays
    with pytest.raises(ValueError, match=r"data.num_features=9, .* 8 .*leave it out"):
        complete_regions(region_config(num_motifs=7, num_features=9))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"split": [0.5, 0.6, 0.1]}, r"data.split=\[0.5, 0.6, 0.1\]"),
        ({"split": [0.5, 0.5]}, r"data.split=\[0.5, 0.5\]"),
        (
            {"num_windows": 2},
            "the val share .*more data.num_windows or another data.split",
        ),
        ({"quantitative_atac": "no"}, "data.quantitative_atac=no"),
        ({"cell_types": ["b_cell"]}, "data.cell_types .*data.path"),
        ({"rows": 1}, "data.rows=1: .*at least 2"),
        ({"peak_length": 5}, "data.peak_length=5: .*at least 14"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build_regions(region_config(**changes))


def test_a_split_may_be_left_out() -> None:
    data = build_regions(region_config(split=[0.9, 0.1, 0.0]))
    assert [len(examples) for examples in data.splits.values()] == [18, 2, 0]


def assert_same_windows(ours: object, theirs: object) -> None:
    for name in ("scores", "accessibility", "programmes"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype


def test_large_simulations_are_drawn_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = cached_windows(SETTINGS)
    assert cached_files() == [SETTINGS.cache_file()]
    monkeypatch.setattr(simulator, "simulate_windows", None)
    assert_same_windows(cached_windows(SETTINGS), drawn)
    assert clear_cache() == [SETTINGS.cache_file()]


def test_small_simulations_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "WORDS_WORTH_CACHING", SETTINGS.num_words + 1)
    cached_windows(SETTINGS)
    assert not folder.exists()


def test_every_setting_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = vars(SETTINGS)
    names = {replace(SETTINGS, **{key: 20}).cache_file() for key in settings}
    monkeypatch.setattr(simulator, "SIMULATOR_VERSION", simulator.SIMULATOR_VERSION + 1)
    assert len(names | {SETTINGS.cache_file()}) == len(settings) + 1


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _store_others(path: Path) -> None:
    np.savez(path, scores=np.zeros((9, 12, 3), np.float32))


@pytest.mark.parametrize("damage", [_truncate, _store_others])
def test_a_damaged_cache_file_is_replaced(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    expected = cached_windows(SETTINGS)
    damage(SETTINGS.cache_file())
    assert_same_windows(cached_windows(SETTINGS), expected)
    assert "regions are generated again" in caplog.text
    assert_same_windows(cached_windows(SETTINGS), expected)

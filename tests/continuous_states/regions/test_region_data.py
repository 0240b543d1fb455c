"""``data=regions``: the data set that a config makes, and its cache."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_regions import made_table, peak_names, region_config, table_config

from continuous_states.regions import simulator
from continuous_states.regions.dataset import (
    build_regions,
    complete_regions,
    cut_table,
    read_positions,
)
from continuous_states.regions.files import RegionTable, write_regions
from continuous_states.regions.simulator import SimulationSettings, cached_windows
from discrete_diffusion.data.files import cached_files, clear_cache

SETTINGS = SimulationSettings(
    num_windows=9, rows=12, num_motifs=4, num_programmes=3, peak_length=40, generator_seed=0
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, with everything worth caching."""
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(simulator, "WORDS_WORTH_CACHING", 0)
    return tmp_path / "cache"


def test_a_simulated_data_set() -> None:
    data = build_regions(region_config())
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
    assert build_regions(region_config(generator_seed=1)).fingerprint() != first
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
        ({"num_windows": 2}, "the val share .*more data.num_windows or another data.split"),
        ({"quantitative_atac": "no"}, "data.quantitative_atac=no"),
        ({"cell_types": ["b_cell"]}, "data.cell_types .*data.path"),
        ({"rows": 1}, "data.rows=1: .*at least 2"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build_regions(region_config(**changes))


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
    monkeypatch.undo()
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(folder))
    monkeypatch.setattr(simulator, "WORDS_WORTH_CACHING", SETTINGS.num_words + 1)
    cached_windows(SETTINGS)  # a small one is not kept
    assert cached_files() == []


def test_every_setting_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = vars(SETTINGS)
    names = {replace(SETTINGS, **{key: 20}).cache_file() for key in settings}
    monkeypatch.setattr(simulator, "SIMULATOR_VERSION", simulator.SIMULATOR_VERSION + 1)
    assert len(names | {SETTINGS.cache_file()}) == len(settings) + 1


ALL = (1.0, 0.0, 0.0)


def numbered_table(names: list[str], **atpm: list[float]) -> RegionTable:
    """The one motif score of a peak is its row, from 1."""
    scores = np.arange(1, len(names) + 1, dtype=np.float32)[:, None]
    values = {name: np.array(v, np.float32) for name, v in atpm.items()}
    return RegionTable(scores, tuple(names), ("m",), values)


def rows_of(table: RegionTable, rows: int = 3, max_span: int = 5_000_000) -> list[list[int]]:
    """The peaks of every window, by row from 1; without what pads it."""
    cut = cut_table(
        table, rows=rows, fractions=ALL, max_span=max_span, quantitative_atac=True
    ).splits["train"]
    return [x[r, 0].int().tolist() for x, r in zip(cut.x0, cut.real, strict=True)]


def test_genome_order_is_natural() -> None:
    names = ["chrX:1-2", "chr10:1-2", "chr2:90-95", "chr2:100-102", "chr2:9-11", "chrM:1-2"]
    order = read_positions(names, "t").genome_order()
    assert [names[k] for k in order] == [
        *("chr2:9-11", "chr2:90-95", "chr2:100-102", "chr10:1-2", "chrM:1-2", "chrX:1-2")
    ]


def test_windows_end_with_their_chromosome_and_are_padded() -> None:
    table = numbered_table([*peak_names("chr1", 5), *peak_names("chr2", 3)])
    cut = cut_table(table, rows=3, fractions=ALL, max_span=10**6, quantitative_atac=True)
    padded = cut.splits["train"]
    assert padded.real.tolist() == [[True] * 3, [True, True, False], [True] * 3]
    assert padded.x0[1, 2].tolist() == [0, 0]
    assert cut.splits["val"].x0.shape == (0, 3, 2)


def test_windows_stay_below_the_span() -> None:
    names = peak_names("chr1", 9, step=1000)  # three peaks span 2,500 bp, four 3,500
    assert rows_of(numbered_table(names), rows=9, max_span=3500) == [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8, 9],
    ]
    assert rows_of(numbered_table(names), rows=9, max_span=3501) == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert rows_of(numbered_table(["chr1:1-9000", "chr1:5-10", "chr1:20-30"]), max_span=100) == [
        [2, 3]
    ]  # the first reaches too far by itself


def test_a_cell_type_has_the_peaks_that_are_open_in_it() -> None:
    table = numbered_table(peak_names("chr1", 6), b=[1, 0, 2, 0, 3, 4], t=[0, 5, 5, 0, 0, 0])
    assert rows_of(table) == [[1, 3, 5], [2, 3]]  # b leaves 6 alone
    cut = cut_table(table, rows=3, fractions=ALL, max_span=10**6, quantitative_atac=True)
    assert [len(examples) for examples in cut.splits.values()] == [2, 0, 0]
    assert cut.splits["train"].x0[0, :, 1].tolist() == [1, 2, 3]
    ones = cut_table(table, rows=3, fractions=ALL, max_span=10**6, quantitative_atac=False)
    assert ones.splits["train"].x0[..., 1].tolist() == [[1, 1, 1], [1, 1, 0]]


def test_no_peak_is_on_both_sides_of_a_split(tmp_path: Path) -> None:
    table = made_table(("a", "b", "c"))  # which share most peaks
    write_regions(tmp_path / "t.npz", table)
    data = build_regions(table_config(tmp_path / "t.npz"))
    peaks = [
        {tuple(row) for row in data.splits[name].x0[data.splits[name].real][:, :-1].tolist()}
        for name in ("train", "val", "test")
    ]
    assert min(map(len, peaks)) > 5
    assert len(peaks[0] | peaks[1] | peaks[2]) == sum(map(len, peaks))


def test_shares_follow_the_genome(tmp_path: Path) -> None:
    table = numbered_table([*peak_names("chr10", 10), *peak_names("chr9", 10)])
    write_regions(tmp_path / "t.npz", table)
    data = build_regions(table_config(tmp_path / "t.npz"))
    found = [
        data.splits[n].x0[data.splits[n].real][:, 0].tolist() for n in ("train", "val", "test")
    ]
    assert found == [list(range(11, 21)), [1, 2, 3, 4], [6, 7, 8, 9]]  # 5 and 10 are alone


def test_a_data_set_from_a_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.npz"
    write_regions(path, made_table())
    config = table_config(path, rows=3)
    complete_regions(config)
    assert config.num_features == 4
    with caplog.at_level(logging.WARNING):
        data = build_regions(config)
    assert data.feature_names == ("CTCF", "GATA/1", "SPI1 α", "accessibility")
    assert data.programmes is None
    assert re.search(r"t.npz: left out \d+ peaks .* data.max_span=5000000", caplog.text)
    one = build_regions(table_config(path, rows=3, cell_types="cd8 t"))
    assert len(one.splits["train"]) < len(data.splits["train"])


@pytest.mark.parametrize("cell_types", [(), ("b_cell", "cd8 t")])
def test_windows_know_where_they_lie(cell_types: tuple[str, ...], tmp_path: Path) -> None:
    table = made_table(cell_types)
    write_regions(tmp_path / "t.npz", table)
    data = build_regions(table_config(tmp_path / "t.npz"))
    row_of = {name: k for k, name in enumerate(table.peak_names)}
    for split, examples in data.splits.items():
        names = data.places["peak_names"][split]
        assert names.shape == examples.real.shape
        assert ((names != "") == examples.real.numpy()).all()
        for window, (x0, real) in enumerate(zip(examples.x0, examples.real, strict=True)):
            rows = [row_of[name] for name in names[window] if name]
            assert (x0[real][:, :-1].numpy() == table.scores[rows]).all()
            access = np.ones(len(rows), np.float32)
            if cell_types:
                access = table.atpm[str(data.places["cell_types"][split][window])][rows]
            assert (x0[real][:, -1].numpy() == access).all()
    assert ("cell_types" in data.places) == bool(cell_types)
    if not cell_types:  # every peak is open, but those that are alone
        assert sum(int(examples.real.sum()) for examples in data.splits.values()) > 50
    assert build_regions(region_config()).places == {}


def test_features_that_say_nothing(tmp_path: Path) -> None:
    table = made_table(())
    scores = table.scores.copy()
    scores[:, 1] = 2.5
    write_regions(tmp_path / "t.npz", replace(table, scores=scores))
    data = build_regions(table_config(tmp_path / "t.npz"))
    assert data.summary().endswith(", 4 features each, 2 constant (GATA/1, accessibility)")
    order = read_positions(table.peak_names, "t").genome_order()
    scores = np.ones_like(scores)
    scores[order[45:]] = 3.0  # the test share varies, the training share does not
    write_regions(tmp_path / "t.npz", replace(table, scores=scores))
    with pytest.raises(ValueError, match="one value in the training rows"):
        build_regions(table_config(tmp_path / "t.npz"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_span": 100}, "no window .*data.max_span"),
        ({"max_span": 0}, "data.max_span=0: .*at least 1"),
        ({"split": [0.98, 0.01, 0.01]}, "the val .*more peaks or another data.split"),
        ({"cell_types": []}, r"data.cell_types=\[\]"),
        ({"cell_types": ["cd8_t"]}, "unknown cell type 'cd8_t'; did you mean 'cd8 t'"),
    ],
)
def test_tables_without_windows_are_refused(changes: dict, sentence: str, tmp_path: Path) -> None:
    write_regions(tmp_path / "t.npz", made_table())
    with pytest.raises(ValueError, match=sentence):
        build_regions(table_config(tmp_path / "t.npz", **changes))

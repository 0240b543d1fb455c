"""Simulated windows: domains, what a programme decides, and that nothing else links peaks."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from einops import rearrange

from continuous_states.regions.simulator import (
    SimulatedWindows,
    SimulationSettings,
    sample_domains,
    simulate_windows,
)

SETTINGS = SimulationSettings(
    num_windows=320, rows=64, num_motifs=16, num_programmes=6, peak_length=120, region_seed=0
)
SMALL = replace(SETTINGS, num_windows=12, rows=20, num_motifs=5, peak_length=60)


@pytest.fixture(scope="module")
def windows() -> SimulatedWindows:
    return simulate_windows(SETTINGS)


def arrays_of(windows: SimulatedWindows) -> list[np.ndarray]:
    return [getattr(windows, f.name) for f in fields(windows)]


@pytest.mark.slow
def test_shapes_and_kinds(windows: SimulatedWindows) -> None:
    assert windows.scores.shape == (320, 64, 16)
    assert windows.accessibility.shape == windows.programmes.shape == (320, 64)
    assert windows.scores.dtype == windows.accessibility.dtype == np.float32
    assert windows.programmes.dtype == np.int64
    assert windows.scores.min() == 0
    assert windows.accessibility.min() > 0
    assert set(np.unique(windows.programmes)) == set(range(6))
    assert (windows.scores.reshape(-1, 16).std(axis=0) > 0).all()


def test_a_seed_decides_the_windows_and_nothing_else_changes() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    first, again = simulate_windows(SMALL), simulate_windows(SMALL)
    for ours, theirs in zip(arrays_of(first), arrays_of(again), strict=True):
        assert np.array_equal(ours, theirs)
    other = simulate_windows(replace(SMALL, region_seed=1))
    assert not np.array_equal(other.scores, first.scores)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("num", [1, 8, 11])
def test_fewer_windows_are_the_first_of_more(num: int) -> None:
    fewer, more = simulate_windows(replace(SMALL, num_windows=num)), simulate_windows(SMALL)
    for ours, theirs in zip(arrays_of(fewer), arrays_of(more), strict=True):
        assert np.array_equal(ours, theirs[:num])


def runs_of(programmes: np.ndarray) -> list[int]:
    """Int[N] -> lengths of its runs of equal values."""
    ends = np.flatnonzero(np.diff(programmes)) + 1
    return np.diff([0, *ends, len(programmes)]).tolist()


def test_domains_have_8_to_24_peaks() -> None:
    runs = [runs_of(w) for w in sample_domains(300, 200, 6, np.random.default_rng(0))]
    inner = [length for window in runs for length in window[1:-1]]
    cut = [window[k] for window in runs for k in (0, -1)]
    assert (min(inner), max(inner)) == (8, 24)
    assert (min(cut), max(cut)) == (1, 24)
    assert np.mean(inner) == pytest.approx(16, abs=0.4)


@pytest.mark.parametrize(("rows", "num"), [(2, 6), (8, 2), (65, 1)])
def test_few_rows_or_programmes(rows: int, num: int) -> None:
    domains = sample_domains(50, rows, num, np.random.default_rng(0))
    assert domains.shape == (50, rows)
    assert set(np.unique(domains)) == set(range(num))


def programme_means(values: np.ndarray, programmes: np.ndarray) -> np.ndarray:
    """Float[P, M] -> Float[G, M]."""
    return np.stack([values[programmes == g].mean(axis=0) for g in range(programmes.max() + 1)])


def neighbour_z(values: np.ndarray) -> np.ndarray:
    """Covariance of each column with itself one row on, in standard errors; Float[W, N, M]."""
    centred = values - values.mean(axis=(0, 1))
    products = rearrange(centred[:, :-1] * centred[:, 1:], "w n m -> (w n) m")
    return products.mean(axis=0) / products.std(axis=0) * np.sqrt(len(products))


def test_peaks_are_independent_given_their_programme(windows: SimulatedWindows) -> None:
    values = np.concatenate([windows.scores, windows.accessibility[..., None]], axis=2)
    values = values.astype(np.float64)
    means = programme_means(values.reshape(-1, 17), windows.programmes.reshape(-1))
    noise = values - means[windows.programmes]
    z = neighbour_z(noise)
    assert np.abs(z).max() < 4
    assert np.mean(z**2) < 2
    assert np.median(neighbour_z(values)) > 5  # the programme itself links neighbours

    rng = np.random.default_rng(0)
    shared = rng.standard_normal((320, 65, 17))
    leaked = noise / noise.std(axis=(0, 1)) + 0.4 * (shared[:, 1:] + shared[:, :-1])
    assert neighbour_z(leaked).min() > 5  # what the test would see if noise were shared


@pytest.mark.slow
def test_programme_means_explain_what_they_were_calibrated_to() -> None:
    """Averaged over motifs, held out: R2 .114 and r .321 on six seeds of the default size."""
    windows = simulate_windows(replace(SETTINGS, num_motifs=32, peak_length=200))
    train, test = windows.scores[:240].reshape(-1, 32), windows.scores[240:].reshape(-1, 32)
    means = programme_means(train, windows.programmes[:240].reshape(-1))
    predicted = means[windows.programmes[240:].reshape(-1)]
    r2 = 1 - ((test - predicted) ** 2).mean(axis=0) / ((test - train.mean(axis=0)) ** 2).mean(
        axis=0
    )
    r = [np.corrcoef(p, t)[0, 1] for p, t in zip(predicted.T, test.T, strict=True)]
    assert r2.mean() == pytest.approx(0.115, abs=0.02)
    assert np.mean(r) == pytest.approx(0.32, abs=0.02)


@pytest.mark.parametrize(
    ("key", "value", "least"),
    [
        ("num_windows", 0, 1),
        ("rows", 1, 2),
        ("num_motifs", 2.5, 1),
        ("num_programmes", 0, 1),
        ("peak_length", 13, 14),
        ("region_seed", -1, 0),
    ],
)
def test_settings_out_of_range_are_refused(key: str, value: object, least: int) -> None:
    with pytest.raises(ValueError, match=f"data.{key}={value}: .*at least {least}"):
        replace(SMALL, **{key: value})

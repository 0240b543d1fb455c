"""Simulated windows: domains, what a programme decides, and that nothing else links peaks."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from einops import rearrange

from continuous_states.regions import simulator
from continuous_states.regions.simulator import (
    LONGEST_MOTIF,
    Motifs,
    SimulatedWindows,
    SimulationSettings,
    Sites,
    plant_sites,
    sample_domains,
    sample_motifs,
    sample_sites,
    scan_motifs,
    simulate_windows,
)

SETTINGS = SimulationSettings(
    num_windows=320, rows=64, num_motifs=16, num_programmes=6, peak_length=120, generator_seed=0
)
SMALL = replace(SETTINGS, num_windows=12, rows=20, num_motifs=5, peak_length=60)


@pytest.fixture(scope="module")
def windows() -> SimulatedWindows:
    return simulate_windows(SETTINGS)


def arrays_of(windows: SimulatedWindows) -> list[np.ndarray]:
    return [getattr(windows, f.name) for f in fields(windows)]


def test_a_seed_decides_the_windows_and_nothing_else_changes() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    first, again = simulate_windows(SMALL), simulate_windows(SMALL)
    for ours, theirs in zip(arrays_of(first), arrays_of(again), strict=True):
        assert np.array_equal(ours, theirs)
    other = simulate_windows(replace(SMALL, generator_seed=1))
    assert not np.array_equal(other.scores, first.scores)
    fewer = simulate_windows(replace(SMALL, num_windows=8))  # are the first of more
    for ours, theirs in zip(arrays_of(fewer), arrays_of(first), strict=True):
        assert np.array_equal(ours, theirs[:8])
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


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


@pytest.mark.slow
def test_programme_means_explain_what_they_were_calibrated_to() -> None:
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
        ("generator_seed", -1, 0),
    ],
)
def test_settings_out_of_range_are_refused(key: str, value: object, least: int) -> None:
    with pytest.raises(ValueError, match=f"data.{key}={value}: .*at least {least}"):
        replace(SMALL, **{key: value})


@pytest.fixture
def motifs() -> Motifs:
    return sample_motifs(6, np.random.default_rng(3))


def random_dna(num: int, length: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, (num, length), dtype=np.uint8)


def naive_scores(dna: np.ndarray, motifs: Motifs) -> np.ndarray:
    """Letter by letter, in float64, the other strand by turning the DNA round."""
    log_odds, thresholds = motifs.log_odds(), motifs.thresholds()
    scores = np.zeros((len(dna), len(motifs)))
    for p, peak in enumerate(dna):
        for strand in (peak, 3 - peak[::-1]):
            for k, length in enumerate(motifs.lengths):
                for start in range(len(strand) - length + 1):
                    word = strand[start : start + length]
                    total = sum(log_odds[k, j, letter] for j, letter in enumerate(word))
                    scores[p, k] += max(0.0, total - thresholds[k])
    return scores


def best_words(motifs: Motifs) -> list[np.ndarray]:
    words = motifs.letter_probs.argmax(axis=2)
    return [word[:length] for word, length in zip(words, motifs.lengths, strict=True)]


def test_scores_are_those_of_a_double_loop(motifs: Motifs) -> None:
    dna = random_dna(8, 90)
    for k, word in enumerate(best_words(motifs)):
        dna[k, : len(word)] = word  # more than random DNA has to score, at both ends
        dna[k, -len(word) :] = 3 - word[::-1]
    assert set(motifs.lengths.tolist()) != {LONGEST_MOTIF}
    expected = naive_scores(dna, motifs)
    assert (expected > 0).mean() > 0.3
    scores = scan_motifs(dna, motifs)
    assert scores.dtype == np.float32
    assert np.array_equal(scores, expected)  # multiples of 1/64 bit: nothing is rounded


def test_scores_do_not_depend_on_the_chunk(motifs: Motifs, monkeypatch) -> None:
    dna = random_dna(20, 80)
    at_once = scan_motifs(dna, motifs)
    monkeypatch.setattr(simulator, "PEAKS_AT_ONCE", 7)
    assert np.array_equal(scan_motifs(dna, motifs), at_once)
    assert scan_motifs(dna[:0], motifs).shape == (0, 6)


def test_sites_lie_inside_and_on_both_strands(motifs: Motifs) -> None:
    probs = np.tile([0, 0, 1.0, 0, 0, 0], (2000, 1))
    sites = sample_sites(probs, motifs, 40, np.random.default_rng(1))
    length = motifs.lengths[2]
    assert set(sites.motif) == {2}
    assert (sites.start.min(), sites.start.max()) == (0, 40 - length)
    assert len(sites.peak) / 2000 == pytest.approx(5, abs=0.2)
    letters = np.stack([(sites.letters[:, :length] == b).mean(axis=0) for b in range(4)], axis=1)
    forward = motifs.letter_probs[2, :length]
    assert np.abs(letters - (forward + forward[::-1, ::-1]) / 2).max() < 0.02


def test_the_later_of_two_overlapping_sites_stands(motifs: Motifs) -> None:
    length = int(motifs.lengths[0])
    letters = np.stack([np.zeros(LONGEST_MOTIF), np.full(LONGEST_MOTIF, 3)]).astype(np.uint8)
    dna = np.full((2, 40), 1, np.uint8)
    sites = Sites(np.array([1, 1]), np.array([0, 0]), np.array([10, 13]), letters)
    plant_sites(dna, sites, motifs)
    expected = np.ones(40)
    expected[10:13], expected[13 : 13 + length] = 0, 3
    assert (dna[0] == 1).all()
    assert np.array_equal(dna[1], expected)


def test_motifs_carry_the_information_that_is_claimed() -> None:
    motifs = sample_motifs(500, np.random.default_rng(0))
    inside = np.arange(LONGEST_MOTIF) < motifs.lengths[:, None]
    assert np.allclose(motifs.letter_probs.sum(axis=2), 1)
    assert (motifs.letter_probs[~inside] == 0.25).all()
    assert (motifs.lengths.min(), motifs.lengths.max()) == (8, 14)
    bits = (motifs.letter_probs * np.log2(4 * motifs.letter_probs)).sum(axis=2)[inside]
    assert bits.mean() == pytest.approx(1.1, abs=0.03)

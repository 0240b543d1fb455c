"""The last line of ``train``: every number is of what it says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from discrete_diffusion.domains.molecules.samples import MoleculeReport
from discrete_diffusion.domains.text.report import TextReport

BOUNDS = {
    **{"nelbo_unordered": 24.07, "nelbo_standard_error": 0.6},
    **{"nelbo_blind": 43.14, "nelbo_uniform": 58.22},
    **{"nelbo_blind_ordered_fixed": 51.4, "nelbo_uniform_ordered_fixed": 66.48},
}
DATA = SimpleNamespace(vocabulary=SimpleNamespace(unit="characters"))


@pytest.mark.parametrize(
    ("report", "found", "expected"),
    [
        (
            MoleculeReport,
            {"valid": 0.9, "unique": 0.5, "num_valid_relaxed": 190, "num_unique": 95},
            ["valid 90.0 %", "unique 50.0 % of 190"],
        ),
        (
            TextReport,
            {"words_in_training": 0.25, "num_words": 1234, "bits_per_character": 2.0},
            ["2.000 bits per character", "words in training 25.0 % of 1,234"],
        ),
    ],
)
def test_a_share_has_its_own_count(report, found, expected):
    line = report(DATA).summary({**BOUNDS, "num_samples": 200, **found})
    assert line.split(", ")[-len(expected) :] == [*expected[:-1], f"{expected[-1]}  [200 samples]"]


def test_blind_and_untrained_are_those_of_metrics_json():
    line = MoleculeReport(DATA).summary({**BOUNDS, "num_samples": 200})
    assert "(blind 43.14, untrained 58.22; of one order 51.40, 66.48)" in line
    plain = {k: v for k, v in BOUNDS.items() if not k.endswith("ordered_fixed")}
    line = MoleculeReport(DATA).summary({**plain, "num_samples": 200})
    assert "(blind 43.14, untrained 58.22)" in line

"""Regions of a genome: rows of numbers, some of which are hidden."""

from __future__ import annotations

from dataclasses import replace

from discrete_diffusion.config import LazyEntry
from discrete_diffusion.domains import DATA, Domain, Option, completions, register_domain

_MASK_RATE = Option(
    "mask_rate",
    "the share of the rows of a held-out window that is hidden; null is 0.5",
    share=True,
)


@register_domain
class Regions(Domain):
    """Windows of neighbouring regions, a row of motif scores each."""

    name, title = "regions", "features"
    setting_help = (
        "algo=masked-features     rows of numbers: regions of a genome, hidden and predicted",
    )
    data_sets = {"regions": "features"}
    data_files = ("path",)
    sample_files = ("samples.npz",)
    quick = {"num_held_out": 200, "num_samples": 100, "num_seeds": 1, "noise_samples": 1}
    fixed_keys = ("rows", "num_features", "feature_names")
    options = {
        "sample": (
            Option(
                "given",
                "FILE.npz with the array rows (windows, rows, features), raw values, rows to fill "
                "NaN or named by a bool array masked",
                is_file=True,
            ),
            completions("fillings of each window; null is 4, or 1 if they would all be alike"),
            replace(_MASK_RATE, without_given="the file says which rows are to be filled"),
        ),
        "evaluate": (
            DATA,
            _MASK_RATE,
            Option(
                "num_seeds",
                "sampling seeds seed, seed + 1, ..., each of which hides other rows; null is 5",
                least=1,
            ),
        ),
        "train": (
            Option(
                "mask_rate",
                "share of a held-out window's rows that is hidden, at validations too",
                default=0.5,
                share=True,
            ),
        ),
    }

    complete = LazyEntry("continuous_states.regions.dataset:complete_regions")
    vocabulary = LazyEntry("continuous_states.regions.dataset:region_vocabulary")
    build = LazyEntry("continuous_states.regions.dataset:build_regions")
    test_data = LazyEntry("continuous_states.regions.dataset:build_test_regions")
    report = LazyEntry("continuous_states.regions.row_report:report_of_training")
    sample = LazyEntry("continuous_states.regions.commands:sample_rows")
    evaluate = LazyEntry("continuous_states.regions.commands:evaluate_rows")

"""Electrical impedance tomography: images of conductivity, each with its boundary map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discrete_diffusion.config import LazyEntry
from discrete_diffusion.domains import DATA, Domain, Option, register_domain

_OPTIONS = (
    DATA,
    Option(
        "samples_per_condition", "samples given every map, their mean is scored; null is 8", least=1
    ),
)


@register_domain
class EIT(Domain):
    """Images to be found from their Dirichlet-to-Neumann maps, as numbers or as ids of levels."""

    name, title = "eit", "images from maps"
    data_sets = {"eit": "field", "eit_quantised": "tokens"}
    data_files = ("path",)
    fixed_keys = (
        *("size", "num_boundary", "channels", "field_size", "length", "vocab_size", "mask_id"),
    )
    options = {
        "sample": _OPTIONS,
        "evaluate": _OPTIONS,
        "train": (
            Option(
                "samples_per_condition",
                "drawn from every held-out map, their mean is scored",
                default=8,
                least=1,
            ),
        ),
    }
    token_steps = 20
    sample_files = ("samples.npz",)
    quick = {"num_held_out": 100, "num_samples": 20, "samples_per_condition": 2, "noise_samples": 1}

    complete = LazyEntry("continuous_states.eit.dataset:complete_eit")
    vocabulary = LazyEntry("continuous_states.eit.dataset:eit_vocabulary")
    build = LazyEntry("continuous_states.eit.dataset:build_eit")
    test_data = LazyEntry("continuous_states.eit.dataset:build_test_images")
    report = LazyEntry("continuous_states.eit.image_report:report_of_training")
    sample = LazyEntry("continuous_states.eit.commands:sample_images")
    evaluate = LazyEntry("continuous_states.eit.commands:evaluate_images")
    cell_measurement = LazyEntry("continuous_states.eit.commands:ImageCells")

    def conditions(self, data: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
        return {"dtn": ()}

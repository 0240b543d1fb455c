"""The table of an evaluation of reconstructed images."""

from __future__ import annotations

from discrete_diffusion.domains.eit.image_scores import ReconstructionScores
from discrete_diffusion.evaluation.table import TableRow, TableSection

_WHO = {
    "{}": "the mean of the draws",
    "{}_single": "one draw",
    "{}_shuffled": "the mean of draws from the map of another sample",
    "ridge_{}": "linear regression on the map",
    "mean_image_{}": "the mean training image",
    "ones_{}": "the background everywhere",
}
_WHAT = {
    "relative_l2": "norm of the error by that of the image, mean over images",
    "mean_squared_error": "mean squared error of a pixel",
    "pixel_accuracy": "share of pixels whose nearest level is the true one",
}
_OTHERS = {
    "majority_pixel_accuracy": "share of the most frequent level: what a constant image scores",
    "condition_gap": "relative L2 from another's map less that from the own one; 0: maps unused",
    "spread_ratio": "spread of the draws by what their errors call for; 1: an exact posterior",
}


def field_section(scores: ReconstructionScores) -> TableSection:
    """Everybody's numbers, one metric after the other (± standard error over images)."""
    values = scores.as_dict()
    rows = [
        _row(name, values, f"{meaning}; {whose}")
        for what, meaning in _WHAT.items()
        for who, whose in _WHO.items()
        if (name := who.format(what)) in values
    ]
    rows += [_row(name, values, meaning) for name, meaning in _OTHERS.items() if name in values]
    return TableSection("images, from their maps", tuple(rows))


def field_notes(scores: ReconstructionScores) -> list[str]:
    """What the numbers of ``field_section`` are of, in sentences."""
    notes = [
        f"{scores.num_images:,} held-out images, {scores.draws} draws each, {scores.calls:g} "
        "network calls a draw; ± is the standard error over images.",
        "One draw of an exact model has twice the squared error of the posterior mean.",
    ]
    if "ridge" in scores.baselines:
        notes.append(
            f"Ridge regression: penalty {scores.penalty:g}, the best for "
            "training images left out one by one."
        )
    return notes


def _row(name: str, values: dict[str, float], meaning: str) -> TableRow:
    text = f"{round(values[name], 4) + 0.0:.4f}"  # without a sign of 0
    if (error := values.get(f"{name}_standard_error")) is not None:
        text += f" ± {error:.4f}"
    return TableRow(name, text, meaning=meaning)

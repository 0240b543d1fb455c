"""Settings of ``sample`` and ``evaluate`` that mean something for some samples only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.compose import plain
from discrete_diffusion.states import DIALOGUES, IMAGES

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.sample_source import SampleSource

_MEANT_FOR = {
    "codes": ("diagrams",),
    "completions": ("diagrams", "features", DIALOGUES),
    "data": (IMAGES,),
    "draws": (IMAGES,),
    "floor_draws": ("diagrams",),
    "given": ("diagrams", "features", DIALOGUES),
    "mask_rate": ("features",),
    "max_arrangements": ("diagrams",),
    "num_rooms": ("diagrams",),
    "reference": ("diagrams",),
    "seeds": ("diagrams", "features"),
    "time_bins": ("diagrams", "text"),
    "trajectory": ("diagrams",),
    "training": ("diagrams",),
}
"""Key -> what a model must have been trained on, as ``SampleSource.trained_on`` calls it."""

_INSTEAD = {
    ("data", DIALOGUES): ". Dialogues of your own are summarised, and scored where they have "
    "summaries, by sample given=FILE.jsonl",
}
"""What to do in the place of a key, by what a model was trained on."""

_OF_CHECKPOINTS = ("bound_draws", "num_samples", "steps")
"""Further keys that say nothing of a file of samples."""

_OFF = {"trajectory": 0}
"""What leaves a key out; of others null, or no keys."""


def refuse_meaningless(config: DictConfig, source: SampleSource) -> None:
    """``ValueError`` for the first setting that no sample of this model has a use for."""
    for key, value in _given(config, _MEANT_FOR):
        if source.trained_on not in _MEANT_FOR[key.partition(".")[0]]:
            needed = " or ".join(_MEANT_FOR[key.partition(".")[0]])
            raise ValueError(
                f"{key}={value}: {source.path} was not trained on {needed}; leave it out"
                + _INSTEAD.get((key.partition(".")[0], source.trained_on), "")
            )


def refuse_meaningless_for_files(config: DictConfig) -> None:
    """The same where files of diagrams are measured and there is no model."""
    of_files = ("codes", "floor_draws", "reference", "training")
    others = [key for key in _MEANT_FOR if key not in of_files]
    for key, value in _given(config, (*others, *_OF_CHECKPOINTS)):
        raise ValueError(
            f"{key}={value} is for checkpoint=FILE of a model{_of(key)}; leave it out with "
            "samples=FILE"
        )


def refuse_settings_of_files(config: DictConfig) -> None:
    """``ValueError`` for how to read files of plans, where ``evaluate checkpoint=`` reads none."""
    if config.reference is not None or config.training is not None:
        return
    for key, default in (("codes", None), ("unit", "pixels"), ("threshold", None)):
        if config[key] != default:
            raise ValueError(
                f"{key}={config[key]} is for plans of reference=FILE or training=FILE; the data of "
                "the checkpoint are read as in training; leave it out"
            )


def _of(key: str) -> str:
    needed = _MEANT_FOR.get(key.partition(".")[0])
    return f" of {' or '.join(needed)}" if needed else ""


def _given(config: DictConfig, keys: Any) -> list[tuple[str, Any]]:
    """Those of the keys that the command has and was given, with their values; what stands under
    ``data`` by itself."""
    found = {key: config[key] for key in keys if key in config}
    found |= {f"data.{key}": value for key, value in plain(found.pop("data", {})).items()}
    return [(key, value) for key, value in found.items() if value not in (None, _OFF.get(key))]

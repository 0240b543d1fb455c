"""``SampleRequest`` and ``EvaluateRequest``: requests from the command line or Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

from discrete_diffusion.config.values import Checked, Count, CountOrZero
from discrete_diffusion.runtime.devices import PRECISIONS, check_precision


@dataclass(frozen=True, kw_only=True)
class Request(Checked):
    """Fields that requests for samples and for measurements share.

    ``num_samples``, ``steps``, ``batch_size``: None for the default of the kind of data, the
    sampler, the device. ``seed``: seed of the samples. ``sampling``: name and settings of another
    sampler; without a name, settings of the sampler in the checkpoint. ``precision``: precision of
    the network's matrix products. ``options``: values of options that one kind of data has, by the
    name of the ``Option``; they are attributes and items of the request too.

    Raises ``ValueError`` naming the field for a number out of range or an unknown precision.
    """

    num_samples: Count | None = None
    seed: CountOrZero = 0
    steps: Count | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    batch_size: Count | None = None
    precision: str = "32-true"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_precision("precision", self.precision, PRECISIONS)
        # plain numbers and lists
        for name, value in vars(self).items():
            object.__setattr__(self, name, _plain_number(value))
        values = {name: _plain_number(value) for name, value in self.options.items()}
        object.__setattr__(self, "options", values)

    def __getattr__(self, name: str) -> Any:
        """Return an option; raise ``AttributeError`` if the kind of data lacks it."""
        if name != "options" and name in self.options:  # not while a copy is being made
            return self.options[name]
        raise AttributeError(f"{type(self).__name__} has no field or option {name!r}")

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field or option, or the default for an unknown one."""
        return getattr(self, name, default)


@dataclass(frozen=True, kw_only=True)
class SampleRequest(Request):
    """Request for samples.

    ``num_samples``: for kinds of data with conditions, the number of held-out conditions. ``out``,
    ``picture``: folder and file name of the picture; only ``Samples.write`` uses them.
    """

    out: Path = Path("samples")
    picture: str = "samples.png"


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Request):
    """Request for measurements: of a model and its samples, or of files of samples.

    ``samples``: files of samples; empty for a model. ``split``: split of the model's data; None:
    test, or val if test is empty. ``num_held_out``: number of held-out samples; None: all.
    ``noise_samples``: noise samples for each; None: the default; 0: only samples are measured, if
    the kind of data allows it. ``quick``: use the smaller defaults ``Domain.quick``, for an answer
    within a minute. ``ema``: whether the weights are averaged, for the record. ``out``: folder into
    which samples are written as soon as they are made, or None.
    """

    samples: tuple[str, ...] = ()
    split: str | None = None
    num_held_out: Count | None = None
    noise_samples: CountOrZero | None = None
    quick: bool = False
    ema: bool = True
    out: Path | None = None


def _plain_number(value: Any) -> Any:
    """Turn a NumPy integer into an ``int``, and a range into a list."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return [*value] if isinstance(value, range) else value

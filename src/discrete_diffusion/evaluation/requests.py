"""``SampleRequest``, ``EvaluateRequest``: requests of the command line and of Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

from discrete_diffusion.config.signatures import Checked
from discrete_diffusion.config.values import Count, CountOrZero
from discrete_diffusion.runtime.devices import PRECISIONS, check_precision


@dataclass(frozen=True, kw_only=True)
class Request(Checked):
    """Fields that requests for samples and for measurements share.

    ``num_samples``, ``steps``, ``batch_size``: None for the default of the kind of data, the
    sampler, the device. ``seed``: another one gives other samples. ``sampling``: name and settings
    of another sampler; without a name, settings of the one trained with. ``precision``: of the
    network's matrix products. ``options``: values of options of one kind of data, by the name of
    the ``Option``; they are attributes and items of the request too.

    Raises ``ValueError`` naming the field for a number out of its range or an unknown precision.
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
            object.__setattr__(self, name, _plain(value))
        values = {name: _plain(value) for name, value in self.options.items()}
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

    ``num_samples``: for kinds of data with conditions, the number of held-out ones.
    ``out``, ``picture``: folder and name of the picture, for ``Samples.write``, which alone writes.
    """

    out: Path = Path("samples")
    picture: str = "samples.png"


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Request):
    """Request for measurements: of a model and its samples, or of files of samples.

    ``samples``: the files; empty for a model. ``split``: of the model's data, None for the first of
    test and val that is not empty. ``num_held_out``, ``bound_draws``: held-out samples, and noise
    samples for each; None for all, and the default; 0 noise samples: samples alone are measured,
    where the kind of data can. ``quick``: smaller defaults, those of ``Domain.quick``, for an
    answer within a minute. ``ema``: the averaged weights, for the record. ``out``: folder for
    samples as soon as they are there, or None.
    """

    samples: tuple[str, ...] = ()
    split: str | None = None
    num_held_out: Count | None = None
    bound_draws: CountOrZero | None = None
    quick: bool = False
    ema: bool = True
    out: Path | None = None


def _plain(value: Any) -> Any:
    """Turn a whole number of NumPy into Python's, and a range into a list."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return [*value] if isinstance(value, range) else value

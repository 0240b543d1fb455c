"""Data on which a model is measured: what its checkpoint held out, or other data."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.constructors import check_kinds
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.config.values import check_name, unknown_name
from discrete_diffusion.data.base import SPLITS, Dataset
from discrete_diffusion.evaluation.requests import EvaluateRequest, Request
from discrete_diffusion.runtime.processes import end_if_stopping
from discrete_diffusion.sampling.exactness import exactness_facts

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.runtime.processes import Shard


logger = logging.getLogger(__name__)

D = TypeVar("D", bound=Dataset)

HELD_OUT = ("test", "val")
"""Splits to measure on, the preferred one first."""

NOISE_SAMPLES = 4
"""Default of ``noise_samples``: noise samples per held-out sample."""

SEEDS = 5
"""Default number of sampling seeds."""

_CHOICE = (24,)
"""Keeps the choice of held-out samples apart from the noise of samples."""


class UnreadableDataError(ValueError):
    """Error: the data of a checkpoint is missing or cannot be read; ``reason`` says why."""

    def __init__(self, path: object, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"the data of {path} cannot be read ({reason})")


def checkpoint_data(trained: TrainedModel) -> Any:
    """Build the ``Dataset`` of a checkpoint; warn if it differs from the training data.

    Raises ``UnreadableDataError``.
    """
    # build it as its domain does
    path = trained.path
    try:
        data = trained.domain.build(trained.data_config)
    except (OSError, ValueError, OmegaConfBaseException) as error:
        raise UnreadableDataError(path, str(error).split("\n")[0]) from error
    # compare fingerprints
    found, expected = data.fingerprint(), trained.data_fingerprint
    if expected is not None and found != expected:
        logger.warning(
            "this is not the data that %s was trained on (fingerprint %s, then %s): what is held "
            "out here may have been trained on",
            *(path, found, expected),
        )
    logger.info("data: %s", data.summary())
    return data


def readable_data(trained: TrainedModel, remedy: str = "put it back where the run found it") -> Any:
    """Build ``checkpoint_data``; raise ``ValueError`` with the ``remedy`` if it is unreadable."""
    try:
        return checkpoint_data(trained)
    except UnreadableDataError as error:
        raise ValueError(f"{error}; {remedy}") from error


def own_data(trained: TrainedModel, left_out: str = "") -> Any:
    """Build ``checkpoint_data``; None if it cannot be read, which is logged.

    ``left_out``: name, for the log, of what is not measured without the data.
    """
    try:
        return checkpoint_data(trained)
    except UnreadableDataError as error:
        lost = f": {left_out} is left out" if left_out else ""
        logger.warning("the checkpoint's training data cannot be read (%s)%s", error.reason, lost)
        return None


def check_reference(request: EvaluateRequest, *, of_files: bool) -> None:
    """Raise ``ValueError`` if ``split`` or keys under ``data`` come with ``reference=FILE``.

    ``of_files``: True if samples in files are measured, not samples of a model.
    """
    # keys under data
    if not of_files and request.data:
        key, value = next(iter(request.data.items()))
        raise ValueError(
            f"data.{key}={value} and reference={request.reference} both say what is measured; "
            "leave one of them out"
        )
    # a split
    if request.split is not None:
        whose, key = ("a checkpoint", "samples") if of_files else ("this checkpoint", "reference")
        raise ValueError(
            f"split={request.split} chooses among the data of {whose}; leave it out with {key}=FILE"
        )


def held_out_split(
    data: Dataset, split: str | None = None, remedy: str = "choose another split"
) -> str:
    """Choose the requested split, or the first of ``HELD_OUT`` that is not empty.

    Raises ``ValueError`` for an unknown split, and, with the ``remedy``, for an empty one.
    """
    if split is None:
        split = next((name for name in HELD_OUT if len(data.splits[name])), HELD_OUT[0])
    check_name("split", split, SPLITS)
    if len(data.splits[split]) == 0:
        raise ValueError(f"the {split} split is empty; {remedy}")
    return split


def held_out_rows(request: EvaluateRequest, available: int) -> Tensor:
    """Choose samples to measure among ``available`` samples: Int[num], ascending.

    All are chosen, or ``num_held_out``, the same every time.
    """
    order = torch.randperm(available, generator=make_generator(0, *_CHOICE))
    return order[: request.num_held_out].sort().values


def num_held_out(request: EvaluateRequest, data: Dataset, split: str) -> int:
    """Number of samples of a split that are measured."""
    return len(held_out_rows(request, len(data.splits[split])))


def some_held_out(request: EvaluateRequest, data: D, split: str) -> D:
    """Copy the data, keeping only the ``held_out_rows`` of a split."""
    num = len(data.splits[split])
    rows = held_out_rows(request, num)
    return data if len(rows) == num else data.with_rows(split, rows)


def sampling_seeds(request: EvaluateRequest, default: int = SEEDS) -> list[int]:
    """Sampling seeds: ``seed``, ``seed`` + 1, ..., ``seeds`` in all."""
    return list(range(request.seed, request.seed + (request.num_seeds or default)))


def keep_samples(request: EvaluateRequest, shard: Shard, write: Callable[[Path], object]) -> None:
    """Write samples into ``request.out``, if given, so that a later stop keeps them.

    Raises ``Stop`` if a signal has ended the sampling.
    """
    if request.out is not None and shard.rank == 0:
        write(request.out)
    end_if_stopping()


def checkpoint_facts(
    request: EvaluateRequest, trained: TrainedModel, data: Dataset
) -> dict[str, Any]:
    """Entries of ``metrics.json`` on the measured model and on its data."""
    return {
        "checkpoint": trained.path,
        "step": trained.step,
        "data_fingerprint": data.fingerprint(),
        "trained_on_fingerprint": trained.data_fingerprint,
        "seed": request.seed,
        "precision": str(request.precision),
        "ema": request.ema,
    }


def sampling_facts(request: Request, trained: TrainedModel) -> dict[str, Any]:
    """Entries of ``metrics.json`` on the sampling."""
    return {
        "sampling": trained.sampling,
        "sampling_steps": request.steps,
        **exactness_facts(trained.approximations()),
    }


S = TypeVar("S")

_ELSEWHERE = {
    "domain": "a model is measured on data of its own kind; leave it out",
    "name": "the checkpoint was trained on another data set; leave it out",
    "batch_size": "that is the batch size of training; set batch_size=N",
    "train_path": "a model is measured on what it was not trained on; give data.path=FILE",
    "val_path": "a model is measured on one set of samples; give data.path=FILE",
}
"""Keys that cannot be changed here, with remedies."""

_PATHS = ("path", "train_path", "val_path", "test_path")


@dataclass(frozen=True)
class MeasuredData:
    """Data set of which one split is measured.

    ``data``: data set; its training split is what the model was trained on, or empty if that cannot
    be read. ``split``: split to measure; ``name``: its name in words. ``changes``: values of keys
    under ``data`` in the request. If there are any, ``found`` has entries of ``metrics.json`` on
    the data, and ``trained_on`` is the data of the checkpoint.
    """

    data: Any
    split: str
    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    trained_on: Any = None

    def facts(self, request: Request) -> dict[str, Any]:
        """Entries of ``metrics.json`` on the data and the number of samples measured."""
        available = len(self.data.splits[self.split])
        facts = {"reference": self.name, "num_reference": available}
        if isinstance(request, EvaluateRequest):  # ``sample`` uses the whole split
            facts["num_held_out"] = num_held_out(request, self.data, self.split)
            facts["num_held_out_available"] = available
        return facts | self.found

    def notes(self) -> list[str]:
        """Notes on reading the numbers if other data was measured."""
        if not self.changes:
            return []
        losses = self.found.get("measured_losses", {})
        parts = [f"{key.replace('_', ' ')} {value}" for key, value in losses.items()]
        # overlap with the training data
        trained_on = "cannot be read, so what is measured against it is left out"
        if (num := self.found.get("num_trained_on")) is not None:
            trained_on = f"holds {num:,} of these {len(self.data.splits[self.split]):,} samples"
        return [
            "This is other data than the checkpoint held out. Novelty, baselines and scales are of "
            f"the data that was trained on, which {trained_on}.",
            *([f"Not as the file has it: {', '.join(parts)}."] if parts else []),
        ]


@dataclass(frozen=True)
class RealData(Generic[S]):
    """Real samples with which samples are compared.

    ``reference``: the samples to compare with, chosen from ``num_available`` and described by
    ``name``. ``training``: training samples of the model, None if unknown; ``known``: all real
    samples at hand, for real-vs-real values. ``on``: data whose split holds ``reference``, or None.
    """

    name: str
    reference: list[S]
    training: list[S] | None
    known: list[S]
    num_available: int
    on: MeasuredData | None = None

    def facts(self) -> dict[str, Any]:
        """Entries of ``metrics.json`` on the reference."""
        return {
            "reference": self.name,
            "num_reference": len(self.reference),
            "num_held_out": len(self.reference),
            "num_held_out_available": self.num_available,
            **({} if self.on is None else self.on.found),
        }

    def notes(self) -> list[str]:
        """Notes on reading the numbers if other data was measured."""
        return [] if self.on is None else self.on.notes()


def measured_data(
    request: Request,
    trained: TrainedModel,
    *,
    remedy: str | None = None,
    needs_training: bool = False,
) -> MeasuredData:
    """Build the data of a checkpoint, or, with keys under ``request.data``, other data.

    ``data.path=FILE`` (``data.test_path=FILE`` means the same): all of the file is measured, unless
    ``data.split`` is given too; other keys replace those of the checkpoint's data, whose test split
    is measured then. ``needs_training``: raise an error if the training data cannot be read.
    ``remedy``: other data that could be measured, for the message.

    Raises ``ValueError`` for a key that the data set lacks or the model has fixed, a wrong value,
    samples that the model does not know, and data that cannot be read.
    """
    # the checkpoint's own data
    changes = dict(request.get("data") or {})
    asked, put_back = request.get("split"), "put it back where the run found it"
    if not changes:
        data = readable_data(trained, remedy or put_back)
        another = "choose another split"
        split = held_out_split(data, asked, another if remedy is None else f"{another} or {remedy}")
        name = f"the {split} split of the checkpoint's data"
        if trained.data_fingerprint not in (None, data.fingerprint()):
            name += ", which has changed since it was trained, so it may have been trained on"
        return MeasuredData(data, split, name)
    # other data, all of a file or a split
    changed, file = changed_config(changes, trained)
    whole = file is not None and "split" not in changes
    if whole and asked is not None:
        raise ValueError(
            f"split={asked} chooses among the data of a checkpoint; all of data.path={file} is "
            "measured; leave it out"
        )
    try:
        if not whole:
            trained.domain.complete(changed.data)
        build = trained.domain.test_data if whole else trained.domain.build
        data = build(changed.data)
    except OmegaConfBaseException as error:
        raise ValueError(str(error).split("\n")[0]) from error
    _check_vocabulary(data, changed.data, trained, file)
    split = held_out_split(data, "test" if whole else asked)
    # compare it with the data that was trained on
    if needs_training:
        trained_on = readable_data(trained, put_back)
    else:
        trained_on = own_data(trained, "what is measured against it, such as novelty,")
    # its name: the source, and given keys but for paths
    source = "the checkpoint's data" if file is None else str(Path(file))
    other = [k for k in changes if file is None or k not in _PATHS]
    given = ", ".join(f"data.{key}={changes[key]}" for key in other)
    name = source if whole else f"the {split} split of {source}"
    name = f"{name} with {given}" if given else name
    logger.info("measured on %s: %s", name, data.summary())
    found = {
        "data_fingerprint": data.fingerprint(),
        "changed_data": changes,
        **_overlap(data, split, trained_on, name),
        **({"measured_losses": losses} if (losses := data.losses(split)) else {}),
    }
    if split != "train":
        data = data.with_training_split(trained_on)
    return MeasuredData(data, split, name, changes, found, trained_on)


def changed_config(changes: dict[str, Any], trained: TrainedModel) -> tuple[DictConfig, str | None]:
    """Change ``data`` of a checkpoint's config; return ``data`` and the file that it names, or
    None.

    The file stands under ``data.path``, the other paths are null. Raises ``ValueError`` for a key
    that cannot be changed.
    """
    domain, was = trained.domain, trained.data_config
    data = was.copy()
    # a data set without files has a counterpart with files, which takes over the common keys
    name = domain.data_sets_of_files.get(str(was.get("name"))) if {*changes} & {*_PATHS} else None
    if name is not None:
        data = DictConfig(OmegaConf.load(shipped_files("data")[name]))
        data.update({key: was[key] for key in data if key in was and key != "name"})
    # keys, and values that the model fixes
    for key, value in changes.items():
        given = f"data.{key}={value}"
        if key in _ELSEWHERE:
            raise ValueError(f"{given}: {_ELSEWHERE[key]}")
        if key not in data:
            raise ValueError(unknown_name(f"key of data={data.name}", key, map(str, data)))
        if key in domain.fixed_keys and value != data[key]:
            raise ValueError(
                f"{given}: the model was trained with data.{key}={data[key]} and takes no other; "
                "leave it out, or train a model with it"
            )
    # kinds of values, as in the shipped config
    default = shipped_files("data").get(str(data.name))
    if default is not None:
        given_data, defaults = ({"data": part} for part in (changes, OmegaConf.load(default)))
        check_kinds(OmegaConf.create(given_data), OmegaConf.create(defaults))
    OmegaConf.set_struct(data, False)
    data.update(changes)
    # the file stands for all splits
    files = [str(changes[k]) for k in ("path", "test_path") if changes.get(k) is not None]
    if len(files) > 1:
        raise ValueError("give data.path=FILE or data.test_path=FILE, not both")
    if files:
        data.update({key: None for key in _PATHS if key in data} | {"path": files[0]})
    config = trained.config.copy()
    OmegaConf.set_struct(config, False)
    config.data = data
    return config, files[0] if files else None


def _check_vocabulary(
    data: Any, changed: DictConfig, trained: TrainedModel, file: str | None
) -> None:
    """Raise ``ValueError`` if ids or numbers of the ``data`` have another meaning for the model."""
    # parts of the vocabulary
    own = trained.domain.vocabulary(trained.data_config)
    ours, now = own.digest(), trained.domain.vocabulary(changed).digest()
    where = "the data" if file is None else file
    for key in ours:
        if now.get(key) != ours[key]:
            raise ValueError(
                f"{where} has other {key} than the model was trained with: {now.get(key)}, there "
                f"{ours[key]}; give data of the same {key}, or train a model on it"
            )
    # legal ids
    if (layout := getattr(data, "layout", None)) is None:
        return
    known = own.layout()
    if layout.digest() != known.digest():
        raise ValueError(
            f"{where} has {layout.length} positions of {layout.vocab_size} ids, the model "
            f"{known.length} of {known.vocab_size}, or other ids are legal there; train a model "
            "on it"
        )


def _overlap(data: Any, split: str, trained_on: Any, name: str) -> dict[str, int]:
    """Count the measured samples that are training samples; warn if there are any."""
    if trained_on is None:
        return {}
    # equal samples, by their identities
    training = set(trained_on.identities("train"))
    known = sum(identity in training for identity in data.identities(split))
    if known and split != "train":
        logger.warning(
            "%s of the %s samples of %s were trained on",
            *(f"{known:,}", f"{len(data.splits[split]):,}", name),
        )
    return {"num_trained_on": known}

"""The two kinds of checkpoint file, read without ever running what they hold.

``.ckpt`` is Lightning's: a zip of a pickle and raw tensors, with all that training needs to go on.
``.safetensors`` holds the averaged weights alone, and no pickle.
"""

from __future__ import annotations

import io
import json
import logging
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from discrete_diffusion.hub.published import WEIGHTS, published
from discrete_diffusion.runtime.atomic_files import atomic_write

logger = logging.getLogger(__name__)

BEST, LAST = "best.ckpt", "last.ckpt"
"""Files of a run, in its folder ``checkpoints``."""

INFO_KEY = "discrete_diffusion"
"""Where Lightning's checkpoint and the metadata of the ``.safetensors`` keep the info."""

_WEIGHTS_PREFIX = "algorithm."
"""The algorithm's parameters inside the Lightning module."""

DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, pickle.UnpicklingError, SafetensorError),
    *(RuntimeError, EOFError, LookupError, TypeError, AttributeError, ValueError),
    *(AssertionError, OverflowError, ImportError, MemoryError, OSError),
)
"""Errors that zipfile, torch's restricted unpickler and safetensors raise for bytes that make no
sense."""

_WANTS_CODE = ("Unsupported global", "Unsupported class", "Unsupported operand", "GLOBAL")


def checkpoint_file(path: str | Path, name: str = BEST) -> Path:
    """The file that ``path`` means: itself; of a run folder or its ``checkpoints`` the one of that
    ``name``, which is logged; of a model in the box, or on the Hub, its weights (``published``).

    Raises ``ValueError`` for a folder without it, naming the checkpoints that it has, and what
    ``published`` does.
    """
    path = published(path)
    if not path.is_dir():
        return path
    if (weights := path / WEIGHTS).is_file():
        return weights
    for folder in (path, path / "checkpoints"):
        if (found := folder / name).is_file():
            logger.info("%s is a folder: taking %s", path, found)
            return found
    there = sorted((*path.glob("*.ckpt"), *path.glob("checkpoints/*.ckpt")))
    others = [str(file) for file in there if not file.name.startswith(".")]
    if others:
        remedy = f"it has {', '.join(others[:3])}"
    elif there:  # files that were being written
        remedy = "its first checkpoint is not whole: wait if its run goes on, else train anew"
    else:
        remedy = "give a run folder or a .ckpt file"
    raise ValueError(f"{path} is a folder without {name} or checkpoints/{name}; {remedy}")


def algorithm_weights(state_dict: Any) -> dict[str, Tensor]:
    """The algorithm's own tensors of a Lightning ``state_dict``, by their name in it; none of
    anything else."""
    return {
        str(name).removeprefix(_WEIGHTS_PREFIX): value
        for name, value in (state_dict.items() if isinstance(state_dict, Mapping) else ())
        if isinstance(value, Tensor) and str(name).startswith(_WEIGHTS_PREFIX)
    }


def is_weights_file(path: Path) -> bool:
    """True if a file starts like safetensors: eight bytes of length, then a JSON object.

    Raises ``FileNotFoundError`` or ``ValueError`` if there is no file, or an empty one.
    """
    _check_is_file(path)
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def read_training_file(path: str | Path) -> dict[str, Any]:
    """A ``.ckpt`` as plain containers and tensors: the zip's checksums are compared, which torch
    does not do, then torch's restricted unpickler reads it (``weights_only=True``).

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence: no file, damaged, not a
    checkpoint, or a pickle that would run code.
    """
    path = Path(path)
    _check_is_file(path)
    try:
        check_zip(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGE as error:
        if isinstance(error, pickle.UnpicklingError) and any(w in str(error) for w in _WANTS_CODE):
            beside = path.with_suffix(".safetensors")
            remedy = f"; its averaged weights alone are {beside}" if beside.exists() else ""
            raise ValueError(
                f"{path} is refused: its pickle would run code, which no checkpoint of "
                f"discrete_diffusion does{remedy}"
            ) from error
        raise ValueError(f"{path} is not a readable checkpoint: damaged, or not one") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} is not a checkpoint: it holds a {type(state).__name__}")
    size = path.stat().st_size
    for part in ("state_dict", "current_model_state"):
        for name, value in algorithm_weights(state.get(part)).items():
            # a sparse, negated or repeated one has no bytes of its own for each of its numbers
            held = value.layout is torch.strided and value.device.type == "cpu"
            if not held or value.is_conj() or value.is_neg() or value.nbytes > size:
                raise ValueError(f"{path}: {part} holds {name} without its numbers, one by one")
    return state


def check_readable(state: Mapping[str, Any]) -> None:
    """``ValueError`` naming the first value of a checkpoint that ``read_training_file`` would
    refuse: it holds tensors, numbers, texts, and lists and dicts of them."""
    allowed = dict.fromkeys((str, bytes, bool, int, float, type(None)), True)
    for place, value in _leaves("", state):
        kind = type(value)
        if kind not in allowed:
            allowed[kind] = issubclass(kind, Tensor) or _is_read_back(value)
        if not allowed[kind]:
            name = f"{kind.__module__}.{kind.__qualname__}"
            raise ValueError(
                f"the checkpoint would hold {place}, a {name}, which cannot be read back without "
                "running code; keep a number, a text, a tensor, or a list or dict of them"
            )


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What lies in dicts, lists and tuples, with its place: ``optimizer_states[0].state``."""
    if type(value) in (dict, OrderedDict):
        for key, each in value.items():
            yield from _leaves(f"{place}.{key}" if place else str(key), each)
    elif type(value) in (list, tuple):
        for k, each in enumerate(value):
            yield from _leaves(f"{place}[{k}]", each)
    else:
        yield place, value


def _is_read_back(value: Any) -> bool:
    file = io.BytesIO()
    try:
        torch.save(value, file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except Exception:  # pickle calls the class, whose code may raise anything
        return False
    return True


def read_weights_file(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """(info, weights by name) of a ``.safetensors``; the info is None if it has none of ours.

    Raises ``ValueError`` for a damaged file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        info = json.loads(metadata[INFO_KEY]) if INFO_KEY in metadata else None
    except DAMAGE as error:
        raise ValueError(f"{path} is not a readable checkpoint: damaged, or not one") from error
    return info, weights


def write_weights_file(path: Path, checkpoint: Mapping[str, Any]) -> None:
    """Write the averaged weights and the info of a Lightning checkpoint as ``.safetensors``."""
    save_weights(path, checkpoint[INFO_KEY], algorithm_weights(checkpoint["state_dict"]))


def save_weights(path: Path, info: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write a ``.safetensors`` that ``read_weights_file`` reads, whole or not at all."""
    # clones, because safetensors refuses tensors that share memory (tied weights)
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in weights.items()}
    content = save(tensors, metadata={INFO_KEY: json.dumps(info, sort_keys=True)})
    with atomic_write(path) as unfinished:
        unfinished.write_bytes(content)


def _check_is_file(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"no checkpoint at {path.absolute()}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the file in it, e.g. {path}/last.ckpt")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is not a readable checkpoint: it is empty")


def check_zip(path: Path) -> None:
    """Raise one of ``DAMAGE`` unless the zip is as torch writes it, without compression, which
    could unpack to any size, and its checksums hold."""
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":  # torch would go on to read a bare pickle
            raise zipfile.BadZipFile("no zip")
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            stored = entry.compress_type == zipfile.ZIP_STORED
            if not stored or entry.file_size != entry.compress_size or entry.file_size > size:
                raise zipfile.BadZipFile(f"{entry.filename} is not stored as it is")
        if (broken := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"{broken} is damaged")

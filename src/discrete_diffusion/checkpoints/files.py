"""The two kinds of checkpoint files, read without running code in them, and their header.

``.ckpt`` is Lightning's: a zip of a pickle and raw tensors, with the state of training.
``.safetensors`` holds the averaged weights alone, and no pickle. Both carry an *info*, the header
that ``contents`` describes. Its schema is checked first, so that a wrong value raises one
``ValueError`` that names file and key.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import pickle
import re
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from discrete_diffusion.config.constructors import check_kinds_of, leaves
from discrete_diffusion.config.files import shipped_config
from discrete_diffusion.config.renamed_keys import with_new_names, with_stand_ins
from discrete_diffusion.config.values import is_a
from discrete_diffusion.hub import WEIGHTS, published
from discrete_diffusion.runtime.atomic_files import atomic_write
from discrete_diffusion.runtime.package import __version__

logger = logging.getLogger(__name__)

BEST, LAST = "best.ckpt", "last.ckpt"
"""Names of the checkpoints in the folder ``checkpoints`` of a run."""

INFO_KEY = "discrete_diffusion"
"""Key of the info in Lightning's checkpoint and in the metadata of the ``.safetensors``."""

_WEIGHTS_PREFIX = "algorithm."
"""Prefix of the algorithm's parameters inside the Lightning module."""

DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, pickle.UnpicklingError, SafetensorError),
    *(RuntimeError, EOFError, LookupError, TypeError, AttributeError, ValueError),
    *(AssertionError, OverflowError, ImportError, MemoryError, OSError),
)
"""Exceptions that zipfile, torch's restricted unpickler and safetensors raise for damaged files."""

_WANTS_CODE = ("Unsupported global", "Unsupported class", "Unsupported operand", "GLOBAL")


def checkpoint_file(path: str | Path, name: str = BEST) -> Path:
    """Find the checkpoint file of a path.

    For a run folder it is the file ``name`` in its ``checkpoints``, which is logged; for a shipped
    model, or a model on the Hub, the weights (``published``); else the path itself. Raises
    ``ValueError`` for a folder without the file, naming the checkpoints that it has, and the errors
    of ``published``.
    """
    # a file, a model's folder, or a run
    path = published(path)
    if not path.is_dir():
        return path
    if (weights := path / WEIGHTS).is_file():
        return weights
    for folder in (path, path / "checkpoints"):
        if (file := folder / name).is_file():
            logger.info("%s is a folder: taking %s", path, file)
            return file

    # hidden files are unfinished: the run is still writing, or was killed
    others = sorted((*path.glob("*.ckpt"), *path.glob("checkpoints/*.ckpt")))
    whole = [str(file) for file in others if not file.name.startswith(".")]
    if whole:
        remedy = f"it has {', '.join(whole[:3])}"
    elif others:
        remedy = "its first checkpoint is not whole: wait if its run goes on, else train anew"
    else:
        remedy = "give a run folder or a .ckpt file"
    raise ValueError(f"{path} is a folder without {name} or checkpoints/{name}; {remedy}")


def algorithm_weights(state_dict: Any) -> dict[str, Tensor]:
    """Tensors of the algorithm in a Lightning ``state_dict``, by name in the algorithm."""
    return {
        str(name).removeprefix(_WEIGHTS_PREFIX): value
        for name, value in (state_dict.items() if isinstance(state_dict, Mapping) else ())
        if isinstance(value, Tensor) and str(name).startswith(_WEIGHTS_PREFIX)
    }


def is_weights_file(path: Path) -> bool:
    """Return True if a file starts like safetensors: eight bytes of length, then a JSON object.

    Raises ``FileNotFoundError`` or ``ValueError`` if the file is missing or empty.
    """
    _check_is_file(path)
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def read_training_file(path: str | Path) -> dict[str, Any]:
    """Read a ``.ckpt`` as plain containers and tensors.

    The checksums of the zip are checked, as torch does not do so; then torch's restricted
    unpickler reads it (``weights_only=True``). Raises ``FileNotFoundError`` or ``ValueError`` with
    one sentence for a file that is missing, damaged, not a checkpoint, or would run code.
    """
    path = Path(path)
    _check_is_file(path)
    # a pickle that would run code is refused, not read
    try:
        check_zip(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGE as error:
        if isinstance(error, pickle.UnpicklingError) and any(w in str(error) for w in _WANTS_CODE):
            weights = path.with_suffix(".safetensors")
            remedy = f"; its averaged weights alone are {weights}" if weights.exists() else ""
            raise ValueError(
                f"{path} is refused: its pickle would run code, which no checkpoint of "
                f"discrete_diffusion does{remedy}"
            ) from error
        raise ValueError(f"{path} is not a readable checkpoint: damaged, or not one") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} is not a checkpoint: it holds a {type(state).__name__}")

    # a sparse, negated or expanded tensor does not store each of its numbers
    size = path.stat().st_size
    for part in ("state_dict", "current_model_state"):
        for name, value in algorithm_weights(state.get(part)).items():
            held = value.layout is torch.strided and value.device.type == "cpu"
            if not held or value.is_conj() or value.is_neg() or value.nbytes > size:
                raise ValueError(f"{path}: {part} holds {name} without its numbers, one by one")
    return state


def check_readable(state: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` naming the first value that ``read_training_file`` would refuse.

    A checkpoint holds tensors, numbers, texts, and lists and dicts of them.
    """
    allowed = dict.fromkeys((str, bytes, bool, int, float, type(None)), True)
    # classes are tried by writing and reading one value
    for place, value in _leaves_with_places("", state):
        kind = type(value)
        if kind not in allowed and not issubclass(kind, Tensor):
            file = io.BytesIO()
            try:
                torch.save(value, file)
                file.seek(0)
                torch.load(file, weights_only=True)
                allowed[kind] = True
            except Exception:  # pickle calls the class, whose code may raise anything
                allowed[kind] = False
        if not allowed.get(kind, True):
            name = f"{kind.__module__}.{kind.__qualname__}"
            raise ValueError(
                f"the checkpoint would hold {place}, a {name}, which cannot be read back without "
                "running code; keep a number, a text, a tensor, or a list or dict of them"
            )


def _leaves_with_places(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values in nested containers, with paths such as ``optimizer_states[0].state``."""
    if type(value) in (dict, OrderedDict):
        for key, each in value.items():
            yield from _leaves_with_places(f"{place}.{key}" if place else str(key), each)
    elif type(value) in (list, tuple):
        for k, each in enumerate(value):
            yield from _leaves_with_places(f"{place}[{k}]", each)
    else:
        yield place, value


def read_weights_file(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """Read info and weights by name from a ``.safetensors``; info is None if the file has none.

    Raises ``ValueError`` for a damaged file.
    """
    # a safetensors file holds no code
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
    """Write a ``.safetensors`` for ``read_weights_file``; leave no partial file."""
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
    """Raise one of ``DAMAGE`` unless the zip is as torch writes it, with correct checksums.

    It must not be compressed, as it could then unpack to any size.
    """
    # torch would go on to read a bare pickle
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise zipfile.BadZipFile("not a zip")
    # entries are stored and no longer than the file
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            stored = entry.compress_type == zipfile.ZIP_STORED
            if not stored or entry.file_size != entry.compress_size or entry.file_size > size:
                raise zipfile.BadZipFile(f"{entry.filename} is compressed")
        if (broken := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"{broken} is damaged")


FORMAT = 2
"""2: keys of configs have their present names, see ``config/renamed_keys.py``."""

_PARTS = ("data", "algo", "model", "schedule", "forward_process")
"""Groups of a config that a model is built from."""

_NAMES = {"algo": ("name", "backbone"), "sampling": ("name",), "data": ("domain",)}
"""Keys that a group must have, with texts as values."""

_LARGEST = 2**53
"""Upper bound of the whole numbers in an info."""

_LARGEST_SIZE = 2**16
"""Upper bound of sizes, such as widths, lengths and numbers of ids, unless a network has more
weights."""

_MOST_VALUES, _LONGEST = 2**18, 2**28
"""Largest number of keys and values in a config (8 times as many in other parts of an info), and
of characters in a part."""

_WITHOUT_TENSOR = {
    *("seed", "parameters", "counted", "plans", "samples", "windows", "words", "span", "split"),
    *("batch", "theta", "period", "reward"),
}
"""Words in config keys whose whole numbers are not sizes of tensors."""


def _is_count(value: Any) -> bool:
    return is_a(int, value) and 0 <= value <= _LARGEST


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list | tuple) and all(is_a(kind, each) for each in value)


def _is_info_section(value: Any) -> bool:
    return isinstance(value, Mapping)


_SCHEMA: dict[str, tuple[Callable[[Any], bool], str]] = {
    "version": (lambda value: isinstance(value, str), "a text"),
    "config": (_is_info_section, "keys, such as data and model"),
    "plugins": (
        lambda value: (
            _is_list_of(Mapping, value)
            and all(part.keys() >= {"noun", "name", "module"} for part in value)
            and all(isinstance(each, str) for part in value for each in part.values())
        ),
        "a list of parts, each with the texts noun, name and module",
    ),
    "vocabulary": (_is_info_section, "keys, such as n_max"),
    "size_counts": (
        lambda value: _is_list_of(int, value) and all(map(_is_count, value)) and any(value),
        "a list of whole numbers, at least 0, not all of them 0",
    ),
    "data_fingerprint": (lambda value: value is None or isinstance(value, str), "a text or null"),
    "step": (_is_count, "a whole number, at least 0"),
    "scheduled_steps": (
        lambda value: value is None or _is_count(value),
        "a whole number, at least 0, or null",
    ),
    "machine": (_is_info_section, "keys, such as threads"),
}
"""Check of each key of an info except ``format`` and ``digest``, and its value in words."""

_OPTIONAL = ("version", "plugins", "scheduled_steps")


def with_new_digest(info: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the info of a checkpoint with the digest for other ``weights``.

    The digest is the SHA-256 of the info as JSON, then of every tensor's name, type, shape and
    bytes, ordered by name.
    """
    content = {key: value for key, value in info.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
    # tensors in the order of their names
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return {**content, "digest": digest.hexdigest()}


def check_header(info: Any, weights: Mapping[str, Tensor], path: Path) -> None:
    """Check an info: its schema (``check_schema``), its digest, and sizes against the weights.

    Raises ``ValueError`` naming file and key.
    """
    _check_plain(info, path)
    # a digest of the info and the weights
    if not is_a(str, info.get("digest")):
        raise ValueError(
            f"{path} is refused: it has no digest, which every checkpoint of discrete_diffusion has"
        )
    if info["digest"] != with_new_digest(info, weights)["digest"]:
        raise ValueError(f"{path} is a damaged checkpoint: its contents do not match its digest")
    check_schema(info, path)

    # building a network of larger sizes would take all memory
    most = max(_LARGEST_SIZE, sum(value.numel() for value in weights.values()))
    parts = {group: info["config"][group] for group in _PARTS}
    for key, value in leaves({**parts, "vocabulary": info["vocabulary"]}):
        numbers = value if isinstance(value, list | tuple) else [value]
        large = any(is_a(int, number) and abs(number) > most for number in numbers)
        if large and _WITHOUT_TENSOR.isdisjoint(re.split(r"[._]", key)):
            raise ValueError(
                f"{path}: {key} is {_quoted(value)}; expected at most {most}, as the file has no "
                "weights for more"
            )


def check_schema(info: Any, path: Path) -> None:
    """Raise ``ValueError`` naming file and key for an info that this version cannot read.

    Values must have the types of ``_SCHEMA`` and, in the config, those of the shipped defaults.
    """
    _check_plain(info, path)
    # earlier names of keys, and samplers that were removed
    if isinstance(info.get("config"), Mapping):
        renamed = with_new_names(info["config"]) if info["format"] == 1 else info["config"]
        info["config"] = with_stand_ins(renamed)
    # keys of the info and their values
    if missing := [key for key in _SCHEMA if key not in info and key not in _OPTIONAL]:
        raise ValueError(
            f"{path} is not a checkpoint of discrete_diffusion: it has no {', '.join(missing)}"
        )
    for key, (fits, expected) in _SCHEMA.items():
        if key in info and not fits(info[key]):
            raise ValueError(f"{path}: {key} is {_quoted(info[key])}; expected {expected}")

    # the parts that a model is built from, its sampler, and the modules that it names
    config = info["config"]
    if missing := [key for key in _PARTS if not isinstance(config.get(key), Mapping)]:
        raise ValueError(
            f"{path} is not a checkpoint of discrete_diffusion: its config has no "
            f"{', '.join(missing)} with keys below"
        )
    plugins = config.get("plugins")
    if not (plugins is None or is_a(str, plugins) or _is_list_of(str, plugins)):
        raise ValueError(
            f"{path}: config.plugins is {_quoted(plugins)}; expected a list of names of modules"
        )
    for group in (*_PARTS, *(["sampling"] if "sampling" in config else [])):
        keys = config[group]
        if not isinstance(keys, Mapping):
            raise ValueError(
                f"{path}: config.{group} is {_quoted(keys)}; expected keys, such as name"
            )
        # names, then bounds of numbers, then types as in the shipped config of this name
        for key in _NAMES.get(group, ("name",)):
            if not is_a(str, keys.get(key)) and (key in keys or group in _NAMES):
                found = _quoted(keys.get(key))
                raise ValueError(f"{path}: {group}.{key} is {found}; expected a text")
        for key, value in leaves(keys, f"{group}."):
            if is_a(int, value) and abs(value) > _LARGEST:
                raise ValueError(f"{path}: {key} is {_quoted(value)}; expected at most {_LARGEST}")
        try:
            check_kinds_of({group: keys}, {group: shipped_config(group, keys.get("name", ""))})
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _check_plain(info: Any, path: Path) -> None:
    """Raise ``ValueError`` for another format, or values without a JSON type, such as a tensor.

    Interpolations are refused too, as the config library would resolve them.
    """
    written: Any = info.get("format") if isinstance(info, dict) else None
    if not is_a(int, written) or written < 1:
        raise ValueError(f"{path} is not a checkpoint of discrete_diffusion: it names no format")
    if written > FORMAT:
        raise ValueError(
            f"{path} is a checkpoint of format {written}, written by version "
            f"{info.get('version', '?')}; this version ({__version__}) reads up to {FORMAT}: "
            "upgrade discrete-diffusion"
        )
    for key, value in info.items():
        text = _as_json(key, value, path)
        _, live, rest = text.partition("${")
        if key == "config" and (live or '"???"' in text):
            raise ValueError(
                f"{path} is refused: its config holds {live + rest[:40] or '???'!r}, which would "
                "read values of this machine; a checkpoint of discrete_diffusion holds plain "
                "values alone"
            )


def _as_json(key: str, value: Any, path: Path) -> str:
    """Write a value of the info as JSON, up to a bound.

    A small pickle can expand to very many values, if its lists contain each other repeatedly.
    """
    most = _MOST_VALUES if key == "config" else 8 * _MOST_VALUES
    pieces, length = [], 0
    try:
        # count while writing, as the whole may be too long for memory
        for piece in json.JSONEncoder(sort_keys=True).iterencode(value):
            pieces.append(piece)
            length += len(piece)
            if len(pieces) > most or length > _LONGEST:
                break
        else:
            return "".join(pieces)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: {key} holds more than keys, lists, numbers and texts: {error}"
        ) from error
    raise ValueError(f"{path}: {key} holds more values, or longer ones, than any checkpoint does")


def unusual_settings(config: Mapping[str, Any]) -> str:
    """Settings of model, data and algorithm that differ from the shipped configs.

    If a model cannot be built, the error message lists them, ``model.d_model=16, ...``.
    """
    unusual = []
    for group in ("model", "algo", "data"):
        usual = dict(leaves(shipped_config(group, config[group].get("name", ""))))
        unusual += [
            f"{group}.{key}={_quoted(value)}"
            for key, value in leaves(config[group])
            if key in usual and usual[key] != value
        ]
    return ", ".join(unusual[:8]) + (", ..." if len(unusual) > 8 else "")


def _quoted(value: Any) -> str:
    """Quote a value of a file for a message: shortened, without control characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."

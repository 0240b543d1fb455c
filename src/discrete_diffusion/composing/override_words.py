"""Words ``key=value`` in Hydra's grammar, and paths and texts, which are taken as they are typed.

Of a key that names a file or folder all that stands after the first ``=`` is its name:
``checkpoint=epoch=3-step=6.ckpt``, ``samples=plans (1).jsonl``, ``given=007``. What a person
quotes, ``null``, ``[A,B]`` for a key that takes several and ``${...}`` mean what they mean to
Hydra.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.domains.request_checks import WITH_CHECKPOINT, options_by_title

_PATHS = (
    *("checkpoint", "samples", "out", "picture", "resume", "init.checkpoint", "reward"),
    *("algo.reward", "data.tokenizer", "hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir"),
)
"""Keys of commands that name a file or folder. Those of kinds of data say so themselves, see
``path_keys``, and a key whose last part is ``path`` or ends in ``_path`` does, too."""

SEVERAL = ("samples",)
"""Those that take a list of files."""

_TEXTS = ("prompt",)
"""Keys whose value is a text, which is taken as it is typed, whatever it holds."""

_PLAIN = re.compile(r"(?:\.{0,2}/|[a-z_])[\w./-]*", re.ASCII | re.IGNORECASE)
_CONSTANTS = ("null", "true", "false", "inf", "nan")
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_PART = re.compile(rf"\s*({_QUOTED.pattern}|[^,]*)(?:,|$)", re.DOTALL)
_CALL = re.compile(r"(choice|glob|range|interval|shuffle|sort|tag|extend_list)\(.*\)", re.DOTALL)


def path_keys() -> set[str]:
    """Keys that name files and folders: of the commands, of ``data`` and of the options of every
    kind of data."""
    domains = [get_domain(name) for name in available_domains()]
    options = [each for command in WITH_CHECKPOINT for each in options_by_title(command).items()]
    files = {name for name, kinds in options if any(each.is_file for each in kinds.values())}
    return {*_PATHS, *files, *(f"data.{key}" for each in domains for key in each.data_files)}


def paths_as_typed(overrides: Sequence[str], *, sweeps: bool = False) -> list[str]:
    """The overrides such that Hydra reads the value of a path as it is typed. ``sweeps``: commas
    part the values of a sweep, unless there is a file of that name. Words that it has returned stay
    as they are."""
    keys = cache(path_keys)  # asks kinds of data, where a value needs it
    return [_as_typed(word, keys, sweeps=sweeps) for word in overrides]


def _as_typed(word: str, keys: Callable[[], set[str]], *, sweeps: bool) -> str:
    key, equals, value = word.partition("=")
    if key.lstrip("+") in _TEXTS and value and value != "null":
        return f"{key}={_one(value)}"
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _CONSTANTS
    if not equals or is_plain or not _names_path(key.lstrip("+"), keys):
        return word
    if value in ("", "''", '""'):
        raise ValueError(f"{word} is empty: give a path, or leave the key out")
    if value.lower() == "null" or _QUOTED.fullmatch(value):
        return word
    there = _exists(value)
    if sweeps and not there and (_CALL.fullmatch(value) or "," in value):
        parts = [value] if _CALL.fullmatch(value) else [_one(part) for part in _split(value)]
        return f"{key}={','.join(parts)}"
    if not there and value.startswith("[") and value.endswith("]"):
        return f"{key}=[{','.join(_one(part) for part in _split(value[1:-1]))}]"
    if not there and "," in value and key.lstrip("+") in SEVERAL:
        return word  # refused, with how a list is written
    return f"{key}={_one(value)}"


def _names_path(key: str, keys: Callable[[], set[str]]) -> bool:
    """True if a key is one of a path. Kinds of data, which have to be imported for it, are
    consulted for keys that may be theirs alone."""
    if key in _PATHS or re.search(r"(^|[._])path$", key):
        return True
    return ("." not in key or key.startswith("data.")) and key in keys()


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):
        return False


def _split(text: str) -> list[str]:
    """Split at the commas outside of quotes."""
    return [part.strip() for part in _PART.findall(text + ",")[:-1]] if text.strip() else []


def _one(value: str) -> str:
    """A path as a value of Hydra's; an interpolation stays one inside the quotes."""
    return value if _QUOTED.fullmatch(value) else quoted(value)


def text_of(value: str) -> str:
    """Text of the value of an override, without the quotes around it."""
    if not _QUOTED.fullmatch(value):
        return value
    mark = value[0]
    return re.sub(rf"(\\+)({mark}|\Z)", lambda m: m[1][: len(m[1]) // 2] + m[2], value[1:-1])


def quoted(text: str) -> str:
    """``text`` quoted as a value of an override of Hydra."""
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: 2 * m[1] + ("\\'" if m[2] else ""), text) + "'"


def written(value: Any) -> str:
    """A value as Hydra reads it back from an override."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    return "null" if value is None else str(value)

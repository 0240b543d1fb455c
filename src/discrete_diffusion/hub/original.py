"""Checkpoints of the code of MDLM, SEDD and Duo, by name: ``mdlm:PATH``.

mdlm:mdlm-owt                       a folder with model.safetensors and config.json
sedd:run/checkpoint.pth?length=128  a file, and what it does not say
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from discrete_diffusion.config.naming import check_name

KINDS = ("mdlm", "sedd", "duo", "ar")
_NUMBERS = ("length", "n_heads", "mask_id", "begin_id")
SETTINGS = (*_NUMBERS, "time_conditioning")
"""What a name may say of a checkpoint, behind a ``?``."""
_OF_KINDS = {
    "mask_id": ("mdlm", "sedd", "ar"),
    "begin_id": ("ar",),
    "time_conditioning": ("mdlm",),
}
"""Kinds for which a setting means something, where that is not all."""


@dataclass(frozen=True)
class OriginalCheckpoint:
    """A checkpoint of original code. ``name``: as it was given. ``kind``: one of ``KINDS``;
    ``path``: of its file or folder; ``settings``: some of ``SETTINGS``, which come before what the
    file says."""

    name: str
    kind: str
    path: Path
    settings: Mapping[str, int | bool]

    def check_exists(self, key: str) -> None:
        """``FileNotFoundError`` naming the ``key`` of a config if nothing is at its path."""
        if not self.path.exists():
            raise FileNotFoundError(
                f"{key}={self.name}: no file or folder at {self.path.absolute()}; {self.kind}: "
                "reads local files"
            )


def original_checkpoint(name: str | Path) -> OriginalCheckpoint | None:
    """The checkpoint that ``KIND:PATH`` or ``KIND:PATH?KEY=VALUE&...`` names; None for another
    name, and where a file or folder is called so.

    Raises ``ValueError`` for an unknown setting, and a value of another kind.
    """
    text = str(name)
    kind, colon, rest = text.partition(":")
    if kind not in KINDS or not colon or Path(name).exists():
        return None
    if rest and Path(rest).exists():
        return OriginalCheckpoint(text, kind, Path(rest), {})
    path, _, query = rest.partition("?")
    if not path:
        raise ValueError(f"{text} names no file; give {kind}:PATH")
    pairs = parse_qsl(query, keep_blank_values=True)
    return OriginalCheckpoint(text, kind, Path(path), {k: _value(text, k, v) for k, v in pairs})


def _value(name: str, key: str, value: str) -> int | bool:
    kind = name.partition(":")[0]
    known = [each for each in SETTINGS if kind in _OF_KINDS.get(each, KINDS)]
    check_name(f"setting of {name.partition('?')[0]}", key, known)
    if key in _NUMBERS and value.isdecimal() and value.isascii():
        return int(value)
    if key not in _NUMBERS and value in ("true", "false"):
        return value == "true"
    expected = "a whole number" if key in _NUMBERS else "true or false"
    raise ValueError(f"{name}: {key}={value}; expected {expected}")

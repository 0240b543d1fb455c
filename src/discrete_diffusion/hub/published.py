"""Models by name: those in the box, which come with installed packages, those of the Hub, and
those of the code of MDLM, SEDD and Duo.

The Hub is Hugging Face's. Models of it and in the box are folders of ``config.json``,
``model.safetensors`` and a model card, ``README.md``, as ``save_pretrained`` writes them. The
weights file holds all that is read; the others are for people and for the Hub. Checkpoints of other
code are named ``mdlm:PATH`` and such:

mdlm:mdlm-owt                       a folder with model.safetensors and config.json
sedd:run/checkpoint.pth?length=128  a file, and what it does not say
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from discrete_diffusion.config.plugins import folders_of
from discrete_diffusion.config.values import check_name, unknown_name
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.package import install_command

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


WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"

MODEL_GROUP = "discrete_diffusion.published"
"""Entry points of packages that bring models; each names the folder of them, as a package."""

_ON_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_ENDINGS = (".ckpt", ".safetensors")


def in_the_box() -> dict[str, Path]:
    """Folders of the models that come with installed packages, by name."""
    files = (path for each in folders_of(MODEL_GROUP) for path in each.glob(f"*/{WEIGHTS}"))
    return {path.parent.name: path.parent for path in sorted(files)}


def boxed_model() -> str:
    """Name of the model that is taken where no checkpoint is given; ``ValueError`` if there is
    none."""
    if not (names := in_the_box()):
        raise ValueError("no installed package brings a model; give checkpoint=RUN")
    return min(names)


def boxed_domain() -> str:
    """Kind of data of ``boxed_model``, which is taken where none is given."""
    contents = json.loads((in_the_box()[boxed_model()] / CONFIG).read_text(encoding="utf-8"))
    return str(contents["config"]["data"]["domain"])


def could_be_on_hub(name: str) -> bool:
    """True for ``owner/name``, but for what ends as a checkpoint does."""
    return _ON_HUB.fullmatch(name) is not None and not name.endswith(_ENDINGS)


def is_published(name: str | Path) -> bool:
    """True if it names a model in the box, or could name one of the Hub: ``owner/name``, where no
    folder ``owner`` is at hand. A file or folder of that name comes first."""
    path, name = Path(name), str(name)
    if path.exists():
        return False
    return name in in_the_box() or (could_be_on_hub(name) and not path.parent.exists())


def check_model(key: str, name: str | Path | None) -> None:
    """``FileNotFoundError`` naming the ``key`` of a config unless there is a file or folder of that
    name or it may be a published model; null passes."""
    if name is not None and (original := original_checkpoint(name)) is not None:
        original.check_exists(key)
    elif name is not None and not Path(name).exists() and not is_published(name):
        raise FileNotFoundError(f"{key}={name}: {_missing(Path(name))}")


def published(name: str | Path) -> Path:
    """The folder of a published model, downloaded if it is of the Hub, once; a path as it is.

    Raises ``FileNotFoundError`` for a word that is none of these, and ``ValueError`` where the Hub
    has no such model or cannot be reached.
    """
    path, name = Path(name), str(name)
    if is_published(path):
        return in_the_box().get(name) or _downloaded(name)
    if _is_word(path) and not path.exists():
        raise FileNotFoundError(_missing(path))
    return path


def _is_word(path: Path) -> bool:
    return path.name == str(path) and path.suffix not in _ENDINGS


def _missing(path: Path) -> str:
    known = unknown_name("model in the box", path.name, in_the_box())
    return f"no checkpoint at {path.absolute()}" + (f", and {known}" if _is_word(path) else "")


def hub_library(what: str) -> Any:
    """``huggingface_hub``, which does ``what``; ``ValueError`` if it is not installed."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise ValueError(f"{what} takes huggingface_hub: {install_command('hub')}") from error
    return huggingface_hub


def endpoint() -> str | None:
    """Address of another Hub than Hugging Face's: ``$HF_ENDPOINT``."""
    return os.environ.get("HF_ENDPOINT") or None


def _downloaded(name: str) -> Path:
    nothing = f"there is no file or folder {name}"
    hub = hub_library(f"{nothing}; looking for it on the Hugging Face Hub")
    from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

    files = [WEIGHTS, CONFIG, CARD]
    try:
        with progress.task(f"fetching {name} from the Hugging Face Hub"):
            folder = hub.snapshot_download(name, allow_patterns=files, endpoint=endpoint())
    except RepositoryNotFoundError as error:
        raise ValueError(
            f"{nothing}, and the Hugging Face Hub has no public model of that name; of a private "
            "one, log in with `hf auth login` first"
        ) from error
    except (LocalEntryNotFoundError, OSError) as error:
        raise ValueError(
            f"{nothing}, and the Hugging Face Hub cannot be reached to look for it; give a "
            f"checkpoint at hand, or one in the box: {', '.join(in_the_box())}"
        ) from error
    if not (Path(folder) / WEIGHTS).is_file():
        raise ValueError(
            f"{name} of the Hugging Face Hub has no {WEIGHTS}; expected a model of this package"
        )
    return Path(folder)

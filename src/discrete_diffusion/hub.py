"""Models by name: in installed packages, on the Hugging Face Hub, of other code and libraries.

Models in the box come with installed packages. These and the models of the Hub are folders of
``config.json``, ``model.safetensors`` and a model card, ``README.md``, as ``save_pretrained``
writes them. Only the weights file is read; the other files are for people and for the Hub.
Checkpoints of the code of MDLM, SEDD and Duo are named ``mdlm:PATH`` and such:

mdlm:mdlm-owt                       a folder with model.safetensors and config.json
sedd:run/checkpoint.pth?length=128  a file, and settings that it lacks
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from safetensors import SafetensorError

from discrete_diffusion.config.plugins import folders_of
from discrete_diffusion.config.values import check_name, unknown_name
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.package import install_command

KINDS = ("mdlm", "sedd", "duo", "ar")
_NUMBERS = ("length", "n_heads", "mask_id", "begin_id")
SETTINGS = (*_NUMBERS, "time_conditioning")
"""Settings of a checkpoint that its name may give, behind a ``?``."""
_OF_KINDS = {"mask_id": ("mdlm", "sedd", "ar"), "begin_id": ("ar",), "time_conditioning": ("mdlm",)}
"""Kinds of checkpoint that take a setting; a setting that is not listed is for all kinds."""

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"

MODEL_GROUP = "discrete_diffusion.published"
"""Entry points of packages that bring models; each names a folder of models, as a package."""

_ON_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_ENDINGS = (".ckpt", ".safetensors")


@dataclass(frozen=True)
class OriginalCheckpoint:
    """Name of a checkpoint of original code, in parts.

    ``kind``: one of ``KINDS``; ``settings``: some of ``SETTINGS``, which replace the file's."""

    name: str
    kind: str
    path: Path
    settings: Mapping[str, int | bool]

    def check_exists(self, key: str) -> None:
        """Raise ``FileNotFoundError`` naming the ``key`` of a config if its path does not exist."""
        if not self.path.exists():
            raise FileNotFoundError(
                f"{key}={self.name}: no file or folder at {self.path.absolute()}; {self.kind}: "
                "reads local files"
            )


def original_checkpoint(name: str | Path) -> OriginalCheckpoint | None:
    """Parse ``KIND:PATH?KEY=VALUE&...``; None if a file has that name or it has another form.

    Raises ``ValueError`` for an unknown setting, and for a value of another type."""
    text = str(name)
    # a file of that name comes first
    kind, colon, rest = text.partition(":")
    if kind not in KINDS or not colon or Path(name).exists():
        return None
    if rest and Path(rest).exists():
        return OriginalCheckpoint(text, kind, Path(rest), {})
    # settings behind the path
    path, _, query = rest.partition("?")
    if not path:
        raise ValueError(f"{text} names no file; give {kind}:PATH")
    pairs = parse_qsl(query, keep_blank_values=True)
    settings = {key: _parse_setting(text, kind, key, value) for key, value in pairs}
    return OriginalCheckpoint(text, kind, Path(path), settings)


def _parse_setting(name: str, kind: str, key: str, value: str) -> int | bool:
    # settings that mean something for this kind
    known = [each for each in SETTINGS if kind in _OF_KINDS.get(each, KINDS)]
    check_name(f"setting of {name.partition('?')[0]}", key, known)
    if key in _NUMBERS and value.isdecimal() and value.isascii():
        return int(value)
    if key not in _NUMBERS and value in ("true", "false"):
        return value == "true"
    expected = "a whole number" if key in _NUMBERS else "true or false"
    raise ValueError(f"{name}: {key}={value}; expected {expected}")


def boxed_models() -> dict[str, Path]:
    """Folders of the models that come with installed packages, by name."""
    # each package names a folder of models
    files = (path for each in folders_of(MODEL_GROUP) for path in each.glob(f"*/{WEIGHTS}"))
    return {path.parent.name: path.parent for path in sorted(files)}


def boxed_model() -> str:
    """Name of the default model, used without a checkpoint; ``ValueError`` if there is none."""
    if not (names := boxed_models()):
        raise ValueError("no installed package brings a model; give checkpoint=RUN")
    return min(names)


def boxed_domain() -> str:
    """Kind of data of ``boxed_model``, the default kind."""
    contents = json.loads((boxed_models()[boxed_model()] / CONFIG).read_text(encoding="utf-8"))
    return str(contents["config"]["data"]["domain"])


def could_be_on_hub(name: str) -> bool:
    """Return True for ``owner/name``, unless it has the ending of a checkpoint."""
    return _ON_HUB.fullmatch(name) is not None and not name.endswith(_ENDINGS)


def is_published(name: str | Path) -> bool:
    """Return True for a model in the box, and for a name that a model of the Hub could have.

    False if there is a file or folder of that name, or a folder ``owner`` of ``owner/name``.
    """
    path, name = Path(name), str(name)
    if path.exists():
        return False
    return name in boxed_models() or (could_be_on_hub(name) and not path.parent.exists())


def check_model(key: str, name: str | Path | None) -> None:
    """Check a name: a file, folder or published model must exist for it; None passes.

    Raises ``FileNotFoundError`` naming the ``key`` of a config otherwise.
    """
    if name is not None and (original := original_checkpoint(name)) is not None:
        original.check_exists(key)
    elif name is not None and not Path(name).exists() and not is_published(name):
        raise FileNotFoundError(f"{key}={name}: {_missing(Path(name))}")


def published(name: str | Path) -> Path:
    """Folder of a published model, downloaded once from the Hub; a path is returned unchanged.

    Raises ``FileNotFoundError`` if a single word names no model or file, and ``ValueError`` if the
    Hub does not have the model or cannot be reached.
    """
    path, name = Path(name), str(name)
    # a model in the box or on the Hub
    if is_published(path):
        return boxed_models().get(name) or _download(name)
    if _is_word(path) and not path.exists():
        raise FileNotFoundError(_missing(path))
    return path


def _is_word(path: Path) -> bool:
    return path.name == str(path) and path.suffix not in _ENDINGS


def _missing(path: Path) -> str:
    known = unknown_name("model in the box", path.name, boxed_models())
    return f"no checkpoint at {path.absolute()}" + (f", and {known}" if _is_word(path) else "")


def hub_library(purpose: str) -> Any:
    """Import ``huggingface_hub``; ``ValueError`` naming the ``purpose`` if it is not installed."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise ValueError(f"{purpose} takes huggingface_hub: {install_command('hub')}") from error
    return huggingface_hub


def endpoint() -> str | None:
    """Address of a Hub other than Hugging Face's, ``$HF_ENDPOINT``; None if it is not set."""
    return os.environ.get("HF_ENDPOINT") or None


def _download(name: str) -> Path:
    nothing = f"no file or folder {name}"
    hub = hub_library(f"{nothing}; looking for it on the Hugging Face Hub")
    from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

    # the three files of a model, from a cache if they are there
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
            f"checkpoint at hand, or one in the box: {', '.join(boxed_models())}"
        ) from error
    if not (Path(folder) / WEIGHTS).is_file():
        raise ValueError(
            f"{name} of the Hugging Face Hub has no {WEIGHTS}; expected a model of this package"
        )
    return Path(folder)


_Read = TypeVar("_Read")

_UNREADABLE = (
    *(OSError, ValueError, SafetensorError, RuntimeError, LookupError),
    *(TypeError, AttributeError),
)
"""Errors, with ``Exception`` itself, that the libraries raise for invalid files."""


def transformers_library(purpose: str, remedy: str = "") -> ModuleType:
    """Import ``transformers``; ``ValueError`` naming the ``purpose`` if it is not installed.

    ``remedy``: an alternative to installing it.

    The meta device is used first: PyTorch lists its tensor constructors at the first use, and a
    list made while transformers reads a model lacks ``torch.linspace`` ever after.
    """
    import torch

    with torch.device("meta"):
        torch.empty(0)
    try:
        import transformers
    except ImportError as error:
        raise ValueError(
            f"{purpose} by transformers, which is not installed; {install_command('text')}{remedy}"
        ) from error
    return transformers


def read_pretrained(
    key: str,
    path: str,
    read: Callable[..., _Read],
    *,
    expected: str,
    remedy: str = "a checkpoint that was trained with it needs it again, so put it back",
    download: bool = False,
) -> _Read:
    """Call ``read``, which loads the folder ``path`` with transformers, and return its result.

    ``read`` gets keyword options of ``from_pretrained``: nothing is fetched without ``download``,
    and code that comes with a model is never run. Without ``download`` the path must be a folder,
    because the libraries may open a connection for any other path. Errors name the config ``key``
    of the path. ``expected``: description of the right folder; ``remedy``: advice if it is missing.

    Raises ``ValueError`` if the folder is missing, or ``read`` fails.
    """
    # only a folder can be read without a connection
    if not download and not Path(path).is_dir():
        if could_be_on_hub(path):
            remedy += f"; one of the Hub: hf download {path} --local-dir {path}"
        raise ValueError(
            f"{key}={path}: no folder {Path(path).absolute()}; expected {expected}; {remedy}"
        )
    # errors of the library name the key
    try:
        return read(local_files_only=not download, trust_remote_code=False)
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, _UNREADABLE):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"{key}={path} cannot be read; expected {expected}: {reason}") from error

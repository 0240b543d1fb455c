"""Networks and tokenizers of ``transformers``, read from local folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import torch
from safetensors import SafetensorError

from discrete_diffusion.hub.published import could_be_on_hub
from discrete_diffusion.runtime.package import install_command

_Read = TypeVar("_Read")

_UNREADABLE = (
    *(OSError, ValueError, SafetensorError, RuntimeError, LookupError),
    *(TypeError, AttributeError),
)
"""Errors that the libraries raise for files that make no sense, and ``Exception`` itself."""


def transformers_library(what: str, remedy: str = "") -> ModuleType:
    """``transformers``, which does ``what``; ``ValueError`` if it is not installed. ``remedy``:
    another than to install it.

    The meta device is used first: PyTorch lists what it makes tensors with at its first use, and
    of lists made while transformers reads a model ``torch.linspace`` is missing ever after."""
    with torch.device("meta"):
        torch.empty(0)
    try:
        import transformers
    except ImportError as error:
        raise ValueError(
            f"{what} by transformers, which is not installed; {install_command('text')}{remedy}"
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
    """Result of ``read`` on the folder ``path``, given as ``key``.

    ``read`` takes the options that all ``from_pretrained`` of the library are called with: nothing
    is fetched without ``download``, and code that comes with a model is never run. Without
    ``download`` the path must be a folder: the libraries open a connection even where they must
    not. Raises ``ValueError`` if there is no folder, or ``read`` fails. ``expected``: what there
    should be; ``remedy``: what to do without a folder.
    """
    if not download and not Path(path).is_dir():
        if could_be_on_hub(path):
            remedy += f"; one of the Hub: hf download {path} --local-dir {path}"
        raise ValueError(
            f"{key}={path}: there is no folder {Path(path).absolute()}; expected {expected}; "
            f"{remedy}"
        )
    try:
        return read(local_files_only=not download, trust_remote_code=False)
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, _UNREADABLE):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"{key}={path} cannot be read; expected {expected}: {reason}") from error

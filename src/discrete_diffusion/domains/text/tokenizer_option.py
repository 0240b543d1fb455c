"""What ``data.tokenizer`` and ``--tokenizer`` name."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.domains.text.subwords import state_of_file, trained_bpe
from discrete_diffusion.domains.text.token_files import read_meta
from discrete_diffusion.domains.text.vocabulary import LETTERS

if TYPE_CHECKING:
    from omegaconf import DictConfig

logger = logging.getLogger(__name__)

_CHARACTERS = ("chars", "characters")
_NAMES = ("characters", "bytes", "text8", "bpe:8192", "a folder", "a tokenizer.json")
_LEAST_BPE = 257
"""The bytes, and the end of a text."""


def named_tokenizer(name: str, texts: Callable[[], Iterable[str]] | None) -> dict[str, Any]:
    """Keys of ``config.data`` that a tokenizer sets.

    Args:
        name: ``characters`` (or ``chars``), ``bytes``, ``text8``, the 27 letters, ``bpe:SIZE``, or
            a folder of ``data tokenize``, or a path for ``state_of_file``.
        texts: texts to train ``bpe:SIZE`` on; None where there are none.

    Returns:
        ``tokenizer``, the name or, of a folder, that which made it; ``tokens``; and ``characters``
        or ``tokenizer_state`` where the name decides them.

    Raises:
        ValueError: a name that is none, a size that is too small, or a damaged file.
        FileNotFoundError: nothing is at the path.
    """
    if name in _CHARACTERS:
        return {"tokenizer": name, "tokens": "characters"}
    if name == "bytes":
        return {"tokenizer": name, "tokens": "bytes"}
    if name == "text8":
        return {"tokenizer": name, "tokens": "characters", "characters": LETTERS}
    if bpe := re.fullmatch(r"bpe:(\d+)", name):
        state = _trained(name, int(bpe[1]), texts)
        return {"tokenizer": name, "tokens": "subwords", "tokenizer_state": state}
    folder = Path(name).expanduser()
    meta = read_meta(folder) if folder.is_dir() else None
    if meta is not None and meta["tokens"] != "subwords":
        return {key: meta[key] for key in ("tokenizer", "tokens", "characters")}
    if not folder.exists() and not re.search(r"[/\\.]", name):
        raise ValueError(unknown_name("data.tokenizer", name, _NAMES))
    return {"tokenizer": name, "tokens": "subwords", "tokenizer_state": state_of_file(name)}


def set_tokenizer(config: DictConfig, texts: Callable[[], Iterable[str]] | None) -> None:
    """Write into ``config.data`` what its ``tokenizer`` means; nothing where it is known already.

    Raises ``ValueError`` as ``named_tokenizer``, or if ``data.tokens`` says something else.
    """
    name, known = config.get("tokenizer"), config.get("tokenizer_state")
    if name is None or known is not None:
        return
    found = named_tokenizer(str(name), texts)
    if config.tokens == "bytes" != found["tokens"]:
        raise ValueError(f"data.tokens=bytes, but data.tokenizer={name}; give one of the two")
    config.tokenizer = found.pop("tokenizer")
    for key, value in found.items():
        if config.get(key) in (None, "characters", "ids", value):
            config[key] = value
        else:
            raise ValueError(
                f"data.{key} is given, and data.tokenizer={name} sets it; leave it out"
            )


def _trained(name: str, size: int, texts: Callable[[], Iterable[str]] | None) -> str:
    if texts is None:
        raise ValueError(
            f"data.tokenizer={name} is trained on text; encode it first: discrete-diffusion data "
            f"tokenize FILE... --tokenizer {name} --out FOLDER"
        )
    if size < _LEAST_BPE:
        raise ValueError(f"data.tokenizer={name}: expected at least bpe:{_LEAST_BPE}")
    logger.info("training the tokenizer %s", name)
    return trained_bpe(size, texts())

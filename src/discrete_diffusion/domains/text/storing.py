"""From a ``data`` config to ids on disk: ``data=tokens``, ``data.tokens=ids``, and the tokenizer
that ``data.tokenizer`` and ``--tokenizer`` name."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrete_diffusion.config.values import counted, unknown_name
from discrete_diffusion.data.base import SPLITS, given_paths, shares_of
from discrete_diffusion.domains.text.corpus_files import encoded, parts_of
from discrete_diffusion.domains.text.dataset import Packing, Span, StoredTextDataset
from discrete_diffusion.domains.text.subwords import state_of_file, trained_bpe, warn_of_lost
from discrete_diffusion.domains.text.token_files import (
    TokenFiles,
    TokensInMemory,
    meaning_of,
    read_meta,
    split_files,
)
from discrete_diffusion.domains.text.token_formats import ENDINGS
from discrete_diffusion.domains.text.vocabulary import LETTERS, IdVocabulary, vocabulary_of
from discrete_diffusion.layout.vocab_config import Sequences
from discrete_diffusion.runtime.inputs import NPY, kind_of

if TYPE_CHECKING:
    from omegaconf import DictConfig


def training_path(config: Mapping[str, Any]) -> str | None:
    """``path``, or ``train_path``; None for the embedded text. ``ValueError`` if the paths
    contradict each other."""
    return next(iter(given_paths(config).values()), None)


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


def is_stored(config: Mapping[str, Any]) -> bool:
    """True for ids on disk, which are not text."""
    return config.get("name") == "tokens" or config["tokens"] == "ids"


def complete_stored(config: DictConfig) -> None:
    """Write into ``config`` what the files say: the tokenizer of ``data tokenize``, ``bos_id`` and
    ``eos_id``; of ids alone V, the largest one, MASK and, for rows of documents, PAD.

    Raises ``ValueError`` or ``FileNotFoundError`` naming key or file.
    """
    if config.tokens == "ids" and config.vocab_size is None:
        path = _training_path(config)
        folder = Path(split_files(path).get("train", path))
        meta = read_meta(folder)
        if meta is None:
            set_tokenizer(config, None)
        else:
            _refuse_other(config, path)
            found = named_tokenizer(str(folder), None) | {"tokenizer": meta["tokenizer"]}
            for key, value in found.items():
                config[key] = value
        if config.tokens == "ids":
            config.vocab_size = TokenFiles.of(folder).largest() + 2 + (config.get("pack") == "pad")
    vocabulary = vocabulary_of(config)
    for key in ("bos_id", "eos_id"):
        if config.get(key) is None and key in config:
            config[key] = getattr(vocabulary, key)


def build_stored(config: DictConfig) -> StoredTextDataset:
    """The data set of a completed config; errors name key or file."""
    path, packing = _training_path(config), packing_of(config)
    separate = {split: config.get(f"{split}_path") for split in SPLITS}
    separate = split_files(path) if config.path is not None else separate
    if separate:
        spans = {s: _whole(p, config.vocab_size) for s, p in separate.items() if p is not None}
        spans.setdefault("test", (spans["val"][0], 0, 0))
        fix = "more text or a smaller data.length"
    else:
        spans = _shares(TokenFiles.of(path, config.vocab_size), config, packing)
        fix = "more text, a smaller data.length or another data.split"
    _check_alike(config, spans)
    source = ", ".join(dict.fromkeys(files.where for files, _, _ in spans.values()))
    data = StoredTextDataset(spans, packing, layout=Sequences.of(config).layout(), source=source)
    for split, (files, start, stop) in spans.items():
        if len(data.splits[split]) == 0 and (stop > start or split != "test"):
            raise ValueError(
                f"the {split} split of {files.where} is {stop - start:,} tokens, less than one "
                f"window of data.length={config.length}; give {fix}"
            )
    return data


def build_stored_test(config: DictConfig) -> StoredTextDataset:
    """The ids of ``path``, or of the text there, as the test split of what a model with this config
    was trained on."""
    files = _tokens_or_text(config)
    spans: dict[str, Span] = {"train": (files, 0, 0), "val": (files, 0, 0)}
    spans["test"] = (files, 0, len(files))
    _check_alike(config, spans)
    layout = Sequences.of(config).layout()
    data = StoredTextDataset(spans, packing_of(config), layout=layout, source=str(config.path))
    if len(data.splits["test"]) == 0:
        raise ValueError(
            f"{files.where} is {len(files):,} tokens, less than one window of {config.length}, "
            "which the model was trained on; give more text"
        )
    return data


def packing_of(config: Mapping[str, Any]) -> Packing:
    """``Packing`` of a completed config."""
    return Packing(
        config.get("pack") or "wrap",
        config["length"],
        vocabulary_of(config),
        bos_id=config.get("bos_id"),
        eos_id=config.get("eos_id"),
        document_mask=bool(config.get("document_mask")),
    )


def _training_path(config: Mapping[str, Any]) -> str:
    if (path := training_path(config)) is None:
        raise ValueError(
            f"data={config['name']} with data.tokens={config['tokens']} reads files of ids; give "
            "data.path=FILE.npy, FILE.bin or a folder of data tokenize"
        )
    return path


def _tokens_or_text(config: DictConfig) -> TokenFiles:
    """``path``: ids or, of a model with a tokenizer, text, whose documents end with ``eos_id``."""
    path, vocabulary = Path(config.path), vocabulary_of(config)
    is_text = path.is_file() and path.suffix not in ENDINGS and kind_of(path) is not NPY
    if isinstance(vocabulary, IdVocabulary) or not is_text:
        return TokenFiles.of(path, config.vocab_size)
    parts = list(parts_of(path, 0, field="text", documents="file"))
    if num_nulls := sum(part.num_nulls for part in parts):
        logger.warning("%s: left out %s without a text", path, counted(num_nulls, "row"))
    lost = vocabulary.unknown(text for part in parts for text in part.texts)
    warn_of_lost(lost, str(path))
    found = [encoded(vocabulary, part) for part in parts]
    starts = np.cumsum([0, *(len(ids) for ids, _ in found)]).tolist()
    ends = [start + end for start, (_, own) in zip(starts, found, strict=False) for end in own]
    ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in found)])
    return TokenFiles([TokensInMemory(ids, np.array(ends, np.int64))], str(path))


def _whole(path: str | Path, vocab_size: int) -> Span:
    files = TokenFiles.of(path, vocab_size)
    return files, 0, len(files)


def _shares(files: TokenFiles, config: DictConfig, packing: Packing) -> dict[str, Span]:
    """Every split's share of the tokens or, for rows of documents, of the documents."""
    if packing.pack != "pad":
        shares = shares_of(len(files), config.split)
        return {split: (files, share.start, share.stop) for split, share in shares.items()}
    ends = np.concatenate([[0], files.document_ends(packing.eos_id)])
    shares = shares_of(len(ends) - 1, config.split)
    return {
        split: (files, int(ends[share.start]), int(ends[share.stop]))
        for split, share in shares.items()
    }


def _refuse_other(config: DictConfig, path: str) -> None:
    if config.get("tokenizer") is not None:
        raise ValueError(
            f"{path} has its own tokenizer, that of data tokenize; leave out "
            f"data.tokenizer={config.tokenizer}, or tokenize the text again with it"
        )


def _check_alike(config: Mapping[str, Any], spans: Mapping[str, Span]) -> None:
    """``ValueError`` for files of ``data tokenize`` with another tokenizer than the config's."""
    ours = meaning_of(vocabulary_of(config).meaning)
    for files, _, _ in spans.values():
        if files.meta.get("meaning", ours) != ours:
            raise ValueError(
                f"{files.where} was made with another tokenizer ({files.meta['tokenizer']}) than "
                f"the model's; tokenize the text with --tokenizer FOLDER of the training data"
            )

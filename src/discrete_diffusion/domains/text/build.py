"""Data sets of text from a ``data`` config: text in memory (``data=text``), or ids on disk
(``data=token_files``, ``data.token_unit=ids``), split here or with a file per split."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from discrete_diffusion.config.constructors import check_share
from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import SPLITS, given_paths, shares_of
from discrete_diffusion.data.files import TextSource, read_text
from discrete_diffusion.domains.text import subwords, token_files, vocabulary
from discrete_diffusion.domains.text.corpus_files import encode_part, parts_of
from discrete_diffusion.domains.text.dataset import Packing, Span, StoredTextDataset, TextDataset
from discrete_diffusion.domains.text.domain import PLAIN
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.layout.vocab_config import Sequences
from discrete_diffusion.runtime.inputs import HTML, NPY, kind_of

logger = logging.getLogger(__name__)


def complete_text(config: DictConfig) -> None:
    """Set in ``config`` the keys that follow from the text.

    They are ``characters`` of the training text, or of the whole file if it is split here; the keys
    that ``tokenizer`` sets; ``vocab_size``, ``mask_id`` and ``pad_id``. With them the config is
    enough to rebuild the layout and to read samples, without the text. Characters that are given
    stay. Raises ``ValueError`` if a given key contradicts the text.
    """
    if is_stored(config):
        complete_stored(config)
    else:

        def training_share() -> list[str]:
            """Text that a tokenizer is trained on, in pieces, without the held-out shares."""
            text = _training_text(config).text
            if config.train_path is None:
                text = text[shares_of(len(text), config.split)["train"]]
            return subwords.pieces_of_text(text)

        vocabulary.set_tokenizer(config, training_share)
    if config.token_unit == "characters" and config.characters is None:
        config.characters = vocabulary.TextVocabulary.from_text(
            _training_text(config).text
        ).characters
    known = vocabulary.vocabulary_of(config)
    for key in ("vocab_size", "mask_id", "pad_id"):
        value = getattr(known, key)
        if config.get(key) not in (None, value):
            raise ValueError(f"data.{key}={config[key]}, but the text has {value}; leave it out")
        config[key] = value
    if cut := config.get("random_length"):
        check_share("data.random_length", cut, whole=True)
        if config.pad_id is None:
            raise ValueError(
                f"data.random_length={cut} puts PAD behind cut rows, which these data lack; give "
                "data=token_files data.pack=pad, or leave data.random_length out"
            )


def build_text(config: DictConfig) -> TextDataset:
    """Build the data set of a completed config.

    Raises ``ValueError`` with one sentence for paths that contradict each other, text that cannot
    be read, a character that the training text lacks, or a split of less than one window.
    """
    if is_stored(config):
        return build_stored(config)
    known, layout = vocabulary.text_vocabulary_of(config), Sequences.of(config).layout()
    if config.train_path is None:
        # one text, cut into shares
        text = _training_text(config)
        source = text.name
        if config.path is None:
            logger.warning("no data.path: a smoke test on %s", text.name)
            source = f"smoke test: {text.name}"
        whole = known.encode(text)
        ids = {split: whole[share] for split, share in shares_of(len(whole), config.split).items()}
        names = {split: f"the {split} share of {source}" for split in SPLITS}
        fix = "more text, a smaller data.length or another data.split"
    else:
        # a text per split
        training_path(config)
        paths = {split: config[f"{split}_path"] for split in SPLITS}
        names = {split: str(path) for split, path in paths.items() if path is not None}
        source = ", ".join(names.values())
        ids = {split: known.read(path) for split, path in names.items()}
        ids.setdefault("test", np.zeros(0, np.int64))
        fix = "more text or a smaller data.length"
    for split, part in ids.items():
        if len(part) < layout.length and (len(part) or split != "test"):
            raise _too_short(names[split], len(part), config, fix)
    cut = config.get("random_length") or 0
    return TextDataset(ids, known, layout=layout, source=source, random_length=cut)


def build_test_text(config: DictConfig) -> TextDataset:
    """Build a data set whose test split is the text of ``path``, for a model with this config.

    Raises ``ValueError`` for text of less than one window and, naming file and line, for a
    character that the model does not know.
    """
    if is_stored(config):
        return build_stored_test(config)
    name, nothing = str(config.path), np.zeros(0, np.int64)
    known, layout = vocabulary.text_vocabulary_of(config), Sequences.of(config).layout()
    ids = known.encode(
        read_text(name, HTML, expected=PLAIN),
        known="those that the model was trained on",
        remedy="replace such characters, or train a model with data.token_unit=bytes",
    )
    if len(ids) < layout.length:
        raise _too_short(name, len(ids), config)
    splits = {"train": nothing, "val": nothing, "test": ids}
    return TextDataset(splits, known, layout=layout, source=name)


def training_path(config: Mapping[str, Any]) -> str | None:
    """Return ``path`` or ``train_path``, or None for the embedded text. Raises ``ValueError`` if
    the paths contradict each other."""
    return next(iter(given_paths(config).values()), None)


def _training_text(config: DictConfig) -> TextSource:
    path = training_path(config)
    return embedded_text() if path is None else read_text(path, HTML, expected=PLAIN)


def embedded_text() -> TextSource:
    """The help pages of Python's language reference, which every CPython carries for ``help()``.

    They are about 0.5 MB of English, the same in every installation of one Python version, and
    serve smoke tests. Raises ``ValueError`` if the installation was stripped of them.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ValueError(
            "this Python has no pydoc_data.topics to take text from; give data.path=FILE"
        ) from error
    pages = (topics[name].strip() for name in sorted(topics))
    return TextSource("the help pages of Python (pydoc_data.topics)", "\n\n".join(pages) + "\n")


def is_stored(config: Mapping[str, Any]) -> bool:
    """True if the data are ids on disk."""
    return config.get("name") == "token_files" or config["token_unit"] == "ids"


def complete_stored(config: DictConfig) -> None:
    """Set in ``config`` the keys that follow from files of ids.

    They are the tokenizer of ``data tokenize``, ``bos_id`` and ``eos_id``. Without a tokenizer,
    ``vocab_size`` counts the ids up to the largest one, MASK and, for rows of documents, PAD.
    Raises ``ValueError`` or ``FileNotFoundError`` naming key or file.
    """
    if config.token_unit == "ids" and config.vocab_size is None:
        path = _stored_path(config)
        folder = Path(token_files.split_files(path).get("train", path))
        meta = token_files.read_meta(folder)
        if meta is None:
            vocabulary.set_tokenizer(config, None)
        elif config.get("tokenizer") is not None:
            raise ValueError(
                f"{path} has its own tokenizer, that of data tokenize; leave out "
                f"data.tokenizer={config.tokenizer}, or tokenize the text again with it"
            )
        else:
            keys = vocabulary.named_tokenizer(str(folder), None) | {"tokenizer": meta["tokenizer"]}
            for key, value in keys.items():
                config[key] = value
        if config.token_unit == "ids":
            config.vocab_size = TokenFiles.of(folder).largest() + 2 + (config.get("pack") == "pad")
    known = vocabulary.vocabulary_of(config)
    for key in ("bos_id", "eos_id"):
        if config.get(key) is None and key in config:
            config[key] = getattr(known, key)


def build_stored(config: DictConfig) -> StoredTextDataset:
    """Build the data set of ids on disk from a completed config; errors name key or file."""
    path, packing = _stored_path(config), packing_of(config)
    separate = {split: config.get(f"{split}_path") for split in SPLITS}
    if config.path is not None:
        separate = token_files.split_files(path)
    # a span of ids for every split
    if separate:
        files_of = {
            split: TokenFiles.of(each, config.vocab_size)
            for split, each in separate.items()
            if each is not None
        }
        spans: dict[str, Span] = {split: (each, 0, len(each)) for split, each in files_of.items()}
        spans.setdefault("test", (spans["val"][0], 0, 0))
        fix = "more text or a smaller data.length"
    else:
        spans = _spans_of_shares(TokenFiles.of(path, config.vocab_size), config, packing)
        fix = "more text, a smaller data.length or another data.split"
    _check_meaning(config, spans)
    source = ", ".join(dict.fromkeys(files.where for files, _, _ in spans.values()))
    data = StoredTextDataset(
        *(spans, packing),
        layout=Sequences.of(config).layout(),
        source=source,
        random_length=config.get("random_length") or 0,
    )
    for split, (files, start, stop) in spans.items():
        if len(data.splits[split]) == 0 and (stop > start or split != "test"):
            raise _too_short(f"the {split} split of {files.where}", stop - start, config, fix)
    return data


def build_stored_test(config: DictConfig) -> StoredTextDataset:
    """Build a data set for a model with this config, whose test split is the ids of ``path``. Text
    there is encoded, with ``eos_id`` after each document."""
    path, known = Path(config.path), vocabulary.vocabulary_of(config)
    is_text = path.is_file() and path.suffix not in token_files.ENDINGS and kind_of(path) is not NPY
    if isinstance(known, vocabulary.IdVocabulary) or not is_text:
        files = TokenFiles.of(path, config.vocab_size)
    else:
        # encode the text, with warnings of what is lost
        parts = list(parts_of(path, 0, field="text", documents="file"))
        if num_nulls := sum(part.num_nulls for part in parts):
            logger.warning("%s: left out %s without a text", path, counted(num_nulls, "row"))
        lost = known.unknown(text for part in parts for text in part.texts)
        subwords.warn_of_lost(lost, str(path))
        encoded = [encode_part(known, part) for part in parts]
        # joined, with the ends of documents in all of it
        starts = np.cumsum([0, *(len(ids) for ids, _ in encoded)]).tolist()
        ends = [start + end for start, (_, e) in zip(starts, encoded, strict=False) for end in e]
        ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in encoded)])
        in_memory = token_files.TokensInMemory(ids, np.array(ends, np.int64))
        files = TokenFiles([in_memory], str(path))
    spans: dict[str, Span] = {"train": (files, 0, 0), "val": (files, 0, 0)}
    spans["test"] = (files, 0, len(files))
    _check_meaning(config, spans)
    layout = Sequences.of(config).layout()
    data = StoredTextDataset(spans, packing_of(config), layout=layout, source=str(config.path))
    if len(data.splits["test"]) == 0:
        raise _too_short(files.where, len(files), config)
    return data


def _too_short(where: str, num: int, config: DictConfig, fix: str = "") -> ValueError:
    """Error of a text without a whole window; without a ``fix`` the model has set its length."""
    unit = "tokens" if is_stored(config) else config.token_unit
    key = "data.length=" if fix else ""
    of_model = "" if fix else ", which the model was trained on"
    return ValueError(
        f"{where} is {num:,} {unit}, less than one window of {key}{config.length}{of_model}; give "
        f"{fix or 'more text'}"
    )


def packing_of(config: Mapping[str, Any]) -> Packing:
    """``Packing`` of a completed config."""
    return Packing(
        config.get("pack") or "wrap",
        config["length"],
        vocabulary.vocabulary_of(config),
        bos_id=config.get("bos_id"),
        eos_id=config.get("eos_id"),
        document_mask=bool(config.get("document_mask")),
    )


def _stored_path(config: Mapping[str, Any]) -> str:
    if (path := training_path(config)) is None:
        raise ValueError(
            f"data={config['name']} with data.token_unit={config['token_unit']} reads files of "
            "ids; give data.path=FILE.npy, FILE.bin or a folder of data tokenize"
        )
    return path


def _spans_of_shares(files: TokenFiles, config: DictConfig, packing: Packing) -> dict[str, Span]:
    """Return each split's span of ids: a share of the tokens or, for rows of documents, of the
    documents."""
    if packing.pack != "pad":
        shares = shares_of(len(files), config.split)
        return {split: (files, share.start, share.stop) for split, share in shares.items()}
    ends = np.concatenate([[0], files.document_ends(packing.eos_id)])
    shares = shares_of(len(ends) - 1, config.split)
    return {
        split: (files, int(ends[share.start]), int(ends[share.stop]))
        for split, share in shares.items()
    }


def _check_meaning(config: Mapping[str, Any], spans: Mapping[str, Span]) -> None:
    """Raise ``ValueError`` if ``data tokenize`` wrote the files with a tokenizer other than the
    config's."""
    ours = token_files.meaning_digest(vocabulary.vocabulary_of(config).meaning)
    for files, _, _ in spans.values():
        if files.meta.get("meaning", ours) != ours:
            raise ValueError(
                f"{files.where} was made with another tokenizer ({files.meta['tokenizer']}) than "
                f"the model's; tokenize the text with --tokenizer FOLDER of the training data"
            )

"""From a ``data`` config to a data set: one file split here, or a file per split."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from discrete_diffusion.data.base import SPLITS, shares_of
from discrete_diffusion.data.files import TextSource, read_text
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.file_kinds import PLAIN
from discrete_diffusion.domains.text.storing import (
    build_stored,
    build_stored_test,
    complete_stored,
    is_stored,
    set_tokenizer,
    training_path,
)
from discrete_diffusion.domains.text.subwords import SubwordVocabulary, pieces
from discrete_diffusion.domains.text.vocabulary import (
    TextVocabulary,
    text_vocabulary_of,
    vocabulary_of,
)
from discrete_diffusion.layout.vocab_config import Sequences
from discrete_diffusion.runtime.inputs import HTML

if TYPE_CHECKING:
    from omegaconf import DictConfig

logger = logging.getLogger(__name__)


def complete_text(config: DictConfig) -> None:
    """Write what the text decides into ``config``: ``characters`` (those of the training text, all
    of a file that is split here), what ``tokenizer`` means, and ``vocab_size``, ``mask_id``,
    ``pad_id``.

    With them the config is enough to rebuild the layout and to read samples, without the text.
    Characters that are given stay. Raises ``ValueError`` for ids that are not those of the text.
    """
    if is_stored(config):
        complete_stored(config)
    else:
        set_tokenizer(config, lambda: _training_share(config))
    if config.tokens == "characters" and config.characters is None:
        config.characters = TextVocabulary.of_text(_training_text(config).text).characters
    vocabulary = vocabulary_of(config)
    for key in ("vocab_size", "mask_id", "pad_id"):
        value = getattr(vocabulary, key)
        if config.get(key) not in (None, value):
            raise ValueError(f"data.{key}={config[key]}, but the text has {value}; leave it out")
        config[key] = value


def build_text(config: DictConfig) -> TextDataset:
    """The data set of a completed config.

    Raises ``ValueError`` with one sentence for paths that contradict each other, text that cannot
    be read, a character that training lacks, or a split of less than one window.
    """
    if is_stored(config):
        return build_stored(config)
    vocabulary, layout = text_vocabulary_of(config), Sequences.of(config).layout()
    if config.train_path is None:
        source, whole = _whole(config, vocabulary)
        shares = shares_of(len(whole), config.split)
        ids = {split: whole[share] for split, share in shares.items()}
        names = {split: f"the {split} share of {source}" for split in SPLITS}
        fix = "more text, a smaller data.length or another data.split"
    else:
        training_path(config)
        paths = {split: config[f"{split}_path"] for split in SPLITS}
        names = {split: str(path) for split, path in paths.items() if path is not None}
        source = ", ".join(names.values())
        ids = {split: vocabulary.read(path) for split, path in names.items()}
        ids.setdefault("test", np.zeros(0, np.int64))
        fix = "more text or a smaller data.length"
    for split, found in ids.items():
        if len(found) < layout.length and (len(found) or split != "test"):
            raise ValueError(
                f"{names[split]} is {len(found):,} {config.tokens}, less than one window of "
                f"data.length={layout.length}; give {fix}"
            )
    return TextDataset(ids, vocabulary, layout=layout, source=source)


def build_test_text(config: DictConfig) -> TextDataset:
    """The text of ``path`` as the test split of what a model with this config was trained on.

    Raises ``ValueError`` for text of less than one window, and for a character that the model does
    not know, which names file and line.
    """
    if is_stored(config):
        return build_stored_test(config)
    vocabulary, layout = text_vocabulary_of(config), Sequences.of(config).layout()
    name, nothing = str(config.path), np.zeros(0, np.int64)
    ids = vocabulary.encode(
        read_text(name, HTML, expected=PLAIN),
        known="those that the model was trained on",
        remedy="replace such characters, or train a model with data.tokens=bytes",
    )
    if len(ids) < layout.length:
        raise ValueError(
            f"{name} is {len(ids):,} {config.tokens}, less than one window of "
            f"{layout.length}, which the model was trained on; give more text"
        )
    splits = {"train": nothing, "val": nothing, "test": ids}
    return TextDataset(splits, vocabulary, layout=layout, source=name)


def _whole(
    config: DictConfig, vocabulary: TextVocabulary | SubwordVocabulary
) -> tuple[str, np.ndarray]:
    """Name and ids of the file that is split here, or of the embedded text."""
    text = _training_text(config)
    if config.path is not None:
        return text.name, vocabulary.encode(text)
    logger.warning("no data.path: a smoke test on %s", text.name)
    return f"smoke test: {text.name}", vocabulary.encode(text)


def _training_text(config: DictConfig) -> TextSource:
    """The text that the vocabulary is read off."""
    path = training_path(config)
    return embedded_text() if path is None else read_text(path, HTML, expected=PLAIN)


def _training_share(config: DictConfig) -> list[str]:
    """The text that a tokenizer is trained on, which is not held out."""
    text = _training_text(config).text
    if config.train_path is None:
        text = text[shares_of(len(text), config.split)["train"]]
    return pieces(text)


def embedded_text() -> TextSource:
    """The help pages of Python's language reference, which every CPython carries for ``help()``.

    About 0.5 MB of English, the same for one version of Python; for smoke tests. Raises
    ``ValueError`` if the installation was stripped of them.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ValueError(
            "this Python has no pydoc_data.topics to take text from; give data.path=FILE"
        ) from error
    pages = (topics[name].strip() for name in sorted(topics))
    return TextSource("the help pages of Python (pydoc_data.topics)", "\n\n".join(pages) + "\n")

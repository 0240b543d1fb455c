"""From a ``data`` config to ``DialogueData`` or ``DialogueTokens``: the grammar, or files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.domains.dialogue.dataset import DialogueData, DialogueTokens, PairDataset
from discrete_diffusion.domains.dialogue.grammar import SLOTS, WORDS, DialoguePair, draw_dialogues
from discrete_diffusion.domains.dialogue.reading import read_dialogues
from discrete_diffusion.domains.dialogue.splitting import (
    Splits,
    split_by_dialogue,
    split_in_order,
    without_held_out,
)
from discrete_diffusion.domains.dialogue.words import (
    PretrainedTokenizer,
    Tokenizer,
    WordVocabulary,
)
from discrete_diffusion.options import check_whole_number

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

logger = logging.getLogger(__name__)

_Data = TypeVar("_Data", bound=PairDataset)


@dataclass(frozen=True)
class _Pairs:
    """``slots`` and ``source`` as in the data sets."""

    splits: Splits
    source: str
    slots: Mapping[str, frozenset[str]] | None


def complete_dialogue(config: DictConfig) -> None:
    """Write what the texts decide into ``config``: ``words`` (those of the training split, unless
    both texts have a tokenizer), ``vocab_size``, ``eos_id``, ``pad_id`` of summaries and
    ``source_vocab_size``, ``source_pad_id`` of dialogues. Vocabulary sizes are what a network must
    have, less than its tokenizer's where that ends in special tokens that no text holds.

    With them the config is enough to build a network and to read its summaries, without the texts.
    Words that are given stay. Raises ``ValueError`` for ids that are not those of the texts.
    """
    source, target = _tokenizers(config)
    _state(config, "vocab_size", target.num_ids(_texts(config)))
    _state(config, "eos_id", target.eos_id)
    _state(config, "pad_id", target.pad_id)
    _state(config, "source_vocab_size", source.num_ids(_texts(config)))
    _state(config, "source_pad_id", source.pad_id)


def complete_dialogue_tokens(config: DictConfig) -> None:
    """Write ``words`` and the layout into ``config``: ``length``, ``vocab_size``, ``mask_id``,
    ``pad_id``; errors likewise."""
    vocabulary = _vocabulary(config)
    _state(config, "length", config.source_length + config.target_length)
    _state(config, "vocab_size", vocabulary.vocab_size)
    _state(config, "mask_id", vocabulary.mask_id)
    _state(config, "pad_id", vocabulary.pad_id)


def _state(config: DictConfig, key: str, value: int) -> None:
    if config.get(key) not in (None, value):
        raise ValueError(f"data.{key}={config[key]}, but the data makes it {value}; leave it out")
    config[key] = value


def build_dialogue(config: DictConfig) -> DialogueData:
    """``data=dialogue`` with a completed config.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence for settings out of range,
    paths that contradict each other, a file or line that cannot be read, a split without a pair.
    """
    return _dialogue(config, _read(config))


def build_dialogue_tokens(config: DictConfig) -> DialogueTokens:
    """``data=dialogue-tokens``: the same pairs as ids in one sequence; errors likewise."""
    return _dialogue_tokens(config, _read(config))


def given_dialogues(
    config: DictConfig, dialogues: Sequence[str], source: str, *, latent: bool
) -> PairDataset:
    """``dialogues`` as the test split of the data of a completed config, each with an empty
    summary; the other splits are empty, and no file is read. ``source``: what they are called;
    ``latent``: as texts, not as one sequence of ids."""
    given = [DialoguePair(dialogue, "") for dialogue in dialogues]
    pairs = _Pairs({"train": [], "val": [], "test": given}, source, None)
    return (_dialogue if latent else _dialogue_tokens)(config, pairs)


def _dialogue(config: DictConfig, pairs: _Pairs) -> DialogueData:
    source, target = _tokenizers(config)
    data = _reported(
        DialogueData(
            pairs.splits,
            source=pairs.source,
            source_tokenizer=source,
            target_tokenizer=target,
            slots=pairs.slots,
            **_lengths(config),
        )
    )
    for ids in data.ids.values():
        _check_ids(data.source, ids.sources, config.source_vocab_size)
        _check_ids(data.source, ids.encoded_targets, config.source_vocab_size)
        _check_ids(data.source, ids.targets, config.vocab_size)
    if data.num_cut_encoded:
        logger.warning(
            "%s: %d summaries are longer than data.source_length=%d ids of dialogues; in their "
            "latent vectors is not what is beyond",
            *(data.source, data.num_cut_encoded, data.source_length),
        )
    return data


def _check_ids(source: str, ids: Tensor, num_ids: int) -> None:
    """``ValueError`` for an id that a network of ``num_ids`` does not have."""
    if (ids >= num_ids).any():
        raise ValueError(
            f"{source}: a text holds a special token of the tokenizer, id {int(ids.max())}, and "
            f"the network was built for {num_ids} ids; take it out of the text"
        )


def _dialogue_tokens(config: DictConfig, pairs: _Pairs) -> DialogueTokens:
    return _reported(
        DialogueTokens(
            pairs.splits,
            _vocabulary(config),
            source=pairs.source,
            slots=pairs.slots,
            **_lengths(config),
        )
    )


def _reported(data: _Data) -> _Data:
    """``data``, with a warning if texts were cut, or most words of a split are unknown."""
    shares = {split: data.unknown_share(split) for split in SPLITS}
    if mostly := [f"{share:.0%} of {split}" for split, share in shares.items() if share > 0.5]:
        logger.warning(
            "%s: most words are unknown (%s), so a bound says little; leave data.words null to "
            "have them read off the training texts, the data.max_words most frequent",
            *(data.source, ", ".join(mostly)),
        )
    sources, targets = data.num_cut
    if sources or targets:
        logger.warning(
            "%s: %d dialogues are longer than data.source_length=%d ids, %d summaries with the one "
            "that ends them longer than data.target_length=%d; what is beyond is left out",
            *(data.source, sources, data.source_length, targets, data.target_length),
        )
    return data


def _lengths(config: DictConfig) -> dict[str, int]:
    lengths = {key: config[key] for key in ("source_length", "target_length")}
    for key, least in (("source_length", 1), ("target_length", 2)):  # a word and EOS
        check_whole_number(f"data.{key}", lengths[key], least=least)
    return lengths


def _tokenizers(config: DictConfig) -> tuple[Tokenizer, Tokenizer]:
    """Of dialogues and of summaries; the words of both where no folder is given."""
    paths = {key: config.get(key) for key in ("source_tokenizer", "target_tokenizer")}
    source, target = (
        _vocabulary(config) if path is None else PretrainedTokenizer.read(str(path), f"data.{key}")
        for key, path in paths.items()
    )
    return source, target


def _texts(config: DictConfig) -> Iterator[str]:
    """Of all splits; read when the first one is asked for."""
    for pairs in _read(config).splits.values():
        for pair in pairs:
            yield from (pair.dialogue, pair.summary)


def _vocabulary(config: DictConfig) -> WordVocabulary:
    """The words that ``config`` states; otherwise those of the training split, written into it."""
    if config.get("words") is None:
        if _paths(config) is None:
            vocabulary = WordVocabulary(WORDS)
        else:
            train = _read(config).splits["train"]
            texts = (text for pair in train for text in (pair.dialogue, pair.summary))
            vocabulary = WordVocabulary.of_texts(texts, config.max_words)
        config.words = vocabulary.line
    return WordVocabulary.of_line(str(config.words))


def _read(config: DictConfig) -> _Pairs:
    paths = _paths(config)
    if paths is None:
        check_whole_number("data.grammar_seed", config.grammar_seed, least=0)
        drawn = draw_dialogues(config.num_samples, config.grammar_seed)
        source = f"dialogues of a grammar, seed {config.grammar_seed}"
        found = _Pairs(split_in_order(drawn, config.split), source, SLOTS)
    elif isinstance(paths, str):
        splits = split_by_dialogue(read_dialogues(paths), config.split, config.split_seed)
        found = _Pairs(splits, paths, None)
    else:
        read = {name: [] if p is None else read_dialogues(p) for name, p in paths.items()}
        splits, removed = without_held_out(read)
        for name, num in removed.items():
            if num:
                logger.warning(
                    "%s: %d pairs whose dialogue is held out elsewhere are left out",
                    *(paths[name], num),
                )
        source = ", ".join(path for path in paths.values() if path is not None)
        found = _Pairs(splits, source, None)
    for name, share in zip(SPLITS, config.split, strict=True):
        expected = share > 0 if paths is None or isinstance(paths, str) else paths[name]
        if expected and not found.splits[name]:
            more = "data.num_samples" if paths is None else "pairs"
            raise ValueError(
                f"{found.source}: the {name} split holds no pair; give more {more} or another "
                "data.split"
            )
    return found


def _paths(config: DictConfig) -> str | dict[str, str | None] | None:
    """None for the grammar, one file, or a file per split; ``ValueError`` for both."""
    separate = {name: config.get(f"{name}_path") for name in SPLITS}
    if not any(separate.values()):
        return None if config.path is None else str(config.path)
    if config.path is not None:
        raise ValueError("give data.path or data.train_path and data.val_path, not both")
    if separate["train"] is None or separate["val"] is None:
        raise ValueError(
            f"data={config.name} needs data.train_path=FILE and data.val_path=FILE together"
        )
    return separate

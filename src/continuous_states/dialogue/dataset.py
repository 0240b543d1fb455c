"""Data sets of dialogues with their summaries, from the grammar or from files: pairs of texts, or a
row of ids per pair."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor

from continuous_states.dialogue.texts import (
    SLOTS,
    WORDS,
    DialoguePair,
    PretrainedTokenizer,
    Splits,
    Tokenizer,
    WordVocabulary,
    nearest_other,
    read_dialogues,
    remove_held_out,
    sample_dialogues,
    split_by_dialogue,
    tokens_of,
)
from discrete_diffusion.config import check_whole_number, set_derived
from discrete_diffusion.data import SPLITS, Dataset, Examples, TokenDataset, shares_of
from discrete_diffusion.domains import data_state
from discrete_diffusion.layout import Numbers, Sequences, TokenLayout, Vocabulary

logger = logging.getLogger(__name__)

_MAX_NAMED = 8
"""Largest number of unknown words that are listed."""


@dataclass(frozen=True)
class PairIds:
    """Pairs of one split as ids.

    ``sources``: Int64[M, S] dialogues, then PAD. ``targets``: Int64[M, T] summaries, ended by EOS,
    then PAD. ``target_sizes``: Int64[M], numbers of ids of the summaries with EOS, as PAD may be
    EOS. ``encoded_targets``: Int64[M, S] the summaries in ids of dialogues, without EOS, then PAD.
    ``cut_sources``, ``cut_targets``, ``cut_encoded``: numbers of texts that were too long and were
    cut (a cut summary also ends in EOS). ``unknown_share``: share of unknown words in the ids of
    dialogues and summaries.
    """

    sources: Tensor
    targets: Tensor
    target_sizes: Tensor
    encoded_targets: Tensor
    cut_sources: int
    cut_targets: int
    cut_encoded: int
    unknown_share: float

    @classmethod
    def encode(
        cls,
        pairs: Sequence[DialoguePair],
        tokenizers: tuple[Tokenizer, Tokenizer],
        lengths: tuple[int, int],
    ) -> PairIds:
        """Encode pairs with the ``tokenizers`` of dialogues and summaries. ``lengths``: S and T.
        Raises ``ValueError`` if a text contains PAD, which an encoder does not read."""
        (source_tokenizer, target_tokenizer), (source_length, target_length) = tokenizers, lengths
        # ids of dialogues and summaries, and of summaries for the encoder
        sources = [source_tokenizer.encode(pair.dialogue) for pair in pairs]
        targets = [target_tokenizer.encode(pair.summary) for pair in pairs]
        encoded = [source_tokenizer.encode(pair.summary) for pair in pairs]
        pad, eos, most = source_tokenizer.pad_id, target_tokenizer.eos_id, target_length - 1
        for pair, *texts in zip(pairs, sources, encoded, strict=True):
            if any(pad in ids for ids in texts):
                raise ValueError(
                    f"the tokenizer of dialogues pads with id {pad}, which this pair holds too, "
                    f"where it would be ignored: {pair.dialogue[:60]!r}, {pair.summary[:60]!r}; "
                    "choose a pad_token that no text holds in the tokenizer_config.json of "
                    "data.source_tokenizer"
                )
        # share of unknown words in the ids that are kept
        read = [ids[:source_length] for ids in sources], [ids[:most] for ids in targets]
        num_unknown = sum(
            ids.count(tokenizer.unk_id)
            for tokenizer, texts in zip(tokenizers, read, strict=True)
            for ids in texts
            if tokenizer.unk_id is not None
        )
        # summaries end in EOS, also cut ones
        ended = [[*ids[:most], eos] for ids in targets]
        return cls(
            sources=_padded_ids(sources, source_length, pad),
            targets=_padded_ids(ended, target_length, target_tokenizer.pad_id),
            target_sizes=torch.tensor([len(ids) for ids in ended], dtype=torch.long),
            encoded_targets=_padded_ids(encoded, source_length, pad),
            cut_sources=sum(len(ids) > source_length for ids in sources),
            cut_targets=sum(len(ids) > most for ids in targets),
            cut_encoded=sum(len(ids) > source_length for ids in encoded),
            unknown_share=num_unknown / max(sum(len(ids) for texts in read for ids in texts), 1),
        )


def _padded_ids(texts: list[list[int]], length: int, pad_id: int) -> Tensor:
    """Ids of texts Int64[M, L], cut or padded to ``length``."""
    filled = [(ids + [pad_id] * length)[:length] for ids in texts]
    return torch.tensor(filled, dtype=torch.long).reshape(len(texts), length)


@dataclass(frozen=True)
class Pairs:
    """Dialogues with their summaries in three splits that share no dialogue. ``source``: name of
    the data in the log. ``slots``: for each slot of a summary, the words that can fill it; None if
    summaries have no slots."""

    splits: Splits
    source: str
    slots: Mapping[str, frozenset[str]] | None = None


class PairDataset(Dataset):
    """``Pairs`` with their ids, in the same order.

    ``pairs``: the texts of every split. ``source``, ``slots``: as in ``Pairs``. ``tokenizers``: the
    tokenizer of dialogues and that of summaries, the same object unless a pretrained network reads
    the texts. ``lengths``: numbers of ids of a dialogue and of a summary, EOS included.
    """

    per_split = ("splits", "pairs", "ids")

    def __init__(
        self, pairs: Pairs, tokenizers: tuple[Tokenizer, Tokenizer], lengths: tuple[int, int]
    ) -> None:
        self.pairs, self.source, self.slots = pairs.splits, pairs.source, pairs.slots
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self.source_length, self.target_length = lengths
        # ids of all splits, and examples made of them
        self.ids = {
            name: PairIds.encode(pairs.splits[name], tokenizers, lengths) for name in SPLITS
        }
        self.splits = {name: self.examples(ids) for name, ids in self.ids.items()}

    @abstractmethod
    def examples(self, ids: PairIds) -> Examples:
        """Convert the ids of pairs to training examples."""

    def others(self, split: str) -> list[int]:
        """For each pair of a split, the row of a pair with another dialogue (``nearest_other``);
        empty if all dialogues are the same."""
        return nearest_other([pair.dialogue for pair in self.pairs[split]])

    def shuffled(self, split: str) -> Examples:
        """Examples of the split, with each dialogue replaced by that of another pair (``others``).
        Raises ``ValueError`` if all dialogues are the same."""
        ids, others = self.ids[split], self.others(split)
        if not others:
            raise ValueError(
                f"the {split} split has no two different dialogues to exchange; give it more data "
                "or another share"
            )
        return self.examples(replace(ids, sources=ids.sources[others]))

    def identities(self, split: str) -> list[Hashable]:
        return [
            (tuple(tokens_of(pair.dialogue)), tuple(tokens_of(pair.summary)))
            for pair in self.pairs[split]
        ]

    def losses(self, split: str) -> dict[str, Any]:
        """Numbers of texts that were cut and of unknown words, and the most frequent unknown
        words."""
        ids, unknown = self.ids[split], Counter[str]()
        # words without an id, by frequency
        for pair in self.pairs[split]:
            unknown.update(self.source_tokenizer.unknown_words(pair.dialogue))
            unknown.update(self.target_tokenizer.unknown_words(pair.summary))
        found = {
            "dialogues_cut": ids.cut_sources,
            "summaries_cut": ids.cut_targets,
            "unknown_words": unknown.total(),
            "unknown_words_share": ids.unknown_share,
            "most_frequent_unknown_words": [word for word, _ in unknown.most_common(_MAX_NAMED)],
        }
        return {name: value for name, value in found.items() if value}

    def decode(self, targets: Tensor) -> list[str]:
        """Texts of ids Int[B, T], each up to EOS."""
        return [self.target_tokenizer.decode(row) for row in targets.tolist()]

    @property
    def num_cut(self) -> tuple[int, int, int]:
        """Numbers of texts in all splits whose end was cut off: dialogues, summaries, and summaries
        in the ids of dialogues."""
        cut = [(ids.cut_sources, ids.cut_targets, ids.cut_encoded) for ids in self.ids.values()]
        sources, targets, encoded = map(sum, zip(*cut, strict=True))
        return sources, targets, encoded

    def _meaning(self) -> str:
        lines = [
            each.line if isinstance(each, WordVocabulary) else repr(each.vocab_size)
            for each in (self.source_tokenizer, self.target_tokenizer)
        ]
        return super()._meaning() + "\n".join(lines)

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.pairs[name]):,} {name}" for name in SPLITS)
        cut_sources, cut_targets, _ = self.num_cut
        unknown = ", ".join(f"{ids.unknown_share:.2%} {name}" for name, ids in self.ids.items())
        return (
            f"{self.source}: {parts} pairs; dialogues of {self.source_length} ids ({cut_sources:,} "
            f"cut), summaries of {self.target_length} ({cut_targets:,} cut); "
            f"{self.target_tokenizer.vocab_size:,} ids; unknown words: {unknown}"
        )


class DialogueData(PairDataset):
    """Data for an encoder of dialogues and a decoder of summaries.

    ``splits[...].x0``: Int64[M, T] summaries, ended by EOS, then PAD. ``real``: Bool[M, T], True up
    to EOS. ``conditions``: ``source``, Int64[M, S] dialogues, then PAD, and ``encoded_target``,
    Int64[M, S] the summaries in the ids of dialogues, then PAD.
    """

    state = "latent"
    bound = "plain"

    def examples(self, ids: PairIds) -> Examples:
        real = torch.arange(self.target_length) < ids.target_sizes.unsqueeze(1)
        conditions = {"source": ids.sources, "encoded_target": ids.encoded_targets}
        return Examples(ids.targets, real, conditions=conditions)


class DialogueTokens(PairDataset, TokenDataset):
    """Pairs as one sequence of ids each, the dialogue first; rows are those of ``DialogueData``.

    ``splits[...].x0``: Int64[M, S + T]. ``real``: Bool[M, S + T], True at all T positions of the
    summary, which is padded with EOS, so that its length must be predicted as well. The dialogue is
    given (``TokenLayout.num_given``): the network sees it without noise.
    """

    def __init__(self, pairs: Pairs, vocabulary: WordVocabulary, lengths: tuple[int, int]) -> None:
        self.layout = TokenLayout.flat(
            sum(lengths),
            vocabulary.vocab_size,
            mask_id=vocabulary.mask_id,
            pad_id=vocabulary.pad_id,
            num_given=lengths[0],
        )
        super().__init__(pairs, (vocabulary, vocabulary), lengths)

    def examples(self, ids: PairIds) -> Examples:
        # EOS instead of PAD: all positions of the summary are predicted
        targets, tokenizer = ids.targets, self.target_tokenizer
        filled = targets.masked_fill(targets == tokenizer.pad_id, tokenizer.eos_id)
        sizes = torch.full((len(targets),), targets.shape[1])
        return Examples(torch.cat([ids.sources, filled], dim=1), self.real_positions(sizes))


def complete_dialogue(config: DictConfig) -> None:
    """Write the settings that follow from the texts into ``config``. These are ``words`` (the words
    of the training split, unless dialogues and summaries have tokenizers) and the layout of a
    sequence of ids, or ``vocab_size``, ``eos_id``, ``pad_id`` of summaries and
    ``source_vocab_size``, ``source_pad_id`` of dialogues. Vocabulary sizes leave out special tokens
    at the end of a tokenizer that occur in no text.

    With these settings a network can be built, and its summaries decoded, without the texts. Words
    that ``config`` already states are kept. Raises ``ValueError`` if ``config`` states ids that
    differ from those of the texts.
    """
    # one sequence: dialogue and summary of the same words
    if data_state(config) == "tokens":
        vocabulary = _word_vocabulary(config)
        sizes = {
            "length": config.source_length + config.target_length,
            "vocab_size": vocabulary.vocab_size,
            "mask_id": vocabulary.mask_id,
            "pad_id": vocabulary.pad_id,
        }
    else:
        # two texts, each with a tokenizer
        source, target = _dialogue_tokenizers(config)
        sizes = {
            "vocab_size": target.num_ids(_texts_of_splits(config)),
            "eos_id": target.eos_id,
            "pad_id": target.pad_id,
            "source_vocab_size": source.num_ids(_texts_of_splits(config)),
            "source_pad_id": source.pad_id,
        }
    set_derived(config, "data", sizes)


def dialogue_vocabulary(config: Mapping[str, Any]) -> Vocabulary:
    """Vocabulary of a completed config, of pairs of texts or of one sequence of ids."""
    if data_state(config) == "tokens":
        return Sequences.of(config)
    keys = ("vocab_size", "eos_id", "pad_id", "source_vocab_size", "source_pad_id")
    return Numbers({key: config[key] for key in keys})


def build_dialogue(config: DictConfig, pairs: Pairs | None = None) -> PairDataset:
    """Build the data set of a completed config, as texts or, in the state ``tokens``, as one
    sequence of ids. ``pairs``: the pairs to use, so that no file is read. Raises ``ValueError`` or
    ``FileNotFoundError`` with one sentence for settings out of range, paths that contradict each
    other, a file or line that cannot be read, or a split without a pair."""
    pairs = _read_pairs(config) if pairs is None else pairs
    lengths = (config.source_length, config.target_length)
    check_whole_number("data.source_length", lengths[0], least=1)
    check_whole_number("data.target_length", lengths[1], least=2)  # a word and EOS
    data: PairDataset
    # one sequence of ids, or two texts
    if data_state(config) == "tokens":
        data = DialogueTokens(pairs, _word_vocabulary(config), lengths)
    else:
        data = DialogueData(pairs, _dialogue_tokenizers(config), lengths)
        for each in data.ids.values():
            for ids, size in (
                (each.sources, config.source_vocab_size),
                (each.encoded_targets, config.source_vocab_size),
                (each.targets, config.vocab_size),
            ):
                if (ids >= size).any():
                    raise ValueError(
                        f"{data.source}: a text holds a special token of the tokenizer, id "
                        f"{int(ids.max())}, but the network was built for {size} ids; take the "
                        "token out of the text"
                    )
    _warn_of_losses(data)
    return data


def given_dialogues(config: DictConfig, dialogues: Sequence[str], source: str) -> PairDataset:
    """Data set of a completed config with ``dialogues`` as its test split, each with an empty
    summary; the other splits are empty. ``source``: name of the dialogues."""
    given = [DialoguePair(dialogue, "") for dialogue in dialogues]
    return build_dialogue(config, Pairs({"train": [], "val": [], "test": given}, source))


def build_test_dialogues(config: DictConfig) -> PairDataset:
    """Data set of a model with this config, with the pairs of ``path`` as its test split."""
    pairs = Pairs({"train": [], "val": [], "test": read_dialogues(config.path)}, str(config.path))
    return build_dialogue(config, pairs)


def _warn_of_losses(data: PairDataset) -> None:
    """Log warnings if most words of a split are unknown, or texts were cut."""
    # unknown words
    shares = {split: ids.unknown_share for split, ids in data.ids.items()}
    if mostly := [f"{share:.0%} of {split}" for split, share in shares.items() if share > 0.5]:
        logger.warning(
            "%s: most words are unknown (%s), so a bound says little; set data.words=null to take "
            "the data.max_words most frequent words of the training texts",
            *(data.source, ", ".join(mostly)),
        )
    # texts that were cut
    sources, targets, encoded = data.num_cut
    if sources or targets:
        logger.warning(
            "%s: %d dialogues are longer than data.source_length=%d ids, and %d summaries, with "
            "EOS, longer than data.target_length=%d; they are cut",
            *(data.source, sources, data.source_length, targets, data.target_length),
        )
    if encoded and isinstance(data, DialogueData):
        logger.warning(
            "%s: %d summaries are longer than data.source_length=%d ids of dialogues; their latent "
            "vectors are of the text before",
            *(data.source, encoded, data.source_length),
        )


def _dialogue_tokenizers(config: DictConfig) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of dialogues and of summaries; the word vocabulary if no folder is given."""
    paths = {key: config.get(key) for key in ("source_tokenizer", "target_tokenizer")}
    source, target = (
        _word_vocabulary(config) if path is None else PretrainedTokenizer(str(path), f"data.{key}")
        for key, path in paths.items()
    )
    return source, target


def _texts_of_splits(config: DictConfig) -> Iterator[str]:
    """Yield the texts of all splits; files are read when the first text is needed."""
    for pairs in _read_pairs(config).splits.values():
        for pair in pairs:
            yield from (pair.dialogue, pair.summary)


def _word_vocabulary(config: DictConfig) -> WordVocabulary:
    """Vocabulary of the words in ``config``; if it has none, the words of the training split are
    written into it."""
    if config.get("words") is None:
        if _pair_files(config) is None:
            # the grammar has a closed vocabulary
            vocabulary = WordVocabulary(WORDS)
        else:
            train = _read_pairs(config).splits["train"]
            texts = (text for pair in train for text in (pair.dialogue, pair.summary))
            vocabulary = WordVocabulary.from_texts(texts, config.max_words)
        config.words = vocabulary.line
    return WordVocabulary(str(config.words).split())


def _read_pairs(config: DictConfig) -> Pairs:
    """Pairs from the grammar, from one file, or from a file per split."""
    paths = _pair_files(config)
    if paths is None:
        check_whole_number("data.generator_seed", config.generator_seed, least=0)
        # the grammar
        samples = sample_dialogues(config.num_samples, config.generator_seed)
        source = f"dialogues of a grammar, seed {config.generator_seed}"
        shares = shares_of(len(samples), config.split)  # train, val, test in their order
        pairs = Pairs({name: samples[share] for name, share in shares.items()}, source, SLOTS)
    elif isinstance(paths, str):
        # one file, split at random
        splits = split_by_dialogue(read_dialogues(paths), config.split, config.split_seed)
        pairs = Pairs(splits, paths)
    else:
        # a file per split; held-out dialogues are removed from earlier ones
        read = {name: [] if p is None else read_dialogues(p) for name, p in paths.items()}
        splits, removed = remove_held_out(read)
        for name, num in removed.items():
            if num:
                logger.warning(
                    "%s: %d pairs are left out: a later split holds the same dialogue",
                    *(paths[name], num),
                )
        pairs = Pairs(splits, ", ".join(path for path in paths.values() if path is not None))
    # every split with a share or a file has a pair
    for name, share in zip(SPLITS, config.split, strict=True):
        expected = share > 0 if paths is None or isinstance(paths, str) else paths[name]
        if expected and not pairs.splits[name]:
            more = "data.num_samples" if paths is None else "pairs"
            raise ValueError(
                f"{pairs.source}: the {name} split holds no pair; give more {more} or another "
                "data.split"
            )
    return pairs


def _pair_files(config: DictConfig) -> str | dict[str, str | None] | None:
    """Path of one file, or paths by split; None for the grammar. Raises ``ValueError`` for keys
    that do not fit together."""
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

"""From a ``data`` config to ``DialogueData`` or ``DialogueTokens``: the grammar, or files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from continuous_states.dialogue.dataset import DialogueData, DialogueTokens, PairDataset, Pairs
from continuous_states.dialogue.grammar import SLOTS, WORDS, DialoguePair, sample_dialogues
from continuous_states.dialogue.reading import read_dialogues
from continuous_states.dialogue.splitting import split_by_dialogue, split_in_order, without_held_out
from continuous_states.dialogue.words import PretrainedTokenizer, Tokenizer, WordVocabulary
from discrete_diffusion.config import check_whole_number, set_derived
from discrete_diffusion.data import SPLITS
from discrete_diffusion.domains import data_state
from discrete_diffusion.layout import Numbers, Sequences, Vocabulary

if TYPE_CHECKING:
    from omegaconf import DictConfig

logger = logging.getLogger(__name__)


def complete_dialogue(config: DictConfig) -> None:
    """Write what the texts decide into ``config``: ``words`` (those of the training split, unless
    both texts have a tokenizer) and, of one sequence of ids, its layout, otherwise ``vocab_size``,
    ``eos_id``, ``pad_id`` of summaries and ``source_vocab_size``, ``source_pad_id`` of dialogues.
    Vocabulary sizes are what a network must have, less than its tokenizer's where that ends in
    special tokens that no text holds.

    With them the config is enough to build a network and to read its summaries, without the texts.
    Words that are given stay. Raises ``ValueError`` for ids that are not those of the texts.
    """
    if data_state(config) == "tokens":
        vocabulary = _vocabulary(config)
        sizes = {
            "length": config.source_length + config.target_length,
            "vocab_size": vocabulary.vocab_size,
            "mask_id": vocabulary.mask_id,
            "pad_id": vocabulary.pad_id,
        }
    else:
        source, target = _tokenizers(config)
        sizes = {
            "vocab_size": target.num_ids(_texts(config)),
            "eos_id": target.eos_id,
            "pad_id": target.pad_id,
            "source_vocab_size": source.num_ids(_texts(config)),
            "source_pad_id": source.pad_id,
        }
    set_derived(config, "data", sizes)


def dialogue_vocabulary(config: Mapping[str, Any]) -> Vocabulary:
    """What summaries of a completed config are: latent vectors of ids, or ids behind those of the
    dialogue."""
    if data_state(config) == "tokens":
        return Sequences.of(config)
    keys = ("vocab_size", "eos_id", "pad_id", "source_vocab_size", "source_pad_id")
    return Numbers({key: config[key] for key in keys})


def build_dialogue(config: DictConfig, pairs: Pairs | None = None) -> PairDataset:
    """The data set of a completed config, as texts or, in the state ``tokens``, as one sequence of
    ids; of the ``pairs`` if they are given, and no file is read.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence for settings out of range,
    paths that contradict each other, a file or line that cannot be read, a split without a pair.
    """
    pairs = _read(config) if pairs is None else pairs
    lengths = (config.source_length, config.target_length)
    check_whole_number("data.source_length", lengths[0], least=1)
    check_whole_number("data.target_length", lengths[1], least=2)  # a word and EOS
    data: PairDataset
    if data_state(config) == "tokens":
        data = DialogueTokens(pairs, _vocabulary(config), lengths)
    else:
        data = DialogueData(pairs, _tokenizers(config), lengths)
        _check_ids(data, config)
    _warn_of_losses(data)
    return data


def given_dialogues(config: DictConfig, dialogues: Sequence[str], source: str) -> PairDataset:
    """``dialogues`` as the test split of the data of a completed config, each with an empty
    summary; the other splits are empty. ``source``: what they are called."""
    given = [DialoguePair(dialogue, "") for dialogue in dialogues]
    return build_dialogue(config, Pairs({"train": [], "val": [], "test": given}, source))


def build_test_dialogues(config: DictConfig) -> PairDataset:
    """The pairs of ``path`` as the test split of what a model with this config was trained on."""
    pairs = Pairs({"train": [], "val": [], "test": read_dialogues(config.path)}, str(config.path))
    return build_dialogue(config, pairs)


def _check_ids(data: DialogueData, config: DictConfig) -> None:
    """``ValueError`` for an id that a network of the config does not have."""
    for each in data.ids.values():
        for ids, key in (
            (each.sources, "source_vocab_size"),
            (each.encoded_targets, "source_vocab_size"),
            (each.targets, "vocab_size"),
        ):
            if (ids >= config[key]).any():
                raise ValueError(
                    f"{data.source}: a text holds a special token of the tokenizer, id "
                    f"{int(ids.max())}, but the network was built for {config[key]} ids; take the "
                    "token out of the text"
                )


def _warn_of_losses(data: PairDataset) -> None:
    """Warn if most words of a split are unknown, or texts were cut."""
    shares = {split: ids.unknown_share for split, ids in data.ids.items()}
    if mostly := [f"{share:.0%} of {split}" for split, share in shares.items() if share > 0.5]:
        logger.warning(
            "%s: most words are unknown (%s), so a bound says little; set data.words=null to take "
            "the data.max_words most frequent words of the training texts",
            *(data.source, ", ".join(mostly)),
        )
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
            "vectors are of what is before",
            *(data.source, encoded, data.source_length),
        )


def _tokenizers(config: DictConfig) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of dialogues and of summaries; the words of both where no folder is given."""
    paths = {key: config.get(key) for key in ("source_tokenizer", "target_tokenizer")}
    source, target = (
        _vocabulary(config) if path is None else PretrainedTokenizer(str(path), f"data.{key}")
        for key, path in paths.items()
    )
    return source, target


def _texts(config: DictConfig) -> Iterator[str]:
    """Texts of all splits; read when the first one is needed."""
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


def _read(config: DictConfig) -> Pairs:
    paths = _paths(config)
    if paths is None:
        check_whole_number("data.grammar_seed", config.grammar_seed, least=0)
        drawn = sample_dialogues(config.num_samples, config.grammar_seed)
        source = f"dialogues of a grammar, seed {config.grammar_seed}"
        found = Pairs(split_in_order(drawn, config.split), source, SLOTS)
    elif isinstance(paths, str):
        splits = split_by_dialogue(read_dialogues(paths), config.split, config.split_seed)
        found = Pairs(splits, paths)
    else:
        read = {name: [] if p is None else read_dialogues(p) for name, p in paths.items()}
        splits, removed = without_held_out(read)
        for name, num in removed.items():
            if num:
                logger.warning(
                    "%s: %d pairs are left out: a later split holds the same dialogue",
                    *(paths[name], num),
                )
        source = ", ".join(path for path in paths.values() if path is not None)
        found = Pairs(splits, source)
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

"""Text: by characters, bytes or subwords, in memory or as ids on disk."""

from __future__ import annotations

from discrete_diffusion.config.plugins import LazyEntry
from discrete_diffusion.domains.commands import (
    DATA,
    LIKELIHOOD,
    ORDERS,
    TIME_BINS,
    Option,
    completions,
)
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.registry import register_domain
from discrete_diffusion.domains.text.file_kinds import TEXT_KINDS
from discrete_diffusion.domains.text.tokenize_command import TOKENIZE

_HERE = "discrete_diffusion.domains.text"

_JUDGE = "a checkpoint of algo=ar, or hf:FOLDER of transformers, whose perplexity of the samples "
_SAMPLE = (
    Option(
        "given",
        "a file of texts to complete, one a line, with [MASK] for each token that is missing; see "
        "docs/text.md",
        is_file=True,
    ),
    completions("of each text; null is 4"),
    Option(
        "prompt",
        "a text to complete, as a line of given=FILE; num_samples is how often",
        without_given="it is a text by itself",
    ),
    Option(
        "num_tokens",
        "tokens of every sample, with those that are given; null is data.length of training",
        least=1,
    ),
    Option(
        "context",
        "of num_tokens above data.length: tokens before a window that it goes on from; null is "
        "half of data.length",
        least=1,
    ),
    Option("judge", f"{_JUDGE}goes into metrics.json; see docs/text.md", written=True),
)
_EVALUATE_JUDGE = Option("judge", f"{_JUDGE}is measured; null leaves it out; see docs/text.md")


@register_domain
class Text(Domain):
    """Windows of a text, one after the other."""

    name, title = "text", "text"
    setting_help = (
        "data=text data.path=file.txt algo.backbone=dit   text by characters, bytes or a tokenizer",
        "data=tokens data.path=corpus algo.backbone=dit   text of any size, of data tokenize",
    )
    data_sets = {"text": "tokens", "tokens": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path")
    file_kinds = TEXT_KINDS
    needed_conditions = {"document_mask": "document_idxs"}
    streamed_file = "samples.txt"
    options = {
        "sample": _SAMPLE,
        "evaluate": (DATA, TIME_BINS, LIKELIHOOD, ORDERS, _EVALUATE_JUDGE),
    }
    commands = {"data": {"tokenize": TOKENIZE}}
    quick = {"num_held_out": 100, "bound_draws": 1, "time_bins": 5}
    fixed_keys = (
        *("tokens", "tokenizer", "tokenizer_state", "length", "characters", "pack"),
        *("vocab_size", "mask_id", "pad_id", "bos_id", "eos_id", "document_mask"),
    )

    complete = LazyEntry(f"{_HERE}.build:complete_text")
    build = LazyEntry(f"{_HERE}.build:build_text")
    test_data = LazyEntry(f"{_HERE}.build:build_test_text")
    tokens = LazyEntry(f"{_HERE}.sampling:encode_texts")
    report = LazyEntry(f"{_HERE}.report:TextReport")
    sample = LazyEntry(f"{_HERE}.sampling:sample_text")
    evaluate = LazyEntry(f"{_HERE}.report:evaluate_text")
    cell_measurement = LazyEntry(f"{_HERE}.report:TextCells")

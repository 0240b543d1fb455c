"""Text as characters, bytes or subwords, in memory or as ids on disk; its kinds of files, options,
and ``discrete-diffusion data tokenize``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from discrete_diffusion.config.plugins import Later, LazyEntry
from discrete_diffusion.domains import commands
from discrete_diffusion.domains.commands import Option, SubCommand
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.registry import register_domain
from discrete_diffusion.runtime.inputs import FileKind, begins_with_bytes

_HERE = "discrete_diffusion.domains.text"
_corpus_files: Any = Later(f"{_HERE}.corpus_files")

_LLMC_MAGICS = (20240520, 20240801)
_INDEX_MAGICS = (b"MMIDIDX\x00\x00", b"TNTIDX")

_AS_IDS = "write the ids as .npy"
PARQUET = FileKind(
    "Parquet",
    begins_with_bytes(b"PAR1"),
    "its texts are read by discrete-diffusion data tokenize",
    is_text=False,
)
LLMC = FileKind(
    "a file of token ids of llm.c",
    begins_with_bytes(*(magic.to_bytes(4, "little") for magic in _LLMC_MAGICS)),
    _AS_IDS,
    is_text=False,
)
IDS_INDEX = FileKind(
    "an index of Megatron or fairseq", begins_with_bytes(*_INDEX_MAGICS), _AS_IDS, is_text=False
)
TEXT_KINDS = (PARQUET, LLMC, IDS_INDEX)

PLAIN = (
    "text; documents in JSON lines or Parquet are read by discrete-diffusion data tokenize FILE... "
    "--tokenizer NAME --out FOLDER"
)
"""Expected content of a file that is read as plain text."""

_JUDGE = "a checkpoint of algo=ar, or hf:FOLDER of transformers, whose perplexity of the samples "
_SAMPLE = (
    Option(
        "given",
        "a file of texts to complete, one a line, with [MASK] for each token that is missing; see "
        "docs/text.md",
        is_file=True,
    ),
    commands.completions("of each text; null is 4"),
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
    Option("perplexity_model", f"{_JUDGE}goes into metrics.json; see docs/text.md", written=True),
)
_EVALUATE = (
    commands.DATA,
    commands.TIME_BINS,
    commands.LIKELIHOOD,
    commands.ORDERS,
    Option("perplexity_model", f"{_JUDGE}is measured; null leaves it out; see docs/text.md"),
)


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=".txt, .jsonl (.gz) or .parquet")
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="NAME",
        help="characters, bytes, text8, bpe:8192 (trained on these files), a folder of Hugging "
        "Face, a tokenizer.json, a folder with vocab.json and merges.txt, or one that this command "
        "has written",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="for data.path")
    parser.add_argument(
        "--field", default="text", help="of JSON objects and Parquet rows (default: %(default)s)"
    )
    parser.add_argument(
        "--documents",
        default="file",
        choices=("file", "line"),
        help="of text files: each is a document, or each line (default: %(default)s)",
    )
    parser.add_argument(
        "--shard-tokens",
        type=int,
        default=1 << 25,
        metavar="N",
        help="tokens of a file, roughly (default: %(default)s); an interrupted command goes on "
        "after the last one",
    )


def _tokenize(options: Namespace) -> None:
    """Encode text files by a tokenizer into files of ids, for data=token_files data.path=FOLDER.

    Documents are followed by the tokenizer's end of text. The folder also has meta.json and the
    tokenizer. A command that was interrupted goes on when it is given again.
    """
    _corpus_files.tokenize(options)


_TOKENIZE = SubCommand(
    usage="FILE... --tokenizer NAME --out FOLDER   text as ids on disk, for data=token_files",
    add_options=_add_options,
    run=_tokenize,
    writes_folder="out",
)


@register_domain
class Text(Domain):
    """Consecutive windows of a text."""

    name, title = "text", "text"
    setting_help = (
        "data=text data.path=file.txt algo.backbone=dit   text by characters, bytes or a tokenizer",
        "data=token_files data.path=corpus algo.backbone=dit   text of any size, of data tokenize",
    )
    data_sets = {"text": "tokens", "token_files": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path")
    file_kinds = TEXT_KINDS
    needed_conditions = {"document_mask": "document_idxs"}
    streamed_file = "samples.txt"
    options = {"sample": _SAMPLE, "evaluate": _EVALUATE}
    commands = {"data": {"tokenize": _TOKENIZE}}
    quick = {"num_held_out": 100, "noise_samples": 1, "time_bins": 5}
    fixed_keys = (
        *("token_unit", "tokenizer", "tokenizer_state", "length", "characters", "pack"),
        *("vocab_size", "mask_id", "pad_id", "bos_id", "eos_id", "document_mask"),
    )

    complete = LazyEntry(f"{_HERE}.build:complete_text")
    build = LazyEntry(f"{_HERE}.build:build_text")
    test_data = LazyEntry(f"{_HERE}.build:build_test_text")
    text_vocabulary = LazyEntry(f"{_HERE}.vocabulary:vocabulary_of")
    tokens = LazyEntry(f"{_HERE}.sampling:encode_texts")
    report = LazyEntry(f"{_HERE}.report:TextReport")
    sample = LazyEntry(f"{_HERE}.sampling:sample_text")
    evaluate = LazyEntry(f"{_HERE}.report:evaluate_text")
    cell_measurement = LazyEntry(f"{_HERE}.report:TextCells")

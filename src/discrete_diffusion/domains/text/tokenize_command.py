"""``data tokenize``: text once, as ids on disk."""

from __future__ import annotations

import argparse

from discrete_diffusion.domains.commands import SubCommand

_SHARD = 1 << 25


def _options(parser: argparse.ArgumentParser) -> None:
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
        default=_SHARD,
        metavar="N",
        help="tokens of a file, roughly (default: %(default)s); what is interrupted goes on behind "
        "the last one",
    )


def _run(options: argparse.Namespace) -> None:
    """Encode text files by a tokenizer into files of ids, for data=tokens data.path=FOLDER.

    Documents are followed by the tokenizer's end of text. The folder also has meta.json and the
    tokenizer. A command that was interrupted goes on when it is given again.
    """
    from discrete_diffusion.domains.text.tokenizing import tokenize

    tokenize(options)


TOKENIZE = SubCommand(
    usage="FILE... --tokenizer NAME --out FOLDER   text as ids on disk, for data=tokens",
    add_options=_options,
    run=_run,
    writes_folder="out",
)

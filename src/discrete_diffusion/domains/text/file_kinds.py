"""Kinds of files of texts and of token ids, by what stands in them."""

from __future__ import annotations

from discrete_diffusion.runtime.inputs import FileKind, begins_with_bytes

MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
LLMC_MAGICS = {20240520: "<u2", 20240801: "<u4"}
"""First Int32 of ids as llm.c writes them, and their type."""

_TOKENS = "data=tokens reads it, under the name .bin"

PARQUET = FileKind(
    "Parquet",
    begins_with_bytes(b"PAR1"),
    "its texts are read by discrete-diffusion data tokenize",
    is_text=False,
)
LLMC = FileKind(
    "a file of token ids of llm.c",
    begins_with_bytes(*(magic.to_bytes(4, "little") for magic in LLMC_MAGICS)),
    _TOKENS,
    is_text=False,
)
MEGATRON_INDEX = FileKind(
    "an index of Megatron",
    begins_with_bytes(MEGATRON_MAGIC),
    "give the .bin next to it as data.path of data=tokens",
    is_text=False,
)

PLAIN = (
    "text; documents in JSON lines or Parquet are read by discrete-diffusion data tokenize FILE... "
    "--tokenizer NAME --out FOLDER"
)
"""Expected where text is read as it is."""

TEXT_KINDS = (
    PARQUET,
    LLMC,
    MEGATRON_INDEX,
    FileKind(
        "an index of fairseq",
        begins_with_bytes(b"TNTIDX"),
        "write the ids as .npy or .bin",
        is_text=False,
    ),
)

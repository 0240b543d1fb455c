"""Texts in one file that is read by eye."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discrete_diffusion.whole_files import written_whole


def write_texts(path: Path, texts: Sequence[str]) -> None:
    """Write texts as UTF-8, each under a line with its number."""
    parts = [f"{f' sample {k} ':-^72}\n{text}\n" for k, text in enumerate(texts, start=1)]
    with written_whole(path) as unfinished:
        unfinished.write_bytes("".join(parts).encode("utf-8"))  # line ends as they are

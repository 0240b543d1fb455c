"""Documents of text files, JSON lines and Parquet, read in parts so that reading can resume; and
``data tokenize``, which encodes documents into a folder of ids."""

from __future__ import annotations

import hashlib
import json
import logging
from argparse import Namespace
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from discrete_diffusion.config.values import counted
from discrete_diffusion.data.files import load_json
from discrete_diffusion.domains.text import subwords, token_files
from discrete_diffusion.domains.text.domain import PARQUET
from discrete_diffusion.domains.text.subwords import SubwordVocabulary
from discrete_diffusion.domains.text.token_files import META, TOKENIZER, dtype_of_ids
from discrete_diffusion.domains.text.vocabulary import (
    TextVocabulary,
    named_tokenizer,
    text_vocabulary_of,
)
from discrete_diffusion.runtime import inputs, progress
from discrete_diffusion.runtime.atomic_files import atomic_write, write_text
from discrete_diffusion.runtime.package import install_command

logger = logging.getLogger(__name__)

_PART = 1 << 22
"""Bytes of text that are read at once, up to the end of a line."""

_ROWS = 256
"""Rows of a Parquet file that are read at once."""

_MAX_LINE = 1 << 30
"""Bytes of a line, or of text that cannot be cut, from which on it is refused."""

_EXPECTED = "text, a JSON object or text a line (JSON lines), or Parquet"

_UNFINISHED = f"{META}.unfinished"
_MAX_TRAINING = 1 << 28
"""Most characters that a tokenizer is trained on."""

_UNNAMED = {"token_unit": "characters", "characters": None, "tokenizer_state": None}


def json_text(line: str, place: str, field: str = "text") -> str:
    """Return the text in a line of JSON. Raises ``ValueError`` naming ``place`` if there is
    none."""
    try:
        value = load_json(line)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
    return text_of(value, place, field)


def text_of(value: Any, place: str, field: str = "text") -> str:
    """Return a text, or the text in the ``field`` of an object; ``ValueError`` for another
    value."""
    is_object = isinstance(value, Mapping)
    text = value.get(field) if is_object else value
    if not isinstance(text, str):
        has = f"; its keys are {', '.join(map(str, value))}" if is_object else ""
        raise ValueError(f'{place}: expected a text, or {{"{field}": "..."}}{has}')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place}: character {error.start + 1:,} is {text[error.start]!a}, half of a surrogate "
            "pair, which is not a character; repair the text, or leave it out"
        ) from error
    return text


@dataclass(frozen=True)
class Part:
    """Consecutive texts of a file.

    ``ends``: for each text, True if it ends a document. ``after``: offset of the next part, in
    bytes or in rows of Parquet. ``num_nulls``: number of rows left out because they have no text.
    """

    texts: Sequence[str]
    ends: Sequence[bool]
    after: int
    num_nulls: int = 0


def parts_of(path: Path, start: int, *, field: str, documents: str) -> Iterator[Part]:
    """Yield the parts of a file from ``start``, which is 0 or the ``after`` of an earlier part.

    JSON lines have a document in each line, a text or an object with ``field``; Parquet has a
    document in each row, in the column ``field``. Both formats are recognised by content. Other
    files are text, compressed or not: one document (``documents`` is ``file``), or one for each
    line that is not empty (``line``). Raises ``ValueError`` naming file and line for a document
    that cannot be read.
    """
    kind = inputs.check_kind(path, (PARQUET, inputs.JSON_LINES, inputs.HTML), _EXPECTED)
    try:
        if kind is PARQUET:
            yield from _parquet_parts(path, start, field)
        elif kind is inputs.JSON_LINES or documents == "line":
            yield from _line_parts(path, start, field if kind is inputs.JSON_LINES else None)
        else:
            yield from _text_parts(path, start)
    except inputs.CompressedFileError as error:
        raise ValueError(f"{path} is {error}") from error


def encode_part(
    vocabulary: TextVocabulary | SubwordVocabulary, part: Part
) -> tuple[np.ndarray, list[int]]:
    """Return the ids of a part, Int64[N], and the positions after which documents end.

    The ``eos_id``, if there is one, is appended to each document; a document also ends where the
    text itself contains that token.
    """
    ids, ends, num = [np.zeros(0, np.int64)], [], 0
    eos = vocabulary.eos_id
    for row, is_end in zip(vocabulary.encode_each(part.texts), part.ends, strict=True):
        if is_end and eos is not None and row[-1:].tolist() != [eos]:
            row = np.append(row, eos)
        # ends of documents within this text
        places = [] if eos is None else (np.flatnonzero(row == eos) + 1).tolist()
        places += [len(row)] if is_end and eos is None else []
        ends += [num + place for place in places]
        num += len(row)
        ids.append(row)
    return np.concatenate(ids), ends


def _line_parts(path: Path, start: int, field: str | None) -> Iterator[Part]:
    """Yield parts with a document for each line; lines are JSON if ``field`` is given."""
    number, after = 0, 0
    with inputs.open_unpacked(path, in_parts=True) as file:
        while lines := _whole_lines(file, f"{path}, line {number + 1:,}"):
            # read from the start of the file, to number the lines
            begin, first = after, number
            after += sum(map(len, lines))
            lines = [piece for line in lines for piece in line.splitlines()]  # CR alone ends one
            number += len(lines)
            if begin == 0:
                lines[0] = lines[0].removeprefix(BOM_UTF8)
            if begin < start:
                continue
            texts = []
            for k, line in enumerate(lines, first + 1):
                place = f"{path}, line {k:,}"
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{place} is not UTF-8; convert the file first, e.g. with iconv"
                    ) from error
                if text.strip():
                    texts.append(text if field is None else json_text(text, place, field))
            yield Part(texts, [True] * len(texts), after)


def _whole_lines(file: BinaryIO, place: str) -> list[bytes]:
    """Read whole lines of at least ``_PART`` bytes in total, or to the end of the file. ``place``:
    location of the first line, for messages."""
    lines, num = [], 0
    while num < _PART and (line := file.readline(_MAX_LINE)):
        lines.append(line)
        num += len(line)
        if len(line) == _MAX_LINE:
            raise _uncuttable(place)
    return lines


def _uncuttable(place: str) -> ValueError:
    return ValueError(
        f"{place} or behind it: {_MAX_LINE >> 30} GiB without an end of a line, which memory does "
        "not hold; cut the text into lines"
    )


def _text_parts(path: Path, start: int) -> Iterator[Part]:
    """Yield parts of one document, cut where this does not change its tokens; each part depends
    only on its start."""
    with inputs.open_unpacked(path, in_parts=True) as file:
        num = start
        while num > 0 and (skipped := file.read(min(num, _PART))):
            num -= len(skipped)
        # without a byte order mark
        content, after, is_last = b"", start, False
        if start == 0 and (mark := file.read(len(BOM_UTF8))) == BOM_UTF8:
            after = len(mark)
        elif start == 0:
            content = mark
        while not is_last:
            # fill up a part, or double one that could not be cut
            wanted = _PART - len(content) if len(content) < _PART else len(content)
            if len(content) >= _MAX_LINE:
                raise _uncuttable(str(path))
            new = file.read(wanted)
            content, is_last = content + new, len(new) < wanted
            if not content:  # an empty file, or one whose last part was read before
                return
            # yield whole pieces; the last piece may go on in the next part
            texts = subwords.pieces_of_text(
                _whole_characters(content, path, after, is_last), _PART // 2
            )
            texts = texts if is_last else texts[:-1]
            num = sum(len(each.encode()) for each in texts)
            content, after = content[num:], after + num
            if texts:
                yield Part(texts, [False] * (len(texts) - 1) + [is_last], after)


def _whole_characters(content: bytes, path: Path, offset: int, is_last: bool) -> str:
    """Decode bytes as UTF-8, without an incomplete character at the end."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if not is_last and error.start > len(content) - 4:
            return content[: error.start].decode("utf-8")
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset "
            f"{offset + error.start:,}; convert it first, e.g. with iconv"
        ) from error


def _parquet_parts(path: Path, start: int, field: str) -> Iterator[Part]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError(
            f"{path}: Parquet is read by pyarrow; {install_command('parquet')}"
        ) from error
    after = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            # a column of texts
            schema = file.schema_arrow
            if field not in schema.names:
                names = ", ".join(schema.names)
                raise ValueError(f"{path} has no column '{field}'; it has {names}; see --field")
            kind = " ".join(str(schema.field(field).type).split())
            is_text = kind in ("string", "large_string", "string_view", "null")
            if not is_text and "dictionary<values=string" not in kind:
                raise ValueError(
                    f"{path}: column '{field}' holds {kind}, not texts; write every row as one "
                    "text (a chat: by its template) in a column of its own, and name it by --field"
                )
            # its rows, from the start on
            for batch in file.iter_batches(_ROWS, columns=[field]):
                begin, after = after, after + batch.num_rows
                if begin >= start:
                    texts = [text for text in batch.column(0).to_pylist() if text]
                    yield Part(texts, [True] * len(texts), after, batch.num_rows - len(texts))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {error}; copy it anew") from error


def tokenize(options: Namespace) -> None:
    """Run ``data tokenize``; see its help.

    Raises ``ValueError`` for a folder that holds other ids, finished or not, for options that
    contradict the files, and for unreadable text; ``FileNotFoundError`` for a missing file.
    """
    # the files and an empty folder
    files = [Path(name) for name in options.files]
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"no text file at {file.absolute()}")
    if options.shard_tokens < 1:
        raise ValueError(f"--shard-tokens {options.shard_tokens}: expected at least 1")
    folder = Path(options.out)
    if (folder / META).exists():
        raise ValueError(f"--out {folder} holds the ids of a text already; give another folder")
    work = _Work(folder, files, options)
    work.run()
    print(work.summary())


class _Work:
    """One run of the command, from the beginning or from an interruption.

    ``state``: settings, counts and finished shards, which are written after every shard.
    """

    def __init__(self, folder: Path, files: Sequence[Path], options: Namespace) -> None:
        self.folder, self.files, self.options = folder, files, options
        self.state = self._interrupted() or self._new()
        self.vocabulary = text_vocabulary_of(self.state)
        self.kind = dtype_of_ids(self.vocabulary.vocab_size)
        self.unknown: Counter[str] = Counter(self.state["unknown"])

    def run(self) -> None:
        """Write shards, each followed by the state, then ``meta.json``."""
        # the tokenizer, so that the folder is complete
        if isinstance(self.vocabulary, SubwordVocabulary):
            write_text(self.folder / TOKENIZER, subwords.unpack_tokenizer(self.vocabulary.state))
        sizes = [file.stat().st_size for file in self.files]
        with progress.task("tokenizing", sum(sizes) / 1e6, "MB") as task:
            shard = _Shard()
            for number, part in self._parts(*self.state["at"]):
                # ids of the part, and counts of what is in it
                self.unknown.update(self.vocabulary.unknown(part.texts))
                ids, ends = encode_part(self.vocabulary, part)
                shard.ends += [shard.num + end for end in ends]
                shard.ids.append(ids.astype(self.kind))
                shard.num += len(ids)
                self.state["num_nulls"] += part.num_nulls
                self.state["num_characters"] += sum(map(len, part.texts))
                self.state["num_bytes"] += sum(len(text.encode()) for text in part.texts)
                task.reach(sum(sizes[:number]) / 1e6 + min(part.after, sizes[number]) / 1e6)
                task.note = f"{self.state['num_tokens'] + shard.num:,} tokens"
                if shard.num >= self.options.shard_tokens:
                    self._write(shard, number, part.after)
                    shard = _Shard()
            if shard.num:
                self._write(shard, len(self.files), 0)
        # the files must be those that were read
        if (asked := self._request()) != self.state["asked"]:
            pairs = zip(self.files, asked["files"], self.state["asked"]["files"], strict=True)
            grown = next(str(file) for file, now, before in pairs if now != before)
            raise ValueError(
                f"{grown} changed while it was read; remove --out {self.folder}, and tokenize again"
            )
        # nothing was written
        if not self.state["num_tokens"]:
            raise ValueError(f"{', '.join(map(str, self.files))}: no text in there")
        # meta data without the state of the work
        digests = "".join(each["sha256"] for each in self.state["shards"])
        meta = {k: v for k, v in self.state.items() if k not in ("asked", "at", "tokenizer_state")}
        meta |= {"format": 1, "digest": hashlib.sha256(digests.encode()).hexdigest()[:16]}
        write_text(self.folder / META, json.dumps(meta, ensure_ascii=False, indent=1) + "\n")
        (self.folder / _UNFINISHED).unlink(missing_ok=True)

    def summary(self) -> str:
        """Sentence on the number of ids written, and of characters and rows left out."""
        state, unknown = self.state, sum(self.unknown.values())
        per_token = state["num_bytes"] / state["num_tokens"]
        lost = f"; left out {counted(unknown, 'character')} without token" if unknown else ""
        if state["num_nulls"]:
            lost += f"; left out {counted(state['num_nulls'], 'row')} without a text"
        inexact = "" if state["exact"] else "; decoding does not give the text back exactly"
        return (
            f"{self.folder}: {state['num_tokens']:,} tokens of {state['num_bytes']:,} bytes "
            f"({per_token:.2f} each) in {counted(state['num_documents'], 'document')}, "
            f"{counted(len(state['shards']), 'file')} of {self.kind.name}{lost}{inexact}\n"
            f"Train on them: discrete-diffusion train data=token_files data.path={self.folder} "
            "algo.backbone=dit"
        )

    def _request(self) -> dict[str, Any]:
        """Files and settings, which an interrupted run must have again when it is resumed."""
        names = ("tokenizer", "field", "documents", "shard_tokens")
        files = [[file.name, file.stat().st_size] for file in self.files]
        return {"files": files, **{name: getattr(self.options, name) for name in names}}

    def _interrupted(self) -> dict[str, Any] | None:
        # the state of an interrupted run
        path = self.folder / _UNFINISHED
        if not path.exists():
            return None
        state: dict[str, Any] = json.loads(path.read_text("utf-8"))
        # which has to be the same run
        if state["asked"] != self._request():
            raise ValueError(
                f"--out {self.folder} holds a part of other files or settings; give another "
                "folder, or remove it"
            )
        logger.info("going on after %s tokens", f"{state['num_tokens']:,}")
        return state

    def _new(self) -> dict[str, Any]:
        # the tokenizer, perhaps trained on the files
        keys = _UNNAMED | named_tokenizer(self.options.tokenizer, self._texts)
        if keys["token_unit"] == "characters" and keys["characters"] is None:
            used: set[str] = set()
            for text in self._texts():
                used |= set(text)
            keys["characters"] = TextVocabulary.from_text("".join(sorted(used))).characters
        # decoding is tried on the first text
        vocabulary = text_vocabulary_of(keys)
        names = ("num_tokens", "num_documents", "num_characters", "num_bytes", "num_nulls")
        counts = dict.fromkeys(names, 0)
        first = next((part.texts[0] for _, part in self._parts(0, 0) if part.texts), "")
        return {
            "asked": self._request(),
            "at": [0, 0],
            **keys,
            "exact": vocabulary.is_exact(first),
            "meaning": token_files.meaning_digest(vocabulary.meaning),
            "dtype": dtype_of_ids(vocabulary.vocab_size).str,
            "bos_id": vocabulary.bos_id,
            "eos_id": vocabulary.eos_id,
            **counts,
            "unknown": {},
            "shards": [],
        }

    def _texts(self) -> Iterator[str]:
        """Yield the whole text, or as much of it as a new tokenizer is trained on."""
        # training a tokenizer takes only a part of the text
        num, most = 0, _MAX_TRAINING if self.options.tokenizer.startswith("bpe:") else None
        with progress.task("reading the text") as task:
            for _, part in self._parts(0, 0):
                for text in part.texts:
                    num += len(text)
                    yield text
                task.note = f"{num / 1e6:,.0f} million characters"
                if most is not None and num > most:
                    logger.info("the tokenizer is trained on the first %s characters", f"{num:,}")
                    return

    def _parts(self, first: int, start: int) -> Iterator[tuple[int, Part]]:
        """Yield file number and part, from offset ``start`` of file number ``first`` on."""
        options = {"field": self.options.field, "documents": self.options.documents}
        for number in range(first, len(self.files)):
            begin = start if number == first else 0
            for part in parts_of(self.files[number], begin, **options):
                yield number, part

    def _write(self, shard: _Shard, number: int, after: int) -> None:
        """Write a shard, then the state: reading resumes at offset ``after`` of file ``number``."""
        path = self.folder / f"tokens-{len(self.state['shards']):05}.bin"
        ids = np.concatenate(shard.ids)
        # the ends first: a shard counts once its ids are there
        with (
            atomic_write(token_files.documents_file(path)) as unfinished,
            unfinished.open("wb") as file,
        ):
            np.save(file, np.array(shard.ends, np.int64))
        with atomic_write(path) as unfinished:
            ids.tofile(unfinished)
        # the shard is finished
        shape = {"file": path.name, "tokens": shard.num, "documents": len(shard.ends)}
        digest = hashlib.sha256(ids.tobytes()).hexdigest()
        self.state["shards"].append(shape | {"sha256": digest})
        self.state["num_tokens"] += shard.num
        self.state["num_documents"] += len(shard.ends)
        # where to resume
        self.state |= {"at": [number, after], "unknown": dict(self.unknown)}
        write_text(self.folder / _UNFINISHED, json.dumps(self.state, ensure_ascii=False))


@dataclass
class _Shard:
    """Ids to be written, ``num`` in total, and the positions after which documents end."""

    ids: list[np.ndarray] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    num: int = 0

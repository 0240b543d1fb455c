"""``data tokenize``: encode text files into a folder of ids."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.config.values import counted
from discrete_diffusion.domains.text import token_files
from discrete_diffusion.domains.text.build import named_tokenizer
from discrete_diffusion.domains.text.corpus_files import Part, encode_part, parts_of
from discrete_diffusion.domains.text.subwords import SubwordVocabulary, unpack
from discrete_diffusion.domains.text.token_files import META, TOKENIZER, dtype_of_ids
from discrete_diffusion.domains.text.vocabulary import TextVocabulary, text_vocabulary_of
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import atomic_write, write_text

logger = logging.getLogger(__name__)

_UNFINISHED = f"{META}.unfinished"
_MAX_TRAINING = 1 << 28
"""Most characters that a tokenizer is trained on."""

_UNNAMED = {"tokens": "characters", "characters": None, "tokenizer_state": None}


def tokenize(options: argparse.Namespace) -> None:
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

    def __init__(self, folder: Path, files: Sequence[Path], options: argparse.Namespace) -> None:
        self.folder, self.files, self.options = folder, files, options
        self.state = self._interrupted() or self._new()
        self.vocabulary = text_vocabulary_of(self.state)
        self.kind = dtype_of_ids(self.vocabulary.vocab_size)
        self.unknown: Counter[str] = Counter(self.state["unknown"])

    def run(self) -> None:
        """Write shards, each followed by the state, then ``meta.json``."""
        # the tokenizer, so that the folder is complete
        if isinstance(self.vocabulary, SubwordVocabulary):
            write_text(self.folder / TOKENIZER, unpack(self.vocabulary.state))
        sizes = [file.stat().st_size for file in self.files]
        with progress.task("tokenizing", sum(sizes) / 1e6, "MB") as task:
            shard = _Shard()
            for number, part in self._parts(*self.state["at"]):
                self._encode(part, shard)
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
        """Sentence on the ids written, and on characters and rows left out."""
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
            f"Train on them: discrete-diffusion train data=tokens data.path={self.folder} "
            "algo.backbone=dit"
        )

    def _request(self) -> dict[str, Any]:
        """Files and settings, which must be the same when an interrupted run is resumed."""
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
        if keys["tokens"] == "characters" and keys["characters"] is None:
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
        """Yield all text, or as much as a tokenizer is trained on."""
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
        """Yield each part with the number of its file, from ``start`` of file ``first`` on."""
        options = {"field": self.options.field, "documents": self.options.documents}
        for number in range(first, len(self.files)):
            begin = start if number == first else 0
            for part in parts_of(self.files[number], begin, **options):
                yield number, part

    def _encode(self, part: Part, shard: _Shard) -> None:
        self.unknown.update(self.vocabulary.unknown(part.texts))
        ids, ends = encode_part(self.vocabulary, part)
        shard.ends += [shard.num + end for end in ends]
        shard.ids.append(ids.astype(self.kind))
        shard.num += len(ids)
        self.state["num_nulls"] += part.num_nulls
        self.state["num_characters"] += sum(map(len, part.texts))
        self.state["num_bytes"] += sum(len(text.encode()) for text in part.texts)

    def _write(self, shard: _Shard, number: int, after: int) -> None:
        """Write a shard, then the state: reading goes on at ``after`` in file ``number``."""
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
    """Ids to be written, ``num`` in all, and the ends of their documents."""

    ids: list[np.ndarray] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    num: int = 0

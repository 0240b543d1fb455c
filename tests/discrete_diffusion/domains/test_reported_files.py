"""Files as people have them, under any name: read as what they are, or refused as what they are."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.domains.molecules.molecule import sanitised, smiles_of
from discrete_diffusion.domains.molecules.reading import read_molecules
from discrete_diffusion.domains.text.token_files import TokenFiles


@pytest.fixture(scope="session")
def cases(real_data) -> Path:
    folder = real_data / "public_cases"
    if not folder.is_dir():
        pytest.skip("no public_cases")
    return folder


def tokenized(path: Path, out: Path, tokenizer: str = "bytes", **options: str) -> dict:
    """``meta.json`` of ``data tokenize``."""
    more = [word for key, value in options.items() for word in (f"--{key}", value)]
    main(["data", "tokenize", str(path), "--tokenizer", tokenizer, "--out", str(out), *more])
    return json.loads((out / "meta.json").read_text())


@pytest.mark.parametrize(
    ("name", "options"),
    [("c4-train.00000.json.gz", {}), ("docs.jsonl.xz", {"field": "content"})],
)
def test_json_lines_under_any_name_and_compression(cases, tmp_path, name, options):
    meta = tokenized(cases / "text" / name, tmp_path / "ids", **options)
    assert (meta["num_documents"], meta["num_tokens"]) == (60, 8750)


def test_a_column_of_lists_is_one_sentence(cases, tmp_path, capsys):
    with pytest.raises(SystemExit):
        tokenized(cases / "text" / "chat.parquet", tmp_path / "ids")
    (said,) = capsys.readouterr().err.splitlines()
    for word in ("chat.parquet", "column 'text'", "list<", "--field"):
        assert word in said


def test_an_end_of_text_in_a_text_is_one_id(cases, tmp_path):
    meta = tokenized(cases / "text" / "eot.txt", tmp_path / "ids", "bpe:300")
    files = TokenFiles.of(tmp_path / "ids")
    ids = files.read(0, len(files))
    assert np.count_nonzero(ids == meta["eos_id"]) == 60  # 59 of the text, and its end
    assert meta["num_documents"] == 60
    assert (
        files.document_ends(None).tolist() == (np.flatnonzero(ids == meta["eos_id"]) + 1).tolist()
    )


def test_ids_of_four_bytes_are_read_as_such(cases):
    path = cases / "tokens" / "int32.bin"
    files = TokenFiles.of(path)
    assert files.read(0, len(files)).tolist() == np.fromfile(path, "<i4").tolist()
    assert (len(files), files.largest()) == (4000, 50255)


def test_a_damaged_index_of_megatron_is_named(cases):
    with pytest.raises(ValueError, match=r"my_text_document\.idx is damaged: .*type of ids 0"):
        TokenFiles.of(cases / "tokens" / "megatron")


def test_sdf_is_read_as_sdf(cases):
    found = read_molecules(cases / "molecules" / "m.sdf")
    listed = read_molecules(cases / "molecules" / "ref.smi")
    assert len(found) == 10
    assert [smiles_of(sanitised(m)) for m in found.molecules] == [
        smiles_of(sanitised(m)) for m in listed.molecules[:10]
    ]


def saved(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "x")
    return out.getvalue()


SPLIT = "data.split=[0.5,0.25,0.25]"
LINE = b"a line of some text\n"
RIGHT = {
    ("text", "a.txt.bz2", bz2.compress(20 * LINE)): 27,  # 13, 7, 7 windows of 200, 100, 100
    ("text", "crlf.txt", 20 * LINE.replace(b"\n", b"\r\n")): 28,
    ("tokens", "big_endian.npy", saved(np.arange(1600, dtype=">i4") % 99)): 100,
    ("tokens", "wide.npy", saved(np.arange(1600) % 99)): 100,
    ("graphs", "quoted.csv", b'"source","target"\n"1","2"\n'): 1,
    ("graphs", "semicolons.csv", b"source;target\n1;2\n2;3\n"): 1,
    ("graphs", "twice.edges", b"1 2\n2 1\n1 2\n"): 1,
    ("graphs", "header.g6", b">>graph6<<C~\nD??\n"): 2,
    ("molecules", "table.csv", b"smiles,logp\nCCO,1\nCCC,2\n"): 2,
}
"""(kind of data, name, content) -> samples."""

REFUSED = {
    ("text", "documents.txt", 9 * b'{"text": "abc"}\n'): ["JSON lines", "data tokenize"],
    ("text", "a.txt", zipped()): ["ZIP", "unpack"],
    ("text", "wide.txt", "hello\n".encode("utf-16")): ["UTF-16", "UTF-8"],
    ("text", "twice.txt.gz", gzip.compress(gzip.compress(LINE))): ["compressed", "unpack"],
    ("text", "cut.txt.xz", lzma.compress(999 * LINE)[:60]): ["damaged xz"],
    ("tokens", "table.npy", saved(np.ones((20, 30), int))): ["int64[20, 30]", "Int[N]"],
    ("tokens", "shares.npy", saved(np.ones(60))): ["float64[60]", "Int[N]"],
    ("tokens", "below.npy", saved(np.array(90 * [3, -1]))): ["id -1 at place 1"],
    ("tokens", "objects.npy", saved(np.array([{}] * 9))): ["objects.npy", "objects"],
    ("graphs", "measured.csv", b"smiles,logp\nCCO,1\nCCC,2\n"): ["line 1", "header"],
    ("graphs", "loop.csv", b"source,target\n1,1\n"): ["line 2", "node 1"],
    ("graphs", "one_way.npy", saved(np.array([[0, 1], [0, 0]]))): ["directed", "[0, 1]"],
    ("graphs", "one_way.g6", b"&C?\n"): ["line 1", "directed"],
    ("graphs", "nodes.csv", b"Id,Label\n1,a\n2,b\n"): ["table of nodes", "table of edges"],
    ("molecules", "a.smi", zipped()): ["ZIP", "unpack"],
    ("molecules", "other.csv", b"id,structure\n1,CCO\n"): ["structure", "data.column"],
}
"""(kind of data, name, content) -> what the sentence names."""


def built(kind: str, path: Path) -> int:
    """Number of samples of a file that ``data.path`` names."""
    words = [f"data={kind}", f"data.path={path}", SPLIT]
    words += ["data.length=16"] if kind in ("text", "tokens") else []
    data = build_data(complete_data(compose("train", words)))
    return sum(map(len, data.splits.values()))


@pytest.mark.filterwarnings("ignore:.*not writable")
@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case[1])
def test_a_file_is_read_as_what_it_is(case, tmp_path):
    kind, name, content = case
    (tmp_path / name).write_bytes(content)
    assert built(kind, tmp_path / name) == RIGHT[case]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_a_file_is_refused_as_what_it_is(case, tmp_path):
    kind, name, content = case
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(name)) as refused:
        built(kind, tmp_path / name)
    for word in REFUSED[case]:
        assert word in str(refused.value)


@pytest.mark.parametrize("kind", ["text", "graphs", "molecules"])
def test_a_pipe_is_not_waited_for(kind, tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"pipe\.txt.*write it into a file"):
        built(kind, tmp_path / "pipe.txt")

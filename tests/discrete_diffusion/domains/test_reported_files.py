"""Files as people have them, under any name: read as what they are, or refused as what they are."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.domains.graphs.readers import read_graphs
from discrete_diffusion.domains.molecules.molecule import sanitised, smiles_of
from discrete_diffusion.domains.molecules.reading import read_molecules
from discrete_diffusion.domains.text import corpus_files
from discrete_diffusion.domains.text.corpus_files import parts_of
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.runtime import inputs


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


def test_ids_with_an_index_are_refused(cases):
    with pytest.raises(ValueError, match=r"my_text_document\.idx, which is not read"):
        TokenFiles.of(cases / "tokens" / "megatron")


def test_sdf_is_read_as_sdf(cases):
    found = read_molecules(cases / "molecules" / "m.sdf")
    listed = read_molecules(cases / "molecules" / "ref.smi")
    assert len(found) == 10
    assert [smiles_of(sanitised(m)) for m in found.molecules] == [
        smiles_of(sanitised(m)) for m in listed.molecules[:10]
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("gephi", "nodes.*is a table of nodes"), ("ogb_small", "of the raw files of OGB")],
)
def test_graphs_in_several_tables_are_refused(cases, name, reason):
    with pytest.raises(ValueError, match=reason):
        read_graphs(cases / "graphs" / name)


def saved(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "x")
    return out.getvalue()


def npz_of(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def npz(**arrays: object) -> bytes:
    return npz_of(**{name: saved(np.asarray(array)) for name, array in arrays.items()})


def claiming(num: int) -> bytes:
    """A file of few bytes whose header says that it holds ``num`` numbers."""
    out = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (num,)}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + bytes(99)


def locked(archive: bytes) -> bytes:
    """A ZIP archive that says that its one member is encrypted."""
    found = bytearray(archive)
    found[6] |= 1
    found[found.find(b"PK\x01\x02") + 8] |= 1
    return bytes(found)


def sparse(num: int) -> bytes:
    out = io.BytesIO()
    save_npz(out, csr_matrix((num, num)))
    return out.getvalue()


SPLIT = "data.split=[0.5,0.25,0.25]"
LINE = b"a line of some text\n"
BOMB = gzip.compress((1 << 20) * b"1 2\n")
GRAPH = b'{"n":2,"edges":[[0,1]]}\n'
GRAPHML = (
    b'<?xml version="1.0"?><graphml><graph edgedefault="undirected"><node id="a"/><node id="b"/>'
    b'<edge source="a" target="b"/></graph></graphml>'
)
PAIR = saved(np.array([[0, 1], [1, 0]]))
RIGHT = {
    ("text", "a.txt.bz2", bz2.compress(20 * LINE)): 27,  # 13, 7, 7 windows of 200, 100, 100
    ("text", "crlf.txt", 20 * LINE.replace(b"\n", b"\r\n")): 28,
    ("token_files", "big_endian.npy", saved(np.arange(1600, dtype=">i4") % 99)): 100,
    ("token_files", "wide.npy", saved(np.arange(1600) % 99)): 100,
    ("graphs", "quoted.csv", b'"source","target"\n"1","2"\n'): 1,
    ("graphs", "semicolons.csv", b"source;target\n1;2\n2;3\n"): 1,
    ("graphs", "twice.edges", b"1 2\n2 1\n1 2\n"): 1,
    ("graphs", "header.g6", b">>graph6<<C~\nD??\n"): 2,
    ("molecules", "table.csv", b"smiles,logp\nCCO,1\nCCC,2\n"): 2,
    ("molecules", "macs.csv", b"smiles,logp\rCCO,1\rCCC,2\r"): 2,
    ("graphs", "fortran.npy", saved(np.asfortranarray([[0, 1], [1, 0]]))): 1,
}
"""(kind of data, name, content) -> samples."""

REFUSED = {
    ("text", "documents.txt", 9 * b'{"text": "abc"}\n'): ["JSON lines", "data tokenize"],
    ("text", "a.txt", zipped()): ["ZIP", "unpack"],
    ("text", "wide.txt", "hello\n".encode("utf-16")): ["UTF-16", "UTF-8"],
    ("text", "twice.txt.gz", gzip.compress(gzip.compress(LINE))): ["compressed", "unpack"],
    ("text", "cut.txt.xz", lzma.compress(999 * LINE)[:60]): ["damaged xz"],
    ("token_files", "table.npy", saved(np.ones((20, 30), int))): ["int64[20, 30]", "Int[N]"],
    ("token_files", "shares.npy", saved(np.ones(60))): ["float64[60]", "Int[N]"],
    ("token_files", "below.npy", saved(np.array(90 * [3, -1]))): ["id -1 at place 1"],
    ("token_files", "objects.npy", saved(np.array([{}] * 9))): ["objects.npy", "objects"],
    ("graphs", "measured.csv", b"smiles,logp\nCCO,1\nCCC,2\n"): ["line 1", "header"],
    ("graphs", "loop.csv", b"source,target\n1,1\n"): ["line 2", "node 1"],
    ("graphs", "one_way.npy", saved(np.array([[0, 1], [0, 0]]))): ["directed", "[0, 1]"],
    ("graphs", "one_way.g6", b"&C?\n"): ["line 1", "directed"],
    ("graphs", "nodes.csv", b"Id,Label\n1,a\n2,b\n"): ["table of nodes", "table of edges"],
    ("molecules", "a.smi", zipped()): ["ZIP", "unpack"],
    ("molecules", "other.csv", b"id,structure\n1,CCO\n"): ["structure", "data.column"],
    ("text", "bomb.txt.gz", BOMB): ["more than", "unpacked", "split it"],
    ("graphs", "bomb.edges.gz", BOMB): ["more than", "unpacked"],
    ("token_files", "wide_id.npy", saved(np.array(90 * [3, 2**31]))): ["2,147,483,648", "place 1"],
    ("token_files", "overflow.npy", claiming(1 << 70)): ["not a .npy"],
    ("token_files", "cut.npz", npz(a=np.eye(99))[:900]): ["damaged", "copy it anew"],
    ("graphs", "claim.npy", claiming(1 << 40)): ["is not a file of arrays"],
    ("graphs", "claim.npz", npz_of(a=claiming(1 << 40))): ["is not a file of arrays"],
    ("graphs", "twice.npz", npz_of(a=PAIR, A=PAIR).replace(b"A.npy", b"a.npy")): ["a.npy twice"],
    ("graphs", "locked.npz", locked(npz(a=np.eye(2)[::-1]))): ["encrypted"],
    ("graphs", "parts.npz", npz(format="csr", shape=[2, 2], data=[1])): ["indices"],
    ("graphs", "many.npz", sparse(10**6)): ["more than 4,096 nodes"],
    ("graphs", "utf16.csv", "source,target\n1,2\n".encode("utf-16-be")): ["not text"],
    ("graphs", "deep.jsonl", GRAPH + 99_999 * b"[" + b"\n"): ["line 2", "nested too deeply"],
    ("graphs", "again.jsonl", GRAPH + b'{"n":2,"edges":[],"n":3}\n'): [
        "line 2",
        "key 'n'",
        "twice",
    ],
    ("graphs", "digits.edges", b"0 " + 5_000 * b"9" + b"\n"): ["limit"],
    ("graphs", "digits.txt", b"N=1\nX:\n" + 99 * b"9" + b"\nE:\n0\n"): ["line 3", "whole numbers"],
    ("graphs", "quote.csv", b'source,target\n1,"2\n2,3\n'): ["line 2", "quote"],
    ("graphs", "long_quote.csv", b'source,target\n1,"2\n' + 30_000 * b"2,34\n"): [
        "line 2",
        "quote",
    ],
    ("graphs", "ghost.graphml", GRAPHML.replace(b'target="b"', b'target="c"')): ["node c"],
    ("graphs", "node.graphml", GRAPHML.replace(b'<node id="b"/>', 2 * b'<node id="b"/>')): [
        "node b"
    ],
    ("graphs", "many.g6", b":~~~~~~~~~\n"): ["line 1", "more than 4,096"],
    ("molecules", "names.csv", b'smiles,name\nCCO,"a\nCCC,b\n'): ["line 2", "quote"],
    ("molecules", "long.csv", b'smiles,name\nC,"a\n' + 30_000 * b"CC,b\n"): ["line 2", "quote"],
}
"""(kind of data, name, content) -> what the sentence names."""


def built(kind: str, path: Path) -> int:
    """Number of samples of a file that ``data.path`` names."""
    words = [f"data={kind}", f"data.path={path}", SPLIT]
    words += ["data.length=16"] if kind in ("text", "token_files") else []
    data = build_data(complete_data(compose("train", words)))
    return sum(map(len, data.splits.values()))


@pytest.mark.filterwarnings("ignore:.*not writable")
@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case[1])
def test_a_file_is_read_as_what_it_is(case, tmp_path):
    kind, name, content = case
    (tmp_path / name).write_bytes(content)
    assert built(kind, tmp_path / name) == RIGHT[case]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_a_file_is_refused_as_what_it_is(case, tmp_path, monkeypatch):
    kind, name, content = case
    monkeypatch.setattr(inputs, "MOST_UNPACKED", 1 << 20)
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


@pytest.mark.parametrize("documents", ["line", "file"])
def test_a_file_without_line_ends_is_refused_before_it_fills_memory(
    documents, tmp_path, monkeypatch
):
    monkeypatch.setattr(corpus_files, "_MAX_LINE", 1 << 22)
    (tmp_path / "one.txt.gz").write_bytes(gzip.compress(b"a" * (1 << 24)))
    with pytest.raises(ValueError, match=r"one\.txt\.gz.*without an end of a line.*cut the text"):
        list(parts_of(tmp_path / "one.txt.gz", 0, field="text", documents=documents))


def test_text_of_a_damaged_file_is_named(tmp_path, capsys):
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(os.urandom(1 << 20).hex().encode())[:-30])
    with pytest.raises(SystemExit):
        tokenized(tmp_path / "cut.txt.gz", tmp_path / "ids")
    assert re.search(r"cut\.txt\.gz is a damaged gzip file.*copy it", capsys.readouterr().err)


def test_a_line_of_any_length_is_json_lines_by_its_name(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + (1 << 25) * b"a" + b'"}\n')
    assert tokenized(tmp_path / "a.jsonl", tmp_path / "ids")["num_bytes"] == 1 << 25


def test_a_file_that_grows_while_it_is_tokenized_is_named(tmp_path, monkeypatch, capsys):
    path = tmp_path / "log.txt"
    path.write_bytes(LINE)

    def growing(*arguments, **options):
        yield from parts_of(*arguments, **options)
        with path.open("ab") as file:
            file.write(LINE)

    monkeypatch.setattr(corpus_files, "parts_of", growing)
    with pytest.raises(SystemExit):
        tokenized(path, tmp_path / "ids")
    assert re.search(r"log\.txt changed.*remove --out", capsys.readouterr().err)


def test_a_link_to_nothing_is_named(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(GRAPH)
    (tmp_path / "b.jsonl").symlink_to("gone.jsonl")
    with pytest.raises(FileNotFoundError, match=r"b\.jsonl is a link to nothing"):
        built("graphs", tmp_path)


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        (100_000 * "C", "100,000 characters"),
        (600 * "C", "600 atoms"),
        ("[C-200]", "a charge of"),
        ("[CH99999999]", "cannot be sanitised"),
    ],
    ids=["characters", "atoms", "charge", "hydrogens"],
)
def test_a_molecule_beyond_bounds_is_a_row_that_is_left_out(smiles, reason, tmp_path):
    (tmp_path / "a.smi").write_text(f"CCO\n{smiles}\nCC\n")
    found = read_molecules(tmp_path / "a.smi")
    ((line, why),) = found.problems
    assert (len(found), line) == (2, 2)
    assert reason in why


def test_a_name_that_is_no_text_is_printed(tmp_path):
    path = os.fsencode(tmp_path) + b"/a\xff.jsonl"
    Path(os.fsdecode(path)).write_bytes(GRAPH)
    done = subprocess.run(
        [sys.executable, "-m", "discrete_diffusion", "data", "graphs", path],
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"\\udcff.jsonl: 1 graph" in done.stdout

"""Files as people have them, under any name: read as what they are, or refused as what they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from discrete_diffusion.cli import main
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

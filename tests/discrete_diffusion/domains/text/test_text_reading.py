"""Text files and their documents: what is read, and the sentence for each that cannot be."""

from __future__ import annotations

import gzip
from codecs import BOM_UTF8

import pytest

from discrete_diffusion.data.files import read_text
from discrete_diffusion.domains.text import corpus_files
from discrete_diffusion.domains.text.build import embedded_text
from discrete_diffusion.domains.text.corpus_files import parts_of
from discrete_diffusion.domains.text.report import write_texts

CONTENT = "Ein Jäger\r\naus Kurpfalz,\n\ttab 漢字 🌲\n"


def test_plain_and_gzipped_files_hold_the_same_text(tmp_path):
    (tmp_path / "plain.txt").write_bytes(CONTENT.encode())
    (tmp_path / "small.gz").write_bytes(gzip.compress(CONTENT.encode()))
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbf" + CONTENT.encode())
    for name in ("plain.txt", "small.gz", "marked.txt"):
        assert read_text(tmp_path / name).text == CONTENT
    assert read_text(tmp_path / "plain.txt").name == str(tmp_path / "plain.txt")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"a\nb\xff\n", r"is not UTF-8: byte 0xff at offset 3 \(line 2\)"),
        ("Jäger".encode("latin-1"), r"byte 0xe4 at offset 1 \(line 1\)"),
        (gzip.compress(b"text" * 99, mtime=0)[:-9], "is a damaged gzip file"),
        (b"\x1f\x8b no gzip", "is a damaged gzip file"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_text(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="no text file at"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match="is a folder"):
        read_text(tmp_path)


def test_the_embedded_text_is_english_and_always_the_same():
    source = embedded_text()
    assert source == embedded_text()
    assert 300_000 < len(source.text) < 2_000_000
    assert source.text.count(" the ") > 1_000
    assert "pydoc_data.topics" in source.name


def test_written_texts_are_separated_by_a_line(tmp_path):
    path = tmp_path / "folder" / "samples.txt"
    write_texts(path, ["one\r\ntwo", "", "drei ä\x00"])
    content = path.read_bytes().decode()
    lines = content.split("\n")
    rules = [k for k, line in enumerate(lines) if line.startswith("---")]
    assert rules == [0, 3, 5]
    assert ["sample 1" in lines[0], "sample 3" in lines[5]] == [True, True]
    assert lines[1:3] == ["one\r", "two"]
    assert lines[6] == "drei ä\x00"


TEXT = "One line.\n\ufeffAnother, after a mark that is text.\n" + "More words. " * 20


@pytest.mark.parametrize("documents", ["file", "line"])
@pytest.mark.parametrize("size", [1 << 22, 40])
def test_a_byte_order_mark_at_the_beginning_is_no_text(documents, size, tmp_path, monkeypatch):
    """Wherever the file is read on from."""
    monkeypatch.setattr(corpus_files, "_PART", size)
    path = tmp_path / "a.txt"
    found = []
    for content in (TEXT.encode(), BOM_UTF8 + TEXT.encode()):
        path.write_bytes(content)
        parts = [*parts_of(path, 0, field="text", documents=documents)]
        for number, part in enumerate(parts, 1):
            again = [*parts_of(path, part.after, field="text", documents=documents)]
            assert again == parts[number:]
        found.append("\n".join(text for part in parts for text in part.texts))
    assert found[0] == found[1]
    assert "\ufeffAnother" in found[0]


@pytest.mark.parametrize("content", [b"", BOM_UTF8])
def test_a_file_without_text_has_no_document(content, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    assert [*parts_of(tmp_path / "a.txt", 0, field="text", documents="file")] == []


def test_half_a_surrogate_pair_is_named_with_its_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "whole"}\n{"text": "half \\ud83d"}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: character 6 is '\\ud83d', half"):
        [*parts_of(path, 0, field="text", documents="line")]

"""Documents of files that are to be tokenized."""

from __future__ import annotations

from codecs import BOM_UTF8

import pytest

from discrete_diffusion.domains.text import corpus_files
from discrete_diffusion.domains.text.corpus_files import parts_of

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

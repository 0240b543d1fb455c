"""``data=text``: windows, splits, the completed config, and what is refused."""

from __future__ import annotations

import gzip
import re
from codecs import BOM_UTF8
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.data import BatchStream, SplitBatches
from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.files import read_text
from discrete_diffusion.domains import build_data, build_layout, complete_data
from discrete_diffusion.domains.text import corpus_files
from discrete_diffusion.domains.text.build import embedded_text
from discrete_diffusion.domains.text.corpus_files import parts_of
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.report import write_texts
from discrete_diffusion.domains.text.vocabulary import TextVocabulary
from discrete_diffusion.layout import TokenLayout

NUMBERED = "".join(f"line {k} of the text\n" for k in range(40))


def text_config(**values) -> DictConfig:
    data = OmegaConf.load(shipped_files("data")["text"])
    return OmegaConf.create({"data": OmegaConf.merge(data, values)})


def built(**values) -> TextDataset:
    data = build_data(complete_data(text_config(**values)))
    assert isinstance(data, TextDataset)
    return data


@pytest.fixture
def numbered(tmp_path):
    path = tmp_path / "numbered.txt"
    path.write_text(NUMBERED)
    return str(path)


@given(num=st.integers(0, 40), length=st.integers(1, 9))
def test_windows_hold_every_token_once_in_order(num, length):
    vocabulary = TextVocabulary.from_text("abc")
    layout = TokenLayout.flat(length, 5, mask_id=3, pad_id=4)
    ids = np.arange(num, dtype=np.int64) % 3
    data = TextDataset(
        {"train": ids, "val": ids[:0], "test": ids[:1]}, vocabulary, layout=layout, source="here"
    )
    train = data.splits["train"]
    assert train.x0.shape == (-(-num // length), length)
    assert train.x0[train.real].tolist() == ids.tolist()
    layout.check(train.x0, train.real)
    assert not train.real.flatten()[num:].any()
    assert sum(k * count for k, count in enumerate(data.size_counts())) == num
    assert sum(data.size_counts()) == len(train)
    assert torch.equal(data.real_positions(train.real.sum(dim=1)), train.real)


@pytest.mark.parametrize("tokens", ["characters", "bytes"])
def test_splits_are_the_parts_of_the_file_in_order(numbered, tokens):
    data = built(path=numbered, length=16, split=[0.5, 0.25, 0.25], token_unit=tokens)
    parts = ["".join(data.texts(split)) for split in ("train", "val", "test")]
    assert "".join(parts) == NUMBERED
    assert [len(part) for part in parts] == [395, 197, 198]
    assert data.bound == "plain"
    for split, num in data.num_tokens.items():
        assert data.text_sizes(split) == (num, num)


def test_a_character_of_several_bytes_counts_once(tmp_path):
    (tmp_path / "umlauts.txt").write_text("äöü\n" * 50)
    data = built(
        path=f"{tmp_path}/umlauts.txt", token_unit="bytes", length=8, split=[0.6, 0.2, 0.2]
    )
    assert sum(data.num_tokens.values()) == 7 * 50
    assert sum(data.text_sizes(split)[0] for split in SPLITS) == 4 * 50
    assert sum(data.text_sizes(split)[1] for split in SPLITS) == 7 * 50


def test_training_steps_cut_some_rows_to_random_lengths(numbered):
    assert built(path=numbered, length=8, random_length=1).random_length == 1
    data = built(path=numbered, length=8, batch_size=32, random_length=0.25)
    whole = built(path=numbered, length=8, batch_size=32)
    stream = BatchStream(data, batch_size=32, seed=0)
    batches = [batch for _ in range(20) for batch in stream]
    # the first tokens of the rows that a stream without cuts has, then PAD
    uncut = BatchStream(whole, batch_size=32, seed=0)
    for batch, full in zip(batches, (b for _ in range(20) for b in uncut), strict=True):
        data.layout.check(batch.x0, batch.real)
        assert torch.equal(batch.x0[batch.real], full.x0[batch.real])
    # a quarter of the rows, of uniform lengths; three rows in 32 are cut to all of their tokens
    sizes = torch.cat([batch.real.sum(dim=1) for batch in batches])
    shares = torch.bincount(sizes, minlength=9) / len(sizes)
    assert torch.allclose(shares[1:8], torch.tensor(0.25 / 8), atol=0.015)
    assert shares[0] == 0
    # a resumed stream cuts alike, and held-out rows stay whole
    again = BatchStream(data, batch_size=32, seed=0)
    again.load_state_dict({"batches": 5})
    assert torch.equal(next(iter(again)).x0, batches[5].x0)
    for one, other in zip(
        *(SplitBatches(each, "val", batch_size=9, seed=0) for each in (data, whole)), strict=True
    ):
        assert torch.equal(one.x0, other.x0)
    assert data.fingerprint() == whole.fingerprint()


def test_the_completed_config_needs_no_file(numbered, tmp_path):
    config = text_config(path=numbered, length=16)
    completed = complete_data(config)
    assert config.data.characters is None  # the one given stays as it was
    assert complete_data(completed) == completed
    before = build_data(completed)
    (tmp_path / "numbered.txt").unlink()
    layout = build_layout(complete_data(completed).data)
    assert torch.equal(layout.support, before.layout.support)
    assert (layout.mask_id, layout.pad_id) == (len(set(NUMBERED)), len(set(NUMBERED)) + 1)
    assert layout.support[0].nonzero().flatten().tolist() == list(range(len(set(NUMBERED))))


def test_the_fingerprint_follows_text_tokens_and_windows(numbered, tmp_path):
    whole = built(path=numbered, length=16).fingerprint()
    (tmp_path / "copy.gz").write_bytes(gzip.compress(NUMBERED.encode()))
    assert built(path=f"{tmp_path}/copy.gz", length=16).fingerprint() == whole
    (tmp_path / "other.txt").write_text(NUMBERED.replace("0", "1", 1))
    (tmp_path / "shifted.txt").write_text(NUMBERED.replace("t", "u"))  # the same ids
    others = [
        built(path=f"{tmp_path}/shifted.txt", length=16),
        built(path=numbered, length=15),
        built(path=numbered, length=16, token_unit="bytes"),
        built(path=f"{tmp_path}/other.txt", length=16),
    ]
    assert whole not in {data.fingerprint() for data in others}
    assert torch.equal(others[0].splits["val"].x0, built(path=numbered, length=16).splits["val"].x0)


def test_a_file_for_each_split(tmp_path, caplog):
    texts = {"a": "abcabc\n" * 9, "b": "cab\n" * 9, "c": "bca\n" * 9, "d": "abc\nabé\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    a, b, c, d = (str(tmp_path / name) for name in texts)
    data = built(train_path=a, val_path=b, test_path=c, length=8)
    begins = ["".join(data.texts(split))[:4] for split in SPLITS]
    assert begins == ["abca", "cab\n", "bca\n"]
    assert len(built(train_path=a, val_path=b, length=8).splits["test"]) == 0
    lossy = built(train_path=a, val_path=d, length=4)
    assert "".join(lossy.texts("val")) == "abc\nab\n"
    assert all(word in caplog.text for word in (d, "1 character", "'é'"))
    assert built(train_path=a, val_path=d, length=4, token_unit="bytes")
    with pytest.raises(ValueError, match=r"d is 8 characters, .*smaller data\.length$"):
        built(train_path=a, val_path=d, length=16, characters="abcé\n")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"path": "nowhere.txt"}, r"/.*nowhere\.txt"),
        ({"characters": "lin"}, "line 1: the character 'e' .*data.characters"),
        ({"path": "a", "train_path": "b"}, "data.path or data.train_path and data.val_path"),
        ({"train_path": "a"}, "data.train_path=FILE and data.val_path=FILE together"),
        ({"test_path": "a"}, "data.train_path=FILE and data.val_path=FILE together"),
        ({"token_unit": "words"}, "unknown kind of token 'words'"),
        ({"split": [0.9, 0.2, 0.1]}, r"data.split=\[0.9, 0.2, 0.1\]"),
        ({"vocab_size": 9}, "data.vocab_size=9"),
        ({"random_length": 1.5}, r"data\.random_length=1\.5.*0 and 1"),
        ({"length": 100}, "the val share of .* is 39 characters, .*data.length=100.*data.split"),
    ],
)
def test_errors_are_one_sentence(numbered, values, sentence):
    separate = {"train_path", "test_path"} & set(values) and "path" not in values
    given = values if separate else {"path": numbered, **values}
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        built(**given)
    assert "\n" not in str(caught.value)


def test_the_example_of_the_page_on_text_runs(capsys):
    page = (Path(__file__).parents[4] / "docs" / "text.md").read_text()
    *_, block = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(block, "docs/text.md", "exec"), {})
    assert "train" in capsys.readouterr().out


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

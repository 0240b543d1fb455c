"""``data.tokens=ids``: tokens of a tokenizer elsewhere, read as numbers and kept as numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_text_data import text_config

from discrete_diffusion.domains import build_data, build_layout, complete_data
from discrete_diffusion.domains.registry import get_domain
from discrete_diffusion.domains.text.vocabulary import IdVocabulary

NUMBERS = np.arange(50) % 7


def built(**values):
    return build_data(complete_data(text_config(tokens="ids", length=4, **values)))


@pytest.mark.parametrize(
    ("name", "kind", "num"),
    [("a.npy", "<i8", 9), ("a.npy", "<u2", 9), ("a.bin", "<u2", 9), ("a.bin", "<u4", 70_000)],
)
def test_windows_are_the_numbers_of_the_file_in_order(name, kind, num, tmp_path):
    path, numbers = tmp_path / name, NUMBERS.astype(kind)
    np.save(path, numbers) if name == "a.npy" else numbers.tofile(path)
    data = built(path=str(path), vocab_size=num, split=[0.6, 0.2, 0.2])
    parts = [NUMBERS[:30], NUMBERS[30:40], NUMBERS[40:]]
    for split, part in zip(("train", "val", "test"), parts, strict=True):
        whole = part[: len(part) // 4 * 4].reshape(-1, 4)  # the rest fills no window
        assert data.splits[split].x0.tolist() == whole.tolist()
        assert data.splits[split].real.all()
    assert (data.layout.mask_id, data.layout.pad_id) == (num - 1, None)
    assert "rows of 4 ids" in data.summary()


def test_v_is_given_or_one_more_than_the_largest_id(tmp_path):
    np.save(tmp_path / "a.npy", NUMBERS)
    config = complete_data(text_config(tokens="ids", path=f"{tmp_path}/a.npy", length=4))
    assert (config.data.vocab_size, config.data.mask_id, config.data.pad_id) == (8, 7, None)
    (tmp_path / "a.npy").unlink()
    assert complete_data(config) == config  # which needs no file
    given = complete_data(text_config(tokens="ids", vocab_size=20, mask_id=3, length=4))
    support = build_layout(given.data).support
    assert support.shape == (4, 20)
    assert support[0].logical_not().nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "data.path=FILE.npy"),
        ({"path": "no.npy"}, r"no\.npy"),
        ({"path": "text.txt"}, r"text\.txt.*\.npy.*\.bin"),
        ({"path": "odd.bin"}, r"odd\.bin has 3 bytes"),
        ({"path": "floats.npy"}, r"floats\.npy holds float64"),
        ({"path": "damaged.npy"}, r"damaged\.npy is not a \.npy"),
        ({"path": "a.npy", "vocab_size": 6}, r"a\.npy: id 5 at place 5 is MASK.*0\.\.5"),
        ({"path": "a.npy", "vocab_size": 9, "mask_id": 2}, r"a\.npy: id 2 at place 2 is MASK"),
        ({"path": "a.npy", "vocab_size": 9, "mask_id": 9}, "data.mask_id=9"),
        ({"path": "a.npy", "vocab_size": 9, "pad_id": 3}, "data.pad_id=3"),
        ({"path": "a.npy", "length": 400}, "less than one window"),
    ],
)
def test_wrong_files_and_keys_are_named(values, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", NUMBERS)
    np.save("floats.npy", NUMBERS / 2)
    for name, content in (("text.txt", b"abc"), ("odd.bin", b"abc"), ("damaged.npy", b"abc")):
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=named):
        build_data(complete_data(text_config(**{"tokens": "ids", "length": 4, **values})))


def test_there_is_no_tokenizer():
    vocabulary = IdVocabulary(9, 8)
    tokens = torch.tensor([[1, 2, 3], [0, 0, 7]])
    assert vocabulary.samples(tokens) == [[1, 2, 3], [0, 0, 7]]
    assert vocabulary.lines(tokens) == ["1 2 3", "0 0 7"]
    with pytest.raises(ValueError, match="no tokenizer"):
        vocabulary.decode(tokens)
    data = complete_data(text_config(tokens="ids", vocab_size=9, length=3)).data
    encode = get_domain("text").tokens
    assert torch.equal(encode(data, [[1, 2, 3], (0, 0, 7)]), tokens)
    assert encode(data, []).shape == (0, 3)
    for wrong, named in ((["abc"], "tokenizer"), ([[1, 2]], "2 ids.*3"), ([[1, 2, 8]], "id 8")):
        with pytest.raises(ValueError, match=rf"samples\[0\].*{named}"):
            encode(data, wrong)

"""``data=token_files``: ids on disk as rows, with any packing, in an order that is not stored."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from test_text_data import text_config

from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.data import BatchStream
from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.domains import build_data, build_layout, complete_data
from discrete_diffusion.domains.registry import get_domain
from discrete_diffusion.domains.text.dataset import StoredTextDataset
from discrete_diffusion.domains.text.token_files import TokenFiles
from discrete_diffusion.domains.text.vocabulary import IdVocabulary

EOS = 9
DOCUMENTS = [[1, 2, 3, EOS], [4, EOS], [5, 6, 7, 8, 1, 2, EOS], [3, EOS], [EOS], [4, 4, EOS]]
IDS = np.concatenate(DOCUMENTS)
NUMBERS = np.arange(50) % 7


def tokens_config(**values) -> DictConfig:
    data = OmegaConf.load(shipped_files("data")["token_files"])
    return OmegaConf.create({"data": OmegaConf.merge(data, {"length": 4, **values})})


def built(**values) -> StoredTextDataset:
    data = build_data(complete_data(tokens_config(**values)))
    assert isinstance(data, StoredTextDataset)
    return data


@pytest.fixture
def path(tmp_path) -> str:
    IDS.astype("<u2").tofile(tmp_path / "a.bin")
    return str(tmp_path / "a.bin")


def whole(path: str, **values) -> StoredTextDataset:
    """All of a file as the training split, and as the held-out one."""
    return built(train_path=path, val_path=path, eos_id=EOS, bos_id=0, **values)


def test_blocks_lie_side_by_side_and_the_rest_is_said(path):
    data = whole(path)
    assert data.splits["train"].x0.tolist() == IDS[:16].reshape(4, 4).tolist()
    assert data.splits["train"].real.all()
    assert (data.layout.vocab_size, data.layout.mask_id, data.layout.pad_id) == (11, 10, None)
    assert "6 tokens at the ends of splits" in data.summary()  # 3 of 19 in both splits
    assert data.size_counts() == [0, 0, 0, 0, 4]


def test_blocks_between_bos_and_eos(path):
    x0 = whole(path, pack="wrap_bos_eos").splits["train"].x0
    assert x0[:, 0].tolist() == [0] * len(x0)
    assert x0[:, -1].tolist() == [EOS] * len(x0)
    assert x0[:, 1:-1].flatten().tolist() == IDS[: 2 * len(x0)].tolist()
    assert len(x0) == len(IDS) // 2


def test_rows_of_a_document_each(path):
    data = whole(path, pack="pad", random_length=0.01)
    assert data.random_length == 0.01
    examples = data.splits["train"]
    rows = [x[real].tolist() for x, real in zip(examples.x0, examples.real, strict=True)]
    expected = [d[k : k + 4] for d in DOCUMENTS for k in range(0, len(d), 4)]
    assert rows == expected  # a longer document goes on in the next row
    assert (data.layout.mask_id, data.layout.pad_id) == (10, 11)
    assert (examples.x0[~examples.real] == 11).all()
    assert data.size_counts() == np.bincount([len(row) for row in expected]).tolist()
    assert torch.equal(data.sizes(examples), examples.real.sum(dim=1))


def test_shares_of_documents_are_whole_documents(path):
    data = built(path=path, pack="pad", eos_id=EOS, split=[0.5, 0.25, 0.25])
    ends = {split: data.splits[split].x0 for split in SPLITS}
    assert [row.tolist()[0] for row in ends["train"]] == [1, 4, 5, 1]
    assert sum(len(rows) for rows in ends.values()) == 7


def test_documents_of_a_row_are_numbered(path):
    x0 = torch.tensor(IDS[:16].reshape(4, 4))
    ids = whole(path, document_mask=True).splits["train"][:].conditions["document_idxs"]
    assert ids.tolist() == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 2]]
    for row, documents in zip(x0.tolist(), ids.tolist(), strict=True):
        for k in range(1, 4):  # another one begins behind every EOS
            assert documents[k] - documents[k - 1] == (row[k - 1] == EOS)


@pytest.mark.parametrize("world_size", [1, 3])
def test_every_row_comes_once_in_a_pass_and_the_order_is_resumed(world_size, path, tmp_path):
    np.arange(400).astype("<u2").tofile(tmp_path / "numbers.bin")
    data = built(path=str(tmp_path / "numbers.bin"), split=[0.9, 0.1, 0])
    num = len(data.splits["train"])
    assert num == 90

    def stream(rank):
        return BatchStream(data, batch_size=5, seed=1, rank=rank, world_size=world_size)

    streams = [stream(rank) for rank in range(world_size)]
    drawn = [[b.x0[:, 0] // 4 for _ in range(2 * world_size) for b in each] for each in streams]
    in_order = [batch for step in zip(*drawn, strict=True) for batch in step]
    for k in range(0, len(in_order) - 17, 18):  # 18 batches of 5 are a pass
        assert torch.cat(in_order[k : k + 18]).sort().values.tolist() == list(range(num))
    assert not torch.equal(torch.cat(in_order[:18]), torch.cat(in_order[18:36]))
    again = stream(0)
    again.load_state_dict({"batches": 6 * world_size, "permutation": 1})
    assert torch.equal(next(iter(again)).x0[:, 0] // 4, drawn[0][6])


def test_a_position_of_an_order_that_was_stored_is_refused(path):
    stream = BatchStream(whole(path), batch_size=2, seed=0)
    with pytest.raises(ValueError, match=r"init\.checkpoint"):
        stream.load_state_dict({"batches": 3})


@pytest.mark.parametrize("ending", [".bin", ".npy"])
def test_files_of_a_folder_are_one_stretch(ending, tmp_path, path):
    folder = tmp_path / "shards"
    folder.mkdir()
    for k, part in enumerate((IDS[:5], IDS[5:6], IDS[6:])):
        file, part = folder / f"{k}{ending}", part.astype("<u2")
        np.save(file, part) if ending == ".npy" else part.tofile(file)
    files = TokenFiles.of(folder)
    assert files.read(0, len(files)).tolist() == IDS.tolist()
    assert files.read(3, 9).tolist() == IDS[3:9].tolist()
    assert whole(str(folder)).splits["train"].x0.tolist() == whole(path).splits["train"].x0.tolist()
    assert whole(str(folder)).fingerprint() != whole(str(folder), pack="pad").fingerprint()


def test_nanogpts_folder_has_its_splits(tmp_path):
    for name, start in (("train", 0), ("val", 2)):
        (np.arange(40) % 7 + start).astype("<u2").tofile(tmp_path / f"{name}.bin")
    data = built(path=str(tmp_path), vocab_size=12)
    assert data.splits["train"].x0[0].tolist() == [0, 1, 2, 3]
    assert data.splits["val"].x0[0].tolist() == [2, 3, 4, 5]
    assert len(data.splits["test"]) == 0


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "data.path=FILE.npy"),
        ({"path": "no.npy"}, r"no\.npy"),
        ({"path": "a.bin", "pack": "rap"}, "wrap"),
        ({"path": "a.bin", "pack": "wrap_bos_eos"}, r"data\.bos_id"),
        ({"path": "a.bin", "document_mask": True}, r"document_mask.*data\.eos_id"),
        ({"path": "a.bin", "pack": "wrap_bos_eos", "length": 2}, r"data\.length=2: .*length=3"),
        ({"path": "a.bin", "pack": "pad"}, r"data\.eos_id"),
        ({"path": "a.bin", "random_length": 0.01}, r"random_length=0\.01 puts PAD.*pack=pad"),
        ({"path": "a.bin", "vocab_size": 9}, r"a\.bin: id 9 at place 3.*0\.\.8"),
        ({"path": "a.bin", "tokenizer": "bpe:300"}, r"data tokenize FILE.*--tokenizer bpe:300"),
        ({"path": "a.bin", "tokenizer": "byte"}, "did you mean 'bytes'"),
        ({"path": "text.txt"}, r"text\.txt.*\.npy.*\.bin.*data tokenize"),
        ({"path": "odd.bin"}, r"odd\.bin has 3 bytes"),
        ({"path": "floats.npy"}, r"floats\.npy holds float64"),
        ({"path": "damaged.npy"}, r"damaged\.npy is not a \.npy"),
        ({"path": "a.npy", "vocab_size": 6}, r"a\.npy: id 5 at place 5 is MASK.*0\.\.5"),
        ({"path": "a.npy", "vocab_size": 9, "mask_id": 2}, r"a\.npy: id 2 at place 2 is MASK"),
        ({"path": "a.npy", "vocab_size": 9, "mask_id": 9}, "data.mask_id=9"),
        ({"path": "a.npy", "vocab_size": 9, "pad_id": 3}, "data.pad_id=3"),
        ({"path": "empty"}, "empty holds no ids"),
        ({"path": "begun"}, "not finished.*again"),
        ({"train_path": "a.bin"}, r"data\.val_path"),
        ({"path": "a.bin", "length": 400}, "less than one window"),
    ],
)
def test_wrong_files_and_keys_are_named(values, named, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", NUMBERS)
    np.save("floats.npy", NUMBERS / 2)
    for name in ("text.txt", "odd.bin", "damaged.npy"):
        (tmp_path / name).write_bytes(b"abc")
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "meta.json.unfinished").write_text("{}")
    with pytest.raises((ValueError, FileNotFoundError), match=named):
        built(**{"length": 4, **values})


def test_ids_that_are_none_of_v_are_found_when_they_are_read(tmp_path):
    ids = np.zeros(1 << 23, "<u2")
    ids[1] = 700
    ids.tofile(tmp_path / "a.bin")
    with pytest.raises(ValueError, match=r"id 700 at place 1 "):  # a piece that is looked at first
        built(path=str(tmp_path / "a.bin"), vocab_size=20)
    ids[1] = 0
    ids[20_000] = 700  # between two pieces
    ids.tofile(tmp_path / "a.bin")
    data = built(path=str(tmp_path / "a.bin"), vocab_size=20)
    with pytest.raises(ValueError, match=r"a\.bin: id 700 at place 20,000 "):
        data.splits["train"][torch.tensor([3, 5000])]


def test_a_few_ids_beyond_two_bytes_show_that_all_have_four(tmp_path):
    ids = np.where(np.arange(200) % 50, 5000 + np.arange(200), 70_000)
    ids.astype("<u4").tofile(tmp_path / "wide.bin")
    files = TokenFiles.of(tmp_path / "wide.bin")
    assert files.read(0, len(files)).tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("name", "kind", "num"),
    [("a.npy", "<i8", 9), ("a.npy", "<u2", 9), ("a.bin", "<u2", 9), ("a.bin", "<u4", 70_000)],
)
def test_windows_are_the_numbers_of_the_file_in_order(name, kind, num, tmp_path):
    path, numbers = tmp_path / name, NUMBERS.astype(kind)
    np.save(path, numbers) if name == "a.npy" else numbers.tofile(path)
    config = text_config(token_unit="ids", length=4, path=str(path), vocab_size=num)
    config.data.split = [0.6, 0.2, 0.2]
    data = build_data(complete_data(config))
    parts = [NUMBERS[:30], NUMBERS[30:40], NUMBERS[40:]]
    for split, part in zip(("train", "val", "test"), parts, strict=True):
        whole = part[: len(part) // 4 * 4].reshape(-1, 4)  # the rest fills no window
        assert data.splits[split].x0.tolist() == whole.tolist()
        assert data.splits[split].real.all()
    assert (data.layout.mask_id, data.layout.pad_id) == (num - 1, None)
    assert "rows of 4 ids" in data.summary()


def test_v_is_given_or_one_more_than_the_largest_id(tmp_path):
    np.save(tmp_path / "a.npy", NUMBERS)
    config = complete_data(text_config(token_unit="ids", path=f"{tmp_path}/a.npy", length=4))
    assert (config.data.vocab_size, config.data.mask_id, config.data.pad_id) == (8, 7, None)
    (tmp_path / "a.npy").unlink()
    assert complete_data(config) == config  # which needs no file
    given = complete_data(text_config(token_unit="ids", vocab_size=20, mask_id=3, length=4))
    support = build_layout(given.data).support
    assert support.shape == (4, 20)
    assert support[0].logical_not().nonzero().flatten().tolist() == [3]


def test_there_is_no_tokenizer():
    vocabulary = IdVocabulary(9, 8)
    tokens = torch.tensor([[1, 2, 3], [0, 0, 7]])
    assert vocabulary.samples(tokens) == [[1, 2, 3], [0, 0, 7]]
    assert vocabulary.lines(tokens) == ["1 2 3", "0 0 7"]
    with pytest.raises(ValueError, match="no tokenizer"):
        vocabulary.decode(tokens)
    data = complete_data(text_config(token_unit="ids", vocab_size=9, length=3)).data
    encode = get_domain("text").tokens
    assert torch.equal(encode(data, [[1, 2, 3], (0, 0, 7)]), tokens)
    assert encode(data, []).shape == (0, 3)
    for wrong, named in ((["abc"], "tokenizer"), ([[1, 2]], "2 ids.*3"), ([[1, 2, 8]], "id 8")):
        with pytest.raises(ValueError, match=rf"samples\[0\].*{named}"):
            encode(data, wrong)

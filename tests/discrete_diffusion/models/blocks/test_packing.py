import torch

from discrete_diffusion.models.calling import pack_columns


def flags(*rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


def test_full_batch_is_left_alone():
    packing = pack_columns(flags("xxx", "xxx"))
    assert packing.columns is None
    assert packing.key_mask is None
    x = torch.randn(2, 3, 4)
    assert packing.pack(x) is x
    assert packing.unpack(x) is x


def test_common_padding_is_left_out_without_a_mask():
    packing = pack_columns(flags("x.x.", "x.x."))
    assert packing.kept == (0, 2)
    assert packing.key_mask is None


def test_mixed_padding_is_masked():
    packing = pack_columns(flags("x.x.x", "x...x", "....x"))
    assert packing.columns.tolist() == [0, 2, 4]
    assert torch.equal(packing.key_mask[:, 0, 0], flags("xxx", "x.x", "..x"))


def test_sample_of_nothing_but_pad_sees_everything():
    packing = pack_columns(flags("xx.", "..."))
    assert packing.kept == (0, 1)
    assert packing.key_mask[1].all()


def test_nothing_real_or_nothing_at_all_keeps_every_column():
    for real in (flags("...", "..."), torch.zeros(0, 3, dtype=torch.bool)):
        packing = pack_columns(real)
        assert packing.kept == (0, 1, 2)
        assert packing.key_mask is None


def test_unpack_inverts_pack_and_leaves_zeros():
    packing = pack_columns(flags("x.xx.x", "x.xx.."))
    x = torch.randn(2, 6, 3)
    packed = packing.pack(x)
    full = packing.unpack(packed)
    assert torch.equal(full[:, [0, 2, 3, 5]], x[:, [0, 2, 3, 5]])
    assert (full[:, [1, 4]] == 0).all()
    first = packing.num_kept_before(3)
    halves = [packing.unpack(packed[:, :first], 0, 3), packing.unpack(packed[:, first:], 3, 6)]
    assert torch.equal(torch.cat(halves, dim=1), full)

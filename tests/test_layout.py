"""Layouts and vocabularies: the tables of RPLAN, the errors that name what is wrong."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from discrete_diffusion.layout import (
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    RPLAN_VOCAB_CONFIG,
    TokenLayout,
    VocabConfig,
)

VOCAB = RPLAN_VOCAB_CONFIG


def test_rplan_numbers():
    assert (VOCAB.length, VOCAB.vocab_size, VOCAB.num_edges) == (36, 28, 28)
    assert (VOCAB.node_vocab_size, VOCAB.edge_vocab_size, VOCAB.edge_offset) == (15, 13, 15)
    assert (VOCAB.mask_id, VOCAB.pad_id) == (13, 14)
    assert (VOCAB.edge_mask_id, VOCAB.edge_pad_id, VOCAB.no_edge) == (11, 12, 10)
    assert VocabConfig(n_max=14).length == 105


def test_edges_are_the_upper_triangle_row_by_row():
    assert VOCAB.endpoints[:8] == (*((0, j) for j in range(1, 8)), (1, 2))
    for k, (i, j) in enumerate(VOCAB.endpoints):
        assert VOCAB.edge_position(i, j) == VOCAB.n_max + k
    with pytest.raises(ValueError, match=r"edge \(3, 3\)"):
        VOCAB.edge_position(3, 3)


def test_inverse_swaps_both_axes():
    for r, inverse in enumerate(VOCAB.edge_inverse):
        assert VOCAB.edge_inverse[inverse] == r
        if r < 10:
            assert inverse == 9 - r
        assert RELATION_X_ORDER[inverse] == -RELATION_X_ORDER[r]
        assert RELATION_Y_ORDER[inverse] == -RELATION_Y_ORDER[r]
    assert RELATIONS[VOCAB.edge_inverse[RELATIONS.index("inside")]] == "surrounding"


@pytest.mark.parametrize(("n", "real"), [(1, 1), (4, 10), (5, 15), (6, 21), (7, 28), (8, 36)])
def test_real_positions(n, real):
    mask = VOCAB.real_positions(torch.tensor([n]))[0]
    assert mask.sum() == real
    for k, (i, j) in enumerate(VOCAB.endpoints):
        assert mask[8 + k] == (i < n and j < n)
    with pytest.raises(ValueError, match=r"1\.\.8"):
        VOCAB.real_positions(torch.tensor([9]))


def test_concatenated_ids_become_separate_ones():
    x0 = torch.full((2, 36), 14)
    x0[0, :3], x0[0, 8:10], x0[0, 15] = torch.tensor([2, 0, 13]), torch.tensor([25, 15]), 13
    x0[1, :2], x0[1, 8] = torch.tensor([12, 20]), 3  # a relation as a room, a room as a relation
    graphs = VOCAB.separate(x0)
    assert graphs.tokens[0].tolist() == [2, 0, 13, *[14] * 5, 10, 0, *[12] * 5, 11, *[12] * 20]
    assert graphs.tokens[1].tolist() == [12, 13, *[14] * 6, 11, *[12] * 27]
    assert graphs.pad_mask[0].nonzero().flatten().tolist() == [0, 1, 2, 8, 9, 15]
    own = x0 + torch.where(x0 >= 13, torch.tensor([0] * 8 + [13] * 28), 0) * (x0 < 15)
    assert torch.equal(VOCAB.separate(own).tokens, graphs.tokens)  # MASK and PAD of edges
    assert torch.equal(VOCAB.separate(own).pad_mask, graphs.pad_mask)
    assert torch.equal(VOCAB.compute_pad_mask(3), VOCAB.real_positions(torch.tensor([3]))[0])


@pytest.mark.parametrize(
    ("x0", "named"),
    [
        (torch.zeros(2, 35, dtype=torch.long), r"\(2, 35\); expected \(B, 36\)"),
        (torch.full((1, 36), 28), r"28\.\.28; expected concatenated ids 0\.\.27.* with 15 added"),
        (torch.full((1, 36), -1), r"-1\.\.-1; expected"),
    ],
)
def test_ids_that_cannot_be_separated(x0, named):
    with pytest.raises(ValueError, match=named):
        VOCAB.separate(x0)


def test_layout_is_typed_by_position():
    layout = VOCAB.layout()
    assert layout.num_legal.tolist() == [13] * 8 + [11] * 28
    assert layout.support[:8, :13].all()
    assert layout.support[8:, 15:26].all()
    assert layout.group_names == ("node", "edge")
    assert not list(layout.parameters())
    assert not layout.state_dict()
    log_probs = layout.uniform_log_probs()
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(36).double())
    assert log_probs[0, 0].item() == pytest.approx(-math.log(13))
    assert (log_probs.exp()[~layout.support] == 0).all()


def test_check_names_sample_position_and_id():
    layout = VOCAB.layout()
    real = VOCAB.real_positions(torch.tensor([4, 4]))
    x0 = torch.where(real, layout.support.long().argmax(1), VOCAB.pad_id)
    layout.check(x0)
    for position, wrong, message in (
        (2, -1, r"sample 1, position 2 \(node\): id -1"),
        (2, 20, r"sample 1, position 2 \(node\): id 20"),
        (8, 3, r"sample 1, position 8 \(edge\): id 3"),
        (0, VOCAB.mask_id, "id 13"),
        (0, VOCAB.pad_id, "id 14"),
        (1, 99, "id 99"),
    ):
        broken = x0.clone()
        broken[1, position] = wrong
        with pytest.raises(ValueError, match=message):
            layout.check(broken, real)
    unpadded = x0.clone()
    unpadded[0, 7] = 0
    with pytest.raises(ValueError, match=r"expected PAD \(14\)"):
        layout.check(unpadded, real)
    with pytest.raises(ValueError, match=r"shape \(B, 36\)"):
        layout.check(x0[:, :5])


def test_flat_layout_is_plain_text():
    layout = TokenLayout.flat(5, 10, mask_id=9, pad_id=8)
    assert layout.num_legal.tolist() == [8] * 5
    assert layout.is_real(torch.tensor([[1, 8, 2, 9, 0]])).tolist() == [
        [True, False, True, True, True]
    ]


def test_alike_rows_are_kept_once():
    flat = TokenLayout.flat(5, 10, mask_id=9, pad_id=8)
    written_out = TokenLayout(flat.support.clone(), mask_id=9, pad_id=8)
    for layout in (flat, written_out, copy.deepcopy(flat)):
        assert layout.support.untyped_storage().nbytes() == 10
    assert flat.digest() == written_out.digest()
    mixed = flat.support.clone()
    mixed[2, 3] = False
    other = TokenLayout(mixed, mask_id=9, pad_id=8)
    assert torch.equal(other.support, mixed)
    assert other.num_legal.tolist() == [8, 8, 7, 8, 8]
    assert other.digest() != flat.digest()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TokenLayout(torch.ones(2, 3), mask_id=0), r"Bool\[L, V\]"),
        (lambda: TokenLayout(torch.ones(2, 3, dtype=torch.bool), mask_id=0), "legal clean id"),
        (lambda: TokenLayout(torch.zeros(2, 3, dtype=torch.bool), mask_id=0), "position 0 has no"),
        (lambda: TokenLayout.flat(2, 3, mask_id=1, pad_id=1), "both 1"),
        (lambda: TokenLayout.flat(2, 3, mask_id=7), "outside the vocabulary"),
        (lambda: VocabConfig(n_max=0), "at least one node"),
        (lambda: VocabConfig(edge_inverse=(1, 2, 0)), "involution"),
    ],
)
def test_construction_errors(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_other_vocabularies_are_undirected_by_default():
    molecules = VocabConfig(n_max=9, node_types=("C", "N"), edge_types=("single", "double", "none"))
    assert molecules.edge_inverse == (0, 1, 2)
    assert VocabConfig().edge_inverse != tuple(range(len(VocabConfig().edge_types)))
    layout = molecules.layout()
    assert molecules.vocab_size == layout.vocab_size == 4 + 5
    assert layout.num_legal.tolist() == [2] * 9 + [3] * 36
    assert layout.support[0].nonzero().flatten().tolist() == [0, 1]
    assert layout.support[9].nonzero().flatten().tolist() == [4, 5, 6]

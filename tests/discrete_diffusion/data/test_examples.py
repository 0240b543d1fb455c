"""Examples and fingerprints: rows keep what is theirs, and no part of the data is left out."""

from __future__ import annotations

from dataclasses import replace

import torch

from discrete_diffusion.data import TokenDataset
from discrete_diffusion.data.base import Examples
from discrete_diffusion.layout import TokenLayout


def examples(num: int = 4) -> Examples:
    return Examples(
        x0=torch.arange(num * 3).reshape(num, 3) % 4,
        real=torch.ones(num, 3, dtype=torch.bool),
        log_num_orders=torch.arange(num).double(),
        conditions={"age": torch.arange(num) * 10, "height": torch.arange(num) / 8},
    )


class Sequences(TokenDataset):
    """Three ids, MASK and PAD, in three equal splits unless ``splits`` replace some."""

    def __init__(self, layout: TokenLayout | None = None, **splits: Examples) -> None:
        self.layout = layout or TokenLayout.flat(3, 6, mask_id=4, pad_id=5)
        self.splits = {name: examples() for name in ("train", "val", "test")} | splits

    def real_positions(self, sizes):
        return torch.arange(3) < sizes.unsqueeze(1)

    def summary(self):
        return "sequences"


def test_rows_keep_their_number_of_orders_and_their_conditions():
    whole, rows = examples(), torch.tensor([2, 0, 2])
    for part in (whole[rows], whole[rows].batch()):
        assert len(part) == 3
        assert torch.equal(part.x0, whole.x0[rows])
        assert torch.equal(part.real, whole.real[rows])
        assert part.log_num_orders.tolist() == [2, 0, 2]
        assert part.conditions["age"].tolist() == [20, 0, 20]
        assert part.conditions["height"].tolist() == [0.25, 0, 0.25]
    assert replace(whole, log_num_orders=None)[rows].log_num_orders is None


def test_a_fingerprint_is_of_every_part_of_the_data():
    """Of each split's tokens, of which are real, and of conditions; of what the ids mean."""
    plain = examples()
    shorter, other_token = plain.real.clone(), plain.x0.clone()
    shorter[1, 2] = False
    other_token[3, 0] = 3 - other_token[3, 0]
    taller = {**plain.conditions, "height": plain.conditions["height"] + 0.01}
    variants = [
        replace(plain, x0=other_token),
        replace(plain, real=shorter),
        replace(plain, conditions=taller),
        replace(plain, conditions={"age": plain.conditions["age"]}),
        plain[torch.tensor([1, 0, 2, 3])],
        plain[torch.tensor([0, 1, 2])],
    ]
    support = torch.ones(3, 6, dtype=torch.bool)
    support[:, 4:] = False
    fewer_legal = support.clone()
    fewer_legal[2, 3] = False
    groups = {"group": torch.tensor([0, 0, 1]), "group_names": ("a", "b")}
    layouts = [
        TokenLayout(fewer_legal, mask_id=4, pad_id=5),
        TokenLayout(support, mask_id=5, pad_id=4),
        TokenLayout(support, mask_id=4, pad_id=None),
        TokenLayout(support, mask_id=4, pad_id=5, **groups),
    ]
    found = [Sequences().fingerprint()]
    found += [Sequences(**{name: v}).fingerprint() for name in ("train", "val") for v in variants]
    found += [Sequences(test=v).fingerprint() for v in variants]
    found += [Sequences(layout).fingerprint() for layout in layouts]
    assert len(set(found)) == len(found) == 1 + 3 * len(variants) + len(layouts)
    assert found[0] == Sequences(TokenLayout(support, mask_id=4, pad_id=5)).fingerprint()

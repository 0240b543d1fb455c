"""Which column sees which, by the rules in words, for every pair of columns."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from discrete_diffusion.models.attention import Visibility

K = 6
GROUPS = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 3]])
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]])
REAL = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 0, 1, 0, 0]]).bool()[:, None, None, :]
"""The last column of the first sample, and three of the second, are not to be seen."""


def sees(seen: Visibility, b: int, q: int, k: int) -> bool:
    """The docstring of ``Visibility``, one sentence after the other."""
    if q == k:
        return True
    place_q, place_k = q % K, k % K
    if seen.key_mask is not None and not seen.key_mask[b, 0, 0, place_k]:
        return False
    if seen.causal and k > q:
        return False
    if seen.documents is not None and seen.documents[b, place_q] != seen.documents[b, place_k]:
        return False
    if seen.groups is None:
        return True
    groups = seen.groups[b if len(seen.groups) > 1 else 0]
    own, other = groups[place_q], groups[place_k]
    if not seen.with_context:
        return bool(other <= own)
    if q < K:  # noisy
        return bool(other == own if k < K else other < own)
    return bool(k >= K and other <= own)


@pytest.mark.parametrize("mask", [None, REAL])
@pytest.mark.parametrize(
    ("groups", "documents", "causal", "with_context"),
    [
        (GROUPS, None, False, False),
        (GROUPS[1:], None, False, False),
        (None, DOCUMENTS, False, False),
        (None, DOCUMENTS, True, False),
        (GROUPS, DOCUMENTS, True, False),
        (GROUPS, None, False, True),
        (GROUPS[1:], DOCUMENTS, False, True),
    ],
)
def test_every_pair_of_columns(groups, documents, causal, with_context, mask):
    seen = Visibility(groups, documents, mask, causal, with_context)
    num_samples = max(len(each) for each in (groups, documents, mask) if each is not None)
    found, num = seen.mask(), K * (1 + with_context)
    assert found.shape == (num_samples, 1, num, num)
    for b, q, k in product(range(num_samples), range(num), range(num)):
        assert found[b, 0, q, k] == sees(seen, b, q, k), (b, q, k)


def test_a_column_that_nobody_sees_still_has_an_output():
    """PAD sees itself, so that no row of the softmax is empty: 0 / 0 would be NaN."""
    seen = Visibility(
        documents=torch.tensor([[0, 0, 1]]), key_mask=torch.tensor([[[[True, True, False]]]])
    )
    x = torch.randn(1, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    out = torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=seen.mask())
    torch.testing.assert_close(out[0, 0, 2], x[0, 0, 2])

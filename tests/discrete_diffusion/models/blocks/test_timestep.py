import math

import pytest
import torch

from discrete_diffusion.models.transformer import (
    TimestepEmbedder,
    corrupted_share,
    distinct_time,
    process_t,
    sinusoid,
)


def test_sinusoid_is_cosines_then_sines_of_the_formula():
    t = torch.tensor([0.0, 0.3, 7.0], dtype=torch.float64)
    waves = sinusoid(t, 8)
    for row, time in zip(waves, t.tolist(), strict=True):
        angles = [time * 10_000 ** (-k / 4) for k in range(4)]
        expected = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        torch.testing.assert_close(row, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(("time_scale", "low", "high"), [(1.0, 0.965, 0.975), (1000.0, -0.3, 0.3)])
def test_time_scale_decides_whether_the_ends_look_alike(time_scale, low, high):
    ends = sinusoid(torch.tensor([0.0, 1.0]) * time_scale, 256)
    assert low < torch.cosine_similarity(ends[0], ends[1], dim=0) < high


def test_embedder_applies_its_time_scale():
    torch.manual_seed(0)
    embedder = TimestepEmbedder(d_model=8, frequency_embedding_size=16, time_scale=10.0)
    t = torch.tensor([0.2, 0.7])
    torch.testing.assert_close(embedder(t), embedder.mlp(sinusoid(10.0 * t, 16)))


def test_embedder_keeps_the_sinusoid_in_float32_when_its_weights_are_not():
    embedder = TimestepEmbedder(d_model=8).to(torch.bfloat16)
    t = torch.tensor([0.999, 1.0])
    assert embedder(t).dtype == torch.bfloat16
    assert not torch.equal(*embedder(t))  # bfloat16 rounds 999 to 1000


def test_odd_frequency_embedding_is_refused():
    with pytest.raises(ValueError, match="frequency_embedding_size=7: expected an even number"):
        TimestepEmbedder(d_model=8, frequency_embedding_size=7)


def test_corrupted_share_is_exact_near_both_ends():
    assert corrupted_share(None) == 0.0
    sigma = torch.tensor([0.0, 1e-8, math.log(2), torch.inf])
    torch.testing.assert_close(corrupted_share(sigma), torch.tensor([0.0, 1e-8, 0.5, 1.0]))


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (0.5, [0.5] * 4),
        (1, [1.0] * 4),
        (torch.tensor(0.7), [0.7] * 4),
        (torch.tensor(1), [1.0] * 4),
        (torch.tensor([0.3]), [0.3] * 4),
        (torch.tensor([0.1, 0.5, 0.9, 0.2]), [0.1, 0.5, 0.9, 0.2]),
    ],
    ids=["float", "int", "0-d", "0-d integer", "(1,)", "(B,)"],
)
def test_process_t_makes_one_time_per_sample(t, expected):
    torch.testing.assert_close(process_t(t, 4, "cpu"), torch.tensor(expected))


@pytest.mark.parametrize(
    "t", [torch.tensor([0.1, 0.2]), torch.tensor([[0.5]]), torch.zeros(4, 1), torch.zeros(0)]
)
def test_process_t_refuses_other_shapes(t):
    with pytest.raises(ValueError, match=r"t has shape .*; expected a number or a tensor"):
        process_t(t, 4, "cpu")


def test_a_time_that_all_samples_share_is_embedded_once():
    same, apart = torch.full((5,), 0.3), torch.tensor([0.3, 0.3, 0.4])
    assert torch.equal(distinct_time(same), same[:1])
    for kept in (apart, same[:1], same[:0], same.to("meta")):
        assert distinct_time(kept) is kept

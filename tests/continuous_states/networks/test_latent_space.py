"""The parts between an encoder and a decoder of text, and what they do together."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from continuous_states.networks.latent_space import (
    LatentEncoder,
    LatentSpaceModel,
    MiddleTransformer,
    PrefixAdapter,
    StopLatent,
    SwiGLU,
    unit_rows,
)
from toy_latents import C, D, E, K, P, Sums, V, Words, latent_model


def make_model(**options) -> LatentSpaceModel:
    return latent_model(**options).eval()


def texts(num_samples: int = 3, length: int = 6) -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, V, (num_samples, length))
    real = torch.arange(length) < torch.tensor([length, 3, 1])[:num_samples, None]
    return ids, real


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def with_defaults(encoder: nn.Module, decoder: nn.Module, **compression: int) -> LatentSpaceModel:
    return LatentSpaceModel(
        encoder=encoder,
        decoder=decoder,
        compression=LatentEncoder(**compression),
        middle=MiddleTransformer(),
        adapter=PrefixAdapter(),
        stop_latent=StopLatent(),
    )


def test_defaults_are_the_published_sizes():
    with torch.device("meta"):
        parts = LatentEncoder(), MiddleTransformer(), PrefixAdapter(), StopLatent()
    assert [count(part) for part in parts] == [2_165_504, 4_209_664, 6_103_040, 2_048]
    assert count(parts[1].blocks[0]) == 1_052_416
    encoder, decoder = Words(), Sums()
    encoder.hidden_size, decoder.hidden_size = 768, 640
    with torch.device("meta"):
        model = with_defaults(encoder, decoder)
    assert count(model) - count(encoder) - count(decoder) == 12_478_848 + 2_048


def normed(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def fed_forward(mlp: nn.Module, x: Tensor) -> Tensor:
    gate, value = mlp.up(x).chunk(2, dim=-1)
    return mlp.down(gate * gate.sigmoid() * value)


def complex_attention(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """Rotary attention with dimensions (j, j + d/2) of a head as one complex number."""

    def split(x: Tensor) -> Tensor:
        return torch.stack(x.chunk(heads, dim=-1), dim=1)

    def turned(x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        angle = torch.outer(
            torch.arange(x.shape[2]).double(), 10_000 ** (-torch.arange(half).double() / half)
        )
        return torch.complex(x[..., :half], x[..., half:]) * torch.exp(1j * angle)

    q, k, v = split(q), split(k), split(v)
    scores = (turned(q) @ turned(k).mH).real / q.shape[-1] ** 0.5
    return torch.cat(list((scores.softmax(-1) @ v).unbind(1)), dim=-1)


def test_middle_and_adapter_are_their_equations(randomise):
    middle = randomise(MiddleTransformer(latent_dim=D, num_layers=2, num_heads=2)).double()
    latents = torch.randn(3, K, D, dtype=torch.float64)
    x = latents
    for block in middle.blocks:
        q, k, v = block.attention.qkv(normed(x, block.norm1.weight)).chunk(3, dim=-1)
        x = x + block.attention.out(complex_attention(q, k, v, heads=2))
        x = x + fed_forward(block.mlp, normed(x, block.norm2.weight))
    torch.testing.assert_close(middle(latents), x, atol=1e-5, rtol=0)

    adapter = randomise(PrefixAdapter(latent_dim=D, decoder_dim=E, prefix_len=P, num_heads=2))
    adapter, attention = adapter.double(), adapter.attention
    queries = adapter.queries.expand(3, P, E)
    k, v = attention.key_value(latents).chunk(2, dim=-1)
    x = queries + attention.out(complex_attention(attention.query(queries), k, v, heads=2))
    x = x + fed_forward(adapter.mlp, normed(x, adapter.norm.weight))
    torch.testing.assert_close(adapter(latents), x, atol=1e-5, rtol=0)

    model = make_model().double()
    prefix = normed(model.adapter(F.normalize(latents, dim=-1)), model.prefix_norm.weight)
    torch.testing.assert_close(model.prefix(3 * latents), prefix, atol=1e-6, rtol=0)


def test_without_rotary_positions_permuted_latents_give_permuted_latents():
    order, latents = torch.tensor([2, 0, 1]), torch.randn(3, K, D)
    middle = MiddleTransformer(latent_dim=D, num_layers=2, num_heads=2, use_rope=False).eval()
    torch.testing.assert_close(middle(latents[:, order]), middle(latents)[:, order])


@pytest.mark.parametrize("pool", ["mean", "attention"])
def test_padding_changes_no_latent(pool):
    model = make_model(pool=pool)
    ids, real = texts()
    latents = model.encode(ids, real)
    assert latents.shape == (3, K, D)
    other = torch.where(real, ids, (ids + 1) % V)
    torch.testing.assert_close(model.encode(other, real), latents)
    alone = model.encode(ids[1:2, :3], real[1:2, :3])
    torch.testing.assert_close(alone[0], latents[1], atol=1e-6, rtol=0)
    ids[1, 0] = (ids[1, 0] + 1) % V  # the counterpart: a real token counts
    assert (model.encode(ids, real)[1] - latents[1]).abs().max() > 1e-3
    assert model.encode(ids, torch.zeros_like(real)).isfinite().all()


def test_a_text_without_tokens_sees_its_padding():
    encoder = LatentEncoder(hidden_dim=8, latent_dim=4, latent_seq_len=2, pool="attention")
    states, real = torch.randn(2, 2, 8), torch.tensor([[True, False], [False, False]])
    padding = encoder(states[1:], torch.ones(1, 2, dtype=torch.bool))
    torch.testing.assert_close(encoder(states, real)[1:], padding)


def test_logits_see_the_prefix_and_earlier_tokens_only():
    model, (ids, _) = make_model(), texts()
    prefix = model.prefix(torch.randn(3, K, D))
    logits = model.token_logits(prefix, ids)
    assert logits.shape == (3, 6, V)
    torch.testing.assert_close(logits[:, 0], model.decoder.head(prefix.sum(dim=1)))
    changed = ids.clone()
    changed[:, 2] = (ids[:, 2] + 1) % V
    difference = (model.token_logits(prefix, changed) - logits).abs().amax(dim=(0, 2))
    assert (difference[:3] == 0).all()
    assert (difference[3:] > 1e-3).all()


def test_the_loss_of_the_decoder_reaches_every_part_but_the_stop_latent():
    model, (ids, real) = make_model(pool="attention"), texts()
    output = model(ids, real, ids)
    torch.testing.assert_close(output.latents, model.middle(output.source_latents))
    F.cross_entropy(output.logits.flatten(0, 1), ids.flatten()).backward()
    assert model.stop_latent.value.grad is None
    for name, parameter in model.named_parameters():
        if not name.startswith("stop_latent"):
            assert parameter.grad.abs().max() > 0, name


def test_stop_latent_has_rows_of_norm_one_or_zero_drawn_by_its_seed():
    stop = StopLatent(latent_dim=D, latent_seq_len=K)
    state = torch.get_rng_state()
    torch.testing.assert_close(stop().norm(dim=-1), torch.ones(K))
    assert torch.equal(stop(), StopLatent(latent_dim=D, latent_seq_len=K)())
    assert not torch.equal(stop(), StopLatent(latent_dim=D, latent_seq_len=K, seed=1)())
    assert (StopLatent(latent_dim=D, latent_seq_len=K, init="zero")() == 0).all()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("learnable", [True, False])
def test_stop_latent_is_learned_unless_it_is_fixed(learnable):
    model = make_model(learnable=learnable)
    assert ("stop_latent.value" in dict(model.named_parameters())) == learnable
    assert "stop_latent.value" in model.state_dict()
    latents = model.with_stop(torch.randn(3, K, D, requires_grad=True))
    assert torch.equal(latents[3], model.stop_latent())
    model.prefix(model.middle(latents)).square().sum().backward()
    grad = model.stop_latent.value.grad
    assert (grad is not None and grad.abs().max() > 0) == learnable


def test_unit_rows_of_zeros_are_zeros_with_a_bounded_gradient():
    latents = torch.randn(3, K, D)
    latents[0] = 0
    rows = unit_rows(latents.requires_grad_())
    torch.testing.assert_close(rows.norm(dim=-1)[1:], torch.ones(2, K))
    rows.sum().backward()
    assert (rows[0] == 0).all()
    assert latents.grad.abs().max() <= 1e3


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: LatentEncoder(pool="max"), r"model\.pool 'max'\. Available: attention, mean"),
        (lambda: StopLatent(init="zeros"), r"model\.stop_latent\.init 'zeros'; did you mean"),
        (lambda: PrefixAdapter(prefix_len=0), r"model\.prefix_len=0: expected a whole number, at"),
        (lambda: MiddleTransformer(num_layers=0), r"model\.num_layers=0: expected a whole number"),
        (lambda: LatentEncoder(latent_seq_len=0), r"model\.latent_seq_len=0: expected a whole"),
        (lambda: MiddleTransformer(rope_base=0), "rope_base=0: expected a number above 0"),
        (lambda: MiddleTransformer(latent_dim=8, num_heads=3), r"model\.num_heads=3 does not"),
        (
            lambda: PrefixAdapter(latent_dim=9, decoder_dim=8, num_heads=3),
            r"model\.num_heads=3 does not divide model\.decoder\.hidd",
        ),
        (
            lambda: LatentEncoder(hidden_dim=8, latent_dim=9, pool="attention", num_heads=3),
            r"model\.num_heads=3 does not divide model\.encoder\.hidd",
        ),
        (lambda: MiddleTransformer(latent_dim=8, num_heads=8), "even width per head; 8 over"),
        (lambda: with_defaults(Words(), Sums()), r"their states: encoder\.hidden_size=12,"),
        (
            lambda: with_defaults(Words(), Sums(), hidden_dim=C, latent_dim=D, latent_seq_len=K),
            r"vectors: compression\.latent_dim=8, middle\.latent",
        ),
        (lambda: SwiGLU(d_model=6, mlp_ratio=0.1), r"mlp_ratio=0\.1 leaves no hidden unit at d_m"),
    ],
)
def test_bad_arguments_are_refused(build, says):
    with torch.device("meta"), pytest.raises(ValueError, match=says):
        build()


def test_queries_start_with_a_few_states_each():
    """Attention logits of deviation 4 over states of unit scale, whatever the width."""
    torch.manual_seed(0)
    for width, heads in ((64, 4), (256, 4)):
        encoder = LatentEncoder(hidden_dim=width, latent_seq_len=32, pool="attention")
        states = torch.randn(200, width)
        q = encoder.attention.query(encoder.queries)
        k = encoder.attention.key_value(states)[:, :width]
        q, k = (x.unflatten(1, (heads, -1)).transpose(0, 1) for x in (q, k))
        logits = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
        assert float(logits.detach().std()) == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        (MiddleTransformer(latent_dim=D, num_heads=2, dropout=0.5), (3, K, D)),
        (PrefixAdapter(latent_dim=D, decoder_dim=E, prefix_len=P, dropout=0.5), (3, K, D)),
    ],
)
def test_dropout_is_of_what_is_added_to_each_vector(part, shape):
    """In both halves of a block, in training alone."""
    torch.manual_seed(0)
    x = torch.randn(shape)
    part.train()
    for silent in ("attention", "mlp"):
        block = part.blocks[0] if isinstance(part, MiddleTransformer) else part
        module = getattr(block, silent)
        state = {name: value.clone() for name, value in module.state_dict().items()}
        for parameter in module.parameters():
            parameter.data.zero_()
        assert not torch.equal(part(x), part(x))
        module.load_state_dict(state)
    part.eval()
    assert torch.equal(part(x), part(x))

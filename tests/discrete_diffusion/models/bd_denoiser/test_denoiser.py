import pytest
import torch

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.models.bd_denoiser import BDDenoiser, CompositePositionalEncoding
from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair
from discrete_diffusion.models.calling import pack_columns
from discrete_diffusion.models.transformer import FactTokens

TINY = {"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_config": RPLAN_VOCAB_CONFIG}
OWN = {BDDenoiser: {}, BDDenoiserPair: {"d_pair": 16}}


@pytest.fixture(params=OWN)
def build(request):
    """A small denoiser of either class, with the options that are given."""
    return lambda **options: request.param(**{**TINY, **OWN[request.param], **options})


def diagrams(num_nodes: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens of the separate vocabularies and their pad mask."""
    generator = torch.Generator().manual_seed(seed)
    pad_mask = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor(num_nodes))
    nodes = torch.randint(0, 14, (len(num_nodes), 8), generator=generator)
    edges = torch.randint(0, 12, (len(num_nodes), 28), generator=generator)
    tokens = torch.cat([nodes, edges], dim=1)
    pads = torch.tensor([14] * 8 + [12] * 28).expand_as(tokens)
    return torch.where(pad_mask, tokens, pads), pad_mask


def test_every_logit_is_zero_at_initialisation(build):
    model = build().train()
    node_logits, edge_logits = model(*diagrams([8, 5, 4]), t=torch.rand(3))
    assert node_logits.shape == (3, 8, 15)
    assert edge_logits.shape == (3, 28, 13)
    assert (node_logits == 0).all()
    assert (edge_logits == 0).all()


def test_embeddings_start_at_a_fifth_of_the_usual_width():
    torch.manual_seed(0)
    model = BDDenoiser(**{**TINY, "d_model": 128})
    embeddings = [m for m in model.modules() if isinstance(m, torch.nn.Embedding)]
    assert len(embeddings) == 5
    assert all(abs(embedding.weight.std() - 0.2) < 0.03 for embedding in embeddings)


def test_every_parameter_is_reached_by_a_gradient(build, randomise):
    model = randomise(build())
    node_logits, edge_logits = model(*diagrams([8, 5]), t=0.5)
    (node_logits.square().sum() + edge_logits.square().sum()).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_positions_are_sums_of_what_they_stand_for():
    encoding = CompositePositionalEncoding(VocabConfig(n_max=4), d_model=6)
    kind, node, pair = (
        encoding.entity_type_emb.weight,
        encoding.node_index_emb.weight,
        encoding.pair_index_emb.weight,
    )
    expected = [kind[0] + node[k] for k in range(4)]
    expected += [
        kind[1] + pair[i] + pair[j] for i, j in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    ]
    torch.testing.assert_close(encoding(), torch.stack(expected))


def test_index_buffers_are_integers_that_no_checkpoint_or_average_sees(build):
    model = build()
    buffers = dict(model.named_buffers())
    assert buffers
    assert all(buffer.dtype == torch.long for buffer in buffers.values())
    assert not set(buffers) & set(model.state_dict())


def test_heads_are_linear_in_the_features(build, randomise):
    """So what reads the same features beside them, a mixture, can add to their logits."""
    model, (tokens, pad_mask) = randomise(build()), diagrams([6, 4])
    packing = pack_columns(pad_mask)
    nodes, edges, revealed = model.features(tokens, 0.4, packing)
    assert revealed is None
    assert nodes.shape == (2, 6, 32)
    expected = model(tokens, pad_mask, 0.4)
    for a, b in zip(model.scatter(*model.head(nodes, edges), packing), expected, strict=True):
        assert torch.equal(a, b)
    for head in (model.node_head, model.edge_head):
        torch.nn.init.zeros_(head.bias)
    once, twice = (model.scatter(*model.head(k * nodes, k * edges), packing) for k in (1, 2))
    for a, b in zip(once, twice, strict=True):
        torch.testing.assert_close(2 * a, b)


@pytest.mark.parametrize("num_nodes", [[1, 1], [7, 3]])
def test_columns_left_out_change_nothing_at_real_positions(build, randomise, num_nodes):
    model = randomise(build())
    tokens, pad_mask = diagrams(num_nodes)
    whole, whole_mask = diagrams([*num_nodes, 8])  # eight rooms: no column can be left out
    whole[: len(num_nodes)] = tokens
    t = torch.tensor([0.2, 0.9, 0.5])
    for few, all_, real in zip(
        model(tokens, pad_mask, t[:2]),
        model(whole, whole_mask, t),
        (pad_mask[:, :8], pad_mask[:, 8:]),
        strict=True,
    ):
        torch.testing.assert_close(few[real], all_[:2][real], atol=1e-5, rtol=0)
        assert (few[:, ~real.any(dim=0)] == 0).all()


def test_left_out_columns_are_not_computed_and_no_mask_is_used(randomise):
    model = randomise(BDDenoiser(**TINY))
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args))
    model(*diagrams([6, 6]), t=0.5)
    model(*diagrams([6, 4]), t=0.5)
    (x, _, mask), (x_mixed, _, mask_mixed) = seen
    assert x.shape[1] == x_mixed.shape[1] == 21
    assert mask is None
    assert mask_mixed.sum(dim=-1).flatten().tolist() == [21, 10]


@pytest.mark.parametrize("n_max", [1, 4])
def test_other_sizes_and_vocabularies(build, n_max):
    vocab = VocabConfig(n_max, node_types=("C", "N", "O", "F"), edge_types=("1", "2", "3", "none"))
    model = build(vocab_config=vocab)
    tokens = torch.zeros(3, vocab.length, dtype=torch.long)
    node_logits, edge_logits = model(tokens, torch.ones_like(tokens, dtype=torch.bool), 0.5)
    assert node_logits.shape == (3, n_max, 6)
    assert edge_logits.shape == (3, n_max * (n_max - 1) // 2, 6)


def test_empty_batch_and_sample_of_nothing_but_pad(build, randomise):
    model = randomise(build())
    tokens, pad_mask = diagrams([8, 5])
    assert model(tokens[:0], pad_mask[:0], 0.5)[0].shape == (0, 8, 15)
    for pads in (pad_mask & False, pad_mask & torch.tensor([[True], [False]])):
        assert all(logits.isfinite().all() for logits in model(tokens, pads, 0.5))


def test_bad_input_is_refused_with_what_was_expected(build):
    model, (tokens, pad_mask) = build(), diagrams([8, 5])
    short, three, four = (tokens[:, 1:], pad_mask[:, 1:]), torch.zeros(2, 3), torch.zeros(2, 4, 3)
    for call, says in (
        (lambda: model(*short, 0.5), r"tokens have shape \(2, 35\); expected \(B, 36\)"),
        (lambda: model(tokens, pad_mask.float(), 0.5), r"torch\.float32 .*; expected torch\.bool"),
        (lambda: model(tokens, pad_mask, torch.rand(3)), r"t has shape \(3,\)"),
        (lambda: model(tokens, pad_mask, 0.5, three), r"unconditional.*condition=\[...\]"),
        (
            lambda: build(condition=(1, 3))(tokens, pad_mask, 0.5, three),
            r"condition has shape \(2, 3\); expected \(2, 4\)",
        ),
        (lambda: build(condition=[2, 1])(tokens, pad_mask, 0.5, four), "condition"),
        (lambda: build(n_heads=5), "n_heads=5 does not divide d_model=32; choose 1, 2, 4"),
        (lambda: build(condition=(2, 0)), r"condition=\[2, 0\]"),
    ):
        with pytest.raises(ValueError, match=says):
            call()


SIZES, NAN = (3, 1, 2), torch.nan


def with_facts(num: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Diagrams of eight nodes, and facts of ``SIZES`` numbers."""
    condition = torch.randn(num, sum(SIZES), generator=torch.Generator().manual_seed(1))
    return *diagrams([8] * num), condition


def same(first, second) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_an_unconditional_network_is_reproduced_bit_for_bit(build, randomise):
    tokens, real, condition = with_facts()
    plain, told = randomise(build()), build(condition=SIZES).eval()
    missing = told.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert {name.split(".")[1] for name in missing} == {"tokens", "attention"}
    assert all(name.startswith("facts.") for name in missing)
    assert {"facts.tokens.nothing", "facts.attention.1.attention.out.weight"} <= {*missing}
    expected = plain(tokens, real, 0.3)
    assert same(told(tokens, real, 0.3, condition), expected)
    assert same(told(tokens, real, 0.3), expected)


def test_what_is_told_changes_what_it_says(build, randomise):
    model, (tokens, real, condition) = randomise(build(condition=SIZES)), with_facts()
    said = model(tokens, real, 0.3, condition)
    for k in range(condition.shape[1]):
        other = condition.clone()
        other[:, k] += 1
        assert not same(model(tokens, real, 0.3, other), said)


def test_what_is_not_known_is_not_read(build, randomise):
    model, (tokens, real, condition) = randomise(build(condition=SIZES)), with_facts()
    unknown = condition.clone()
    unknown[:, 4] = NAN  # one number of the last fact: all of it
    other = unknown.clone()
    other[:, 5] = 7.0
    said = model(tokens, real, 0.3, unknown)
    assert same(model(tokens, real, 0.3, other), said)
    assert all(logits.isfinite().all() for logits in said)
    assert not same(model(tokens, real, 0.3, condition), said)


def test_samples_that_are_dropped_are_told_nothing(build, randomise):
    model, (tokens, real, condition) = randomise(build(condition=SIZES)), with_facts()
    keep = torch.tensor([True, False] * 3)
    mixed = model(tokens, real, 0.3, condition, keep=keep)
    told, nothing = model(tokens, real, 0.3, condition), model(tokens, real, 0.3)
    unknown = model(tokens, real, 0.3, torch.full_like(condition, NAN))
    for k in range(2):
        torch.testing.assert_close(mixed[k][keep], told[k][keep])
        torch.testing.assert_close(mixed[k][~keep], nothing[k][~keep])
        torch.testing.assert_close(unknown[k], nothing[k])
        assert not torch.allclose(told[k], nothing[k])


def test_training_hides_a_share_of_the_facts():
    tokens, (_, _, condition) = FactTokens((1,) * 6, 8, dropout=0.25), with_facts(4000)
    torch.manual_seed(0)
    _, seen = tokens(condition, None, len(condition))
    assert seen.shape == (4000, 1, 1, 7)
    assert seen[..., 0].all()
    assert float(seen[..., 1:].double().mean()) == pytest.approx(0.75, abs=0.02)
    _, seen = tokens.eval()(condition, None, len(condition))
    assert seen.all()


def test_a_fact_of_many_numbers_is_read_at_the_scale_of_a_few():
    tokens = FactTokens((4,), 8)
    fact = torch.randn(3, 4)
    expected = tokens.norm(tokens.readers[0](fact / 2))
    torch.testing.assert_close(tokens(fact, None, 3)[0][:, 1], expected)

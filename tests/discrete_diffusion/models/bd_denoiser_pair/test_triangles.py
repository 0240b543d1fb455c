"""The pair stream: its sums, and one fact read from both ends."""

import pytest
import torch
import torch.nn.functional as F

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.models.acceleration import tuned
from discrete_diffusion.models.bd_denoiser_pair import TRIANGLES, BDDenoiserPair, TriangleProducts

VOCAB = RPLAN_VOCAB_CONFIG
TINY = {"d_model": 32, "d_pair": 16, "n_layers": 2, "n_heads": 4, "vocab_config": VOCAB}


@pytest.mark.parametrize(
    ("triangles", "num_real"), [(TRIANGLES, 5), (TRIANGLES, 3), (("incoming",), 3)]
)
def test_products_are_sums_over_the_nodes_that_are_there(randomise, triangles, num_real):
    module = randomise(TriangleProducts(6, triangles))
    z = torch.randn(2, 5, 5, 6)
    real = (torch.arange(5) < num_real).expand(2, 5)
    factors = F.linear(z, module.factors.weight, module.factors.bias)
    values, gates = factors.chunk(2, dim=-1)
    a, b = (values * gates.sigmoid()).chunk(2, dim=-1)  # (2, 5, 5, W)
    sums = torch.zeros(2, 5, 5, 6 * len(triangles))
    for position, name in enumerate(triangles):
        own = slice(6 * position, 6 * position + 6)
        for i in range(5):
            for j in range(5):
                for k in range(num_real):
                    left = a[:, i, k] if name == "outgoing" else a[:, k, i]
                    sums[:, i, j, own] += left[:, own] * b[:, k, j, own]
    expected = module.out(module.norm(sums)) * module.gate(z).sigmoid()
    found = module(z.flatten(1, 2), None if num_real == 5 else real)
    torch.testing.assert_close(found, expected.flatten(1, 2))


@pytest.mark.parametrize(
    ("n", "num", "with_pad"),
    [(4, 60, False), (5, 7, True), (7, 60, True), (7, 1, False), (4, 0, True)],
)
def test_samples_of_a_batch_are_those_alone(randomise, n, num, with_pad):
    """In every kind of batch: many samples, few, one, none."""
    module = randomise(TriangleProducts(6)).double()
    z = torch.randn(num, n * n, 6, dtype=torch.float64, requires_grad=True)
    real = (torch.arange(n) < torch.randint(1, n + 1, (num, 1))) if with_pad else None
    found = module(z, real)
    assert found.shape == z.shape
    alone = [module(z[k : k + 1], None if real is None else real[k : k + 1]) for k in range(num)]
    expected = torch.cat([z[:0], *alone])
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(z)
    of_all, of_each = (
        torch.autograd.grad((out * weights).sum(), [z, *module.parameters()], allow_unused=True)
        for out in (found, expected)
    )
    for ours, theirs in zip(of_all, of_each, strict=True):
        torch.testing.assert_close(ours, torch.zeros_like(ours) if theirs is None else theirs)


@pytest.mark.parametrize("strict", [True, False])
def test_exported_products_take_any_batch(randomise, strict):
    module = tuned(randomise(TriangleProducts(16))).eval()
    sizes = {"z": {0: torch.export.Dim("batch", min=2)}, "real": None}
    z = torch.randn(3, 49, 16)
    exported = torch.export.export(module, (z, None), dynamic_shapes=sizes, strict=strict)
    z = torch.randn(70, 49, 16)
    torch.testing.assert_close(exported.module()(z, None), module(z))


def random_graphs(vocab: VocabConfig, num: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Node ids (num, n) and edge ids of ordered pairs (num, n, n), MASK among them."""
    generator = torch.Generator().manual_seed(0)
    n = vocab.n_max
    nodes = torch.randint(0, vocab.node_mask_id + 1, (num, n), generator=generator)
    upper = torch.randint(0, vocab.edge_mask_id + 1, (num, n, n), generator=generator).triu(1)
    lower = inverse_of(vocab, vocab.edge_mask_id + 1)[upper].transpose(1, 2).tril(-1)
    return nodes, upper + lower


def inverse_of(vocab: VocabConfig, num: int) -> torch.Tensor:
    return torch.tensor([*vocab.edge_inverse, *range(vocab.num_edge_types, num)])


def tokens_of(nodes: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    i, j = torch.triu_indices(nodes.shape[1], nodes.shape[1], offset=1)
    return torch.cat([nodes, pairs[:, i, j]], dim=1)


def pair_logits(vocab: VocabConfig, edge_logits: torch.Tensor) -> torch.Tensor:
    """(B, E, C) -> (B, n, n, C), below the diagonal those of the inverse relation."""
    n = vocab.n_max
    i, j = torch.triu_indices(n, n, offset=1)
    full = edge_logits.new_zeros(len(edge_logits), n, n, edge_logits.shape[-1])
    full[:, i, j] = edge_logits
    full[:, j, i] = edge_logits[..., inverse_of(vocab, vocab.edge_vocab_size)]
    return full


@pytest.mark.parametrize(
    "vocab", [VOCAB, VocabConfig(5, edge_types=("1", "2", "none"))], ids=["rooms", "undirected"]
)
def test_relabelling_the_nodes_relabels_the_logits(randomise, vocab):
    """Without index embeddings. Swapping two nodes reads their relation from its other end."""
    options = {**TINY, "vocab_config": vocab, "index_embeddings": False}
    model = randomise(BDDenoiserPair(**options)).double()
    nodes, pairs = random_graphs(vocab, 4)
    real = torch.ones(4, vocab.length, dtype=torch.bool)
    t = torch.rand(4)
    node_logits, edge_logits = model(tokens_of(nodes, pairs), real, t)
    assert edge_logits.std() > 0.1  # else nothing below could fail
    reverse = torch.arange(vocab.n_max - 1, -1, -1)
    swapped = torch.arange(vocab.n_max)
    swapped[[1, 3]] = swapped[[3, 1]]
    for order in (reverse, swapped, torch.randperm(vocab.n_max)):
        moved = tokens_of(nodes[:, order], pairs[:, order][:, :, order])
        found_nodes, found_edges = model(moved, real, t)
        torch.testing.assert_close(found_nodes, node_logits[:, order], atol=1e-5, rtol=0)
        expected = pair_logits(vocab, edge_logits)[:, order][:, :, order]
        torch.testing.assert_close(pair_logits(vocab, found_edges), expected, atol=1e-5, rtol=0)


def test_a_relation_reaches_what_it_implies(randomise):
    """One block sees (i, k) and (k, j) at (i, j) through the products alone: nodes see nothing."""
    tokens = torch.tensor([[VOCAB.node_mask_id] * 8 + [VOCAB.edge_mask_id] * 28])
    real = torch.ones_like(tokens, dtype=torch.bool)
    changed = tokens.clone()
    changed[0, VOCAB.edge_position(0, 2)] = 3

    def reached(triangles) -> bool:
        model = randomise(BDDenoiserPair(**{**TINY, "n_layers": 1}, triangles=triangles))
        for linear in (model.blocks[0].bias, model.blocks[0].ends):
            torch.nn.init.zeros_(linear.weight)
        before, after = (model(x, real, 0.5)[1] for x in (tokens, changed))
        column = VOCAB.edge_position(0, 1) - 8
        return bool((before - after)[0, column].abs().max() > 1e-4)

    assert reached(["outgoing"])
    assert reached(["incoming"])
    assert not reached([])


def test_pairs_of_nodes_that_are_pad_everywhere_are_not_computed(randomise):
    model = randomise(BDDenoiserPair(**TINY))
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args))
    tokens = torch.zeros(2, 36, dtype=torch.long)
    model(tokens, VOCAB.real_positions(torch.tensor([6, 6])), t=0.5)
    model(tokens, VOCAB.real_positions(torch.tensor([6, 4])), t=0.5)
    (h, z, _, real), (h_mixed, z_mixed, _, real_mixed) = seen
    assert (h.shape[1], z.shape[1]) == (h_mixed.shape[1], z_mixed.shape[1]) == (6, 36)
    assert real is None
    assert real_mixed.sum(dim=-1).tolist() == [6, 4]


def test_every_block_is_the_identity_at_initialisation():
    model = BDDenoiserPair(**TINY).train()
    h, z, c = torch.randn(2, 8, 32), torch.randn(2, 64, 16), torch.randn(2, 32)
    for block in model.blocks:
        same_h, same_z = block(h, z, c)
        assert torch.equal(same_h, h)
        assert torch.equal(same_z, z)


def test_an_unknown_triangle_is_refused():
    with pytest.raises(ValueError, match=r"triangles=.*'sideways'.*outgoing.*incoming"):
        BDDenoiserPair(**TINY, triangles=["sideways"])

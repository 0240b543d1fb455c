"""Block-causal attention, its training form with a clean context, and the cache."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.attention import Visibility, attend
from discrete_diffusion.models.dit import DiT

MASK, PAD = 10, 11
TINY = {"vocab_size": 12, "hidden_size": 32, "n_blocks": 2, "n_heads": 4, "pad_id": PAD}
BLOCKS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
SIGMA = torch.tensor([0.2, 0.7, 1.5])


def assert_same(one: torch.Tensor, two: torch.Tensor) -> None:
    torch.testing.assert_close(one, two, atol=1e-5, rtol=0)


def sequences(padded: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Clean tokens, the same with masks, and which are real: PAD in common and in some samples."""
    generator = torch.Generator().manual_seed(0)
    clean = torch.randint(0, 10, (3, 9), generator=generator)
    real = torch.ones(3, 9, dtype=torch.bool)
    if padded:
        real[:, 4] = False
        real[1, 1] = real[1, 7:] = real[2, 3] = False  # the second block of sample 2 is empty
    clean[~real] = PAD
    masked = torch.rand(clean.shape, generator=generator) < 0.6
    return clean, torch.where(masked & real, MASK, clean), real


def tiles_of(mask: torch.Tensor, size: int = 128) -> torch.Tensor:
    """Bool: some pair of each tile sees each other."""
    short = -mask.shape[-1] % size
    padded = torch.nn.functional.pad(mask, (0, short, 0, short))
    return padded.unflatten(-1, (-1, size)).unflatten(-3, (-1, size)).any(-1).any(-2)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("causal", [False, True])
def test_flex_attention_sees_what_the_mask_lets_it_see(causal):
    """Fewer columns than a tile has, and more."""
    generator = torch.Generator().manual_seed(0)
    for num in (9, 200):
        blocks = torch.arange(num)[None] // 16
        documents = torch.randint(0, 2, (2, num), generator=generator).cumsum(1) // 9
        real = torch.rand(2, 1, 1, num, generator=generator) < 0.9
        given = [Visibility(documents=documents, key_mask=real, causal=causal)]
        if not causal:
            given += [Visibility(blocks), Visibility(blocks, documents, real, with_context=True)]
        for seen in given:
            mask = seen.mask()
            kept = seen.block_mask().to_dense().bool()
            assert torch.equal(kept.expand(len(mask), -1, -1, -1), tiles_of(mask))
            q, k, v = torch.randn(3, 2, 3, mask.shape[-1], 8, generator=generator)
            for first in (num, mask.shape[-1]):
                found = attend(q[:, :, :first], k, v, seen.block_mask(first))
                assert_same(found, attend(q[:, :, :first], k, v, mask[:, :, :first]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.filterwarnings("default")  # the compiler warns of itself
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_flex_attention_on_a_gpu_has_the_logits_and_gradients_of_a_mask(randomise, padded, causal):
    size = TINY | {"hidden_size": 64, "causal": causal}
    plain, flex = (randomise(DiT(**size, attention=kernel)).cuda() for kernel in ("sdpa", "flex"))
    flex.load_state_dict(plain.state_dict())
    for num in (256, 200):
        x, places = torch.randint(0, 10, (2, num), device="cuda"), torch.arange(num, device="cuda")
        x[1, num // 2 :] = PAD if padded else 0
        asked = {"document_idxs": (places // 100).expand(2, -1)}
        if not causal:
            asked |= {"group_idxs": places // 16, "context": x.flip(1)}
        with torch.no_grad():
            logits = [model(x, SIGMA[:2].cuda(), **asked)[x != PAD] for model in (plain, flex)]
        torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-3)
        for model in (plain, flex):
            model.zero_grad()
            model(x, SIGMA[:2].cuda(), **asked)[x != PAD][:, :MASK].square().mean().backward()
        for one, two in zip(plain.parameters(), flex.parameters(), strict=True):
            assert one.grad is not None
            assert two.grad is not None
            torch.testing.assert_close(one.grad, two.grad, atol=1e-4, rtol=1e-2)


def test_flex_attention_is_a_mask_where_there_is_no_gpu(randomise):
    size = TINY | {"hidden_size": 64}
    clean, noisy, _ = sequences(padded=True)
    plain, flex = (randomise(DiT(**size, attention=kernel)) for kernel in ("sdpa", "flex"))
    flex.load_state_dict(plain.state_dict())
    documents = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2]).expand(3, -1)
    asked = {"group_idxs": BLOCKS, "context": clean, "document_idxs": documents}
    assert torch.equal(plain(noisy, SIGMA, **asked), flex(noisy, SIGMA, **asked))


def test_a_position_sees_its_own_block_and_earlier_ones(randomise):
    model = randomise(DiT(**TINY))
    _, x, _ = sequences(padded=False)
    logits = model(x, SIGMA, group_idxs=BLOCKS)
    for block in range(3):
        changed = torch.where(block == BLOCKS, (x + 1) % 10, x)
        moved = (model(changed, SIGMA, group_idxs=BLOCKS) - logits).abs().amax(dim=(0, 2))
        assert (moved[block > BLOCKS] < 1e-5).all()
        assert (moved[block <= BLOCKS] > 1e-3).all()


def test_groups_may_be_shared_or_given_per_sample(randomise):
    model = randomise(DiT(**TINY))
    _, x, real = sequences(padded=True)
    shared = model(x, group_idxs=BLOCKS)
    assert_same(model(x, group_idxs=BLOCKS.expand(3, -1))[real], shared[real])
    assert_same(model(x, group_idxs=BLOCKS.repeat(3, 1))[real], shared[real])
    mixed = torch.stack([BLOCKS, BLOCKS, torch.zeros(9, dtype=torch.long)])
    logits = model(x, group_idxs=mixed)
    assert_same(logits[:2][real[:2]], shared[:2][real[:2]])
    assert_same(logits[2][real[2]], model(x)[2][real[2]])  # one block: everything is seen


@pytest.mark.parametrize("padded", [False, True])
def test_training_form_gives_the_logits_of_the_sampling_form(randomise, padded):
    """With a clean context every block at once; without, earlier blocks clean, later ones MASK."""
    model = randomise(DiT(**TINY))
    clean, noisy, real = sequences(padded)
    at_once = model(noisy, SIGMA, group_idxs=BLOCKS, context=clean)
    assert at_once.shape == (3, 9, 12)
    for block in range(3):
        later = torch.where(real, MASK, PAD)
        x = torch.where(block == BLOCKS, noisy, torch.where(block > BLOCKS, clean, later))
        here = real & (block == BLOCKS)
        assert_same(model(x, SIGMA, group_idxs=BLOCKS)[here], at_once[here])


def test_training_form_hides_the_answer(randomise):
    """Noisy tokens of other blocks and clean ones of the own and later blocks change nothing."""
    model = randomise(DiT(**TINY))
    clean, noisy, _ = sequences(padded=False)
    logits = model(noisy, SIGMA, group_idxs=BLOCKS, context=clean)
    for block in range(3):
        changed = torch.where(block == BLOCKS, (clean + 1) % 10, clean)
        moved = model(noisy, SIGMA, group_idxs=BLOCKS, context=changed) - logits
        moved = moved.abs().amax(dim=(0, 2))
        assert (moved[block >= BLOCKS] < 1e-5).all()
        assert (moved[block < BLOCKS] > 1e-3).all()
        changed = torch.where(block == BLOCKS, (noisy + 1) % 10, noisy)
        moved = model(changed, SIGMA, group_idxs=BLOCKS, context=clean) - logits
        moved = moved.abs().amax(dim=(0, 2))
        assert (moved[block != BLOCKS] < 1e-5).all()
        assert (moved[block == BLOCKS] > 1e-3).all()


def test_what_pad_looks_like_does_not_matter_in_the_training_form(randomise):
    model = randomise(DiT(**TINY))
    clean, noisy, real = sequences(padded=True)
    logits = model(noisy, SIGMA, group_idxs=BLOCKS, context=clean)
    assert logits.isfinite().all()
    assert (logits.softmax(dim=-1)[real][:, PAD] == 0).all()
    with torch.no_grad():
        model.token_embedding.weight[PAD] += 5.0
    assert_same(model(noisy, SIGMA, group_idxs=BLOCKS, context=clean)[real], logits[real])
    for b in range(3):
        alone = model(
            noisy[b : b + 1], SIGMA[b : b + 1], group_idxs=BLOCKS, context=clean[b : b + 1]
        )
        assert_same(alone[0, real[b]], logits[b, real[b]])


@pytest.mark.parametrize("pieces", [(9,), (1,) * 9, (3, 1, 4, 1)])
def test_cached_columns_give_the_same_logits(randomise, pieces):
    model = randomise(DiT(**TINY, causal=True))
    _, x, _ = sequences(padded=False)
    cache, parts, stop = model.new_cache(torch.arange(9), torch.arange(9), 3), [], 0
    with torch.no_grad():
        for part in x.split(pieces, dim=1):
            start, stop = stop, stop + part.shape[1]
            cache.begin(None, start, stop, stop)
            parts.append(model(part, SIGMA, cache=cache))
    assert_same(torch.cat(parts, dim=1), model(x, SIGMA))


@pytest.mark.parametrize("rows", [None, [2, 0], [0, 1, 2]])
def test_cached_blocks_give_the_same_logits(randomise, rows):
    """The last block once more after other noisy tokens, of all samples or of some."""
    model = randomise(DiT(**TINY))
    clean, noisy, _ = sequences(padded=False)
    cache, some = model.new_cache(torch.arange(9), BLOCKS, 3), rows or [0, 1, 2]
    index = None if rows is None else torch.tensor(rows)
    with torch.no_grad():
        cache.begin(None, 0, 6, 3)  # the second block is noisy, and not kept
        model(torch.where(BLOCKS == 0, clean, noisy)[:, :6], cache=cache)
        for x in (noisy, clean):
            x = torch.where(BLOCKS == 2, x, clean)
            cache.begin(index, 3, 9, 5)
            found = model(x[some, 3:], cache=cache)
            assert_same(found[:, 2:], model(x, group_idxs=BLOCKS)[some, 5:])


def test_cached_columns_keep_their_positions(randomise):
    """PAD columns are not fed, and the others stand where they stood."""
    model = randomise(DiT(**{**TINY, "vocab_size": 28, "pad_id": 14}, causal=True))
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor([6, 6]))
    x = torch.randint(0, 13, real.shape).masked_fill(~real, 14)
    columns = real[0].nonzero().squeeze(1)
    cache, parts = model.new_cache(columns, columns, 2), []
    with torch.no_grad():
        for k, column in enumerate(columns):
            cache.begin(None, k, k + 1, k + 1)
            parts.append(model(x[:, column : column + 1], SIGMA[:2], cache=cache))
    assert_same(torch.cat(parts, dim=1), model(x, SIGMA[:2])[:, columns])

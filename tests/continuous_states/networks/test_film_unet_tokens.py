"""The U-Net over pixels that are ids."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from continuous_states.networks.dtn_unet import FilmUNetTokens
from discrete_diffusion.models import build_backbone

PIXELS = {"length": 64, "vocab_size": 7, "mask_id": 6, "num_boundary": 8}
SIGMA = torch.tensor([0.2, 0.7, 1.5])


def build(make_config, data: dict | None = None, **model) -> FilmUNetTokens:
    config = make_config("film-unet-tokens", "film_unet_tiny", {**PIXELS, **(data or {})})
    config.model.update({"channels": 8, "d_model": 16, "cond_dim": 12, "multipliers": [1, 2]})
    config.model.update(model)
    return build_backbone(config, 7)


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randint(0, 7, (3, 64), generator=generator),
        torch.randn(3, 8, 8, generator=generator),
    )


def test_logits_are_the_u_net_of_the_embedded_pixels(make_config, randomise):
    (ids, dtn), model = inputs(), randomise(build(make_config))
    logits = model(x_t=ids, sigma=SIGMA, dtn=dtn)
    assert logits.shape == (3, 64, 7)
    assert logits.std() > 0.1
    image = model.embedding.weight[ids.reshape(3, 8, 8)].permute(0, 3, 1, 2)
    expected = model.network(image, SIGMA, dtn)  # (B, V, H, W)
    torch.testing.assert_close(logits, expected.permute(0, 2, 3, 1).reshape(3, 64, 7))
    for form in (0.7, SIGMA[1:2].repeat(3, 1)):  # a number, (B, 1)
        same = model(ids, SIGMA[1:2].repeat(3), dtn)
        torch.testing.assert_close(model(ids, form, dtn), same)


def test_neighbours_the_map_and_time_are_read(make_config, randomise):
    (ids, dtn), model = inputs(), randomise(build(make_config))
    logits = model(ids, SIGMA, dtn)
    changed = ids.clone()
    changed[:, 0] = (ids[:, 0] + 1) % 7
    assert (model(changed, SIGMA, dtn) - logits)[:, 1].abs().max() > 1e-3
    assert (model(ids, SIGMA, -dtn) - logits).abs().max() > 1e-3
    assert (model(ids, 2 * SIGMA, dtn) - logits).abs().max() > 1e-3
    assert (model(ids, SIGMA) - logits).abs().max() > 1e-3
    for sigma in (None, torch.zeros(3)):
        assert model(ids, sigma, dtn).isfinite().all()


def test_the_first_prediction_is_uniform_and_a_step_moves_it(make_config):
    (ids, dtn), model = inputs(), build(make_config)
    assert (model(ids, SIGMA, dtn) == 0).all()
    model.fit_conditions({"dtn": dtn})
    torch.testing.assert_close(model.network.encoder.shift, dtn.mean(dim=0))
    loss = torch.nn.functional.cross_entropy(model(ids, SIGMA, dtn).transpose(1, 2), ids)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert model(ids, SIGMA, dtn).abs().max() > 0
    assert "time_film" in model.diagnostics()


def test_data_that_it_cannot_read_are_refused(make_config):
    with pytest.raises(ValueError, match=r"square images, but data.length=72 is not 8 x 8 pixels"):
        build(make_config, {"length": 72})
    with pytest.raises(ValueError, match=r"data.length=64 is not 9 x 9 pixels; set data.size"):
        build(make_config, {"size": 9})
    with pytest.raises(ValueError, match="images of 9 x 9 pixels cannot be halved 1 times"):
        build(make_config, {"length": 81, "size": 9})
    with pytest.raises(ValueError, match=r"needs data.num_boundary, .*; choose data=eit-levels"):
        build(make_config, {"num_boundary": None})
    with pytest.raises(ValueError, match="every pixel of which is real, but the data has pad_id=5"):
        build(make_config, {"pad_id": 5})
    with pytest.raises(
        ValueError, match=r"x_t has shape \(3, 63\); expected \(B, 64\), the pixels"
    ):
        build(make_config)(inputs()[0][:, :63])

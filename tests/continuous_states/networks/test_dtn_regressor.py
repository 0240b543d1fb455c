"""From a map to an image through one vector."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from continuous_states.networks.dtn_unet import DtNEncoder, DtNRegressor
from discrete_diffusion.models import build_backbone

ENCODER = {"num_boundary": 6, "d_model": 12, "n_layers": 2, "n_heads": 3}
SHAPE = (2, 4, 8)


def build(head_widths=(7, 5), **encoder) -> DtNRegressor:
    options = {**ENCODER, "time_conditioning": False, **encoder}
    return DtNRegressor(encoder=DtNEncoder(**options), shape=SHAPE, head_widths=head_widths)


def maps(num: int = 3) -> Tensor:
    return torch.randn(num, 6, 6, generator=torch.Generator().manual_seed(0))


def test_it_says_0_at_first_and_reads_the_map_only(randomise):
    model, blank = build(), torch.zeros(3, *SHAPE)
    assert model(x_t=blank, dtn=maps()).abs().max() == 0
    head = (12 * 7 + 7) + (7 * 5 + 5) + (5 * 64 + 64)
    assert sum(p.numel() for p in model.head.parameters()) == head
    model.fit_conditions({"dtn": 3 + 2 * maps(500)})
    assert (model.encoder.shift - 3).abs().max() < 0.5
    randomise(model)
    image = model(x_t=blank, dtn=maps())
    assert image.shape == blank.shape
    assert (image[0] - image[1]).abs().max() > 1e-2
    assert torch.equal(model(blank + 1, torch.ones(3), maps()), image)
    vector = model.norm(model.encoder(maps()).vector)
    for k in (0, 2):
        vector = torch.nn.functional.gelu(model.head[k](vector))
    torch.testing.assert_close(image.flatten(1), model.head[4](vector))


def test_the_head_may_read_the_tokens_too(randomise):
    options = {"shape": SHAPE, "head_widths": [], "read_tokens": True}
    encoder = DtNEncoder(**ENCODER, time_conditioning=False)
    model = randomise(DtNRegressor(encoder=encoder, **options))
    found = encoder(maps())
    read = torch.cat([found.vector, *found.tokens.unbind(dim=1)], dim=1)
    image = model(torch.zeros(3, *SHAPE), dtn=maps())
    torch.testing.assert_close(image.flatten(1), model.head(model.norm(read)))
    model.train()(torch.zeros(3, *SHAPE), dtn=maps()).sum().backward()
    assert all(p.grad.abs().max() > 0 for n, p in model.named_parameters() if "score.bias" not in n)


def test_its_encoder_fits_the_u_net_whose_encoder_reads_no_time(make_config):
    sizes = {"d_model": 16, "n_layers": 1, "n_heads": 2}
    data = {"num_boundary": 6, "field_size": 8}
    small, large = (
        make_config(name, f"{name.replace('-', '_')}_tiny", data, time_conditioning=False)
        for name in ("dtn-regressor", "dtn-unet")
    )
    small.model.update({**sizes, "head_widths": [9], "read_tokens": True})
    large.model.update({**sizes, "channels": 8})
    model, network = build_backbone(small, 2), build_backbone(large, 2)
    assert model.shape == (2, 8, 8)
    assert (model.head[0].in_features, model.head[0].out_features) == (7 * 16, 9)
    assert not network.encoder_reads_time  # there are no times, whatever model.encoder_time says
    network.encoder.load_state_dict(model.encoder.state_dict())


def test_what_it_refuses(make_config):
    with pytest.raises(ValueError, match="give an encoder without time_conditioning"):
        build(time_conditioning=True)
    with pytest.raises(ValueError, match=r"head_widths=\[8, 0\]: expected numbers of at least 1"):
        build(head_widths=(8, 0))
    with pytest.raises(ValueError, match=r"there are no maps; expected \(B, 2, 4, 8\)"):
        build()(torch.zeros(3, *SHAPE))
    with pytest.raises(ValueError, match=r"maps of shape \(3, 6, 6\); expected \(B, 2, 4, 8\)"):
        build()(torch.zeros(3, 2, 4, 4), dtn=maps())
    with pytest.raises(ValueError, match=r"'dtn-regressor' reads Dir.* data.num_boundary"):
        build_backbone(make_config("dtn-regressor", "dtn_regressor_tiny", {}), 1)

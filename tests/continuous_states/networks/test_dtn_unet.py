"""The map's encoder and the U-Net that is told what it found."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from continuous_states.networks.dtn_unet import DtNEncoder, DtNRegressor, DtNUNet, FilmUNetTokens
from continuous_states.networks.film_unet import FiLMUNet
from discrete_diffusion.models import build_backbone

ENCODER = {"num_boundary": 6, "d_model": 12, "n_layers": 2, "n_heads": 3}
SIGMA = torch.tensor([0.2, 0.7, 1.5])


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def maps(seed: int = 0, num: int = 3) -> Tensor:
    """Not symmetric, so that rows cannot stand for columns."""
    return torch.randn(num, 6, 6, generator=torch.Generator().manual_seed(seed))


def images(seed: int = 1) -> Tensor:
    return torch.randn(3, 1, 4, 8, generator=torch.Generator().manual_seed(seed))


def network(unet: dict | None = None, **encoder) -> DtNUNet:
    options = {"channels": 8, "multipliers": (1, 2), "cond_dim": 10, "groups": 4, **(unet or {})}
    return DtNUNet(
        unet=FiLMUNet(in_channels=1, out_channels=1, **options),
        encoder=DtNEncoder(**{**ENCODER, **encoder}),
    )


def test_sizes():
    n = d = cond_dim = 128
    sizes = {"channels": 128, "multipliers": (1, 2, 2, 2), "cond_dim": cond_dim}
    with torch.device("meta"):
        model = DtNUNet(
            unet=FiLMUNet(in_channels=1, out_channels=1, **sizes),
            encoder=DtNEncoder(num_boundary=n, d_model=d, n_layers=4, n_heads=4),
        )
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert num_parameters(model.encoder) == (  # columns, time, blocks, pooling
        n * d + d + d * d + d + 4 * (12 * d * d + 13 * d) + 2 * d + d + 1
    )
    bridge = d * cond_dim + cond_dim + 2 * cond_dim
    assert num_parameters(model) == 32_663_042 == 31_819_777 + 826_497 + bridge
    base = num_parameters(DtNEncoder(**ENCODER))
    assert num_parameters(DtNEncoder(**ENCODER, pool_layers=2)) == base + 12 * 12 + 12
    assert num_parameters(DtNEncoder(**ENCODER, time_conditioning=False)) == base - 12 * 12 - 12


def test_a_time_that_was_saved_but_never_read_is_left_out():
    saved = network(time_conditioning=True).state_dict()
    model = network(time_conditioning=False)
    model.load_state_dict(saved)
    assert torch.equal(model.encoder.embedding.weight, saved["encoder.embedding.weight"])


def test_the_encoder_is_its_equations(randomise):
    """PyTorch's own pre-norm layers, with the same weights."""
    encoder = randomise(DtNEncoder(**ENCODER)).double()
    dtn, t = maps().double(), torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    encoder.fit_condition(maps(5, 40).double() + 2)

    def waves(values: Tensor) -> Tensor:
        angles = values[:, None] * 10_000.0 ** (-torch.arange(6, dtype=torch.float64) / 6)
        return torch.cat([angles.cos(), angles.sin()], dim=-1)

    standard = (dtn - encoder.shift) / encoder.scale
    x = encoder.embedding(standard.transpose(1, 2)) + encoder.time_proj(waves(1000 * t))[:, None]
    x = x + waves(torch.arange(6, dtype=torch.float64))
    for block in encoder.blocks:
        layer = nn.TransformerEncoderLayer(
            12, 3, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        ).double()
        names = {
            "self_attn.in_proj_": block.attention.qkv,
            "self_attn.out_proj.": block.attention.out,
            "linear1.": block.mlp.up,
            "linear2.": block.mlp.down,
            "norm1.": block.norm1,
            "norm2.": block.norm2,
        }
        layer.load_state_dict(
            {f"{name}{kind}": v for name, p in names.items() for kind, v in p.state_dict().items()}
        )
        x = layer(x)
    weights = encoder.pooling.score(F.layer_norm(x, (12,), *encoder.pooling.norm.parameters()))
    expected = (weights.softmax(dim=1) * x).sum(dim=1)
    assert expected.std() > 0.1
    torch.testing.assert_close(encoder(dtn, t).vector, expected, atol=1e-10, rtol=0)


def test_dropped_columns_are_not_read_in_training_only(randomise):
    encoder = randomise(DtNEncoder(**ENCODER, token_dropout=0.5))
    assert torch.equal(encoder(maps()).vector, encoder(maps()).vector)
    encoder.train()
    torch.manual_seed(0)
    dtn = maps().requires_grad_()
    encoder(dtn).vector.square().sum().backward()
    read = dtn.grad.abs().sum(dim=1) > 0  # (B, columns)
    assert 0.2 < read.float().mean() < 0.8


def test_entries_are_standardised_and_constant_ones_left_at_their_scale():
    train = 3.0 + maps(2, 50) * torch.arange(1.0, 7.0)
    train[:, 2, 4] = 7.3
    encoder = DtNEncoder(**ENCODER)
    before = encoder(train).vector
    assert torch.equal(encoder.shift, torch.zeros(6, 6))
    assert torch.equal(encoder.scale, torch.ones(6, 6))
    encoder.fit_condition(train)
    assert encoder.scale[2, 4] == 1
    standard = (train - encoder.shift) / encoder.scale
    torch.testing.assert_close(standard.mean(0), torch.zeros(6, 6), atol=1e-5, rtol=0)
    spread = torch.ones(6, 6)
    spread[2, 4] = 0
    torch.testing.assert_close(standard.std(0, correction=0), spread, atol=1e-5, rtol=0)
    assert (encoder(train).vector - before).abs().max() > 1e-2
    other = DtNEncoder(**ENCODER)
    other.load_state_dict(encoder.state_dict())  # statistics travel in the checkpoint
    assert torch.equal(other(train).vector, encoder(train).vector)


def test_at_first_the_condition_has_no_effect():
    model = network({"zero_init_out": False}).train()
    x, dtn = images(), maps()
    expected = model(x, SIGMA)
    assert expected.abs().max() > 1e-2
    assert torch.equal(model(x, SIGMA, dtn), expected)
    assert (network()(x, SIGMA, dtn) == 0).all()
    assert torch.equal(model(x), model(x, torch.zeros(3)))  # no time is time 0


def test_the_network_is_the_u_net_of_the_normalised_bridge(randomise):
    model, t = randomise(network()).double(), -torch.expm1(-SIGMA.double())
    x, dtn = images().double(), maps().double()
    cond = model.encoder(dtn, t).vector @ model.bridge.weight.T + model.bridge.bias
    centred = cond - cond.mean(1, keepdim=True)
    cond = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    cond = cond * model.norm.weight + model.norm.bias
    torch.testing.assert_close(model(x, SIGMA.double(), dtn), model.unet(x, t, cond))


@pytest.mark.parametrize(
    ("reads_time", "unet"),
    [(True, {}), (False, {"token_dim": 12, "attention_heads": 2})],
    ids=["a vector at each time", "tokens without time"],
)
def test_encoded_maps_serve_instead_of_the_maps(randomise, reads_time, unet):
    model = randomise(network(unet, time_conditioning=reads_time))
    assert model.encoder_reads_time == reads_time
    x, dtn = images(), maps()
    encoded = model.encode(dtn, SIGMA)
    expected = model(x, SIGMA, dtn)
    assert torch.equal(model(x, SIGMA, encoded=encoded), expected)
    without_time = model(x, SIGMA, encoded=model.encode(dtn))
    assert torch.equal(without_time, expected) is not reads_time
    rows = torch.tensor([2, 2, 0])
    alike = model.encode(dtn[rows], SIGMA[rows])
    torch.testing.assert_close(
        model(x, SIGMA, encoded=encoded[rows]), model(x, SIGMA, encoded=alike)
    )
    assert len(encoded[:2]) == 2
    keep = torch.tensor([False, True, True])  # a dropped condition is none
    mixed = model(x, SIGMA, dtn, keep=keep)
    torch.testing.assert_close(mixed[keep], expected[keep])
    torch.testing.assert_close(mixed[~keep], model(x, SIGMA)[~keep])


def test_diagnostics_are_of_the_last_forward_pass_in_training(randomise):
    model = network()
    gate = pytest.approx(1 / (1 + math.exp(4)))
    model.eval()(images(), SIGMA, maps())
    assert model.diagnostics() == {"cond_gate": gate}
    model.train()(images(), SIGMA, maps())
    found = model.diagnostics()
    assert list(found) == [*("cond_gate", "time_film", "cond_film", "pool_entropy", "pool_largest")]
    assert found["cond_film"] == 0 < found["time_film"]
    randomise(model).train()(images(), SIGMA, maps())
    found = model.diagnostics()
    weights = model.encode(maps(), SIGMA).weights.detach()
    entropy = -(weights * weights.log()).sum(dim=1).mean()
    assert found["pool_entropy"] == pytest.approx(float(entropy), rel=1e-5)
    assert found["pool_largest"] == pytest.approx(float(weights.max(dim=1).values.mean()), rel=1e-5)
    time_emb = F.silu(model.unet.time_embedder(-torch.expm1(-SIGMA)))
    blocks = [module for module in model.modules() if hasattr(module, "time_cond")]
    films = [module.time_cond(time_emb).detach().square().mean() for module in blocks]
    assert found["time_film"] == pytest.approx(float(torch.stack(films).mean().sqrt()), rel=1e-4)
    copied = copy.deepcopy(model)  # as an average of weights does
    assert copied.diagnostics() == found
    model(images(), SIGMA)  # without a condition there are no weights
    assert list(model.diagnostics()) == ["cond_gate", "time_film", "cond_film"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(randomise, dtype):
    model = randomise(network())
    expected = model(images(), SIGMA, maps())
    model.train()
    with torch.autocast("cpu", torch.bfloat16):
        low = model(images(), SIGMA, maps())
    assert model.diagnostics()["time_film"] > 0
    predicted = model.to(dtype)(images(), SIGMA, maps())
    assert predicted.dtype == dtype
    for found in (low, predicted):
        assert (found - expected).square().mean().sqrt() / expected.std() < 0.1


def test_bad_arguments_are_refused():
    model = network()
    with pytest.raises(ValueError, match=r"dtn has shape \(3, 5, 6\); expected \(B, 6, 6\), as da"):
        model(images(), SIGMA, maps()[:, :5])
    with pytest.raises(ValueError, match=r"dtn has shape \(6, 6\)"):
        model.fit_conditions({"dtn": maps()[0]})
    with pytest.raises(ValueError, match=r"tokens of width 10, the encoder has d_model=12; make"):
        network({"token_dim": 10})
    for options, message in (
        ({"d_model": 9}, "sinusoids need an even d_model, got 9; choose 10"),
        ({"token_dropout": 1.0}, r"token_dropout=1.0: expected a share in \[0, 1\)"),
        ({"n_heads": 5}, "n_heads=5 does not divide d_model=12; choose 1, 2, 3, 4, 6, 12"),
    ):
        with pytest.raises(ValueError, match=message):
            DtNEncoder(**{**ENCODER, **options})


SHAPE = (2, 4, 8)


def regressor(head_widths=(7, 5), **encoder) -> DtNRegressor:
    options = {**ENCODER, "time_conditioning": False, **encoder}
    return DtNRegressor(encoder=DtNEncoder(**options), shape=SHAPE, head_widths=head_widths)


def test_a_regressor_says_0_at_first_and_reads_the_map_only(randomise):
    model, blank = regressor(), torch.zeros(3, *SHAPE)
    assert model(x_t=blank, dtn=maps()).abs().max() == 0
    head = (12 * 7 + 7) + (7 * 5 + 5) + (5 * 64 + 64)
    assert sum(p.numel() for p in model.head.parameters()) == head
    model.fit_conditions({"dtn": 3 + 2 * maps(num=500)})
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


def test_the_head_of_a_regressor_may_read_the_tokens_too(randomise):
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


def test_what_a_regressor_refuses():
    with pytest.raises(ValueError, match="give an encoder without time_conditioning"):
        regressor(time_conditioning=True)
    with pytest.raises(ValueError, match=r"head_widths=\[8, 0\]: expected numbers of at least 1"):
        regressor(head_widths=(8, 0))
    with pytest.raises(ValueError, match=r"there are no maps; expected \(B, 2, 4, 8\)"):
        regressor()(torch.zeros(3, *SHAPE))
    with pytest.raises(ValueError, match=r"maps of shape \(3, 6, 6\); expected \(B, 2, 4, 8\)"):
        regressor()(torch.zeros(3, 2, 4, 4), dtn=maps())


PIXELS = {"length": 64, "vocab_size": 7, "mask_id": 6, "num_boundary": 8}


def over_ids(make_config, data: dict | None = None, **model) -> FilmUNetTokens:
    config = make_config("film-unet-tokens", "film_unet_tiny", {**PIXELS, **(data or {})})
    config.model.update({"channels": 8, "d_model": 16, "cond_dim": 12, "multipliers": [1, 2]})
    config.model.update(model)
    return build_backbone(config, 7)


def ids_and_maps() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randint(0, 7, (3, 64), generator=generator),
        torch.randn(3, 8, 8, generator=generator),
    )


def test_logits_are_the_u_net_of_the_embedded_pixels(make_config, randomise):
    (ids, dtn), model = ids_and_maps(), randomise(over_ids(make_config))
    logits = model(x_t=ids, sigma=SIGMA, dtn=dtn)
    assert logits.shape == (3, 64, 7)
    assert logits.std() > 0.1
    image = model.embedding.weight[ids.reshape(3, 8, 8)].permute(0, 3, 1, 2)
    expected = model.network(image, SIGMA, dtn)  # (B, V, H, W)
    torch.testing.assert_close(logits, expected.permute(0, 2, 3, 1).reshape(3, 64, 7))
    for form in (0.7, SIGMA[1:2].repeat(3, 1)):  # a number, (B, 1)
        same = model(ids, SIGMA[1:2].repeat(3), dtn)
        torch.testing.assert_close(model(ids, form, dtn), same)


def test_the_first_prediction_is_uniform_and_a_step_moves_it(make_config):
    (ids, dtn), model = ids_and_maps(), over_ids(make_config)
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
        over_ids(make_config, {"length": 72})
    with pytest.raises(ValueError, match=r"data.length=64 is not 9 x 9 pixels; set data.size"):
        over_ids(make_config, {"size": 9})
    with pytest.raises(ValueError, match=r"needs data.num_boundary, .*; choose data=eit_quantised"):
        over_ids(make_config, {"num_boundary": None})
    with pytest.raises(ValueError, match="every pixel of which is real, but the data has pad_id=5"):
        over_ids(make_config, {"pad_id": 5})
    with pytest.raises(
        ValueError, match=r"x_t has shape \(3, 63\); expected \(B, 64\), the pixels"
    ):
        over_ids(make_config)(ids_and_maps()[0][:, :63])

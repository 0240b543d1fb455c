"""Encoders and decoders of ``transformers``, alone and in the latent space model."""

from __future__ import annotations

import re
import runpy
import socket
import sys
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F

from continuous_states.networks import text_models
from continuous_states.networks.text_models import build_text_decoder, build_text_encoder
from discrete_diffusion.models import build_backbone

V = 11
ENCODER = {"vocab_size": V, "hidden_size": 16, "num_heads": 2, "intermediate_size": 8}
DECODER = {**ENCODER, "head_dim": 8, "num_layers": 2}
ENCODER["num_layers"] = 2

needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None, reason="needs the extra text"
)


@pytest.fixture(scope="module")
def encoder():
    return build_text_encoder(**ENCODER).eval()


@pytest.fixture(scope="module")
def decoder():
    return build_text_decoder(**DECODER).eval()


def test_without_the_extra_the_error_names_it(monkeypatch, make_config):
    monkeypatch.setitem(sys.modules, "transformers", None)
    runpy.run_path(text_models.__file__)  # the module itself needs none
    for build in (build_text_encoder, build_text_decoder):
        with pytest.raises(ValueError, match=r"transformers.*pip install .*\[text"):
            build(vocab_size=V)
    with pytest.raises(ValueError, match=r"pip install .*\[text"):
        build_backbone(make_config("latent-space-model", "latent_tiny"), V)


@pytest.fixture
def connections(monkeypatch) -> list[object]:
    """What was asked of the network, which is not there."""
    asked: list[object] = []

    def refuse(*args: object, **kwargs: object) -> None:
        asked.append(args)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return asked


@needs_transformers
def test_defaults_are_the_sizes_of_modernbert_base_and_gemma_270m():
    with torch.device("meta"):
        networks = build_text_encoder(), build_text_decoder()
    sizes = [sum(p.numel() for p in network.parameters()) for network in networks]
    assert sizes == [149_014_272, 268_098_176]
    assert (networks[0].hidden_size, networks[1].hidden_size) == (768, 640)


@needs_transformers
@pytest.mark.parametrize(("num", "trained"), [(None, {"0", "1", "rest"}), (1, {"1"}), (0, set())])
def test_so_many_last_layers_of_the_encoder_are_trained(num, trained):
    encoder = build_text_encoder(**ENCODER, num_unfrozen_layers=num)
    for mode in (True, False, True):
        encoder.requires_grad_(mode)
        names = [name for name, p in encoder.named_parameters() if p.requires_grad]
        found = {n.split(".")[2] if ".layers." in n else "rest" for n in names}
        assert found == (trained if mode else set())
    for wrong in (3, -1, 0.5):
        with pytest.raises(ValueError, match=f"num_unfrozen_layers={wrong}.*(2 lay|whole number)"):
            build_text_encoder(**ENCODER, num_unfrozen_layers=wrong)


@needs_transformers
def test_padding_changes_no_state_of_the_encoder(encoder):
    ids, real = torch.randint(0, V, (2, 7)), torch.ones(2, 7, dtype=torch.bool)
    real[1, 4:] = False
    states = encoder(ids, real)
    assert states.shape == (2, 7, 16)
    other = encoder(torch.where(real, ids, (ids + 1) % V), real)
    torch.testing.assert_close(other[real], states[real])
    torch.testing.assert_close(encoder(ids[1:, :4], real[1:, :4])[0], states[1, :4])
    assert encoder(ids, torch.zeros_like(real)).isfinite().all()


@needs_transformers
def test_decoder_is_causal_and_counts_logits_from_the_end(decoder):
    ids = torch.randint(0, V, (2, 6))
    changed = ids.clone()
    changed[:, 3] = (ids[:, 3] + 1) % V
    logits = decoder(decoder.embed(ids))
    assert logits.shape == (2, 6, V)
    difference = (decoder(decoder.embed(changed)) - logits).abs().amax(dim=(0, 2))
    assert (difference[:3] == 0).all()
    assert (difference[3:] > 0).all()
    torch.testing.assert_close(decoder(decoder.embed(ids), num_logits=2), logits[:, 4:])


@needs_transformers
def test_ids_are_embedded_as_the_network_embeds_them(decoder):
    ids = torch.randint(0, V, (2, 6))
    with torch.no_grad():
        torch.testing.assert_close(decoder(decoder.embed(ids)), decoder.network(ids).logits)
    raw = decoder.network.get_input_embeddings().weight[ids]
    torch.testing.assert_close(decoder.embed(ids), 4 * raw)  # Gemma scales by sqrt(16)
    scales = {layer.self_attn.scaling for layer in decoder.network.model.layers}
    assert scales == {8**-0.5}  # by the width of its heads


@needs_transformers
def test_a_cache_gives_the_same_logits_id_by_id(decoder):
    embedded, cache = decoder.embed(torch.randint(0, V, (2, 6))), decoder.new_cache()
    with torch.no_grad():
        logits = decoder(embedded)
        steps = [decoder(part, cache=cache) for part in embedded.split([3, 1, 2], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), logits, atol=1e-5, rtol=0)


@needs_transformers
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_networks_are_read_from_a_folder(request, part, tmp_path, connections):
    network = request.getfixturevalue(part)
    build = build_text_encoder if part == "encoder" else build_text_decoder
    network.network.save_pretrained(tmp_path)
    read = build(vocab_size=V, path=str(tmp_path))
    assert read.hidden_size == 16
    expected = network.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in read.state_dict().items())
    with pytest.raises(ValueError, match=f"vocab_size=12 of .*, but the {part} in .* has 11 ids"):
        build(vocab_size=12, path=str(tmp_path))
    with torch.device("meta"):
        sized = build(vocab_size=V, path=str(tmp_path))
    assert {p.shape for p in sized.parameters()} == {p.shape for p in network.parameters()}
    assert all(p.is_meta for p in sized.parameters())
    assert not connections
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=rf"model\.{part}\.path=.* cannot be read; expected a"):
        build(vocab_size=V, path=str(tmp_path))


def resaved(folder, change) -> None:
    """Write ``model.safetensors`` in ``folder`` again, with ``change`` of its tensors by name."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


@needs_transformers
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_folders_without_the_weights_are_refused(request, part, tmp_path):
    build = build_text_encoder if part == "encoder" else build_text_decoder
    request.getfixturevalue(part).network.save_pretrained(tmp_path)

    def refused(says):
        with pytest.raises(ValueError, match=rf"model\.{part}\.path=.* cannot be read; .*{says}"):
            build(vocab_size=V, path=str(tmp_path))

    dropped = {"encoder": "layers.0.mlp.Wo.weight", "decoder": "model.norm.weight"}[part]
    whole = (tmp_path / "model.safetensors").read_bytes()
    resaved(tmp_path, lambda held: {k: x for k, x in held.items() if k != dropped})
    refused(f": 1 weights that the network needs are not there: .*{dropped.split('.')[-2]}.weight")
    (tmp_path / "model.safetensors").write_bytes(whole)
    resaved(tmp_path, lambda held: {f"wrong.{k}": x for k, x in held.items()})
    refused(r"weights that the network needs are not there: .*, .*, .*, \.\.\.")
    (tmp_path / "model.safetensors").write_bytes(b"garbage" * 100)
    refused("header")
    (tmp_path / "model.safetensors").write_bytes(whole)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(
        config.replace('"intermediate_size": 8', '"intermediate_size": 12')
    )
    refused(r"its weights .*mlp.* are \(\d+, \d+\), config.json makes them \(.*(12|24)")
    (tmp_path / "config.json").write_text("[]")
    refused("")


@pytest.fixture
def bert(tmp_path):
    """The folder of a network that reads in both directions, saved without its pooler."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=V, intermediate_size=8, **sizes)
    BertForMaskedLM(config).save_pretrained(tmp_path)
    return str(tmp_path)


@needs_transformers
def test_a_decoder_must_be_causal_and_an_encoder_needs_no_weights_that_are_not_read(bert):
    with pytest.raises(ValueError, match=r"holds a BertLMHeadModel that is not causal: its logits"):
        build_text_decoder(vocab_size=V, path=bert)
    encoder = build_text_encoder(vocab_size=V, path=bert)
    assert encoder(torch.zeros(1, 2).long(), torch.ones(1, 2).bool()).shape == (1, 2, 16)


@needs_transformers
def test_a_name_on_the_hub_is_not_looked_up_unless_asked(connections):
    with pytest.raises(ValueError, match=r"no folder /.*model\.encoder\.download=true, a na"):
        build_text_encoder(vocab_size=V, path="answerdotai/no-such-model")
    assert not connections


@needs_transformers
def test_the_loss_reaches_every_part_and_the_config_every_constructor(make_config):
    config = make_config("latent-space-model", "latent_tiny")
    config.model.update({"pool": "attention", "prefix_len": 5, "num_layers": 1, "dropout": 0.3})
    config.model.update({"num_heads": 2, "ffn_multiplier": 2, "use_rope": False})
    config.model.stop_latent = {"init": "zero", "learnable": False}
    config.data.source_vocab_size = 20
    model = build_backbone(config, V)
    assert (model.compression.pool, len(model.adapter.queries)) == ("attention", 5)
    assert (len(model.middle.blocks), model.middle.rotary, model.adapter.rotary) == (1, None, None)
    block = model.middle.blocks[0]
    assert (block.dropout.p, block.attention.n_heads) == (0.3, 2)
    assert model.adapter.mlp.down.in_features == 2 * 64
    assert (model.stop_latent() == 0).all()
    assert (model.encoder.network.config.vocab_size, model.decoder.vocab_size) == (20, V)

    ids = torch.randint(0, V, (2, 6))
    logits = model(ids, torch.ones(2, 6, dtype=torch.bool), ids).logits
    assert logits.shape == (2, 6, V)
    F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())

    config.model.decoder.width = 3
    with pytest.raises(ValueError, match=r"model\.decoder has no setting 'width'; it has download"):
        build_backbone(config, V)


@pytest.mark.parametrize(
    ("part", "sizes", "says"),
    [
        ("decoder", {"head_dim": 7}, "head_dim=7, num_heads=4, num_kv_heads=1; expected an even"),
        ("decoder", {"num_kv_heads": 3}, "num_kv_heads=3; expected an even head_dim, and num_kv"),
        ("decoder", {"num_kv_heads": 0}, "model.decoder.num_kv_heads=0: expected a whole number"),
        ("decoder", {"num_heads": 3}, "model.decoder.num_heads=3 does not divide"),
        ("encoder", {"num_heads": 3}, "model.encoder.num_heads=3 does not divide"),
        ("encoder", {"num_layers": 0}, "model.encoder.num_layers=0: expected a whole number"),
    ],
)
def test_sizes_that_there_are_not(make_config, part, sizes, says):
    config = make_config("latent-space-model", "latent_tiny")
    config.model[part].update(sizes)
    with torch.device("meta"), pytest.raises(ValueError, match=re.escape(says)):
        build_backbone(config, V)


@needs_transformers
@pytest.mark.parametrize("dropout", [2, float("nan"), True])
def test_dropout_is_a_share(make_config, dropout):
    config = make_config("latent-space-model", "latent_tiny")
    config.model.dropout = dropout
    with pytest.raises(ValueError, match=rf"^model\.dropout={dropout}: expected a number in \[0"):
        build_backbone(config, V)

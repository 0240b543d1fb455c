"""``algo.backbone=transformers``: the library's numbers, in both directions, without its folder."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

from composed import composed
from discrete_diffusion import load
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.algorithms.many_ids import head_of
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.checkpoints.start import StartingWeights, initialise
from discrete_diffusion.cli.main import main
from discrete_diffusion.contracts import Batch
from discrete_diffusion.models.registry import build_backbone
from guide_code import DOCS
from small_tokenizers import save_tokenizer

transformers = pytest.importorskip("transformers")

LENGTH, NUM_IDS = 8, 40
WORDS = ["<pad>", "<eos>", "<unk>", "<start>", *(f"w{k}" for k in range(NUM_IDS - 4))]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 64, "max_position_embeddings": 16, "vocab_size": NUM_IDS}
SIZES |= {"bos_token_id": 3, "eos_token_id": 1}
KINDS = {"bert": "BertForMaskedLM", "gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}
KINDS |= {"roberta": "RobertaForMaskedLM"}
MASKS = {"bert": "[MASK]", "roberta": "<mask>"}
TEXT = {"length": LENGTH, "vocab_size": NUM_IDS + 2, "mask_id": NUM_IDS, "pad_id": NUM_IDS + 1}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def save(kind: str, folder: Path, num_ids: int = NUM_IDS) -> str:
    """A model of random weights with its tokenizer of words, in a folder; some have a MASK."""
    words = [*WORDS[: NUM_IDS - 1], MASKS[kind]] if kind in MASKS else WORDS
    save_tokenizer(folder, words)
    if kind in MASKS:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        tokenizer.add_special_tokens({"mask_token": MASKS[kind]})
        tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[kind](**{**SIZES, "vocab_size": num_ids})
    network = getattr(transformers, KINDS[kind])(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    network.save_pretrained(folder)
    return str(folder)


def made(make_config, data=TEXT, **model):
    """The backbone in evaluation mode."""
    config = make_config("transformers", "transformers", data)
    for key, value in model.items():
        config.model[key] = value
    return build_backbone(config, data["vocab_size"]).eval()


def ids(num: int = 3) -> torch.Tensor:
    return torch.randint(4, NUM_IDS, (num, LENGTH), generator=torch.Generator().manual_seed(1))


def theirs(kind: str, path: str, x: torch.Tensor) -> torch.Tensor:
    """Logits of the library's model, with attention that nothing is hidden from."""
    network = getattr(transformers, KINDS[kind]).from_pretrained(path).eval()
    seen = torch.ones(len(x), 1, LENGTH, LENGTH, dtype=torch.bool)
    with torch.no_grad():
        logits = network(input_ids=x, attention_mask=seen).logits
    return logits if kind in MASKS else torch.cat([logits[:, :1], logits[:, :-1]], dim=1)


def test_logits_are_those_of_the_library(kind, tmp_path, make_config):
    path, x = save(kind, tmp_path), ids()
    backbone = made(make_config, path=path)
    with torch.no_grad():
        logits = backbone(x)
        assert torch.equal(backbone.head(backbone(x, states=True))[..., :NUM_IDS], logits[..., :-2])
    assert logits.shape == (3, LENGTH, NUM_IDS + 2)
    torch.testing.assert_close(logits[..., :NUM_IDS], theirs(kind, path, x), atol=1e-5, rtol=0)
    # a shift that the user decides
    if kind not in MASKS:
        with torch.no_grad():
            unshifted = made(make_config, path=path, shift=False)(x)
        real = slice(0, NUM_IDS)
        torch.testing.assert_close(unshifted[:, :-1, real], logits[:, 1:, real])


def test_mask_starts_as_the_models_own_or_as_the_mean_of_all_ids(kind, tmp_path, make_config):
    path = save(kind, tmp_path)
    rows = made(make_config, path=path).network.get_input_embeddings().weight
    before = getattr(transformers, KINDS[kind]).from_pretrained(path).get_input_embeddings().weight
    assert torch.equal(rows[:NUM_IDS], before)
    own = before[NUM_IDS - 1] if kind in MASKS else before.mean(dim=0)
    torch.testing.assert_close(rows[NUM_IDS], own)
    # ids of the model that its tokenizer does not use become MASK and PAD
    padded = made(make_config, path=save(kind, tmp_path / "padded", NUM_IDS + 4))
    assert len(padded.network.get_input_embeddings().weight) == NUM_IDS + 2
    assert padded(ids()).shape[-1] == NUM_IDS + 2


def test_every_position_sees_later_ones(kind, tmp_path, make_config):
    backbone, x = made(make_config, path=save(kind, tmp_path)), ids(1)
    later = x.clone()
    later[:, -1] = torch.where(x[:, -1] == 5, 6, 5)
    assert ((backbone(x) - backbone(later))[..., :NUM_IDS].abs().amax(dim=-1) > 1e-3).all()


@pytest.mark.parametrize("model_type", ["roberta", "mpnet"])
def test_every_id_has_its_position_and_all_rows_are_used(model_type, make_config):
    """In RoBERTa's family, PAD of the library is id 1, and its table of positions begins there."""
    data = {**TEXT, "length": 14}
    config = json.dumps({**SIZES, "model_type": model_type, "initializer_range": 0.5})
    backbone = made(make_config, data, config=config)
    with torch.no_grad():
        rows = backbone(torch.ones(1, 14, dtype=torch.long))[0, :, :NUM_IDS]
    assert (torch.pdist(rows) > 1e-2).all()
    with pytest.raises(ValueError, match=r"15 positions, .*=16, 2 of .*data\.length=14"):
        made(make_config, {**TEXT, "length": 15}, config=config)


def test_pad_is_neither_attended_nor_predicted(kind, tmp_path, make_config):
    backbone, x = made(make_config, path=save(kind, tmp_path)), ids()
    x[1, 5:], x[2] = TEXT["pad_id"], TEXT["pad_id"]
    logits = backbone(x)
    assert logits.isfinite().all()
    assert (logits.softmax(dim=-1)[..., TEXT["pad_id"]] == 0).all()
    torch.testing.assert_close(backbone(x[1:2, :5])[0], logits[1, :5], atol=1e-5, rtol=0)
    states = backbone.network.register_forward_hook(lambda *each: setattr(backbone, "last", each))
    assert (
        backbone(x, states=True).data_ptr() == backbone.last[-1].logits.data_ptr() or backbone.shift
    )
    states.remove()
    with torch.no_grad():
        backbone.network.get_input_embeddings().weight[TEXT["pad_id"]] += 5
    torch.testing.assert_close(backbone(x)[:2][x[:2] < NUM_IDS], logits[:2][x[:2] < NUM_IDS])


def test_columns_at_the_end_that_are_pad_in_all_samples_are_left_out(kind, tmp_path, make_config):
    backbone, x, widths = made(make_config, path=save(kind, tmp_path)), ids(), []
    x[:, 5:], x[1, 3:] = TEXT["pad_id"], TEXT["pad_id"]
    backbone.network.register_forward_pre_hook(
        lambda module, args, given: widths.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    few = backbone(x)
    backbone.train()
    for part in backbone.modules():
        part.p = 0.0  # of dropout
    torch.testing.assert_close(few[:, :5], backbone(x)[:, :5], atol=1e-5, rtol=0)
    assert widths == [5, LENGTH]
    assert few.shape == (3, LENGTH, NUM_IDS + 2)


@pytest.mark.parametrize("model_type", ["fnet", "convbert", "nystromformer", "yoso"])
def test_columns_of_pad_that_others_see_stay(model_type, make_config):
    config = json.dumps({**SIZES, "model_type": model_type})
    backbone, x = made(make_config, config=config), ids()
    x[:2, 5:] = TEXT["pad_id"]
    torch.testing.assert_close(backbone(x[:2]), backbone(x)[:2], atol=1e-5, rtol=0)


def words_of(*more: str) -> list[str]:
    data = [f"data.{key}={TEXT[key]}" for key in ("length", "vocab_size", "mask_id")]
    return ["data=text", "data.token_unit=ids", *data, "algo.backbone=transformers", *more]


@pytest.mark.parametrize("name", ["mdlm", "udlm"])
def test_it_passes_the_trial_before_training(name, kind, caplog):
    words = [f"algo={name}", "algo.time_conditioning=false", f"model.model_type={kind}"]
    algorithm = build_algorithm(composed("train", words_of(*words)))
    x0 = ids(2)
    batch = Batch(x0, torch.ones_like(x0, dtype=torch.bool))
    try_backbone(algorithm, batch)
    assert caplog.text == ""
    assert algorithm.backbone.shift == (kind not in MASKS)
    algorithm.loss(batch, make_generator(0)).loss.backward()
    table = algorithm.backbone.network.get_input_embeddings().weight
    assert table.grad[TEXT["mask_id"]].any() == (name == "mdlm")
    assert head_of(algorithm.backbone, algorithm.call, 512) is algorithm.backbone.head


def test_a_network_conditioned_on_t_is_refused():
    with pytest.raises(ValueError, match=r"no noise level; set algo\.time_conditioning=false"):
        build_algorithm(composed("train", words_of()))


@pytest.mark.slow
def test_lora_trains_small_matrices_and_the_row_of_mask(kind, tmp_path, make_config):
    pytest.importorskip("peft")
    path, x = save(kind, tmp_path), ids()
    whole, backbone = made(make_config, path=path), made(make_config, path=path, lora_rank=2)
    assert torch.equal(backbone(x)[..., :NUM_IDS], whole(x)[..., :NUM_IDS])
    assert type(backbone.head) is type(whole.head)
    x[:, 0] = TEXT["mask_id"]
    backbone(x)[..., :NUM_IDS].logsumexp(dim=-1).sum().backward()
    trained = {name: p for name, p in backbone.named_parameters() if p.requires_grad}
    rows = [p for name, p in trained.items() if "lora_" not in name]
    assert [row.shape for row in rows] == [(1, SIZES["hidden_size"])]
    assert rows[0].grad.any()
    assert {2} == {min(p.shape) for name, p in trained.items() if "lora_" in name}
    assert all(p.grad is not None for p in trained.values())
    # weights of a run without it, whose row of MASK was trained
    table = whole.network.get_input_embeddings().weight
    with torch.no_grad():
        for value in whole.parameters():
            value.add_(0.1 * torch.randn_like(value))
        table[TEXT["mask_id"]] += 1
    config = make_config("transformers", "transformers", TEXT)
    start = StartingWeights(tmp_path, whole.state_dict(), config)
    assert initialise(backbone, start, config=config).unused == ()
    torch.testing.assert_close(backbone(x)[..., :NUM_IDS], whole(x)[..., :NUM_IDS])
    # sizes are counted without memory, and by the network of a checkpoint
    with torch.device("meta"):
        again = made(make_config, path=path, pretrained=False, lora_rank=2)
    shapes = [{k: v.shape for k, v in each.state_dict().items()} for each in (again, backbone)]
    assert shapes[0] == shapes[1]


def test_without_peft_the_extra_is_named(make_config, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match=r"lora_rank=2 .*not installed; .*\[peft\]"):
        made(make_config, lora_rank=2)


def run(kind: str, *more: str, command: int = 0) -> None:
    """Three steps of a command of the page, on a text of words, in this folder."""
    save(kind, Path("gpt2"))
    Path("file.txt").write_text(" ".join(f"w{k % 30}" for k in range(2000)))
    lines = (DOCS / "text.md").read_text().splitlines()
    words = [line.split() for line in lines if "algo.backbone=transformers" in line][command]
    few = ["data.length=8", "trainer.max_steps=3", "eval.num_samples=2", "eval.num_held_out=4"]
    few += ["eval.noise_samples=1", "threads=1", "logger=none", "trainer.log_every_n_steps=1"]
    main([*words[1:], *few, *more])


@pytest.mark.slow
@pytest.mark.parametrize("shift", ["null", "true"])
def test_a_run_starts_from_the_weights_and_its_checkpoint_needs_no_folder(
    kind, shift, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run(kind, f"model.shift={shift}", "optim.lr=1e-12")
    # steps of nearly 0 leave the weights of the folder
    x, expected = ids(), theirs(kind, "gpt2", ids())
    shutil.rmtree("gpt2")
    model = load("runs/gpt2")
    with torch.no_grad():
        logits = model.backbone(x)[..., :NUM_IDS]
    if kind in MASKS and shift == "true":
        expected = torch.cat([expected[:, :1], expected[:, :-1]], dim=1)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    assert all(set(text.split()) <= {*WORDS, "[MASK]"} for text in model.sample(2))


@pytest.mark.slow
def test_a_run_goes_on_without_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("gpt2")
    shutil.rmtree("gpt2")
    main(["train", "resume=runs/gpt2", "trainer.max_steps=5", "hydra.run.dir=runs/gpt2"])
    metrics = json.loads(Path("runs/gpt2/metrics.json").read_text())
    assert metrics["steps"] == 5


@pytest.mark.slow
def test_a_run_of_lora_keeps_frozen_weights_and_goes_on_without_the_folder(tmp_path, monkeypatch):
    pytest.importorskip("peft")
    monkeypatch.chdir(tmp_path)
    run("gpt2", "callbacks.ema_decay=0.5", "optim.lr=0.1", command=1)
    before = transformers.GPT2LMHeadModel.from_pretrained("gpt2").state_dict()
    shutil.rmtree("gpt2")
    words = ["trainer.max_steps=5", "hydra.run.dir=runs/lora"]
    main(["train", "resume=runs/lora", *words])
    averaged, last = (load("runs/lora", ema=ema).backbone.state_dict() for ema in (True, False))
    num_frozen = 0
    for name, value in averaged.items():
        own = before.get(name.removeprefix("network.").replace(".base_layer", ""))
        if own is not None and own.shape == value.shape:
            num_frozen += 1
            assert torch.equal(value, own)
        moved = "lora_" in name or "trainable" in name
        assert torch.equal(value, last[name]) != moved
    assert num_frozen > 10


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        ({"path": "nothing"}, {}, r"model\.path=nothing: no folder .*config\.json"),
        ({"path": "a/b"}, {}, r"model\.path=a/b: no folder .*model\.download=true"),
        ({}, {"vocab_size": 20}, r"data has 18 ids \(.*vocab_size=20.* has 40; give data\.token"),
        ({}, {"vocab_size": 60}, r"data has 58 ids .* has 40; .*model\.pretrained=false"),
        ({}, {"length": 17}, r"17 positions, .*max_position_embeddings=16; set data\.length=16"),
        ({"path": None, "config": "foo"}, {}, r"model\.config=foo: .*give model\.path=FOLDER"),
        ({"path": None, "config": "[1]"}, {}, r"model\.config=\[1\]: expected the content"),
        ({"path": None, "model_type": "brt"}, {}, r"model_type 'brt'; did you mean"),
        ({"path": None, "model_type": "llama", "hidden_size": 132}, {}, r"even rotary.*; change"),
        ({"path": None, "model_type": "gptj"}, {}, r"cannot build or call this network: .*change"),
        ({"path": None, "model_type": "t5"}, {}, r"neither a masked nor a causal"),
    ],
)
def test_what_cannot_be_read_is_refused_by_key_and_remedy(
    model, data, message, tmp_path, make_config
):
    model = {"path": save("bert", tmp_path), **model}
    data = {**TEXT, "mask_id": 1, **data}
    data["pad_id"] = data["vocab_size"] - 1
    with pytest.raises(ValueError, match=message):
        made(make_config, data, **model)


def test_a_recurrent_model_is_refused(make_config):
    with pytest.raises(ValueError, match="MambaForCausalLM reads text in one direction"):
        made(make_config, model_type="mamba", hidden_size=32)


def test_a_name_that_cannot_be_reached(make_config, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"model\.path=a/b cannot be read; .*can be reached"):
        made(make_config, path="a/b", download=True)


def test_without_transformers_the_extra_is_named(make_config, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"not installed; .*\[text\]"):
        made(make_config)


def test_random_weights_of_the_same_sizes(kind, tmp_path, make_config):
    path = save(kind, tmp_path)
    one, other = made(make_config, path=path), made(make_config, path=path, pretrained=False)
    shapes = [{k: v.shape for k, v in each.state_dict().items()} for each in (one, other)]
    assert shapes[0] == shapes[1]
    assert not torch.equal(one(ids()), other(ids()))


def test_a_network_that_caps_its_logits_keeps_its_head(make_config):
    config = json.dumps({**SIZES, "model_type": "gemma2", "num_key_value_heads": 1})
    backbone = made(make_config, config=config)
    assert backbone.head is None
    assert backbone(ids()).shape == (3, LENGTH, NUM_IDS + 2)


def test_keys_that_name_code_are_left_out(make_config):
    code = {"auto_map": {"AutoModelForMaskedLM": "a/b--network.Net"}}
    code |= {"_attn_implementation": "a/kernel", "attn_implementation": "a/kernel"}
    config = json.dumps({**SIZES, "model_type": "bert", **code})
    network = made(make_config, config=config).network
    assert type(network) is transformers.BertForMaskedLM
    assert network.config._attn_implementation in ("sdpa", "eager")
    assert not hasattr(network.config, "auto_map")

"""You distrust a file: nothing of it is executed, by any reader, whatever it is called."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import sys
import zipfile
from argparse import Namespace
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from yaml.constructor import ConstructorError

from continuous_states.dialogue.texts import PretrainedTokenizer
from continuous_states.networks.text_models import build_text_decoder, build_text_encoder
from discrete_diffusion import load
from discrete_diffusion.checkpoints.contents import info_with_digest, read_contents
from discrete_diffusion.checkpoints.files import INFO_KEY, read_training_file, write_weights_file
from discrete_diffusion.checkpoints.start import read_starting_weights
from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.domains.text.judge import TransformersJudge
from discrete_diffusion.models.registry import _BACKBONE_BUILDERS
from fake_hub import FakeHub
from fake_packages import fake_install
from floor_plans.studio.command import STUDIO
from made_checkpoints import training_state
from small_tokenizers import save_gpt2

pytestmark = pytest.mark.usefixtures("clean_registry")

MODULES = ["lying_here", "on_the_path"]
CODE = "import pathlib\npathlib.Path({!r}).touch()\n"


@pytest.fixture
def ran(tmp_path, site) -> Path:
    """What appears if something runs: a module of the current folder, which is on the path as it is
    for ``python -m``, or one on the path that no package has, or a payload."""
    marker = tmp_path / "ran"
    for name, folder in zip(MODULES, (tmp_path, site), strict=True):
        (folder / f"{name}.py").write_text(CODE.format(str(marker)))
    sys.path.insert(0, str(tmp_path))
    return marker


class Payload:
    """A pickle of it makes the folder ``path`` when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


TABLE = """
from torch import nn

class Table(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.logits = nn.Embedding(vocab_size, vocab_size)

    def forward(self, x_t, sigma=None):
        return self.logits(x_t)

def build(config, vocab_size):
    return Table(vocab_size)
"""


def checkpoint(path: Path, *, theirs: bool = False) -> Path:
    """A file whose config names the modules; ``theirs``: and whose backbone is of one of them."""
    config = compose("train", ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"])
    config.plugins = MODULES
    if theirs:
        exec(TABLE, scope := {"__name__": MODULES[0]})
        _BACKBONE_BUILDERS["their-net"] = scope["build"]
        config.algo.backbone = "their-net"
    state = training_state(config)
    _BACKBONE_BUILDERS.pop("their-net", None)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".ckpt":
        torch.save(state, path)
    else:
        write_weights_file(path, state)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ckpt", "safetensors"])
def test_a_file_whose_modules_are_not_needed_loads_without_them(ran, tmp_path, kind, caplog):
    caplog.set_level("INFO")
    path = checkpoint(tmp_path / f"model.{kind}")
    model = load(path)
    assert model.sample(1, seed=0)
    read_starting_weights(path)
    load(model.save_pretrained("saved"))
    main(["sample", f"checkpoint={path}", "num_samples=1", "steps=null", "out=samples"])
    assert not ran.exists()
    assert f"{path}: not imported, nor needed: 'lying_here', 'on_the_path'" in caplog.text
    load(path, plugins=["lying_here"])
    assert ran.exists()


def trying(path: str) -> dict[str, list[str]]:
    few = ["debug=smoke", "trainer.max_steps=1", "data.num_plans=100", "hydra.run.dir=run"]
    return {
        "sample": ["sample", f"checkpoint={path}"],
        "evaluate": ["evaluate", f"checkpoint={path}"],
        "export": ["export", f"checkpoint={path}"],
        "studio": ["studio", f"checkpoint={path}", "open=false"],
        "starting weights": ["train", *few, "model=bd_tiny", f"init.checkpoint={path}"],
        "resumed": ["train", *few, "model=bd_tiny", f"resume={path}"],
        "a teacher": ["train", *few, "algo=distill", f"init.checkpoint={path}"],
        "cells": ["compare", *few[:3], "model=bd_tiny", f"init.checkpoint={path}", "out=compared"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("what", trying(""))
def test_no_command_imports_what_a_file_names(ran, tmp_path, failure, what):
    path = checkpoint(tmp_path / "run" / "checkpoints" / "best.ckpt", theirs=True)
    shutil.copy(path, path.with_name("last.ckpt"))
    (tmp_path / "run" / "config.yaml").write_text(f"plugins: {MODULES}\n")
    path = path.parent.parent.rename(tmp_path / "given")
    error = failure(*trying(path.name)[what])
    assert not ran.exists()
    assert "lying_here" not in sys.modules
    if what in ("sample", "evaluate", "export", "studio", "a teacher"):
        for named in ("'their-net'", "lying_here", "not imported", "plugins=["):
            assert named in error


@pytest.mark.slow
def test_the_studio_takes_modules_that_are_named(ran, tmp_path, monkeypatch):
    path = checkpoint(tmp_path / "model.ckpt")
    monkeypatch.setattr("floor_plans.studio.guards.PromptServer.run", lambda self: None)
    options = {"port": 8765, "host": "127.0.0.1", "token": None, "open": "false"}
    options |= {"threads": 1, "workers": 1}
    for plugins, there in (("", False), ("[lying_here]", True)):
        STUDIO.run(Namespace(load=load, checkpoint=str(path), plugins=plugins, **options))
        assert ran.exists() == there


@pytest.mark.slow
def test_nor_does_a_name_of_the_hub(ran, tmp_path, monkeypatch, capsys):
    constants = pytest.importorskip("huggingface_hub.constants", reason="the Hub takes it")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    hub = FakeHub()
    weights = checkpoint(tmp_path / "model.safetensors", theirs=True).read_bytes()
    files = {"model.safetensors": weights, "README.md": b"", "config.json": b"{}"}
    hub.models["me/mine"] = {**files, "lying_here.py": (tmp_path / "lying_here.py").read_bytes()}
    with hub.serving() as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        with pytest.raises(SystemExit):
            main(["sample", "checkpoint=me/mine"])
    assert "plugins=[lying_here]" in capsys.readouterr().err
    assert not ran.exists()


@pytest.mark.slow
def test_a_package_that_registered_itself_is_enough(ran, tmp_path, site):
    path = checkpoint(tmp_path / "model.ckpt", theirs=True)
    entry = {"their-net": "package:build"}
    fake_install(site, "package", TABLE, "discrete_diffusion.backbones", entry)
    assert type(load(path).backbone).__name__ == "Table"
    assert not ran.exists()


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "a${now:%Y}", "${", "${hydra:runtime.cwd}"])
def test_a_config_is_not_filled_in(tmp_path, value):
    state = training_state(compose("train", ["model=bd_tiny"]))
    info = {**state[INFO_KEY], "config": {**state[INFO_KEY]["config"], "threads": [{"a": value}]}}
    state[INFO_KEY] = info_with_digest(info, state["state_dict"], step=7, machine={})
    torch.save(state, tmp_path / "model.ckpt")
    with pytest.raises(ValueError, match=r"model\.ckpt is refused: its config holds '\$\{"):
        load(tmp_path / "model.ckpt")


def test_a_target_in_a_config_is_not_called(ran, tmp_path):
    """As loggers and callbacks of a *command* have it."""
    config = compose("train", ["model=bd_tiny"])
    target = {"_target_": "pathlib.Path.touch", "self": str(ran), "_args_": [str(ran)]}
    for section in ("logger", "callbacks", "model", "data", "eval", "trainer"):
        OmegaConf.update(config, f"{section}.more", target, force_add=True)
    torch.save(training_state(config), tmp_path / "model.ckpt")
    load(tmp_path / "model.ckpt").sample(1)
    assert not ran.exists()


def payloads(ran: Path) -> dict[str, bytes]:
    """What makes the marker if it is unpickled, called or evaluated."""
    objects = np.array([Payload(ran)], dtype=object)
    files = {name: io.BytesIO() for name in ("npy", "npz", "torch", "old torch", "zip")}
    np.save(files["npy"], objects, allow_pickle=True)
    arrays = dict.fromkeys(("rows", "media", "dtn", "background", "x0", "arr_0"), objects)
    np.savez(files["npz"], **arrays)
    torch.save({"state_dict": Payload(ran), INFO_KEY: Payload(ran)}, files["torch"])
    torch.save(Payload(ran), files["old torch"], _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(files["zip"], "w") as archive:
        archive.writestr("lying_here.py", CODE.format(str(ran)))
        archive.writestr("data.pkl", pickle.dumps(Payload(ran)))
    call = f"pathlib.Path({str(ran)!r}).touch()"
    yaml = f"!!python/object/apply:pathlib.Path.touch [!!python/name:pathlib.Path {ran}]\n"
    tagged = f"rooms: !!python/object/apply:open [{ran}, w]\ndata: ${{now:%Y}}\n"
    hook = {"__reduce__": ["open", [str(ran), "w"]], "_target_": "builtins.open", "path": str(ran)}
    return {
        **{name: file.getvalue() for name, file in files.items()},
        "pickle": pickle.dumps(Payload(ran)),
        "ascii pickle": pickle.dumps([Payload(ran)], protocol=0),
        "yaml": yaml.encode(),
        "tagged": tagged.encode(),
        "json": json.dumps(hook).encode() + b"\n",
        "python": f"import pathlib\n{call}\n".encode(),
        "dict": f"{{__import__('pathlib').Path({str(ran)!r}).touch(): 1}}\n".encode(),
        "xml": f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{ran}">]><graphml>&e;</graphml>'.encode(),
    }


DATA = {
    "plans": ("jsonl", "json", "graphml", "mat", "pkl", "npz", "pt", "yaml"),
    "text": ("txt", "pkl"),
    "graphs": ("json", "jsonl", "graphml", "g6", "txt", "edgelist", "npz", "pkl", "gpickle"),
    "molecules": ("smi", "csv", "txt.gz", "pkl", "sdf"),
    "regions": ("npz", "zarr", "npy"),
    "eit": ("npz", "npy", "pkl"),
    "dialogue": ("jsonl", "json", "pkl"),
}
USER_ERRORS = (ValueError, TypeError, OSError)


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_data_are_read_without_running_them(ran, tmp_path, name):
    algo = {"regions": "masked-features", "eit": "flow-matching", "dialogue": "latent-seq2seq"}
    words = [f"data={name}", f"algo={algo.get(name, 'mdlm')}"]
    config = compose("train", [*words, "algo.backbone=dit"] if name == "text" else words)
    for suffix in DATA[name]:
        for kind, payload in payloads(ran).items():
            path = tmp_path / f"file.{suffix}"
            path.write_bytes(payload)
            config.data.path = str(path)
            with suppress(*USER_ERRORS):
                build_data(complete_data(config))
            assert not ran.exists(), (suffix, kind)


def test_weights_are_read_without_running_them(ran, tmp_path):
    for suffix in ("ckpt", "safetensors", "pt", "pkl", "onnx"):
        for kind, payload in payloads(ran).items():
            path = tmp_path / f"model.{suffix}"
            path.write_bytes(payload)
            for read in (load, read_training_file, read_starting_weights):
                with pytest.raises(ValueError, match=path.name):
                    read(path)
            assert not ran.exists(), (suffix, kind)


def test_metadata_of_weights_are_text(ran, tmp_path):
    from safetensors.torch import save_file

    for kind, payload in payloads(ran).items():
        text = payload.decode("latin-1")
        save_file({"a": torch.zeros(1)}, tmp_path / "m.safetensors", metadata={INFO_KEY: text})
        with pytest.raises(ValueError, match=r"m\.safetensors"):
            load(tmp_path / "m.safetensors")
        assert not ran.exists(), kind


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["sample", "given=FILE.jsonl", "num_samples=1"], "pickle"),
        (["sample", "brief=FILE.yaml", "num_samples=1"], "tagged"),
        (["evaluate", "samples=FILE.jsonl"], "npz"),
        (["evaluate", "samples=FILE.json", "domain=graphs"], "pickle"),
        (["evaluate", "samples=FILE.smi", "domain=molecules"], "pickle"),
        (["data", "check", "FILE.pkl"], "pickle"),
        (["data", "convert", "FILE.json", "converted.jsonl"], "ascii pickle"),
        (["plans", "realise", "FILE.jsonl", "out=built"], "python"),
        (["brief", "check", "FILE.yaml"], "yaml"),
        (["train", "init.checkpoint=FILE.ckpt", "hydra.run.dir=run"], "pickle"),
        (["train", "resume=FILE.ckpt", "model=bd_tiny", "data.num_plans=100"], "torch"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else value,
)
def test_files_of_commands_are_read_without_running_them(ran, words, kind):
    (name,) = (word.partition("=")[2] or word for word in words if "FILE" in word)
    Path(name).write_bytes(payloads(ran)[kind])
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 1
    assert not ran.exists()


@pytest.mark.slow
def test_a_cache_is_read_without_running_it(ran, tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    config = compose("train", ["data.num_plans=20"])
    build_data(config)
    (cached,) = (tmp_path / "cache").glob("*.npz")
    for kind, payload in payloads(ran).items():
        cached.write_bytes(payload)
        build_data(config)
        assert not ran.exists(), kind


def test_a_config_of_yaml_makes_no_objects(ran, tmp_path, failure):
    (tmp_path / "experiment").mkdir()
    for kind in ("yaml", "tagged"):
        (tmp_path / "experiment" / "mine.yaml").write_bytes(payloads(ran)[kind])
        with pytest.raises((SystemExit, ConstructorError)):
            main(["train", "--config-dir", str(tmp_path), "experiment=mine", "--cfg", "job"])
        assert not ran.exists(), kind


def test_these_payloads_would_run(ran, tmp_path):
    """The test of the tests: read as they should not be, they make the marker."""
    given = payloads(ran)
    for kind in ("pickle", "ascii pickle"):
        pickle.loads(given[kind])
        assert ran.exists(), kind
        ran.rmdir()
    np.load(io.BytesIO(given["npy"]), allow_pickle=True)
    assert ran.exists()


def with_own_code(folder: Path, kind: str, ran: Path) -> str:
    """A model or tokenizer as it lies on a hub that says which code of its own to run."""
    save_gpt2(folder, ["a"])
    (folder / "theirs.py").write_text(CODE.format(str(ran)))
    networks = ("AutoConfig", "AutoModel", "AutoModelForCausalLM")
    files = {
        "config.json": {"model_type": "theirs", "auto_map": dict.fromkeys(networks, "theirs.A")},
        "tokenizer_config.json": {
            "tokenizer_class": "Theirs",
            "auto_map": {"AutoTokenizer": ["theirs.A", "theirs.A"]},
        },
    }
    for name, own in files.items():
        described = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**described, **own}))
    if kind == "tokenizer":
        (folder / "config.json").unlink()
    return str(folder)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "tokenizer", "judge"])
def test_code_in_the_folder_of_a_network_is_not_run(ran, tmp_path, monkeypatch, kind):
    """Whatever is answered to the question that transformers asks."""
    pytest.importorskip("transformers", reason="of the extra text")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    folder = with_own_code(tmp_path / "network", kind, ran)
    read = {
        "encoder": lambda: build_text_encoder(vocab_size=1, path=folder),
        "decoder": lambda: build_text_decoder(vocab_size=1, path=folder),
        "tokenizer": lambda: PretrainedTokenizer(folder),
        "judge": lambda: TransformersJudge(folder, "cpu"),
    }
    with suppress(ValueError):
        read[kind]()
    assert not ran.exists()


def test_a_file_makes_nothing_be_fetched(tmp_path, monkeypatch):
    """A checkpoint that names a network of a hub, and says that it be fetched."""
    pytest.importorskip("transformers", reason="of the extra text")
    asked = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *given, **_: asked.append(given))
    config = compose("train", ["data=dialogue", "algo=latent-seq2seq", "model=latent_tiny"])
    state = training_state(complete_data(config))
    for part in ("encoder", "decoder"):
        settings = deepcopy(state[INFO_KEY]["config"])
        settings["model"][part] |= {"path": "owner/network", "download": True}
        info = {**state[INFO_KEY], "config": settings}
        state[INFO_KEY] = info_with_digest(info, state["state_dict"], step=7, machine={})
        torch.save(state, tmp_path / "model.ckpt")
        with pytest.raises(ValueError, match=rf"{part}\.path=owner/network: .* hf download owner/"):
            load(tmp_path / "model.ckpt")
        settings["model"][part]["path"] = None
    assert not asked
    assert not read_contents(tmp_path / "model.ckpt").info["config"]["model"][part]["download"]

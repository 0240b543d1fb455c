"""Errors that the config alone shows: named, and refused before torch is imported."""

from __future__ import annotations

import pytest

from torchless import answers_without_torch, check_refusal

REFUSED = {
    "train algo.backbone=bd-denoisr": ["bd-denoisr", "'bd-denoiser'"],
    "train algo=mdml": ["'mdml'", "'mdlm'"],
    "train optim.lr=abc": ["optim.lr=abc"],
    "train optim.lr=0": ["optim.lr=0"],
    "train optim.lrr=1": ["lrr", "'lr'"],
    "train optim.lr_schedule=cosin": ["optim.lr_schedule", "'cosine'"],
    "train optim.decay_steps=3": ["optim.decay_steps=3", "optim.lr_schedule=wsd"],
    "train optim.lr_schedule=wsd optim.decay_steps=1.5": ["optim.decay_steps=1.5", "share"],
    "train optim.weight_decay=-1": ["optim.weight_decay=-1"],
    "train optm.lr=1": ["optm", "'optim'"],
    "train trainr.max_steps=3": ["trainr", "'trainer'"],
    "train callbacks.extraa.x=1": ["'callbacks'", "extraa", "'extra'"],
    "train +callbacks.extra.mine.patience=3": ["callbacks.extra.mine._target_", "package.Class"],
    "train +callbacks.extra.mine._target_=nowhere.Thing": [
        "callbacks.extra.mine._target_",
        "nowhere",
    ],
    "train callbacks.ema_decay=1.5": ["callbacks.ema_decay=1.5"],
    "train trainer.max_steps=1.5": ["trainer.max_steps=1.5", "whole number"],
    "train trainer.val_check_interval=1.5": ["trainer.val_check_interval=1.5"],
    "train data=text data.train_path=nope.txt": ["data.train_path=nope.txt"],
    "train data=molecules data.path=nope.smi": ["data.path=nope.smi"],
    "train trainer.gradient_clip_val=-1": ["trainer.gradient_clip_val=-1"],
    "train model.d_model=130": ["n_heads=4", "d_model=130", "choose 1, 2, 5"],
    "train model.dropout=2": ["model.dropout=2", "[0, 1]"],
    "train data.batch_size=0": ["data.batch_size=0"],
    "train data=graphs data.path=nope.jsonl": ["data.path=nope.jsonl"],
    "train resume=nope.ckpt": ["resume=nope.ckpt"],
    "train init.checkpoint=nope.ckpt": ["init.checkpoint=nope.ckpt"],
    "train sampling=ancestrl": ["ancestrl", "'ancestral'"],
    "train sampling=ancestral sampling.steps=0": ["sampling.steps=0", "at least 1"],
    "train sampling=ancestral sampling.steps=null": ["sampling.steps=null", "whole number"],
    "train sampling=ancestral sampling.grid=unifrm": ["sampling.grid", "'uniform'"],
    "train +sampling.steps=5": ["first-hitting", "'steps'", "tokens_per_call"],
    "train sampling.temperature=0": ["sampling.temperature=0", "above 0"],
    "train sampling.top_p=1.5": ["sampling.top_p=1.5", "(0, 1]"],
    "train sampling=entropy-bounded sampling.order=entropi": ["sampling.order", "'entropy'"],
    "train algo.time_sampling=uniform_cont": ["algo.time_sampling", "'uniform_count'"],
    "train algo.condition_dropout=2": ["algo.condition_dropout=2", "[0, 1)"],
    "train +algo.block_size=2": ["mdlm", "'block_size'", "time_conditioning"],
    "train schedule=polynomial schedule.exponent=0": ["schedule.exponent=0", "above 0"],
    "train schedule=learned schedule.exponent_per=grup": ["schedule.exponent_per", "'group'"],
    "train forward_process=matrix forward_process.kind=gausian": ["kind", "'gaussian'"],
    "train algo=ar algo.backbone=bd-denoiser": ["causal", "algo.backbone=dit"],
    "sample checkpoint=nope.ckpt": ["checkpoint=nope.ckpt"],
    "sample checkpoint=kept.ckpt given=nope.jsonl": ["given=nope.jsonl"],
    "sample checkpoint=kept.ckpt samplng.temperature=2": ["samplng", "'sampling'"],
    "sample checkpoint=kept.ckpt num_samples=0": ["num_samples=0"],
    "sample checkpoint=kept.ckpt sampling.steps=0": ["sampling.steps=0", "at least 1"],
    "sample checkpoint=kept.ckpt sampling=ancestral sampling.stps=5": ["'stps'", "steps"],
    "sample checkpoint=kept.ckpt sampling.grd=auto": ["grd", "'grid'"],
    "evaluate checkpoint=nope.ckpt": ["checkpoint=nope.ckpt"],
    "evaluate samples=nope.jsonl": ["samples=nope.jsonl"],
    "evaluate samples=kept.ckpt reference=nope.jsonl": ["reference=nope.jsonl"],
    "compare algos=[mdlm] optm.lr=1": ["optm", "'optim'"],
    "compare algos=[mdml]": ["'mdml'", "'mdlm'"],
    "compare algos=[mdlm] trainer.max_steps=1.5": ["trainer.max_steps=1.5"],
    "compare algos=[mdlm] data=graphs data.path=nope.jsonl": ["data.path=nope.jsonl"],
}
"""Command -> what its one sentence names."""

HELPS = {
    "list": ["tokens: ids", "molecules", "bd-denoiser", "udlm", "first-hitting", "log_linear"],
    "--help": [f"discrete-diffusion {name} " for name in ("train", "sample", "compare", "data")],
    "train --help": ["algo=mdlm", "data.batch_size=", "trainer.max_steps=", "resume="],
    "evaluate --help": ["sampling=", "first-hitting", "checkpoint=", "reference="],
    "compare --help": ["algo=mdlm", "algos=", "backbones=", "seeds=", "columns="],
    "data --help": ["graphs FILE", "molecules FILE", "tokenize FILE", "cache [--clear]"],
    "data graphs --help": ["FILE", "--node-types NODE_TYPES", "--edge-types EDGE_TYPES"],
}
"""Command -> what its text names, whatever other packages there are."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[int, str]]:
    """Exit status and text of every command, from one process that never imports torch."""
    return answers_without_torch([*REFUSED, *HELPS], tmp_path_factory.mktemp("refused"))


@pytest.mark.parametrize("command", REFUSED)
def test_an_error_is_named_without_torch(answers, command):
    check_refusal(answers[command], REFUSED[command])


@pytest.mark.parametrize("command", HELPS)
def test_list_and_help_need_no_torch(answers, command):
    status, text = answers[command]
    assert status == 0
    assert [name for name in HELPS[command] if name not in text] == []

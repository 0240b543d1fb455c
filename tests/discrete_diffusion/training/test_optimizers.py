"""Optimisers and learning rates of a config: which parameters, exact steps, exact curves."""

from __future__ import annotations

import math

import pytest
import torch
from lightning.pytorch import Callback
from torch import nn

from discrete_diffusion.building.algorithm import build_algorithm
from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import complete_data
from discrete_diffusion.training import MuonAdamW
from discrete_diffusion.training.learning_rate import check_learning_rate, lr_factor
from discrete_diffusion.training.optimizers import build_optimizer, check_optimizer
from discrete_diffusion.training.run_checkpoints import RunCheckpoints
from toy_training import fit, make_module

MUON = "discrete_diffusion.training.MuonAdamW"
NETWORKS = {
    "bd-denoiser": "bd_tiny",
    "bd-denoiser-pair": "bd_pair_tiny",
    "dit": "dit_tiny",
    "my-transformer": "my_transformer_tiny",
}


def names_in(group, module):
    ids = {id(p) for p in group["params"]}
    return {name for name, p in module.named_parameters() if id(p) in ids}


@pytest.mark.parametrize("backbone", NETWORKS)
def test_muon_takes_the_matrices_of_the_blocks(backbone):
    words = [f"algo.backbone={backbone}", f"model={NETWORKS[backbone]}"]
    with torch.device("meta"):
        algorithm = build_algorithm(complete_data(compose("train", words)))
    optimizer = MuonAdamW(algorithm, lr=1e-3)
    matrices, others = (names_in(group, algorithm) for group in optimizer.param_groups)
    assert matrices | others == {name for name, _ in algorithm.named_parameters()}
    assert not matrices & others
    in_blocks = {
        name for name, p in algorithm.named_parameters() if ".blocks." in name and p.ndim == 2
    }
    assert in_blocks <= matrices
    embeddings = {
        f"{name}.weight" for name, m in algorithm.named_modules() if isinstance(m, nn.Embedding)
    }
    heads = {name for name in matrices | others if "head.weight" in name}
    assert heads
    assert embeddings | heads <= others


class Tied(nn.Module):
    """A head that is the embedding, a table, attention of torch's and a weight that stays."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 8)
        self.places = nn.Parameter(torch.randn(3, 8))
        self.attention = nn.MultiheadAttention(8, 2)
        self.mix = nn.Linear(8, 8)
        self.still = nn.Linear(8, 8).requires_grad_(False)
        self.to_ids = nn.Linear(8, 6)
        self.to_ids.weight = self.embed.weight


def test_shared_embeddings_tables_and_named_heads_are_adamws():
    torch.manual_seed(0)
    module = Tied()
    groups = MuonAdamW(module, lr=0.1).param_groups
    attention = {"attention.in_proj_weight", "attention.out_proj.weight"}
    assert names_in(groups[0], module) == {*attention, "mix.weight"}
    assert "places" in names_in(groups[1], module)
    assert not [g for g in groups if any(p is module.still.weight for p in g["params"])]
    groups = MuonAdamW(module, lr=0.1, heads=["head", "mix"]).param_groups
    assert names_in(groups[0], module) == attention


def test_muon_is_refused_where_there_is_none(monkeypatch):
    with pytest.raises(ValueError, match="take optim=adamw"):
        MuonAdamW(nn.Sequential(nn.Embedding(3, 4), nn.Conv2d(1, 1, 3)), lr=0.1)
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ValueError, match=r"torch 2\.9 or later"):
        MuonAdamW(two_layers(), lr=0.1)


def two_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))


def steps_of(module, optimizers, steps):
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        module(torch.randn(5, 4, generator=generator)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def test_its_steps_are_those_of_torchs_muon_and_adamw():
    """Also after its state was loaded; the decay is of the matrices alone."""
    whole, apart = two_layers(), two_layers()
    matrices = [apart[0].weight, apart[1].weight]
    options = {"weight_decay": 0.1, "momentum": 0.9, "adjust_lr_fn": "match_rms_adamw"}
    muon = torch.optim.Muon(matrices, lr=0.1, **options)
    biases = [apart[0].bias, apart[1].bias]
    adamw = torch.optim.AdamW(biases, lr=0.1, betas=(0.8, 0.9), weight_decay=0)
    steps_of(apart, [muon, adamw], range(8))
    settings = {"lr": 0.1, "betas": [0.8, 0.9], "momentum": 0.9, "weight_decay": 0.1}
    former = MuonAdamW(whole, **settings)
    steps_of(whole, [former], range(4))
    optimizer = MuonAdamW(whole, **settings)
    optimizer.load_state_dict(former.state_dict())
    steps_of(whole, [optimizer], range(4, 8))
    for found, expected in zip(whole.parameters(), apart.parameters(), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "options", [{}, {"_target_": MUON}, {"_target_": "torch.optim.SGD", "momentum": 0.9}]
)
def test_every_optimiser_learns_and_goes_on_to_the_last_bit(tmp_path, options):
    """Six steps, or four and two after a resume; the checkpoint is read without running code."""
    options = {"lr": 1e-2, **options}
    info = {"checkpoint_info": {"config": {}, "size_counts": [1, 2]}}

    def run(folder, steps, **more):
        module = make_module(**info, **options)
        before = [p.detach().clone() for p in module.parameters()]
        fit(module, folder, [RunCheckpoints(folder)], steps=steps, **more)
        pairs = zip(module.parameters(), before, strict=True)
        assert not any(torch.equal(now, then) for now, then in pairs)
        return read_training_file(folder / "last.ckpt")

    whole = run(tmp_path / "whole", 6)
    run(tmp_path / "parts", 4)
    parts = run(tmp_path / "parts", 6, ckpt_path=tmp_path / "parts" / "last.ckpt")
    for name, weight in whole["state_dict"].items():
        assert torch.equal(weight, parts["state_dict"][name]), name
    states = [state["optimizer_states"][0]["state"] for state in (whole, parts)]
    assert states[0].keys() == states[1].keys()
    for k, moments in states[0].items():
        for name, value in moments.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(states[1][k][name]))


OWN = """
import torch

def halves(module, lr):
    weights, others = [], []
    for name, p in module.named_parameters():
        (weights if name.endswith("weight") else others).append(p)
    return torch.optim.SGD([{"params": weights}, {"params": others, "lr": lr / 2}], lr=lr)

class Picky(torch.optim.SGD):
    def __init__(self, params, lr, size: int = 1):
        raise KeyError("nothing suits me")

def nothing(params, lr):
    return None
"""


def test_a_function_of_a_module_in_this_folder_makes_it(tmp_path, monkeypatch):
    (tmp_path / "my_optimisers_here.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    options = {"_target_": "my_optimisers_here.halves", "lr": 0.5}
    check_optimizer(options)
    found = build_optimizer(two_layers(), options)
    assert [group["lr"] for group in found.param_groups] == [0.5, 0.25]
    for name, words in {
        "Picky": "Picky refuses its settings: 'nothing suits me'",
        "nothing": "expected an optimiser, got NoneType",
        "hlaves": "did you mean 'halves'",
    }.items():
        with pytest.raises(ValueError, match=words):
            check_optimizer({"_target_": f"my_optimisers_here.{name}", "lr": 0.5})
    with pytest.raises(ValueError, match=r"optim\.size=x: expected a whole number"):
        check_optimizer({"_target_": "my_optimisers_here.Picky", "lr": 0.5, "size": "x"})


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"_target_": None}, r"optim\._target_=null: .*optim\._target_=torch\.optim\.SGD"),
        ({"_target_": "SGD"}, r"optim\._target_=SGD: expected package\.Class"),
        ({"_target_": "torch.optim.SDG"}, r"optim\._target_: .*'SDG'; did you mean 'SGD'"),
        ({"_target_": "torhc.optim.SGD"}, r"No module named 'torhc'; name a module"),
        ({"_target_": "torch.optim.SGD", "betas": [0, 0]}, "SGD has no setting 'betas'.*momentum"),
        ({"_target_": "torch.optim.SGD", "momentum": -1}, "Invalid momentum value: -1"),
        ({"_target_": MUON, "nu": 1}, "MuonAdamW has no setting 'nu'.*momentum"),
        ({"_target_": MUON, "momentum": -1}, "momentum should be >= 0"),
        ({"epsilon": 1}, "AdamW has no setting 'epsilon'.*eps"),
    ],
)
def test_what_cannot_be_made_is_refused(options, names):
    with pytest.raises(ValueError, match=names):
        check_optimizer({"lr": 0.1, **options})


WARM_UP, END = 10, 110
CURVES = {
    "constant": lambda step: 1.0,
    "cosine": lambda step: (1 + math.cos(math.pi * (step - WARM_UP) / (END - WARM_UP))) / 2,
    "linear": lambda step: (END - step) / (END - WARM_UP),
    "wsd": lambda step: min(1.0, (END - step) / 22),  # a fifth of 110 steps
}


@pytest.mark.parametrize("schedule", CURVES)
def test_the_rate_is_its_formula_at_every_step(schedule):
    rates = [
        lr_factor(step, schedule=schedule, warmup_steps=WARM_UP, num_steps=END)
        for step in range(END + 1)
    ]
    risen = [(step + 1) / WARM_UP for step in range(WARM_UP)]
    expected = risen + [CURVES[schedule](step) for step in range(WARM_UP, END + 1)]
    assert rates == pytest.approx(expected, abs=1e-15)
    assert (rates[-1] == 0) == (schedule != "constant")
    after = lr_factor(END + 5, schedule=schedule, warmup_steps=WARM_UP, num_steps=END)
    assert after == rates[-1]  # never below 0


@pytest.mark.parametrize(("given", "steps"), [(20, 20), (0.5, 55), (1e-9, 1), (500, 100)])
def test_wsd_falls_in_the_last_steps_or_a_share_of_them(given, steps):
    """After the warm-up at the earliest, so that the peak is reached."""
    options = {"warmup_steps": WARM_UP, "num_steps": END, "decay_steps": given}
    rates = [lr_factor(step, schedule="wsd", **options) for step in range(END + 1)]
    assert rates[WARM_UP : END - steps + 1] == [1.0] * (END - steps + 1 - WARM_UP)
    assert rates[END - steps :] == pytest.approx([k / steps for k in range(steps, -1, -1)])


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"lr_schedule": "cosin"}, "did you mean 'cosine'"),
        ({"lr": 0}, r"optim\.lr=0"),
        ({"warmup_steps": 1.5}, r"optim\.warmup_steps=1\.5"),
        ({"decay_steps": 5}, r"optim\.decay_steps=5 .*optim\.lr_schedule=wsd"),
        ({"lr_schedule": "wsd", "decay_steps": 0}, r"optim\.decay_steps=0: .*share"),
        ({"lr_schedule": "wsd", "decay_steps": 1.5}, r"optim\.decay_steps=1\.5: .*share"),
        ({"lr_schedule": "wsd", "decay_steps": "5"}, r"optim\.decay_steps=5: .*share"),
        ({"lr_schedule": "wsd", "decay_steps": True}, r"optim\.decay_steps=True: .*share"),
    ],
)
def test_values_that_cannot_be_are_named(options, names):
    with pytest.raises(ValueError, match=names):
        check_learning_rate(**{"lr": 1e-3, "lr_schedule": "cosine", "warmup_steps": 0, **options})


def test_a_run_without_an_end_has_no_rate_that_falls_towards_it(tmp_path):
    with pytest.raises(ValueError, match=r"wsd .*set trainer\.max_steps .*=constant"):
        fit(make_module(lr_schedule="wsd"), tmp_path, steps=-1)


class Rates(Callback):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_before_optimizer_step(self, trainer, module, optimizer) -> None:
        self.seen.append(optimizer.param_groups[0]["lr"])


def test_a_run_takes_the_rate_of_its_schedule(tmp_path):
    """Two steps up, four at the peak, four down; the step after the last would have rate 0."""
    rates = Rates()
    options = {"lr_schedule": "wsd", "warmup_steps": 2, "decay_steps": 4}
    fit(make_module(lr=0.5, **options), tmp_path, [rates], steps=10)
    shares = [1 / 2, 1, 1, 1, 1, 1, 1, 3 / 4, 1 / 2, 1 / 4]
    assert rates.seen == pytest.approx([0.5 * share for share in shares])
